import type { View } from "./view";

/** What painters draw: four bytes a row, positions as pairs, and the rows that have a label. */
export interface Painter {
  /** A sentence where it cannot show everything. */
  readonly words: string;
  /** Whether there is no graphics card behind it. */
  readonly slow: boolean;
  /** Most pixels of the screen for one of the page. */
  readonly ratio: number;
  /** Show positions `to`; at time 0 they stand at `from`. */
  points(from: Float32Array, to: Float32Array): void;
  looks(bytes: Uint8Array, labelled: Uint32Array): void;
  /** Draw every `step`-th row at time t between 0 and 1. */
  draw(view: View, t: number, step: number, pixels: number): void;
}

/** The bytes of a row: colour (0: none; i: the i-th of ten), confidence, whether it is faint, shape. */
export const BYTES = 4;

/** Diameter of a row without a label in pixels of the page: smaller where there are many, larger close up. */
export function diameter(n: number, zoom: number): number {
  const start = n <= 3000 ? 6.5 : Math.max(2, 6.5 - 1.6 * Math.log10(n / 3000));
  return Math.min(start * Math.max(1, zoom) ** 0.35, 16);
}

/** How solid the surest row is. */
export const solid = (n: number, zoom: number): number =>
  Math.min(0.92, (n <= 10_000 ? 0.85 : n <= 200_000 ? 0.7 : 0.5) * Math.max(1, zoom) ** 0.15);

export const LABELLED = 13; // diameter of a row with a label
export const labelledSize = (n: number, zoom: number): number =>
  Math.max(LABELLED - (n > 20_000 ? 2 : 0), 1.3 * diameter(n, zoom));
