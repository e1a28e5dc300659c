"""Time and memory of EM and Gibbs, compared with memory bandwidth, crowd-kit, peerannot and scipy, up to 100 million annotations.

Every measurement runs in a process of its own, so that its peak memory is its own. ``--only NAME`` runs some of them and keeps
the figures of the others.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import records
import torch
from common import machine, median_seconds, table

SIZES = {  # items, workers, annotations, classes
    "500k x 10": (10_000, 2_500, 500_000, 10),
    "5M x 4": (1_000_000, 50_000, 5_000_000, 4),
    "5M x 100": (1_000_000, 10_000, 5_000_000, 100),
    "50M x 2": (10_000_000, 500_000, 50_000_000, 2),
    "100M x 2": (20_000_000, 1_000_000, 100_000_000, 2),
    "5M x 2": (1_000_000, 50_000, 5_000_000, 2),
    "20M x 2": (4_000_000, 200_000, 20_000_000, 2),
}
GROWTH = ("5M x 2", "20M x 2", "50M x 2", "100M x 2")
# Growing numbers of annotations with a constant number of workers.
STEADY = {f"{A}M": (A * 200_000, 50_000, A * 1_000_000, 2) for A in (5, 20, 50, 100)}
WORKERS = {f"{J:,} workers": (1_000_000, J, 5_000_000, 4) for J in (64, 1_000, 10_000, 100_000, 500_000)}
CLASSES = {f"{K} classes": (1_000_000, 10_000, 5_000_000, K) for K in (2, 3, 4, 6, 8, 12, 24, 48)}
# Data for EM with twenty restarts.
SMALL = {"1k x 3": (200, 20, 1_000, 3), "8k x 3": (800, 40, 8_000, 3), "30k x 3": (3_000, 100, 30_000, 3)}
LINE = 64  # bytes of a cache line


def simulate(
    items: int, workers: int, annotations: int, classes: int, *, uneven: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw annotations by workers who are correct with probability .4 to .95.

    All are equally busy, the hardest case for caches, or ``uneven``, as in real crowds: a tenth of them give half of the
    annotations (and come first, as busy workers do where names are numbered as they appear).
    """
    rng = np.random.default_rng(0)
    item = np.repeat(np.arange(items), annotations // items)
    worker = rng.integers(0, workers, len(item))
    if uneven:
        worker = (workers * rng.random(len(item)) ** (np.log(0.1) / np.log(0.5))).astype(np.int64)
    truth = rng.integers(0, classes, items)
    right = rng.random(len(item), dtype=np.float32) < rng.uniform(0.4, 0.95, workers).astype(np.float32)[worker]
    label = np.where(right, truth[item], rng.integers(0, classes, len(item)))
    return item, worker, label


def annotations(size: tuple[int, int, int, int], *, uneven: bool = False) -> Any:
    """Make data from codes, as a reader returns them."""
    from crowdppl import Annotations

    item, worker, label = map(torch.from_numpy, simulate(*size, uneven=uneven))
    names = [np.arange(n) for n in (size[0], size[1], size[3])]
    truth = torch.full((size[0],), -1)
    return Annotations(
        item=item, worker=worker, label=label, truth=truth, items=names[0], workers=names[1], labels=names[2]
    )


def bandwidth() -> float:
    """Return bytes per second, read and written, of a copy of 200 MB, several times the size of the caches."""
    a = torch.zeros(25_000_000, dtype=torch.float64)
    b = torch.empty_like(a)
    return 2 * 8 * len(a) / min(median_seconds(lambda: b.copy_(a), 3) for _ in range(3))


def peak() -> float:
    """Return the peak memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def em(size: tuple[int, int, int, int], iterations: int = 30, uneven: bool = False) -> dict[str, float]:
    """Time plain EM iterations of Dawid-Skene as in the engine: E step, objective, M step."""
    from crowdppl.inference.engines.em_loop import EMLoop
    from crowdppl.inference.engines.m_step import MStep
    from crowdppl.inference.engines.unconstrained import Space
    from crowdppl.kernels.passes import NARROW
    from crowdppl.model.bound import bind
    from crowdppl.model.contract import check
    from crowdppl.models import DawidSkene

    rate = bandwidth()
    data = annotations(size, uneven=uneven)
    model = bind(DawidSkene(), data)
    began = time.perf_counter()
    with torch.no_grad():
        space = Space(check(model, data))
        loop = EMLoop(MStep(model, data, space), iterations, -1.0, lambda *_: None)
        start = model.initial(data)
        theta = loop.begin(start)
        del start
        loop.expectation(theta)
        ready = time.perf_counter() - began
        times, spare = [], None
        for _ in range(iterations):
            began = time.perf_counter()
            _, _, r = loop.expectation(theta)
            # As in the engine, the memory of the previous parameters is reused.
            theta, spare = loop.expectation.maximise(r, theta, spare), theta
            times.append(time.perf_counter() - began)
    N, _, A, K = size
    # Minimal memory traffic of a pass: a code for each annotation, the first annotation of each item, the tables and their
    # counts.
    arrays = 4 * A + 8 * N + 2 * 8 * size[1] * K * K
    # If no near cache holds the table, each annotation's row is read and written back in whole cache lines. A wide row is only
    # read, but the responsibilities of its item are written and read.
    wide = K > NARROW
    rows = 2 * A * -(-8 * K // LINE) * LINE + 8 * N * K if wide else A * max(1, -(-2 * 8 * K // LINE)) * LINE * 2
    figures = {
        "iteration": float(np.median(times)),
        "total": float(sum(times)),
        "ready": ready,
        "arrays floor": arrays / rate,
        "lines floor": (arrays + rows) / rate,
        "bandwidth": rate / 1e9,
        "peak": peak(),
        "compiled": float(loop.expectation.name == "passes"),
    }
    return figures


def gathering(size: tuple[int, int, int, int]) -> dict[str, float]:
    """Time only the reading of each annotation's row of its worker's table, without sums and writes."""
    _, J, A, K = size
    worker, label = (torch.from_numpy(part) for part in simulate(*size)[1:])
    index, rows = worker * K + label, torch.rand(J * K, K, dtype=torch.float64)
    step = 20_000
    out = torch.empty(step, K, dtype=torch.float64)  # stays in the caches

    def read() -> None:
        for begin in range(0, A, step):
            torch.index_select(rows, 0, index[begin : begin + step], out=out)

    return {"seconds": median_seconds(read), "bandwidth": bandwidth() / 1e9, "peak": peak()}


def products(size: tuple[int, int, int, int]) -> dict[str, float]:
    """Time the two sparse products of an iteration, by scipy."""
    import scipy.sparse

    item, worker, label = simulate(*size)
    N, J, A, K = size
    matrix = scipy.sparse.csr_array((np.ones(A), (item, worker * K + label)), shape=(N, J * K))
    turned = matrix.T.tocsr()
    table_, r = np.random.default_rng(0).random((J * K, K)), np.random.default_rng(1).random((N, K))
    return {
        "iteration": median_seconds(lambda: matrix @ table_, 3) + median_seconds(lambda: turned @ r, 3),
        "peak": peak(),
    }


def crowd_kit(size: tuple[int, int, int, int]) -> dict[str, float]:
    """Time an iteration of crowd-kit's Dawid-Skene on named items and workers."""
    from crowdkit.aggregation import DawidSkene

    frame = pd.DataFrame(dict(zip(("task", "worker", "label"), simulate(*size), strict=True)))
    frame = frame.assign(**{column: column[0] + frame[column].astype(str) for column in frame})
    each, more = [], 2
    # Times of short fits vary by half between fits.
    for _ in range(7 if size[2] < 1_000_000 else 1):
        seconds = []
        for count in (1, 1 + more):
            began = time.perf_counter()
            DawidSkene(n_iter=count, tol=0.0).fit(frame)
            seconds.append(time.perf_counter() - began)
        each.append((seconds[1] - seconds[0]) / more)
    return {"iteration": float(np.median(each)), "peak": peak()}


def peerannot(size: tuple[int, int, int, int]) -> dict[str, float]:
    """Time an iteration of peerannot's Dawid-Skene, which holds a cell for each item, worker and class."""
    from peerannot.models.aggregation.dawid_skene import DawidSkene

    N, J, _, K = size
    answers: dict[int, dict[int, int]] = {item: {} for item in range(N)}
    for item, worker, label in zip(*(part.tolist() for part in simulate(*size)), strict=True):
        answers[item][worker] = label
    model = DawidSkene(answers, n_workers=J, n_classes=K)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        model.run(maxiter=1)
    return {"iteration": time.perf_counter() - began, "peak": peak()}


def gibbs(size: tuple[int, int, int, int], sweeps: int = 10) -> dict[str, float]:
    """Time a sweep of the Gibbs sampler and an iteration of EM on the same data."""
    from crowdppl.inference.backends.passes import Sweeps
    from crowdppl.model.bound import bind
    from crowdppl.models import DawidSkene

    data = annotations(size)
    model = bind(DawidSkene(), data)
    conjugacy = model.conjugacy
    assert conjugacy is not None
    with torch.no_grad():
        passes = Sweeps.over(data)
        theta = conjugacy.m_step(passes.given(model.initial(data)))

        def step() -> None:
            conjugacy.gibbs_step(passes.draw(*model.tables(theta, data))[1])

        def iteration() -> None:
            conjugacy.m_step(passes.expect(*model.tables(theta, data)))
            model.log_prior(theta, data)

        return {"sweep": median_seconds(step, sweeps), "iteration": median_seconds(iteration, sweeps), "peak": peak()}


def sampled(name: str) -> dict[str, float]:
    """Time four chains of 1,000 sweeps on a public set, after 500 of warm-up."""
    from common import fit

    from crowdppl.data import datasets

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, _ = datasets.public(name)
    posterior, seconds = fit(data, "dawid-skene", method="gibbs")
    facts = posterior.info["facts"]
    return {
        "seconds": seconds,
        "annotations": data.A,
        "r_hat": max(facts["r_hat"].values(), default=1.0),
        "ess": min(facts["ess"].values(), default=math.nan),
        "peak": peak(),
    }


def restarts(size: tuple[int, int, int, int]) -> dict[str, float]:
    """Time EM with twenty restarts in one batch, and one after the other."""
    from crowdppl import fit
    from crowdppl.inference import memory

    def seconds() -> float:
        options = {"restarts": 20, "num_samples": 1, "independent": True}
        return median_seconds(lambda: fit(data, "dawid-skene", method="em", **options), 5)

    data = annotations(size)
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        together, memory.WORK_BYTES = seconds(), 1
        return {"together": together, "in turn": seconds()}


def processes(size: str) -> dict[str, float]:
    """Time EM iterations in two processes with one thread each, see processes.py."""
    script = Path(__file__).with_name("processes.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", script, size]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    ranks = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    first, other = (next(one for one in ranks if one["rank0"] is rank0) for rank0 in (True, False))
    return {"iteration": first["iteration"], "peak": first["peak"], "peak of the other rank": other["peak"]}


def labels(path: str, whose: str, runs: int) -> dict[str, float]:
    """Go from a file of annotations with named items and workers to a label for each item (labels.py); return the median run."""
    script, results = Path(__file__).with_name("labels.py"), []
    for _ in range(runs):
        ended = subprocess.run([sys.executable, script, whose, path], capture_output=True, text=True, check=True)
        results.append(dict(json.loads(ended.stdout.strip().splitlines()[-1])))
    return sorted(results, key=lambda one: one["seconds"])[runs // 2]


def streamed(path: str) -> dict[str, float]:
    """Go from a Parquet file to labels without holding the annotations."""
    import crowdppl

    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        result = crowdppl.stream(path, consensus=Path(folder) / "truth.parquet")
    return {"seconds": time.perf_counter() - began, "items": result.items, "peak": peak()}


def simulated_file(size: str, ending: str, folder: str) -> str:
    """Write a file of named annotations, unless it exists."""
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    path = Path(folder) / f"{size.replace(' ', '')}.{ending}"
    if not path.exists():
        columns = simulate(*SIZES[size])
        names = {}
        for name, values in zip(("task", "worker", "label"), columns, strict=True):
            text = pyarrow.array(values).cast(pyarrow.string())
            names[name] = pyarrow.compute.binary_join_element_wise(pyarrow.scalar(f"{name}-"), text, "")
        whole = pyarrow.table(names)
        if ending == "csv":
            pyarrow.csv.write_csv(whole, path)
        else:
            pyarrow.parquet.write_table(whole, path)
    return str(path)


JOBS: dict[str, tuple[Callable[..., dict[str, float]], tuple[Any, ...]]] = (
    {f"em {name}": (em, (size, 5 if name == "5M x 100" else 30)) for name, size in SIZES.items()}
    | {f"em uneven {name}": (em, (SIZES[name], 30, True)) for name in ("5M x 4", "50M x 2")}
    | {f"growth {name}": (em, (size, 10)) for name, size in (WORKERS | CLASSES).items()}
    | {f"steady {name}": (em, (size, 10)) for name, size in STEADY.items()}
    | {f"gathering {name}": (gathering, (SIZES[name],)) for name in ("5M x 4", "50M x 2")}
    | {f"products {name}": (products, (SIZES[name],)) for name in ("500k x 10", "5M x 4", "50M x 2")}
    | {f"crowd-kit {name}": (crowd_kit, (SIZES[name],)) for name in ("500k x 10", "5M x 4")}
    | {"peerannot 500k x 10": (peerannot, (SIZES["500k x 10"],))}
    | {"processes 50M x 2": (processes, ("50M x 2",))}
    | {f"restarts {name}": (restarts, (size,)) for name, size in SMALL.items()}
    | {"gibbs 5M x 4": (gibbs, (SIZES["5M x 4"],))}
    | {f"sampled {name}": (sampled, (name,)) for name in ("imagenet-real", "fact-eval")}
    | {
        f"labels ours {name} {ending}": (labels, ((name, ending), "ours", runs))
        # Times of a few seconds vary by a third.
        for name, ending, runs in (("5M x 4", "csv", 5), ("50M x 2", "parquet", 1))
    }
    | {"labels crowd-kit 5M x 4 csv": (labels, (("5M x 4", "csv"), "crowd-kit", 1))}
    | {"streamed 50M x 2": (streamed, (("50M x 2", "parquet"),))}
)


def floors(results: dict[str, dict[str, float]]) -> list[str]:
    """Report the limiting factors of a pass: arithmetic, and reading from memory."""
    ours, near, read = (results.get(name) for name in ("em 5M x 4", "growth 64 workers", "gathering 5M x 4"))
    if not (ours and near and read):
        return []
    bytes_ = 1e3 * ours["arrays floor"]
    alone, reading = 1e3 * near["iteration"], 1e3 * read["seconds"]
    text = (
        f"Limiting factors at 5M x 4: moving the arrays once takes {bytes_:.1f} ms. With 64 workers, whose tables stay in the L1 "
        f"cache, an iteration takes {alone:.1f} ms, {alone / bytes_:.1f} times as long; this is the time of its arithmetic. "
        "Reading each annotation's row of the tables of 50,000 workers with torch's `index_select`, which does not prefetch, "
        f"takes {reading:.1f} ms, {reading / bytes_:.1f} times as long. A whole iteration, which prefetches, takes "
        f"{1e3 * ours['iteration']:.1f} ms."
    )
    parts = [text]
    for title, sizes, column in (("workers", WORKERS, 1), ("classes", CLASSES, 3)):
        rows = [
            [
                sizes[name][column],
                1e3 * f["iteration"],
                f["iteration"] / f["arrays floor"],
                f["iteration"] / f["lines floor"],
                f["peak"],
            ]
            for name in sizes
            if (f := results.get(f"growth {name}"))
        ]
        about = "5M annotations, 4 classes" if column == 1 else "5M annotations, 10,000 workers"
        parts.append(
            f"Growth with {title} ({about}):\n\n"
            + table([title, "ms per iteration", "x bytes", "x lines", "peak GB"], rows)
        )
    return parts


def page(results: dict[str, dict[str, float]]) -> str:
    """Format the figures."""
    lines = []
    for name, (N, J, _, _) in SIZES.items():
        ours, ck, sp, pa = (results.get(f"{kind} {name}") for kind in ("em", "crowd-kit", "products", "peerannot"))
        if ours is None:
            continue
        t = ours["iteration"]
        lines.append(
            [
                name,
                f"{N:,} items, {J:,} workers",
                1e3 * t,
                t / ours["arrays floor"],
                t / ours["lines floor"],
                sp["iteration"] / t if sp else None,
                ck["iteration"] / t if ck else None,
                pa["iteration"] / t if pa else None,
                ours["peak"],
            ]
        )
    header = [
        "annotations x classes",
        "",
        "ms per iteration",
        "x bytes",
        "x lines",
        "scipy's products",
        "crowd-kit",
        "peerannot",
        "peak GB",
    ]
    parts = ["## An EM iteration of Dawid–Skene\n\n" + table(header, lines)]
    parts.append(
        "E step, objective and M step, float64, default prior. Items and workers are random, and all workers give equally many "
        "annotations, which is the worst case for caches. *x bytes*: time divided by that of moving each array once (a code for "
        "each annotation, the first annotation of each item, the tables and their counts) at the bandwidth of a large copy in "
        "the same process. *x lines*: the same if each annotation's row of its worker's table is read from memory and written "
        "back in whole cache lines of 64 bytes; with more than eight classes, if that row is read and the responsibilities of "
        "its item are written and read. The three columns before the peak: time of scipy's two sparse products, and of an "
        "iteration of crowd-kit and of peerannot, divided by ours (peerannot holds a cell for each item, worker and class: 200 "
        "GB at 5M x 4)."
    )
    parts += floors(results)
    uneven = [
        f"{name} {1e3 * f['iteration']:.0f} ms ({f['iteration'] / f['arrays floor']:.1f} x bytes)"
        for name in ("5M x 4", "50M x 2")
        if (f := results.get(f"em uneven {name}"))
    ]
    if uneven:
        parts.append(f"If a tenth of the workers give half of the annotations, as in real crowds: {', '.join(uneven)}.")
    for of, jobs, sizes in (
        (", items and workers", [f"em {name}" for name in GROWTH], [SIZES[name] for name in GROWTH]),
        (" and items, with 50,000 workers", [f"steady {name}" for name in STEADY], list(STEADY.values())),
    ):
        growth = [(size[2], results[job]["iteration"]) for job, size in zip(jobs, sizes, strict=True) if job in results]
        if len(growth) > 2:
            slope = np.polyfit(np.log([a for a, _ in growth]), np.log([t for _, t in growth]), 1)[0]
            times = ", ".join(f"{a / 1e6:g} M: {1e3 * t:,.0f} ms" for a, t in growth)
            parts.append(
                f"Growth with annotations{of}, two classes: {times}. The slope of log time on log annotations is {slope:.2f}; "
                f"linear growth has 1."
            )
    large = results.get("em 100M x 2")
    if large:
        parts.append(
            f"100 million annotations: ready after {large['ready']:.0f} s, 30 iterations in {large['total']:.0f} s, peak "
            f"{large['peak']:.1f} GB."
        )
    alone, shared = results.get("em 50M x 2"), results.get("processes 50M x 2")
    if alone and shared:
        parts.append(
            f"Two processes with one thread each, started by torchrun, at 50M x 2: {1e3 * shared['iteration']:.0f} ms per "
            f"iteration; one process with two threads takes {1e3 * alone['iteration']:.0f} ms on the same two cores. Peak memory "
            f"is {shared['peak']:.1f} GB in rank 0 and {shared['peak of the other rank']:.1f} GB in the other rank."
        )
    rows = [
        [name, 1e3 * f["together"], 1e3 * f["in turn"], f["in turn"] / f["together"]]
        for name in SMALL
        if (f := results.get(f"restarts {name}"))
    ]
    if rows:
        parts.append(
            "Time of a whole fit by EM with twenty restarts, in one batch (used as long as its arrays fit into the caches) and "
            "one after the other:\n\n"
            + table(["annotations x classes", "ms in one batch", "ms one by one", "ratio"], rows)
        )
    sweep = results.get("gibbs 5M x 4")
    if sweep:
        parts.append(
            "## Gibbs sampling\n\n"
            f"A sweep at 5M x 4 takes {1e3 * sweep['sweep']:.0f} ms, "
            f"as long as {sweep['sweep'] / sweep['iteration']:.2f} EM iterations."
        )
    rows = [
        [name, int(f["annotations"]), f["seconds"], f["r_hat"], f["ess"], f["peak"]]
        for name in ("imagenet-real", "fact-eval")
        if (f := results.get(f"sampled {name}"))
    ]
    if rows:
        parts.append(
            "Four chains of 1,000 sweeps after 500 of warm-up, including all reported quantities:\n\n"
            + table(["data", "annotations", "seconds", "worst R-hat", "least ESS", "peak GB"], rows)
        )
    rows = []
    for name, title in (
        ("labels ours 5M x 4 csv", "ours, 5M rows of CSV"),
        ("labels crowd-kit 5M x 4 csv", "crowd-kit with pandas, 5M rows of CSV"),
        ("labels ours 50M x 2 parquet", "ours, 50M rows of Parquet"),
        ("streamed 50M x 2", "ours, streamed, 50M rows of Parquet"),
    ):
        if f := results.get(name):
            rows.append([title, f["seconds"], f.get("start"), f.get("read"), f.get("iterations"), f["peak"]])
    if rows:
        parts.append(
            "## From file to labels\n\nNamed items, workers and classes; Dawid–Skene to convergence.\n\n"
            + table(["", "seconds", "of which import", "reading", "E steps", "peak GB"], rows)
        )
        a, b = (results.get(name) for name in ("labels ours 5M x 4 csv", "labels crowd-kit 5M x 4 csv"))
        if a and b:
            parts.append(
                f"On CSV, our time is 1/{b['seconds'] / a['seconds']:.0f} of that of crowd-kit, and our memory "
                f"{a['peak'] / b['peak']:.2f} of its memory."
            )
    return "\n\n".join(parts)


def main() -> None:
    """Run the jobs, each in a process, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="jobs whose names begin so; the figures of the others are kept")
    parser.add_argument(
        "--out", type=Path, default=Path("docs/benchmarks"), help="folder for the page [docs/benchmarks]"
    )
    parser.add_argument("--files", default=tempfile.gettempdir(), help="folder for the files that are read")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        simulated_file(*options.make, options.files)
        return
    if options.job:
        work, given = JOBS[options.job]
        print(
            json.dumps(
                work(*(simulated_file(*a, options.files) if isinstance(a, tuple) and len(a) == 2 else a for a in given))
            )
        )
        return
    folder = records.folder_of(options.out)
    story = records.load("performance", folder) or {"results": {}}
    for name in JOBS:
        if options.only is None or any(name.startswith(begin) for begin in options.only):
            for argument in JOBS[name][1]:
                if isinstance(argument, tuple) and len(argument) == 2:
                    # In a separate process, since the peak memory of a process is inherited by those it starts.
                    make = [sys.executable, __file__, "--make", *argument, "--files", options.files]
                    subprocess.run(make, check=True)
            command = [sys.executable, __file__, "--job", name, "--files", options.files]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            if ended.returncode:
                print(f"{name}: {ended.stderr[-500:]}", file=sys.stderr)
                continue
            story["results"][name] = json.loads(ended.stdout.strip().splitlines()[-1])
            print(name, story["results"][name], flush=True)
            story["machine"] = machine()
            records.save("performance", story, folder)
    body = page(story["results"])
    head = (
        "# Performance\n\nRerun: `python benchmarks/performance.py` (`--only em gibbs` for a part). "
        f"Ran on {story['machine']}."
    )
    (options.out / "performance.md").write_text(f"{head}\n\n{body}\n", encoding="utf-8")
    print(body)


if __name__ == "__main__":
    main()
