/** A sample of the rows on a 2D canvas, where there is no WebGL. */
import { isDark } from "../media";
import { colourOf, GREY, SHAPES } from "../palette";
import { BYTES, diameter, labelledSize, solid, type Painter } from "./painter";
import type { View } from "./view";

const MOST = 8000;

export class FlatPainter implements Painter {
  readonly ratio = 1;
  readonly slow = false; // it draws a sample already
  words = "";
  private readonly pen: CanvasRenderingContext2D;
  private readonly paths = SHAPES.map((path) => new Path2D(path));
  private from: Float32Array = new Float32Array();
  private to: Float32Array = new Float32Array();
  private bytes: Uint8Array = new Uint8Array();
  private labelled: Uint32Array = new Uint32Array();

  constructor(canvas: HTMLCanvasElement) {
    this.pen = canvas.getContext("2d")!;
  }

  points(from: Float32Array, to: Float32Array): void {
    [this.from, this.to] = [from, to];
    const n = to.length / 2;
    this.words =
      n > MOST
        ? `This browser has no WebGL, so the map shows a sample: one row in ${Math.ceil(n / MOST)}, and all that have a label.`
        : "";
  }

  looks(bytes: Uint8Array, labelled: Uint32Array): void {
    [this.bytes, this.labelled] = [bytes, labelled];
  }

  draw(view: View, t: number, step: number, pixels: number): void {
    const pen = this.pen;
    const n = this.to.length / 2;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, pen.canvas.width, pen.canvas.height);
    if (this.bytes.length !== BYTES * n) return;
    pen.scale(pixels, pixels);
    const place = (i: number): [number, number] =>
      view.toScreen(
        this.from[2 * i] + t * (this.to[2 * i] - this.from[2 * i]),
        this.from[2 * i + 1] + t * (this.to[2 * i + 1] - this.from[2 * i + 1]),
      );
    const size = diameter(n, view.zoom);
    const alpha = solid(n, view.zoom);
    const every = Math.max(1, Math.ceil(n / MOST)) * step;
    for (let i = 0; i < n; i += every) {
      const [x, y] = place(i);
      const faint = this.bytes[BYTES * i + 2] > 0;
      pen.globalAlpha = alpha * (faint ? 0.16 : 0.28 + (0.72 * this.bytes[BYTES * i + 1]) / 255);
      pen.fillStyle = faint ? GREY : colourOf(this.bytes[BYTES * i] - 1);
      pen.fillRect(x - size / 2, y - size / 2, size, size);
    }
    const large = labelledSize(n, view.zoom) / 2;
    pen.strokeStyle = isDark() ? "#f4f7fa" : "#151a22";
    for (const i of this.labelled) {
      const [x, y] = place(i);
      pen.globalAlpha = this.bytes[BYTES * i + 2] ? 0.16 : 1;
      pen.fillStyle = colourOf(this.bytes[BYTES * i] - 1);
      pen.setTransform(pixels * large, 0, 0, pixels * large, pixels * x, pixels * y);
      pen.lineWidth = 1.3 / large;
      const path = this.paths[this.bytes[BYTES * i + 3]];
      pen.fill(path);
      pen.stroke(path);
    }
    pen.globalAlpha = 1;
  }
}
