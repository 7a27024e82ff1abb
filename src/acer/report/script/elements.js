/*
 * What the page shows, what is chosen of it, elements and words.
 *
 * All names come from files that anyone may have written. They reach the page as text and attributes only; there is no
 * innerHTML here, and collections that such names are keys of are Maps.
 */

const content = JSON.parse(document.getElementById("content").textContent);
const runs = content.runs;
const COLOURS = 8; // --series-0 to --series-7 in the style
const DASHES = [[], [7, 4], [2, 3]]; // of the first eight groups, of the next eight, and so on
const GRID = 256; // points of a median
const SHORT_LIST = 24; // rows that are shown without being asked for

const state = {
  x: "steps",
  smoothing: 0, // width of the moving mean, as a share of the run
  metric: content.metrics.length ? content.metrics[0].name : "return_mean", // of the overview
  colour: "agent", // what makes a group: "agent" or the name of a setting
  hiddenRuns: new Set(),
  hiddenGroups: new Set(),
};
const environments = content.environments.map((name, index) => ({
  name,
  index,
  runs: runs.filter((run) => run.env === name),
  range: null, // of x, where zoomed; all charts of an environment share it
  charts: [],
}));
for (const run of runs) run.cache = new Map();

// ---------------------------------------------------------------- elements and words

const byId = (id) => document.getElementById(id);

/** An element with attributes (functions become listeners) and children; strings become text. */
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** A part that can be folded; its inside is made when it is first opened. */
function fold(title, build, open = false, attributes = {}) {
  const node = make("details", attributes, make("summary", {}, ...[title].flat()));
  let built = false;
  const fill = () => {
    if (built || !node.open) return;
    built = true;
    node.append(...[build()].flat());
  };
  node.addEventListener("toggle", fill);
  node.open = open;
  fill();
  return node;
}

/** A table in a frame that scrolls by itself; cells are text, nodes, or {text, note, mark}. */
function table(header, rows, caption = null, kind = "") {
  const numeric = header.map((_, i) => rows.length > 0 && rows.every((row) => isNumeric(row[i])));
  const align = (i) => (numeric[i] ? "number" : null);
  const titles = header.map((text, i) => make("th", { scope: "col", class: align(i) }, text));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, i) => tableCell(cell, align(i)))));
  const classes = rows.length > SHORT_LIST ? "table-scroll long" : "table-scroll";
  return make(
    "div",
    { class: `table-frame ${kind}` },
    caption ? make("p", { class: "caption" }, caption) : null,
    make(
      "div",
      { class: classes, tabindex: 0, role: "region", "aria-label": caption || header.join(", ") },
      make("table", {}, make("thead", {}, make("tr", {}, ...titles)), make("tbody", {}, ...body)),
    ),
  );
}

function tableCell(cell, kind) {
  if (cell instanceof Node || typeof cell === "string") return make("td", { class: kind }, cell);
  const classes = [kind, cell.mark ? "best" : null].filter(Boolean).join(" ") || null;
  return make("td", { class: classes }, cell.text, cell.note ? make("small", {}, cell.note) : null);
}

function isNumeric(cell) {
  const text = cell instanceof Node ? cell.textContent : typeof cell === "string" ? cell : cell.text;
  return /^([−-]?[\d.,]+(e[−+-]?\d+)?( (s|min|h))?|–|inf|)$/i.test(text);
}

const plural = (count, word) => `${whole(count)} ${word}${count === 1 ? "" : "s"}`;
const minus = (text) => text.replace(/-/g, "−");
const whole = (value) => (value === null ? "–" : minus(Math.round(value).toLocaleString("en")));

/** A number for reading: three or four digits. */
function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return minus(value.toExponential(2));
  const most = size >= 1000 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4;
  const options = { minimumFractionDigits: size >= 1 ? most : 0, maximumFractionDigits: most };
  return minus(value.toLocaleString("en", options));
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const [size, unit] = timeUnit(seconds);
  return `${(seconds / size).toLocaleString("en", { maximumFractionDigits: seconds / size < 10 ? 1 : 0 })} ${unit}`;
}

/** Seconds in the unit that suits the longest time, and its name. */
function timeUnit(longest) {
  if (longest < 180) return [1, "s"];
  return longest < 3 * 3600 ? [60, "min"] : [3600, "h"];
}

/** A run's value of a setting that differs between runs; null if its file does not have it. */
const setting = (run, name) => (Object.hasOwn(run.settings, name) ? run.settings[name] : null);

const quantile = (sorted, share) => {
  const place = (sorted.length - 1) * share;
  const low = Math.floor(place);
  return sorted[low] + (place - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
};
const present = (values) => values.filter((value) => value !== null && value !== undefined);
const ascending = (values) => Float64Array.from(values).sort();
const median = (values) => (values.length ? quantile(ascending(values), 0.5) : null);

/** Texts in the order of their numbers where both are numbers, else of the alphabet. */
const byValue = (a, b) => (Number.isNaN(a - b) ? String(a).localeCompare(String(b)) : a - b);
