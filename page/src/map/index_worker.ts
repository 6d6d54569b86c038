/** Finding rows by place: a k-d tree, built in a worker (this same script) so that a million rows do not stop the page. */
import KDBush from "kdbush";

function build(xy: Float32Array): KDBush {
  const tree = new KDBush(xy.length / 2, 64, Float32Array);
  for (let i = 0; i < xy.length; i += 2) tree.add(xy[i], xy[i + 1]);
  return tree.finish();
}

/** What the script does as a worker. */
export function serve(): void {
  self.onmessage = ({ data }: MessageEvent<Float32Array>) => {
    const tree = build(data);
    (self as unknown as Worker).postMessage(tree.data, [tree.data as ArrayBuffer]);
  };
}

export class Places {
  private worker: Worker | null = null;
  private tree: KDBush | null = null;
  private xy: Float32Array = new Float32Array();
  private building = false;
  private stale = false;

  constructor(private readonly ready: () => void) {
    try {
      this.worker = new Worker("static/page.js");
      this.worker.onmessage = ({ data }) => this.built(KDBush.from(data));
      this.worker.onerror = () => {
        this.worker = null;
        this.built(build(this.xy));
      };
    } catch {
      this.worker = null;
    }
  }

  /** Take new positions. Those of before are searched until the tree is built. */
  take(xy: Float32Array): void {
    this.xy = xy;
    if (this.building) {
      this.stale = true;
    } else if (this.worker) {
      this.building = true;
      this.worker.postMessage(xy);
    } else {
      this.built(build(xy));
    }
  }

  private built(tree: KDBush): void {
    this.tree = tree;
    this.building = false;
    if (this.stale) {
      this.stale = false;
      this.take(this.xy);
    }
    this.ready();
  }

  /** The row nearest to a place, at most `radius` away, or -1. */
  nearest(x: number, y: number, radius: number, allowed: (row: number) => boolean): number {
    let best = -1;
    let least = Infinity;
    for (const i of this.tree?.within(x, y, radius) ?? []) {
      const d = (this.xy[2 * i] - x) ** 2 + (this.xy[2 * i + 1] - y) ** 2;
      if (d < least && allowed(i)) [best, least] = [i, d];
    }
    return best;
  }

  /** The nearest row in a direction (one of the four), or -1. What lies aside of it counts as twice as far. */
  next(row: number, dx: number, dy: number, allowed: (row: number) => boolean): number {
    const [x, y] = [this.xy[2 * row], this.xy[2 * row + 1]];
    for (let radius = 0.01; radius < 8; radius *= 2) {
      let best = -1;
      let least = Infinity;
      for (const i of this.tree?.within(x, y, radius) ?? []) {
        const along = (this.xy[2 * i] - x) * dx + (this.xy[2 * i + 1] - y) * dy;
        const aside = Math.abs((this.xy[2 * i] - x) * dy) + Math.abs((this.xy[2 * i + 1] - y) * dx);
        const far = along + 2 * aside;
        if (i !== row && along > 0 && aside <= along && far < least && allowed(i)) [best, least] = [i, far];
      }
      if (best >= 0) return best;
    }
    return -1;
  }

  /** The rows inside a closed line of the map. */
  inside(line: [number, number][], allowed: (row: number) => boolean): number[] {
    const xs = line.map(([x]) => x);
    const ys = line.map(([, y]) => y);
    const found = this.tree?.range(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)) ?? [];
    return found.filter((i) => within(line, this.xy[2 * i], this.xy[2 * i + 1]) && allowed(i)).sort((a, b) => a - b);
  }
}

/** Whether a point lies inside a closed line: a ray from it crosses the line an odd number of times. */
function within(line: [number, number][], x: number, y: number): boolean {
  let inside = false;
  for (let i = 0, j = line.length - 1; i < line.length; j = i++) {
    const [ax, ay] = line[i];
    const [bx, by] = line[j];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}
