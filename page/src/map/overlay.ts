/** What lies over the rows: names of the classes, rings around rows that matter, the lasso. */
import { isDark } from "../media";
import { colourOf } from "../palette";
import type { View } from "./view";

export interface Name { text: string; index: number; from: [number, number]; to: [number, number] }
export interface Mark { kind: "question" | "pinned" | "hover"; place: [number, number]; index: number }

export interface Over {
  names: Name[];
  marks: Mark[];
  lasso: [number, number][];
  t: number;
  /** 0 to 1: how far the question's ring has closed in on its row. */
  arrival: number;
}

export function drawOver(pen: CanvasRenderingContext2D, view: View, pixels: number, over: Over): void {
  const dark = isDark();
  const [ink, paper, accent] = dark ? ["#f4f7fa", "#0d1117", "#8ec1ff"] : ["#151a22", "#ffffff", "#0b57b5"];
  pen.setTransform(pixels, 0, 0, pixels, 0, 0);
  pen.clearRect(0, 0, view.width, view.height);
  pen.lineJoin = "round";

  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.font = "600 13px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  for (const { text, from, to } of over.names) {
    const [x, y] = view.toScreen(from[0] + over.t * (to[0] - from[0]), from[1] + over.t * (to[1] - from[1]));
    if (x < 0 || y < 0 || x > view.width || y > view.height) continue;
    const half = pen.measureText(text).width / 2 + 4;
    const inside = Math.max(half, Math.min(x, view.width - half));
    pen.strokeStyle = paper;
    pen.lineWidth = 4;
    pen.globalAlpha = 0.82;
    pen.strokeText(text, inside, y);
    pen.globalAlpha = 1;
    pen.fillStyle = ink;
    pen.fillText(text, inside, y);
  }

  for (const { kind, place, index } of over.marks) {
    let [x, y] = place;
    if (kind !== "hover" && (x < 0 || y < 0 || x > view.width || y > view.height)) {
      [x, y] = edge(pen, view, place, accent);
      continue;
    }
    const radius = kind === "question" ? 11 + 26 * (1 - over.arrival) : kind === "pinned" ? 11 : 8;
    pen.fillStyle = index < 0 ? paper : colourOf(index);
    pen.beginPath();
    pen.arc(x, y, 5, 0, 7);
    pen.fill();
    for (const [width, colour] of [[5, paper], [2.2, kind === "question" ? accent : ink]] as const) {
      pen.lineWidth = width;
      pen.strokeStyle = colour;
      pen.beginPath();
      pen.arc(x, y, radius, 0, 7);
      if (kind !== "hover") {
        for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
          pen.moveTo(x + dx * radius, y + dy * radius);
          pen.lineTo(x + dx * (radius + 7), y + dy * (radius + 7));
        }
      }
      pen.stroke();
    }
  }

  if (over.lasso.length > 1) {
    pen.beginPath();
    over.lasso.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.closePath();
    pen.globalAlpha = 0.12;
    pen.fillStyle = accent;
    pen.fill();
    pen.globalAlpha = 1;
    pen.lineWidth = 1.6;
    pen.strokeStyle = accent;
    pen.setLineDash([5, 4]);
    pen.stroke();
    pen.setLineDash([]);
  }
}

/** An arrow at the edge, towards a row that is out of sight. */
function edge(pen: CanvasRenderingContext2D, view: View, [x, y]: [number, number], colour: string): [number, number] {
  const [cx, cy] = [view.width / 2, view.height / 2];
  const share = Math.min((cx - 18) / Math.abs(x - cx || 1e-9), (cy - 18) / Math.abs(y - cy || 1e-9));
  const [ex, ey] = [cx + (x - cx) * share, cy + (y - cy) * share];
  pen.save();
  pen.translate(ex, ey);
  pen.rotate(Math.atan2(y - cy, x - cx));
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(11, 0);
  pen.lineTo(-7, 8);
  pen.lineTo(-3, 0);
  pen.lineTo(-7, -8);
  pen.fill();
  pen.restore();
  return [ex, ey];
}
