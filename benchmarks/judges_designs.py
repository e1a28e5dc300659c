"""Simulated panels: unlike systems, people who err or pick items, judges who favour length or change, several answers, arenas."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import ndtri

from crowdppl import judges

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
