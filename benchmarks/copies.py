"""Workers who give the same answers: how often copies and honest workers are named, and who is named in public crowds.

Also how many labels are correct where a fit counts one of the copies for each item, and where it counts all of them.

Simulated crowds: honest workers know the answer with probability .7 and guess otherwise; one worker knows it with probability
.55, and the copies give its answer with probability 1 or .85, and one of their own otherwise.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import arguments, kept_figures, table, write

from crowdppl import Annotations, CrowdpplError, Posterior, fit
from crowdppl.data import datasets
from crowdppl.data.copies import copied_answers

CROWDS = ((7, 2), (7, 3), (7, 4), (15, 3), (30, 4))
PARTS = ("simulated", "by items", "beside", "honest", "public", "labels", "public labels")
# Workers and copies beside workers who agree nearly as often as copies do, and the classes: their shares.
BESIDE = ((8, 2), (8, 3), (12, 3), (7, 3), (7, 4))
SHARES = {"ten, one of 50%": (0.5, 0.2, *[0.0375] * 8), "two": (0.5, 0.5)}
# Numbers of items for the power where 85% of the answers are copied.
ITEMS = (75, 100, 150, 200, 300, 400)


def crowd(seed: int, items: int, classes: int, workers: int, copies: int, share: float) -> Annotations:
    """Draw a crowd whose last workers are one source and its copies."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=items)

    def person(knows: float) -> np.ndarray:
        return np.where(rng.random(items) < knows, truth, rng.integers(classes, size=items))

    said = [person(0.7) for _ in range(workers - copies)]
    source = person(0.55)
    said += [np.where(rng.random(items) < (share if n else 1.0), source, person(0.55)) for n in range(copies)]
    item, worker = np.tile(np.arange(items), workers), np.repeat(np.arange(workers), items)
    return Annotations.from_arrays(item, worker, np.concatenate(said), labels=range(classes))


def beside_accurate(
    seed: int, shares: tuple[float, ...], workers: int, copies: int, *, accuracy: float, knows: float, share: float
) -> Annotations:
    """Draw a crowd of 120 items whose last workers are copies of one who else gives classes by their shares."""
    rng = np.random.default_rng(seed)
    K, items = len(shares), 120
    truth = rng.choice(K, items, p=shares)
    said = [np.where(rng.random(items) < accuracy, truth, rng.integers(K, size=items)) for _ in range(workers - copies)]
    source, *others = (
        np.where(rng.random(items) < knows, truth, rng.choice(K, items, p=shares)) for _ in range(copies)
    )
    said += [source, *(np.where(rng.random(items) < share, source, own) for own in others)]
    worker, item = np.divmod(np.arange(workers * items), items)
    return Annotations.from_arrays(item, worker, np.concatenate(said), labels=range(K))


def beside(repeats: int) -> list[dict[str, object]]:
    """Count the crowds whose copies are named and nobody else, or somebody else, beside workers who agree with each other."""
    rows: list[dict[str, object]] = []
    for classes, shares in SHARES.items():
        for workers, copies in BESIDE:
            for accuracy in (0.85, 0.95):
                for knows in (0.0, 0.55):
                    row: dict[str, object] = {"classes": classes, "workers": workers, "copies": copies}
                    row |= {"accuracy": accuracy, "knows": knows}
                    for share in (1.0, 0.85):
                        kind = {"accuracy": accuracy, "knows": knows, "share": share}
                        each = [
                            [one.workers for one in copied_answers(beside_accurate(n, shares, workers, copies, **kind))]
                            for n in range(repeats)
                        ]
                        group = [tuple(range(workers - copies, workers))]
                        row[f"named {share:g}"] = sum(groups == group for groups in each) / repeats
                        accused = [any(min(one) < workers - copies for one in groups) for groups in each]
                        row[f"accused {share:g}"] = sum(accused) / repeats
                    rows.append(row)
    return rows


def honest_kinds() -> dict[str, Callable[[np.random.Generator], np.ndarray]]:
    """Return simulators of honest crowds whose errors are not independent: labels ``(J, N)``, -1 where there is none."""

    def draw(rng: np.random.Generator, truth: np.ndarray, knows: np.ndarray | float, classes: int) -> np.ndarray:
        return np.where(rng.random(len(truth)) < knows, truth, rng.integers(classes, size=len(truth)))

    def trap(rng: np.random.Generator) -> np.ndarray:
        truth, hard = rng.integers(3, size=300), rng.random(300) < 0.3
        wrong = (truth + 1) % 3
        return np.stack([np.where(hard & (rng.random(300) < 0.8), wrong, draw(rng, truth, 0.85, 3)) for _ in range(12)])

    def batches(rng: np.random.Generator) -> np.ndarray:
        truth, easy = rng.integers(3, size=1_000), rng.random(20) < 0.5
        out = np.full((40, 1_000), -1)
        for n in range(20):
            part = slice(50 * n, 50 * n + 50)
            for j in rng.choice(40, 5, replace=False):
                out[j, part] = draw(rng, truth[part], 0.98 if easy[n] else 0.5, 3)
        return out

    def rare(rng: np.random.Generator) -> np.ndarray:
        truth = rng.random(400) < 0.05
        return np.stack([(rng.random(400) < np.where(truth, 0.7, 0.02)).astype(int) for _ in range(12)])

    def experts(rng: np.random.Generator) -> np.ndarray:
        truth = rng.integers(2, size=300)
        return np.stack([draw(rng, truth, 0.97 if j < 2 else 0.05, 2) for j in range(12)])

    def fine(rng: np.random.Generator) -> np.ndarray:
        truth = rng.integers(8, size=600)
        label = np.stack([draw(rng, truth, 0.9, 8) for _ in range(8)])
        label[5:] -= label[5:] % 2
        return label

    def strict(noise: float, camp: int = 2) -> Callable[[np.random.Generator], np.ndarray]:
        def crowd_of_two_camps(rng: np.random.Generator) -> np.ndarray:
            place = rng.normal(size=300)
            return np.stack(
                [(place + noise * rng.normal(size=300) > (1.0 if j < camp else -0.5)).astype(int) for j in range(8)]
            )

        return crowd_of_two_camps

    def misled(rng: np.random.Generator) -> np.ndarray:
        truth, hard = rng.integers(3, size=120), rng.random(120) < 0.5
        label = np.stack([draw(rng, truth, 0.95, 3) for _ in range(8)])
        label[:2] = np.where(hard & (rng.random((2, 120)) < 0.8), (truth + 1) % 3, label[:2])
        return label

    return {
        "a wrong answer that is popular on 30% of the items": trap,
        "batches of 50 items, half of them easy, five workers each": batches,
        "a class of 5%": rare,
        "two experts among ten who guess": experts,
        "five who know eight classes, three who merge them in pairs": fine,
        "two strict of eight raters, noise .8 of the spread of items": strict(0.8),
        "the same, noise .5": strict(0.5),
        "the same, noise .3": strict(0.3),
        "three strict of eight raters, noise .8": strict(0.8, 3),
        "three strict of eight raters, noise .5": strict(0.5, 3),
        "six of .95, two who give the same wrong answer on 40% of the items": misled,
    }


def honest(repeats: int) -> list[dict[str, object]]:
    """Count the crowds of each honest kind in which somebody is named."""
    rows: list[dict[str, object]] = []
    for name, simulate in honest_kinds().items():
        named = more = 0
        for seed in range(repeats):
            label = simulate(np.random.default_rng(seed))
            worker, item = np.nonzero(label >= 0)
            data = Annotations.from_arrays(item, worker, label[worker, item], labels=range(label.max() + 1))
            groups = copied_answers(data)
            named += bool(groups)
            more += any(len(group.workers) > 3 for group in groups)
        rows.append({"crowd": name, "named": named / repeats, "more than three": more / repeats})
    return rows


def simulated(repeats: int) -> list[dict[str, float]]:
    """Count the crowds whose group is named, as a whole and alone, and those in which an honest worker is."""
    rows = []
    for items in (150, 300):
        for classes in (2, 3):
            for workers, copies in CROWDS:
                row: dict[str, float] = {"items": items, "classes": classes, "workers": workers, "copies": copies}
                accused = 0
                for share in (1.0, 0.85):
                    named = 0
                    for seed in range(repeats):
                        data = crowd(seed, items, classes, workers, copies, share)
                        groups = [group.workers for group in copied_answers(data)]
                        named += groups == [tuple(range(workers - copies, workers))]
                        accused += any(j < workers - copies for group in groups for j in group)
                    row[f"named {share:g}"] = named / repeats
                honest = [copied_answers(crowd(seed, items, classes, workers, 0, 1.0)) for seed in range(repeats)]
                row |= {"accused": accused / (2 * repeats), "accused without copies": sum(map(bool, honest)) / repeats}
                rows.append(row)
    return rows


def by_items(repeats: int) -> list[dict[str, float]]:
    """Return, by number of items, the shares of crowds whose group of 85% copies is named, whole and alone, or in part."""
    rows = []
    for classes in (2, 3):
        for workers, copies in CROWDS:
            row: dict[str, float] = {"classes": classes, "workers": workers, "copies": copies}
            group = tuple(range(workers - copies, workers))
            for items in ITEMS:
                named = [
                    [one.workers for one in copied_answers(crowd(1_000 + seed, items, classes, workers, copies, 0.85))]
                    for seed in range(repeats)
                ]
                row[f"{items} items"] = sum(one == [group] for one in named) / repeats
                row[f"{items} items, part"] = sum(bool(one) for one in named) / repeats
            rows.append(row)
    return rows


def labels(repeats: int) -> list[dict[str, float]]:
    """Return the mean shares of correct labels of the default fit that counts all copies, one of them, or none."""
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for items in (150, 300):
            for classes in (2, 3):
                for workers, copies in CROWDS:
                    for share in (1.0, 0.85):
                        each = [_correct(seed, items, classes, workers, copies, share) for seed in range(repeats)]
                        row = {"items": items, "classes": classes, "workers": workers, "copies": copies, "share": share}
                        rows.append(row | {name: float(np.mean([one[name] for one in each])) for name in each[0]})
    return rows


def _correct(seed: int, items: int, classes: int, workers: int, copies: int, share: float) -> dict[str, float]:
    data = crowd(seed, items, classes, workers, copies, share)
    truth = np.random.default_rng(seed).integers(classes, size=items)  # the first numbers that `crowd` draws
    without = data.keep(data.worker < workers - copies)
    probabilities = {
        "votes": data.votes.numpy(),
        "all": fit(data, copies="all").probability(),
        "one": fit(data).probability(),
        "none": fit(without).probability(),
    }
    return {name: float((value.argmax(1) == truth).mean()) for name, value in probabilities.items()}


def public_labels() -> list[dict[str, object]]:
    """Return accuracy and log loss on the public crowds with named workers, by what the default fit counts."""
    rows: list[dict[str, object]] = []
    for name in ("imagenet-real", "judges-llmbar"):
        data, truth = datasets.public(name)
        for copies in ("all", "one", None):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                posterior = fit(data, copies=copies)
            accuracy, loss = _scores(posterior, truth)
            aside = posterior.info["counts"].get("set_aside", 0)
            rows.append(
                {"set": name, "copies": copies or "not given", "aside": aside, "accuracy": accuracy, "log loss": loss}
            )
    return rows


def _scores(posterior: Posterior, truth: pd.Series) -> tuple[float, float]:
    table = posterior.truth().set_index(posterior.item_column)
    known = truth.index.intersection(table.index)
    places = [posterior.labels.tolist().index(label) for label in truth[known]]
    rows = posterior.probability()[table.index.get_indexer(known), places]
    correct = table["label"][known].to_numpy() == truth[known].to_numpy()
    return float(correct.mean()), float(-np.log(np.maximum(rows, 1e-12)).mean())


def public() -> dict[str, Any]:
    """Return the groups of public crowds, and the number of crowds that were looked at."""
    rows: list[dict[str, object]] = []
    count = 0
    for path in sorted(Path(os.environ["CROWDPPL_DATA"]).iterdir()):
        if not (path / "annotations.csv.gz").is_file():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                data, _ = datasets.public(path.name)
            except CrowdpplError:  # other kinds of files
                continue
        if not isinstance(data, Annotations):  # numbers
            continue
        count += 1
        for group in copied_answers(data):
            names = ", ".join(map(str, data.workers[list(group.workers)].tolist()))
            rows.append({"set": path.name, "workers": names, "equal": group.equal, "common": group.common})
    return {"groups": rows, "sets": count}


def main() -> None:
    """Measure, and write the page."""
    options = arguments(__doc__, PARTS)
    repeats, crowds = (5, 2) if options.quick else (100, 4)
    parts: dict[str, Callable[[], Any]] = {
        "simulated": lambda: simulated(repeats),
        "by items": lambda: by_items(repeats // 2),
        "beside": lambda: beside(repeats),
        "honest": lambda: honest(repeats),
        "public": public,
        "labels": lambda: labels(crowds),
        "public labels": public_labels,
    }
    figures = kept_figures("copies", options)
    figures |= {name: parts[name]() for name in options.only or PARTS}
    write("copies", "Workers who give the same answers", page(figures, repeats, crowds), figures, options)


def page(figures: dict[str, Any], repeats: int, crowds: int) -> str:
    """Return the page.

    Args:
        figures: by part.
        repeats: crowds in which copies are looked for.
        crowds: those that are fitted.
    """
    rows, sizes, near, kinds, groups, answers, both = (figures[name] for name in PARTS)
    groups, count = groups["groups"], groups["sets"]
    power = table(
        (
            "items",
            "classes",
            "workers",
            "copies",
            "named, all copied",
            "named, 85%",
            "honest named",
            "named without copies",
        ),
        [list(row.values()) for row in rows],
    )
    by_number = table(
        ("classes", "workers", "copies", *(f"{items} items" for items in ITEMS)),
        [
            [
                *(row[name] for name in ("classes", "workers", "copies")),
                *(f"{row[f'{items} items']:.2f} ({row[f'{items} items, part']:.2f})" for items in ITEMS),
            ]
            for row in sizes
        ],
    )
    columns = ("classes", "workers", "copies", "accuracy of the others", "source knows")
    columns += ("named, all copied", "others named", "named, 85%", "others named")
    accurate = table(columns, [list(row.values()) for row in near])
    others = table(("crowd", "somebody is named", "a group of more than three"), [list(row.values()) for row in kinds])
    sets = table(
        ("set", "workers", "equal labels", "common items, pair by pair"), [list(row.values()) for row in groups]
    )
    correct = table(
        ("items", "classes", "workers", "copies", "copied", "votes", "all count", "one counts", "left out"),
        [list(row.values()) for row in answers],
    )
    scores = table(
        ("set", "`copies=`", "annotations set aside", "accuracy", "log loss"), [list(row.values()) for row in both]
    )
    return f"""A pair of workers is named where its equal labels cannot be explained even if two in five of them were copied,
given how often both agree with the other annotations of the same items, and how often they agree on two different items of
which everybody else said the same (`crowdppl.data.copies`). Labels that everybody else calls by another one, and that surely
mean it (the other one is most of what is said of these items, and more than of further ones), are then replaced by it, and the
same must hold: workers who tell apart what the others merge are no copies. Copies of a worker who guesses, beside six of .85,
give such labels where a class is frequent, but these mean nothing: without the second condition 11 of 20 such pairs are named
(ten classes, one of 50% of the items, 60 items), with it all of them. Then other workers are compared with the answers on which
its group agrees. The level is .005 over all pairs, and .005 over all workers who are compared with a group.
Every fit of up to two million annotations looks for such pairs, and warns. It counts one worker of a group for each item, taken
at random, where everybody else agrees well enough: the chance-corrected agreement of the workers who are in no group is at most
one standard error below .4, which Landis and Koch (1977) call moderate. `copies="one"` and `copies="all"` ask for either.

## Copies

Honest workers know the answer with probability .7 and guess otherwise; the source of the copies with .55. Shares of {repeats}
crowds in which the group, and nobody else, is named, where all answers or 85% are copied; in which an honest worker is named
beside copies; and in which somebody is named in a crowd of as many honest workers without copies.

{power}

### How many items

Shares of {repeats // 2} other crowds in which the group of copies of 85% is named, whole and alone; in brackets, in which
somebody is.

{by_number}

With 85% of the answers copied, 100 items do not suffice, and 150 items of two classes not always; a group may be named in part.

### Beside workers who agree nearly as often

Shares of {repeats} crowds of 120 items. The other workers know the answer with the stated probability and guess otherwise, so
that they agree with each other about as often as copies do; the source knows it, or gives classes as often as they are. The
copies are named, and nobody else; or others are.

{accurate}

Workers who agree with either of a pair as often as copies would are not counted among everybody else, unless most of the crowd
would then be of one group. Two groups that are each named only as long as all workers of the other one count may be the two
readings of one crowd, whose likelihood is the same: then that of fewer workers by two has copied, or the smaller one if its
labels are equal throughout, else neither is named. Nor is about half of a crowd where workers of the other half agree as often.
Without these rules all workers of .95 are named in nearly each of these crowds, and those of .85 in up to three of four; also
without copies, where two others share errors (below), and in 17 of 20 crowds of thirty classes that three of eight workers merge
in pairs ([plausible crowds](plausible-crowds.md)), where one of 20 is left. The rules cost the copies of four of seven accounts
beside three who agree as often, and those of three of seven that copy 85% of the answers: the labels do not tell which group has
copied. Other crowds lose power, too: of 15 each, three of seven copies beside four of .95 are named in .47 (before .93), two
pairs of accuracy .4 among eight in .07, and two pairs among twelve with five labels of an item in .33.

## Labels

Shares of correct labels, means over {crowds} of these crowds: votes, and the default fit where all copies count, one of
them (the default), and where the whole group is left out.

{correct}

## Honest crowds whose errors are not independent

Shares of {repeats} crowds in which somebody is named.

{others}

Raters who apply a criterion of their own, other than everybody else's, in nearly the same way may be named: labels alone do not
tell them from copies. With two classes, the others call both labels of strict raters by one, as they do those of copies that
guess where one class is rare: to name neither would leave out these copies.

## Public crowds

Of {count} public sets these have workers who are named. The groups of `judges-llmbar` are prompts of one language model that
differ in a few words. In `judges-triviaqa-v1` two rules that compare an answer with the same list of strings have 2,979 of 3,595
labels in common; compared with all judges, and not with the three alone who agree less often with one of them, accuracy explains
that.

{sets}

Accuracy and log loss by what the fit counts. In `judges-llmbar`, whose items were made to mislead language models, the group
of GPT-4 knows better than the others, who agree with each other by .36 only, where the others of the simulated crowds above
agree by .38 to .51. Labels alone do not tell who is right. Without the limit, the default would follow the others.

{scores}
"""


if __name__ == "__main__":
    main()
