// The picture of call stacks. The page has #view, #kind, #search, #found, #picture, and calls drawPicture(title,
// weights): bytes of each node that is a stack's innermost function.
const LEAST = 0.0005; // of the whole: smaller parts cannot be seen, and leave a gap
function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < 3) { bytes /= 1024; ++unit; }
  return unit === 0 ? `${Math.round(bytes)} B` : `${bytes.toFixed(1)} ${units[unit]}`;
}
// Functions of one library have one colour.
function hue(text) {
  let sum = 7;
  for (const letter of text) sum = (sum * 31 + letter.charCodeAt(0)) % 360;
  return sum;
}
function withCallers(weights) {
  const sums = Float64Array.from(weights), parents = data.tree.parents;
  for (let node = sums.length - 1; node > 0; --node) sums[parents[node]] += sums[node];
  return sums;
}
function drawPicture(title, weights) {
  const tree = data.tree, sums = withCallers(weights), kind = at("kind").value, total = sums[0];
  const words = at("search").value.trim().toLowerCase();
  const escaped = words.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const shown = [], under = [];
  let found = 0, bytes = 0;
  tree.parents.forEach((parent, node) => {
    if (sums[node] <= 0 && node > 0) return;
    const isHit = words !== "" && node > 0 &&
      [tree.names[node], tree.sources[node], tree.modules[node]].some((text) => text.toLowerCase().includes(escaped));
    under[node] = (node > 0 && under[parent]) || isHit;
    if (isHit && !under[parent]) bytes += sums[node];
    if (sums[node] < LEAST * total && node > 0) return;
    found += isHit;
    shown.push([node, isHit]);
  });
  at("found").textContent = words === "" ? "" : `${found} found, ${(100 * bytes / Math.max(1, total)).toFixed(1)} % of the bytes`;
  const grey = dark.matches ? "#3b4650" : "#d9dee3";
  const trace = { type: kind === "treemap" ? "treemap" : "icicle", branchvalues: "total",
    ids: shown.map(([node]) => String(node)), parents: shown.map(([node]) => node === 0 ? "" : String(tree.parents[node])),
    labels: shown.map(([node]) => node === 0 ? `${title}: ${size(total)}` : tree.labels[node]),
    values: shown.map(([node]) => sums[node]),
    marker: { line: { width: 1, color: colour("--back") }, colors: shown.map(([node, isHit]) => node === 0 ? grey :
      words !== "" ? (isHit ? "#d6336c" : grey) : `hsl(${hue(tree.modules[node])}, 55%, ${dark.matches ? 38 : 72}%)`) },
    customdata: shown.map(([node]) => [tree.sources[node], size(sums[node]), tree.modules[node], tree.names[node] || title]),
    texttemplate: "%{label} %{customdata[0]}", textposition: kind === "treemap" ? "top left" : "middle left",
    hovertemplate: "%{customdata[3]}<br>%{customdata[0]} (%{customdata[2]})<br>%{customdata[1]}, %{percentRoot:.1%}<extra></extra>" };
  if (kind !== "treemap") trace.tiling = { orientation: "v", flip: kind === "icicle" ? "" : "y" };
  Plotly.react("picture", [trace], { ...style(), margin: { l: 0, r: 0, t: 24, b: 0 }, uniformtext: { minsize: 10, mode: "hide" } }, options);
}
