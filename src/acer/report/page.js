"use strict";
/*
 * The report's page: reads its content from the element #content, draws the curves, and answers the controls.
 *
 * All names come from files that anyone may have written. They reach the page as text and attributes only; there is no
 * innerHTML here, and collections that such names are keys of are Maps.
 */
(() => {
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

  // ---------------------------------------------------------------- groups and their colours

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

  // ---------------------------------------------------------------- charts

  const charts = [];
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const chart = charts.find((one) => one.plot === target);
        if (chart) chart.visible = isIntersecting;
      }
      schedule();
    },
    { rootMargin: "300px" },
  );
  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) charts.find((one) => one.plot === target)?.touch();
  });

  let scheduled = false;
  function schedule() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      for (const chart of charts) if (chart.stale && chart.visible) chart.draw();
    });
  }

  /** Draws every chart again, those out of sight when they come into it. */
  function redraw() {
    for (const chart of charts) chart.touch();
    byId("reset-all").hidden = !environments.some((env) => env.range) && !charts.some((chart) => chart.yRange);
  }

  function unzoom(some) {
    for (const env of some) {
      env.range = null;
      for (const chart of env.charts) chart.yRange = null;
    }
    redraw();
  }

  class Chart {
    /** `metric` is a function, for the overview's can be chosen; so its meaning is not explained at each chart. */
    constructor(env, metric, title, kind = "") {
      this.explained = kind !== "";
      Object.assign(this, { env, metric, yRange: null, cursor: null, drag: null, lines: [], medians: new Map() });
      Object.assign(this, { stale: true, visible: false, frame: null });
      this.about = make("p", { class: "about" });
      const reset = { type: "button", class: "reset", hidden: true, click: () => this.reset() };
      this.resetButton = make("button", reset, "Reset");
      this.base = make("canvas", { "aria-hidden": "true" });
      this.over = make("canvas", { "aria-hidden": "true" });
      this.readout = make("div", { class: "readout", hidden: true });
      this.spoken = make("output", { class: "for-readers", "aria-live": "polite" });
      this.plot = make("div", { class: "plot", tabindex: 0, role: "group" }, this.base, this.over, this.readout);
      this.node = make(
        "figure",
        { class: `chart ${kind}` },
        make("figcaption", {}, make("div", { class: "chart-head" }, title, this.resetButton), this.about),
        this.plot,
        this.spoken,
      );
      this.listen();
      charts.push(this);
      env.charts.push(this);
      seen.observe(this.plot);
      resized.observe(this.plot);
    }

    touch() {
      this.stale = true;
      schedule();
    }

    // ---- geometry

    toPixels(x, y) {
      const { left, right, top, bottom, xRange, yRange } = this.frame;
      return [
        left + ((x - xRange[0]) / (xRange[1] - xRange[0])) * (right - left),
        bottom - ((y - yRange[0]) / (yRange[1] - yRange[0])) * (bottom - top),
      ];
    }

    fromPixels(px, py) {
      const { left, right, top, bottom, xRange, yRange } = this.frame;
      return [
        xRange[0] + ((px - left) / (right - left)) * (xRange[1] - xRange[0]),
        yRange[0] + ((bottom - py) / (bottom - top)) * (yRange[1] - yRange[0]),
      ];
    }

    // ---- drawing

    /** Looks up what is switched on, then draws axes and curves. */
    draw() {
      this.stale = false;
      const metric = content.metrics.find((one) => one.name === this.metric());
      this.lines = this.env.runs
        .filter(isShown)
        .map((run) => ({ run, group: groupOf(run), curve: curveOf(run, metric.name) }))
        .filter((line) => line.curve);
      const xRange = this.env.range ?? this.wholeRange();
      this.dots = metric.name === "return_mean" ? this.evaluations(xRange) : [];
      const values = this.lines.flatMap(({ curve }) => this.visibleValues(curve, xRange));
      if (!values.length) values.push(0, 1);
      const fitted = fittedRange([...values, ...this.dots.map((dot) => dot.point[1])], metric.spiky);
      const cut = fitted.cut && !this.yRange;
      this.medians = this.medianLines(xRange);

      const context = this.clear(this.base);
      this.frame = this.axes(context, xRange, this.yRange ?? fitted.range);
      this.paint(context);
      this.drawOver();
      const notes = [this.explained ? metric.about : "", cut ? "far outliers lie beyond the axis" : ""].filter(Boolean);
      this.about.textContent = notes.join("; ");
      this.resetButton.hidden = !this.env.range && !this.yRange;
      this.plot.setAttribute("aria-label", this.description(metric));
      Object.assign(this.plot.dataset, {
        curves: this.lines.length,
        medians: this.medians.size,
        x: xRange.join(" "),
        y: this.frame.yRange.join(" "),
      });
    }

    /** From 0 to the end of the longest run that is switched on, or to its last evaluation. */
    wholeRange() {
      const ends = this.env.runs
        .filter(isShown)
        .flatMap((run) => [run[state.x] ?? 0, ...evaluationsOf(run).map((one) => one[state.x])]);
      return [0, Math.max(...ends, 0) || 1];
    }

    /** The evaluations inside a range of x. */
    evaluations([least, greatest]) {
      return this.lines.flatMap(({ run, group }) =>
        evaluationsOf(run)
          .map((one) => ({ group, point: [one[state.x], one.return_mean] }))
          .filter(({ point: [x] }) => x >= least && x <= greatest));
    }

    /** The values of a curve inside a range of x, and those where it crosses the range's ends. */
    visibleValues(curve, [least, greatest]) {
      const inside = curve.y.filter((_, i) => curve.x[i] >= least && curve.x[i] <= greatest);
      return present([valueAt(curve, least), ...inside, valueAt(curve, greatest)]);
    }

    /** The lines of a group that count in its median: runs that failed do not, unless there are no others. */
    counted(group) {
      const lines = this.lines.filter((line) => line.group === group);
      const sound = lines.filter((line) => !line.run.failed);
      return sound.length ? sound : lines;
    }

    /** The median of every group that has more than one curve. */
    medianLines(xRange) {
      const found = new Map();
      for (const group of groups) {
        const lines = this.counted(group);
        const middle = lines.length > 1 ? medianCurve(lines, xRange) : null;
        if (middle) found.set(group, middle);
      }
      return found;
    }

    /** An empty canvas as sharp as the screen. */
    clear(canvas) {
      const { clientWidth, clientHeight } = this.plot;
      const sharpness = window.devicePixelRatio || 1;
      canvas.width = Math.round(clientWidth * sharpness);
      canvas.height = Math.round(clientHeight * sharpness);
      const context = canvas.getContext("2d");
      context.setTransform(sharpness, 0, 0, sharpness, 0, 0);
      return context;
    }

    /** Draws grid and numbers; returns where the curves go. */
    axes(context, xRange, yRange) {
      const { clientWidth: width, clientHeight: height } = this.plot;
      const [top, bottom] = [10, height - 36];
      const across = ticks(yRange, Math.max(2, (bottom - top) / 32));
      context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
      const texts = across.values.map((value) => tickText(value, across.step));
      const left = Math.ceil(Math.max(24, ...texts.map((text) => context.measureText(text).width))) + 10;
      const right = width - 14;
      const frame = { left, right, top, bottom, xRange, yRange };
      this.frame = frame;

      const { unit, suffix, name } = xUnit(xRange[1]);
      const along = ticks([xRange[0] / unit, xRange[1] / unit], Math.max(2, (right - left) / 64));
      context.lineWidth = 1;
      context.textBaseline = "middle";
      context.textAlign = "right";
      across.values.forEach((value, i) => {
        const py = Math.round(this.toPixels(xRange[0], value)[1]) + 0.5;
        context.strokeStyle = resolved(value === 0 ? "var(--axis)" : "var(--grid)");
        strokePath(context, [[left, py], [right, py]]);
        context.fillStyle = resolved("var(--quiet)");
        context.fillText(texts[i], left - 8, py);
      });
      context.textBaseline = "top";
      context.fillStyle = resolved("var(--quiet)");
      for (const value of along.values) {
        const px = Math.round(this.toPixels(value * unit, yRange[0])[0]) + 0.5;
        const text = tickText(value, along.step, 1, suffix);
        const half = context.measureText(text).width / 2;
        context.strokeStyle = resolved("var(--axis)");
        strokePath(context, [[px, bottom], [px, bottom + 4]]);
        context.textAlign = px + half > width ? "right" : "center";
        context.fillText(text, context.textAlign === "right" ? width : px, bottom + 7);
      }
      context.strokeStyle = resolved("var(--axis)");
      strokePath(context, [[left, bottom + 0.5], [right, bottom + 0.5]]);
      context.textAlign = "right";
      context.fillText(name, right, height - 13);
      return frame;
    }

    /** Thin curves first, medians over them, evaluations on top. */
    paint(context) {
      if (!this.lines.length) {
        const { left, right, top, bottom } = this.frame;
        Object.assign(context, { fillStyle: resolved("var(--quiet)"), textAlign: "center", textBaseline: "middle" });
        context.fillText("nothing to draw is switched on", (left + right) / 2, (top + bottom) / 2);
      }
      context.save();
      this.clip(context);
      for (const { group, curve } of this.lines) {
        const alone = !this.medians.has(group);
        this.line(context, curve, look(group), alone ? 2 : 1, alone ? 0.95 : this.faintness());
      }
      for (const [group, curve] of this.medians) this.line(context, curve, look(group), 2.75, 1);
      context.restore();
      const radius = this.dots.length > 12 ? 2.5 : 3.5;
      for (const { group, point } of this.dots) this.dot(context, point, look(group).colour, radius);
    }

    /** Thin lines fade as there are more of them. */
    faintness() {
      return Math.max(0.16, Math.min(0.45, 3.2 / Math.sqrt(this.lines.length + 40)));
    }

    clip(context) {
      const { left, right, top, bottom } = this.frame;
      context.beginPath();
      context.rect(left, top - 4, right - left, bottom - top + 4);
      context.clip();
    }

    line(context, curve, { colour, dash }, width, strength) {
      const { xRange } = this.frame;
      const first = Math.max(0, lastBelow(curve.x, xRange[0]));
      const last = Math.min(curve.x.length - 1, lastBelow(curve.x, xRange[1]) + 1);
      const points = [];
      for (let i = first; i <= last; i += 1) points.push(this.toPixels(curve.x[i], curve.y[i]));
      Object.assign(context, { strokeStyle: resolved(colour), lineWidth: width, lineJoin: "round" });
      context.globalAlpha = strength;
      context.setLineDash(dash);
      if (points.length === 1) this.dot(context, [curve.x[first], curve.y[first]], colour, width + 0.5);
      else strokePath(context, points);
      context.setLineDash([]);
      context.globalAlpha = 1;
    }

    dot(context, [x, y], colour, radius) {
      const [px, py] = this.toPixels(x, y);
      const { top, bottom } = this.frame;
      if (py < top - 4 || py > bottom + 4) return;
      context.beginPath();
      context.arc(px, py, radius, 0, 2 * Math.PI);
      Object.assign(context, { fillStyle: resolved(colour), strokeStyle: resolved("var(--panel)"), lineWidth: 1.25 });
      context.fill();
      context.stroke();
    }

    /** What moves: the selection, the cursor, the curve under it. */
    drawOver() {
      const context = this.clear(this.over);
      this.readout.hidden = true;
      if (!this.frame) return;
      const { left, right, top, bottom } = this.frame;
      if (this.drag?.to) {
        const { x, y, width, height } = this.selection();
        context.fillStyle = resolved("var(--selection)");
        context.strokeStyle = resolved("var(--accent)");
        context.fillRect(x, y, width, height);
        context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
        return;
      }
      const focus = this.env.focus;
      const focused = this.lines.find((line) => line.run === focus);
      if (focused) this.emphasise(context, focused);
      if (!this.cursor || !this.lines.length) return;
      const px = Math.min(right, Math.max(left, this.cursor[0]));
      const [x] = this.fromPixels(px, top);
      context.strokeStyle = resolved("var(--axis)");
      strokePath(context, [[px, top], [px, bottom]]);
      const near = this.nearest(px, this.cursor[1]);
      if (near) this.emphasise(context, near);
      this.showReadout(context, x, px, near);
    }

    /** One curve over all others, with a margin that sets it apart. */
    emphasise(context, { curve, group }) {
      context.save();
      this.clip(context);
      this.line(context, curve, { colour: "var(--panel)", dash: [] }, 6, 0.85);
      this.line(context, curve, look(group), 3, 1);
      context.restore();
    }

    /** The curve that passes closest above or below a point, if one is near. */
    nearest(px, py) {
      const [x] = this.fromPixels(px, 0);
      let best = null;
      let distance = py === null ? -1 : 28;
      for (const line of this.lines) {
        const y = valueAt(line.curve, x);
        if (y === null) continue;
        const away = Math.abs(this.toPixels(x, y)[1] - py);
        if (away < distance) [best, distance] = [line, away];
      }
      return best;
    }

    /** Each group's value at x, where at least half of its curves have one. */
    valuesAt(x) {
      return groups.flatMap((group) => {
        const lines = this.counted(group);
        const values = present(lines.map((line) => countedAt(line, x)));
        const enough = values.length > 0 && values.length * 2 >= lines.length;
        return enough ? [{ group, value: median(values), count: values.length }] : [];
      });
    }

    showReadout(context, x, px, near) {
      const values = this.valuesAt(x);
      for (const { group, value } of values) this.dot(context, [x, value], look(group).colour, 4);
      const row = (mark, name, value, kind = null) => {
        const cells = [make("td", {}, mark), make("td", {}, name), make("td", { class: "number" }, number(value))];
        return make("tr", { class: kind }, ...cells);
      };
      const rows = values.map(({ group, value }) => row(swatch(group), group, value));
      if (near && this.lines.length > 1) rows.push(row("▸", near.run.name, valueAt(near.curve, x), "near"));
      const note = values.some(({ count }) => count > 1) ? " medians" : "";
      const head = [make("strong", {}, xText(x)), make("small", {}, note)];
      this.readout.replaceChildren(...head, make("table", {}, make("tbody", {}, ...rows)));
      this.readout.hidden = false;
      const width = this.readout.offsetWidth;
      const room = this.plot.clientWidth;
      this.readout.classList.toggle("below", room < 2 * width); // where it would hide the curves
      const beside = px + 14 + width < room ? px + 14 : px - 14 - width;
      this.readout.style.left = `${Math.max(0, Math.min(beside, room - width))}px`;
    }

    /** A sentence for those who do not see the chart. */
    description(metric) {
      const last = groups.flatMap((group) => {
        const ends = this.lines.filter((line) => line.group === group).map((line) => line.curve.y.at(-1));
        return ends.length ? [`${group} ${number(median(ends))}`] : [];
      });
      const against = state.x === "steps" ? "steps" : "time";
      return `${metric.label} against ${against}, ${this.env.name}, ${plural(this.lines.length, "curve")}. ` +
        (last.length ? `Last values: ${last.join(", ")}. ` : "") +
        "Arrow keys read values, plus and minus zoom, 0 resets.";
    }

    // ---- zoom

    /** The rectangle being dragged: over the whole height or width unless the drag is clearly across. */
    selection() {
      const { left, right, top, bottom } = this.frame;
      const within = ([px, py]) => [Math.min(right, Math.max(left, px)), Math.min(bottom, Math.max(top, py))];
      const [a, b] = [within(this.drag.from), within(this.drag.to)];
      const [wide, high] = [Math.abs(a[0] - b[0]), Math.abs(a[1] - b[1])];
      const alongX = wide >= 8;
      const alongY = high >= 28;
      return {
        alongX,
        alongY,
        x: alongX ? Math.min(a[0], b[0]) : left,
        y: alongY ? Math.min(a[1], b[1]) : top,
        width: alongX ? wide : right - left,
        height: alongY ? high : bottom - top,
      };
    }

    zoomToSelection() {
      const { alongX, alongY, x, y, width, height } = this.selection();
      if (!alongX && !alongY) return;
      const [x0, y1] = this.fromPixels(x, y);
      const [x1, y0] = this.fromPixels(x + width, y + height);
      if (alongX) this.zoomTo([x0, x1]);
      this.yRange = alongY ? [y0, y1] : null;
      redraw();
    }

    zoomTo([least, greatest]) {
      const all = this.wholeRange();
      const range = [Math.max(all[0], least), Math.min(all[1], greatest)];
      const isAll = range[0] <= all[0] && range[1] >= all[1];
      if (range[1] - range[0] > (all[1] - all[0]) * 1e-4) this.env.range = isAll ? null : range;
      redraw();
    }

    /** Zooms by a factor around the cursor, or around the middle. */
    zoomBy(factor) {
      const { left, right, xRange } = this.frame;
      const centre = this.fromPixels(this.cursor ? this.cursor[0] : (left + right) / 2, 0)[0];
      this.zoomTo([centre + (xRange[0] - centre) * factor, centre + (xRange[1] - centre) * factor]);
    }

    reset() {
      unzoom([this.env]);
    }

    // ---- pointer and keyboard

    listen() {
      const place = (event) => {
        const box = this.plot.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
      };
      const show = (cursor) => {
        this.cursor = cursor;
        this.drawOver();
      };
      this.plot.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || !this.frame) return;
        this.drag = { from: place(event), to: null };
        this.plot.setPointerCapture(event.pointerId);
      });
      this.plot.addEventListener("pointermove", (event) => {
        if (!this.frame) return;
        const at = place(event);
        if (this.drag && Math.hypot(at[0] - this.drag.from[0], at[1] - this.drag.from[1]) > 5) this.drag.to = at;
        show(at);
      });
      this.plot.addEventListener("pointerup", (event) => {
        if (this.drag?.to) this.zoomToSelection();
        this.drag = null;
        show(place(event));
      });
      this.plot.addEventListener("pointercancel", () => {
        this.drag = null;
        show(null);
      });
      // A finger that is lifted leaves the read-out standing until something else is touched.
      this.plot.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && !this.drag && show(null));
      this.plot.addEventListener("blur", () => show(null));
      this.plot.addEventListener("dblclick", () => this.reset());
      this.plot.addEventListener("keydown", (event) => this.key(event));
    }

    key(event) {
      if (!this.frame || event.ctrlKey || event.metaKey || event.altKey) return;
      const { left, right } = this.frame;
      const stride = (right - left) / (event.shiftKey ? 8 : 50);
      const at = this.cursor ? this.cursor[0] : left;
      const move = (px) => {
        this.cursor = [Math.min(right, Math.max(left, px)), null];
        this.drawOver();
        const [x] = this.fromPixels(this.cursor[0], 0);
        const values = this.valuesAt(x).map(({ group, value }) => `${group} ${number(value)}`);
        this.spoken.textContent = `${xText(x)}: ${values.join(", ") || "no value"}`;
      };
      const actions = {
        ArrowLeft: () => move(at - stride),
        ArrowRight: () => move(at + stride),
        Home: () => move(left),
        End: () => move(right),
        "+": () => this.zoomBy(0.5),
        "=": () => this.zoomBy(0.5),
        "-": () => this.zoomBy(2),
        "−": () => this.zoomBy(2),
        0: () => this.reset(),
        Escape: () => this.reset(),
      };
      if (!Object.hasOwn(actions, event.key)) return;
      event.preventDefault();
      actions[event.key]();
    }
  }

  function strokePath(context, points) {
    context.beginPath();
    points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
  }

  // ---------------------------------------------------------------- the page's parts

  const sum = (values) => present(values).reduce((total, value) => total + value, 0);
  const list = (items) => make("ul", {}, ...items.map((item) => make("li", {}, item)));

  function facts() {
    const pairs = runs.length === 1 ? factsOfOne(runs[0]) : factsOfAll();
    byId("facts").append(
      ...pairs.map(([name, value, note]) =>
        make("div", {}, make("dt", {}, name), make("dd", {}, value, note ? make("small", {}, note) : null))),
    );
  }

  function factsOfOne(run) {
    return [
      ["Environment", run.env],
      ["Agent", run.agent],
      ["Steps", whole(run.steps)],
      ["Training time", duration(run.seconds), run.seconds ? ` ${whole(run.steps / run.seconds)} steps/s` : null],
      ["Return", number(run.final), run.best === null ? null : ` best ${number(run.best)}`],
      ...(run.evaluation === null ? [] : [["Evaluation", number(run.evaluation)]]),
    ];
  }

  function factsOfAll() {
    return [
      ["Runs", whole(runs.length)],
      ["Environments", whole(environments.length)],
      ["Agents", whole(content.agents.length)],
      ["Steps", whole(sum(runs.map((run) => run.steps)))],
      ["Training time", duration(sum(runs.map((run) => run.seconds)))],
    ];
  }

  // ---- controls

  function controls() {
    byId("controls").hidden = false;
    for (const radio of document.getElementsByName("x")) {
      radio.disabled = !runs.some((run) => run.curves.some((block) => radio.value in block));
      radio.addEventListener("change", () => {
        state.x = radio.value;
        unzoom(environments);
        forget();
      });
    }
    byId("smoothing").addEventListener("change", (event) => {
      state.smoothing = Number(event.target.value);
      forget();
    });
    byId("reset-all").addEventListener("click", () => unzoom(environments));
    const options = (pairs) => pairs.map(([value, label]) => make("option", { value }, label));
    byId("metric").append(...options(content.metrics.map(({ name, label }) => [name, label])));
    byId("metric").addEventListener("change", (event) => {
      state.metric = event.target.value;
      explain();
      for (const chart of charts) chart.yRange = null;
      redraw();
    });
    byId("metric-choice").hidden = environments.length < 2;
    const few = content.differing.filter((name) => {
      const count = new Set(runs.map((run) => setting(run, name))).size;
      return !["env", "algo", "agent"].includes(name) && count <= COLOURS;
    });
    byId("colour").append(...options([["agent", "agent"], ...few.map((name) => [name, name])]));
    byId("colour").addEventListener("change", (event) => {
      state.colour = event.target.value;
      state.hiddenGroups.clear();
      findGroups();
      legend();
      switched();
    });
    byId("colour-choice").hidden = few.length === 0;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      resolvedColours.clear();
      redraw();
    });
    addEventListener("beforeprint", () => charts.forEach((chart) => chart.draw()));
  }

  /** After a change of x or smoothing the curves are computed anew. */
  function forget() {
    for (const run of runs) run.cache.clear();
    redraw();
  }

  const whenSwitched = []; // called when runs or groups are switched on or off, or change their colours

  function switched() {
    for (const update of whenSwitched) update();
    redraw();
  }

  /** One switch for each group. */
  function legend() {
    const count = (group) => runs.filter((run) => groupOf(run) === group).length;
    const chips = groups.map((group) => {
      const box = make("input", {
        type: "checkbox",
        checked: !state.hiddenGroups.has(group),
        change: () => {
          state.hiddenGroups[box.checked ? "delete" : "add"](group);
          switched();
        },
      });
      const words = make("span", {}, state.colour === "agent" ? group : `${state.colour} ${group}`);
      return make("label", { class: "chip" }, box, swatch(group), words, make("small", {}, whole(count(group))));
    });
    const title = byId("legend-title");
    title.textContent = state.colour === "agent" ? "Agents" : state.colour;
    byId("legend").replaceChildren(title, ...chips);
  }

  // ---- charts by environment

  function overview() {
    const place = byId("overview");
    place.hidden = environments.length < 2 || !content.metrics.length;
    if (place.hidden) return;
    explain();
    const grid = place.querySelector(".grid");
    grid.classList.toggle("pairs", [2, 4].includes(environments.length));
    for (const env of environments) {
      const open = (event) => {
        event.preventDefault();
        const details = byId(`env-${env.index}`);
        details.open = true;
        details.scrollIntoView();
        details.querySelector("summary").focus({ preventScroll: true });
      };
      const link = make("a", { href: `#env-${env.index}`, click: open }, env.name);
      grid.append(new Chart(env, () => state.metric, make("h3", {}, link)).node);
    }
  }

  /** Says what the overview shows. */
  function explain() {
    const { label, about } = content.metrics.find(({ name }) => name === state.metric);
    byId("overview-about").replaceChildren(make("strong", {}, label), `: ${about}.`);
  }

  function details() {
    const place = byId("environments");
    place.hidden = false;
    const single = environments.length === 1;
    byId("environments-title").textContent = single ? environments[0].name : "Environments, one by one";
    for (const env of environments) {
      if (single) {
        place.append(...environmentParts(env));
        continue;
      }
      const agents = [...new Set(env.runs.map((run) => run.agent))];
      const by = agents.length > 4 ? plural(agents.length, "agent") : agents.join(", ");
      const title = [env.name, make("small", {}, `${plural(env.runs.length, "run")}, ${by}`)];
      place.append(fold(title, () => environmentParts(env), false, { class: "env", id: `env-${env.index}` }));
    }
  }

  function environmentParts(env) {
    const has = (run, name) => run.curves.some((block) => name in block);
    const metrics = content.metrics.filter(({ name }) => env.runs.some((run) => has(run, name)));
    const chart = ({ name, label }, kind) => new Chart(env, () => name, make("h3", {}, label), kind).node;
    const first = metrics.filter((metric) => metric.name === "return_mean").map((metric) => chart(metric, "large"));
    const others = metrics.filter((metric) => metric.name !== "return_mean").map((metric) => chart(metric, "small"));
    const media = env.runs.flatMap((run) => run.media);
    return [
      ...first,
      others.length ? make("div", { class: "grid" }, ...others) : null,
      env.runs.length > 1 ? runsPart(env) : null,
      evaluationsPart(env),
      media.length ? gallery(media, "Films and pictures") : null,
      metrics.length ? null : make("p", { class: "about" }, "No row has been logged yet."),
    ].filter(Boolean);
  }

  function gallery(media, title) {
    const figures = media.map(({ name, uri }) => {
      const film = uri.startsWith("data:video/");
      const attributes = film
        ? { src: uri, controls: true, loop: true, playsinline: true, preload: "metadata", "aria-label": name }
        : { src: uri, alt: name, loading: "lazy" };
      return make("figure", {}, make(film ? "video" : "img", attributes), make("figcaption", {}, name));
    });
    return make("div", { class: "gallery" }, title ? make("h4", {}, title) : null, ...figures);
  }

  /** The environment's runs with a switch for each; pointing at one brings its curve out. */
  function runsPart(env) {
    const names = content.differing.filter(
      (name) => !["env", "algo"].includes(name) && new Set(env.runs.map((run) => setting(run, name))).size > 1,
    );
    const evaluated = env.runs.some((run) => run.evaluation !== null);
    const build = () => {
      const header = ["Run", "Agent", ...names, "Steps", "Time", "Return", "Best"];
      if (evaluated) header.push("Evaluation");
      const boxes = env.runs.map((run) => runSwitch(run));
      const marks = env.runs.map(() => make("span", { class: "mark" }));
      const rows = env.runs.map((run, i) => [
        make("label", { class: "run-switch" }, boxes[i], marks[i], run.name),
        run.agent,
        ...names.map((name) => setting(run, name) ?? "–"),
        whole(run.steps),
        duration(run.seconds),
        number(run.final),
        number(run.best),
        ...(evaluated ? [number(run.evaluation)] : []),
      ]);
      const node = table(header, rows, `Runs on ${env.name}`);
      node.querySelectorAll("tbody tr").forEach((row, i) => {
        const focus = (run) => () => {
          env.focus = run;
          for (const chart of env.charts) if (chart.frame) chart.drawOver();
        };
        row.addEventListener("pointerenter", focus(env.runs[i]));
        row.addEventListener("pointerleave", focus(null));
        row.addEventListener("focusin", focus(env.runs[i]));
        row.addEventListener("focusout", focus(null));
      });
      const update = () =>
        env.runs.forEach((run, i) => {
          boxes[i].checked = !state.hiddenRuns.has(run);
          marks[i].replaceChildren(swatch(groupOf(run)));
          boxes[i].closest("tr").classList.toggle("off", !isShown(run));
        });
      whenSwitched.push(update);
      update();
      return [make("p", { class: "buttons" }, allRuns(env, "All on", true), allRuns(env, "All off", false)), node];
    };
    return fold(`Runs (${env.runs.length})`, build, env.runs.length <= SHORT_LIST, { class: "runs" });
  }

  function runSwitch(run) {
    const box = make("input", {
      type: "checkbox",
      change: () => {
        state.hiddenRuns[box.checked ? "delete" : "add"](run);
        switched();
      },
    });
    return box;
  }

  function allRuns(env, words, on) {
    const click = () => {
      for (const run of env.runs) state.hiddenRuns[on ? "delete" : "add"](run);
      switched();
    };
    return make("button", { type: "button", click }, words);
  }

  function evaluationsPart(env) {
    const rows = env.runs.flatMap((run) =>
      run.evaluations.map((one) => [
        run.name,
        run.agent,
        "steps" in one ? whole(one.steps) : "–",
        one.policy,
        whole(one.episodes ?? null),
        number(one.return_mean),
        number(one.return_std),
        number(one.return_min),
        number(one.return_max),
      ]));
    if (!rows.length) return null;
    const header = ["Run", "Agent", "After steps", "Policy", "Episodes", "Mean", "Deviation", "Least", "Greatest"];
    const build = () => table(header, rows, `Evaluations on ${env.name}`);
    return fold(`Evaluations (${rows.length})`, build, rows.length <= SHORT_LIST, { class: "evaluations" });
  }

  // ---- results, settings, figures, tables

  /** Median and range of one result over runs that did not fail, and their number if wanted, as a table's cell. */
  function spread(some, result, counted) {
    const values = ascending(present(some.filter((run) => !run.failed).map((run) => run[result])));
    if (!values.length) return { text: "–", value: null };
    const range = `${number(values[0])} to ${number(values.at(-1))}${counted ? `, ${values.length} runs` : ""}`;
    return { text: number(median(values)), note: values.length > 1 ? range : null, value: median(values) };
  }

  function summary() {
    if (runs.length < 2) return;
    const place = byId("summary");
    place.hidden = false;
    const evaluated = runs.some((run) => run.evaluation !== null);
    if (content.agents.length === 1) {
      const header = ["Environment", "Runs", "Return", ...(evaluated ? ["Evaluation"] : [])];
      const kinds = ["final", ...(evaluated ? ["evaluation"] : [])];
      const cells = (env) => kinds.map((result) => spread(env.runs, result, false));
      const rows = environments.map((env) => [env.name, whole(env.runs.length), ...cells(env)]);
      place.append(table(header, rows, "Last values: median and range over runs", "results"));
      return;
    }
    place.append(resultsByAgent("final", "Return over the last 100 training episodes: median and range over runs"));
    if (evaluated) place.append(resultsByAgent("evaluation", "Last evaluation: median and range over runs"));
  }

  /** A table of environments and agents; the best agent of each environment stands out. */
  function resultsByAgent(result, caption) {
    const rows = environments.map((env) => {
      const cells = content.agents.map((agent) => spread(env.runs.filter((run) => run.agent === agent), result, true));
      const values = present(cells.map((cell) => cell.value));
      const isBest = (cell) => values.length > 1 && cell.value === Math.max(...values);
      return [env.name, ...cells.map((cell) => ({ ...cell, mark: isBest(cell) }))];
    });
    return table(["Environment", ...content.agents], rows, caption, "results");
  }

  function settings() {
    const place = byId("settings");
    place.hidden = false;
    const shared = Object.entries(content.shared);
    const differing = content.differing.map((name) => [name, differences(name)]);
    if (differing.length) place.append(settingsTable(differing, "What differs between runs"));
    if (runs.length > 1 && shared.length)
      place.append(fold(`The same in every run (${shared.length})`, () => settingsTable(shared)));
    const title = runs.length > 1 ? "The whole configuration of one run" : "The whole configuration";
    place.append(fold(title, wholeConfiguration));
  }

  /** Settings with their values and their sentences. */
  function settingsTable(pairs, caption = null) {
    const about = new Map(Object.entries(content.about));
    const named = (name) => {
      const note = about.has(name) ? make("small", {}, about.get(name)) : null;
      return make("span", {}, make("code", {}, name), note);
    };
    return table(["Setting", "Value"], pairs.map(([name, value]) => [named(name), value]), caption, "settings");
  }

  /** A setting's values: with their environments if each has one, with their runs if they are few, else their range. */
  function differences(name) {
    const values = [...new Set(runs.map((run) => setting(run, name)).filter((value) => value !== null))].sort(byValue);
    const having = (value) => runs.filter((run) => setting(run, name) === value);
    const ofEnv = environments.map((env) => new Set(env.runs.map((run) => setting(run, name))));
    const short = values.length <= 8;
    if (name === "env") return values.join(", ");
    if (environments.length > 1 && short && ofEnv.every((found) => found.size === 1))
      return list(values.map((value) => `${value}: ${[...new Set(having(value).map((run) => run.env))].join(", ")}`));
    if (short) return values.map((value) => `${value} (${plural(having(value).length, "run")})`).join(", ");
    return `${values.length} values from ${values[0]} to ${values.at(-1)}`;
  }

  function wholeConfiguration() {
    const place = make("div");
    const show = (run) => {
      const pairs = [...Object.entries(run.settings), ...Object.entries(content.shared)];
      const nothing = make("p", {}, "No settings were found beside this run.");
      place.replaceChildren(pairs.length ? settingsTable(pairs) : nothing);
    };
    show(runs[0]);
    if (runs.length === 1) return place;
    const options = runs.map((run) => make("option", {}, run.name));
    const choice = make("select", { change: () => show(runs[choice.selectedIndex]) }, ...options);
    return [make("label", { class: "choice" }, "Run ", choice), place];
  }

  function figures() {
    byId("figures").hidden = !content.media.length;
    if (content.media.length) byId("figures").append(gallery(content.media));
  }

  function tables() {
    byId("tables").hidden = !content.tables.length;
    const few = content.tables.length === 1;
    for (const { name, header, rows } of content.tables) {
      const title = [name, make("small", {}, plural(rows.length, "row"))];
      byId("tables").append(fold(title, () => table(header, rows, name), few));
    }
  }

  function notes() {
    byId("notes").hidden = !content.notes.length;
    if (content.notes.length) byId("notes").append(list(content.notes));
    const thinned = content.thinned
      ? ` Long curves are thinned to ${whole(content.thinned)} points that keep their highest and lowest values.`
      : "";
    byId("made-by").textContent = `Written by acer ${content.version}.${thinned}`;
  }

  if (runs.length) {
    findGroups();
    facts();
    controls();
    legend();
    overview();
    summary();
    details();
    settings();
  }
  figures();
  tables();
  notes();
})();
