"""Runs that several of the report's test files look at."""

import pytest

from report_runs import HOSTILE, write_film, write_picture, write_run


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
