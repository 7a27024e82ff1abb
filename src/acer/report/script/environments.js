/* The overview, and a part for each environment. */

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
