"""Every method that needs labels alone, on all public sets of known truth and on simulated crowds.

Each fit runs in a process of its own, with a limit of time. Completed fits are kept in the file ``--results``, so that an
interrupted run continues from there. A fit that fails is listed with its reason.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import resource
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import default_model
import numpy as np
import pandas as pd
from common import fit, table, write
from default_model import GROUPS, Runs, scores

from crowdppl import Annotations, aggregate
from crowdppl.data import synthetic
from crowdppl.models import ItemSubtypes

SEEDS = 5
LARGE = 12_500  # annotations, above which SVI and Gibbs are run with one seed
GIBBS = {"chains": 2, "warmup": 300, "num_samples": 200}
EM = {"num_samples": 2}
# Model, engine, options and number of seeds.
MODELS: dict[str, tuple[Any, str, dict[str, Any], int]] = {
    "Dawid–Skene": ("dawid-skene", "em", EM, 1),
    "Dawid–Skene, SVI (BCC)": ("dawid-skene", "svi", {"num_samples": 50}, SEEDS),
    "item effects": ("item-effects", "em", EM, 1),
    "hierarchical Dawid–Skene, Gibbs": ("hierarchical", "gibbs", GIBBS, SEEDS),
    "item subtypes (EBCC)": (ItemSubtypes(subtype_concentration=1.0), "em", EM, 1),
    "class-conditional": ("class-conditional", "em", EM, 1),
    "one coin (ZenCrowd)": ("one-coin", "em", EM, 1),
    "pooled": ("pooled", "em", EM, 1),
    "worker groups, Gibbs (WC)": ("worker-groups", "gibbs", GIBBS, SEEDS),
    "worker groups, EM (WC)": ("worker-groups", "em", EM, 1),
    "community Dawid–Skene": ("community", "gibbs", GIBBS, SEEDS),
    "GLAD": ("glad", "em", EM, 1),
    "MACE": ("mace", "em", EM, 1),
    "item difficulty": ("item-difficulty", "em", EM, 1),
    "item response": ("item-response", "em", EM, 1),
    "prototype mixture (PTBCC)": ("prototype-mixture", "em", EM, 1),
    "minimax entropy": ("minimax-entropy", "em", EM, 1),
    "logistic random effects": ("logistic-random-effects", "em", EM, 1),
    "ordinal thresholds": ("ordinal-thresholds", "em", EM, 1),
    "difficulty times competence (LIA)": ("lia", "em", EM, 1),
}
VOTES: dict[str, Callable[[Annotations], aggregate.Aggregate]] = {
    "majority vote": aggregate.majority,
    "vote shares": aggregate.vote_shares,
    "Wawa": aggregate.wawa,
}
# Class of crowdkit.aggregation; crowd-kit's Wawa does not run with current scikit-learn.
CROWD_KIT = {
    "crowd-kit, Dawid–Skene": "DawidSkene",
    "crowd-kit, one coin": "OneCoinDawidSkene",
    "crowd-kit, GLAD": "GLAD",
    "crowd-kit, MACE": "MACE",
    "crowd-kit, M-MSR": "MMSR",
}
OTHERS = ("peerannot, Dawid–Skene", "snorkel, label model")
ENTRIES = [*VOTES, *MODELS, *CROWD_KIT, *OTHERS]
SIMULATED: dict[str, Callable[[int], synthetic.Simulation]] = {
    "simulated: three abilities": lambda seed: synthetic.three_gaussians(seed=seed, workers=100),
    "simulated: common and individual": lambda seed: synthetic.common_and_individual(seed=seed),
    "simulated: two Gaussians": lambda seed: synthetic.two_gaussians(seed=seed),
    "simulated: correlated crowd": lambda seed: synthetic.correlated_crowd(seed=seed),
}
MEASURES = {"accuracy": "Accuracy", "log_loss": "Log loss", "ece": "Calibration error"}
COSTS = {
    "seconds": "Seconds of a fit",
    "cpu": "Seconds of processor time of a fit, all threads",
    "gigabytes": "Peak memory of a fit above that of the process before it, GB",
}
DRAWS = 2000  # of the bootstrap
LEVEL = 0.95


@functools.cache
def load(name: str) -> tuple[Annotations, pd.Series[Any]]:
    """Return annotations and true labels by item, of a public set or a simulation."""
    if name not in SIMULATED:
        return default_model.load(name)
    s = SIMULATED[name](0)
    return s.data.with_features(None), pd.Series(s.data.labels[np.asarray(s.truth)], index=s.data.items)


# ---------------------------------------------------------------------- one fit


def probability(entry: str, data: Annotations, seed: int) -> tuple[np.ndarray, float]:
    """Return the probabilities of the classes ``(N, K)`` and the seconds of the fit.

    Raises:
        ImportError: for a package that is not installed.
    """
    if entry in MODELS:
        model, method, options, _ = MODELS[entry]
        posterior, seconds = fit(data, model, method=method, seed=seed, independent=False, **options)
        return posterior.probability(), seconds
    began = time.perf_counter()
    if entry in VOTES:
        shares = VOTES[entry](data).probability()
    elif entry in CROWD_KIT:
        shares = crowd_kit(CROWD_KIT[entry], data)
    elif entry.startswith("peerannot"):
        shares = peerannot(data)
    else:
        shares = snorkel(data)
    return shares, time.perf_counter() - began


def crowd_kit(name: str, data: Annotations) -> np.ndarray:
    """Return probabilities, or one-hot labels where it gives labels only, of a class of crowd-kit with its defaults."""
    from crowdkit import aggregation

    frame = pd.DataFrame(
        {"task": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    )
    method = getattr(aggregation, name)()
    if hasattr(method, "fit_predict_proba"):
        given = method.fit_predict_proba(frame)
    else:
        given = pd.get_dummies(method.fit_predict(frame)).astype(float)
    return given.reindex(index=data.items, columns=data.labels).fillna(0.0).to_numpy()


def peerannot(data: Annotations) -> np.ndarray:
    """Return the probabilities of peerannot's Dawid-Skene."""
    from peerannot.models.aggregation.dawid_skene import DawidSkene

    votes: dict[int, dict[int, int]] = {i: {} for i in range(data.N)}
    for i, j, label in zip(data.item.tolist(), data.worker.tolist(), data.label.tolist(), strict=True):
        votes[i][j] = label
    method = DawidSkene(votes, n_workers=data.J, n_classes=data.K)
    method.run()
    return np.asarray(method.get_probas())


def snorkel(data: Annotations) -> np.ndarray:
    """Return the probabilities of snorkel's label model, MeTaL's form of it; a worker is a labelling function."""
    from snorkel.labeling.model import LabelModel

    votes = np.full((data.N, data.J), -1)
    votes[data.item.numpy(), data.worker.numpy()] = data.label.numpy()
    method = LabelModel(cardinality=data.K, verbose=False)
    method.fit(votes, seed=0, progress_bar=False)
    return np.asarray(method.predict_proba(votes))


def peak() -> float:
    """Return the largest memory that this process has held so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def work(name: str, entry: str, seed: int, pipe: Any) -> None:
    """Fit in this process, and send the figures or the reason why there are none."""
    try:
        data, truth = load(name)
        before, held = time.process_time(), peak()
        shares, seconds = probability(entry, data, seed)
        cost = {"seconds": seconds, "cpu": time.process_time() - before, "gigabytes": peak() - held}
        known = {"annotations": data.A, "items": data.N, "known": len(truth)}
        pipe.send(known | scores(shares, data, truth) | cost)
    except ImportError as error:
        package = entry.partition(",")[0]
        pipe.send({"reason": "not installed" if error.name and error.name.startswith(package) else str(error)})
    except Exception:  # whatever another program raises is the reason
        pipe.send({"reason": " ".join(traceback.format_exc(limit=0).split())[:200]})


def measure(name: str, entry: str, seed: int, limit: float) -> dict[str, Any]:
    """Fit in a process of its own; one that takes longer than ``limit`` seconds is stopped."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(name, entry, seed, there))
    child.start()
    there.close()
    try:
        if not here.poll(limit):
            return {"reason": f"stopped after {limit:g} seconds"}
        return here.recv()
    except EOFError:
        child.join()
        return {"reason": f"the process ended with code {child.exitcode}"}
    finally:
        child.kill()
        child.join()


# ---------------------------------------------------------------------- tables


def averaged(runs: Runs, name: str, entry: str, what: str) -> float:
    """Return the mean of a figure over seeds; missing where there is none."""
    values = [run[what] for key, run in runs[name].items() if key.rpartition(" / ")[0] == entry and what in run]
    return float(np.mean(values)) if values else np.nan


def by_set(runs: Runs, names: list[str], what: str) -> str:
    """Return the table of one figure, sets by entries, and its mean over the sets that every entry with figures completed."""
    values = pd.DataFrame({entry: {name: averaged(runs, name, entry, what) for name in names} for entry in ENTRIES})
    values = values.dropna(axis=1, how="all")
    rows = [[entry, *(f"{v:.4g}" if np.isfinite(v) else "–" for v in values[entry])] for entry in values]
    return table(["method", *names], rows)


def means(runs: Runs, names: list[str]) -> str:
    """Return means of each entry over the public sets, and its number of sets."""
    rows = []
    for entry in ENTRIES:
        figures = {what: [averaged(runs, name, entry, what) for name in names] for what in (*MEASURES, "seconds")}
        there = np.isfinite(figures["accuracy"])
        if not there.any():
            continue
        base = [averaged(runs, name, "Dawid–Skene", "accuracy") for name in np.array(names)[there]]
        gain = np.array(figures["accuracy"])[there] - base
        cells = [f"{np.nanmean(values):.4f}" for what, values in figures.items() if what != "seconds"]
        rows.append(
            [entry, f"{there.sum()}", *cells, f"{100 * np.mean(gain):+.2f}", f"{np.nansum(figures['seconds']):.1f}"]
        )
    head = ["method", "sets", *(title.lower() for title in MEASURES.values())]
    return table([*head, "accuracy − Dawid–Skene, points", "seconds, all sets"], rows)


def gains(runs: Runs, name: str, entry: str) -> tuple[float, float, float] | None:
    """Return how much more accurate an entry is than the better of majority vote and Dawid-Skene, with an interval.

    The interval is of the paired bootstrap over the items of known truth.
    """

    def share(entry: str) -> np.ndarray | None:
        hits = runs[name].get(f"{entry} / 0", {}).get("hits")
        if hits is None:
            return None
        ties = np.array([int(c) for c in hits], dtype=float)
        return np.divide(1.0, ties, out=np.zeros_like(ties), where=ties > 0)

    own, votes, skene = (share(e) for e in (entry, "majority vote", "Dawid–Skene"))
    if own is None or votes is None or skene is None:
        return None
    base = votes if votes.mean() > skene.mean() else skene
    difference = own - base
    rng = np.random.default_rng(0)
    drawn = np.array([difference[rng.integers(0, len(own), len(own))].mean() for _ in range(DRAWS)])
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(difference.mean()), float(low), float(high)


def story(runs: Runs, names: list[str]) -> tuple[str, str]:
    """Return the best entry of each set against majority vote and Dawid-Skene, and on how many sets each entry is better."""
    entries = [e for e in ENTRIES if e not in ("majority vote", "Dawid–Skene", *CROWD_KIT, *OTHERS)]
    rows, won, lost = [], dict.fromkeys(entries, 0), dict.fromkeys(entries, 0)
    for name in names:
        compared = {entry: gain for entry in entries if (gain := gains(runs, name, entry)) is not None}
        if not compared:
            continue
        for entry, (_, low, high) in compared.items():
            won[entry] += low > 0
            lost[entry] += high < 0
        best = max(compared, key=lambda entry: compared[entry][0])
        gain, low, high = (100 * v for v in compared[best])
        base = [f"{averaged(runs, name, e, 'accuracy'):.4f}" for e in ("majority vote", "Dawid–Skene", best)]
        answer = "yes" if low > 0 else "no" if high < 0 else "not certain"
        rows.append([name, *base[:2], best, base[2], f"{gain:+.2f}", f"{low:+.2f} to {high:+.2f}", answer])
    head = [
        "set",
        "majority vote",
        "Dawid–Skene",
        "best other method",
        "its accuracy",
        "gain, points",
        "95% interval",
        "better",
    ]
    counts = [[entry, f"{won[entry]}", f"{lost[entry]}"] for entry in sorted(entries, key=lambda e: lost[e] - won[e])]
    return table(head, rows), table(["method", "sets where it is better", "sets where it is worse"], counts)


def page(runs: Runs, names: list[str]) -> str:
    """Return the page."""
    public = [name for name in names if name not in SIMULATED]
    best, counts = story(runs, public)
    missing = [
        [key.rpartition(" / ")[0], name, run["reason"]]
        for name in names
        for key, run in runs[name].items()
        if "reason" in run and key.endswith(" / 0")
    ]
    absent = sorted({entry for entry, _, reason in missing if reason == "not installed"})
    missing = [row for row in missing if row[2] != "not installed"]
    tables = "\n\n".join(f"### {title}\n\n{by_set(runs, names, what)}" for what, title in (MEASURES | COSTS).items())
    return f"""All methods that need labels alone. EM is run once, from its default start; SVI and Gibbs with {SEEDS} seeds, of
which the mean is shown, and with one on sets of more than {LARGE:,} annotations. Ties of the most probable class count in
part. Every fit runs in a process of its own; other programs ran on the machine, so that seconds are up to three times those
of a quiet one. Seconds of processor time are not affected.

## Means over the public sets

Each mean is over the sets that the method completed.

{means(runs, public)}

## Is a model better than votes and Dawid–Skene?

For each set, the most accurate other method of this library, and how much more accurate it is than the better of majority
vote and Dawid–Skene. The interval is of the bootstrap over the items of known truth. The best of many methods was chosen on
the same items, which favours it; the second table has no choice.

{best}

Number of sets on which a method is better or worse than both, with the whole interval on one side of 0. A method that is
better on fewer than three sets is not recommended for that.

{counts}

## By set

{tables}

## Fits without figures

Not installed: {", ".join(absent) or "none"}.

{table(["method", "set", "reason"], missing) if missing else "All other fits were completed."}
"""


def main() -> None:
    """Measure what is not in the results, the smallest sets first, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("build/baselines.json"))
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a fit is stopped")
    parser.add_argument("--largest", type=int, default=10**9, help="annotations of the largest set to fit")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of SVI and Gibbs")
    parser.add_argument("--quick", action="store_true", help="two small sets, to see that it runs; writes no page")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    options = parser.parse_args()
    names = [name for members in GROUPS.values() for name in members] + list(SIMULATED)
    names = ["ducks", "simulated: two Gaussians"] if options.quick else names
    options.results.parent.mkdir(parents=True, exist_ok=True)
    done: Runs = json.loads(options.results.read_text()) if options.results.exists() and not options.quick else {}
    sizes = {name: load(name)[0].A for name in names}
    jobs = [
        (name, entry, seed)
        for name in sorted(sizes, key=sizes.__getitem__)
        if sizes[name] <= options.largest
        for entry in ENTRIES
        for seed in range(min(options.seeds, MODELS[entry][3]) if entry in MODELS and sizes[name] <= LARGE else 1)
        if f"{entry} / {seed}" not in done.get(name, {})
    ]
    lock = Lock()

    def job(name: str, entry: str, seed: int) -> None:
        run = measure(name, entry, seed, options.limit)
        with lock:
            done.setdefault(name, {})[f"{entry} / {seed}"] = run
            if not options.quick:
                options.results.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
            what = run.get("reason") or f"{run['accuracy']:.4f} {run['seconds']:.1f} s"
            print(name, entry, seed, what, flush=True)

    with ThreadPoolExecutor(2) as pool:
        for result in [pool.submit(job, *each) for each in jobs]:
            result.result()
    measured = [name for name in names if name in done]
    kept = {
        name: {key: {k: v for k, v in run.items() if k not in ("hits", "chosen")} for key, run in own.items()}
        for name, own in done.items()
    }
    write("baselines", "All methods on all sets", page(done, measured), kept, options)


if __name__ == "__main__":
    main()
