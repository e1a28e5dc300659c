"""Fits of which each process reads and holds its share: results and peak memory of two and four processes beside those of one.

Data are simulated in a temporary folder. Every process prints its peak memory above what its imports take as a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow
import pyarrow.compute
import pyarrow.parquet

EACH, WORKERS, FILE = 10, 20_000, 1_000_000
RANKS = (1, 2, 4)
BY_ITEM, ANY_ORDER = "by item", "in random order"
# Sweeps of Gibbs sampling: the warm-up, and those that count, of two chains.
SWEEPS = (2, 6)


def peak() -> float:
    """Return the peak memory of this process in GB; that of getrusage begins with the memory of the process that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e9


# ---------------------------------------------------------------------- one process of a run


def work(path: str, out: str, method: str) -> None:
    """Fit as one of the processes, and print what it took."""
    from crowdppl.inference import distributed
    from crowdppl.inference.backends import passes
    from crowdppl.inference.scale.sharded import distribute

    assert passes.compiled() is not None
    before = peak()
    report: dict[str, Any] = {}
    with distributed.joined() as rank0:
        if rank0:
            began, marks = time.perf_counter(), []

            def progress(step: int, steps: int, what: str) -> None:
                marks.append((time.perf_counter() - began, what))

            sweeps = {"chains": 2, "warmup": SWEEPS[0], "num_samples": SWEEPS[1]}
            result = distribute(path, method=method, consensus=out, progress=progress, **sweeps)  # type: ignore[arg-type]
            result.workers.to_parquet(f"{out}.workers")
            report = {"seconds": time.perf_counter() - began, "facts": result.facts, "annotations": result.annotations}
    print(json.dumps(report | {"rank": int(os.environ.get("RANK", 0)), "memory": peak() - before}), flush=True)


# ---------------------------------------------------------------------- the benchmark


def simulate(folder: Path, millions: int, *, by_item: bool) -> None:
    """Write annotations of two classes, a million rows a file: by item, or in random order."""
    rng = np.random.default_rng(1)
    rows = millions * FILE
    truth = rng.random(rows // EACH) < 0.4
    accuracy = rng.beta(8, 3, WORKERS)
    for number in range(millions):
        first = number * FILE
        item = np.arange(first, first + FILE) // EACH if by_item else rng.integers(0, len(truth), FILE)
        worker = rng.integers(0, WORKERS, FILE)
        label = truth[item] ^ (rng.random(FILE) >= accuracy[worker])
        table = {
            "task": _named("item-", item, 9),
            "worker": _named("worker-", worker, 5),
            "label": pyarrow.DictionaryArray.from_arrays(label.astype(np.int8), ["no", "yes"]).dictionary_decode(),
        }
        pyarrow.parquet.write_table(pyarrow.table(table), folder / f"{number:05d}.parquet")


def _named(prefix: str, numbers: npt.NDArray[Any], digits: int) -> Any:
    text = pyarrow.compute.utf8_lpad(pyarrow.array(numbers).cast(pyarrow.string()), digits, "0")
    return pyarrow.compute.binary_join_element_wise(prefix, text, "")


def run(path: Path, out: Path, method: str, ranks: int) -> list[dict[str, Any]]:
    """Start processes, as ``torchrun`` would on one machine, and return their reports by rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in range(ranks):
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        if ranks > 1:
            numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "ranks"}
            environment |= {name: str(value) for name, value in (numbers | place).items()}
        command = [sys.executable, __file__, "work", str(path), str(out), method]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
    reports = [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]
    assert not any(process.returncode for process in started)
    return sorted(reports, key=lambda report: int(report["rank"]))


def probabilities(folder: Path, items: int) -> npt.NDArray[np.float64]:
    """Return the probability of the first class by number of the item, ``(N,)``; not a number for items without annotations."""
    out = np.full(items, np.nan)
    for path in folder.glob("*.parquet"):
        table = pyarrow.parquet.read_table(path, columns=["task", "p_no"])
        number = pyarrow.compute.utf8_slice_codeunits(table["task"], 5).cast(pyarrow.int64())
        out[number.to_numpy()] = table["p_no"].to_numpy()
    return out


def rows(folder: Path, millions: int, method: str, order: str) -> list[dict[str, Any]]:
    """Compare one process and several on the same data."""
    lines: list[dict[str, Any]] = []
    first: tuple[npt.NDArray[np.float64], pd.DataFrame] | None = None
    for ranks in RANKS:
        with tempfile.TemporaryDirectory() as place:
            reports = run(folder, Path(place) / "truth", method, ranks)
            truth = probabilities(Path(place) / "truth", millions * FILE // EACH)
            workers = pd.read_parquet(Path(place) / "truth.workers")
        line = {"method": method, "order": order, "ranks": ranks, "memory": [report["memory"] for report in reports]}
        line |= {"seconds": reports[0]["seconds"], "facts": reports[0]["facts"]}
        if first is None:
            first = truth, workers
        assert np.array_equal(np.isnan(truth), np.isnan(first[0]))
        line["truth"] = float(np.nanmax(np.abs(truth - first[0])))
        line["workers"] = float(np.abs(workers["accuracy"] - first[1]["accuracy"]).max())
        print(json.dumps(line), flush=True)
        lines.append(line)
    return lines


def text(lines: Sequence[dict[str, Any]]) -> str:
    """Return the table of the page."""
    out = [
        "| method | rows | processes | memory of each above imports, GB | largest, relative to one process | seconds "
        "| largest difference of a probability | of a worker's accuracy |",
        "|---|---|--:|---|--:|--:|--:|--:|",
    ]
    for line in lines:
        alone = next(
            max(one["memory"])
            for one in lines
            if (one["method"], one["order"], one["ranks"]) == (line["method"], line["order"], 1)
        )
        memory = ", ".join(f"{value:.2f}" for value in line["memory"])
        share = f"{max(line['memory']) / alone:.2f}".lstrip("0")
        differences = ["", ""] if line["ranks"] == 1 else [_number(line[name]) for name in ("truth", "workers")]
        name = "EM" if line["method"] == "em" else "Gibbs"
        cells = [name, line["order"], str(line["ranks"]), memory, share, f"{line['seconds']:.0f}", *differences]
        out.append(f"| {' | '.join(cells)} |")
    return "\n".join(out)


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.0e}"


def page(lines: Sequence[dict[str, Any]], millions: int) -> str:
    """Return the text of the page."""
    by = {(line["method"], line["order"], line["ranks"]): max(line["memory"]) for line in lines}
    two, four = (by["em", BY_ITEM, ranks] for ranks in RANKS[1:])
    marginal = (two - four) * 1e9 / (millions * FILE / 4)
    alone = by["em", BY_ITEM, 1] * 1e9 / (millions * FILE)
    share = 10_000 / 256
    least, most = marginal * share / 1e3 + 2 * four - two, alone * share / 1e3
    work = next(
        line["seconds"] for line in lines if (line["method"], line["order"], line["ranks"]) == ("em", BY_ITEM, 2)
    )
    seconds = work * 2 / millions * share
    steps = lines[0]["facts"]["evaluations"]
    return f"""
{millions} million annotations of two classes, ten an item, by {WORKERS:,} workers, with names, in {millions} Parquet files.
Processes have one thread each and run on one machine; each reads and holds its share
([guide](../guide/scale.md#beyond-one-machine)). Memory is the peak of each process above what its imports take, compiled passes
included. EM runs to convergence ({steps} E steps); Gibbs sampling takes {sum(SWEEPS)} sweeps of two chains, far too few for
results, enough for a comparison. Seconds are from start to written results; other work shared the machine's two cores.

{text(lines)}

Probabilities are those of all items, compared with one process. EM differs by rounding, since sums are added in another order.
Gibbs sampling has the same bits. In random order, where the hash of an item's name decides whose it is, processes exchange nearly
all rows.

## On paper: 10 billion annotations

Nothing of this size was run. From two to four processes memory falls by {marginal:.0f} bytes for each annotation that a process
holds less, names and items included; one process has {alone:.0f} bytes an annotation at its peak, when names of items are
compared: their hash table grows by doubling. 256 processes, sixteen on each of sixteen machines, hold {share:.0f} million
annotations each: {least:.1f} to {most:.1f} GB each, {16 * least:.0f} to {16 * most:.0f} GB a machine. To these come tables of
the workers, which every process has: with a million workers and two classes about 32 MB each, a few times over, and as much is
sent at each step. {work:.0f} s of two processes for {millions} million annotations are {work * 2 / millions:.1f} s of a process
for a million: {seconds:.0f} s for a share, reading and {steps} steps of EM included, if the storage is fast enough for all
processes at once.
"""


def publish(lines: Sequence[dict[str, Any]], millions: int, options: argparse.Namespace) -> None:
    """Write the page."""
    from common import write

    title = "Each process with its share of the data"
    write("ranks", title, page(lines, millions), {"millions": millions, "lines": lines}, options)


def main(options: argparse.Namespace) -> None:
    """Run everything and write the page."""
    millions = 2 if options.quick else 50
    lines: list[dict[str, Any]] = []
    for by_item, methods in ((True, ("em", "gibbs")), (False, ("em",))):
        with tempfile.TemporaryDirectory() as place:
            simulate(Path(place), millions, by_item=by_item)
            for method in methods:
                lines += rows(Path(place), millions, method, BY_ITEM if by_item else ANY_ORDER)
    publish(lines, millions, options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(*sys.argv[2:5])
    else:
        from common import arguments

        main(arguments(__doc__.splitlines()[0]))
