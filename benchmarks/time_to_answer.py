"""Time from a data frame to the answer: labels, and workers with intervals, compared with the labels of crowd-kit's Dawid-Skene.

Both sides run in turn in one process, so that the ratio depends less on the machine than seconds do. Every set is a process of
its own. ``--only SET ...`` measures some sets and keeps the figures of the others.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import records
from common import processor_time, table, write

ROOT = Path(__file__).resolve().parents[1]
SMALLEST = 2_000  # annotations of a set
BUSY = 1.2  # seconds for each of the processor from which other programs are said to have run
SECONDS, REPEATS = 1.5, 5  # a measurement is repeated for so long, at least once more, and at most so often
GIBBS = {"chains": 4, "warmup": 500, "num_samples": 1000}
SIMULATED = "500k x 10"
PEER = "crowd-kit"
HEADS = {
    "dawid-skene em truth": "Dawid–Skene by EM, labels",
    "dawid-skene em workers": "and workers",
    "the default, labels": "the default, labels",
    "the default and workers": "and workers",
    "dawid-skene gibbs": "Dawid–Skene by Gibbs, labels and workers",
}


def names() -> list[str]:
    """Return the public sets with enough annotations, smallest first, and the simulated one."""
    from default_model import GROUPS, load

    sizes = {name: load(name)[0].A for group in GROUPS.values() for name in group if name != "imagenet-sub"}
    return [*sorted((name for name in sizes if sizes[name] >= SMALLEST), key=sizes.__getitem__), SIMULATED]


# What every fit and its files need.
IMPORTS = ("torch", "pyro", "pandas", "xarray", "h5netcdf")


def frame_of(name: str) -> pd.DataFrame:
    """Return a table of annotations with columns ``item``, ``worker`` and ``label``."""
    if name == SIMULATED:
        from performance import SIZES, simulate

        item, worker, label = simulate(*SIZES[name])
        return pd.DataFrame({"item": item, "worker": worker, "label": label})
    from default_model import load

    data = load(name)[0]
    return pd.DataFrame(
        {"item": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    )


def answers(frame: pd.DataFrame) -> dict[str, Callable[[], Any]]:
    """Return what is timed, by name."""
    from crowdkit.aggregation import DawidSkene

    import crowdppl

    theirs = frame.rename(columns={"item": "task"})

    def ours(model: str | None, workers: bool, **options: Any) -> Callable[[], Any]:
        def run() -> Any:
            posterior = crowdppl.fit(crowdppl.Annotations.from_frame(frame), model, seed=1, **options)
            return posterior.truth(), posterior.workers() if workers else None

        return run

    return {
        PEER: lambda: DawidSkene().fit_predict(theirs),
        "dawid-skene em truth": ours("dawid-skene", False, method="em"),
        "dawid-skene em workers": ours("dawid-skene", True, method="em"),
        "the default, labels": ours(None, False),
        "the default and workers": ours(None, True),
        "dawid-skene gibbs": ours("dawid-skene", True, method="gibbs", **GIBBS),
    }


@contextmanager
def timed(spent: dict[str, list[float]]) -> Iterator[None]:
    """Add up calls, and seconds of the processor, of the compiled E steps and M steps, of EM, and of evaluations at its point."""
    from crowdppl.inference import run
    from crowdppl.inference.backends.em_steps import EMSteps
    from crowdppl.inference.backends.evaluation import Evaluation
    from crowdppl.inference.backends.expectation import CompiledExpectation

    places: list[tuple[Any, str]] = [(EMSteps, "expect"), (EMSteps, "maximise"), (EMSteps, "begin")]
    places += [(run.ENGINES, "em"), (Evaluation, "reported")]
    # What an anchored fit reports takes the sums of an E step once more, and is none.
    places.append((CompiledExpectation, "log_likelihood"))
    kept, reporting = [], []
    for place, name in places:
        before = place[name] if isinstance(place, dict) else getattr(place, name)

        def counted(*args: Any, _before: Any = before, _name: str = name, **named: Any) -> Any:
            began = time.process_time()
            reporting.append(_name)
            out = _before(*args, **named)
            reporting.pop()
            if _name == "expect" and "log_likelihood" in reporting:
                return out
            entry = spent.setdefault(_name, [0, 0.0])
            entry[0], entry[1] = entry[0] + 1, entry[1] + time.process_time() - began
            return out

        kept.append((place, name, before))
        place.__setitem__(name, counted) if isinstance(place, dict) else setattr(place, name, counted)
    try:
        yield
    finally:
        for place, name, before in kept:
            place.__setitem__(name, before) if isinstance(place, dict) else setattr(place, name, before)


def breakdown(frame: pd.DataFrame) -> dict[str, list[float]]:
    """Return calls and seconds of the processor of the parts of the default labels, in the second of two runs."""
    import crowdppl

    for _ in range(2):
        spent: dict[str, list[float]] = {}
        with timed(spent):
            began = time.process_time()
            data = crowdppl.Annotations.from_frame(frame)
            read = time.process_time() - began
            crowdppl.fit(data, seed=1).truth()
            total = time.process_time() - began
    return spent | {"read": [1, read], "total": [1, total]}


def measure(name: str) -> dict[str, Any]:
    """Time all answers for one set, in turn: the least of several times after a first one, which fills caches."""
    frame = frame_of(name)
    warnings.simplefilter("ignore")
    work = answers(frame)
    if name == SIMULATED:  # takes minutes, and the default is another model for data that large
        work = {key: run for key, run in work.items() if not key.startswith("the default")}
    least, spent = dict.fromkeys(work, np.inf), dict.fromkeys(work, 0.0)
    processor = dict.fromkeys(work, np.inf)
    for turn in range(REPEATS + 1):
        for key, run in work.items():
            if turn > 1 and spent[key] > SECONDS:
                continue
            began, before = time.perf_counter(), time.process_time()
            run()
            seconds, used = time.perf_counter() - began, time.process_time() - before
            if turn:
                spent[key] += seconds
                least[key], processor[key] = min(least[key], seconds), min(processor[key], used)
    parts = {} if name == SIMULATED else breakdown(frame)
    return {"annotations": len(frame), "seconds": least, "processor": processor, "parts": parts}


def apart(name: str) -> dict[str, Any]:
    """Measure one set in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--one", name], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


# A process that imports, and one that also answers in Python: true labels, then workers with intervals.
NOTHING = "import " + ", ".join(IMPORTS)
ANSWER = f"""{NOTHING}
import sys, crowdppl
posterior = crowdppl.fit(crowdppl.Annotations.from_frame(pandas.read_csv(sys.argv[1])), seed=0)
posterior.truth(), posterior.workers()"""


def cold() -> dict[str, list[float]]:
    """Measure answers on ``rte`` in new processes: at the first use of a copy and later, with its machine code and without.

    Returns:
        for each process, seconds from start to end, and those of the processor.
    """
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for part in ("crowdppl", "models"):
            shutil.copytree(ROOT / part, place / part, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(folder, quiet=2)  # as pip does
        file = place / "labels.csv"
        frame_of("rte").to_csv(file, index=False)
        command = ["-m", "crowdppl", "fit", str(file), "--method", "em", "--overwrite", "--out", str(place / "results")]
        programs = {
            "labels and workers in Python": ["-c", ANSWER, str(file)],
            "`crowdppl fit --model dawid-skene`": [*command, "--model", "dawid-skene"],
            "`crowdppl fit`": command,
        }

        def run(words: list[str], cache: Path, switch: str) -> list[float]:
            own = {"PYTHONPATH": folder, "NUMBA_CACHE_DIR": str(cache), "CROWDPPL_MACHINE_CODE": switch}
            began, before = time.perf_counter(), processor_time()
            subprocess.run([sys.executable, *words], check=True, capture_output=True, cwd=folder, env=os.environ | own)
            return [time.perf_counter() - began, processor_time() - before]

        run(["-c", NOTHING], place, "1")  # files of other packages come from memory from here on
        out[f"for comparison: a process that imports {', '.join(IMPORTS)} and does nothing"] = run(
            ["-c", NOTHING], place, "1"
        )
        for switch, note in (("1", ""), ("0", ", without machine code")):
            for name, words in programs.items():
                cache = place / f"compiled-{len(out)}"
                for what in ("first use", "later"):
                    out[f"{name}, {what}{note}"] = run(words, cache, switch)
                if switch == "1" and cache.exists():
                    raise SystemExit("the checkout has no machine code: python -m crowdppl.kernels.compile_all")
    return out


def of_the_processor(runs: dict[str, dict[str, Any]]) -> str:
    """Return a part of the page: seconds of the processor, which depend less on what else the machine does."""
    measured = {name: run["processor"] for name, run in runs.items() if run.get("processor")}
    rows, summary = [], []
    for key in HEADS:
        times = {name: each[key] for name, each in measured.items() if key in each}
        slower = [seconds / measured[name][PEER] for name, seconds in times.items()]
        if not slower:
            continue
        small = [seconds for name, seconds in times.items() if runs[name]["annotations"] <= 10**5]
        counts = [sum(r <= most for r in slower) for most in (1, 3)]
        row = [f"{np.median(slower):.2f}", f"{max(slower):.1f}", *counts, len(slower)]
        summary.append([key, *row, f"{sum(seconds <= 2 for seconds in small)} of {len(small)}"])
    for name, run in runs.items():
        parts = run.get("parts")
        if not parts or "expect" not in parts:
            continue
        (steps, expecting), (rounds, improving) = parts["expect"], parts["maximise"]
        begun, em = parts["begin"][1], parts["em"][1]
        rest = em - expecting - improving - begun
        total, read = parts["total"][1], parts["read"][1]
        numbers = [run["processor"][PEER], total, read, expecting, improving, begun, rest, total - read - em]
        each = [f"{1e3 * expecting / steps:.2f}", f"{1e3 * improving / max(1, rounds):.2f}"]
        rows.append([name, steps, *each, *(f"{seconds:.3f}" for seconds in numbers)])
    heads = ["answer", "median", "greatest", "sets at least as fast", "at most 3 times slower", "of", "at most 2 s"]
    columns = ["set", "E steps", "one, ms", "one M step, ms", "crowd-kit", "labels", "reading", "E steps", "M steps"]
    columns += ["first M step", "rest of EM", "besides EM"]
    return f"""Seconds of the processor, which depend less on what else the machine does: ours divided by crowd-kit's, the median
and the greatest; on how many sets ours is at least as fast, and at most 3 times slower; and on how many of up to 100,000
annotations it takes at most 2 seconds:

{table(heads, summary)}

Where the time of the default labels goes, in seconds of the processor, of one run: reading the table, EM, with its E steps, M
steps and the rest, and what comes besides, such as copied answers, known truths and probabilities at the point. EM is that of
item effects, and of Dawid–Skene beside it, which tells whether workers err independently. An E step reads all annotations
once for each state (class and effect) of an item. Where the E steps alone take longer than crowd-kit, whose model has a state
for each class only and which stops after few steps, no other change makes the default as fast.

{table(columns, rows)}"""


def page(runs: dict[str, dict[str, Any]], commands: dict[str, list[float]]) -> str:
    """Return the text of the page."""
    rows = []
    for name, run in runs.items():
        seconds = run["seconds"]
        cells = []
        for key in HEADS:
            cells.append("–" if key not in seconds else f"{seconds[key]:.3f} ({seconds[PEER] / seconds[key]:.2f})")
        rows.append([name, run["annotations"], f"{seconds[PEER]:.3f}", *cells])
    ratios = {
        key: [run["seconds"][PEER] / run["seconds"][key] for run in runs.values() if key in run["seconds"]]
        for key in HEADS
    }
    summary = [
        [key, f"{np.median(each):.2f}", f"{min(each):.2f}", f"{max(each):.2f}", sum(r >= 1 for r in each), len(each)]
        for key, each in ratios.items()
    ]
    lines = [[name, *(f"{seconds:.1f}" for seconds in both)] for name, both in commands.items()]
    waits = float(np.median([run["seconds"][PEER] / run["processor"][PEER] for run in runs.values()]))
    busy = (
        f"\n\n**Measured beside other work**: seconds are {waits:.1f} times those of the processor. Compare ratios, and seconds "
        f"of the processor."
    )
    busy = busy if waits >= BUSY else ""
    return f"""From a data frame in memory to the answer, in seconds, warm: `Annotations.from_frame`, `fit`, `truth()`, and
`workers()` with intervals where the column says so. *crowd-kit* is `DawidSkene().fit_predict`, labels alone. In parentheses:
its time divided by ours, so that above 1 ours is faster. Gibbs sampling takes {GIBBS["chains"]} chains of
{GIBBS["warmup"]} + {GIBBS["num_samples"]} sweeps. Public sets with at least {SMALLEST:,} annotations, and a simulated one with
10,000 items, 2,500 workers and ten classes.{busy}

{table(["set", "annotations", "crowd-kit", *HEADS.values()], rows)}

crowd-kit's time divided by ours, over the sets:

{table(["answer", "median", "least", "greatest", "sets at least as fast", "of"], summary)}

## Of the processor

{of_the_processor(runs)}

## The first answer

On `rte` (8,000 annotations) in a new process, seconds from start to end, imports included. In Python: the default model, true
labels and workers with intervals. The command, by EM: with all result files. *First use*: with an empty cache, and the machine
code that the installation made. *Without machine code*: as where it does not fit the processor, Python or numba; functions are
then compiled at first use.

{table(["", "seconds", "of the processor"], lines)}"""


def main() -> None:
    """Measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="*", help="sets to measure")
    parser.add_argument("--command", action="store_true", help="the command only; figures of the sets are kept")
    parser.add_argument("--quick", action="store_true", help="one small set, to see that it runs; writes no page")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    kept = {}
    options.only = [] if options.command else options.only
    if options.only is not None and (story := records.load("time_to_answer", records.folder_of(options.out))):
        kept = story["results"]["sets"]
    runs: dict[str, dict[str, Any]] = {}
    for name in ["bluebirds"] if options.quick else names():
        if options.only is not None and name not in options.only:
            if name in kept:
                runs[name] = kept[name]
            continue
        runs[name] = apart(name)
        print(name, runs[name], flush=True)
    commands = cold()
    write(
        "time_to_answer",
        "Time to the answer",
        page(runs, commands),
        {"sets": runs, "commands": commands},
        options,
    )


if __name__ == "__main__":
    main()
