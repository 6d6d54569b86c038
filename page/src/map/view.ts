/** What part of the map is seen: a centre and pixels for one unit of the map; y points up in the map, down on the screen. */
export interface Box { left: number; right: number; bottom: number; top: number }

export class View {
  x = 0;
  y = 0;
  zoom = 1;
  width = 1;
  height = 1;
  /** Whether everything is meant to be seen, now and after the rows have moved. */
  follows = true;
  private whole: Box = { left: -1, right: 1, bottom: -1, top: 1 };

  /** Pixels that one unit of the map takes. */
  get scale(): number {
    return this.zoom * this.unit(this.whole);
  }

  private unit(box: Box): number {
    const margin = Math.min(28, 0.06 * Math.min(this.width, this.height));
    const wide = (this.width - 2 * margin) / Math.max(box.right - box.left, 1e-6);
    const high = (this.height - 2 * margin) / Math.max(box.top - box.bottom, 1e-6);
    return Math.max(Math.min(wide, high), 1e-6);
  }

  /** Tell what is everything. The view stays where it is, unless it follows. */
  bounds(box: Box): void {
    const scale = this.scale;
    this.whole = box;
    if (this.follows) this.all();
    else this.zoom = scale / this.unit(box);
  }

  all(): void {
    this.follows = true;
    this.zoom = 1;
    this.x = (this.whole.left + this.whole.right) / 2;
    this.y = (this.whole.bottom + this.whole.top) / 2;
  }

  toScreen(x: number, y: number): [number, number] {
    return [this.width / 2 + (x - this.x) * this.scale, this.height / 2 - (y - this.y) * this.scale];
  }

  toMap(px: number, py: number): [number, number] {
    return [this.x + (px - this.width / 2) / this.scale, this.y - (py - this.height / 2) / this.scale];
  }

  pan(dx: number, dy: number): void {
    this.follows = false;
    this.x -= dx / this.scale;
    this.y += dy / this.scale;
  }

  /** Zoom, with the place under (px, py) staying there. */
  zoomAt(factor: number, px = this.width / 2, py = this.height / 2): void {
    this.follows = false;
    const [x, y] = this.toMap(px, py);
    this.zoom = Math.min(Math.max(this.zoom * factor, 0.2), 4000);
    const [nx, ny] = this.toMap(px, py);
    this.x += x - nx;
    this.y += y - ny;
  }
}
