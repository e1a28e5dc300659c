"""Simulation-based calibration of every model by every engine: `make sbc`.

Writes docs/benchmarks/sbc.md and its figures, and into the page of each model the measured coverage of its
intervals.
"""

from __future__ import annotations

import argparse
import re
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pandas as pd
import records
import torch
from common import machine
from common import table as markdown

from crowdppl import models
from crowdppl.criticism import sbc
from crowdppl.model.base import AnnotationModel

# Networks are small enough to be sampled with all other parameters.
MODELS: dict[str, AnnotationModel] = {
    "dawid-skene": models.DawidSkene(),
    "item-effects": models.ItemEffects(anchoring=0.0),
    "majority-vote": models.MajorityVote(),
    "hierarchical": models.HierarchicalDawidSkene(),
    "community": models.CommunityDawidSkene(communities=2),
    "item-subtypes": models.ItemSubtypes(subtypes=2),
    "class-conditional": models.ClassConditional(),
    "one-coin": models.OneCoin(),
    "pooled": models.Pooled(),
    "worker-groups": models.WorkerGroups(groups=2),
    "item-difficulty": models.ItemDifficulty(),
    "glad": models.GLAD(),
    "item-response": models.ItemResponse(),
    "minimax-entropy": models.MinimaxEntropy(),
    "logistic-random-effects": models.LogisticRandomEffects(),
    "accuracy-regression": models.AccuracyRegression(),
    "ordinal-thresholds": models.OrdinalThresholds(),
    "graded-facets": models.GradedFacets(nodes=9),
    "mace": models.MACE(),
    "prototype-mixture": models.PrototypeMixture(),
    "raykar": models.Raykar(prior_scale=3.0),
    "crowd-mixture": models.CrowdMixture(
        groups=2, hidden=(), prior_correct=2.0, prior_incorrect=1.0, prior_members=1.0
    ),
    "conal": models.CoNAL(hidden=(), embedding=2),
    "two-coin-difficulty": models.TwoCoinDifficulty(),
    "lia": models.LIA(latent=2, hidden=(), embedding=2),
    "judged-systems": models.JudgedSystems(),
    "sequential-workers": models.SequentialWorkers(),
    "label-sets": models.LabelSets(clusters=2),
}
# Tokens in sequences, and labels of sets, in place of items by themselves.
SIZES: dict[str, dict[str, int]] = {
    "sequential-workers": {"items": 24, "per_item": 4, "features": 0, "length": 6},
    "label-sets": {"items": 24, "per_item": 4, "features": 0, "sets": 3},
}
# Clusters may change places: of single ones nothing is said.
LEFT_OUT = {"label-sets": ("share", "rate")}
# Effects of single items or systems, without a sweep of Gibbs sampling.
ITEM_EFFECTS = (
    "item-difficulty",
    "glad",
    "item-response",
    "minimax-entropy",
    "logistic-random-effects",
    "ordinal-thresholds",
    "judged-systems",
)
METHODS = {
    "dawid-skene": ("gibbs", "nuts", "svi", "em"),
    "item-effects": ("gibbs", "em"),
    "majority-vote": ("gibbs", "nuts", "svi", "em"),
    "hierarchical": ("gibbs", "nuts", "svi"),
    "community": ("gibbs",),
    "item-subtypes": ("gibbs", "nuts", "svi"),
    "class-conditional": ("gibbs", "nuts", "svi", "em"),
    "one-coin": ("gibbs", "nuts", "svi", "em"),
    "pooled": ("gibbs", "nuts", "svi", "em"),
    "worker-groups": ("gibbs", "em"),
    **dict.fromkeys(ITEM_EFFECTS, ("nuts", "svi", "em")),
    "accuracy-regression": ("gibbs", "svi", "nuts"),
    "graded-facets": ("gibbs", "em"),
    "mace": ("gibbs", "nuts", "svi", "em"),
    "prototype-mixture": ("gibbs", "nuts", "svi", "em"),
    "raykar": ("nuts", "svi", "em"),
    "crowd-mixture": ("nuts", "svi", "em"),
    "conal": ("nuts", "svi", "em"),
    "two-coin-difficulty": ("nuts", "svi", "em"),
    "lia": ("nuts", "svi", "em"),
    "sequential-workers": ("gibbs", "em"),
    "label-sets": ("gibbs", "em"),
}
SIMULATIONS = {"gibbs": 300, "nuts": 16, "svi": 24, "em": 500}
OPTIONS = {
    "gibbs": {"chains": 1, "warmup": 200, "num_samples": 990},
    "nuts": {"chains": 1, "warmup": 150, "num_samples": 198, "max_tree_depth": 8},
    "svi": {"num_samples": 297},
    "em": {"num_samples": 297},
}
# Slow fits: a step of NUTS through a network takes milliseconds, an M step by gradients up to a second.
FEWER = {
    ("gibbs", "item-effects"): 100,
    ("gibbs", "sequential-workers"): 100,
    ("gibbs", "label-sets"): 100,
    ("gibbs", "graded-facets"): 60,
    ("em", "sequential-workers"): 100,
    ("em", "label-sets"): 100,
    ("em", "graded-facets"): 60,
    ("em", "item-effects"): 200,
    ("nuts", "hierarchical"): 12,
    ("nuts", "item-subtypes"): 12,
    ("nuts", "raykar"): 12,
    ("nuts", "crowd-mixture"): 12,
    ("nuts", "conal"): 4,
    ("nuts", "two-coin-difficulty"): 8,
    ("nuts", "lia"): 6,
    ("em", "raykar"): 60,
    ("em", "crowd-mixture"): 60,
    ("em", "conal"): 60,
    ("em", "two-coin-difficulty"): 60,
    ("em", "lia"): 8,
    **{
        (method, name): number
        for method, number in (("nuts", 8), ("svi", 16), ("em", 100))
        for name in (*ITEM_EFFECTS, "mace", "prototype-mixture")
    },
}
# Classes without an anchor can swap their meaning, which takes chains long.
LONGER = {("gibbs", "item-effects"): {"chains": 1, "warmup": 2000, "num_samples": 9900}}
EXACT = ("gibbs", "nuts")
LEVEL = 0.89
MARK = re.compile(r"<!-- sbc -->.*?<!-- /sbc -->\n?", re.DOTALL)


def run(name: str, method: str, simulations: int) -> dict[str, object]:
    """Calibrate one model with one engine, in a process of its own."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    options = LONGER.get((method, name), OPTIONS[method]) | SIZES.get(name, {})
    parts, without = [], 0
    for s in range(simulations):
        try:
            parts.append(sbc.ranks(MODELS[name], method, simulations=1, seed=s, **options).assign(simulation=s))
        except sbc.NoDraws:
            without += 1
            if not parts:
                break  # this engine gives points
    rows = sbc.table(pd.concat(parts), level=LEVEL).to_dict("records") if parts else []
    rows = [one for one in rows if one["quantity"] not in LEFT_OUT.get(name, ())]
    return {
        "model": name,
        "method": method,
        "seconds": time.perf_counter() - began,
        "rows": rows,
        "without_intervals": without if parts else 0,
    }


def row(result: dict) -> list[object]:
    """Return one run as a row of the table."""
    by = {r["quantity"]: r for r in result["rows"]}
    if not by:
        return [result["model"], result["method"], "–", *["–"] * 4, "gives a point: no intervals"]
    worst = min(by.values(), key=lambda r: r["p"])
    p = min(1.0, worst["p"] * len(by))
    cells = [
        by[q]["coverage"] if q in by else None for q in ("accuracy", "confusion", "prevalence", "correct annotations")
    ]
    shown = ["–" if c is None else f"{c:.2f}" for c in cells]
    return [
        f"{result['model']}",
        result["method"],
        by["accuracy"]["simulations"],
        *shown,
        f"{p:.4f} ({worst['quantity']})",
    ]


def design(name: str) -> str:
    """Return the size of the data of a model, in words."""
    own = SIZES.get(name, {})
    if "length" in own:
        return f"{own['items'] // own['length']} sequences of {own['length']} tokens, 4 workers, 96 annotations"
    if "sets" in own:
        return f"{own['items'] // own['sets']} sets of {own['sets']} labels, 4 workers, 96 annotations"
    return "20 items, 4 workers, 60 annotations"


def sentence(name: str, results: list[dict]) -> str:
    """Return the sentence of a model's page: how often intervals contain what was drawn."""
    shares = []
    for result in results:
        if result["model"] == name and not result["rows"]:
            shares.append(f"{result['method']} gives a point")
        elif result["model"] == name:
            cover = next(r["coverage"] for r in result["rows"] if r["quantity"] == "accuracy")
            shares.append(f"{result['method']} {round(cover, 2):.0%}")  # as in the table, which has two decimals
    text = (
        f"**Measured coverage.** On data drawn from the model itself ({design(name)}), the 89% interval of a "
        f"worker's accuracy contains the true value in this share of cases: {', '.join(shares)} "
        "([simulation-based calibration](../benchmarks/sbc.md))."
    )
    return f"<!-- sbc -->\n{textwrap.fill(text, 130, break_on_hyphens=False)}\n<!-- /sbc -->\n"


def write(results: list[dict], docs: Path) -> None:
    """Write the page, its figures, and the sentences in the models' pages."""
    header = ["model", "method", "simulations", "accuracy", "confusion", "prevalence", "correct annotations", "least p"]
    exact = [r for r in results if r["method"] in EXACT]
    worst = min((min(q["p"] * len(r["rows"]) for q in r["rows"]) for r in exact), default=1.0)
    seconds = sum(r["seconds"] for r in results)
    points = ", ".join(
        f"{r['without_intervals']} ({r['model']}, {r['method']})" for r in results if r.get("without_intervals")
    )
    points = f"Simulations whose fit is a point without intervals are not counted: {points}.\n" if points else ""
    page = f"""# Simulation-based calibration

Rerun: `make sbc` ({seconds / 3600:.1f} hours of one core; `python benchmarks/sbc.py --quick` for a look). Ran on {machine()}.

Parameters, true labels and labels are drawn from a model's own prior (20 items, 4 workers, 3 annotations per item, 2 classes,
2 features). The model is fitted to the labels, and each quantity drawn is ranked among 99 draws of the fit
(`crowdppl.criticism.sbc`; Talts et al. 2018, with the data-dependent quantities of Modrák et al. 2023: log-likelihood, true
label of an item, number of correct annotations of a worker). If an engine samples the posterior, ranks are uniform. *Least p*
is the p-value of uniform ranks by simultaneous bands, the least over all quantities times their number. *Accuracy* and the
next three columns give the share of 89% intervals that contain what was drawn.

{markdown(header, [row(r) for r in results])}

Sequential workers have four sequences of six tokens, each labelled by all four workers, and label sets eight sets of three
labels. Models with several perspectives are those of graded facets with a place for each group: their intervals are checked in
simulation on [their page](perspectives.md).

Item effects have no anchor here (`anchoring=0`): with one, EM and Gibbs sampling follow another objective than the likelihood.
Without one, classes of such small data can swap their meaning, and chains move between the two slowly: their length is tenfold.
At the length of the other models, 240 simulations gave a coverage of .81 for the accuracy and a least p of .0065.
Gibbs and NUTS are exact up to their length (NUTS: 150 warm-up steps, 198 draws, one chain). The least p-value of {len(exact)}
runs is {worst:.4f}; the bound for all of them together is {0.05 / max(1, len(exact)):.4f} at 5%. SVI and EM are
approximations; the coverage of their intervals is given above and in each model's page. With `n` simulations, the standard
error of a coverage is about .31 divided by the square root of `n` (about half of that for accuracy, since there are four
workers). NUTS has 4 to 16 simulations each, so that this table shows only gross errors (`--times 10` shows smaller ones and
takes hours). EM and SVI hold the weights of networks at a point, so that no interval covers a prevalence that follows from
them, and the intervals of LIA, whose qualities come from networks, are too narrow. These figures show how well an engine fits the
model. How well the model describes people is another question: real annotations of an item are not independent.
{points}"""
    (docs / "benchmarks").mkdir(parents=True, exist_ok=True)
    (docs / "benchmarks" / "sbc.md").write_text(page, encoding="utf-8")
    records.save("sbc", {"machine": machine(), "results": results}, records.folder_of(docs / "benchmarks"))
    for name in {r["model"] for r in results}:
        path = docs / "models" / f"{name}.md"
        text = MARK.sub("", path.read_text(encoding="utf-8")).rstrip("\n")
        path.write_text(f"{text}\n\n{sentence(name, results)}", encoding="utf-8")


def merged(earlier: list[dict], results: list[dict]) -> list[dict]:
    """Replace earlier results by new ones, in the order of the models."""
    done = {(r["model"], r["method"]): r for r in [*earlier, *results]}
    return [done[name, method] for name in MODELS for method in METHODS[name] if (name, method) in done]


def main() -> None:
    """Run all in two processes, the long ones first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulations; writes nothing")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of the documentation [docs]")
    parser.add_argument("--rewrite", action="store_true", help="write the pages anew from the figures on disk")
    parser.add_argument("--only", nargs="*", help="these models; the figures on disk stand for the others")
    parser.add_argument("--method", nargs="*", help="these engines; likewise")
    parser.add_argument("--processes", type=int, default=2, help="runs at a time [2]")
    parser.add_argument("--times", type=int, default=1, help="so many times the simulations [1]")
    options = parser.parse_args()
    earlier = (records.load("sbc", records.folder_of(options.out / "benchmarks")) or {"results": []})["results"]
    jobs = [
        (name, method)
        for method in ("em", "gibbs", "svi", "nuts")
        for name in MODELS
        if method in METHODS[name]
        and not options.rewrite
        and (not options.only or name in options.only)
        and (not options.method or method in options.method)
    ]
    count = {job: options.times * FEWER.get(job[::-1], SIMULATIONS[job[1]]) for job in jobs}
    results = []
    with ProcessPoolExecutor(options.processes) as pool:
        waiting = [pool.submit(run, *job, max(2, count[job] // (10 if options.quick else 1))) for job in jobs]
        for job in waiting:
            results.append(job.result())
            print(*row(results[-1]), f"{results[-1]['seconds']:.0f} s", flush=True)
            if not options.quick:  # takes hours: completed runs are stored
                write(merged(earlier, results), options.out)
    if options.rewrite:
        write(merged(earlier, results), options.out)


if __name__ == "__main__":
    main()
