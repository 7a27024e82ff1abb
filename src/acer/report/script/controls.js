/* The head of the page, its controls and its legend. */

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
