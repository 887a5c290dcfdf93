// The one chart of the console and of the report: lines over a common x. An element with data-chart-of takes its data from there,
// where live parts renew them; one with data-chart has them itself: JSON with the names of the lines and the rows, x first.
"use strict";

const charts = new Map();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const compact = (_, values) => values.map((v) => (v === null ? "" : Intl.NumberFormat("en", { notation: "compact" }).format(v)));
const exact = (_, v) => (v === null ? "–" : v.toLocaleString("en"));
const took = (v) => {
  for (const [unit, size] of [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]]) if (v >= size) return `${+(v / size).toPrecision(3)} ${unit}`;
  return `${+v.toPrecision(3)} ms`;
};
const tens = (_, at) => at.map((v) => (Number.isInteger(Math.log10(v)) ? v : null)); // of a logarithm's lines
const utc = (v) => new Date(v * 1000).toISOString().replace("T", " ");
const dated = (_, at, __, ___, step) => at.map((v, i) => {
  const [date, time] = utc(v).split(" ");
  if (step >= 86_400) return date;
  const shown = time.slice(0, step >= 60 ? 5 : step >= 1 ? 8 : 12);
  return i ? shown : `${shown}\n${date}`;
});
const counts = { scale: { range: (_, low, high) => [0, Math.max(1, high) * 1.08] }, axis: { values: compact }, value: exact };
const X = {
  ago: {
    label: "before", y: counts, value: (_, v) => (v === null ? "–" : `${Math.round(-v)} s`),
    axis: { values: (_, values) => values.map((v) => (v === 0 ? "now" : v % 60 === 0 ? `${-v / 60} min` : `${-v} s`)), incrs: [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600] },
  },
  time: { label: "UTC", y: counts, value: (_, v) => (v === null ? "–" : utc(v).slice(0, 23)), axis: { values: dated, space: 90, size: 52 } },
  // Which share was acknowledged within which time, from half a millisecond to days.
  share: {
    label: "share", value: (_, v) => (v === null ? "–" : `${+(v * 100).toFixed(1)} %`), axis: { values: (_, values) => values.map((v) => `${Math.round(v * 100)} %`) },
    y: { scale: { distr: 3 }, axis: { values: (_, values) => values.map((v) => (v === null ? "" : took(v))), filter: tens, size: 62 }, grid: { filter: tens }, value: (_, v) => (v === null ? "–" : took(v)) },
  },
};

function draw(place) {
  const holder = place.dataset.chartOf ? document.querySelector(`#${place.dataset.chartOf} [data-chart]`) : place;
  if (!holder) return;
  const { names, rows } = JSON.parse(holder.dataset.chart);
  const known = charts.get(place);
  if (rows[0].length < 2) {
    if (!known && !place.firstChild) {
      const note = document.createElement("p");
      note.className = "empty";
      note.textContent = "The line begins with the next seconds.";
      place.append(note);
    }
    return;
  }
  if (known) {
    known.setData(rows);
    return;
  }
  place.replaceChildren();
  const x = X[place.dataset.x || "ago"];
  const left = place.dataset.left ? place.dataset.left.split(" ") : names;
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false }, font: "12px sans-serif" };
  const options = {
    width: place.clientWidth, height: 200,
    scales: { x: { time: false }, left: x.y.scale, right: x.y.scale },
    axes: [
      { ...axis, ...x.axis },
      { ...axis, scale: "left", size: 48, ...x.y.axis, grid: { ...axis.grid, ...x.y.grid } },
      ...(left.length < names.length ? [{ ...axis, scale: "right", side: 1, size: 48, ...x.y.axis, grid: { show: false } }] : []),
    ],
    series: [
      { label: x.label, value: x.value },
      ...names.map((name, i) => ({
        label: name, scale: left.includes(name) ? "left" : "right", stroke: colour(`--series-${i + 1}`), width: 2,
        dash: [[], [6, 4], [2, 3]][i % 3], points: { show: false }, value: x.y.value,
      })),
    ],
  };
  charts.set(place, new uPlot(options, rows, place));
}

function drawAll() {
  document.querySelectorAll("[data-chart-of], .chart[data-chart]").forEach(draw);
}

function redrawAll() {
  charts.forEach((chart) => chart.destroy());
  charts.clear();
  drawAll();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
let resizing;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(redrawAll, 150); });
drawAll();
