import { colourOf, SHAPES, shapeOf } from "../palette";

/** Colour and shape of a class, as on the map. */
export function Swatch({ index }: { index: number }) {
  return (
    <svg class="swatch" viewBox="-1.25 -1.25 2.5 2.5" aria-hidden="true">
      <path d={SHAPES[shapeOf(index)]} fill={colourOf(index)} />
    </svg>
  );
}
