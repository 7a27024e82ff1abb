"""`acer report`: what it gathers, what it refuses, and the page in a browser."""

import json
import math
import re
import sys
from html.parser import HTMLParser

import imageio_ffmpeg
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from acer.cli import main
from acer.errors import SettingsError
from acer.learner.metrics import CHARTS, PROGRESS
from acer.report import content, gather, page
from acer.run.logs import EVALUATIONS, Table
from browser import CHROMIUM, Browser

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
KB = 1 << 10


# ------------------------------------------------------------------ runs to report on


def rows(count=40, end=60_000, level=1.0, seed=0):
    """A curve that rises, with some noise, and diagnostics beside it."""
    noise = np.random.default_rng(seed)
    for i in range(count):
        share = (i + 1) / count
        row = dict.fromkeys(PROGRESS, 0.0)
        row |= {"steps": int(end * share), "seconds": 30.5 * share, "episodes": i}
        row |= {"return_mean": 500 * level * share + noise.normal(0, 8) if i > 1 else ""}
        row |= {"entropy": 0.69 - 0.4 * share, "kl": 0.1 * share, "trust_region_active": abs(noise.normal(0, 0.02))}
        row |= {"explained_variance": -300.0 if i == 0 else share, "trace": 1 - 0.3 * share, "rho_above_c": 0.004}
        yield row


def write_rows(file, **options):
    Table(file, PROGRESS).add(*rows(**options))


def write_run(directory, env="CartPole-v1", algo="acer", seed=0, settings=None, **options):
    directory.mkdir(parents=True)
    config = {"env": env, "algo": algo, "seed": seed, "learning_rate": 0.0007, "hidden": [64, 64], "workers": False}
    (directory / "config.json").write_text(json.dumps(config | (settings or {})))
    write_rows(directory / "progress.csv", seed=seed, **options)
    evaluation = {"steps": 60_000, "seconds": 31.0, "episodes": 20, "return_mean": 480.0 + seed, "return_std": 3.0,
                  "return_min": 470.0, "return_max": 500.0, "length_mean": 480.0, "policy": "mode"}  # fmt: skip
    Table(directory / "eval.csv", EVALUATIONS).add(evaluation)
    return directory


def write_picture(file, width=240):
    Image.new("RGB", (width, 60), (40, 120, 200)).save(file)


def write_film(file):
    writer = imageio_ffmpeg.write_frames(str(file), (64, 64), fps=8, codec="libx264", macro_block_size=1)
    writer.send(None)
    for shade in range(8):
        writer.send(np.full((64, 64, 3), 25 * shade, np.uint8))
    writer.close()


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """Two environments, two agents and three seeds each, figures, a table, a film strip and a film."""
    root = tmp_path_factory.mktemp("experiment") / "study"
    for level, env in ((1.0, "CartPole-v1"), (0.5, "fish")):
        for algo in ("acer", "a3c"):
            for seed in range(3):
                write_run(root / "runs" / f"{env}-{algo}-{seed}", env, algo, seed, level=level * (1 + (algo == "acer")))
    write_film(root / "runs" / "CartPole-v1-acer-0" / "video.mp4")
    write_picture(root / "runs" / "CartPole-v1-acer-0" / "strip.png", 1600)
    write_picture(root / "runs" / "CartPole-v1-acer-0" / "curve.png")
    write_picture(root / "study.png")
    (root / "study.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'><circle r='4'/></svg>")
    (root / "study.csv").write_text("method,return,low,high\nacer,495.5,-1,500\na3c,251,200,300\n")
    return root


def made(*directories, title="A title"):
    return content.content(gather.gather(directories), title)


# ------------------------------------------------------------------ gathering


def test_an_experiment_is_gathered_from_any_depth(experiment):
    shown = made(experiment)
    assert shown["environments"] == ["CartPole-v1", "fish"]
    assert shown["agents"] == ["acer", "a3c"]
    assert len(shown["runs"]) == 12
    assert shown["runs"][0]["name"] == "CartPole-v1-acer-0"
    assert shown["differing"] == ["env", "algo", "seed"]
    assert shown["shared"] == {"learning_rate": "0.0007", "hidden": "64, 64", "workers": "no"}
    assert "RMSProp" in shown["about"]["learning_rate"]
    assert [table["name"] for table in shown["tables"]] == ["study.csv"]
    assert [picture["name"] for picture in shown["media"]] == ["study.svg"], "one of PNG and SVG"
    names = [picture["name"].split("/")[-1] for picture in shown["runs"][0]["media"]]
    assert names == ["strip.png", "video.mp4"], "the curve is drawn by the page"
    assert [metric["name"] for metric in shown["metrics"]][:3] == ["return_mean", "trust_region_active", "entropy"]
    assert str(experiment.parent) not in json.dumps(shown), "no paths of this machine on the page"


def test_a_single_run(experiment):
    shown = made(experiment / "runs" / "fish-a3c-2")
    (run,) = shown["runs"]
    assert run["name"] == "fish-a3c-2" and run["env"] == "fish" and run["agent"] == "a3c"
    assert run["steps"] == 60_000 and run["evaluation"] == 482 and run["best"] >= run["final"] > 200
    assert run["evaluations"][0]["policy"] == "mode"
    assert shown["differing"] == []
    assert len(run["curves"]) == 1 and len(run["curves"][0]["steps"]) == 40
    assert run["curves"][0]["return_mean"][:2] == [None, None]


def test_pairs_of_csv_and_json_and_csv_files_alone(tmp_path):
    for algo in ("acer", "tis"):
        write_rows(tmp_path / f"walker-{algo}.csv")
        (tmp_path / f"walker-{algo}.json").write_text(json.dumps({"config": {"env": "walker", "algo": algo}}))
    write_rows(tmp_path / "pong.csv")
    (tmp_path / "pong.json").write_text(json.dumps({"env": "pong", "algo": "acer", "truncation": "inf"}))
    write_picture(tmp_path / "pong.png")
    for name in ("LunarLander-v3-a3c-7", "LunarLanderContinuous-v3-1", "trial-lr1e-4"):
        write_rows(tmp_path / f"{name}.csv")
    shown = {run["name"]: run for run in made(tmp_path)["runs"]}
    assert {name: run["env"] for name, run in shown.items()} == {
        "walker-acer": "walker", "walker-tis": "walker", "pong": "pong", "LunarLander-v3-a3c-7": "LunarLander-v3",
        "LunarLanderContinuous-v3-1": "LunarLanderContinuous-v3", "trial-lr1e-4": tmp_path.name,
    }  # fmt: skip
    assert shown["walker-tis"]["agent"] == "tis"
    assert shown["LunarLander-v3-a3c-7"]["agent"] == "a3c"
    assert shown["LunarLander-v3-a3c-7"]["settings"]["seed"] == "7"
    assert shown["trial-lr1e-4"]["agent"] == gather.UNKNOWN
    assert [picture["name"] for picture in shown["pong"]["media"]] == ["pong.png"]


def test_what_is_not_looked_at(experiment, tmp_path):
    write_run(tmp_path / "runs" / "one")
    write_run(tmp_path / "runs" / "one" / "checkpoints" / "inside")
    write_run(tmp_path / "runs" / ".two.partial")
    (tmp_path / "runs" / "three").symlink_to(experiment)
    (tmp_path / "runs" / "secret.png").symlink_to(experiment / "study.png")
    shown = made(tmp_path)
    assert [run["name"] for run in shown["runs"]] == ["one"]
    assert shown["media"] == []


def test_directories_named_twice_count_once(experiment):
    runs = experiment / "runs"
    assert len(made(experiment, runs, runs / "fish-acer-0", experiment)["runs"]) == 12
    names = [run["name"] for run in made(runs / "fish-acer-0", runs / "fish-acer-1")["runs"]]
    assert names == ["fish-acer-0", "fish-acer-1"]


def test_equal_names_are_told_apart(tmp_path):
    for folder in "ab":
        write_run(tmp_path / folder / "runs" / "one")
    names = [run["name"] for run in made(tmp_path / "a" / "runs", tmp_path / "b" / "runs")["runs"]]
    assert names == ["one", "one (2)"]


def test_numbers_in_names_sort_as_people_count(tmp_path):
    for seed in (10, 2, 1):
        write_run(tmp_path / f"fish-{seed}", "fish", seed=seed)
    assert [run["name"] for run in made(tmp_path)["runs"]] == ["fish-1", "fish-2", "fish-10"]


def test_agents_of_one_algorithm_are_told_apart_by_what_makes_them_others(tmp_path):
    for ratio in (0, 4):
        settings = {"replay_ratio": ratio, "on_policy": True, "learning_rate": 1e-4 * (1 + ratio)}
        write_run(tmp_path / f"ratio-{ratio}", "pong", settings=settings)
    write_run(tmp_path / "other", "Pendulum-v1", algo="tis", settings={"replay_ratio": 4.0, "on_policy": False})
    assert made(tmp_path)["agents"] == ["tis", "acer, replay ratio 0", "acer, replay ratio 4"]


def test_an_experiments_agents_have_its_names(tmp_path):
    """Pong's agents differ in their ratios, which has nothing to do with the fish's."""
    for env, method, ratio in (("pong", "acer-0", 0), ("pong", "acer-4", 4), ("fish", "acer", 4)):
        run = write_run(tmp_path / f"{env}-{method}-0-0", env, settings={"replay_ratio": ratio})
        (run / "result.json").write_text(json.dumps({"method": method, "error": None}))
    assert made(tmp_path)["agents"] == ["acer", "acer-0", "acer-4"]


def test_an_experiments_runs_that_are_going_on_are_no_results(tmp_path):
    for where in ("runs/fish-acer-0-0", "work/fish-acer-0-0", "work/fish-acer-1-0"):
        write_run(tmp_path / where, "fish")
    shown = made(tmp_path)
    assert [run["name"] for run in shown["runs"]] == ["fish-acer-0-0"]
    assert shown["notes"] == ["left out: 1 run in work not at the end yet"]


def test_an_experiment_may_have_figures_and_tables_only(tmp_path):
    write_picture(tmp_path / "theory.png")
    (tmp_path / "theory.csv").write_text("x,y\n1,2\n")
    shown = made(tmp_path)
    assert shown["runs"] == [] and len(shown["media"]) == len(shown["tables"]) == 1
    assert page.render(shown)


def test_runs_that_have_just_begun_or_failed(tmp_path):
    write_run(tmp_path / "begun", count=0)
    write_run(tmp_path / "failed", "fish", count=3)
    (tmp_path / "failed" / "result.json").write_text(json.dumps({"error": "the physics exploded"}))
    with (tmp_path / "failed" / "progress.csv").open("a") as file:
        file.write("70000,12.")  # a row that is being written
    write_run(tmp_path / "lost", "fish", count=3)
    (tmp_path / "lost" / "result.json").write_text(json.dumps({"error": "not finite", "diverged": True}))
    shown = made(tmp_path)
    assert shown["runs"][0]["curves"] == [] and shown["runs"][0]["final"] is None
    assert shown["runs"][1]["steps"] == 60_000
    assert [run["failed"] for run in shown["runs"]] == [False, True, False]  # a run that diverged is a result
    assert [run["diverged"] for run in shown["runs"]] == [False, False, True]
    assert shown["notes"] == ["failed failed: the physics exploded", "lost diverged: not finite"]


def test_settings_are_shown_however_deep_they_are(tmp_path):
    deep = json.loads("[" * 900 + "]" * 900)
    write_run(tmp_path / "run", settings={"hidden": deep, "torso": {"a": deep}, "both": [1, [2], {"b": 3}]})
    shared = made(tmp_path)["shared"]
    assert (shared["hidden"], shared["torso"], shared["both"]) == ("[…]", "{…}", "1, […], {…}")


def test_what_acer_eval_printed_is_an_evaluation(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "eval.json").write_text(json.dumps({"episodes": 2, "mean": 9.5, "std": 0.5, "returns": [9, 10]}))
    (shown,) = made(tmp_path)["runs"]
    assert shown["evaluation"] == 9.5
    assert shown["evaluations"][1]["return_max"] == 10


# ------------------------------------------------------------------ making it small


@given(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), max_size=400), st.integers(10, 60))
def test_thinning_keeps_ends_and_extremes(values, most):
    values = np.array(values, dtype=np.float64)
    kept = content.thin(values, most)
    finite = values[np.isfinite(values)]
    assert len(kept) <= most and (np.diff(kept) > 0).all()
    if len(finite):
        assert values[kept[0]] == finite[0] and values[kept[-1]] == finite[-1]
        assert values[kept].min() == finite.min() and values[kept].max() == finite.max()


def test_a_spike_survives_thinning(tmp_path):
    write_run(tmp_path / "long", count=20_000)
    table = tmp_path / "long" / "progress.csv"
    lines = table.read_text().splitlines()
    fields = lines[7_001].split(",")
    fields[PROGRESS.index("kl")] = "77.5"
    lines[7_001] = ",".join(fields)
    table.write_text("\n".join(lines) + "\n")
    shown = made(tmp_path)
    by_metric = {name: block for block in shown["runs"][0]["curves"] for name in block}
    assert all(len(block[name]) <= content.MOST_POINTS for block in by_metric.values() for name in block)
    assert by_metric["kl"]["steps"][by_metric["kl"]["kl"].index(77.5)] == 21_000 + 3
    assert shown["thinned"] == content.MOST_POINTS
    assert len(page.render(shown)) < 600 * KB


def test_many_runs_share_the_room(monkeypatch, experiment):
    curves = 12 * len({metric.name for metric in CHARTS} & set(PROGRESS))
    monkeypatch.setattr(content, "ALL_NUMBERS", 3 * 12 * curves)
    monkeypatch.setattr(content, "FEWEST_POINTS", 10)
    shown = made(experiment)
    blocks = [block for run in shown["runs"] for block in run["curves"]]
    assert shown["thinned"] == 12
    assert max(len(block["steps"]) for block in blocks) <= 12
    assert sum(len(values) for block in blocks for values in block.values()) <= 3 * 12 * curves


def test_large_files_are_left_out_and_named(monkeypatch, experiment, tmp_path):
    monkeypatch.setattr(content, "LARGEST_FILE", 900)
    shown = made(experiment)
    assert any("video.mp4" in note for note in shown["notes"])
    assert [picture["name"] for picture in shown["media"]] == ["study.svg"]
    write_run(tmp_path / "run")
    (tmp_path / "long.csv").write_text("x\n" + "1\n" * 5_000)
    assert made(tmp_path)["notes"] == ["left out: long.csv, a table of 5,000 × 1"]


# ------------------------------------------------------------------ strangers' names


class Elements(HTMLParser):
    """Counts elements as a browser would see them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.policy = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "meta" and dict(attributes).get("http-equiv"):
            self.policy = dict(attributes)["content"]


@pytest.fixture
def hostile(tmp_path):
    """Everything that can carry a name carries an attack."""
    root = tmp_path / "hostile"
    settings = {HOSTILE: HOSTILE, "__proto__": HOSTILE, "constructor": 1}
    write_run(root / "a", HOSTILE, HOSTILE, settings=settings)
    write_run(root / "b", HOSTILE, "acer", 1, settings=settings | {"__proto__": "other"})
    name = HOSTILE.replace("/", "\N{DIVISION SLASH}")
    write_run(root / name, HOSTILE, "acer", 2)
    (root / f"{name}.csv").write_text(f'"{HOSTILE}",b\n"{HOSTILE}","{{{{ script }}}}"\n')
    write_picture(root / f"{name}.png")
    return root


def test_hostile_names_stay_text(hostile):
    shown = made(hostile, title=HOSTILE)
    text = page.render(shown)
    seen = Elements(text)
    assert seen.tags.count("script") == 2 and "img" not in seen.tags
    data = re.search(r'<script type="application/json" id="content">(.*?)</script>', text, re.DOTALL)[1]
    assert "<" not in data and json.loads(data) == shown
    assert text.count("window.hacked = 1</script>") == 0


def test_the_page_loads_and_runs_nothing_but_its_own(experiment):
    text = page.render(made(experiment))
    script = text.split("<script>")[1].split("</script>")[0]
    policy = Elements(text).policy
    assert policy.startswith("default-src 'none'")
    assert page._hash(script) in policy and "unsafe" not in policy
    for part in ("page.html", "page.css", "page.js"):
        outside = re.findall(r"https?://[^\s\"')]+|@import|url\(", page._part(part))
        assert outside in ([], ["http://www.w3.org/2000/svg"])
    assert "innerHTML" not in script.replace("there is no\n * innerHTML here", "")
    assert not re.search(r"insertAdjacentHTML|document\.write|outerHTML|eval\(|new Function", script)


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("run/progress.csv", "steps,return_mean,kl\n1,2,3\n4,five,6\n", "row 3, return_mean: 'five' is not a number"),
        ("run/progress.csv", "a,b\n1,2\n", "no columns steps and return_mean"),
        ("run/progress.csv", "steps,return_mean\n1,2\n1,2,3\n1,2\n", "row 3 has 3 values for 2 columns"),
        ("run/progress.csv", b"\xff\xfe\0", "cannot be read"),
        ("run/progress.csv", 'steps,return_mean\n"1,2\n', "damaged"),
        ("run/config.json", "{", "damaged"),
        ("run/config.json", "[]", "must hold one JSON object"),
        ("run/config.json", "[" * 100_000, "damaged"),
        ("run/eval.csv", "steps,return_mean,policy\n1,x,mode\n", "'x' is not a number"),
        ("run/eval.json", '{"mean": 3}', "not what `acer eval --json` prints"),
        ("run/strip.png", b"\x89PNG\r\n\x1a\n cut off", "not a whole PNG file"),
        ("run/video.mp4", b"", "not a whole MP4 file"),
        ("figure.svg", "<svg", "not a whole SVG file"),
        ("pair.json", '{"config": 3}', "config must be an object"),
    ],
)
def test_damaged_files_are_named(tmp_path, file, text, said):
    write_run(tmp_path / "run")
    write_rows(tmp_path / "pair.csv")
    (tmp_path / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError) as error:
        made(tmp_path)
    assert said in str(error.value)
    assert str(tmp_path / file) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.fixture
def call(monkeypatch, capsys):
    def acer(*args):
        monkeypatch.setattr(sys, "argv", ["acer", "report", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capsys.readouterr()

    return acer


def test_mistakes_get_one_line(call, experiment, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "old.html").write_text("old")
    for args, said in (
        ((), "name at least one directory"),
        ((tmp_path / "none",), "no such directory"),
        ((tmp_path / "old.html",), "is not a directory"),
        ((tmp_path / "empty", "--output", tmp_path / "old.html"), f"no runs in {tmp_path / 'empty'}"),
        ((experiment, tmp_path / "empty"), f"no runs in {tmp_path / 'empty'}"),
        ((experiment, "--output", tmp_path), "it is a directory"),
        ((experiment, "--output", tmp_path / "no" / "page.html"), "is not a directory"),
        ((experiment, "--output", tmp_path / ("x" * 300)), "cannot write"),
    ):
        code, out, err = call(*args)
        assert code == 2 and out == ""
        assert said in err and err.count("\n") == 1
    assert (tmp_path / "old.html").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_command_writes_the_same_page_every_time(call, experiment, tmp_path):
    first, second = tmp_path / "first.html", tmp_path / "second.html"
    code, out, _ = call(experiment, "--output", first, "--title", "Study of <two>")
    assert code == 0 and out == f"{first}: 12 runs on 2 environments\n"
    assert call(experiment, "--output", second, "--title", "Study of <two>")[0] == 0
    assert first.read_bytes() == second.read_bytes()
    assert "<h1>Study of &lt;two&gt;</h1>" in first.read_text()
    assert call(experiment, "--output", second, "--title", "1e6")[0] == 0 and "<h1>1e6</h1>" in second.read_text()
    assert call(experiment / "runs" / "fish-acer-0", "--output", second)[1] == f"{second}: 1 run on 1 environment\n"
    assert "<h1>fish-acer-0</h1>" in second.read_text()


# ------------------------------------------------------------------ in a browser

FIRST = "#overview .chart:nth-child(1) .plot"
DESKTOP, PHONE = 1280, 390


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (Debian: apt install chromium)")
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def study(experiment, tmp_path_factory):
    file = tmp_path_factory.mktemp("pages") / "study.html"
    page.write([experiment], file)
    return file


def drawn(browser, plot):
    """How many pixels of a chart have a series' colour: far from grey."""
    browser.box(plot)
    return browser.evaluate(f"""(() => {{
        const canvas = document.querySelector({json.dumps(plot + " canvas")});
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {{willReadFrequently: true}});
        copy.drawImage(canvas, 0, 0);
        const pixels = copy.getImageData(0, 0, canvas.width, canvas.height).data;
        let count = 0;
        for (let i = 0; i < pixels.length; i += 4) {{
            const [r, g, b] = [pixels[i], pixels[i + 1], pixels[i + 2]];
            if (pixels[i + 3] > 99 && Math.max(r, g, b) - Math.min(r, g, b) > 60) count += 1;
        }}
        return count;
    }})()""")


def numbers(browser, plot, name):
    """Something a chart says about itself: how many curves it has, or a range."""
    browser.box(plot)
    said = browser.evaluate(f"document.querySelector({json.dumps(plot)}).dataset.{name}")
    return [float(number) for number in said.split()]


def text_of(browser, selector):
    return browser.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")


def fits(browser):
    """Whether nothing sticks out to the right."""
    return browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def unfold(browser):
    browser.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    browser.settle()
    browser.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    browser.settle()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_every_curve_is_drawn_without_an_error(browser, study, width, dark):
    browser.open(study, width, dark=dark)
    assert text_of(browser, "h1") == "study"
    for chart in (1, 2):
        plot = f"#overview .chart:nth-child({chart}) .plot"
        assert drawn(browser, plot) > 500
        assert numbers(browser, plot, "curves") == [6]
        assert numbers(browser, plot, "medians") == [2]
        assert numbers(browser, plot, "x") == [0, 60_000]
    assert fits(browser)
    unfold(browser)
    charts = browser.evaluate("document.querySelectorAll('#env-0 .plot').length")
    assert charts == 11  # one for each column that is drawn
    for chart in range(1, charts):
        assert numbers(browser, f"#env-0 .grid .chart:nth-child({chart}) .plot", "curves") == [6]
    assert drawn(browser, "#env-0 .large .plot") > 500
    assert fits(browser)
    assert browser.errors == []
    assert all(url.startswith(("file:", "data:")) for url in browser.requests)


def test_runs_and_agents_are_switched_on_and_off(browser, study):
    browser.open(study, DESKTOP)
    unfold(browser)
    before = drawn(browser, FIRST)
    browser.click("#env-0 .runs tbody tr:nth-child(1) input")
    assert numbers(browser, FIRST, "curves") == numbers(browser, "#env-0 .grid .chart .plot", "curves") == [5]
    assert drawn(browser, FIRST) != before
    browser.click("#legend .chip:nth-of-type(1) input")
    assert "acer" in text_of(browser, "#legend .chip:nth-of-type(1)")
    assert numbers(browser, FIRST, "curves") == [3] and numbers(browser, FIRST, "medians") == [1]
    assert numbers(browser, FIRST, "y")[1] < 600, "the axis fits what is left"
    browser.click("#legend .chip:nth-of-type(1) input")
    browser.click("#env-0 .runs tbody tr:nth-child(1) input")
    assert numbers(browser, FIRST, "curves") == [6]
    assert drawn(browser, FIRST) == before
    browser.click("#env-0 .runs .buttons button:nth-child(2)")
    assert numbers(browser, FIRST, "curves") == [0]
    assert numbers(browser, "#overview .chart:nth-child(2) .plot", "curves") == [6], "the other environment's stay"
    assert browser.errors == []


def test_the_x_axis_can_be_time(browser, study):
    browser.open(study, DESKTOP)
    browser.click("input[value=seconds]")
    assert numbers(browser, FIRST, "x") == [0, 31], "to the last evaluation"
    assert drawn(browser, FIRST) > 500
    browser.click("input[value=steps]")
    assert numbers(browser, FIRST, "x") == [0, 60_000]
    assert browser.errors == []


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_dragging_zooms_and_resets(browser, study, width):
    browser.open(study, width)
    unfold(browser)
    whole_x, whole_y = numbers(browser, FIRST, "x"), numbers(browser, FIRST, "y")
    browser.drag(FIRST, (0.3, 0.5), (0.6, 0.52))
    x = numbers(browser, FIRST, "x")
    assert whole_x[0] < x[0] < x[1] < whole_x[1]
    assert (x[1] - x[0]) / (whole_x[1] - whole_x[0]) == pytest.approx(0.35, abs=0.06)
    assert numbers(browser, FIRST, "y")[1] < whole_y[1], "the y axis fits the part that is seen"
    assert numbers(browser, "#env-0 .grid .chart .plot", "x") == x, "all charts of an environment follow"
    assert numbers(browser, "#overview .chart:nth-child(2) .plot", "x") == whole_x
    browser.click("#overview .chart:nth-child(1) .reset")
    assert numbers(browser, FIRST, "x") == whole_x and numbers(browser, FIRST, "y") == whole_y
    browser.drag(FIRST, (0.3, 0.2), (0.6, 0.6))
    y = numbers(browser, FIRST, "y")
    assert whole_y[0] < y[0] < y[1] < whole_y[1], "a drag across zooms both"
    browser.evaluate(f"document.querySelector('{FIRST}').dispatchEvent(new MouseEvent('dblclick'))")
    browser.settle()
    assert numbers(browser, FIRST, "x") == whole_x and numbers(browser, FIRST, "y") == whole_y
    assert browser.errors == []


def test_a_finger_zooms_along_and_scrolls_across(browser, study):
    browser.open(study, PHONE)
    browser.swipe(FIRST, (0.3, 0.5), (0.6, 0.52))
    x = numbers(browser, FIRST, "x")
    assert 0 < x[0] < x[1] < 60_000
    assert not browser.evaluate(f"document.querySelector('{FIRST} .readout').hidden"), "it stays to be read"
    before = browser.box(FIRST)[1]
    browser.swipe(FIRST, (0.5, 0.9), (0.5, 0.1))
    moved = browser.evaluate(f"document.querySelector('{FIRST}').getBoundingClientRect().top")
    assert moved < before, "the page scrolls"
    assert numbers(browser, FIRST, "x") == x
    assert browser.errors == []


def test_pointing_reads_values(browser, study):
    browser.open(study, DESKTOP)
    browser.hover(FIRST, 0.5, 0.5)
    said = text_of(browser, f"{FIRST} .readout")
    assert "steps" in said and "acer" in said and "a3c" in said and "medians" in said
    at = float(re.search(r"([\d,]+) steps", said)[1].replace(",", ""))
    assert 20_000 < at < 40_000
    value = float(re.search(r"a3c\s+([\d.]+)", said)[1])
    assert value == pytest.approx(500 * at / 60_000, abs=40)
    browser.hover("h1", 0.5, 0.5)
    assert browser.evaluate(f"document.querySelector('{FIRST} .readout').hidden")
    assert browser.errors == []


def test_medians_count_runs_as_the_tables_do(browser, tmp_path):
    """One that diverged stays at the return that it had last, one that failed does not count."""
    for name, level, end, result in (
        ("good", 1.0, 60_000, {}),
        ("better", 1.2, 60_000, {}),
        ("diverged", 0.2, 20_000, {"error": "not finite", "diverged": True}),
        ("failed", 9.0, 60_000, {"error": "no memory"}),
    ):
        run = write_run(tmp_path / "study" / name, level=level, end=end)
        (run / "result.json").write_text(json.dumps(result))
    page.write([tmp_path / "study"], tmp_path / "page.html")
    browser.open(tmp_path / "page.html", DESKTOP)
    plot = "#environments .large .plot"
    assert numbers(browser, plot, "curves") == [4] and numbers(browser, plot, "medians") == [1]
    browser.hover(plot, 0.97, 0.5)
    said = text_of(browser, f"{plot} .readout")
    at = float(re.search(r"([\d,]+) steps", said)[1].replace(",", ""))
    assert at > 50_000
    assert float(re.search(r"acer\s+([\d.]+)", said)[1]) == pytest.approx(500 * at / 60_000, abs=30)  # the good one
    assert browser.errors == []


def test_the_keyboard_reads_and_zooms(browser, study):
    browser.open(study, DESKTOP)
    browser.evaluate(f"document.querySelector('{FIRST}').focus()")
    for _ in range(5):
        browser.press("ArrowRight")
    spoken = text_of(browser, "#overview .chart:nth-child(1) output")
    assert re.match(r"6,[\d]+ steps: acer [\d.]+, a3c [\d.]+", spoken)
    browser.press("+")
    assert numbers(browser, FIRST, "x")[1] < 40_000
    browser.press("0")
    assert numbers(browser, FIRST, "x") == [0, 60_000]
    assert "Arrow keys" in browser.evaluate(f"document.querySelector('{FIRST}').getAttribute('aria-label')")
    unlabelled = "[...document.querySelectorAll('input, select')].filter((node) => !node.closest('label')).length"
    assert browser.evaluate(unlabelled) == 0
    assert browser.errors == []


def test_smoothing_metric_and_colours_can_be_chosen(browser, study):
    browser.open(study, DESKTOP)
    rough, range_before = drawn(browser, FIRST), numbers(browser, FIRST, "y")
    browser.choose("#smoothing", "0.1")
    assert numbers(browser, FIRST, "y")[1] < range_before[1]
    assert drawn(browser, FIRST) != rough
    browser.choose("#smoothing", "0")
    assert numbers(browser, FIRST, "y") == range_before
    browser.choose("#metric", "explained_variance")
    assert numbers(browser, FIRST, "y")[0] > -300, "a single outlier does not flatten the rest"
    assert "outliers" in text_of(browser, "#overview .chart:nth-child(1) .about")
    browser.choose("#metric", "entropy")
    assert numbers(browser, FIRST, "y")[1] < 1
    browser.choose("#colour", "seed")
    assert browser.evaluate("document.querySelectorAll('#legend .chip').length") == 3
    browser.click("#legend .chip:nth-of-type(3) input")
    assert numbers(browser, FIRST, "curves") == [4]
    assert browser.errors == []


def test_tables_settings_films_and_figures_are_on_the_page(browser, study):
    browser.open(study, DESKTOP)
    unfold(browser)
    results = text_of(browser, "#summary")
    assert "CartPole-v1" in results and "481" in results
    assert "learning_rate" in text_of(browser, "#settings") and "0.0007" in text_of(browser, "#settings")
    assert "seed" in text_of(browser, "#settings .table-frame")
    assert "495.5" in text_of(browser, "#tables")
    assert "mode" in text_of(browser, "#env-0 .evaluations")
    assert browser.evaluate("document.querySelectorAll('#env-0 .evaluations tbody tr').length") == 6
    browser.box("#figures img")
    assert browser.evaluate("document.querySelector('#figures img').decode().then(() => true)")
    browser.box("#env-0 .gallery img")
    assert browser.evaluate("document.querySelector('#env-0 .gallery img').decode().then(() => true)")
    film = "document.querySelector('#env-0 .gallery video')"
    loaded = f"new Promise((done) => {{ const film = {film}; film.onloadedmetadata = done; film.load(); }})"
    assert browser.evaluate(f"{loaded}.then(() => {film}.duration)") == pytest.approx(1.0, abs=0.1)
    assert browser.evaluate("document.querySelector('#notes').hidden")
    assert browser.errors == []


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_a_single_runs_page(browser, experiment, tmp_path, width):
    page.write([experiment / "runs" / "CartPole-v1-acer-0"], tmp_path / "run.html")
    browser.open(tmp_path / "run.html", width)
    assert "CartPole-v1" in text_of(browser, "#facts") and "480" in text_of(browser, "#facts")
    assert browser.evaluate("document.querySelector('#overview').hidden")
    assert numbers(browser, "#environments .large .plot", "curves") == [1]
    assert drawn(browser, "#environments .large .plot") > 300
    unfold(browser)
    assert "learning_rate" in text_of(browser, "#settings")
    assert fits(browser)
    assert browser.errors == []


def test_hostile_names_do_nothing_in_a_browser(browser, hostile, tmp_path):
    page.write([hostile], tmp_path / "hostile.html", HOSTILE)
    browser.open(tmp_path / "hostile.html", PHONE)
    unfold(browser)
    browser.hover("#environments .large .plot", 0.5, 0.5)
    assert text_of(browser, "h1") == browser.evaluate("document.title") == HOSTILE
    assert HOSTILE in text_of(browser, "#settings")
    assert browser.evaluate("window.hacked === undefined && Object.prototype.hacked === undefined")
    assert browser.evaluate("document.querySelectorAll('img').length") == 1
    assert fits(browser)
    assert browser.errors == []


def test_the_policy_holds_even_where_escaping_would_fail(browser, study, tmp_path):
    smuggled = "<script>window.hacked = 1</script><img src='http://localhost:9/x.png' onerror='window.hacked = 1'>"
    (tmp_path / "page.html").write_text(study.read_text().replace("<main", smuggled + "<main"))
    browser.open(tmp_path / "page.html", DESKTOP)
    assert numbers(browser, FIRST, "curves") == [6]
    assert browser.evaluate("window.hacked === undefined")
    assert len(browser.errors) == 3 and all("Content Security Policy" in error for error in browser.errors)


def test_a_page_without_runs_and_one_whose_runs_have_just_begun(browser, tmp_path):
    write_picture(tmp_path / "theory.png")
    (tmp_path / "theory.csv").write_text("x,y\n1,2\n")
    page.write([tmp_path], tmp_path / "page.html")
    browser.open(tmp_path / "page.html", DESKTOP)
    assert browser.evaluate("document.querySelector('#controls').hidden")
    assert browser.errors == []
    write_run(tmp_path / "begun", count=0)
    page.write([tmp_path], tmp_path / "page.html")
    browser.open(tmp_path / "page.html", DESKTOP)
    assert "No row has been logged yet" in text_of(browser, "#environments")
    assert browser.errors == []
