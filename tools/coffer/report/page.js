// A stretch of time is chosen in the picture over time; tables and pictures show what happened in it.
const stacks = data.leaves.length, parts = data.parts;
const COLOURS = { live: "#2e8b57", most: "#9aa5b1", resident: "#1f5fa8", held: "#e08e0b", allocator_resident: "#c0392b", bound: "#8e44ad" };
let from = 0, to = parts; // parts: the first, and the one after the last
// Of each stack what lives where part p begins.
const live = data.flows.map((rows) => {
  const bytes = new Float64Array(parts + 1), blocks = new Float64Array(parts + 1);
  for (const [part, more, moreBlocks, less, lessBlocks] of rows) {
    bytes[part + 1] += more - less;
    blocks[part + 1] += moreBlocks - lessBlocks;
  }
  for (let p = 0; p < parts; ++p) { bytes[p + 1] += bytes[p]; blocks[p + 1] += blocks[p]; }
  return { bytes, blocks };
});
const allLive = Float64Array.from({ length: parts + 1 }, (_, p) => live.reduce((sum, one) => sum + one.bytes[p], 0));
const peakBytes = data.at_peak.reduce((sum, one) => sum + one[0], 0);

function within(stack, column) {
  let sum = 0;
  for (const row of data.flows[stack]) if (row[0] >= from && row[0] < to) sum += row[column];
  return sum;
}
function highest() {
  let best = from;
  for (let p = from; p <= to; ++p) if (allLive[p] > allLive[best]) best = p;
  const isPeak = data.peak.part >= from && data.peak.part < to && peakBytes >= allLive[best];
  return { isPeak, part: best, bytes: isPeak ? peakBytes : allLive[best], seconds: isPeak ? data.peak.seconds : best * data.width };
}
const VIEWS = {
  "highest moment": (stack) => { const top = highest(); return top.isPeak ? data.at_peak[stack][0] : live[stack].bytes[top.part]; },
  "live at its end": (stack) => live[stack].bytes[to],
  "grown": (stack) => Math.max(0, live[stack].bytes[to] - live[stack].bytes[from]),
  "allocated": (stack) => within(stack, 1),
  "freed at once": (stack) => within(stack, 5),
};
const whole = (number) => Math.round(number).toLocaleString("en");
const seconds = (number) => `${number.toFixed(number < 10 ? 3 : 2)} s`;

function drawTable(bytes) {
  const rows = data.titles.map((title) => ({ title, bytes: 0, calls: 0, asked: 0, once: 0, live: 0 }));
  bytes.forEach((figure, stack) => {
    const row = rows[data.sites[stack]];
    row.bytes += figure;
    row.calls += within(stack, 2);
    row.asked += within(stack, 1);
    row.once += within(stack, 6);
    row.live += live[stack].bytes[to];
  });
  const total = Math.max(1, rows.reduce((sum, row) => sum + row.bytes, 0));
  const shown = rows.filter((row) => row.bytes > 0).sort((one, other) => other.bytes - one.bytes);
  at("sites").tBodies[0].innerHTML = shown.slice(0, 30).map((row) =>
    `<tr><td><button class="site" title="${row.title.replace(/"/g, "&quot;")}">${row.title}</button></td><td>${size(row.bytes)}</td><td>${(100 * row.bytes / total).toFixed(1)} %</td>` +
    `<td>${whole(row.calls)}</td><td>${size(row.asked)}</td><td>${row.calls ? (100 * row.once / row.calls).toFixed(0) : 0} %</td><td>${size(row.live)}</td></tr>`).join("");
  at("more").textContent = shown.length > 30 ? `${shown.length - 30} call sites with less are left out.` : "";
}
function drawSays() {
  const top = highest();
  let calls = 0, asked = 0, once = 0;
  for (let stack = 0; stack < stacks; ++stack) { calls += within(stack, 2); asked += within(stack, 1); once += within(stack, 6); }
  at("says").textContent = `${from === 0 && to === parts ? "The whole time" : `${seconds(from * data.width)} to ${seconds(Math.min(data.duration, to * data.width))}`}: ` +
    `most live ${size(top.bytes)} at ${seconds(top.seconds)}, ${size(allLive[to])} at its end; allocated ${size(asked)} in ${whole(calls)} calls, ` +
    `${calls ? (100 * once / calls).toFixed(0) : 0} % of them freed before their thread allocated again.`;
}
// Labels are written out, and as many as there is room for.
function logarithmic(values) {
  const shown = values.filter((value) => value > 0), low = Math.min(1, ...shown.map((value) => value / 2)), high = Math.max(2, ...shown) * 1.5;
  const decades = Math.log10(high / low), steps = decades > 3 ? [1] : decades > 1 ? [1, 3] : [1, 2, 3, 5, 7];
  const ticks = [];
  for (let decade = 1; decade <= high; decade *= 10) ticks.push(...steps.map((step) => step * decade).filter((value) => value >= low && value <= high));
  return { type: "log", tickmode: "array", tickvals: ticks, ticktext: ticks.map((value) => value.toLocaleString("en")), gridcolor: colour("--grid"), automargin: true,
    range: [Math.log10(low), Math.log10(high)] };
}
function drawBars(id, rows, name, axis, label) {
  const sums = new Map();
  for (const [part, step, count, bytes] of rows) {
    if (part < from || part >= to) continue;
    const sum = sums.get(step) || [0, 0];
    sums.set(step, [sum[0] + count, sum[1] + bytes]);
  }
  const steps = [...sums.keys()].sort((one, other) => one - other), names = steps.map(label);
  const bar = (title, index, color, visible) => ({ type: "bar", name: title, x: names, y: steps.map((step) => sums.get(step)[index]), marker: { color }, visible });
  Plotly.react(id, [bar(name, 0, "#1f5fa8", true), bar("bytes", 1, "#e08e0b", "legendonly")], { ...style(), height: 340,
    margin: { l: 10, r: 10, t: 10, b: 10 }, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    xaxis: { type: "category", title: { text: axis }, automargin: true },
    yaxis: { ...logarithmic(steps.map((step) => sums.get(step)[0])), title: { text: `${name} or bytes, log scale` } } }, options);
}
function duration(ns) {
  for (const [limit, unit, divisor] of [[1e3, "ns", 1], [1e6, "µs", 1e3], [1e9, "ms", 1e6]]) {
    if (ns < limit) return divisor === 1 ? `${ns} ns` : `${(ns / divisor).toFixed(1)} ${unit}`;
  }
  return `${(ns / 1e9).toFixed(2)} s`;
}
function draw() {
  const view = at("view").value, bytes = data.leaves.map((_, stack) => VIEWS[view](stack));
  const weights = new Float64Array(data.tree.parents.length);
  bytes.forEach((figure, stack) => { weights[data.leaves[stack]] += figure; });
  drawPicture(view, weights);
  drawTable(bytes);
}
function drawFields() {
  at("from").value = (from * data.width).toFixed(3);
  at("to").value = Math.min(data.duration, to * data.width).toFixed(3);
}
function drawRange() {
  drawFields();
  drawSays();
  draw();
  drawBars("sizes", data.sizes, "calls", "bytes asked for, from ... on", (step) => step.toLocaleString("en"));
  drawBars("lifetimes", data.lifetimes, "blocks", "lifetime of freed blocks, from ... on", duration);
}
function drawTime() {
  const lines = data.time.lines.map((line) => ({ name: line.name, x: line.x, y: line.y, mode: "lines", fill: line.kind === "live" ? "tozeroy" : "none",
    visible: line.kind === "bound" ? "legendonly" : true, line: { color: COLOURS[line.kind], width: line.kind === "most" ? 1 : 1.5, dash: line.kind === "most" ? "dot" : "solid" } }));
  const mark = { type: "line", x0: data.peak.seconds, x1: data.peak.seconds, y0: 0, y1: 1, yref: "paper", line: { color: colour("--soft"), width: 1, dash: "dash" } };
  return Plotly.react("time", lines, { ...style(), margin: { l: 10, r: 10, t: 10, b: 10 }, dragmode: "zoom", shapes: [mark], hovermode: "x",
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    xaxis: { title: { text: "seconds" }, automargin: true, gridcolor: colour("--grid"), range: [from * data.width, Math.min(data.duration, to * data.width)],
      rangeslider: { range: [0, data.duration], thickness: 0.12, bordercolor: colour("--edge"), borderwidth: 1 } },
    yaxis: { title: { text: "memory" }, automargin: true, rangemode: "tozero", fixedrange: true, gridcolor: colour("--grid"), zerolinecolor: colour("--grid"), ...data.time.ticks } }, options);
}
function choose(one, other) {
  const [first, last] = [Math.min(one, other), Math.max(one, other)];
  const begin = Math.max(0, Math.min(parts - 1, Math.floor(first / data.width + 1e-6)));
  const end = Math.max(begin + 1, Math.min(parts, Math.ceil(last / data.width - 1e-6)));
  const isSame = begin === from && end === to;
  [from, to] = [begin, end];
  if (isSame) drawFields();
  else drawRange();
}
// Pictures that the page has had drawn before.
function restyle() {
  for (const plot of document.querySelectorAll(".drawn .js-plotly-plot")) {
    const axis = { gridcolor: colour("--grid"), zerolinecolor: colour("--grid") };
    Plotly.relayout(plot, { ...style(), ...Object.fromEntries(["xaxis", "yaxis"].flatMap((name) => plot._fullLayout[name] ? Object.entries(axis).map(([key, value]) => [`${name}.${key}`, value]) : [])) });
  }
}
function redraw() { drawTime(); drawRange(); restyle(); }
for (const id of ["view", "kind"]) at(id).addEventListener("change", draw);
at("search").addEventListener("input", draw);
at("sites").addEventListener("click", (event) => {
  if (!event.target.matches("button.site")) return;
  at("search").value = event.target.textContent.replace(/, [^,]*$/, "").replace(/ \(.*\)$/, "");
  draw();
  at("picture").scrollIntoView({ block: "center" });
});
for (const id of ["from", "to"]) at(id).addEventListener("change", () => { choose(Number(at("from").value), Number(at("to").value)); drawTime(); });
at("all").addEventListener("click", () => { choose(0, data.duration); drawTime(); });
dark.addEventListener("change", redraw);
drawTime().then((plot) => plot.on("plotly_relayout", (change) => {
  if (change["xaxis.autorange"]) choose(0, data.duration);
  else if (change["xaxis.range"]) choose(...change["xaxis.range"]);
  else if (change["xaxis.range[0]"] !== undefined) choose(change["xaxis.range[0]"], change["xaxis.range[1]"]);
}));
drawRange();
addEventListener("load", restyle);
