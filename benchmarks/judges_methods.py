"""Panels of judges from public data, and methods that estimate the rates of systems from them, for ``judges.py``."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import beta, norm

import crowdppl
from crowdppl import Annotations, CrowdpplWarning, DataError, judges
from crowdppl.data import datasets
from crowdppl.judges import HumanLabels, JudgesResult, Verdicts
from crowdppl.judges.coding import passing
from crowdppl.judges.tables.system_table import rates

Array = npt.NDArray[Any]
BOOTSTRAP, LEVEL = 200, 0.95
# Largest number of items of a set: a fit of the largest takes seconds, and there are hundreds.
LARGEST = 5000


@dataclass(frozen=True, eq=False)
class PanelSet:
    """A public panel: verdicts of language models only, and the true labels of its items.

    Attributes:
        verdicts: verdicts of the items with a true label.
        truth: true label of each item, ``(N,)``, as a code.
    """

    verdicts: Verdicts
    truth: Array


@functools.cache
def load(name: str, limit: int = LARGEST) -> PanelSet:
    """Return a public panel, without the verdicts of people, of at most ``limit`` items."""
    folder = Path(datasets.folder()) / name
    text = {"item": str, "label": str, "worker": str}
    rows = pd.read_csv(folder / "annotations.csv.gz", dtype=text)
    truth = pd.read_csv(folder / "truth.csv", dtype=str).set_index("item")["label"]
    workers = pd.read_csv(folder / "workers.csv", dtype=str).set_index("worker")
    items = pd.read_csv(folder / "items.csv", dtype=str).set_index("item")
    if "kind" in workers:
        rows = rows[rows["worker"].isin(workers.index[workers["kind"] != "human"])]
    rows = rows[rows["item"].isin(truth.index)]
    if rows["item"].nunique() > limit:
        names = rows["item"].unique()
        rows = rows[rows["item"].isin(np.random.default_rng(0).choice(names, limit, replace=False))]
    frame = pd.DataFrame({"item": rows["item"], "judge": rows["worker"], "verdict": rows["label"]})
    frame["family"] = rows["worker"].map(workers["family"]).fillna("").replace("", "none").to_numpy()
    for source, column in (("system", "system"), ("question_id", "question")):
        if source in items:
            frame[column] = rows["item"].map(items[source])
    for column in ("swapped", "score"):
        if column in rows:
            frame[column] = rows[column]
    human, verdicts = aligned(truth, Verdicts.from_frame(frame))
    codes = np.full(len(verdicts.items), -1)
    codes[human.item] = human.label
    assert (codes >= 0).all()
    return PanelSet(verdicts, codes)


def aligned(truth: Any, verdicts: Verdicts) -> tuple[HumanLabels, Verdicts]:
    """Return labels by item and verdicts with the same codes."""
    verdicts, human = HumanLabels.from_frame(truth).align(verdicts)
    return human, verdicts


def chosen(panel: PanelSet, labels: int, seed: int) -> Array:
    """Return the items with human labels, at most half of all."""
    N = len(panel.truth)
    return np.random.default_rng(seed).choice(N, min(labels, N // 2), replace=False)


def fitted(panel: PanelSet, items: Array, seed: int, level: float = LEVEL, positive: Any = None) -> JudgesResult:
    """Fit with human labels of some items."""
    v = panel.verdicts
    human = pd.DataFrame({"item": v.items[items], "verdict": v.labels[panel.truth[items]]}) if len(items) else None
    if positive is None:
        try:
            passing.values(v.labels)
        except (
            DataError
        ):  # of the better of two answers, none passes by its name; which one does matters for rates only
            positive = v.labels[0]
    return judges.fit(v, human, seed=seed, level=level, positive=positive, num_samples=500)


# ---------------------------------------------------------------------- rates of systems

Estimate = tuple[Array, Array, Array]  # estimate, low and high end of the interval, of each system


def ours(panel: PanelSet, items: Array, seed: int) -> Estimate:
    """Return the rates of crowdppl.judges."""
    result = fitted(panel, items, seed)
    drawn = rates(result, "items")
    low, high = result.ends(drawn)
    return drawn.mean(0), low, high


def labels_alone(panel: PanelSet, items: Array, seed: int) -> Estimate:
    """Return rates of the human labels, with Jeffreys intervals."""
    system, passed = panel.verdicts.system[items], panel.truth[items]
    S = len(panel.verdicts.systems)
    n, k = np.bincount(system, minlength=S), np.bincount(system, passed, S)
    tail = (1 - LEVEL) / 2
    return (k + 0.5) / (n + 1), beta.ppf(tail, k + 0.5, n - k + 0.5), beta.ppf(1 - tail, k + 0.5, n - k + 0.5)


def majority_share(panel: PanelSet) -> Array:
    """Return the share of judges that pass each item, ``(N,)``."""
    v = panel.verdicts
    given = v.label >= 0
    n = np.bincount(v.item[given], minlength=len(v.items))
    return np.bincount(v.item[given], v.label[given], len(v.items)) / np.maximum(n, 1)


def matrix(panel: PanelSet) -> Array:
    """Return binary verdicts as -1, 0 (none) and 1, ``(N, J)``."""
    v = panel.verdicts
    out = np.zeros((len(v.items), len(v.judges)))
    given = v.label >= 0
    np.add.at(out, (v.item[given], v.judge[given]), 2.0 * v.label[given] - 1)
    return np.sign(out)


def uncorrected(panel: PanelSet, items: Array, seed: int) -> Estimate:
    """Return rates by the majority of judges, with binomial intervals."""
    passed = (majority_share(panel) > 0.5).astype(float)
    return _with_normal(panel, passed, np.zeros(len(panel.verdicts.systems)))


def best_judge(panel: PanelSet, items: Array, seed: int) -> Estimate:
    """Return rates by the judge who agrees most often with the human labels, with binomial intervals."""
    X = matrix(panel)
    best = _best(X[items], panel.truth[items])
    return _with_normal(panel, (X[:, best] > 0).astype(float), np.zeros(len(panel.verdicts.systems)))


def _best(X: Array, truth: Array) -> int:
    return int(((X > 0) == truth[:, None]).mean(0).argmax())


def _with_normal(panel: PanelSet, passed: Array, extra: Array) -> Estimate:
    system = panel.verdicts.system
    S = len(panel.verdicts.systems)
    n = np.bincount(system, minlength=S)
    rate = np.bincount(system, passed, S) / n
    half = norm.ppf((1 + LEVEL) / 2) * np.sqrt(rate * (1 - rate) / n + extra)
    return rate, rate - half, rate + half


def rogan_gladen(panel: PanelSet, items: Array, seed: int, *, one: bool = False) -> Estimate:
    """Return rates corrected by sensitivity and specificity on the human labels (Rogan and Gladen 1978), delta method.

    Of the majority of judges, or of the judge who agrees most often with the human labels.
    """
    X = matrix(panel)
    said = X[:, _best(X[items], panel.truth[items])] > 0 if one else majority_share(panel) > 0.5
    z = panel.truth[items] == 1
    positives, negatives = z.sum() + 1, (~z).sum() + 1
    sensitivity, specificity = (said[items][z].sum() + 0.5) / positives, ((~said[items])[~z].sum() + 0.5) / negatives
    system = panel.verdicts.system
    S = len(panel.verdicts.systems)
    n = np.bincount(system, minlength=S)
    stated = np.bincount(system, said.astype(float), S) / n
    gain = max(sensitivity + specificity - 1, 0.05)
    rate = np.clip((stated + specificity - 1) / gain, 0, 1)
    variance = (
        stated * (1 - stated) / n
        + rate**2 * sensitivity * (1 - sensitivity) / positives
        + (1 - rate) ** 2 * specificity * (1 - specificity) / negatives
    ) / gain**2
    half = norm.ppf((1 + LEVEL) / 2) * np.sqrt(variance)
    return rate, np.clip(rate - half, 0, 1), np.clip(rate + half, 0, 1)


def ppi_plus(panel: PanelSet, items: Array, seed: int) -> Estimate:
    """Return prediction-powered estimates with a tuned weight for each system (Angelopoulos, Duchi and Zrnic 2023, PPI++).

    The prediction is the share of judges that pass the item. For the mean: with labelled ``y, f`` and unlabelled ``f'``, the
    estimate is ``mean(y) + lambda (mean(f') - mean(f))`` and ``lambda = cov(y, f) / ((1 + n / N) var(f))``.
    """
    f, y, system = majority_share(panel), panel.truth, panel.verdicts.system
    S = len(panel.verdicts.systems)
    unlabelled = np.setdiff1d(np.arange(len(y)), items)
    out = np.full((3, S), np.nan)
    for s in range(S):
        own, others = items[system[items] == s], unlabelled[system[unlabelled] == s]
        n, N = len(own), len(others)
        if n < 2:
            out[:, s] = 0.5, 0.0, 1.0
            continue
        spread = np.concatenate([f[own], f[others]]).var(ddof=1)
        weight = np.clip(np.cov(y[own], f[own])[0, 1] / ((1 + n / N) * spread), 0, 1) if spread > 0 else 0.0
        estimate = y[own].mean() + weight * (f[others].mean() - f[own].mean())
        variance = (y[own] - weight * f[own]).var(ddof=1) / n + weight**2 * f[others].var(ddof=1) / N
        half = norm.ppf((1 + LEVEL) / 2) * np.sqrt(variance)
        out[:, s] = estimate, estimate - half, estimate + half
    return out[0], np.clip(out[1], 0, 1), np.clip(out[2], 0, 1)


def ppi_package(panel: PanelSet, items: Array, seed: int) -> Estimate:
    """Return the same by the package ``ppi_py``.

    Raises:
        ImportError: if it is not installed.
    """
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

    f, y, system = majority_share(panel), panel.truth.astype(float), panel.verdicts.system
    S = len(panel.verdicts.systems)
    unlabelled = np.setdiff1d(np.arange(len(y)), items)
    out = np.full((3, S), np.nan)
    for s in range(S):
        own, others = items[system[items] == s], unlabelled[system[unlabelled] == s]
        if len(own) < 2:
            out[:, s] = 0.5, 0.0, 1.0
            continue
        out[0, s] = np.mean(ppi_mean_pointestimate(y[own], f[own], f[others]))
        low, high = ppi_mean_ci(y[own], f[own], f[others], alpha=1 - LEVEL)
        out[1:, s] = np.ravel(low)[0], np.ravel(high)[0]
    return out[0], np.clip(out[1], 0, 1), np.clip(out[2], 0, 1)


def stack(panel: PanelSet, items: Array, seed: int) -> Estimate:
    """Return rates by logistic regression on all verdicts, fitted to the human labels, with a bootstrap over them."""
    from sklearn.linear_model import LogisticRegression

    X, y, system = matrix(panel), panel.truth, panel.verdicts.system
    S = len(panel.verdicts.systems)
    n = np.bincount(system, minlength=S)
    rng = np.random.default_rng(seed)

    def estimate(labelled: Array) -> tuple[Array, Array]:
        if len(np.unique(y[labelled])) < 2:
            p = np.full(len(y), y[labelled].mean())
        else:
            p = LogisticRegression(C=1.0, max_iter=200).fit(X[labelled], y[labelled]).predict_proba(X)[:, 1]
        return np.bincount(system, p, S) / n, p

    center, _ = estimate(items)
    drawn = []
    for _ in range(BOOTSTRAP):
        _, p = estimate(rng.choice(items, len(items)))
        drawn.append(np.bincount(system, rng.random(len(p)) < p, S) / n)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return center, low, high


def dawid_skene(panel: PanelSet, items: Array, seed: int) -> Estimate:
    """Return rates of Dawid and Skene's model by Gibbs sampling, as published, with the human labels as known truths."""
    posterior = skene(panel, items, "dawid-skene", "gibbs", seed, chains=2, warmup=100, num_samples=250)
    truth = posterior.tree["truth"]["draw_of"].to_numpy()
    drawn = truth.reshape(-1, truth.shape[-1]).astype(float)  # in the order of the verdicts' items
    system = panel.verdicts.system
    S = len(panel.verdicts.systems)
    n = np.bincount(system, minlength=S)
    rate = np.array([np.bincount(system, d, S) / n for d in drawn])
    low, high = np.quantile(rate, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return rate.mean(0), low, high


def skene(panel: PanelSet, items: Array, model: str, method: str, seed: int, **options: Any) -> crowdppl.Posterior:
    """Fit a model of the zoo, as published, with the human labels as known truths."""
    v = panel.verdicts
    given = v.label >= 0
    frame = pd.DataFrame({"item": v.item[given], "worker": v.judge[given], "label": v.label[given]})
    data = Annotations.from_frame(
        frame,
        items=list(range(len(v.items))),
        labels=list(range(len(v.labels))),
        truth=dict(zip(items.tolist(), panel.truth[items].tolist(), strict=True)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        return crowdppl.fit(data, model, method=method, seed=seed, independent=True, **options)


RATES: dict[str, Callable[[PanelSet, Array, int], Estimate]] = {
    "crowdppl.judges": ours,
    "human labels alone": labels_alone,
    "majority of judges, uncorrected": uncorrected,
    "best single judge, uncorrected": best_judge,
    "Rogan–Gladen, best judge": functools.partial(rogan_gladen, one=True),
    "Rogan–Gladen, majority": rogan_gladen,
    "PPI++ for each system": ppi_plus,
    "PPI++ by ppi_py": ppi_package,
    "logistic regression, bootstrap": stack,
    "Dawid–Skene, known truths": dawid_skene,
}
