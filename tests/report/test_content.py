"""The report's content: how it is made small."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from acer.learner.metrics import CHARTS, PROGRESS
from acer.report import content, page
from report_runs import made, write_run

KB = 1 << 10


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
