"""Model cards: the README.md that the Hugging Face Hub expects beside a saved model."""

import json
from collections.abc import Mapping

from acer.config import AGENT_SETTINGS, Config, defaults, to_json
from acer.envs import ActionSpec, ObservationSpec
from acer.run.evaluation import Evaluation

TEXT = """\
---
library_name: acer
pipeline_tag: reinforcement-learning
# license: choose one, https://huggingface.co/docs/hub/repositories-licenses
tags:
- reinforcement-learning
- deep-reinforcement-learning
- acer
- {env_text}
model-index:
- name: {name_text}
  results:
  - task:
      type: reinforcement-learning
      name: reinforcement-learning
    dataset:
      name: {env_text}
      type: {env_text}
    metrics:
    - type: mean_reward
      name: mean_reward
      value: "{mean:.2f} +/- {std:.2f}"
      verified: false
---

# {algo} on {env}

An agent trained with acer, an implementation of *Sample Efficient Actor-Critic with Experience Replay* (Wang et al.,
ICLR 2017, [arXiv:1611.01224](https://arxiv.org/abs/1611.01224)).

| | |
|---|---|
| environment | `{env}` |
| algorithm, preset | `{algo}`, `{preset}` |
| trained with | {trained} |
| return | {mean:,.1f} ± {std:,.1f} over {episodes} episodes of new seeds, {policy} actions{cut} |
| least, most | {least:,.1f}, {most:,.1f} |
| observations | {observation} |
| actions | {action} |
| made with | {versions} |

## Use it

```console
$ pip install acer-rl huggingface_hub
```

```python
from acer import ACER
from huggingface_hub import snapshot_download

model = ACER.load(snapshot_download("USER/NAME"){own})
print(model.evaluate().mean)
action, _ = model.predict(observation, deterministic=True)
```

Loading runs no code of these files. `acer export` writes the policy as ONNX.

## Settings

Those that are not the preset's own; `state.json` has all.

```json
{settings}
```
"""


def card(
    config: Config,
    steps: int,
    observation: ObservationSpec,
    action: ActionSpec,
    versions: Mapping[str, str],
    result: Evaluation,
) -> str:
    """The card's text. steps: 0 if nobody knows. Its front matter is YAML, of which JSON's texts are a part."""
    usual = json.loads(to_json(defaults(config.env, action.continuous, config.preset, config.algo)))
    mine = json.loads(to_json(config))
    named = {name: mine[name] for name in AGENT_SETTINGS if mine[name] != usual[name]}
    return TEXT.format(
        **{name: getattr(config, name) for name in ("env", "algo", "preset")},
        env_text=json.dumps(config.env),
        name_text=json.dumps(f"{config.algo}-{config.env}"),
        trained=f"{steps:,} steps, seed {config.seed}" if steps else f"seed {config.seed}",
        mean=result.mean,
        std=result.std,
        least=min(result.returns),
        most=max(result.returns),
        episodes=len(result.returns),
        policy="mode" if result.deterministic else "sampled",
        cut=result.said_of_cut(),
        observation=observation.describe(),
        action=action.describe(),
        versions=", ".join(f"{name} {number}" for name, number in versions.items()),
        own=", env=…" if ":" in config.env else "",
        settings=json.dumps(named, indent=2),
    )
