"""Shared by all benchmarks: timing, a description of the machine, and the output of results."""

from __future__ import annotations

import argparse
import os
import platform
import resource
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import records
import torch

import crowdppl
from crowdppl import Annotations, CrowdpplWarning, Posterior

SETS = (
    "rte",
    "bluebirds",
    "product",
    "dog",
    "face",
    "labelme",
    "pos-sentiment",
    "zencrowd-us",
    "music-genre",
    "fact-eval",
    "imagenet-real",
)
PACKAGES = ("crowdppl", "torch", "pyro-ppl", "numpy", "scipy", "crowd-kit", "numpyro", "jax")


def arguments(description: str, parts: Sequence[str] = ()) -> argparse.Namespace:
    """Read ``--quick`` and ``--out``, and ``--only`` where a benchmark has parts that can be measured by themselves."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs; writes nothing")
    parser.add_argument("--out", type=Path, default=records.PAGES, help="folder for the table [docs/benchmarks]")
    if parts:
        parser.add_argument("--only", nargs="*", choices=parts, help="parts to measure; the others keep their figures")
    return parser.parse_args()


def kept_figures(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of an earlier run by part, where ``--only`` names some to measure again; else none."""
    earlier = None if options.only is None else records.load(name, records.folder_of(options.out))
    return {} if earlier is None else dict(earlier["results"])


def median_seconds(work: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median time of a piece of work, after one run to warm up."""
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def fit(data: Annotations, model: Any, **options: Any) -> tuple[Posterior, float]:
    """Fit the model, as published by default, without printing warnings; return the whole result and the seconds it took.

    Warnings stay in ``Posterior.warnings``.
    """
    options = {"independent": "rho" not in options} | options
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        posterior = crowdppl.fit(data, model, **options)
        _ = posterior.tree  # with draws for intervals, which EM makes on first use
    return posterior, time.perf_counter() - began


def machine() -> str:
    """Describe the machine and the versions of packages."""
    versions = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    cores = f"{os.cpu_count()} cores ({', '.join([f'{torch.get_num_threads()} threads', *caches()])})"
    return f"{cores}, Python {platform.python_version()}, {', '.join(versions)}"


def caches() -> list[str]:
    """Return the sizes of the data caches, on Linux: the time of a pass over large tables depends on them."""
    sizes = []
    for path in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")):  # empty on some machines
        level, kind, size = (path.with_name(name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            kib = int(size.removesuffix("K"))
            sizes.append(f"L{level} {kib} KiB" if kib < 1024 else f"L{level} {kib / 1024:.3g} MiB")
    return sizes


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Format a Markdown table: text left-aligned, numbers right-aligned."""
    right = [not isinstance(value, str) or value[:1].isdigit() for value in rows[0]]
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join("--:" if r else "---" for r in right) + "|"]
    lines += ["| " + " | ".join(show(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def show(value: Any) -> str:
    """Write a number in few digits."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if isinstance(value, (float, np.floating)):
        return "–" if np.isnan(value) else f"{value:.4g}"
    return str(value)


def spread(values: Sequence[float]) -> str:
    """Write mean and standard deviation over runs, in per cent."""
    return f"{100 * np.mean(values):.2f} ± {100 * np.std(values, ddof=1) if len(values) > 1 else 0:.2f}"


def processor_time() -> float:
    """Return the seconds of the processor, user and system, that ended child processes took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def write(
    name: str, title: str, body: str, results: Any, options: argparse.Namespace, script: str | None = None
) -> None:
    """Print the page and, unless ``--quick``, write it, and its figures; ``script`` defaults to ``name``."""
    page = f"# {title}\n\nRerun: `python benchmarks/{script or name}.py`. Ran on {machine()}.\n\n{body.strip()}\n"
    print(page)
    if options.quick:
        return
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{name.replace('_', '-')}.md").write_text(page, encoding="utf-8")
    records.save(name, {"machine": machine(), "results": results}, records.folder_of(options.out))
