"""Model cards: what the Hugging Face Hub reads, and a folder that loads."""

import json
import re

import pytest
import yaml

from acer import ACER

TINY = {"hidden": (8,), "environments": 4, "trajectories_per_update": 4, "replay_start": 320, "eval_episodes": 1,
        "eval_limit": 20}  # fmt: skip


@pytest.fixture
def run(tmp_path):
    directory = tmp_path / "run"
    ACER("CartPole-v1", learning_rate=1e-3, **TINY).learn(400, out=directory).close()
    return directory


def front_matter(card):
    return yaml.safe_load(re.fullmatch(r"---\n(.*?\n)---\n.*", card, re.DOTALL)[1])


def test_a_card_has_what_the_hub_reads(run, call):
    code, out, complaint = call("card", run, "--episodes", 3)
    assert code == 0, complaint
    folder = run / "model"
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "model.safetensors", "state.json"]
    card = (folder / "README.md").read_text()
    data = front_matter(card)
    assert data["library_name"] == "acer"
    assert data["pipeline_tag"] == "reinforcement-learning"
    assert {"reinforcement-learning", "acer", "CartPole-v1"} <= set(data["tags"])
    assert "license" not in data
    (model,) = data["model-index"]
    (result,) = model["results"]
    assert result["dataset"] == {"name": "CartPole-v1", "type": "CartPole-v1"}
    (metric,) = result["metrics"]
    _, scores, _ = call("eval", run, "--episodes", 3, "--json")
    scores = json.loads(scores)
    assert metric["type"] == "mean_reward"
    assert metric["value"] == f"{scores['mean']:.2f} +/- {scores['std']:.2f}"
    assert "over 3 episodes of new seeds, mode actions" in card
    assert "choose a license" in out


def test_a_card_says_how_it_was_trained_and_loads(run, call):
    assert call("card", run, "--episodes", 1)[0] == 0
    card = (run / "model" / "README.md").read_text()
    named = json.loads(re.search(r"```json\n(.*?)```", card, re.DOTALL)[1])
    assert (named["learning_rate"], named["hidden"], named["environments"]) == (1e-3, [8], 4)
    assert not {"gamma", "seed", "precision", "eval_episodes"} & named.keys()
    steps = int((run / "checkpoints" / "LATEST").read_text())
    assert f"trained with | {steps:,} steps, seed 0" in card
    assert ACER.load(run / "model").predict([0.0, 0.0, 0.0, 0.0])[0] in (0, 1)


def test_a_saved_model_gets_its_card_beside_it_once(run, call, tmp_path):
    folder = tmp_path / "saved"
    ACER.load(run).save(folder)
    before = (folder / "state.json").read_bytes()
    assert call("card", folder, "--episodes", 1)[0] == 0
    assert (folder / "state.json").read_bytes() == before
    (folder / "README.md").write_text("my words")
    code, _, complaint = call("card", folder, "--episodes", 1)
    assert code == 2 and "exists and may be yours" in complaint
    assert (folder / "README.md").read_text() == "my words"


def test_names_of_environments_are_texts_in_the_front_matter(run):
    model = ACER.load(run)
    model._training.state.config = model.config.__class__(**vars(model.config) | {"env": 'odd: "name" #1'})
    card = model.card(model.evaluate(1))
    assert front_matter(card)["model-index"][0]["results"][0]["dataset"]["name"] == 'odd: "name" #1'
    assert ", env=…)" in card  # code of one's own has to be named again
