"""Experiments on variants of ACER: which runs, and their table by hand."""

from pathlib import Path

import pytest

from acer.experiments import catalogue, plans, variants
from acer.experiments.plan import Selection
from acer.experiments.results import Results
from acer.experiments.variants import Comparison
from experiment_runs import ALL, a_run


def test_choices_that_need_discrete_actions_are_tried_where_there_are_some():
    planned = plans.jobs("choices", "small", ALL)
    methods = {}
    for job in planned:
        methods.setdefault(job.config.env, set()).add(job.method)
    assert methods["CartPole-v1"] == methods["LunarLander-v3"] == {"acer", "tree-backup", "q-lambda"}
    assert methods["cheetah"] == methods["walker"] == {"acer", *catalogue.load("choices").CONTINUOUS}
    assert len(planned) == 3 * (2 * 3 + 3 * 10)
    by_method = {job.method: job.config for job in planned}
    assert by_method["svg"].correction_gradient == "reparametrised" and by_method["svg"].truncation == 0
    assert by_method["penalty-10"].kl_weight == 10 and by_method["plain-trace"].trace_weight == "plain"


def test_each_deviation_is_the_preset_but_for_what_it_takes_back():
    planned = plans.jobs("deviations", "small", Selection(tasks=("walker",), seeds=(0,)))
    own = {job.method: vars(job.config) for job in planned}
    for method, changed in catalogue.load("deviations").VARIANTS.items():
        differing = {name for name in own["acer"] if own["acer"][name] != own[method][name]}
        assert differing == changed.keys(), method


def test_variants_are_compared_seed_by_seed():
    finals = {("fish", "acer"): [3.0, 5.0, 1.0], ("fish", "svg"): [2.0, 6.0, 0.0], ("walker", "acer"): [9.0],
              ("walker", "svg"): [8.0, 99.0]}  # fmt: skip
    runs = [a_run(final, 0, method, seed, env) for (env, method), of in finals.items() for seed, final in enumerate(of)]
    results = Results("small", [run.job for run in runs], runs, "", Path("x"))
    fish, walker, every = variants.table(results, [Comparison("c", "it says", "acer", "svg")])
    assert (fish["task"], fish["pairs"], fish["ahead"], fish["one_median"], fish["over_median"]) == ("fish", 3, 2, 3, 2)
    assert (walker["pairs"], walker["ahead"], walker["over_median"]) == (1, 1, 8)  # the second seed has no counterpart
    assert (every["pairs"], every["ahead"], every["verdict"]) == (4, 3, "ahead")
    assert variants.table(results, [Comparison("c", "", "acer", "none")]) == []
    drawn = variants.draw(results, [Comparison("c", "", "acer", "svg")])
    assert [path.name for path in drawn] == ["x.png", "x.svg", "x.csv"]


@pytest.mark.parametrize(("ahead", "pairs", "said"), [(9, 12, "ahead"), (8, 12, "not decided"), (3, 12, "behind")])
def test_three_quarters_decide(ahead, pairs, said):
    assert variants.verdict(ahead, pairs) == said
