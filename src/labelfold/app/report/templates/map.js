
// The map: rows on a canvas, coloured by a channel of values, with zoom, filter and lasso.
const COLOURS = ["#2f7ed8", "#d9622b", "#2a9d68", "#b459c4", "#b8860b", "#1f97a8", "#d6476a", "#7a6fd0", "#6f8f2f",
  "#9a7355"];
const SHAPES = ["circle", "square", "triangle-up", "diamond"];
const SCALE = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b",
  "#fde725"];  // viridis
const NONE = 65535, MOST = COLOURS.length * SHAPES.length, FADES = 8, SLOW = 20;

function startMap(map) {
  const canvas = byId("map-canvas"), tip = byId("map-tip"), note = byId("map-note"), lassoButton = byId("map-lasso");
  const labelled = unpack(map.labelled, Uint8Array), places = unpack(map.rows, Uint32Array);
  const rowName = (i) => map.names ? map.names[i] : `row ${places[i]}`;
  const number = (v) => Number(v.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 10 });
  const channels = [];  // those of the method that is shown, then the columns
  let method, channel, hidden, chosen = null, view, home, sprites = new Map(), lasso = null, frame = 0, picture = null;

  function decode(raw) {
    if (raw.get) return raw;
    const values = unpack(raw.values, raw.names ? Uint16Array : raw.coarse ? Uint8Array : Float32Array);
    const step = (raw.high - raw.low) / 254;
    raw.get = raw.coarse ? (i) => raw.low + values[i] * step : (i) => values[i];
    // the class of a row, MOST where colours run out, or its place on the scale of colours; NONE where there is none
    raw.place = raw.names ? (i) => values[i] === NONE ? NONE : Math.min(values[i], MOST) : (i) => {
      const share = (raw.get(i) - raw.low) / ((raw.high - raw.low) || 1);
      return Number.isNaN(share) ? NONE : Math.round(Math.min(Math.max(share, 0), 1) * (SCALE.length - 1));
    };
    raw.show = (i) => raw.names ? raw.names[values[i]] ?? "none"
      : Number.isNaN(raw.get(i)) ? "none" : raw.name === "confidence" ? `${Math.round(100 * raw.get(i))}%` : number(raw.get(i));
    return raw;
  }

  function look(place) {
    if (place === NONE) return [themeColour("--grey"), "circle"];
    if (!channel.names) return [SCALE[place], "circle"];
    return place === MOST ? [themeColour("--grey"), "circle"]
      : [COLOURS[place % COLOURS.length], SHAPES[Math.floor(place / COLOURS.length)]];
  }

  // one small picture for each look a point can have
  function sprite(place, fade, big, ratio) {
    const key = (place * FADES + fade) * 2 + big;
    if (sprites.has(key)) return sprites.get(key);
    const radius = (big ? 5.5 : map.n > 5000 ? 2.2 : 3) * ratio, side = Math.ceil(2 * radius + 4 * ratio), middle = side / 2;
    const drawing = Object.assign(document.createElement("canvas"), { width: side, height: side });
    const pen = drawing.getContext("2d"), [colour, shape] = look(place);
    pen.globalAlpha = big ? (fade ? 1 : 0.25) : 0.12 + 0.78 * fade / (FADES - 1);
    pen.beginPath();
    if (shape === "circle") pen.arc(middle, middle, radius, 0, 7);
    else if (shape === "square") pen.rect(middle - radius, middle - radius, 2 * radius, 2 * radius);
    else {
      const corners = shape === "diamond" ? [[0, -1], [1, 0], [0, 1], [-1, 0]] : [[0, -1], [1, 0.8], [-1, 0.8]];
      corners.forEach(([x, y]) => pen.lineTo(middle + 1.2 * radius * x, middle + 1.2 * radius * y));
      pen.closePath();
    }
    pen.fillStyle = colour;
    pen.fill();
    if (big) Object.assign(pen, { strokeStyle: "#ffffff", lineWidth: 1.3 * ratio }).stroke();
    sprites.set(key, drawing);
    return drawing;
  }

  function setMethod(index) {
    const raw = map.methods[index];
    method = raw.points ? raw : Object.assign(raw, { x: unpack(raw.x, Float32Array), y: unpack(raw.y, Float32Array),
      fade: unpack(raw.strength, Uint8Array).map((s) => Math.round(s / 255 * (FADES - 1))), points: true });
    channels.splice(0, channels.length, ...method.channels, ...map.columns);
    const select = byId("map-colour"), before = select.selectedOptions[0]?.textContent;
    const options = channels.map((c, i) => Object.assign(document.createElement("option"), { textContent: c.name, value: i }));
    const some = map.columns.length < map.n_columns;
    const group = Object.assign(document.createElement("optgroup"), { label: some
      ? `column, the ${map.columns.length} of ${map.n_columns} that tell most` : "column" });
    group.append(...options.slice(method.channels.length));
    select.replaceChildren(...options.slice(0, method.channels.length), ...(map.columns.length ? [group] : []));
    select.value = Math.max(options.findIndex((o) => o.textContent === before), 0);
    home = bounds();
    view = { ...home };
    byId("map-how").textContent = method.how;
    canvas.ariaLabel = canvas.ariaLabel.replace(/ by .*?, coloured/, ` by ${method.title}, coloured`);
    setChannel();
  }

  // far rows are left outside at first, so that they do not squeeze the others: the middle 80% and 1.5 times its width
  function bounds() {
    const ends = [method.x, method.y].map((values) => {
      const sorted = values.slice().sort(), at = (q) => sorted[Math.round(q * (sorted.length - 1))];
      const reach = 1.5 * (at(0.9) - at(0.1));
      const [least, most] = [Math.max(sorted[0], at(0.1) - reach), Math.min(sorted.at(-1), at(0.9) + reach)];
      const pad = 0.05 * ((most - least) || 1);
      return [least - pad, most + pad];
    });
    return { x0: ends[0][0], x1: ends[0][1], y0: ends[1][0], y1: ends[1][1] };
  }

  function setChannel() {
    channel = decode(channels[Number(byId("map-colour").value)]);
    hidden = new Set();
    const box = byId("map-legend"), counts = new Map();
    for (let i = 0; i < map.n; i++) counts.set(channel.place(i), (counts.get(channel.place(i)) || 0) + 1);
    const items = [];
    if (channel.names) {
      channel.names.slice(0, MOST).forEach((name, place) => counts.has(place) && items.push([place, name]));
      if (counts.has(MOST)) items.push([MOST, `${channel.names.length - MOST} other classes`]);
      if (counts.has(NONE)) items.push([NONE, "none"]);
    } else {
      const bar = document.createElement("span");
      bar.className = "scale";
      bar.style.background = `linear-gradient(to right, ${SCALE.join(",")})`;
      const ends = [channel.low, channel.high].map((v) => channel.name === "confidence" ? `${100 * v}%` : number(v));
      const line = document.createElement("span");
      line.append(ends[0], bar, ends[1]);
      box.replaceChildren(line);
      if (counts.has(NONE)) items.push([NONE, "none"]);
    }
    if (channel.names) box.replaceChildren();
    for (const [place, name] of items) {
      const [colour, shape] = look(place);
      box.append(legendButton(`${name} (${counts.get(place).toLocaleString("en")})`, GLYPHS[shape], colour, true, (shown) => {
        if (shown) hidden.delete(place); else hidden.add(place);
        redraw();
      }));
    }
    for (const [is, name] of [[1, "labelled"], [0, "unlabelled"]])
      if (labelled.includes(is) && labelled.includes(1 - is))
        box.append(legendButton(name, is ? "⬤" : "•", "inherit", true, (shown) => {
          if (shown) hidden.delete(`role ${is}`); else hidden.add(`role ${is}`);
          redraw();
        }));
    sprites.clear();
    redraw();
  }

  const isShown = (i) => !hidden.has(channel.place(i)) && !hidden.has(`role ${labelled[i]}`);

  function scales() {
    const { clientWidth: w, clientHeight: h } = canvas;
    return { w, h, kx: w / (view.x1 - view.x0), ky: h / (view.y1 - view.y0) };
  }

  function draw() {
    const { w, h, kx, ky } = scales(), ratio = printing ? 2 : devicePixelRatio || 1, pen = canvas.getContext("2d");
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) sprites.clear();
    Object.assign(canvas, { width: Math.round(w * ratio), height: Math.round(h * ratio) });
    const began = performance.now();
    for (const big of [0, 1]) for (let i = 0; i < map.n; i++) {
      if (labelled[i] !== big || !isShown(i)) continue;
      const x = (method.x[i] - view.x0) * kx, y = h - (method.y[i] - view.y0) * ky;
      if (x < -9 || y < -9 || x > w + 9 || y > h + 9) continue;
      const faded = chosen && !chosen.has(i);
      const image = sprite(channel.place(i), faded ? 0 : big ? 1 : method.fade[i], big, ratio);
      pen.drawImage(image, Math.round(x * ratio - image.width / 2), Math.round(y * ratio - image.height / 2));
    }
    map.took = performance.now() - began;
    picture = { ...view, image: map.took > SLOW ? copyOf(canvas) : null };
    drawNames(pen, w, h, ratio);
    outline(pen, ratio);
    const outside = countOutside();
    note.textContent = outside ? `${outside.toLocaleString("en")} of ${map.n.toLocaleString("en")} rows lie outside of this view.` : "";
  }

  function copyOf(image) {
    const copy = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
    copy.getContext("2d").drawImage(image, 0, 0);
    return copy;
  }

  // while a large map moves, the picture of it moves; it is drawn anew when it rests
  let rest = 0;
  function moved() {
    tip.hidden = true;
    if (!picture?.image) return redraw();
    clearTimeout(rest);
    rest = setTimeout(redraw, 120);
    if (!frame) frame = requestAnimationFrame(() => {
      frame = 0;
      const { w, h, kx, ky } = scales(), ratio = canvas.width / w, pen = canvas.getContext("2d");
      pen.clearRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(picture.image, (picture.x0 - view.x0) * kx * ratio, (view.y1 - picture.y1) * ky * ratio,
        (picture.x1 - picture.x0) * kx * ratio, (picture.y1 - picture.y0) * ky * ratio);
    });
  }

  function redraw() {
    clearTimeout(rest);
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); });
  }

  function drawNames(pen, w, h, ratio) {
    if (!method.axes) return;
    Object.assign(pen, { fillStyle: themeColour("--soft") || "#56606e", font: `${12 * ratio}px system-ui, sans-serif` });
    pen.fillText(`${method.axes[0]} →`, 8 * ratio, (h - 8) * ratio);
    pen.save();
    pen.translate(16 * ratio, (h - 26) * ratio);
    pen.rotate(-Math.PI / 2);
    pen.fillText(`${method.axes[1]} →`, 0, 0);
    pen.restore();
  }

  function countOutside() {
    let n = 0;
    for (let i = 0; i < map.n; i++)
      n += method.x[i] < view.x0 || method.x[i] > view.x1 || method.y[i] < view.y0 || method.y[i] > view.y1;
    return n;
  }

  function zoom(times, px, py) {
    const { w, h } = scales();
    px ??= w / 2;
    py ??= h / 2;
    const x = view.x0 + (view.x1 - view.x0) * px / w, y = view.y1 - (view.y1 - view.y0) * py / h;
    const grown = (from) => from / times;
    view = { x0: x - grown(x - view.x0), x1: x + grown(view.x1 - x), y0: y - grown(y - view.y0), y1: y + grown(view.y1 - y) };
    canvas.style.touchAction = "none";
    moved();
  }

  function pan(dx, dy) {
    const { kx, ky } = scales();
    view = { x0: view.x0 - dx / kx, x1: view.x1 - dx / kx, y0: view.y0 + dy / ky, y1: view.y1 + dy / ky };
    moved();
  }

  function reset() {
    const far = { x0: Infinity, x1: -Infinity, y0: Infinity, y1: -Infinity };
    for (let i = 0; i < map.n; i++) {
      far.x0 = Math.min(far.x0, method.x[i]); far.x1 = Math.max(far.x1, method.x[i]);
      far.y0 = Math.min(far.y0, method.y[i]); far.y1 = Math.max(far.y1, method.y[i]);
    }
    const [px, py] = [0.05 * ((far.x1 - far.x0) || 1), 0.05 * ((far.y1 - far.y0) || 1)];
    view = { x0: far.x0 - px, x1: far.x1 + px, y0: far.y0 - py, y1: far.y1 + py };
    canvas.style.touchAction = "";
    redraw();
  }

  function nearest(px, py, most) {
    const { h, kx, ky } = scales();
    let best = -1, least = most * most;
    for (let i = 0; i < map.n; i++) {
      const dx = (method.x[i] - view.x0) * kx - px, dy = h - (method.y[i] - view.y0) * ky - py;
      const away = dx * dx + dy * dy - labelled[i] * 9;
      if (away < least && isShown(i)) { best = i; least = away; }
    }
    return best;
  }

  function tell(px, py) {
    const i = nearest(px, py, touch ? 22 : 10);
    tip.hidden = i < 0;
    if (i < 0) return;
    const { w, h, kx, ky } = scales();
    const shown = [...method.channels.slice(method.channels.length > 8 ? 0 : 1, 8), channel].filter((c, k, all) => all.indexOf(c) === k);
    const lines = [rowName(i), ...shown.map((c) => `${c.name}: ${decode(c).show(i)}`)];
    tip.replaceChildren(...lines.map((line) => Object.assign(document.createElement("div"), { textContent: line })));
    if (map.pictures) {
      const seen = Object.assign(document.createElement("canvas"), { className: "picture large" });
      drawPicture(seen, map.pictures, i);
      tip.append(seen);
    }
    const x = (method.x[i] - view.x0) * kx, y = h - (method.y[i] - view.y0) * ky;
    tip.style.left = `${Math.min(Math.max(x + 12, 0), w - tip.offsetWidth)}px`;
    tip.style.top = `${Math.max(y - tip.offsetHeight - 12, 0)}px`;
  }

  function outline(pen, ratio) {
    if (!lasso) return;
    pen.beginPath();
    lasso.forEach(([x, y]) => pen.lineTo(x * ratio, y * ratio));
    pen.closePath();
    Object.assign(pen, { strokeStyle: themeColour("--ink"), lineWidth: 1.5 * ratio });
    pen.setLineDash([5 * ratio, 4 * ratio]);
    pen.stroke();
    pen.setLineDash([]);
  }

  // lists the rows inside a path, or all in view where there is none, which also serves those who use no mouse
  function choose(corners, where) {
    const { w, h, kx, ky } = scales(), pen = document.createElement("canvas").getContext("2d"), path = new Path2D();
    (corners || [[0, 0], [w, 0], [w, h], [0, h]]).forEach(([x, y]) => path.lineTo(x, y));
    path.closePath();
    const inside = [];
    for (let i = 0; i < map.n; i++) if (isShown(i)
      && pen.isPointInPath(path, (method.x[i] - view.x0) * kx, h - (method.y[i] - view.y0) * ky)) inside.push(i);
    chosen = corners && inside.length ? new Set(inside) : null;
    byId("map-chosen").hidden = !inside.length;
    if (inside.length) showList("map-chosen", "map-list", `${inside.length.toLocaleString("en")} rows ${where}`, inside.map(rowName));
    lasso = null;
    redraw();
  }

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const down = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, at(event));
    if (down.size === 1 && (lassoButton.ariaPressed === "true" || event.shiftKey)) lasso = [at(event)];
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event), before = down.get(event.pointerId);
    if (!before) return tell(x, y);
    if (lasso) { lasso.push([x, y]); redraw(); }
    else if (down.size === 2) {
      const other = [...down].find(([id]) => id !== event.pointerId)[1];
      const apart = ([p, q]) => Math.max(Math.hypot(p - other[0], q - other[1]), 1);
      zoom(apart([x, y]) / apart(before), (x + other[0]) / 2, (y + other[1]) / 2);
    } else pan(x - before[0], y - before[1]);
    down.set(event.pointerId, [x, y]);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => {
    down.delete(event.pointerId);
    if (lasso && end === "pointerup" && lasso.length > 2) choose(lasso, "in the lasso");
    else if (lasso) { lasso = null; chosen = null; byId("map-chosen").hidden = true; redraw(); }
    else if (end === "pointerup") tell(...at(event));
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  // an unclicked map leaves the wheel to the page
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 500), ...at(event));
  }, { passive: false });
  canvas.addEventListener("dblclick", () => { view = { ...home }; redraw(); });
  canvas.addEventListener("keydown", (event) => {
    const step = 40, keys = { ArrowLeft: () => pan(step, 0), ArrowRight: () => pan(-step, 0), ArrowUp: () => pan(0, step),
      ArrowDown: () => pan(0, -step), "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: reset };
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  lassoButton.addEventListener("click", () => {
    lassoButton.ariaPressed = String(lassoButton.ariaPressed !== "true");
    canvas.style.touchAction = lassoButton.ariaPressed === "true" ? "none" : "";
  });
  byId("map-rows").addEventListener("click", () => choose(null, "in view"));
  byId("map-in").addEventListener("click", () => zoom(1.4));
  byId("map-out").addEventListener("click", () => zoom(1 / 1.4));
  byId("map-all").addEventListener("click", reset);
  byId("map-colour").addEventListener("change", setChannel);
  byId("map-method")?.addEventListener("change", (event) => { chosen = null; setMethod(Number(event.target.value)); });
  new ResizeObserver(redraw).observe(canvas);
  window.redrawMap = () => { sprites.clear(); draw(); };
  window.labelfoldMap = { pan, zoom, place: (i) => {
    const { h, kx, ky } = scales();
    return [(method.x[i] - view.x0) * kx, h - (method.y[i] - view.y0) * ky];
  } };
  setMethod(0);
}

if (data.map) startMap(data.map);
drawn.then(() => requestAnimationFrame(() => { document.documentElement.dataset.drawn = "yes"; }));
