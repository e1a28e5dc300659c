"""Several solutions of EM: what a second start finds on public sets, what it costs, and how often the warning is false.

Completed fits are kept in the file ``--results``, so that an interrupted run continues from there.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import fit, table, write
from default_model import GROUPS, load, scores

from crowdppl import Annotations, Posterior
from crowdppl.inference.backends.passes import ANNOTATIONS as COMPILED
from crowdppl.inference.engines.solutions import MIN_ITEMS, NEAR, OTHER
from crowdppl.model.weighted_votes import rival_votes, weighted_votes

# Further starts of each model; item effects look for a second anchor instead.
STARTS = {"dawid-skene": 4, "one-coin": 4, "class-conditional": 4, "item-effects": 0}
SAID = "two solutions explain"
FAR = "is not that of the majority"
CROWDS, CLASSES = 5, (2, 3, 4)
OPTIONS: dict[str, Any] = {"method": "em", "seed": 1, "num_samples": 100}


def simulated(kind: str, classes: int, seed: int) -> tuple[Annotations, pd.Series[Any]]:
    """Simulate 200 items with six annotations each, of 20 workers.

    ``camps``: all workers are correct with probability .8, but half of them mean the next class by each label. ``experts``: a
    sixth of the workers are correct with probability .95, the others guess. ``one crowd``: all are correct with probability .8.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, 200)
    item = np.repeat(np.arange(200), 6)
    worker = np.concatenate([rng.choice(20, 6, replace=False) for _ in range(200)])
    meant = (truth[item] + ((worker >= 10) if kind == "camps" else 0)) % classes
    skill = np.where(worker < 3, 0.95, 0.05) if kind == "experts" else 0.8
    label = np.where(rng.random(len(item)) < skill, meant, rng.integers(0, classes, len(item)))
    names = [str(k) for k in range(classes)]
    data = Annotations.from_arrays(item, worker, [names[k] for k in label], labels=names)
    return data, pd.Series([names[k] for k in truth])


def timed(data: Annotations, model: str, restarts: int) -> tuple[Posterior, float]:
    """Fit, and return the seconds of the processor, which other programs do not change much."""
    began = time.process_time()
    posterior, _ = fit(data, model, restarts=restarts, **OPTIONS)
    return posterior, time.process_time() - began


def measure(data: Annotations, truth: pd.Series[Any], model: str, starts: int) -> dict[str, Any]:
    """Fit with one start, with two and with ``starts`` further ones; return what was found, and the times of the first two."""
    plain, seconds = timed(data, model, 0)
    second, more = timed(data, model, 1) if starts else (plain, seconds)
    out = {
        "items": data.N,
        "annotations": data.A,
        "accuracy": scores(plain.probability(), data, truth)["accuracy"],
        "accuracy_second": scores(second.probability(), data, truth)["accuracy"],
        "warned": any(SAID in sentence for sentence in second.warnings),
        "far": any(FAR in sentence for sentence in second.warnings),
        "different": max(second.info["facts"].get("different_labels", [0.0])),
        "seconds": [seconds, more],
    }
    if starts > 1:
        several, _ = timed(data, model, starts)
        out["warned_several"] = any(SAID in sentence for sentence in several.warnings)
        out["different_several"] = max(several.info["facts"]["different_labels"])
        out["accuracy_several"] = scores(several.probability(), data, truth)["accuracy"]
    if not starts:
        began = time.process_time()
        votes = weighted_votes(data)
        middle = time.process_time()
        out["rival"] = rival_votes(data, votes) is not None
        out["seconds"] = [seconds - (time.process_time() - middle), seconds, middle - began]
    return out


def main() -> None:
    """Measure what is not in the results, the smallest sets first, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=10**9, help="annotations of the largest set to fit")
    parser.add_argument("--results", type=Path, default=Path("build/several_solutions.json"))
    parser.add_argument("--quick", action="store_true", help="two small sets, to see that it runs; writes no page")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    options = parser.parse_args()
    kept: dict[str, Any] = {"sets": {}, "simulated": {}}
    if options.results.exists() and not options.quick:
        kept = json.loads(options.results.read_text(encoding="utf-8"))
    names = sorted((name for group in GROUPS.values() for name in group), key=lambda name: load(name)[0].A)
    names = [name for name in names if options.largest >= load(name)[0].A][: 2 if options.quick else None]

    def keep() -> None:
        if not options.quick:
            options.results.parent.mkdir(parents=True, exist_ok=True)
            options.results.write_text(json.dumps(kept), encoding="utf-8")

    for name in names:
        if load(name)[0].A >= COMPILED and "dawid-skene" not in kept["sets"].get(name, {}):
            timed(load(name)[0], "dawid-skene", 0)  # whose first run compiles passes
        own = kept["sets"].setdefault(name, {})
        for model, starts in STARTS.items():
            if model not in own:
                own[model] = measure(*load(name), model, starts)
                print(name, model, own[model], flush=True)
                keep()
    for kind in ("one crowd", "experts", "camps"):
        for classes in CLASSES:
            for seed in range(1 if options.quick else CROWDS):
                own = kept["simulated"].setdefault(f"{kind}, {classes} classes, {seed}", {})
                for model, starts in STARTS.items():
                    if model not in own:
                        own[model] = measure(*simulated(kind, classes, seed), model, min(1, starts))
                keep()
    write("several_solutions", "Several solutions of EM", page(kept), kept, options)


def rate(flags: list[bool]) -> str:
    """Write how many of how many."""
    return f"{sum(flags)} of {len(flags)}"


def page(kept: dict[str, Any]) -> str:
    """Return the text of the page."""
    sets, crowds = kept["sets"], kept["simulated"]
    public = [name for name in GROUPS["public"] if name in sets]
    rest = [name for name in sets if name not in public]
    rows = []
    for model, starts in STARTS.items():
        own = [sets[name][model] for name in public]
        other = [sets[name][model] for name in rest]
        ratio = [run["seconds"][1] / run["seconds"][0] for run in own]
        rows.append(
            [
                model,
                rate([run["warned"] for run in own]),
                f"{max(run['different'] for run in own):.1%}" if starts else "no second anchor",
                rate([run["warned_several"] for run in own]) if starts else "–",
                rate([run["warned"] for run in other]),
                f"{np.mean([run['accuracy'] for run in own]):.4f}",
                f"{np.mean([run['accuracy_second'] for run in own]):.4f}",
                f"{np.median(ratio):.2f} ({max(ratio):.2f})",
            ]
        )
    head = [
        "model",
        "second start: warned",
        "largest difference of labels",
        "five starts: warned",
        "other sets: warned",
    ]
    head += ["accuracy, one start", "accuracy, two", "time, two starts to one: median (largest)"]
    parts = [
        f"""EM finds the solution nearest to its start. With `restarts=1` a second start opposes the first solution: it begins
with votes in which workers weigh the more, the less they agree with that solution. Where most workers agree, EM returns from
there to the first solution; where two groups contradict each other, it ends with the other group's. `item-effects` is anchored to
votes weighted by competence, so that all starts of EM end alike. There the *anchor* is learned a second time, from opposing
votes, and only if it then differs is a second fit made.

A fit warns if two of its solutions differ by at most {NEAR:g} in log posterior for each annotation, and in the label of more
than {OTHER:.0%} of at least {MIN_ITEMS} items (not counting known truths and ties).

Public sets are the {len(public)} of [the default model](default-model.md); *other sets* the {len(rest)} further ones there:
language models as judges, ordered classes, a crowd of spammers. Further starts after the second are around the votes. Seed 1.
Times are those of the processor with 100 draws for intervals; with the default of 1,000 the ratio is smaller. For
`item-effects` they are with and without the search for a second anchor.""",
        table(head, rows),
    ]
    warned = [
        [
            name,
            model,
            "5" if not run["warned"] else "2",
            f"{run['different' if run['warned'] else 'different_several']:.1%}",
            f"{run['accuracy']:.4f}",
            f"{run['accuracy_several' if not run['warned'] else 'accuracy_second']:.4f}",
        ]
        for name, own in sets.items()
        for model, run in own.items()
        if run["warned"] or run.get("warned_several", False)
    ]
    if warned:
        parts += [
            "Sets and models that warned, with the number of starts; *reported* is the solution of the highest log posterior:",
            table(["set", "model", "starts", "labels that differ", "accuracy, one start", "reported"], warned),
        ]
    rows = []
    for kind in ("one crowd", "experts", "camps"):
        row = [kind]
        for model in STARTS:
            own = [runs[model] for name, runs in crowds.items() if name.startswith(kind)]
            right = float(np.mean([run["accuracy_second"] for run in own]))
            row.append(f"{rate([run['warned'] for run in own])}, accuracy {right:.2f}")
        rows.append(row)
    effects = [run["item-effects"]["rival"] for run in sets.values()]
    far = [name for name, run in sets.items() if run["item-effects"]["far"]]
    parts += [
        f"""`item-effects` found a second anchor on {rate(effects)} sets. Its labels are far from the votes, of which a fit warns,
on {", ".join(f"`{name}`" for name in far) or "none"}.""",
        "## Simulated crowds",
        f"""200 items with six annotations each of 20 workers, {CROWDS} crowds of {", ".join(map(str, CLASSES))} classes each.
*One crowd*: all workers are correct with probability .8. *Experts*: three workers with .95, the others guess. *Camps*: half of
the workers mean the next class by each label, so that nothing but known truths can tell which half is right. Number of fits with
two starts that warned:""",
        table(["crowds", *STARTS], rows),
    ]
    return "\n\n".join(part for part in parts if part)


if __name__ == "__main__":
    main()
