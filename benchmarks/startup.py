"""CPU time of starting the library and the command, as ratio to Python alone and to ``import torch`` in the same run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, processor_time, table, write

ROOT = Path(__file__).resolve().parents[1]
ITEMS, WORKERS, PER_ITEM = 100, 10, 3
COMMAND = ("-m", "crowdppl")


def programs(file: Path, out: Path) -> dict[str, tuple[str, ...]]:
    """Return the arguments of Python for each program, by its name in the table."""
    data = "from crowdppl.data import datasets; data = datasets.anaesthesia()"
    fit = "crowdppl.fit(data, method='em').truth()"
    return {
        "`python -c pass`": ("-c", "pass"),
        "`import torch`": ("-c", "import torch"),
        "`import torch, pyro, pandas, xarray, scipy.sparse`": (
            "-c",
            "import torch, pyro, pandas, xarray, scipy.sparse",
        ),
        "`import crowdppl`": ("-c", "import crowdppl"),
        "`crowdppl --help`": (*COMMAND, "--help"),
        "`crowdppl fit --help`": (*COMMAND, "fit", "--help"),
        "`crowdppl.fit(data, method='em').truth()`": ("-c", f"import crowdppl; {data}; {fit}"),
        f"`crowdppl fit`, {ITEMS * PER_ITEM} annotations, EM": (
            *(*COMMAND, "fit", str(file), "--method", "em", "--out", str(out), "--overwrite"),
        ),
    }


def cpu_seconds(words: tuple[str, ...]) -> float:
    """Run Python to its end; return its CPU time, user and system, which other processes hardly change."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    before = processor_time()
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment)
    return processor_time() - before


def simulate(file: Path) -> None:
    """Write a small table of annotations by workers who are correct with probability .8."""
    rng = np.random.default_rng(0)
    lines = ["task,worker,label"]
    for item in range(ITEMS):
        truth = rng.integers(2)
        for worker in rng.choice(WORKERS, PER_ITEM, replace=False):
            lines.append(f"t{item},w{worker},{'ab'[truth if rng.random() < 0.8 else 1 - truth]}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Run every program several times, in turn."""
    options = arguments(__doc__ or "")
    repeats = 1 if options.quick else 9
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "labels.csv"
        simulate(file)
        chosen = programs(file, Path(folder) / "results")
        for words in chosen.values():  # writes compiled modules, and fills the system's cache of files
            cpu_seconds(words)
        times: dict[str, list[float]] = {name: [] for name in chosen}
        for _ in range(repeats):
            for name, words in chosen.items():
                times[name].append(cpu_seconds(words))
    medians = {name: float(np.median(values)) for name, values in times.items()}
    python, torch = (medians[name] for name in list(chosen)[:2])
    rows: list[list[Any]] = [
        [name, f"{seconds:.2f}", f"{seconds / python:.1f}", f"{seconds / torch:.2f}"]
        for name, seconds in medians.items()
    ]
    header = ["program", "CPU seconds", "ratio to `python -c pass`", "ratio to `import torch`"]
    body = f"""CPU seconds, user and system, of a process from start to end; median of {repeats} runs, the programs in turn.
Ratios within one run depend less on the machine than seconds.

{table(header, rows)}

The names of the library and the commands import torch, Pyro, pandas, xarray and SciPy when they need them, so that neither
`import crowdppl` nor the help does ([how](../architecture.md#imports)). The last two programs need most of these packages; the
third row is the time of importing them. `crowdppl fit` also makes draws, tables of workers and a folder of results, for which it
imports ArviZ and h5netcdf. `tests/test_startup.py` checks which packages are imported, not the time.
"""
    write("startup", "Start-up time", body, {"medians": medians, "times": times}, options)


if __name__ == "__main__":
    main()
