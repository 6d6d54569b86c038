"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const figures = data.figures;
const byId = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
const touch = matchMedia("(pointer: coarse)").matches;
const GLYPHS = { circle: "●", square: "■", "triangle-up": "▲", diamond: "◆" };
const LIGHT = { "--ink": "#1d2430", "--line": "#d9dfe7", "--card": "#ffffff", "--grey": "#7d8693" };
let printing = false;

// a colour of the page, or of the paper it is printed on
const themeColour = (name) =>
  printing ? LIGHT[name] : getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function themed() {
  const axes = ["xaxis", "yaxis", "yaxis2"].flatMap((axis) =>
    [[`${axis}.gridcolor`, themeColour("--line")], [`${axis}.linecolor`, themeColour("--line")]]);
  return { "font.color": themeColour("--ink"), "hoverlabel.bgcolor": themeColour("--card"),
    "hoverlabel.bordercolor": themeColour("--line"), "hoverlabel.font.color": themeColour("--ink"),
    ...Object.fromEntries(axes) };
}

function retheme(onPaper) {
  printing = onPaper;
  for (const [id, figure] of Object.entries(figures)) {
    // a page of paper, A4 or Letter, is this wide
    const small = id.startsWith("plot-part");
    const paper = { width: small ? 105 : 680, height: figure.layout.height || (small ? 105 : 290) };
    const screen = { width: null, height: figure.layout.height || null, autosize: true };
    const axes = Object.entries(themed()).filter(([name]) => !name.startsWith("yaxis2") || figure.layout.yaxis2);
    Plotly.relayout(id, { ...Object.fromEntries(axes), ...(printing ? paper : screen) });
  }
  if (window.redrawMap) window.redrawMap();
}

// a legend of buttons that show and hide: plotly's own takes its room from the figure and knows no keyboard
function legendButton(name, glyph, colour, shown, toggle) {
  const button = document.createElement("button");
  const mark = document.createElement("span");
  Object.assign(mark, { textContent: glyph, ariaHidden: "true" });
  mark.style.color = colour;
  button.append(mark, ` ${name}`);
  button.type = "button";
  button.ariaPressed = String(shown);
  button.addEventListener("click", () => {
    button.ariaPressed = String(button.ariaPressed !== "true");
    toggle(button.ariaPressed === "true");
  });
  return button;
}

function legend(id, traces) {
  const box = document.createElement("div");
  Object.assign(box, { className: "legend", role: "group", ariaLabel: "Methods" });
  for (const name of new Set(traces.map((trace) => trace.meta))) {
    const own = traces.flatMap((trace, i) => trace.meta === name ? [i] : []);
    const { color, symbol } = traces[own.at(-1)].marker;
    box.append(legendButton(name, GLYPHS[symbol], color, traces[own[0]].visible !== false,
      (shown) => Plotly.restyle(id, { visible: shown }, own)));
  }
  byId(id).before(box);
}

const config = { responsive: true, displaylogo: false, displayModeBar: false };
const drawn = Promise.all(Object.entries(figures).map(([id, figure]) => {
  if (touch) figure.layout.dragmode = false;
  if (figure.layout.height) byId(id).style.height = `${figure.layout.height}px`;
  if (/^plot-(budgets|sizes)/.test(id)) legend(id, figure.data);
  const axes = Object.entries(themed()).filter(([name]) => !name.startsWith("yaxis2") || figure.layout.yaxis2);
  return Plotly.newPlot(id, figure.data, figure.layout, config)
    .then(() => Plotly.relayout(id, Object.fromEntries(axes)));
})).then(() => Object.keys(figures).forEach((id) => Plotly.Plots.resize(id)));  // what follows may have moved them

dark.addEventListener("change", () => retheme(false));
addEventListener("beforeprint", () => retheme(true));
addEventListener("afterprint", () => retheme(false));

for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", async () => {
  const list = byId(button.dataset.copy);
  list.select();
  let done = false;
  try { await navigator.clipboard.writeText(list.value); done = true; }
  catch { done = document.execCommand("copy"); }
  button.nextElementSibling.textContent = done ? "Copied." : "Press Ctrl+C to copy what is selected.";
});

function showList(box, list, title, names) {
  byId(list).value = names.join("\n");
  byId(list).labels[0].textContent = title;
  byId(box).querySelector("[role=status]").textContent = "";
  byId(box).hidden = false;
}

function unpack(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Kind(bytes.buffer);
}

// draws the i-th of some pictures: grey, or red, green and blue
function drawPicture(canvas, pictures, i) {
  const { height, width, channels } = pictures, size = height * width * channels;
  pictures.bytes ??= unpack(pictures.values, Uint8Array);
  const own = pictures.bytes.subarray(i * size, (i + 1) * size), image = new ImageData(width, height);
  for (let p = 0; p < height * width; p++) {
    for (let c = 0; c < 3; c++) image.data[4 * p + c] = own[p * channels + (channels === 3 ? c : 0)];
    image.data[4 * p + 3] = 255;
  }
  Object.assign(canvas, { width, height });
  canvas.getContext("2d").putImageData(image, 0, 0);
}
for (const canvas of document.querySelectorAll("canvas.picture")) {
  const [list, i] = canvas.dataset.picture.split(" ");
  drawPicture(canvas, data.pictures[list], Number(i));
}

// a click on a number of the confusion lists its rows
const held = data.held && data.held.true ? { true: unpack(data.held.true, Uint32Array),
  guess: unpack(data.held.guess, Uint32Array) } : null;
for (const button of document.querySelectorAll(".matrix button")) button.addEventListener("click", () => {
  const [a, b] = [Number(button.dataset.true), Number(button.dataset.guess)];
  const names = data.held.names.filter((_, i) => held.true[i] === a && held.guess[i] === b);
  const line = button.closest("tr").firstElementChild.textContent;
  const place = button.closest("table").tHead.rows[0].cells[button.closest("td").cellIndex].textContent;
  showList("held-chosen", "held-list", button.ariaLabel || `${line}: ${place}`, names);
  byId("held-chosen").scrollIntoView({ block: "nearest" });
});

// a click on a heading sorts: numbers from the largest, names from A
for (const button of document.querySelectorAll(".sortable th button")) button.addEventListener("click", () => {
  const head = button.parentElement, body = head.closest("table").tBodies[0];
  const text = head.cellIndex === 0;
  const first = text ? "ascending" : "descending", other = text ? "descending" : "ascending";
  const order = head.ariaSort === first ? other : first;
  for (const cell of head.parentElement.cells) cell.removeAttribute("aria-sort");
  head.ariaSort = order;
  const sign = order === "ascending" ? 1 : -1;
  const value = (row) => text ? row.cells[0].textContent : parseFloat(row.cells[head.cellIndex].dataset.value);
  body.append(...[...body.rows].sort((a, b) => {
    const [p, q] = [value(a), value(b)];
    if (text) return sign * p.localeCompare(q);
    if (Number.isNaN(p) || Number.isNaN(q)) return Number.isNaN(p) - Number.isNaN(q);
    return sign * (p - q);
  }));
});

byId("download").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([data.csv], { type: "text/csv" }));
  link.download = "labelfold-methods.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
