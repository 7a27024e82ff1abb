/* A chart: what it draws. */

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
    const reset = { type: "button", class: "reset", hidden: true, click: () => unzoom([this.env]) };
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
    listen(this);
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
      const { x, y, width, height } = selectionOf(this);
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
}

function strokePath(context, points) {
  context.beginPath();
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
}
