/* What a chart answers: dragging, pointing, keys. */

/** The rectangle being dragged: over the whole height or width unless the drag is clearly across. */
function selectionOf(chart) {
  const { left, right, top, bottom } = chart.frame;
  const within = ([px, py]) => [Math.min(right, Math.max(left, px)), Math.min(bottom, Math.max(top, py))];
  const [a, b] = [within(chart.drag.from), within(chart.drag.to)];
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

function zoomToSelection(chart) {
  const { alongX, alongY, x, y, width, height } = selectionOf(chart);
  if (!alongX && !alongY) return;
  const [x0, y1] = chart.fromPixels(x, y);
  const [x1, y0] = chart.fromPixels(x + width, y + height);
  if (alongX) zoomTo(chart, [x0, x1]);
  chart.yRange = alongY ? [y0, y1] : null;
  redraw();
}

function zoomTo(chart, [least, greatest]) {
  const all = chart.wholeRange();
  const range = [Math.max(all[0], least), Math.min(all[1], greatest)];
  const isAll = range[0] <= all[0] && range[1] >= all[1];
  if (range[1] - range[0] > (all[1] - all[0]) * 1e-4) chart.env.range = isAll ? null : range;
  redraw();
}

/** Zooms by a factor around the cursor, or around the middle. */
function zoomBy(chart, factor) {
  const { left, right, xRange } = chart.frame;
  const centre = chart.fromPixels(chart.cursor ? chart.cursor[0] : (left + right) / 2, 0)[0];
  zoomTo(chart, [centre + (xRange[0] - centre) * factor, centre + (xRange[1] - centre) * factor]);
}

function listen(chart) {
  const place = (event) => {
    const box = chart.plot.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const show = (cursor) => {
    chart.cursor = cursor;
    chart.drawOver();
  };
  chart.plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !chart.frame) return;
    chart.drag = { from: place(event), to: null };
    chart.plot.setPointerCapture(event.pointerId);
  });
  chart.plot.addEventListener("pointermove", (event) => {
    if (!chart.frame) return;
    const at = place(event);
    if (chart.drag && Math.hypot(at[0] - chart.drag.from[0], at[1] - chart.drag.from[1]) > 5) chart.drag.to = at;
    show(at);
  });
  chart.plot.addEventListener("pointerup", (event) => {
    if (chart.drag?.to) zoomToSelection(chart);
    chart.drag = null;
    show(place(event));
  });
  chart.plot.addEventListener("pointercancel", () => {
    chart.drag = null;
    show(null);
  });
  // A finger that is lifted leaves the read-out standing until something else is touched.
  chart.plot.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && !chart.drag && show(null));
  chart.plot.addEventListener("blur", () => show(null));
  chart.plot.addEventListener("dblclick", () => unzoom([chart.env]));
  chart.plot.addEventListener("keydown", (event) => pressed(chart, event));
}

function pressed(chart, event) {
  if (!chart.frame || event.ctrlKey || event.metaKey || event.altKey) return;
  const { left, right } = chart.frame;
  const stride = (right - left) / (event.shiftKey ? 8 : 50);
  const at = chart.cursor ? chart.cursor[0] : left;
  const move = (px) => {
    chart.cursor = [Math.min(right, Math.max(left, px)), null];
    chart.drawOver();
    const [x] = chart.fromPixels(chart.cursor[0], 0);
    const values = chart.valuesAt(x).map(({ group, value }) => `${group} ${number(value)}`);
    chart.spoken.textContent = `${xText(x)}: ${values.join(", ") || "no value"}`;
  };
  const actions = {
    ArrowLeft: () => move(at - stride),
    ArrowRight: () => move(at + stride),
    Home: () => move(left),
    End: () => move(right),
    "+": () => zoomBy(chart, 0.5),
    "=": () => zoomBy(chart, 0.5),
    "-": () => zoomBy(chart, 2),
    "−": () => zoomBy(chart, 2),
    0: () => unzoom([chart.env]),
    Escape: () => unzoom([chart.env]),
  };
  if (!Object.hasOwn(actions, event.key)) return;
  event.preventDefault();
  actions[event.key]();
}
