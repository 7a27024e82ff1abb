/* Groups and their colours, curves, medians and axes. */

let groups = [];

const groupOf = (run) => (state.colour === "agent" ? run.agent : (setting(run, state.colour) ?? "not recorded"));
const isShown = (run) => !state.hiddenRuns.has(run) && !state.hiddenGroups.has(groupOf(run));

function findGroups() {
  const found = [...new Set(runs.map(groupOf))];
  groups = state.colour === "agent" ? content.agents : found.sort(byValue);
}

/** Colour and dashes of a group: never colour alone once there are more groups than colours. */
function look(group) {
  const index = Math.max(0, groups.indexOf(group));
  return {
    colour: `var(--series-${index % COLOURS})`,
    dash: DASHES[Math.floor(index / COLOURS) % DASHES.length],
  };
}

function swatch(group) {
  const { colour, dash } = look(group);
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  const line = document.createElementNS(space, "line");
  const attributes = { x1: 1, x2: 23, y1: 5, y2: 5, "stroke-width": 3.5, "stroke-dasharray": dash.join(" ") };
  for (const [name, value] of Object.entries(attributes)) line.setAttribute(name, value);
  line.style.stroke = colour;
  picture.setAttribute("viewBox", "0 0 24 10");
  picture.setAttribute("class", "swatch");
  picture.setAttribute("aria-hidden", "true");
  picture.append(line);
  return picture;
}

const resolvedColours = new Map();

/** A colour of the style as the canvas wants it: what var(--name) is in the present scheme. */
function resolved(colour) {
  if (!resolvedColours.has(colour)) {
    const name = colour.slice("var(".length, -1);
    resolvedColours.set(colour, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  }
  return resolvedColours.get(colour);
}

// ---------------------------------------------------------------- curves

/** A run's curve as {x, y} without gaps, smoothed as chosen; null if it has none. */
function curveOf(run, metric) {
  if (!run.cache.has(metric)) run.cache.set(metric, readCurve(run, metric));
  return run.cache.get(metric);
}

function readCurve(run, metric) {
  const block = run.curves.find((one) => metric in one && state.x in one);
  if (!block) return null;
  const x = [];
  const y = [];
  block[metric].forEach((value, i) => {
    if (value === null || block[state.x][i] === null) return;
    x.push(block[state.x][i]);
    y.push(value);
  });
  if (!x.length) return null;
  return { x, y: state.smoothing ? smoothed(x, y, state.smoothing * (x.at(-1) - x[0])) : y };
}

/** The mean of y over a window of x around each point. */
function smoothed(x, y, width) {
  const sums = [0];
  for (const value of y) sums.push(sums.at(-1) + value);
  let first = 0;
  let last = 0;
  return x.map((centre) => {
    while (x[first] < centre - width / 2) first += 1;
    while (last < x.length && x[last] <= centre + width / 2) last += 1;
    return (sums[last] - sums[first]) / (last - first);
  });
}

/** Index of the last x that is not above a value; -1 if all are. */
function lastBelow(x, value) {
  let low = -1;
  let high = x.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] <= value) low = middle;
    else high = middle;
  }
  return low;
}

/** A curve's y at any x, between its points by a straight line; null beyond its ends. */
function valueAt(curve, x) {
  const i = lastBelow(curve.x, x);
  if (i < 0 || x > curve.x.at(-1)) return null;
  if (i === curve.x.length - 1) return curve.y[i];
  const share = (x - curve.x[i]) / (curve.x[i + 1] - curve.x[i] || 1);
  return curve.y[i] + share * (curve.y[i + 1] - curve.y[i]);
}

/** A line's y at x as it counts in a median: a run that diverged stays at the value that it had last. */
function countedAt({ run, curve }, x) {
  return run.diverged && x > curve.x.at(-1) ? curve.y.at(-1) : valueAt(curve, x);
}

/** The median of lines over a range of x, where at least half of them have a value. */
function medianCurve(lines, [least, greatest]) {
  const from = Math.max(least, Math.min(...lines.map(({ curve }) => curve.x[0])));
  const to = Math.min(greatest, Math.max(...lines.map(({ curve }) => curve.x.at(-1))));
  const result = { x: [], y: [] };
  for (let i = 0; i < GRID && to >= from; i += 1) {
    const x = from + ((to - from) * i) / (GRID - 1);
    const values = present(lines.map((line) => countedAt(line, x)));
    if (values.length * 2 < lines.length) continue;
    result.x.push(x);
    result.y.push(median(values));
  }
  return result.x.length ? result : null;
}

/** A run's evaluations at the present x, as points. */
function evaluationsOf(run) {
  return run.evaluations.filter((one) => Object.hasOwn(one, state.x) && Object.hasOwn(one, "return_mean"));
}

// ---------------------------------------------------------------- axes

/** Round numbers inside a range, about as many as wanted, and the distance between them. */
function ticks([least, greatest], wanted) {
  const raw = (greatest - least) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw * 0.9999);
  const first = Math.ceil(least / step - 1e-9);
  const count = Math.min(50, Math.floor(greatest / step + 1e-9) - first + 1);
  return { values: Array.from({ length: count }, (_, i) => (first + i) * step), step };
}

/** A tick's text with as many decimals as its distance from the next one needs. */
function tickText(value, step, unit = 1, suffix = "") {
  const distance = step / unit;
  if (distance < 1e-5) return minus(value.toExponential(1));
  const isEnough = (digits) => Math.abs(Number(distance.toFixed(digits)) - distance) <= distance * 1e-6;
  let decimals = 0;
  while (decimals < 7 && !isEnough(decimals)) decimals += 1;
  const options = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  const text = (value / unit).toLocaleString("en", options);
  return minus(/[1-9]/.test(text) ? text + suffix : "0");
}

/** How x is written on an axis that ends at `greatest`: unit, what follows each number, and the axis' name. */
function xUnit(greatest) {
  if (state.x === "seconds") {
    const [unit, name] = timeUnit(greatest);
    return { unit, suffix: "", name: { s: "seconds", min: "minutes", h: "hours" }[name] };
  }
  if (greatest >= 1e6) return { unit: 1e6, suffix: "M", name: "steps" };
  return greatest >= 1e4 ? { unit: 1e3, suffix: "k", name: "steps" } : { unit: 1, suffix: "", name: "steps" };
}

const xText = (x) => (state.x === "steps" ? `${whole(x)} steps` : duration(x));

/**
 * The range of y that shows the values, as {range, cut}. Where `spikes` are expected, a few values that lie far
 * outside the middle 90 % do not flatten the rest: they are cut off.
 */
function fittedRange(values, spikes) {
  const sorted = ascending(values);
  let [least, greatest] = [sorted[0], sorted.at(-1)];
  const [low, high] = [quantile(sorted, 0.05), quantile(sorted, 0.95)];
  const cut = spikes && high > low && greatest - least > 6 * (high - low);
  if (cut) [least, greatest] = [Math.max(least, low - (high - low) / 2), Math.min(greatest, high + (high - low) / 2)];
  const size = Math.max(Math.abs(least), Math.abs(greatest)) || 1;
  if (greatest - least < size * 1e-6) [least, greatest] = [least - size * 0.1, greatest + size * 0.1];
  const room = (greatest - least) * 0.06;
  const floor = sorted[0] >= 0 && least - room < 0 ? 0 : least - room; // what is never negative stands on 0
  return { range: [floor, greatest + room], cut };
}
