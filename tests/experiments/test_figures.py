"""Figures."""

from acer.experiments import figures


def test_a_caption_stays_on_its_figure(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(figures.plt, "close", drawn.append)
    figures.learning({"fish": {}}, "scale: small; " + "what else is to be said; " * 12, tmp_path / "long")
    (figure,) = drawn
    box = figure.texts[-1].get_window_extent()
    assert "scale: small" in figure.texts[-1].get_text()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0
    assert box.y1 <= figure.axes[0].get_tightbbox().y0


def test_figures_of_nothing_are_drawn_too(tmp_path):
    for draw_ in (
        lambda: figures.learning({"fish": {}}, "scale: smoke", tmp_path / "l"),
        lambda: figures.sensitivity([], "scale: smoke", tmp_path / "s"),
        lambda: figures.atari({}, {}, {}, "scale: smoke", tmp_path / "a"),
    ):
        assert all(path.stat().st_size > 1_000 for path in draw_())
