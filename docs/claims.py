"""Writes the table of claims.md from the files under results/: `make docs`.

A claim's verdict follows from numbers by a rule that is written here, not from a reading of the figures.
"""

import csv
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acer.experiments import theory
from acer.learner.theory import bellman, contraction

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "claims.md"
BEGIN, END = "<!-- made by docs/claims.py -->", "<!-- end of what docs/claims.py makes -->"
AGREES, PARTLY, DIFFERS, OPEN = "agrees", "partly", "**does not**", "not tested"
MOST = 5 / 6  # of the pairs: a method that is ahead in so many of them counts as ahead
TASKS = ("cartpole-swingup", "reacher3", "cheetah", "fish", "walker", "humanoid")
HIGH, LOW = ("cheetah", "fish", "walker", "humanoid"), ("cartpole-swingup", "reacher3")
METHODS = ("acer", "a3c", "trust-a3c", "tis", "trust-tis")
Found = tuple[str, str]  # verdict and evidence


@dataclass(frozen=True)
class Claim:
    where: str
    says: str
    tested: str  # the experiment, benchmark or test
    seeds: str
    check: Callable[[], Found]


# ------------------------------------------------------------------ reading results


@functools.cache
def rows(file: str) -> list[dict[str, str]]:
    path = ROOT / "results" / file
    return list(csv.DictReader(path.read_text().splitlines())) if path.is_file() else []


def pairs(file: str, one: str, over: str, tasks: Sequence[str] = TASKS) -> dict[str, tuple[int, int]]:
    """By measure: in how many pairs of runs `one` is ahead, and how many there are."""
    counts = {"training": (0, 0), "evaluation": (0, 0)}
    for row in rows(file):
        if (row["method"], row["over"]) == (one, over) and row["task"] in tasks:
            ahead, every = counts[row["measure"]]
            counts[row["measure"]] = ahead + int(row["ahead"]), every + int(row["settings"])
    return counts


def ahead(file: str, one: str, over: str, tasks: Sequence[str] = TASKS) -> Found:
    """Agrees where `one` is ahead in five sixths of the pairs while training and evaluated, partly in half."""
    counts = pairs(file, one, over, tasks)
    shares = [of / every for of, every in counts.values()]
    verdict = AGREES if min(shares) >= MOST else PARTLY if min(shares) > 0.5 else DIFFERS
    (training, every), (evaluated, _) = counts.values()
    return verdict, f"{training} of {every} pairs, evaluated {evaluated}"


def together(*parts: tuple[str, Found]) -> Found:
    """Agrees if all parts do, does not if none does."""
    verdicts = {found[0] for _, found in parts}
    verdict = verdicts.pop() if len(verdicts) == 1 else PARTLY
    return verdict, "; ".join(f"{name}: {said}" for name, (_, said) in parts)


def unaltered(task: str) -> Found:
    """Agrees if neither with nor without truncation is ahead in five sixths of the pairs."""
    counts = pairs("experiments/ablation-pairs.csv", "acer", "no-truncation", (task,))
    decided = [not 1 - MOST < of / every < MOST for of, every in counts.values()]
    (training, every), (evaluated, _) = counts.values()
    verdict = DIFFERS if all(decided) else PARTLY if any(decided) else AGREES
    return verdict, f"ACER ahead in {training} of {every} pairs, evaluated {evaluated}"


CONTROL, ABLATION = "experiments/control-pairs.csv", "experiments/ablation-pairs.csv"


def margins(others: Sequence[str]) -> Found:
    found = {
        row["over"]: float(row["median"])
        for row in rows(CONTROL)
        if row["task"].startswith("all") and row["measure"] == "training" and row["method"] == "acer"
    }
    said = ", ".join(f"{found[other]:.2f} over `{other}`" for other in others)
    verdict = AGREES if all(found[other] > 0.25 for other in others) else PARTLY
    return verdict, f"in the median over pairs, of what lies between a task's worst and best run: {said}"


def last_return(task: str, method: str, setting: int) -> float:
    return float(rows(f"experiments/runs/{task}-{method}-{setting}-0/progress.csv")[-1]["return_mean"])


def margin(other: str, task: str) -> float:
    """ACER's median margin over six settings, in parts of what lies between the task's worst and best run."""
    returns = {method: [last_return(task, method, i) for i in range(6)] for method in METHODS}
    every = [value for of in returns.values() for value in of]
    gains = np.subtract(returns["acer"], returns[other])
    return float(np.median(gains)) / (max(every) - min(every))


def most_in_high_dimensions() -> Found:
    parts = []
    for other in ("trust-tis", "a3c"):
        high, low = (float(np.mean([margin(other, task) for task in tasks])) for tasks in (HIGH, LOW))
        said = f"mean margin {high:.2f} on the four, {low:.2f} on the other two"
        parts.append((f"`{other}`", (AGREES if high > low else DIFFERS, said)))
    return together(*parts)


# ------------------------------------------------------------------ Atari


def steps_to(method: str, level: str = "steps_to_human", seed: str = "all") -> float:
    (row,) = (r for r in rows("experiments/atari.csv") if (r["method"], r["seed"]) == (method, seed))
    return float(row[level] or "inf")


def fewer_steps(one: str, over: str) -> Found:
    """Agrees if one needs fewer steps to half and to the whole of the human's score, with either seed."""
    holds = [
        steps_to(one, level, seed) < steps_to(over, level, seed)
        for level in ("steps_to_half", "steps_to_human")
        for seed in ("0", "1")
    ]
    verdict = AGREES if all(holds) else PARTLY if any(holds) else DIFFERS
    thousands = " and ".join(f"{steps_to(method) / 1e3:,.0f}" for method in (one, over))
    return verdict, f"thousand steps to the human's score: {thousands}"


def by_the_clock() -> Found:
    own, *others = (steps_to(f"acer-{ratio}", "hours_to_human") for ratio in (0, 1, 4))
    ratios = [other / own for other in others]
    verdict = AGREES if max(ratios) < 1.25 else PARTLY if min(ratios) < 1.25 else DIFFERS
    return verdict, "time to the human's score over ratio 0's: " + ", ".join(
        f"ratio {ratio} {of:.2f}" for ratio, of in zip((1, 4), ratios, strict=True)
    )


def diminishing() -> Found:
    at = [steps_to(f"acer-{ratio}") for ratio in (0, 1, 4)]
    first, later = at[0] - at[1], (at[1] - at[2]) / 3
    verdict = AGREES if first > later > 0 else DIFFERS
    said = f"the first replay saves {first / 1e3:,.0f} thousand steps, each of the next three {later / 1e3:,.0f}"
    return verdict, said


def less_than_in_control() -> Found:
    saved = 1 - steps_to("acer-4") / steps_to("no-trust-region-4")
    counts = pairs(ABLATION, "acer", "no-trust-region", TASKS)["training"]
    verdict = AGREES if saved < 0.5 and counts[0] == counts[1] else PARTLY
    return verdict, f"it saves {100 * saved:.0f} % of Pong's steps at ratio 4; in control nothing is learnt without it"


def beside_dqn() -> Found:
    found = {row["agent"]: row for row in rows("atari57/atari-peers.csv")}
    ours = found.get("acer-4, games of the peers")
    if ours is None or int(ours["games"]) < 40:
        return OPEN, "needs many games (`acer experiment atari --scale medium`)"
    theirs = float(found["dqn, games of acer-4"]["median"])
    verdict = AGREES if float(ours["median"]) >= theirs else DIFFERS
    return verdict, f"median over {ours['games']} games at 4 M frames {float(ours['median']):.3f}, DQN's {theirs:.3f}"


# ------------------------------------------------------------------ sensitivity


def finals(task: str, by: str) -> list[float]:
    of_task = (row for row in rows("experiments/sensitivity.csv") if row["task"] == task)
    own = sorted(of_task, key=lambda row: float(row[by]))
    return [float(row["training"]) for row in own]


def not_sensitive() -> Found:
    ratios = {task: min(of) / max(of) for task in TASKS if min(of := finals(task, "delta")) > 0}
    robust = sum(ratio >= 0.5 for ratio in ratios.values())
    verdict = AGREES if robust == len(ratios) else PARTLY if robust > len(ratios) / 2 else DIFFERS
    worst = min(ratios, key=lambda task: ratios[task])
    said = f"the worst setting has at least half of the best one's return on {robust} of {len(ratios)} tasks"
    return verdict, f"{said}; on {worst} {ratios[worst]:.2f} of it (six settings)"


def ends(by: str, smallest: bool, tasks: Sequence[str], harm: bool) -> Found:
    """Whether the run with the smallest (largest) value is among the worst two of its task, or is not."""
    worst = 0
    for task in tasks:
        of = finals(task, by)
        worst += sorted(of).index(of[0] if smallest else of[-1]) < 2
    share = (worst if harm else len(tasks) - worst) / len(tasks)
    verdict = AGREES if share >= 0.75 else PARTLY if share >= 0.5 else DIFFERS
    return verdict, f"among the two lowest returns of six on {worst} of {len(tasks)} tasks"


# ------------------------------------------------------------------ theory


def curve(panel: str, series: str, column: str = "value") -> dict[float, float]:
    return {
        float(row["x"]): float(row[column])
        for row in rows("experiments/theory.csv")
        if (row["panel"], row["series"]) == (panel, series)
    }


def below(panel: str, series: str, x: Callable[[float], bool], bound: float, said: str) -> Found:
    largest = max(value for at, value in curve(panel, series, "high").items() if x(at))
    return AGREES if largest <= bound else DIFFERS, said.format(f"{largest:.2g}")


def spread(one: str, over: str) -> Found:
    values, others = curve("variance", one), curve("variance", over)
    x = min(values, key=lambda at: abs(at - 0.3))
    verdict = AGREES if values[x] > 10 * others[x] else DIFFERS
    return verdict, f"at KL(π‖μ) = {x:.1f} {values[x]:.1g} squared gradients, with c = 10 {others[x]:.1f}"


def bias(of: str, over: str, said: str) -> Found:
    one, other = (list(curve("squared bias", name).values())[-1] for name in (of, over))
    return AGREES if one > 5 * other else DIFFERS, said.format(one, other)


def bounded() -> Found:
    cut, free = (list(curve("variance", f"ACER, c = {c}").values()) for c in ("10", "∞"))
    verdict = AGREES if max(cut) < 20 and free[-1] > 1e3 else DIFFERS
    return verdict, f"variance at most {max(cut):.0f} squared gradients, without truncation up to {free[-1]:,.0f}"


def value_rule() -> Found:
    """Over 100 random MDPs: variance under μ of ρ Q − V over that of ρ (Q − V), Q = Q^π."""
    ratios = []
    for seed in range(100):
        p = theory._drifted(seed, 1.0)
        rho, q = p.pi / p.mu, theory.true_values(p)
        v = (p.pi * q).sum(1, keepdims=True)
        naive, ours = (((p.mu * of**2).sum(1) - (p.mu * of).sum(1) ** 2).sum() for of in (rho * q, rho * (q - v)))
        ratios.append(naive / ours)
    median = float(np.median(ratios))
    return AGREES if median > 2 else PARTLY if median > 1 else DIFFERS, f"{median:.1f} times as small, in the median"


def corrected_contraction() -> Found:
    """Q + E_μ[Σ γ^t (T^π Q − Q)]: its contraction on random MDPs, with μ near π and far from it."""

    def factor(drift: float) -> float:
        found = []
        for seed in range(100):
            p = theory._drifted(seed, drift)
            size = p.q.size
            steps = (p.mdp.transitions[..., None] * p.mu).reshape(size, size)
            inverse = np.linalg.inv(np.eye(size) - p.mdp.gamma * steps)

            def operator(q: np.ndarray, p: theory.Problem = p, inverse: np.ndarray = inverse) -> np.ndarray:
                return q + (inverse @ (bellman(p.mdp, p.pi, q) - q).ravel()).reshape(q.shape)

            found.append(contraction(operator, p.q.shape))
        return float(np.median(found))

    near, far = factor(0.02), factor(1.0)
    verdict = AGREES if near < 1 < far else DIFFERS
    return verdict, f"factor {near:.2f} where μ is close to π, {far:.1f} where it is far (below 1 contracts)"


# ------------------------------------------------------------------ choices


def choice(what: str, one: str, over: str, tasks: str) -> Found:
    found = [r for r in rows("choices/choices.csv") if (r["one"], r["over"], r["task"]) == (one, over, "all")]
    if not found:
        return OPEN, f"`acer experiment choices --scale small --tasks {tasks}` has not been run"
    (row,) = found
    verdict = {"ahead": AGREES, "behind": DIFFERS}.get(row["verdict"], PARTLY)
    return verdict, f"{what} ahead in {row['ahead']} of {row['pairs']} pairs"


def one_trajectory() -> Found:
    own: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows("control/trust-a3c.csv"):
        if row["variant"] == "one":
            own.setdefault((row["task"], row["setting"]), {})[row["method"]] = float(row["training"])
    both = [of["trust-a3c"] > of["a3c"] for of in own.values() if len(of) == 2]
    four, of_four = pairs(CONTROL, "trust-a3c", "a3c")["training"]
    shares = four / of_four, sum(both) / len(both)
    verdict = AGREES if min(shares) >= MOST else DIFFERS if max(shares) <= 0.5 else PARTLY
    said = f"with one trajectory per update, as printed, {sum(both)} of {len(both)} pairs"
    return verdict, f"{said}; with our four {four} of {of_four}"


def proven(test: str) -> Callable[[], Found]:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text(), test
    return lambda: (AGREES, f"`tests/{file}`")


def stands() -> Found:
    best = max(float(row["best_mean"]) for row in rows("experiments/ablation.csv")
               if row["task"] == "humanoid" and row["measure"] == "evaluation")  # fmt: skip
    return DIFFERS, f"none stands in 500,000 steps, with or without it (best return evaluated {best:.0f} of some 640)"


def known(verdict: str, evidence: str) -> Callable[[], Found]:
    return lambda: (verdict, evidence)


PONG, RUNS, ABLATIONS = "`atari --scale small`", "`control --scale small`", "`ablation --scale small`"
SENSITIVE, THEORY = "`sensitivity --scale small`", "`theory --scale small`"
TWO, SIX = "2, one game", "6 settings"

CLAIMS = [
    Claim("Abstract", "a trust region method that makes learning stable", ABLATIONS, SIX,
          lambda: ahead(ABLATION, "acer", "no-trust-region")),
    Claim("Section 1", "ACER nearly matches DQN with prioritised replay on Atari", "`atari --scale medium`", "–",
          beside_dqn),
    Claim("Section 1", "substantially better than A3C in sample efficiency on control", RUNS, SIX,
          lambda: ahead(CONTROL, "acer", "a3c")),
    Claim("Section 3", "importance weights' product has very high variance", THEORY, "100 MDPs",
          lambda: spread("product of ρ", "ACER, c = 10")),
    Claim("Section 3", "truncating the whole product could have significant bias", THEORY, "100 MDPs",
          lambda: bias("TIS, min{5, product}", "ACER, c = 10",
                       "squared bias {:.2f} of the squared gradient where μ is farthest, ACER's {:.2f}")),
    Claim("Section 3.1", "Retrace converges for any behaviour (tabular)", THEORY, "100 MDPs",
          lambda: below("convergence", "c = 1", lambda x: x == 30, 0.1,
                        "after 30 applications at most {} of the first error is left")),
    Claim("Section 3.1", "Retrace does better than tree backup", "`choices --scale small`", "3",
          lambda: choice("Retrace", "acer", "tree-backup", "CartPole-v1 LunarLander-v3")),
    Claim("Section 3.2", "truncation bounds the variance of the gradient", THEORY, "100 MDPs", bounded),
    Claim("Section 3.2", "the correction keeps the estimate unbiased", THEORY, "100 MDPs",
          lambda: bias("c = 1 without correction", "ACER, c = 1",
                       "squared bias at c = 1 {:.2f} without the correction, {:.2f} with it, which the critic's "
                       "error leaves; 0 with a perfect critic")),
    Claim("Section 3.2", "c = 0 and reparametrisation give Stochastic Value Gradients", "test", "–",
          proven("learner/test_gradients.py::test_the_reparametrised_gradient_estimates_what_the_score_does")),
    Claim("Section 3.3", "a KL penalty is less robust to its constant", "`choices --scale small`", "3",
          lambda: choice("the projection", "delta-0.1", "penalty-10", "reacher3 cheetah walker")),
    Claim("Section 4", "replay significantly increases data efficiency", PONG, TWO,
          lambda: fewer_steps("acer-4", "acer-0")),
    Claim("Section 4", "with the trust region, efficiency rises with the ratio", PONG, TWO,
          lambda: together(("1 for 0", fewer_steps("acer-1", "acer-0")), ("4 for 1", fewer_steps("acer-4", "acer-1")))),
    Claim("Section 4", "with diminishing returns", PONG, TWO, diminishing),
    Claim("Section 4", "with enough replay it matches the best DQN agents", "–", "–",
          known(OPEN, "57 games of 200 M frames are 13 months of one core")),
    Claim("Section 4", "off-policy far more efficient than on-policy", PONG, TWO,
          lambda: together(("4 for 0", fewer_steps("acer-4", "acer-0")),
                           ("without trust region", fewer_steps("no-trust-region-4", "no-trust-region-0")))),
    Claim("Figure 1, right", "ACER and A3C alike by wall-clock time", PONG, TWO, by_the_clock),
    Claim("Section 5.1", "ρ^{1/d} in the trace learns faster", "`choices --scale small`", "3",
          lambda: choice("the root", "acer", "plain-trace", "reacher3 cheetah walker")),
    Claim("Figure 3", "ACER outperforms all other methods", RUNS, SIX,
          lambda: together(*((f"`{other}`", ahead(CONTROL, "acer", other))
                             for other in ("a3c", "trust-a3c", "tis", "trust-tis")))),
    Claim("Section 6", "A3C and TIS by a very significant margin", RUNS, SIX, lambda: margins(("a3c", "tis"))),
    Claim("Figure 3", "clear gains on humanoid, cheetah, walker and fish", RUNS, SIX,
          lambda: together(*((f"`{other}`", ahead(CONTROL, "acer", other, HIGH))
                             for other in ("a3c", "trust-a3c", "tis", "trust-tis")))),
    Claim("Section 6", "more so in higher dimensions", RUNS, SIX, most_in_high_dimensions),
    Claim("Figure 3", "the trust region lifts TIS significantly", RUNS, SIX,
          lambda: ahead(CONTROL, "trust-tis", "tis")),
    Claim("Figure 3", "the trust region lifts A3C significantly", f"{RUNS}, `benchmarks/trust_a3c.py`", SIX,
          one_trajectory),
    Claim("Section 6", "the trust region gains more in control than on Atari", f"{PONG}, {ABLATIONS}", TWO,
          less_than_in_control),
    Claim("Section 6.1", "the trust region is critical", ABLATIONS, SIX,
          lambda: ahead(ABLATION, "acer", "no-trust-region")),
    Claim("Section 6.1", "stochastic dueling networks are critical", ABLATIONS, SIX,
          lambda: ahead(ABLATION, "acer", "no-sdn")),
    Claim("Section 6.1", "Retrace and Q^opc are critical", ABLATIONS, SIX,
          lambda: ahead(ABLATION, "acer", "no-retrace")),
    Claim("Section 6.1", "truncation does not alter results on the fish", ABLATIONS, SIX, lambda: unaltered("fish")),
    Claim("Section 6.1", "nor on the walker", ABLATIONS, SIX, lambda: unaltered("walker")),
    Claim("Section 6.1", "on the humanoid it brings a significant boost", ABLATIONS, SIX,
          lambda: ahead(ABLATION, "acer", "no-truncation", ("humanoid",))),
    Claim("Section 6.1", "it makes the kneeling humanoid stand", ABLATIONS, SIX, stands),
    Claim("Figure 4", "all four components improve performance", ABLATIONS, SIX,
          lambda: together(*((f"`{other}`", ahead(ABLATION, "acer", other))
                             for other in ("no-trust-region", "no-sdn", "no-retrace", "no-truncation")))),
    Claim("Proposition 1", "B contracts with a factor of at most γ", THEORY, "100 MDPs",
          lambda: below("contraction", "operator B", lambda x: True, 0.9 + 1e-9, "largest factor {} with γ = 0.9")),
    Claim("Proposition 1", "B is Retrace", THEORY, "100 MDPs",
          lambda: below("limits", "Retrace", lambda x: True, 1e-9, "largest difference {}")),
    Claim("Section 7", "B is the Bellman operator at c = 0", THEORY, "100 MDPs",
          lambda: below("limits", "Bellman", lambda x: x == 0, 1e-9, "largest difference {}")),
    Claim("Section 7", "B is importance sampling at c = ∞", THEORY, "100 MDPs",
          lambda: below("limits", "importance sampling", lambda x: x == float("inf"), 1e-9, "largest difference {}")),
    Claim("Appendix B", "Q^opc contracts only where μ is close to π", "this page's own", "100 MDPs",
          corrected_contraction),
    Claim("Appendix B", "Q^opc in the policy gradient learns faster", "`choices --scale small`", "3",
          lambda: choice("Q^opc", "acer", "policy-retrace", "reacher3 cheetah walker")),
    Claim("Appendix E.3", "ACER is not very sensitive to its constants", SENSITIVE, SIX, not_sensitive),
    Claim("Appendix E.3", "smaller δ do not harm", SENSITIVE, SIX, lambda: ends("delta", True, TASKS, harm=False)),
    Claim("Appendix E.3", "larger δ do, in higher dimensions", SENSITIVE, SIX,
          lambda: ends("delta", False, HIGH, harm=True)),
    Claim("Appendix E.3", "smaller learning rates do well", SENSITIVE, SIX,
          lambda: ends("learning_rate", True, TASKS, harm=False)),
    Claim("Appendix E.3", "larger ones hurt, in higher dimensions", SENSITIVE, SIX,
          lambda: ends("learning_rate", False, HIGH, harm=True)),
    Claim("Appendix E.4", "ρ (Q^ret − V) has markedly lower variance than ρ Q^ret − V", "this page's own", "100 MDPs",
          value_rule),
]  # fmt: skip


def table() -> str:
    """The counts, and a row for each claim."""
    found = [(claim, *claim.check()) for claim in CLAIMS]
    words = {AGREES: "agree", PARTLY: "agree in part", DIFFERS: "do not agree", OPEN: "are not tested"}
    counts = [f"{sum(verdict == of for _, verdict, _ in found)} {word}" for of, word in words.items()]
    lines = [
        f"Of {len(found)} claims of the paper's text and captions {', '.join(counts[:-1])}, and {counts[-1]}.",
        "",
        "| where | the paper says | tested by | seeds | verdict | here |",
        "|---|---|---|---|---|---|",
    ]
    for claim, verdict, evidence in found:
        lines.append(f"| {claim.where} | {claim.says} | {claim.tested} | {claim.seeds} | {verdict} | {evidence} |")
    return "\n".join(lines)


def text() -> str:
    """The page with its table made anew."""
    before, rest = PAGE.read_text().split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(text())
