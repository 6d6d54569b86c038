import { isDark } from "./media";

/**
 * Ten colours that stay apart for protan, deutan and tritan eyes, on light and on dark paper, in the same order of hues.
 * Found by search: the smallest CIELAB distance under Machado's simulations, to each other and to the grey, is 21.
 * `tests/app/label/test_label_page.py` holds them to it.
 */
export const LIGHT = [
  "#2d87ff", "#ff8700", "#3cb469", "#961e5a", "#d287e1", "#783c2d", "#005a96", "#ff4b4b", "#5a6900", "#5a2db4",
];
export const DARK = [
  "#1ea5ff", "#f09600", "#00f0b4", "#b42d5a", "#ffc3ff", "#b4875a", "#2d5ae1", "#c31e00", "#b4e178", "#a53ca5",
];
export const GREY = "#8a93a0";

/** Shapes of labelled rows, in the order of the shader's numbers; as SVG paths in a box from -1 to 1. */
export const SHAPES = [
  "M0-.9A.9.9 0 1 1 0 .9 .9.9 0 1 1 0-.9Z", // disc
  "M-.8-.8H.8V.8H-.8Z", // square
  "M0-1 .95.75H-.95Z", // triangle
  "M0-1 1 0 0 1-1 0Z", // diamond
  "M-.35-1H.35V-.35H1V.35H.35V1H-.35V.35H-1V-.35H-.35Z", // cross
];

/**
 * Colour and shape of a class by its place among the classes. Each further ten classes take the colours again with the
 * shapes turned by one, so that fifty classes all differ.
 */
export const colourOf = (index: number): string => (index < 0 ? GREY : (isDark() ? DARK : LIGHT)[index % 10]);
export const shapeOf = (index: number): number => (index < 0 ? 0 : (index + Math.floor(index / 10)) % 5);

export function rgb(colour: string): [number, number, number] {
  const value = parseInt(colour.slice(1), 16);
  return [((value >> 16) & 255) / 255, ((value >> 8) & 255) / 255, (value & 255) / 255];
}
