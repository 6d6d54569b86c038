/** The honest accuracy, how it came about, and what more labels would bring. */
import type { Expected } from "../api";
import { state } from "../store";
import { count, exact, percent } from "./words";

const WIDE = 380;
const HIGH = 112;
const EDGE = { left: 34, right: 8, top: 8, bottom: 20 };

function Curve({ curve, forecast }: { curve: Expected[]; forecast: Expected | null }) {
  const seen = curve.filter((point) => point.labels !== undefined);
  if (seen.length < 2) return null;
  const all = forecast ? [...seen, forecast] : seen;
  const start = seen[0].labels!;
  const end = Math.max(...all.map((point) => point.labels!), start + 1);
  // early intervals are as wide as the page; the axis follows the second half
  const low = Math.floor(10 * Math.min(...seen.slice(seen.length >> 1).map((p) => p.low), ...all.map((p) => p.value))) / 10;
  const x = (labels: number): number => EDGE.left + ((labels - start) / (end - start)) * (WIDE - EDGE.left - EDGE.right);
  const y = (value: number): number =>
    EDGE.top + (1 - (Math.max(value, low) - low) / Math.max(1 - low, 0.1)) * (HIGH - EDGE.top - EDGE.bottom);
  const at = (p: Expected, value: number): string => `${x(p.labels!).toFixed(1)},${y(value).toFixed(1)}`;
  const band = [...seen.map((p) => at(p, p.high)), ...[...seen].reverse().map((p) => at(p, p.low))].join(" ");
  const last = seen[seen.length - 1];
  const marks = [low, (1 + low) / 2, 1];
  return (
    <svg class="curve" viewBox={`0 0 ${WIDE} ${HIGH}`} role="img" aria-label={
      `Expected accuracy from ${percent(seen[0].value)} at ${start} labels to ${percent(last.value)} at ${last.labels} labels`
    }>
      {marks.map((value) => (
        <g key={value}>
          <line class="grid" x1={EDGE.left} x2={WIDE - EDGE.right} y1={y(value)} y2={y(value)} />
          <text x={EDGE.left - 5} y={y(value) + 3.5} text-anchor="end">{percent(value)}</text>
        </g>
      ))}
      <text x={x(start)} y={HIGH - 5}>{start} labels</text>
      <text x={x(end)} y={HIGH - 5} text-anchor="end">{end}</text>
      <polygon class="band" points={band} />
      <polyline class="line" points={seen.map((p) => at(p, p.value)).join(" ")} />
      <circle class="dot" cx={x(last.labels!)} cy={y(last.value)} r="3" />
      {forecast && (
        <g class="forecast">
          <polyline points={`${at(last, last.value)} ${at(forecast, forecast.value)}`} />
          <line x1={x(forecast.labels!)} x2={x(forecast.labels!)} y1={y(forecast.low)} y2={y(forecast.high)} />
          <circle cx={x(forecast.labels!)} cy={y(forecast.value)} r="3" />
        </g>
      )}
    </svg>
  );
}

export function Accuracy() {
  const { accuracy, curve, forecast, labelled } = state.value!;
  return (
    <section aria-labelledby="accuracy">
      <h2 id="accuracy">Expected accuracy</h2>
      {accuracy ? (
        <p class="figure">
          <strong>{exact(accuracy.value)}</strong>
          <span>
            90% interval {exact(accuracy.low)} to {exact(accuracy.high)},<br />
            from {count(accuracy.n ?? 0)} {accuracy.n === 1 ? "row" : "rows"} drawn at random
          </span>
        </p>
      ) : (
        <p class="note">
          Not known yet. It is measured on questions drawn at random, at least one in four, each predicted before it was
          labelled.
        </p>
      )}
      <Curve curve={curve} forecast={forecast} />
      {forecast && (
        <p class="note">
          {count(Math.max(0, (forecast.labels ?? labelled) - labelled))} more labels: about {exact(forecast.value)} (
          {exact(forecast.low)} to {exact(forecast.high)}).
        </p>
      )}
    </section>
  );
}
