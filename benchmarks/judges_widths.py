"""Intervals of the rates of systems: what makes them wide, and what other answers to the same questions add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from common import arguments, table, write
from judges_methods import PanelSet, aligned, chosen, load
from scipy.special import expit, ndtri

from crowdppl.judges import Verdicts
from crowdppl.judges.model.calibration import PRIORS, BlockPrior, calibrate
from crowdppl.judges.model.features import Features, features_of
from crowdppl.judges.people.human_likelihood import log_likelihood

Array = npt.NDArray[Any]
NAME, DRAWS = "judges-triviaqa-v1", 500
FIGURES = ("covered", "width", "error", "chance", "weights", "common", "common_error", "own", "own_error", "log_loss")
NONE = BlockPrior(0.0, 1e-4, 0.01)
# What is taken as known, as priors of that value. Each row keeps what the one before knows.
KNOWN: dict[str, Mapping[str, BlockPrior]] = {
    "as it is": {},
    "no effect of a system of its own": {"system": NONE},
    "also the coefficient of rates by the judges, .5": {"system_rate": BlockPrior(0.5, 1e-4, 0.01)},
    "also all scales, at their prior medians": {},
    "also judges and families of equal weight": {"judge": NONE, "family": NONE},
}
# Standard deviation of the log odds of questions, and share of the variance of the judges' errors that a question has in common.
QUESTIONS = {
    "questions alike": (0.0, 0.0),
    "questions differ": (1.5, 0.0),
    "judges err on the same questions": (0.0, 0.3),
    "both": (1.5, 0.3),
}
SYSTEMS, ITEMS, ACCURACY, FAMILY = 5, 150, (0.8, 0.8, 0.78, 0.78, 0.88), (0, 0, 1, 1, 2)


def measured(panel: PanelSet, of: Features, labels: int, seed: int, priors: Mapping[str, BlockPrior]) -> dict[str, Any]:
    """Return figures of the rates of the systems with human labels of some items: of each system, or one."""
    items, system, truth = chosen(panel, labels, seed), panel.verdicts.system, panel.truth
    N, S = len(truth), len(panel.verdicts.systems)
    rng = np.random.default_rng(seed)
    log_human = log_likelihood(np.eye(2)[truth[items]], 0.0)
    posterior = calibrate(of, items, log_human, np.ones(len(items)), draws=DRAWS, rng=rng, priors=priors)
    p = posterior.probability(of.rows(np.arange(N)), system)[1]  # (D, N)
    rest = np.setdiff1d(np.arange(N), items)
    mean = p.mean(0)[rest]
    p[:, items] = truth[items]
    member = np.eye(S)[system] / np.bincount(system, minlength=S)[system][:, None]  # (N, S)
    rate, true = (rng.random(p.shape) < p) @ member, truth @ member
    low, high = np.quantile(rate, [0.025, 0.975], axis=0)
    error = rate.mean(0) - true
    return {
        "covered": ((low - 1e-9 <= true) & (true <= high + 1e-9)).mean(),
        "width": (high - low).mean(),
        "error": np.abs(error).mean(),
        "chance": ((p * (1 - p)).mean(0) @ member**2).mean(),
        "weights": (p @ member).var(0).mean(),
        "common": rate.mean(1).var(),
        "common_error": error.mean() ** 2,
        "own": (rate - rate.mean(1, keepdims=True)).var(0).mean(),
        "own_error": error.var(),
        "log_loss": -np.log(np.maximum(np.where(truth[rest] == 1, mean, 1 - mean), 1e-12)).mean(),
    }


def averaged(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the mean of every figure; of variances the root."""
    roots = ("chance", "weights", "common", "common_error", "own", "own_error")
    means = {name: float(np.mean([run[name] for run in runs])) for name in FIGURES}
    return {name: float(np.sqrt(x)) if name in roots else x for name, x in means.items()}


def features(panel: PanelSet, *, questions: bool = True) -> Features:
    """Return the features of a panel of two classes of which the second passes, with those of questions or without."""
    of = features_of(panel.verdicts, None, np.array([0.0, 1.0]))
    return of if questions else replace(of, question_rate=of.question_rate[:, :0])


def decomposed(repetitions: int) -> dict[str, dict[str, float]]:
    """Return figures of the public panel, with more and more taken as known."""
    panel = load(NAME, 10**9)
    out = {}
    for labels in (100, 200):
        seeds = range(repetitions)
        without = [measured(panel, features(panel, questions=False), labels, s, PRIORS) for s in seeds]
        out[f"{labels} / without questions"] = averaged(without)
        priors, of = dict(PRIORS), features(panel)
        for name, known in KNOWN.items():
            priors |= known
            if "scales" in name:
                priors = {block: prior._replace(spread=0.01) for block, prior in priors.items()}
            out[f"{labels} / {name}"] = averaged([measured(panel, of, labels, s, priors) for s in seeds])
    return out


def simulated(kind: str, seed: int) -> PanelSet:
    """Return a panel of systems that answered the same questions."""
    rng = np.random.default_rng([50_000 + seed])
    spread, shared = QUESTIONS[kind]
    hard, error = rng.standard_normal((2, ITEMS))
    passes = rng.random((SYSTEMS, ITEMS)) < expit(np.linspace(-0.5, 1.5, SYSTEMS)[:, None] + spread * hard)
    J, families = len(ACCURACY), rng.standard_normal((max(FAMILY) + 1, SYSTEMS, ITEMS))
    rows = []
    for j in range(J):
        latent = np.sqrt(0.3) * families[FAMILY[j]] + np.sqrt(shared) * error
        latent = latent + np.sqrt(0.7 - shared) * rng.standard_normal((SYSTEMS, ITEMS))
        said = passes ^ (latent < ndtri(1 - ACCURACY[j]))
        for (s, q), x in np.ndenumerate(said):
            rows.append((f"q{q}-s{s}", f"s{s}", q, f"j{j}", f"f{FAMILY[j]}", "pass" if x else "fail"))
    frame = pd.DataFrame(rows, columns=["item", "system", "question", "judge", "family", "verdict"])
    truth = {f"q{q}-s{s}": "pass" if x else "fail" for (s, q), x in np.ndenumerate(passes)}
    human, verdicts = aligned(truth, Verdicts.from_frame(frame, labels=["fail", "pass"]))
    codes = np.full(len(verdicts.items), -1)
    codes[human.item] = human.label
    return PanelSet(verdicts, codes)


def of_questions(repetitions: int) -> dict[str, dict[str, float]]:
    """Return figures of simulated panels, with what other answers to the questions say and without."""
    out = {}
    for kind in QUESTIONS:
        runs: dict[str, list[dict[str, Any]]] = {}
        for seed in range(repetitions):
            panel = simulated(kind, seed)
            for labels in (30, 100):
                for questions in (False, True):
                    one = measured(panel, features(panel, questions=questions), labels, seed, PRIORS)
                    runs.setdefault(f"{kind} / {labels} / {'with' if questions else 'without'}", []).append(one)
        out |= {name: averaged(many) for name, many in runs.items()}
    return out


# Priors were changed in a run of their own, on the first 24 panels of three kinds of judges_kinds.py.
WIDE = """\
Nine tenths of the variance with 100 labels are that of the weights of verdicts, also if judges treat all systems alike. With no
effects of systems, the coefficient of the rates known and all scales known, intervals are .097 wide; those of logistic
regression with a bootstrap are .088 ([rates](judges.md#rates-of-nine-systems)). With 200 labels they are .070 and .069: there
the two effects of systems are the whole difference. The errors are smaller than the standard deviations: on this panel judges
treat systems more alike than the prior takes for granted. One system of the nine, whose answers some judges reject nearly
always, has intervals twice as wide as the others.

Narrower priors of both effects were tried again, with what other answers to the questions say: a coefficient of mean .8 and scale
.4, or 1 and .4, and effects of scale .08 or .1. The first makes intervals of this panel narrower by 7% with 100 labels and by 11%
with 200, and the errors smaller. Coverage, and width in brackets, of simulated panels to which nothing was tuned, 24 each:

| kind | human labels | as it is | .8, .4; .08 | 1, .4; .1 |
|---|--:|--:|--:|--:|
| self-preference | 30 | 0.972 (0.169) | 0.972 (0.159) | 0.958 (0.156) |
| self-preference | 100 | 0.903 (0.100) | 0.889 (0.092) | 0.861 (0.094) |
| one judge | 30 | 0.889 (0.250) | 0.875 (0.227) | 0.875 (0.227) |

Both lower the coverage where it is lowest, and do not reach the widths of logistic regression: neither was taken."""


ALIKE = """\
Its coefficient has a prior of mean .5 and scale .4. Three forms of it and seven more priors were tried, which move the log loss
of `triviaqa-v1` with 100 labels by .002 at most. With all labels of `triviaqa-v1` the coefficient is .5 to .6, and that of the
rates of systems rises from .2 to .5 beside it. Taken as questions, pairs of post and question of `lgbteen` have .67 with 100
labels and lower the log loss by .007. Pairs of document and aspect of `summeval`, whose judges are weak, have .1 and raise it
by .009, and by .026 with 30 labels (standard errors .002 and .016; 6 random choices each; ratios over the slope of verdicts for
`summeval`).
"""


def page(out: dict[str, dict[str, dict[str, float]]], repetitions: tuple[int, int]) -> str:
    """Return the page."""
    wide = [
        [int(name.split(" / ")[0]), name.split(" / ")[1], *(round(run[x], 4) for x in FIGURES)]
        for name, run in out["decomposed"].items()
    ]
    alike = []
    for kind in QUESTIONS:
        for labels in (30, 100):
            runs = [out["questions"][f"{kind} / {labels} / {how}"] for how in ("without", "with")]
            alike.append(
                [
                    kind,
                    labels,
                    *(round(r[x], 3 + (x == "error")) for x in ("covered", "width", "error", "log_loss") for r in runs),
                ]
            )
    head = ["human labels", "taken as known", "coverage", "width", "error", "chance", "weights", "common", "its error"]
    return f"""
## What makes intervals wide

`triviaqa-v1`, {
        repetitions[0]
    } random choices of the items with human labels. *Coverage*, mean *width* and mean absolute *error*
are those of 95% intervals of the nine rates. The others are standard deviations: *chance*, of the rates given the weights of the
verdicts; *weights*, of the rates expected with these; *common*, of the mean of all rates, and *own*, of rates around it, beside
the root mean square of their *errors*.

{table([*head, "own", "its error", "log loss"], wide)}

{WIDE}

## Answers to the same questions

Five simulated systems answered the same {
        ITEMS
    } questions; five judges of three families. Log odds of passing differ between
questions by a standard deviation of 1.5, or the errors of all judges have .3 of their variance in common on the answers to a
question. 95% intervals of the rates without what other answers to the question say, and with it (*now*), {
        repetitions[1]
    } times.
{ALIKE}
{
        table(
            ["panels", "labels", "coverage", "now", "width", "now", "error", "now", "log loss", "now"],
            alike,
        )
    }
"""


def main() -> None:
    """Measure everything and write the page."""
    options = arguments(__doc__ or "")
    repetitions = (1, 1) if options.quick else (20, 30)
    out = {"decomposed": decomposed(repetitions[0]), "questions": of_questions(repetitions[1])}
    write("judges_widths", "Widths of intervals of judged systems", page(out, repetitions), out, options)


if __name__ == "__main__":
    main()
