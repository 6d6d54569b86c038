/** Mouse, pen and fingers on the map: drag, wheel, pinch, lasso, tap, hover. */
export interface Gestures {
  lassoing(): boolean;
  pan(dx: number, dy: number): void;
  zoom(factor: number, x: number, y: number): void;
  hover(x: number, y: number): void;
  leave(): void;
  tap(x: number, y: number): void;
  lasso(line: [number, number][], done: boolean): void;
}

export function listen(canvas: HTMLCanvasElement, does: Gestures): void {
  const down = new Map<number, [number, number]>();
  let line: [number, number][] | null = null;
  let moved = 0;
  const at = (event: PointerEvent | WheelEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, at(event));
    if (down.size === 1) {
      moved = 0;
      line = event.shiftKey || does.lassoing() ? [at(event)] : null;
    } else if (line) {
      line = null; // a second finger: it was a pinch
      does.lasso([], false);
    }
    does.leave();
  });

  canvas.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    const now = at(event);
    if (!before) {
      if (event.pointerType !== "touch" && !event.buttons) does.hover(...now);
      return;
    }
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    if (line) {
      const last = line[line.length - 1];
      if (Math.hypot(now[0] - last[0], now[1] - last[1]) > 2) line.push(now);
      does.lasso(line, false);
    } else if (down.size === 1) {
      moved += Math.hypot(dx, dy);
      if (moved > 4) does.pan(dx, dy);
    } else {
      const other = [...down].find(([id]) => id !== event.pointerId)![1];
      const apart = (p: [number, number]): number => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
      moved = 99;
      does.zoom(apart(now) / apart(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      does.pan(dx / 2, dy / 2);
    }
    down.set(event.pointerId, now);
  });

  const up = (event: PointerEvent): void => {
    if (!down.delete(event.pointerId) || down.size) return;
    if (line) {
      const closed = event.type === "pointerup" && line.length > 2 ? line : [];
      line = null;
      does.lasso(closed, true);
    } else if (moved <= 4 && event.type === "pointerup") {
      does.tap(...at(event));
    }
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => does.leave());
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 24 : 1;
      does.zoom(Math.exp(-Math.max(-240, Math.min(240, event.deltaY * lines)) * (event.ctrlKey ? 0.01 : 0.002)), ...at(event));
    },
    { passive: false },
  );
}
