"""Documents: pages that are made from the code, links, prose, and blocks of code that do what they say."""

import importlib
import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from browser import CHROMIUM, Browser

ROOT = Path(__file__).parent.parent
SMALLER = 20  # tutorials train for so many times fewer steps here
MADE = ["settings", "metrics", "claims"]  # pages that are written from declarations and results
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "tests/KNOWN_BUGS.md",
    "results/library/README.md",
    "results/reliability/README.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]
PLAYED = [
    "README.md",
    "docs/callbacks.md",
    "docs/deploy.md",
    "docs/tutorials/first-run.md",
    "docs/tutorials/your-simulator.md",
]


@pytest.mark.parametrize("page", MADE)
def test_the_table_is_up_to_date(page):
    spec = importlib.util.spec_from_file_location(page, ROOT / "docs" / f"{page}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / f"{page}.md").read_text() == module.text(), "run `make docs`"


def headings(page):
    """Names of a page's headings as links spell them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target, place in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", (ROOT / page).read_text()):
        file = (ROOT / page).parent.joinpath(target) if target else ROOT / page
        assert file.exists(), target
        assert not place or place in headings(file), f"{target}#{place}"


def test_every_known_bug_has_its_test():
    tests = (ROOT / "tests" / "learner" / "test_known_bugs.py").read_text()
    named = re.findall(r"`(test_\w+)`", (ROOT / "tests" / "KNOWN_BUGS.md").read_text())
    assert len(named) >= 16
    for name in named:
        assert f"def {name}(" in tests


def test_the_papers_page_names_functions_that_exist():
    named = re.findall(r"`([a-z_]+)\.([a-z_]+)`", (ROOT / "docs" / "paper.md").read_text())
    named = [(module, name) for module, name in named if name != "py"]
    assert len(named) >= 12
    for module, name in named:
        assert hasattr(importlib.import_module(f"acer.learner.{module}"), name), f"{module}.{name}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) < 7000


@pytest.mark.parametrize("page", PAGES)
def test_lines_are_short(page):
    for line in (ROOT / page).read_text().splitlines():
        assert len(line) <= 120 or line.startswith(("|", "![")), line


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_a_page_begins_with_what_its_reader_will_be_able_to_do(page):
    title, _, opening = (ROOT / page).read_text().split("\n", 3)[:3]
    assert title.startswith("# ")
    assert opening.startswith("After this page you ")


@pytest.mark.parametrize("page", PAGES)
def test_figures_have_a_file(page):
    """A page that names a command of benchmarks/ names its script rightly."""
    for script in re.findall(r"python (benchmarks/\w+\.py)", (ROOT / page).read_text()):
        assert (ROOT / script).is_file()


def test_what_three_libraries_have_acer_has_or_leaves_to_them():
    compared, left = (ROOT / "docs/comparison.md").read_text().split("## What acer leaves to them")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in compared.splitlines() if "|" in line]
    rows = [row for row in rows if len(row) == 7 and row[1] in ("yes", "partly", "no")]
    lacking = {feature for feature, acer, *others in rows if acer != "yes" and others.count("yes") >= 3}
    assert len(rows) >= 30 and lacking <= set(re.findall(r"^\| (.+?)(?::.*)? \|", left, re.MULTILINE))


# Blocks of code


def blocks(page):
    """Language, title and text of a page's blocks of code."""
    found = re.findall(r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```$', (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert page not in PLAYED or found
    return found


def commands(page):
    """What the page's consoles call `acer` with, without comments."""
    lines = "".join(text for language, _, text in blocks(page) if language == "console").splitlines()
    return [line.partition("#")[0].split()[2:] for line in lines if line.startswith("$ acer ")]


@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_python_are_python(page):
    for language, _, text in blocks(page):
        if language == "python":
            compile(text, page, "exec")


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_consoles_name_commands_and_flags_that_exist(page, call):
    for command in commands(page):
        code, text, _ = call(command[0], "--help")
        assert code == 0
        for flag in (word for word in command if word.startswith("--")):
            assert flag in text, f"{command[0]} {flag}"


def test_the_page_of_the_command_line_has_every_command(call):
    listed = re.findall(r"^\| `acer (\w+)", (ROOT / "docs/cli.md").read_text(), re.MULTILINE)
    _, text, _ = call("--help")
    assert listed == re.findall(r"^  ([a-z]+) +[A-Z]", text, re.MULTILINE)


def smaller(text):
    """The block with fewer steps."""

    def fewer(match):
        return match[1] + str(int(match[2].replace("_", "")) // SMALLER)

    return re.sub(r"(--steps |learn\()([\d_]+)", fewer, text)


@pytest.mark.parametrize("page", PLAYED)
def test_a_reader_who_types_a_page_in_gets_through(page, tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names = {"__name__": "typed"}
    for language, title, text in blocks(page):
        text = smaller(text)
        if title:
            (tmp_path / title).write_text(text)
        elif language == "python":
            exec(text, names)
        elif language == "console":
            for line in (line.partition("#")[0] for line in text.splitlines()):
                if line.startswith("$ acer ") and "--home" not in line:
                    code, _, complaint = call(*(word.strip("'") for word in line.split()[2:]))
                    assert code == 0, complaint


@pytest.mark.slow
def test_the_readmes_snippet_prints_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (snippet,) = (text for language, _, text in blocks("README.md") if language == "python")
    promised = float(re.search(r"# about (\d+)", snippet)[1])
    exec(snippet, {"__name__": "typed"})
    assert abs(float(capsys.readouterr().out.split()[0]) - promised) < 40


# The site


class Page(HTMLParser):
    """Links, places and what a page asks its browser to load."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places, self.loaded = [], set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.places.update(values[name] for name in ("id", "name") if values.get(name))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") != "canonical":
            self.loaded.append(values["href"])
        elif values.get("src"):
            self.loaded.append(values["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
        config.plugins.on_startup(command="build", dirty=False)
        build(config)  # a warning is an error
    return folder


@pytest.fixture(scope="module")
def site_pages(site):
    shown = [path for path in site.rglob("*.html") if "results" not in path.relative_to(site).parts]
    return {path: Page(path) for path in shown}


def test_the_sites_links_lead_somewhere(site, site_pages):
    assert len(site_pages) > 25
    for path, page in site_pages.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if path.name == "404.html" and parts.path.startswith("/"):
                target = site / parts.path.lstrip("/")
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{path.relative_to(site)}: {link}"
            if parts.fragment and target in site_pages:
                assert unquote(parts.fragment) in site_pages[target].places, f"{path.relative_to(site)}: {link}"


def test_the_site_needs_no_network(site, site_pages):
    for path, page in site_pages.items():
        for source in page.loaded:
            assert urlsplit(source).scheme in ("", "data"), f"{path.name}: {source}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:|@import", sheet.read_text()), sheet.name


def test_equations_are_drawn_by_the_browser(site):
    text = (site / "paper.html").read_text()
    assert text.count('display="block"') >= 6
    assert "arithmatex" not in text


def test_every_room_has_a_page_of_its_docstrings(site):
    for room in (ROOT / "src" / "acer").glob("*/__init__.py"):
        text = (site / "reference" / f"{room.parent.name}.html").read_text()
        for module in room.parent.glob("[!_]*.py"):
            assert f'id="acer.{room.parent.name}.{module.stem}"' in text


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("no Chromium here")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", ["index", "paper", "results", "settings", "reference/learner"])
def test_the_site_fits_its_window(site, browser, page, width):
    browser.open(site / f"{page}.html", width)
    assert browser.errors == []
    assert all(request.startswith(("file:", "data:", "about:")) for request in browser.requests)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_the_site_is_searched_from_disk(site, browser):
    browser.open(site / "index.html", 1280)
    results = """new Promise((done) => {
        const list = document.querySelector(".md-search-result__list")
        new MutationObserver(() => list.querySelector("a") && done(list.textContent)).observe(
            list, { childList: true, subtree: true })
        document.querySelector(".md-search__input").focus()
        const input = document.querySelector(".md-search__input")
        input.value = "Retrace"
        input.dispatchEvent(new Event("keyup", { bubbles: true }))
    })"""
    assert "Retrace" in browser.evaluate(results)
    assert browser.errors == []
