"""The report's file: strangers' names, the security policy, and the command that writes it."""

import json
import re
from html.parser import HTMLParser

from acer.report import page
from report_runs import HOSTILE, made


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
    styles, scripts = (f"style/{name}.css" for name in page.STYLE), (f"script/{name}.js" for name in page.SCRIPT)
    for part in ("page.html", *styles, *scripts):
        outside = re.findall(r"https?://[^\s\"')]+|@import|url\(", page._part(part))
        assert outside in ([], ["http://www.w3.org/2000/svg"])
    assert "innerHTML" not in script.replace("there is no\n * innerHTML here", "")
    assert not re.search(r"insertAdjacentHTML|document\.write|outerHTML|eval\(|new Function", script)


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
        code, out, err = call("report", *args)
        assert code == 2 and out == ""
        assert said in err and err.count("\n") == 1
    assert (tmp_path / "old.html").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_command_writes_the_same_page_every_time(call, experiment, tmp_path):
    first, second = tmp_path / "first.html", tmp_path / "second.html"
    code, out, _ = call("report", experiment, "--output", first, "--title", "Study of <two>")
    assert code == 0 and out == f"{first}: 12 runs on 2 environments\n"
    assert call("report", experiment, "--output", second, "--title", "Study of <two>")[0] == 0
    assert first.read_bytes() == second.read_bytes()
    assert "<h1>Study of &lt;two&gt;</h1>" in first.read_text()
    assert (
        call("report", experiment, "--output", second, "--title", "1e6")[0] == 0
        and "<h1>1e6</h1>" in second.read_text()
    )
    assert (
        call("report", experiment / "runs" / "fish-acer-0", "--output", second)[1]
        == f"{second}: 1 run on 1 environment\n"
    )
    assert "<h1>fish-acer-0</h1>" in second.read_text()
