// What all pictures of a page share.
const dark = matchMedia("(prefers-color-scheme: dark)");
const at = (id) => document.getElementById(id);
const options = { displaylogo: false, responsive: true, displayModeBar: false };
const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
const style = () => {
  const own = getComputedStyle(document.body);
  return { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: own.fontFamily, size: 12, color: own.color } };
};
