"""Textbook crowds, whose workers err independently and are equally good: what the default says of them, and `independent=True`.

Every worker labels every item. An incorrect label is any other class with equal probability. And small public crowds, which the
default may take for them: the workers with the most annotations of a public set, and some of their items.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import small_crowds
from common import arguments, kept_figures, table, write
from default_model import GROUPS

import crowdppl
from crowdppl import Annotations, Posterior
from crowdppl.inference.dependence import crowd_rows, independence
from crowdppl.inference.dependence.design_effect import START

# Items, workers, classes, accuracy, and the share of the first class; the other classes are equally frequent.
CROWDS = {
    "five workers, 300 items": (300, 5, 2, 0.85, 0.5),
    "five workers, 2,000 items": (2_000, 5, 2, 0.85, 0.5),
    "ten workers, 300 items": (300, 10, 2, 0.8, 0.5),
    "five workers, four classes, 300 items": (300, 5, 4, 0.85, 0.25),
    "five workers, a class of 10%, 300 items": (300, 5, 2, 0.85, 0.1),
    "five workers of .75, a class of 10%, 2,000 items": (2_000, 5, 2, 0.75, 0.1),
    "five workers, a class of 1%, 300 items": (300, 5, 2, 0.85, 0.01),
    "five workers, a class of 1%, 2,000 items": (2_000, 5, 2, 0.85, 0.01),
}
FITS: dict[str, dict[str, Any]] = {
    "default": {},
    "`independent=True`": {"independent": True},
    "item effects, `independent=True`": {"model": "item-effects", "method": "em", "independent": True},
}
PARTS = ("simulated", "public")
LEVEL = 0.89
# Of public sets: the workers with the most annotations, items, and repetitions.
WORKERS, ITEMS, REPETITIONS = (5, 10), (100, 200, 400, 1000), 4


def crowd(
    seed: int, items: int, workers: int, classes: int, accuracy: float, first: float
) -> tuple[Annotations, np.ndarray]:
    """Draw a crowd and its true classes."""
    rng = np.random.default_rng(seed)
    shares = np.array([first, *[(1 - first) / (classes - 1)] * (classes - 1)])
    truth = rng.choice(classes, size=items, p=shares)
    correct = rng.random((workers, items)) < accuracy
    label = np.where(correct, truth, (truth + rng.integers(1, classes, size=(workers, items))) % classes)
    worker, item = np.divmod(np.arange(label.size), items)
    return Annotations.from_arrays(item, worker, label.ravel(), labels=range(classes)), truth


def scores(posterior: Posterior, truth: np.ndarray, accuracy: float) -> dict[str, float]:
    """Return what is stated, what is correct, and which intervals hold the true value."""
    probability, workers = posterior.probability(), posterior.workers(level=LEVEL)
    item, worker, label = posterior.annotation_index()
    share = np.bincount(worker, weights=label == truth[item]) / np.bincount(worker)
    prevalence = posterior.draws("prevalence").reshape(-1, probability.shape[1])[:, 0]
    low, high = np.quantile(prevalence, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])

    def held(name: str, value: Any) -> float:
        # Shares of the same labels, of which one may be the end of an interval.
        return float(((workers[f"{name}_low"] <= value + 1e-9) & (value <= workers[f"{name}_high"] + 1e-9)).mean())

    mixture = posterior.info["independence"]
    return {
        "weight": 0.0 if mixture is None else mixture["probability"],
        "correct": float((probability.argmax(1) == truth).mean()),
        "stated": float(probability.max(1).mean()),
        "share bias": float((workers["share_correct"] - share).mean()),
        "share held": held("share_correct", share),
        "accuracy bias": float((workers["accuracy"] - accuracy).mean()),
        "accuracy held": held("accuracy", accuracy),
        "prevalence": float(prevalence.mean()),
        "prevalence held": float(low <= (truth == 0).mean() <= high),
    }


def of_public(names: list[str]) -> list[list[Any]]:
    """Return a row for each set: how probable independence is, and labels without the mixture and with it."""
    rows = [
        [name, f"{number}", f"{weight:.2f}", *(f"{value:.3f}" for value in values)]
        for name, number, (weight, *values) in small_crowds.of_public(
            names, WORKERS, ITEMS, REPETITIONS, independence._told_apart
        )
    ]
    means = np.mean([[float(cell) for cell in row[2:]] for row in rows], 0)
    return [*rows, ["mean", "", f"{means[0]:.2f}", *(f"**{value:.4f}**" for value in means[1:])]]


def main() -> None:
    """Measure, and write the page."""
    options = arguments(__doc__, PARTS)
    seeds = 2 if options.quick else 20
    parts = options.only or PARTS
    figures = kept_figures("textbook-crowds", options)
    parts_of_public = figures.pop("small", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, size in CROWDS.items() if "simulated" in parts else ():
            each: dict[str, list[dict[str, float]]] = {fit: [] for fit in FITS}
            for seed in range(seeds):
                data, truth = crowd(seed, *size)
                for fit, settings in FITS.items():
                    each[fit].append(scores(crowdppl.fit(data, seed=0, **settings), truth, size[3]))
            figures[name] = {
                fit: {key: float(np.mean([row[key] for row in rows])) for key in rows[0]} for fit, rows in each.items()
            }
        if "public" in parts:
            parts_of_public = of_public(["rte"] if options.quick else GROUPS["public"])
    body, results = page(figures, parts_of_public, seeds), figures | {"small": parts_of_public}
    write("textbook-crowds", "Textbook crowds", body, results, options, "textbook_crowds")


def page(figures: dict[str, dict[str, dict[str, float]]], parts_of_public: list[list[Any]], seeds: int) -> str:
    """Return the page.

    Args:
        figures: by simulated crowd, fit and measure.
        parts_of_public: the rows of public sets.
        seeds: number of crowds of a kind.
    """
    rows = [
        [
            name if n == 0 else "",
            fit,
            f"{one['weight']:.2f}" if fit == "default" else "",
            *(f"{one[key]:.3f}" for key in ("correct", "stated")),
            *(f"{one[f'{key} bias']:+.3f} ({one[f'{key} held']:.0%})" for key in ("share", "accuracy")),
            f"{one['prevalence']:.3f} ({one['prevalence held']:.0%})",
        ]
        for name, by_fit in figures.items()
        for n, (fit, one) in enumerate(by_fit.items())
    ]
    columns = [
        "set",
        "crowds",
        "probability of independence",
        "accuracy: correlated",
        "log loss",
        "accuracy: mixture",
        "log loss",
    ]
    header = (
        "crowd",
        "fit",
        "probability of independence",
        "correct",
        "stated",
        "share correct: bias (held)",
        "accuracy: bias (held)",
        "first class (held)",
    )
    return f"""Workers of .85, or .8 of the crowd of ten, or as stated, who err independently, means over {seeds} crowds.
*Correct* is the share of correct labels and *stated* the mean probability of a label. Biases are those of the share of a worker's
annotations that are correct and of the accuracy; *held* is how often {LEVEL:.0%} intervals contain the true value. *First class*
is the estimated share of the items of the first class, and how often its interval holds that of the crowd.

{table(header, rows)}

The default allows for errors that workers share, as nearly all public crowds have them. Where agreement varies from item to item
as if errors were independent, the result is a mixture: the share *probability of independence* of the draws is of Dawid and
Skene's model. With `independent=True` all of them are, which is right for such crowds, and far too sure of others
([correlated errors](correlated-sbc.md)). In these draws every worker starts as an average member of the crowd, worth
{START:g} annotations in all. The prior of the model named `dawid-skene` has a mean accuracy of .71 with two classes, .56
with four and .38 with ten, as its flat part counts one annotation of each label. It moved workers of .85 by -.03 with four
classes, and intervals of the accuracy held .85 for 59% of them. Crowds of workers who differ, eight of each kind, by
`independent=True`:

| crowd | accuracy by the prior: bias (held) | by the crowd: bias (held) | share correct held: by the prior, by the crowd |
|---|---|---|---|
| two of .97, six of .6, four classes | -.012 (67%) | +.003 (88%) | 94%, 88% |
| ten of .5 to .95, four classes, four labels an item | -.032 (56%) | +.010 (85%) | 90%, 82% |
| forty of .5 to .95, four classes, four labels an item | -.089 (49%) | +.015 (86%) | 93%, 79% |
| five who guess, five of .75 to .9, three classes | +.003 (81%) | +.000 (91%) | 91%, 89% |
| ten of .55 to .95, two classes | -.002 (90%) | +.000 (92%) | 96%, 94% |
| ten of .55 to .95, eight classes | -.093 (11%) | +.000 (90%) | 100%, 92% |

Shares of correct annotations are held less often by the crowd: the bias of the prior made up for part of what intervals by EM
leave out.

A worker who guesses a few labels beside five workers of .9 who label all of 200 items is no member of such a crowd. So each
worker starts as one of two, a member of the crowd or somebody who gives all labels equally often, with a prior probability of
{crowd_rows.GUESSING:g} for the second. Means of its accuracy and of the lower end of its interval over eight crowds, and how many
intervals hold the truth:

| classes, labels, true accuracy | by the prior | by the crowd alone | by either |
|---|---|---|---|
| two, 15, .50 | .61, .47 (6) | .59, .41 (7) | .51, .34 (7) |
| four, 25, .25 | .44, .34 (0) | .36, .23 (4) | .26, .15 (6) |
| ten, 30, .10 | .33, .28 (0) | .24, .14 (2) | .10, .04 (7) |

Of the crowds of workers who differ, above, the mean biases by either are within .003 of those by the crowd alone, and the
shares held within three points. With 4 annotations of each class in place of 4 in all, the three workers had .63, .50 and .57,
and with a weight that is learned from how much workers differ .61, .32 and .32. Where rows of the crowd and of a guess are
compared by the likelihood of both priors, which are wide, in place of that of their means, workers of .85 are taken for guesses
too often: their bias is -.014, before -.006. These two tables are of single runs.

## Small public crowds

A small public crowd may look independent and not be. The {" or ".join(map(str, WORKERS))} workers with the most annotations of
each public set with up to {independence.CLASSES} classes, {", ".join(f"{n:,}" for n in ITEMS)} of their items at random,
{REPETITIONS} times; those of {independence.FEWEST} items or more with {independence.EACH_ITEM:g} annotations or more for each
item and {independence.LEAST_EACH:g} for each free number of the workers' matrices. Of others independence is not considered, nor
where Dawid and Skene's model finds another label for more than {independence.APART:.0%} of the items, unless these labels are
nearly those of the votes (they have at most {independence.FROM_VOTES:g} less of an item's votes in the mean). Item effects may
take a rare class for errors; eleven public crowds, where Dawid and Skene's model is wrong, have .048 to .075. Nor is it where
the model finds most workers adversarial, and their errors mostly on one class for each true class. Where the model finds one
class in 90% of the items, which workers give equally often, {independence.ONE_CLASS:g} of the probability of independence
is left (below). A warning then states both readings. Labels by the default without the mixture
(*correlated*), and with it.

{table(columns, parts_of_public)}

Of the full public sets `bluebirds` alone has a probability above .02, of .05. The prior probability of independence
({independence.SHARE:g}), the standard deviations of z and the public distribution of z were chosen on these sets and crowds, of
some fifteen combinations: a lower prior costs less here and leaves the default further from the truth above. Two others were
measured once: one standard deviation on either side of 0 with a prior of .25 has a mean log loss of .7590 on the small crowds,
the same with z below 0 taken as 0 has .7652. Either is nearer to the truth of five independent workers (bias of the share -.045);
the first is further from it for experts of one class, whose matrices explain more agreement than there is. The conditions on
annotations of an item and on labels: without them the mean log loss of small crowds was .046 higher than without the mixture, and
their accuracy a point lower, nearly all of it where Dawid and Skene's model finds other labels. One number for each worker in
place of a matrix costs more, and one matrix for all workers the same.

**One class or many who guess.** In 24 of the small crowds above, and 45 of three to seven other workers of the same sets, Dawid
and Skene's model is far from the default and from the votes, in nearly all of them with one class in at least 90% of the items.
Most are of `pos-sentiment` and `rte`: .49 and .50 of its labels are correct there, at a log loss of 5. In 124 simulated crowds
with a class of 2 to 10% and 3 to 7 workers of .65 to .80 it finds the same, and .95 of its labels are correct. z, the labels,
and the agreement of workers are alike. How often a worker gives the class tells them apart: the standard deviation of its log
odds over workers is at most .45 in the simulated crowds (.36 where accuracies have a standard deviation of .05), and at least
.45 with the five workers of most annotations of the public ones, but .10 to .46 with three or four of `rte`. So the upper end
of its 90% interval may be .75, the noise of few items included, and their mean must be at least .25 (log odds). This admits none
of the 24 crowds, 3 of the 45, and 122 of the 124. With half of the probability, the 3 have a mean log loss of .672, before
.670, and .934 of the labels of the 124 are correct, before .745, at a log loss of .35 in place of .54; with all of it .21.

Alike in everything are crowds of whom all prefer one class by the same odds and hardly know the items: the mixture costs there
what it gains with a rare class. Of 101 such simulated ones 47 are admitted, at a log loss of .669 with half of the probability,
before .656, and .72 with all of it. Ten others have five workers, 400 items, of which 60% are of the class, and give it to .72
of these and to .55 of the others. With so much of the probability left, share of correct labels and log loss, means:

| probability left | ten crowds of workers who hardly know the items | four with a class of 3%, workers of .70 |
|--:|--:|--:|
| 0 | .644; .646 | .875; .406 |
| .15 | .638; .648 | .920; .358 |
| .25 | .639; .652 | .940; .328 |
| .35 | .635; .659 | .950; .300 |
| .50 | .627; .675 | .959; .260 |

So {independence.ONE_CLASS:g} is left. In single crowds of the first kind labels are from 5 points worse to 3 better, and the log
loss from .04 worse to equal; in those of the second kind labels are 7 points better in the mean. Only known true labels tell both
apart. Nine forms of the condition and seven shares of the probability were measured. These figures are of single runs while the
condition was chosen, and are not repeated by the script.
"""


if __name__ == "__main__":
    main()
