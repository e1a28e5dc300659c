"""Simulated panels: unlike systems, people who err or pick items, judges who favour length or change, several answers, arenas."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import comb, ndtri

from crowdppl import judges
from crowdppl.judges.model import pairwise

LABELS = 100
UNLIKE = {"systems": 6, "items": 150, "judges": 5, "labels": 120}
# Error of a person, and probabilities of a complaint about an answer that fails and about one that passes.
ERROR, COMPLAINT = 0.1, (0.6, 0.05)
# Verbosity of the six judges, and whether long answers pass more often.
LENGTHS = {
    "no judge": ((0.0,) * 6, False),
    "no judge; long answers are better": ((0.0,) * 6, True),
    "three of six judges": ((0.5, 0.5, 0.5, 0.0, 0.0, 0.0), False),
    "all judges": ((0.4,) * 6, False),
}


def _rates(result: judges.JudgesResult, truth: pd.DataFrame) -> dict[str, float]:
    """Compare the rates of the systems with those of all true labels; ``truth`` has columns ``system`` and ``passes``."""
    table = result.systems().set_index("system")
    true = truth.groupby("system")["passes"].mean()[table.index]
    inside = (table["corrected_low"] - 1e-9 <= true) & (true <= table["corrected_high"] + 1e-9)
    return {
        "covered": float(inside.mean()),
        "width": float((table["corrected_high"] - table["corrected_low"]).mean()),
        "bias": float((table["corrected"] - true).mean()),
    }


def unlike_part(harsher: float, seed: int) -> dict[str, float]:
    """One system passes always, and judges are less accurate on its answers by ``harsher``: does its interval contain 1?"""
    rng = np.random.default_rng(seed)
    S, N, J = UNLIKE["systems"], UNLIKE["items"], UNLIKE["judges"]
    passes = rng.random((S, N)) < np.append(1.0, rng.uniform(0.45, 0.8, S - 1))[:, None]
    accuracy = rng.uniform(0.72, 0.88, J)
    rows = []
    for s in range(S):
        shared = rng.standard_normal(N)
        for j in range(J):
            own = np.clip(accuracy[j] - harsher * (s == 0), 0.5, 0.99)
            wrong = 0.6 * shared + 0.8 * rng.standard_normal(N) < ndtri(1 - own)
            said = np.where(passes[s] ^ wrong, "pass", "fail")
            rows += [(f"s{s}-{i}", f"m{j}/x", f"s{s}", label) for i, label in enumerate(said)]
    verdicts = pd.DataFrame(rows, columns=["item", "judge", "system", "verdict"])
    names = [(f"s{s}-{i}", f"s{s}", passes[s, i]) for s in range(S) for i in range(N)]
    truth = pd.DataFrame(names, columns=["item", "system", "passes"])
    human = truth.assign(verdict=np.where(truth["passes"], "pass", "fail"))[["item", "verdict"]]
    result = judges.fit(verdicts, human.sample(UNLIKE["labels"], random_state=seed), seed=0)
    row = result.systems().set_index("system").loc["s0"]
    others = truth[truth["system"] != "s0"]
    table = result.systems().set_index("system").loc[others["system"].unique()]
    true = others.groupby("system")["passes"].mean()[table.index]
    inside = (table["corrected_low"] - 1e-9 <= true) & (true <= table["corrected_high"] + 1e-9)
    return {
        "covered": float(row["corrected_high"] >= 1 - 1e-9),
        "corrected": float(row["corrected"]),
        "uncorrected": float(row["uncorrected"]),
        "others": float(inside.mean()),
        "width": float((table["corrected_high"] - table["corrected_low"]).mean()),
    }


def _panel(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return verdicts, and the items with their true labels and systems, in a random order."""
    verdicts, truth = judges.simulate(seed=20_000 + seed)
    system = verdicts.drop_duplicates("item").set_index("item")["system"]
    truth = truth.assign(system=truth["item"].map(system), passes=truth["verdict"] == "pass")
    return verdicts, truth.sample(frac=1, random_state=seed)


def people_part(people: int, stated: bool, seed: int) -> dict[str, float]:
    """People with an error of a tenth label 100 items, each of them all; their error may be stated."""
    verdicts, truth = _panel(seed)
    rng = np.random.default_rng(seed)
    chosen = truth.head(LABELS)
    parts = []
    for person in range(people):
        passes = chosen["passes"].to_numpy() ^ (rng.random(LABELS) < ERROR)
        parts.append(chosen[["item"]].assign(verdict=np.where(passes, "pass", "fail"), annotator=f"p{person}"))
    error = {"human_error": ERROR} if stated else {}
    return _rates(judges.fit(verdicts, pd.concat(parts), seed=seed, **error), truth)


def picked_part(design: str, seed: int) -> dict[str, float]:
    """People label 70 answers about which users complained, and 30 others: taken as a random sample, or with strata."""
    verdicts, truth = _panel(seed)
    rng = np.random.default_rng(seed)
    chance = np.where(truth["passes"], COMPLAINT[1], COMPLAINT[0])
    truth = truth.assign(stratum=np.where(rng.random(len(truth)) < chance, "complaint", "other"))
    size = truth["stratum"].value_counts()
    human = pd.concat([truth[truth["stratum"] == "complaint"].head(70), truth[truth["stratum"] == "other"].head(30)])
    human = human.assign(stratum_size=human["stratum"].map(size))
    columns = ["item", "verdict"] + (["stratum", "stratum_size"] if design == "strata" else [])
    result = judges.fit(verdicts, human[columns], seed=seed)
    said = any(sentence.startswith("Items with human labels look") for sentence in result.statements)
    return _rates(result, truth) | {"said": float(said)}


def _long_answers(design: str, items: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return verdicts on answers with lengths, and the items with their true labels and systems.

    Where long answers are better, short ones that pass and long ones that fail are left out more often.
    """
    verbosity, better = LENGTHS[design]
    verdicts, truth = judges.simulate(seed=30_000 + seed, items=items, verbosity=verbosity)
    answers = verdicts.drop_duplicates("item").set_index("item")
    truth = truth.assign(system=truth["item"].map(answers["system"]), passes=truth["verdict"] == "pass")
    if better:
        long = (np.log(truth["item"].map(answers["length"])) - 5.5) / 0.5
        kept = np.random.default_rng(seed).random(len(truth)) < 1 / (1 + np.exp(np.where(truth["passes"], -long, long)))
        truth = truth[kept]
        verdicts = verdicts[verdicts["item"].isin(truth["item"])]
    return verdicts, truth


def length_truth(design: str) -> list[float]:
    """Return the length bias of each judge: 0, or that by the true labels of a large panel."""
    verbosity, _ = LENGTHS[design]
    if not any(verbosity):
        return [0.0] * len(verbosity)
    verdicts, truth = _long_answers(design, 8000, 0)
    bias = judges.fit(verdicts, truth[["item", "verdict"]], num_samples=50).judges().set_index("judge")["length_bias"]
    return [float(x) if favours else 0.0 for x, favours in zip(bias.sort_index(), verbosity, strict=True)]


def length_part(design: str, true: list[float], seed: int) -> dict[str, float]:
    """Measure the bias of judges for long answers, and the rates of systems with the lengths and without."""
    verdicts, truth = _long_answers(design, 200, seed + 1)
    human = truth.sample(LABELS, random_state=seed)[["item", "verdict"]]
    result = judges.fit(verdicts, human, seed=seed)
    table = result.judges().sort_values("judge")
    own, low, high = (table[f"length_bias{end}"].to_numpy() for end in ("", "_low", "_high"))
    without = judges.fit(verdicts.drop(columns="length"), human, seed=seed)
    named = [sentence.split("'")[1] for sentence in result.statements if " favours " in sentence]
    biased = np.array(LENGTHS[design][0]) != 0
    return {
        "bias": float((own - true).mean()),
        "inside": float(((low <= true) & (true <= high)).mean()),
        "interval": float((high - low).mean()),
        "accused": float(any(name in named for name in table["judge"][~biased])),
        "named": float(np.mean([name in named for name in table["judge"][biased]])) if biased.any() else np.nan,
        **_long_and_short(result, truth, ""),
        **_long_and_short(without, truth, "without_"),
    }


def _long_and_short(result: judges.JudgesResult, truth: pd.DataFrame, name: str) -> dict[str, float]:
    """Return :func:`_rates`, and by how much the system with the longest answers is too high beside that with the shortest."""
    true = truth.groupby("system")["passes"].mean()
    excess = result.systems().set_index("system")["corrected"] - true
    figures = _rates(result, truth) | {"excess": float(excess["s3"] - excess["s1"])}
    return {f"{name}{figure}": value for figure, value in figures.items()}


def answers_part(seed: int) -> dict[str, float]:
    """Two systems give four answers to each of 80 questions that are easy or hard: bias and coverage of pass@k, 100 labels."""
    rng = np.random.default_rng(60_000 + seed)
    rows, passes = [], {}
    for s, rate in enumerate((0.5, 0.65)):
        truth = rng.random((80, 4)) < rng.beta(rate, 1 - rate, 80)[:, None]
        passes[f"s{s}"] = truth
        for (q, a), z in np.ndenumerate(truth):
            said = [bool(z) ^ (rng.random() > right) for right in (0.8, 0.75, 0.85)]
            rows += [(q, f"s{s}", a, f"m{j}/x", "pass" if one else "fail") for j, one in enumerate(said)]
    verdicts = pd.DataFrame(rows, columns=["item", "system", "answer", "judge", "verdict"])
    truth = verdicts.drop_duplicates(["item", "system", "answer"])[["item", "system", "answer"]]
    z = [passes[s][q, a] for q, s, a in truth.itertuples(index=False)]
    human = truth.assign(verdict=np.where(z, "pass", "fail")).sample(LABELS, random_state=seed)
    table = judges.fit(verdicts, human, seed=seed).pass_at([1, 2, 4]).set_index(["system", "k"])
    said = (verdicts["verdict"] == "pass").groupby(
        [verdicts[name] for name in ("system", "item", "answer")]
    ).mean() > 0.5
    majority = {s: said[s].to_numpy().reshape(80, 4) for s in passes}
    out: dict[str, list[float]] = {}
    for (system, k), row in table.iterrows():
        true, uncorrected = _chen(passes[system], k), _chen(majority[system], k)
        inside = row["pass_at_k_low"] - 1e-9 <= true <= row["pass_at_k_high"] + 1e-9
        width = row["pass_at_k_high"] - row["pass_at_k_low"]
        figures = (inside, row["pass_at_k"] - true, width, uncorrected - true)
        for name, value in zip(("covered", "bias", "width", "uncorrected"), figures, strict=True):
            out.setdefault(f"{name} {k}", []).append(float(value))
    return {name: float(np.mean(values)) for name, values in out.items()}


def _chen(passes: np.ndarray, k: int) -> float:
    """Return pass@k by equation 1 of Chen et al. (2021); ``passes`` is ``(questions, answers)``."""
    n, c = passes.shape[1], passes.sum(1)
    return float(np.mean(1 - comb(n - c, k) / comb(n, k)))


def drift_part(change: float, seed: int) -> dict[str, float]:
    """Three judges over 30 days, 120 of 300 items labelled; one of them passes more from day 15 on, by ``change`` log odds."""
    rng = np.random.default_rng(70_000 + seed)
    n = 300
    truth, day = rng.random(n) < 0.6, rng.integers(0, 30, n)
    parts = []
    for j in range(3):
        later = change * (day >= 15) * (j == 0)
        said = rng.random(n) < 1 / (1 + np.exp(-(np.where(truth, 1.5, -1.5) + later)))
        when = pd.Timestamp("2026-03-01") + pd.to_timedelta(day, unit="D")
        parts.append(pd.DataFrame({"item": np.arange(n), "judge": f"m{j}/x", "when": when, "verdict": said}))
    human = pd.DataFrame({"item": np.arange(n), "verdict": truth}).sample(120, random_state=seed)
    table = judges.fit(pd.concat(parts), human, seed=seed, num_samples=100).drift()
    changed = table[table["changed"]]
    first = changed[changed["judge"] == "m0/x"]
    return {
        "named": float(len(first) > 0),
        "false_alarm": float((changed["judge"] != "m0/x").any() if change else len(changed) > 0),
    }


def elo_part(seed: int) -> dict[str, float]:
    """Ratings of five systems from 300 pairs with 100 human labels: on these pairs, and on further ones."""
    strength = np.array([1.0, 0.4, 0.0, -0.5, -0.9])
    verdicts, truth = judges.simulate_pairs(strength=strength.tolist(), seed=80_000 + seed)
    result = judges.fit(verdicts, truth.sample(LABELS, random_state=seed), seed=seed)
    known = judges.fit(verdicts, truth, seed=seed, num_samples=50).systems().set_index("system").sort_index()["elo"]
    true = pairwise.elo((strength - strength.mean())[None])[0]
    out = {}
    for name, target, rating in (("pairs", "items", known.to_numpy()), ("further", "population", true)):
        table = result.systems(target).set_index("system").sort_index()
        low, high = table["elo_low"].to_numpy(), table["elo_high"].to_numpy()
        out[f"{name}_covered"] = float(((low <= rating) & (rating <= high)).mean())
        out[f"{name}_width"] = float((high - low).mean())
        out[f"{name}_error"] = float(np.abs(table["elo"].to_numpy() - rating).mean())
    return out
