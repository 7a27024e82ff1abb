"""What each algorithm makes of the settings. Its functions are chosen in `learner.algorithms`."""

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Algorithm:
    """One name of --algo."""

    changes: dict[str, Any] = field(default_factory=dict)  # beyond the preset's defaults
    fixed: tuple[str, ...] = ()  # of `changes`, what cannot be set otherwise
    q: bool = True  # its critic has a Q; otherwise V only
    dueling: bool = True  # for continuous actions that Q is a stochastic dueling network (Section 5.2)
    replay: bool = True
    trust_region: bool | None = None  # it has one, has none, or (None) may have one
    product_of_weights: bool = False  # truncated importance sampling (Appendix E.2)


SCORE = {"correction_gradient": "score"}  # where there is no dueling network, or c is not 0
ON_POLICY = {"replay_ratio": 0.0, "on_policy": True, "act_with": "live"}

ALGORITHMS: dict[str, Algorithm] = {
    "acer": Algorithm(),
    "a3c": Algorithm({"trust_region": "none", **ON_POLICY, **SCORE}, q=False, replay=False, trust_region=False),
    "trust-a3c": Algorithm({**ON_POLICY, **SCORE}, q=False, replay=False, trust_region=True),
    "tis": Algorithm({"trust_region": "none", **SCORE}, q=False, trust_region=False, product_of_weights=True),
    "trust-tis": Algorithm(SCORE, q=False, trust_region=True, product_of_weights=True),
    "no-trust-region": Algorithm({"trust_region": "none"}, trust_region=False),
    "no-sdn": Algorithm(SCORE, dueling=False),
    "no-retrace": Algorithm({"returns": "importance"}, fixed=("returns",)),
    "no-truncation": Algorithm({"truncation": math.inf, **SCORE}, fixed=("truncation",)),
}
