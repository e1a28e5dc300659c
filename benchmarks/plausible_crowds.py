"""Simulated crowds of kinds that occur in practice, and on which the default was not designed: labels, intervals, accusations.

Each kind has a few hundred items. Labels of the default fit are compared with votes and Dawid and Skene's model by EM, without
known true labels and with thirty of them; 89% intervals of the share of a worker's correct annotations with the true share.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from common import arguments, kept_figures, table, write

import crowdppl
from crowdppl import Annotations
from crowdppl.data.copies import copied_answers

Array = npt.NDArray[Any]
Draw = np.random.Generator
SEEDS, KNOWN, LEVEL = 4, 30, 0.89
# Pseudo-votes of every class in the log loss of votes.
SMOOTHED = 0.5


def skills(rng: Draw, workers: int, mean: float = 0.75, sd: float = 0.1) -> Array:
    """Draw accuracies of workers from a beta distribution."""
    size = mean * (1 - mean) / sd**2 - 1
    return rng.beta(mean * size, (1 - mean) * size, workers)


def answers(rng: Draw, truth: Array, accuracy: Array | float, classes: int) -> Array:
    """Draw labels in the shape of ``truth``; an incorrect one is any other class."""
    correct = rng.random(truth.shape) < accuracy
    return np.where(correct, truth, (truth + rng.integers(1, classes, truth.shape)) % classes)


def some(rng: Draw, label: Array, each: int) -> Array:
    """Keep the labels of a few workers, at random, of each item; the others are -1."""
    order = rng.permuted(np.tile(np.arange(label.shape[1]), (len(label), 1)), axis=1)
    return np.where(order < each, label, -1)


def plain(
    rng: Draw, items: int, accuracy: Array, classes: int, each: int = 0, shares: Array | None = None
) -> tuple[Array, Array]:
    """Draw labels ``(items, workers)`` of workers who err independently, and the truth."""
    truth = rng.choice(classes, items, p=shares)
    label = answers(rng, np.tile(truth[:, None], len(accuracy)), accuracy, classes)
    return (some(rng, label, each) if each else label), truth


def prolific(rng: Draw) -> tuple[Array, Array]:
    """Draw a crowd in which one worker gives a quarter of the annotations."""
    label, truth = plain(rng, 600, skills(rng, 30), 3, 3)
    label[:, 0] = np.where(rng.random(600) < 0.9, answers(rng, truth, 0.7, 3), -1)
    return label, truth


def bots(share: float, classes: int) -> Callable[[Draw], tuple[Array, Array]]:
    """Return a simulator of crowds of which a share guess."""

    def draw(rng: Draw) -> tuple[Array, Array]:
        guesses = rng.random(40) < share
        label, truth = plain(rng, 500, skills(rng, 40, 0.8, 0.08), classes)
        return some(rng, np.where(guesses, rng.integers(0, classes, label.shape), label), 5), truth

    return draw


def adversarial(share: float) -> Callable[[Draw], tuple[Array, Array]]:
    """Return a simulator of crowds of which a share are wrong on 85% of the items of two classes."""

    def draw(rng: Draw) -> tuple[Array, Array]:
        wrong = round(share * 20)
        return plain(rng, 500, np.r_[np.full(wrong, 0.15), skills(rng, 20 - wrong, 0.85, 0.05)], 2, 6)

    return draw


def shifted(share: float) -> Callable[[Draw], tuple[Array, Array]]:
    """Return a simulator of crowds of which a share always name the class after the true one."""

    def draw(rng: Draw) -> tuple[Array, Array]:
        label, truth = plain(rng, 500, skills(rng, 20, 0.8, 0.06), 4)
        label[:, : round(share * 20)] = (truth[:, None] + 1) % 4
        return some(rng, label, 6), truth

    return draw


def spread(share: float) -> Callable[[Draw], tuple[Array, Array]]:
    """Return a simulator of crowds of which a share always name any class but the true one."""

    def draw(rng: Draw) -> tuple[Array, Array]:
        bad = round(share * 20)
        return plain(rng, 500, np.r_[np.zeros(bad), skills(rng, 20 - bad, 0.8, 0.06)], 4, 6)

    return draw


def experts(each: int, workers: int) -> Callable[[Draw], tuple[Array, Array]]:
    """Return a simulator of workers who know one of four classes well."""

    def draw(rng: Draw) -> tuple[Array, Array]:
        truth = rng.integers(0, 4, 500)
        accuracy = np.where(truth[:, None] == np.arange(workers) % 4, 0.95, 0.55)
        return some(rng, answers(rng, np.tile(truth[:, None], workers), accuracy, 4), each), truth

    return draw


def ordinal(rng: Draw) -> tuple[Array, Array]:
    """Draw raters of five grades who confuse neighbouring ones."""
    truth = rng.integers(0, 5, 500)
    place = truth[:, None] + rng.normal(0, 0.3, 15) + rng.uniform(0.4, 0.9, 15) * rng.normal(size=(500, 15))
    return some(rng, np.clip(np.rint(place), 0, 4).astype(int), 5), truth


def classes(number: int) -> Callable[[Draw], tuple[Array, Array]]:
    """Return a simulator of many classes, with three labels an item."""
    return lambda rng: plain(rng, 1000, skills(rng, 30, 0.7), number, 3)


def pairs_of_classes(rng: Draw) -> tuple[Array, Array]:
    """Draw thirty classes of unequal frequency that are confused in pairs."""
    frequency = 1 / np.arange(1, 31)
    truth = rng.choice(30, 1000, p=frequency / frequency.sum())[:, None]
    wrong = np.where(rng.random((1000, 30)) < 0.7, truth ^ 1, rng.integers(0, 30, (1000, 30)))
    return some(rng, np.where(rng.random((1000, 30)) < skills(rng, 30), truth, wrong), 3), truth[:, 0]


def merging(main: int, passing: int) -> Callable[[Draw], tuple[Array, Array]]:
    """Return a simulator of workers of whom a third merge thirty classes in pairs, and of some who pass by."""

    def draw(rng: Draw) -> tuple[Array, Array]:
        label, truth = plain(rng, 1000, skills(rng, main + passing, 0.9, 0.03), 30)
        coarse = np.arange(main + passing) % 3 == 0
        label = np.where(coarse, label - label % 2, label)
        label[:, :main] = some(rng, label[:, :main], min(main, 4))
        keep = rng.random((1000, passing)) < 0.003
        label[:, main:] = np.where(keep, label[:, main:], -1)
        return label, truth

    return draw


def alone(rng: Draw) -> tuple[Array, Array]:
    """Draw a crowd in which half of the items have one label."""
    label, truth = plain(rng, 1000, skills(rng, 10, 0.8), 2, 3)
    return np.where((np.arange(1000) < 500)[:, None], some(rng, label.copy(), 1), label), truth


def two_crowds(rng: Draw) -> tuple[Array, Array]:
    """Draw two crowds that share twenty items."""
    label, truth = plain(rng, 600, np.r_[skills(rng, 6, 0.85, 0.05), skills(rng, 6, 0.6, 0.05)], 3)
    label[:290, 6:] = label[310:, :6] = -1
    return label, truth


def improving(rng: Draw) -> tuple[Array, Array]:
    """Draw workers whose accuracy rises from .55 to .95."""
    truth = rng.integers(0, 2, 400)
    accuracy = 0.55 + 0.4 * np.arange(400)[:, None] / 400
    return some(rng, answers(rng, np.tile(truth[:, None], 8), accuracy, 2), 5), truth


def rare(share: float, workers: int, mean: float) -> Callable[[Draw], tuple[Array, Array]]:
    """Return a simulator of a rare class."""
    shares = np.array([1 - share, share])
    return lambda rng: plain(rng, 1000, skills(rng, workers, mean, 0.05), 2, 5, shares)


def copies_and_spammers(rng: Draw) -> tuple[Array, Array]:
    """Draw two workers with a copy each, four others, and two who guess."""
    label, truth = plain(rng, 400, skills(rng, 10, 0.75, 0.06), 3)
    for one in (0, 2):
        label[:, one + 1] = np.where(rng.random(400) < 0.95, label[:, one], label[:, one + 1])
    label[:, 8:] = rng.integers(0, 3, (400, 2))
    return label, truth


def hard_for_most(rng: Draw) -> tuple[Array, Array]:
    """Draw three workers who know three classes, and six who guess on half of the items."""
    truth = rng.integers(0, 3, 400)
    most = np.where(rng.random(400) < 0.5, 1 / 3, 0.9)
    accuracy = np.concatenate([np.full((400, 3), 0.95), np.tile(most[:, None], 6)], 1)
    return answers(rng, np.tile(truth[:, None], 9), accuracy, 3), truth


def shared_bias(classes: int) -> Callable[[Draw], tuple[Array, Array]]:
    """Return a simulator of six workers of whom three give the same label, at random, on a fifth of the items."""

    def draw(rng: Draw) -> tuple[Array, Array]:
        label, truth = plain(rng, 500, np.full(6, 0.85), classes)
        led = (rng.random(500) < 0.25)[:, None] & (rng.random((500, 3)) < 0.9)
        label[:, :3] = np.where(led, rng.integers(0, classes, 500)[:, None], label[:, :3])
        return label, truth

    return draw


def panel(rng: Draw) -> tuple[Array, Array]:
    """Draw five judges who give the same incorrect label on hard items."""
    truth, hard = rng.integers(0, 4, 400), rng.random(400) < 0.3
    label, wrong = answers(rng, np.tile(truth[:, None], 5), 0.92, 4), (truth + rng.integers(1, 4, 400)) % 4
    return np.where(hard[:, None] & (rng.random((400, 5)) < 0.6), wrong[:, None], label), truth


def one_class_only(rng: Draw) -> tuple[Array, Array]:
    """Draw a crowd in which one worker gives the rarer class, whatever the item."""
    label, truth = plain(rng, 500, skills(rng, 8, 0.82, 0.05), 2, 5, np.array([0.7, 0.3]))
    label[:, 0] = np.where(rng.random(500) < 0.9, 1, -1)
    return label, truth


def cannot_tell(rng: Draw) -> tuple[Array, Array]:
    """Draw a crowd that may give a fourth class, which is never true."""
    label, truth = plain(rng, 500, skills(rng, 12, 0.8, 0.06), 3)
    unsure = rng.random((500, 12)) < np.where(rng.random(500) < 0.3, 0.6, 0.1)[:, None]
    return some(rng, np.where(unsure, 3, label), 5), truth


def difficulty(rng: Draw) -> tuple[Array, Array]:
    """Draw items of different difficulty, as in GLAD (Whitehill et al. 2009)."""
    truth = rng.integers(0, 2, 500)
    accuracy = 1 / (1 + np.exp(-rng.normal(1.2, 0.6, 12) * np.exp(rng.normal(size=(500, 1)))))
    return some(rng, answers(rng, np.tile(truth[:, None], 12), accuracy, 2), 5), truth


KINDS: dict[str, Callable[[Draw], tuple[Array, Array]]] = {
    "one worker with most annotations": prolific,
    "5% of 40 workers guess, two classes": bots(0.05, 2),
    "20%, four classes": bots(0.2, 4),
    "60%, four classes": bots(0.6, 4),
    "10% of 20 workers adversarial": adversarial(0.1),
    "40% of 20 workers adversarial": adversarial(0.4),
    "25% always name the next class": shifted(0.25),
    "40% always name the next class": shifted(0.4),
    "55% always name any incorrect class": spread(0.55),
    "experts of one class, eight labels an item": experts(8, 8),
    "experts of one class, five labels an item": experts(5, 25),
    "neighbouring grades confused": ordinal,
    "10 classes, three labels an item": classes(10),
    "30 classes": classes(30),
    "50 classes": classes(50),
    "30 classes, confused in pairs": pairs_of_classes,
    "30 classes, a third of 30 workers merge pairs": merging(30, 0),
    "30 classes, a third of 8 workers merge pairs, 300 pass by": merging(8, 300),
    "half of the items with one label": alone,
    "two crowds with 20 common items": two_crowds,
    "workers who improve": improving,
    "a class of 1%": rare(0.01, 12, 0.85),
    "a class of 5%": rare(0.05, 12, 0.85),
    "a class of 3%, workers of .70": rare(0.03, 5, 0.7),
    "two pairs of copies and two spammers": copies_and_spammers,
    "three who know, six who guess on half of the items": hard_for_most,
    "three of six share a bias, two classes": shared_bias(2),
    "three of six share a bias, three classes": shared_bias(3),
    "five judges wrong on the same items": panel,
    "20 items, 30 workers": lambda rng: plain(rng, 20, skills(rng, 30, 0.65, 0.12), 3),
    "30 items, five workers": lambda rng: plain(rng, 30, np.full(5, 0.8), 2),
    "two labels an item": lambda rng: plain(rng, 1000, skills(rng, 25, 0.75, 0.12), 3, 2),
    "four labels an item, many ties": lambda rng: plain(rng, 500, skills(rng, 8, 0.65), 2, 4),
    "a worker of one class only": one_class_only,
    "cannot tell as a class": cannot_tell,
    "three good among fifteen": lambda rng: plain(rng, 500, np.r_[np.full(3, 0.95), np.full(12, 0.58)], 2),
    "five workers of .60, three classes": lambda rng: plain(rng, 500, np.full(5, 0.6), 3),
    "three workers": lambda rng: plain(rng, 500, np.array([0.9, 0.8, 0.7]), 3),
    "difficulty differs (GLAD)": difficulty,
}


def annotations(label: Array, truth: Array, known: Array) -> Annotations:
    """Return labels ``(items, workers)``, of which -1 is none, with the true labels of the known items."""
    item, worker = np.nonzero(label >= 0)
    sizes = {
        "items": range(len(label)),
        "workers": range(label.shape[1]),
        "labels": range(int(max(label.max(), truth.max())) + 1),
    }
    return Annotations.from_arrays(
        item, worker, label[item, worker], truth={int(i): int(truth[i]) for i in known} or None, **sizes
    )


def scores(probability: Array, truth: Array, which: Array) -> tuple[float, float]:
    """Return accuracy and log loss on some items."""
    p, y = probability[which], truth[which]
    right = np.maximum(p[np.arange(len(y)), y], 1e-6)
    return float((p.argmax(1) == y).mean()), float(-np.log(right).mean())


def measured(draw: Callable[[Draw], tuple[Array, Array]], seed: int) -> dict[str, float]:
    """Draw a crowd, and return the figures of the table."""
    rng = np.random.default_rng(seed)
    label, truth = draw(rng)
    known = rng.choice(len(truth), min(KNOWN, len(truth) // 2), replace=False)
    rest, everything = np.setdiff1d(np.arange(len(truth)), known), np.arange(len(truth))
    data, informed = (annotations(label, truth, some_known) for some_known in (known[:0], known))
    counts = data.votes.numpy()
    top = counts == counts.max(1, keepdims=True)
    posterior = crowdppl.fit(data, seed=0)
    probability, workers = posterior.probability(), posterior.workers(level=LEVEL)
    item, worker, given = posterior.annotation_index()
    share = np.bincount(worker, given == truth[item]) / np.bincount(worker)
    of = workers["worker"].to_numpy(int)
    held = (workers["share_correct_low"] <= share[of] + 1e-9) & (share[of] <= workers["share_correct_high"] + 1e-9)
    out = {"votes": float((top[everything, truth] / top.sum(1)).mean()), "stated": float(probability.max(1).mean())}
    out["votes loss"] = scores((counts + SMOOTHED) / (counts + SMOOTHED).sum(1, keepdims=True), truth, everything)[1]
    out["default"], out["default loss"] = scores(probability, truth, everything)
    ds = crowdppl.fit(data, "dawid-skene", method="em", seed=0).probability()
    out["ds"], out["ds loss"] = scores(ds, truth, everything)
    out["rest"], out["rest loss"] = scores(probability, truth, rest)
    out["informed"], out["informed loss"] = scores(crowdppl.fit(informed, seed=0).probability(), truth, rest)
    out["bias"], out["held"] = float((workers["share_correct"] - share[of]).mean()), float(held.mean())
    return out | {"named": float(len(copied_answers(data)))}


def row(name: str, one: dict[str, float]) -> list[str]:
    """Return a row of the table."""
    behind = one["default"] < max(one["votes"], one["ds"]) - 0.01
    return [
        name,
        f"**{one['default']:.3f}**" if behind else f"{one['default']:.3f}",
        *(f"{one[key]:.3f}" for key in ("votes", "ds", "stated")),
        " / ".join(f"{one[key]:.3f}" for key in ("default loss", "votes loss", "ds loss")),
        f"{one['bias']:+.3f} ({one['held']:.0%})",
        f"{one['rest']:.3f}; {one['rest loss']:.3f}",
        f"{one['informed']:.3f}; {one['informed loss']:.3f}",
        f"{one['named']:.2g}",
    ]


def main() -> None:
    """Measure, and write the page."""
    options = arguments(__doc__, tuple(KINDS))
    torch.set_num_threads(1)
    seeds = 1 if options.quick else SEEDS
    figures = kept_figures("plausible-crowds", options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in options.only or KINDS:
            draw = KINDS[name]
            runs = [measured(draw, seed) for seed in range(seeds)]
            figures[name] = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            print(" | ".join(row(name, figures[name])), flush=True)
    header = (
        "crowd",
        "default",
        "votes",
        "Dawid–Skene",
        "stated",
        "log loss: default / votes / Dawid–Skene",
        "share correct: bias (held)",
        "the rest, without known labels",
        f"with {KNOWN}",
        "groups named",
    )
    mean = {key: float(np.mean([one[key] for one in figures.values()])) for key in next(iter(figures.values()))}
    rows = [*(row(*pair) for pair in figures.items()), row("mean", mean)]
    body = BODY.format(seeds=seeds, known=KNOWN, kinds=len(KINDS), table=table(header, rows))
    write("plausible-crowds", "Plausible crowds", body, figures, options, "plausible_crowds")


BODY = """{kinds} kinds of simulated crowds that occur in practice, means over {seeds} crowds of each. Shares of correct labels of
the default, of votes, and of Dawid and Skene's model by EM with its default prior; in bold where the default is more than one
point below the better of the two. *Stated* is the mean probability of the default's labels. Votes have half a pseudo-vote for
each class in the log loss. The bias is that of the share of a worker's annotations that are correct, *held* how often 89%
intervals contain the true share. {known} random items, at most half of all, then have known true labels: accuracy and log loss
on the others without these labels, and with them. *Groups named* are groups of workers who are said to give the same answers,
for each crowd; crowds with two pairs of copies have two.

{table}

Workers err independently in most of these kinds, which is rare in public crowds ([the default model](default-model.md)): the
default allows for shared errors, and understates how sure it may be. `independent=True` is right for such crowds, and far too
sure of others.

Some limits are known. *Copies beside spammers* count as several workers, since everybody else hardly agrees: workers who know
better than those who guess on half of the items look the same, also once those who agree with nobody are left out, and to count
them once costs a fifth of the labels. *A rare class and weak workers* look like a crowd of whom most guess: where Dawid and
Skene's model finds nearly one class, only how differently workers give it tells both apart ([textbook
crowds](textbook-crowds.md)). *Three of six who share a bias* agree with each other more than the others do, and are taken for
the better ones; what tells them from workers who know better stands below. *Five weak workers* say too little of each other for
a model to give better labels than votes: over fifteen crowds one point fewer are correct, at a log loss of .59 in place of .68.
*Workers who always name
the next class* agree with each other more than the others do; of the two solutions, the default takes the one by which fewer
annotations are by workers who are correct less often than by chance. Dawid and Skene's model does not choose, and at 45% ends
at the other. It takes the other only where the errors of these workers lie mostly on one class for each true class: *workers who
always name any incorrect class* may be most of a crowd with four classes, not with three. Where half of the adversarial workers
name the next class and they are 60% of all, hardly any label is correct.

**A shared bias, or knowledge.** Five crowds of each kind. A model of Dawid and Skene's in which a share of the items leads three
known workers to a common label has .941 correct labels with two classes, .964 with three. With the other three workers in their
place it has .849 and .831. The log-likelihoods of the two readings differ by .6 in the mean with two classes: the labels do not
tell which three are led. With three classes they differ by 24, since errors of one's own are spread over two classes. Among
workers whom nothing leads, the same is seen of those who know what the others guess. Copies are named from two fifths of equal
labels beyond accuracy on ([copies](copies.md)). With a tenth in place of two fifths, and without those of whose labels the others
surely call all by one, the three workers are named in all of these crowds. In the public sets of people somebody is then named in
`ducks` alone: six who know the answer, and who count in full since the others agree too little.
Share of correct labels and log loss, means over five crowds, where all count and where one of each
group that is named counts for each item, under the conditions under which one of copies does:

| crowd | somebody is named | all count | one counts |
|---|--:|--:|--:|
| three of six share a bias, two classes | 1.0 | .843; .410 | .900; .296 |
| three of six share a bias, three classes | 1.0 | .866; .380 | .883; .337 |
| three who know, six who guess 30% of the items, two classes | .4 | .994; .188 | .967; .249 |
| the same, three classes | .6 | .943; .249 | .877; .392 |
| three who know, six of .4 on 30% of the items, four classes | 1.0 | .998; .118 | .938; .309 |
| two who know, six who guess 20% of the items, three classes | .6 | .980; .181 | .932; .258 |
| three whom nothing misleads, five misled on 20% of the items, two classes | .8 | .975; .289 | .885; .353 |
| the same, three classes | .8 | .968; .186 | .896; .306 |
| the same, six misled on 30% | 1.0 | .963; .236 | .802; .445 |
| two whom nothing misleads, eight misled on 20%, two classes | .2 | .844; .381 | .846; .376 |

So the limit stays at two fifths. One of a tenth gains up to six points where workers share a bias and costs up to sixteen where
some know better; of language models as judges it costs three points on `judges-framing` and gains .3 on `judges-triviaqa-v1`,
at a higher log loss on both. Known true labels tell a bias from knowledge. These figures are of single runs, and are not repeated
by the script.
"""


if __name__ == "__main__":
    main()
