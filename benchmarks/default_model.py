"""Candidates for the default model on all public sets of known truth: accuracy, log loss, calibration, coverage, time.

Completed fits are kept in the file ``--results``, so that an interrupted run continues from there; ``--largest 0`` writes the
page from these alone.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import fit, table, write
from scipy.stats import spearmanr

from crowdppl import Annotations, CrowdpplWarning, criticism
from crowdppl.criticism.calibration import FLOOR
from crowdppl.data import datasets
from crowdppl.models import CATALOGUE, ItemSubtypes

GROUPS = {
    "public": [
        "adult-content",
        "bluebirds",
        "cifar10s",
        "dog",
        "ducks",
        "face",
        "fact-eval",
        "fej2013",
        "hitspam-crowdflower",
        "imagenet-sub",
        "labelme",
        "leaves",
        "medical-causes",
        "medical-treats",
        "music-genre",
        "pos-sentiment",
        "product",
        "reuters",
        "rte",
        "sentiment-polarity",
        "sentiment-polarity-amt",
        "weather-sentiment-amt",
        "weather-sentiment-cf",
        "wsd",
        "zencrowd-in",
        "zencrowd-us",
    ],
    "spammers": [
        "mace-example",
    ],
    "ordered": [
        "valence5",
        "valence7",
    ],
    "judges": [
        "judges-10k-prompts",
        "judges-cebab-aspects",
        "judges-civilcomments",
        "judges-framing",
        "judges-lesion",
        "judges-lgbteen",
        "judges-llmbar",
        "judges-mtbench-alttest",
        "judges-summeval",
        "judges-triviaqa-v1",
        "judges-wax",
    ],
}
BASELINES = ("majority", "crowd-kit DS")
MODELS = ("dawid-skene", "one-coin", "class-conditional", "item-subtypes", "item-effects")
OPTIONS: dict[str, dict[str, Any]] = {
    "em": {"num_samples": 300},
    "gibbs": {"chains": 2, "warmup": 300, "num_samples": 200},
}
MINIMUM = 20  # annotations of items of known truth that a worker must have
SCORED = 1000  # items; the predictive score of larger sets takes longer than their fit
TIE = 1e-9
LOSS = 0.02  # of accuracy against the majority, for which the page gives reasons
CHOICES = (30, 100)  # known true labels from which a model is chosen
REPETITIONS = 200


# ---------------------------------------------------------------------- data


@functools.cache
def load(name: str) -> tuple[Annotations, pd.Series[Any]]:
    """Return annotations and known truths by item, as text; the classes are those of both.

    ``imagenet-sub`` is the part of ``imagenet-real`` with a truth; ``medical-causes`` and ``medical-treats`` ask whether a
    relation is among those chosen. Of the judges' sets only programs are annotators: the truth of some is the majority of the
    people.
    """
    relation = name.removeprefix("medical-").upper() if name.startswith("medical-") else None
    place = {"imagenet-sub": "imagenet-real"}.get(name, name) if relation is None else "medical-relations"
    parent = datasets.folder()
    if parent is None:
        raise SystemExit("the environment variable CROWDPPL_DATA must name the folder of public sets")
    frame, truth = (read(parent / place / file) for file in ("annotations.csv.gz", "truth.csv"))
    if relation is not None:
        chosen = frame["label"].str.split(";").map(lambda labels: relation in labels)
        frame, truth = frame.assign(label=chosen.astype(int).astype(str)), truth[truth["relation"] == relation]
    if name == "imagenet-sub":
        frame = frame[frame["item"].isin(set(truth["item"]))]
    if name.startswith("judges-"):
        workers = read(parent / place / "workers.csv")
        if "kind" in workers:
            people = set(workers.loc[workers["kind"] == "human", "worker"])
            frame = frame[~frame["worker"].isin(people)]
    truth = truth[truth["item"].isin(set(frame["item"]))].drop_duplicates("item").set_index("item")["label"]
    labels = sorted({*frame["label"], *truth})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        return Annotations.from_frame(frame[["item", "worker", "label"]], labels=labels), truth


def known_classes(data: Annotations, truth: pd.Series[Any]) -> np.ndarray:
    """Return the known true classes of the items, ``(N,)``; -1 where unknown."""
    codes = {str(label): k for k, label in enumerate(data.labels.tolist())}
    return np.array([codes.get(truth.get(str(item), ""), -1) for item in data.items.tolist()])


def read(path: Path) -> pd.DataFrame:
    """Read a table as text."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


# ---------------------------------------------------------------------- one set, one candidate


def top(probability: np.ndarray) -> np.ndarray:
    """Return which classes are the most probable of each item, ``(N, K)``."""
    return probability >= probability.max(1, keepdims=True) - TIE


def scores(probability: np.ndarray, data: Annotations, truth: pd.Series[Any]) -> dict[str, Any]:
    """Return accuracy with ties split evenly, log loss, calibration error, and items whose label differs from all majorities.

    ``hits`` and ``chosen`` have a character per item of known truth: 0 if incorrect, else the number of classes that tie, the
    true one included; and the label, the first of ties, as a digit in base 36.
    """
    row, column = pd.Index(data.items).get_indexer(truth.index), pd.Index(data.labels).get_indexer(truth)
    p = probability[row]
    best = top(p)
    ties, correct = best.sum(1), best[np.arange(len(p)), column]
    hit, confidence = correct / ties, p.max(1)
    place = np.minimum((confidence * 10).astype(int), 9)
    gaps = [abs((confidence - hit)[place == b].sum()) for b in range(10)]
    changed = ~(top(probability) & top(data.votes.numpy())).any(1)
    return {
        "accuracy": float(hit.mean()),
        "log_loss": float(-np.log(np.maximum(p[np.arange(len(p)), column], FLOOR)).mean()),
        "ece": float(sum(gaps) / len(p)),
        "changed": int(changed.sum()),
        "hits": "".join(str(min(9, n)) for n in np.where(correct, ties, 0)),
        "chosen": "".join(np.base_repr(k, 36) for k in p.argmax(1)),
    }


def majority(data: Annotations) -> np.ndarray:
    """Return shares of votes, ``(N, K)``."""
    votes = data.votes.numpy()
    return votes / votes.sum(1, keepdims=True)


def crowd_kit(data: Annotations) -> np.ndarray:
    """Return the probabilities of crowd-kit's Dawid-Skene with its defaults, ``(N, K)``."""
    from crowdkit.aggregation import DawidSkene

    frame = pd.DataFrame(
        {"task": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    )
    probability = DawidSkene().fit_predict_proba(frame)
    return probability.reindex(index=data.items, columns=data.labels).fillna(0.0).to_numpy()


def measure(name: str, candidate: str, method: str) -> dict[str, Any]:
    """Fit one set by one candidate."""
    data, truth = load(name)
    out: dict[str, Any] = {"items": data.N, "workers": data.J, "annotations": data.A, "K": data.K, "known": len(truth)}
    if candidate in BASELINES:
        estimate: Callable[[Annotations], np.ndarray] = {"majority": majority, "crowd-kit DS": crowd_kit}[candidate]
        began = time.perf_counter()
        probability = estimate(data)
        return out | {"seconds": time.perf_counter() - began} | scores(probability, data, truth)
    # Its default prior has no mode.
    model = ItemSubtypes(subtype_concentration=1.0) if (candidate, method) == ("item-subtypes", "em") else candidate
    posterior, seconds = fit(data, model, method=method, seed=1, independent=False, **OPTIONS[method])
    out |= {"seconds": seconds} | scores(posterior.probability(), data, truth)
    out["converged"] = bool(posterior.info["facts"]["converged"])
    covered = criticism.coverage(posterior, truth, minimum=MINIMUM).workers
    out["covered"] = [len(covered), *(int(covered[f"{what}_covers"].sum()) for what in ("share_correct", "accuracy"))]
    if data.N <= SCORED:
        out["elpd"] = criticism.loo(posterior).elpd
    return out


# ---------------------------------------------------------------------- tables

Runs = dict[str, dict[str, dict[str, Any]]]


def mean(values: Iterable[float]) -> str:
    """Write a mean."""
    values = list(values)
    return f"{np.mean(values):.4f}" if values else "–"


def accuracies(runs: Runs, names: list[str], candidates: list[str]) -> str:
    """Return the table of accuracy by set, with the better baseline, and the difference of the last candidate to it."""
    rows = []
    for name in names:
        own = runs[name]
        known = next(iter(own.values()))
        cells = [f"{own[c]['accuracy']:.4f}" if c in own else "–" for c in candidates]
        base = max((own[c]["accuracy"] for c in BASELINES if c in own), default=np.nan)
        last = own.get(candidates[-1], {}).get("accuracy", np.nan)
        gap = "–" if np.isnan(base - last) else f"{last - base:+.4f}"
        rows.append([name, known["annotations"], known["known"], *cells, f"{base:.4f}", gap])
    return table(["set", "annotations", "known", *candidates, "better baseline", f"{candidates[-1]} − baseline"], rows)


def summaries(runs: Runs, candidates: list[str]) -> str:
    """Return means of each group of sets by candidate, over the sets that all candidates were run on."""
    rows = []
    for group, members in GROUPS.items():
        names = complete(runs, members, candidates)
        for candidate in candidates if names else []:
            own = [runs[name][candidate] for name in names]
            workers = np.array([run["covered"] for run in own if run.get("covered", [0])[0]])
            covered = ["–"] * 4
            if len(workers):
                pooled, by_set = workers.sum(0), workers / workers[:, :1]
                shares = [pooled[1] / pooled[0], by_set[:, 1].mean(), pooled[2] / pooled[0], by_set[:, 2].mean()]
                covered = [f"{share:.0%}" for share in shares]
            changed = sum(run["changed"] for run in own) / sum(run["items"] for run in own)
            recorded = [run["converged"] for run in own if "converged" in run]
            figures = [mean(run[what] for run in own) for what in ("accuracy", "log_loss", "ece")]
            rows.append(
                [
                    group,
                    f"{len(names)}",
                    candidate,
                    *figures,
                    *covered,
                    f"{changed:.1%}",
                    f"{sum(recorded)} of {len(recorded)}" if recorded else "–",
                    sum(run["seconds"] for run in own),
                ]
            )
    head = ["group", "sets", "model", "accuracy", "log loss", "calibration error"]
    head += ["share correct: workers covered", "mean of sets", "accuracy: workers covered", "mean of sets"]
    return table([*head, "labels that differ from votes", "converged", "seconds, all sets"], rows)


def complete(runs: Runs, names: Iterable[str], candidates: Iterable[str]) -> list[str]:
    """Return the sets that all candidates were run on."""
    return [name for name in names if name in runs and set(candidates) <= set(runs[name])]


def left_out(runs: Runs, names: list[str], candidates: list[str]) -> tuple[float, Counter[str]]:
    """Choose the best candidate on all other sets by mean accuracy; return the mean on the sets left out, and the choices."""
    values = np.array([[runs[name][c]["accuracy"] for c in candidates] for name in names])
    chosen = [int(np.delete(values, n, axis=0).mean(0).argmax()) for n in range(len(names))]
    return float(values[np.arange(len(names)), chosen].mean()), Counter(candidates[c] for c in chosen)


def by_predictive_score(runs: Runs, names: list[str]) -> pd.DataFrame:
    """Compare predictive score and accuracy over the models that have both, a row for each set.

    Columns: ``correlation`` of the ranks; ``accuracy`` of the model with the highest score; and its name, ``chosen``.
    """
    rows = []
    for name in names:
        own = {c: run for c, run in runs[name].items() if not np.isnan(run.get("elpd", np.nan))}
        pairs = [(run["elpd"], run["accuracy"]) for run in own.values()]
        if len(pairs) >= 4 and len({accuracy for _, accuracy in pairs}) > 1:
            chosen = max(own, key=lambda c: own[c]["elpd"])
            rank = float(spearmanr(*zip(*pairs, strict=True)).statistic)
            rows.append({"set": name, "correlation": rank, "accuracy": own[chosen]["accuracy"], "chosen": chosen})
    return pd.DataFrame(rows)


def by_known_labels(runs: Runs, names: list[str], candidates: list[str]) -> dict[str, float]:
    """Choose a candidate on known true labels of one half of the items, measure it on the other half; means over sets.

    Labels are of random items, or of random ones among those on which two candidates differ.
    """
    rng = np.random.default_rng(0)
    out: dict[str, list[float]] = {}
    for name in names:
        counts = np.array([[int(c) for c in runs[name][candidate]["hits"]] for candidate in candidates])  # (M, known)
        hits = np.divide(1.0, counts, out=np.zeros(counts.shape), where=counts > 0)
        labels = np.array([list(runs[name][candidate]["chosen"]) for candidate in candidates])
        differ = (labels != labels[0]).any(0)
        values: dict[str, list[float]] = {}
        for _ in range(REPETITIONS):
            order = rng.permutation(hits.shape[1])
            first, second = np.array_split(order, 2)
            after = hits[:, second].mean(1)
            for n, candidate in enumerate(candidates):
                values.setdefault(f"always {candidate}", []).append(after[n])
            values.setdefault("the best on each set", []).append(after[hits.mean(1).argmax()])
            for size in CHOICES:
                for what, usable in (("random", first), ("disputed", first[differ[first]])):
                    sums = hits[:, usable[:size]].sum(1)
                    best = sums >= sums.max() - TIE
                    values.setdefault(f"{size} {what} items", []).append(after[best].mean())
        for what, each in values.items():
            out.setdefault(what, []).append(float(np.mean(each)))
    return {what: float(np.mean(each)) for what, each in out.items()}


def losses(runs: Runs, candidate: str) -> tuple[str, str]:
    """Compare a candidate with the votes on the judges' sets where it is less accurate by more than ``LOSS``.

    Returns:
        A table of accuracy where the votes tie and elsewhere; and one of the errors that two judges share, each with the same
        label, for the pairs of judges with the largest share, and for all others.
    """
    accuracy, pairs = [], []
    for name in GROUPS["judges"]:
        own = runs.get(name, {})
        if not {"majority", candidate} <= set(own):
            continue
        counts = np.array([[int(c) for c in own[c]["hits"]] for c in ("majority", candidate)])
        hits = np.divide(1.0, counts, out=np.zeros(counts.shape), where=counts > 0)  # (2, known)
        gap = hits[1] - hits[0]
        if gap.mean() > -LOSS:
            continue
        data, truth = load(name)
        row = pd.Index(data.items).get_indexer(truth.index)
        tied = top(majority(data)[row]).sum(1) > 1
        cells = [f"{hits[c, where].mean():.3f}" for where in (tied, ~tied) for c in (0, 1)]
        error = gap.std(ddof=1) / math.sqrt(len(gap))
        accuracy.append(
            [name, f"{gap.mean():+.3f} ± {error:.3f}", int(tied.sum()), *cells[:2], int((~tied).sum()), *cells[2:]]
        )
        pairs.append(shared_errors(name))
    head = ["set", "difference", "items with tied votes", "majority", candidate, "other items", "majority", candidate]
    return table(head, accuracy), table(["set", "pair", "share", "mean of other pairs"], pairs)


def shared_errors(name: str) -> list[Any]:
    """Return the pair of workers who give the same label most often where both are incorrect, its share, and others' mean."""
    data, truth = load(name)
    row, column = pd.Index(data.items).get_indexer(truth.index), pd.Index(data.labels).get_indexer(truth)
    label = np.full((data.N, data.J), -1)
    label[data.item.numpy(), data.worker.numpy()] = data.label.numpy()
    label = label[row]
    wrong = (label >= 0) & (label != column[:, None])
    shares = {}
    for a, b in combinations(range(data.J), 2):
        both = wrong[:, a] & wrong[:, b]
        if both.sum() >= MINIMUM:
            shares[a, b] = float((label[both, a] == label[both, b]).mean())
    best = max(shares, key=shares.__getitem__)
    others = [share for pair, share in shares.items() if pair != best]
    return [name, ", ".join(f"`{data.workers[j]}`" for j in best), f"{shares[best]:.2f}", f"{np.mean(others):.2f}"]


# ---------------------------------------------------------------------- the page


def page(runs: Runs, candidates: list[str], missing: list[str], method: str) -> str:
    """Return the text of the page."""
    parts = [
        f"""Candidates for the default model on public sets of known truth. Models by `{method}` with default priors (item
subtypes by EM with `subtype_concentration=1`), seed 1; *majority* is the share of votes, *crowd-kit DS* its Dawid–Skene with
defaults. The *better baseline* is the better of these two on each set. Known truths are used for nothing but the scores.

`crowdppl.fit` and `crowdppl fit` take item effects by EM where no model is named, `model="item-effects", method="em"`. Where
that would take too long, mainly for many classes, they take Dawid–Skene by EM, or one number for each worker where the worker of
the mean annotation gave fewer than five labels for each class ([plausible crowds](plausible-crowds.md)), or where errors seem to
be spread evenly ([many classes](many-classes.md)), and say so."""
    ]
    if missing:
        parts.append(f"Not run: {', '.join(missing)}.")
    for group, members in GROUPS.items():
        names = [name for name in members if name in runs]
        if names:
            parts += [f"## Accuracy: {group}", TEXTS[group], accuracies(runs, names, candidates)]
            if group == "judges":
                where, shared = losses(runs, candidates[-1])
                parts += [LOSSES.format(last=candidates[-1]), where, SHARED, shared]
    parts += ["## Means", MEANS, summaries(runs, candidates), "## Choosing on the other sets", CHOSEN]
    names = complete(runs, GROUPS["public"], candidates)
    if len(names) > 2:
        values = {c: mean(runs[name][c]["accuracy"] for name in names) for c in candidates}
        base = [max(runs[name][c]["accuracy"] for c in BASELINES) for name in names]
        accuracy, choices = left_out(runs, names, candidates)
        chosen = ", ".join(f"`{c}` on {n}" for c, n in choices.most_common())
        before, earlier = left_out(runs, names, candidates[:-1])
        chosen_before = ", ".join(f"`{c}` on {n}" for c, n in earlier.most_common())
        last = candidates[-1]
        gaps = {name: runs[name][last]["accuracy"] - b for name, b in zip(names, base, strict=True)}
        worst, greatest = min(gaps, key=gaps.__getitem__), max(gaps, key=gaps.__getitem__)
        rest = [name for name in names if name != greatest]
        fixed = table(
            ["model, the same on all sets", "mean accuracy", f"without `{greatest}`"],
            [
                *([c, v, mean(runs[name][c]["accuracy"] for name in rest)] for c, v in values.items()),
                [
                    "better baseline of each set",
                    mean(base),
                    mean(b for n, b in zip(names, base, strict=True) if n != greatest),
                ],
            ],
        )
        parts += [
            fixed,
            f"""Chosen for each of {len(names)} sets on the others by mean accuracy: {accuracy:.4f} ({chosen}). Among the
candidates other than `{last}`: {before:.4f} ({chosen_before}).""",
            f"""`{last}` is at least as accurate as the better baseline on {sum(g >= 0 for g in gaps.values())} of
{len(gaps)} sets. The greatest loss is {-gaps[worst]:.4f} (`{worst}`), the greatest gain {gaps[greatest]:.4f} (`{greatest}`),
which makes most of the difference between the means: the second column leaves that set out.""",
        ]
    scored = [name for members in GROUPS.values() for name in members if name in runs]
    predicted = by_predictive_score(runs, scored)
    if len(predicted):
        rank = predicted["correlation"]
        counts = ", ".join(f"`{c}` on {n}" for c, n in predicted["chosen"].value_counts().items())
        fixed = mean(
            runs[name][candidates[-1]]["accuracy"] for name in predicted["set"] if candidates[-1] in runs[name]
        )
        parts += [
            "## What else could choose a model",
            f"""**Predictive score.** The rank correlation of the expected log predictive density (`criticism.loo`) with accuracy,
over the models on one set, is {rank.mean():.2f} on average over {len(rank)} sets of all groups with at most {SCORED:,} items
(middle half {rank.quantile(0.25):.2f} to {rank.quantile(0.75):.2f}). The model with the highest score has a mean accuracy of
{predicted["accuracy"].mean():.4f} ({counts}), and `{candidates[-1]}` on the same sets {fixed}.""",
        ]
    few = [c for c in ("majority", "dawid-skene", "one-coin", "item-effects") if c in candidates]
    large = [name for name in complete(runs, scored, few) if next(iter(runs[name].values()))["known"] >= 2 * CHOICES[1]]
    if large:
        rows = [[what, f"{value:.4f}"] for what, value in by_known_labels(runs, large, few).items()]
        parts += [
            f"""**Known true labels.** A model is chosen among {", ".join(few)} on known true labels of items in a
random half of the set, and measured on the other half, {REPETITIONS} times on each of {len(large)} sets with at least
{2 * CHOICES[1]} known truths. *Disputed* items are those to which the candidates give different labels; all of them where
there are fewer.""",
            table(["choice", "mean accuracy"], rows),
        ]
    return "\n\n".join(parts)


TEXTS = {
    "public": """`imagenet-sub`: the items of `imagenet-real` with a truth. `medical-causes`, `medical-treats`: whether the
relation is among those that a worker chose.""",
    "spammers": "Two experts among twenty workers, the others mostly guess.",
    "ordered": "Ordered classes, which no candidate knows of.",
    "judges": "Language models as annotators. People are left out: the truth of most of these sets is their majority.",
}
LOSSES = f"""`{{last}}` is less accurate than the majority by more than {100 * LOSS:.0f} points on the following of these sets.
Differences are given with their standard errors over items. Accuracy of the majority where votes tie is that of a random choice
among the tied labels."""
SHARED = """Reason: two judges, often of one provider, share errors. The table gives the share of the same label among items of
known truth on which both are incorrect. No model here describes errors that only some workers share: an item effect is shared by
all. Two judges who often agree are therefore taken for competent, and win over two who do not, which decides ties. Where judges
are also harsher or milder than people as a group, the annotations do not show it."""
MEANS = f"""Means over the sets that every model was run on. Log loss in nats, probabilities floored at a millionth.
Calibration error over ten bins. *Covered*: workers with at least {MINIMUM} annotations of items of known truth whose share of
correct ones lies in their 89% interval of `share_correct`, and of `accuracy`. *Labels that differ*: items whose label is none
with the most votes. *Converged*: fits that converged within the defaults, of those where it was recorded.
Seconds include intervals, and were taken while other programs ran. On `imagenet-sub` eight workers give the same answers to 99 of
100 common items and count as one ([copies](copies.md)): counted singly, item effects have the accuracy 0.8767 there, and 0.8440
in the mean over the public sets."""
CHOSEN = """The item-effects model was designed on these same sets: about 110 variants were tried on them. Its own figures are
therefore not held out, and are optimistic by an amount that this page cannot measure. Leaving one set out at a time removes the
choice *among the candidates of this page* from the figure, not the choice among these variants."""


def main() -> None:
    """Measure what is not in the results, the smallest sets first, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join((*BASELINES, *(m for m in MODELS if m in CATALOGUE))))
    parser.add_argument("--method", default="em", choices=sorted(OPTIONS))
    parser.add_argument("--largest", type=int, default=10**9, help="annotations of the largest set to fit")
    parser.add_argument("--results", type=Path, default=Path("build/default_model.json"))
    parser.add_argument("--quick", action="store_true", help="two small sets, to see that it runs; writes no page")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    options = parser.parse_args()
    candidates = options.models.split(",")
    names = ["ducks", "mace-example"] if options.quick else [name for members in GROUPS.values() for name in members]
    options.results.parent.mkdir(parents=True, exist_ok=True)
    done: Runs = json.loads(options.results.read_text()) if options.results.exists() else {}
    sizes = {name: load(name)[0].A for name in names} if options.largest else {}
    for name in sorted(sizes, key=sizes.__getitem__):
        for candidate in candidates:
            key = candidate if candidate in BASELINES else f"{candidate} {options.method}"
            if key in done.get(name, {}) or sizes[name] > options.largest:
                continue
            run = measure(name, candidate, options.method)
            done.setdefault(name, {})[key] = run
            options.results.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
            print(name, key, f"{run['accuracy']:.4f}", f"{run['seconds']:.1f} s", flush=True)
    runs = {name: chosen for name in names if (chosen := picked(done.get(name, {}), candidates, options.method))}
    missing = [f"{c} on {name}" for name in names for c in candidates if c not in runs.get(name, {})]
    kept = {
        name: {c: {k: v for k, v in run.items() if k not in ("hits", "chosen")} for c, run in own.items()}
        for name, own in runs.items()
    }
    write("default_model", "The default model", page(runs, candidates, missing, options.method), kept, options)


def picked(own: Mapping[str, dict[str, Any]], candidates: list[str], method: str) -> dict[str, dict[str, Any]]:
    """Return the runs of one set by candidate, of one method."""
    keys = {c: c if c in BASELINES else f"{c} {method}" for c in candidates}
    return {c: own[key] for c, key in keys.items() if key in own}


if __name__ == "__main__":
    main()
