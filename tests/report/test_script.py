"""The report's page in a browser."""

import json
import re

import pytest

from acer.report import page
from browser import CHROMIUM, Browser
from report_runs import HOSTILE, write_picture, write_run

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
