"""Fits of which each process reads and holds its share: results and peak memory of two and four processes beside those of one.

Data are simulated in a temporary folder. Every process prints its peak memory above what its imports take as a line of JSON.

    python benchmarks/ranks.py [annotations, in millions]
"""

from __future__ import annotations

import json
import os
import resource
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

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "ranks.md"
EACH, WORKERS, FILE = 10, 20_000, 1_000_000
RANKS = (1, 2, 4)
# Sweeps of Gibbs sampling: the warm-up, and those that count, of two chains.
SWEEPS = (2, 6)


def peak() -> float:
    """Return the peak memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


# ---------------------------------------------------------------------- one process of a run


def work(path: str, out: str, method: str) -> None:
    """Fit as one of the processes, and print what it took."""
    from crowdppl.inference import distributed, passes
    from crowdppl.inference.sharded import distribute

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


def text(lines: Sequence[dict[str, Any]], millions: int) -> str:
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


def main(millions: int) -> None:
    """Run everything and write the page's table."""
    lines: list[dict[str, Any]] = []
    for by_item, methods in ((True, ("em", "gibbs")), (False, ("em",))):
        with tempfile.TemporaryDirectory() as place:
            simulate(Path(place), millions, by_item=by_item)
            for method in methods:
                lines += rows(Path(place), millions, method, "by item" if by_item else "in random order")
    print(text(lines, millions))


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(*sys.argv[2:5])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
