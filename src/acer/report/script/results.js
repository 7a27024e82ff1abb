/* Results, settings, figures, tables; then everything is put on the page. */

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
