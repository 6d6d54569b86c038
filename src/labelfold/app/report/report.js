"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const touch = matchMedia("(pointer: coarse)").matches;
const narrow = matchMedia("(max-width: 30rem)").matches;
const LIGHT = { "--ink": "#1d2430", "--line": "#d9dfe7", "--card": "#ffffff" };

function themed(printing) {
  const css = getComputedStyle(document.documentElement);
  const v = (name) => printing ? LIGHT[name] : css.getPropertyValue(name).trim();
  return { "font.color": v("--ink"), "xaxis.gridcolor": v("--line"), "yaxis.gridcolor": v("--line"),
    "xaxis.linecolor": v("--line"), "yaxis.linecolor": v("--line"), "hoverlabel.bgcolor": v("--card"),
    "hoverlabel.bordercolor": v("--line"), "hoverlabel.font.color": v("--ink") };
}

function retheme(printing) {
  for (const id of Object.keys(figures)) {
    // a page of paper, A4 or Letter, is this wide
    const paper = id.startsWith("plot-map") ? { width: 320, height: 280 } : { width: 680, height: 290 };
    const screen = { width: null, height: null, autosize: true };
    Plotly.relayout(id, { ...themed(printing), ...(printing ? paper : screen) });
  }
}

// plotly's own legend takes its room from the figure, which on a phone leaves little, and knows no keyboard
function legend(id, traces) {
  const glyphs = { circle: "●", square: "■", "triangle-up": "▲", diamond: "◆" };
  const box = document.createElement("div");
  Object.assign(box, { className: "legend", role: "group", ariaLabel: "Methods" });
  const names = [...new Set(traces.map((trace) => trace.meta))];
  for (const name of names) {
    const own = traces.flatMap((trace, i) => trace.meta === name ? [i] : []);
    const { color, symbol } = traces[own.at(-1)].marker;
    const button = document.createElement(id === "plot-seconds" ? "span" : "button");
    const glyph = document.createElement("span");
    Object.assign(glyph, { textContent: glyphs[symbol], ariaHidden: "true" });
    glyph.style.color = color;
    button.append(glyph, ` ${name}`);
    if (button.type) {
      button.type = "button";
      button.ariaPressed = String(traces[own[0]].visible !== false);
      button.addEventListener("click", () => {
        const shown = button.ariaPressed !== "true";
        button.ariaPressed = String(shown);
        Plotly.restyle(id, { visible: shown }, own);
      });
    }
    box.append(button);
  }
  document.getElementById(id).before(box);
}

const config = { responsive: true, displaylogo: false, displayModeBar: false };
Promise.all(Object.entries(figures).map(([id, figure]) => {
  if (touch) figure.layout.dragmode = false;
  // on a phone names beside points would cover each other: the legend has them
  if (narrow && id === "plot-seconds") figure.data.forEach((trace) => { trace.mode = "markers"; });
  if (id === "plot-seconds" ? narrow : !/^plot-(map|held)/.test(id)) legend(id, figure.data);
  return Plotly.newPlot(id, figure.data, figure.layout, config).then(() => Plotly.relayout(id, themed(false)));
})).then(() => { document.documentElement.dataset.drawn = "yes"; });

dark.addEventListener("change", () => retheme(false));
addEventListener("beforeprint", () => retheme(true));
addEventListener("afterprint", () => retheme(false));

const button = document.getElementById("copy");
if (button) button.addEventListener("click", async () => {
  const list = document.getElementById("next-list");
  list.select();
  let done = false;
  try { await navigator.clipboard.writeText(list.value); done = true; }
  catch { done = document.execCommand("copy"); }
  document.getElementById("copied").textContent = done ? "Copied." : "Press Ctrl+C to copy what is selected.";
});
