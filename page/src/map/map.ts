/** The map of all rows: where they are, how they look, what is seen of them, and how that moves. */
import { isStill, onTheme } from "../media";
import { shapeOf } from "../palette";
import { FlatPainter } from "./flat";
import { listen } from "./gestures";
import { GLPainter, MOST_STEP } from "./gl";
import { Places } from "./index_worker";
import { drawOver, type Mark, type Name } from "./overlay";
import { BYTES, type Painter } from "./painter";
import { View, type Box } from "./view";

const MOVES = 400; // milliseconds
const UNKNOWN = 150; // how solid a row is of which nothing is said yet, as a confidence
const FEW = 50_000; // rows that a software renderer draws in a frame
const SLOW = 45; // a frame of so many milliseconds shows fewer rows while the map is moved

export interface Said { predicted: Int16Array; label: Int16Array; confidence: Uint8Array }
export interface Told {
  hover(row: number): void;
  pick(row: number): void;
  lasso(rows: number[]): void;
  drawn(): void;
}

const ease = (t: number): number => (t >= 1 ? 1 : 1 - (1 - t) ** 3);

export class PointMap {
  readonly view = new View();
  readonly painter: Painter;
  lassoing = false;
  /** Milliseconds of the last frames in motion, and how often the rows went to new places. */
  frames: number[] = [];
  moves = 0;
  private readonly pen: CanvasRenderingContext2D;
  private readonly places = new Places(() => {});
  private from: Float32Array = new Float32Array();
  private to: Float32Array = new Float32Array();
  private said: Said | null = null;
  private mask: Uint8Array | null = null;
  private names: Name[] = [];
  private line: [number, number][] = [];
  private marks: { question: number; pinned: number; hover: number } = { question: -1, pinned: -1, hover: -1 };
  private hideQuestion = false;
  private started = -MOVES;
  private arrived = -MOVES;
  private glide: { start: number; from: [number, number, number]; to: [number, number, number] } | null = null;
  private step = 1;
  private touched = -1e9;
  private last = 0;
  private moving = false;
  private asked = 0;

  constructor(
    private canvas: HTMLCanvasElement,
    private readonly over: HTMLCanvasElement,
    private readonly told: Told,
  ) {
    const painter = GLPainter.on(canvas, () => this.redraw());
    if (!painter) {
      // a canvas that has tried WebGL has no other context
      this.canvas = canvas.cloneNode() as HTMLCanvasElement;
      canvas.after(this.canvas);
      canvas.hidden = true;
    }
    this.painter = painter ?? new FlatPainter(this.canvas);
    this.pen = over.getContext("2d")!;
    new ResizeObserver(() => this.resize()).observe(over);
    onTheme(() => this.redraw());
    this.resize();
    let wanted: [number, number] | null = null;
    listen(over, {
      lassoing: () => this.lassoing,
      pan: (dx, dy) => this.move(() => this.view.pan(dx, dy)),
      zoom: (factor, x, y) => this.move(() => this.view.zoomAt(factor, x, y)),
      hover: (x, y) => {
        if (!wanted) requestAnimationFrame(() => wanted && (this.told.hover(this.at(...wanted)), (wanted = null)));
        wanted = [x, y];
      },
      leave: () => {
        wanted = null;
        this.told.hover(-1);
      },
      tap: (x, y) => this.told.pick(this.at(x, y, 14)),
      lasso: (line, done) => {
        this.line = done ? [] : line;
        this.redraw();
        if (done) this.told.lasso(line.length ? this.places.inside(line.map((p) => this.view.toMap(...p)), this.allowed) : []);
      },
    });
  }

  private readonly allowed = (row: number): boolean => !this.mask || this.mask[row] > 0;

  private at(x: number, y: number, reach = 9): number {
    return this.places.nearest(...this.view.toMap(x, y), reach / this.view.scale, this.allowed);
  }

  /** The next row in a direction of the screen. */
  neighbour(row: number, dx: number, dy: number): number {
    return this.places.next(row, dx, -dy, this.allowed);
  }

  get n(): number {
    return this.to.length / 2;
  }

  /** How far the rows are on their way, 0 to 1. */
  get t(): number {
    return ease(Math.max(0, performance.now() - this.started) / (isStill() ? 1 : MOVES));
  }

  /** Where a row of the map stands on the screen now. */
  place(row: number): [number, number] {
    const t = this.t;
    const i = 2 * row;
    return this.view.toScreen(
      this.from[i] + t * (this.to[i] - this.from[i]),
      this.from[i + 1] + t * (this.to[i + 1] - this.from[i + 1]),
    );
  }

  private now(): Float32Array {
    const t = this.t;
    if (t >= 1) return this.to;
    const { from, to } = this;
    return from.map((value, i) => value + t * (to[i] - value));
  }

  /** Take new positions and what is said of the rows; the map moves there from where it is. */
  update(xy: Float32Array | null, said: Said, classes: string[]): void {
    if (xy) {
      const first = this.to.length !== xy.length;
      while (first && this.painter.slow && xy.length / 2 / this.step > FEW && this.step < MOST_STEP) this.step *= 2;
      this.from = first ? xy : this.now();
      this.to = xy;
      this.painter.points(this.from, this.to);
      this.places.take(xy);
      const { x, y, scale } = this.view;
      this.view.bounds(box(xy));
      if (!first) {
        this.moves++;
        this.started = Infinity; // until the first frame, however long the rows take to get there
        this.glide = null;
        const zoom = (this.view.zoom * scale) / this.view.scale;
        if (this.view.follows) this.glideTo([this.view.x, this.view.y, 1], [x, y, zoom]);
      }
    }
    this.said = said;
    this.name(classes);
    this.dress();
  }

  /** The rows that the filter leaves. */
  filtered(): number[] {
    const rows: number[] = [];
    this.mask?.forEach((kept, i) => kept && rows.push(i));
    return rows;
  }

  /** Rows that a filter leaves; null: all. */
  filter(mask: Uint8Array | null): void {
    this.mask = mask;
    this.dress();
  }

  private dress(): void {
    const { said, n } = this;
    if (!said || said.label.length !== n) return;
    const bytes = new Uint8Array(BYTES * n);
    const labelled: number[] = [];
    for (let i = 0; i < n; i++) {
      const known = said.label[i] >= 0;
      const index = known ? said.label[i] : said.predicted[i];
      if (index >= 0) bytes[BYTES * i] = 1 + (index % 10);
      bytes[BYTES * i + 1] = known ? 255 : index < 0 ? UNKNOWN : said.confidence[i];
      bytes[BYTES * i + 2] = this.mask && !this.mask[i] ? 1 : 0;
      if (known) {
        bytes[BYTES * i + 3] = shapeOf(index);
        labelled.push(i);
      }
    }
    this.painter.looks(bytes, Uint32Array.from(labelled));
    this.redraw();
  }

  /** Put each class's name in the middle (the medians) of a sample of the rows taken for it. */
  private name(classes: string[]): void {
    const xs: number[][] = classes.map(() => []);
    const ys: number[][] = classes.map(() => []);
    const every = Math.ceil(this.n / 20_000);
    for (let i = 0; i < this.n; i += every) {
      const index = this.said!.label[i] >= 0 ? this.said!.label[i] : this.said!.predicted[i];
      if (index < 0 || index >= classes.length) continue;
      xs[index].push(this.to[2 * i]);
      ys[index].push(this.to[2 * i + 1]);
    }
    const before = new Map(this.names.map((name) => [name.text, name]));
    const t = this.t;
    const middle = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1];
    this.names = classes.slice(0, 40).flatMap((name, index) => {
      if (xs[index].length < 2) return [];
      const text = name.length > 22 ? `${name.slice(0, 21)}…` : name;
      const to: [number, number] = [middle(xs[index]), middle(ys[index])];
      const old = before.get(text);
      const from: [number, number] = old
        ? [old.from[0] + t * (old.to[0] - old.from[0]), old.from[1] + t * (old.to[1] - old.from[1])]
        : to;
      return [{ text, index, from, to }];
    });
  }

  /** Mark rows: -1 marks none. A hidden question does not show what it is taken for. */
  mark(question: number, pinned: number, hover: number, hide: boolean): void {
    if (question !== this.marks.question) this.arrived = performance.now();
    this.marks = { question, pinned, hover };
    this.hideQuestion = hide;
    this.redraw();
  }

  zoom(factor: number): void {
    this.move(() => this.view.zoomAt(factor));
  }

  pan(dx: number, dy: number): void {
    this.move(() => this.view.pan(dx, dy));
  }

  all(): void {
    const before: [number, number, number] = [this.view.x, this.view.y, this.view.zoom];
    this.view.all();
    this.glideTo([this.view.x, this.view.y, this.view.zoom], before);
  }

  /** Bring a row into view, if it is not well inside. */
  show(row: number): void {
    if (row < 0 || row >= this.n) return;
    const [x, y] = this.view.toScreen(this.to[2 * row], this.to[2 * row + 1]);
    const [mx, my] = [0.08 * this.view.width, 0.08 * this.view.height];
    if (x > mx && y > my && x < this.view.width - mx && y < this.view.height - my) return;
    this.view.follows = false;
    this.glideTo([this.to[2 * row], this.to[2 * row + 1], this.view.zoom]);
  }

  private glideTo(to: [number, number, number], from: [number, number, number] = [this.view.x, this.view.y, this.view.zoom]): void {
    this.glide = { start: Infinity, from, to };
    this.redraw();
  }

  private move(change: () => void): void {
    this.glide = null;
    change();
    this.touched = performance.now();
    this.redraw();
  }

  private resize(): void {
    const { clientWidth, clientHeight } = this.over;
    if (!clientWidth || !clientHeight) return;
    this.view.width = clientWidth;
    this.view.height = clientHeight;
    const ratio = Math.min(devicePixelRatio || 1, this.painter.ratio);
    for (const canvas of [this.canvas, this.over]) {
      const sharp = canvas === this.over ? Math.min(devicePixelRatio || 1, 2) : ratio;
      canvas.width = Math.round(clientWidth * sharp);
      canvas.height = Math.round(clientHeight * sharp);
    }
    cancelAnimationFrame(this.asked);
    this.asked = 0;
    this.draw(performance.now()); // at once: a canvas of a new size is empty
  }

  redraw(): void {
    this.asked ||= requestAnimationFrame((now) => this.draw(now));
  }

  private draw(now: number): void {
    this.asked = 0;
    const took = now - this.last;
    this.last = now;
    if (this.started === Infinity) this.started = performance.now();
    if (this.glide?.start === Infinity) this.glide.start = now;
    const t = this.t;
    if (this.glide) {
      const share = ease(isStill() ? 1 : Math.max(0, now - this.glide.start) / MOVES);
      const { from, to } = this.glide;
      this.view.x = from[0] + share * (to[0] - from[0]);
      this.view.y = from[1] + share * (to[1] - from[1]);
      this.view.zoom = from[2] * (to[2] / from[2]) ** share;
      if (share >= 1) [[this.view.x, this.view.y, this.view.zoom], this.glide] = [to, null];
    }
    const arrival = ease(isStill() ? 1 : (now - this.arrived) / MOVES);
    const moving = t < 1 || this.glide !== null || now - this.touched < 160;
    if (moving && this.moving) {
      this.frames = [...this.frames.slice(-119), took];
      if (took > SLOW && this.step < MOST_STEP && this.n / this.step > FEW / 2) this.step *= 2;
      else if (took < SLOW / 3 && this.step > 1) this.step /= 2;
    }
    this.moving = moving;
    this.painter.draw(this.view, t, moving ? this.step : 1, this.canvas.width / this.view.width);
    drawOver(this.pen, this.view, this.over.width / this.view.width, {
      names: this.names,
      marks: this.marked(),
      lasso: this.line,
      t,
      arrival,
    });
    if (this.n) this.told.drawn();
    if (moving || arrival < 1) this.redraw();
  }

  private marked(): Mark[] {
    const { question, pinned, hover } = this.marks;
    const known = (row: number): number => (this.said!.label[row] >= 0 ? this.said!.label[row] : this.said!.predicted[row]);
    const mark = (kind: Mark["kind"], row: number, hide = false): Mark[] =>
      row >= 0 && row < this.n && this.said ? [{ kind, place: this.place(row), index: hide ? -1 : known(row) }] : [];
    return [
      ...mark("question", question, this.hideQuestion),
      ...(pinned === question ? [] : mark("pinned", pinned)),
      ...(hover === pinned ? [] : mark("hover", hover, hover === question && this.hideQuestion)),
    ];
  }
}

function box(xy: Float32Array): Box {
  const found: Box = { left: Infinity, right: -Infinity, bottom: Infinity, top: -Infinity };
  for (let i = 0; i < xy.length; i += 2) {
    if (xy[i] < found.left) found.left = xy[i];
    if (xy[i] > found.right) found.right = xy[i];
    if (xy[i + 1] < found.bottom) found.bottom = xy[i + 1];
    if (xy[i + 1] > found.top) found.top = xy[i + 1];
  }
  return found;
}
