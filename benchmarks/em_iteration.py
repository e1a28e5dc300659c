"""One EM iteration of Dawid-Skene: our time compared with crowd-kit's, and with the two products that it consists of."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from common import arguments, median_seconds, table, write
from crowdkit.aggregation import DawidSkene as CrowdKit

from crowdppl import Annotations, CrowdpplWarning
from crowdppl.data import datasets
from crowdppl.inference.backends.passes import Sweeps
from crowdppl.inference.engines.em_loop import EMLoop
from crowdppl.inference.engines.m_step import MStep
from crowdppl.inference.engines.unconstrained import Space
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.model.contract import check
from crowdppl.models import DawidSkene

SIZE = {"items": 10_000, "workers": 2_500, "annotations": 500_000, "classes": 10}
QUICK = {"items": 1_000, "workers": 250, "annotations": 20_000, "classes": 5}
CASES = {
    "ours, maximum likelihood, float64": (DawidSkene.maximum_likelihood(), torch.float64),
    "ours, default prior, float64": (DawidSkene(), torch.float64),
    "ours, maximum likelihood, float32": (DawidSkene.maximum_likelihood(), torch.float32),
}
EQUAL_AFTER = 20  # iterations


def simulate(items: int, workers: int, annotations: int, classes: int, seed: int = 0) -> pd.DataFrame:
    """Draw annotations by workers who are correct with probability .2 to .9 and otherwise choose any other label."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, items)
    task = np.repeat(np.arange(items), annotations // items)
    worker = rng.integers(0, workers, len(task))
    right = rng.random(len(task)) < rng.uniform(0.2, 0.9, workers)[worker]
    wrong = (truth[task] + rng.integers(1, classes, len(task))) % classes
    return pd.DataFrame({"task": task, "worker": worker, "label": np.where(right, truth[task], wrong)})


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """Give items, workers and classes names, as files of real annotations have them."""
    return frame.assign(**{column: column[0] + frame[column].astype(str) for column in frame})


def ours(data: Annotations, model: DawidSkene, iterations: int) -> float:
    """Return seconds of one iteration: log posterior, E step and M step, as in the engine."""
    with isolated(0, dtype=data.dtype), torch.no_grad():
        bound = bind(model, data)
        space = Space(check(bound, data))
        start = bound.initial(data)

        def run(count: int) -> None:
            # With a negative tolerance, all iterations are computed, converged or not.
            EMLoop(MStep(bound, data, space), count, -1.0, lambda *_: None).run([start])

        def seconds(count: int) -> float:
            began = time.perf_counter()
            run(count)
            return time.perf_counter() - began

        run(iterations)
        each = [(seconds(3 * iterations) - seconds(iterations)) / (2 * iterations) for _ in range(15)]
    return float(np.median(each))


def ours_anew(size: dict[str, int], kind: str) -> float:
    """Time one case on newly simulated data, in a process of its own."""
    model, dtype = CASES[kind]
    return ours(Annotations.from_frame(named(simulate(**size))).to(dtype=dtype), model, 20)


def ours_in_processes(size: dict[str, int], kind: str, count: int) -> list[float]:
    """Time one case in ``count`` new processes.

    Times depend on the location of arrays in memory, which is constant within a process.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        return sorted(pool.submit(ours_anew, size, kind).result() for _ in range(count))


def crowd_kit(frame: pd.DataFrame, iterations: int) -> float:
    """Return seconds of one iteration: median of three differences between a long and a short fit."""
    each = []
    for _ in range(3):
        seconds = []
        for count in (1, 1 + iterations):
            began = time.perf_counter()
            model = CrowdKit(n_iter=count, tol=-1e30).fit(frame)
            seconds.append(time.perf_counter() - began)
            assert len(model.loss_history_) == count
        each.append((seconds[1] - seconds[0]) / iterations)
    return float(np.median(each))


def our_probabilities(data: Annotations, *, as_theirs: bool = False) -> np.ndarray:
    """Return the truth's probabilities after ``EQUAL_AFTER`` E steps from shares of votes, without a prior.

    ``as_theirs``: with crowd-kit's two conventions, by hand. It keeps rows only for the labels a worker has given, so that
    a class without any expected annotation is uniform over those, not over all; and it takes no probability below 1e-10.
    """
    model = bind(DawidSkene.maximum_likelihood(), data)
    used = (data.counts.expected(data.majority()).sum(1, keepdim=True) > 0).to(data.dtype)  # (J, 1, K): labels given
    with isolated(0), torch.no_grad():
        r = model.initial(data)
        for _ in range(EQUAL_AFTER):
            if as_theirs:
                counts = data.counts.expected(r).clamp_min(1e-10) * used
                confusion = counts / counts.sum(-1, keepdim=True)
                theta = {"confusion": confusion, "prevalence": r.mean(0).clamp_min(1e-10)}
                logs = torch.where(used > 0, confusion, 1.0).log()
                joint = theta["prevalence"].log() + data.counts.log_likelihoods(logs)
            else:
                joint = model.item_log_joint(model.m_step(r, data), data)
            r = torch.softmax(joint, -1)
    return r.numpy()


def apart(data: Annotations, frame: pd.DataFrame) -> list[float]:
    """Return the largest difference of a probability to crowd-kit: ours, and ours with its conventions."""
    theirs = CrowdKit(n_iter=EQUAL_AFTER, tol=-1e30).fit(frame).probas_.loc[data.items, data.labels].to_numpy()
    return [float(np.abs(our_probabilities(data, as_theirs=t) - theirs).max()) for t in (False, True)]


def equality(simulated: tuple[Annotations, pd.DataFrame]) -> dict[str, list[float]]:
    """Compare probabilities on the simulated data, on sparse simulated data, and on public sets."""
    sparse = simulate(items=2_000, workers=300, annotations=6_000, classes=3, seed=1)
    pairs = {
        "the simulation above": simulated,
        "simulated, 3 annotations per item": (Annotations.from_frame(sparse), sparse),
    }
    for name in ("rte", "zencrowd-us", "product", "labelme") if datasets.folder() else ():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdpplWarning)
            data, _ = datasets.public(name)
        columns = {"task": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
        pairs[name] = (data, pd.DataFrame(columns))
    return {name: apart(*pair) for name, pair in pairs.items()}


def parts(data: Annotations) -> dict[str, float]:
    """Return milliseconds of the parts of an iteration, of the sparse products used without numba, and of scipy's."""
    model = bind(DawidSkene(), data)
    conjugacy = model.conjugacy
    assert conjugacy is not None
    with isolated(0, dtype=data.dtype), torch.no_grad():
        r = model.initial(data)
        theta = model.m_step(r, data)
        log_confusion, sums = theta["confusion"].log(), model.statistics(r, data)
        sweeps, room = Sweeps.over(data), torch.empty_like(r)
        pieces = {
            "E step and expected counts": lambda: sweeps.expect(*model.tables(theta, data), sums.label_counts, room),
            "of which the counts": lambda: sweeps.given(r),
            "log prior": lambda: model.log_prior(theta, data),
            "M step": lambda: conjugacy.m_step(sums),
            "sparse products of torch, used without numba": lambda: (
                data.counts.log_likelihoods(log_confusion),
                data.counts.expected(r),
            ),
        }
        out = {name: 1e3 * median_seconds(work, 20) for name, work in pieces.items()}
    column = (data.worker * data.K + data.label).numpy()
    matrix = scipy.sparse.csr_matrix((np.ones(data.A), (data.item.numpy(), column)), shape=(data.N, data.J * data.K))
    turned = matrix.T.tocsr()
    table_ = np.ascontiguousarray(log_confusion.transpose(1, 2).reshape(-1, data.K).double().numpy())
    out["scipy: the two products, float64"] = 1e3 * (
        median_seconds(lambda: matrix @ table_, 10) + median_seconds(lambda: turned @ r.double().numpy(), 10)
    )
    return out


def main() -> None:
    """Time, compare, write."""
    options = arguments(__doc__ or "")
    size = QUICK if options.quick else SIZE
    numbered = simulate(**size)
    frame = named(numbered)
    data = Annotations.from_frame(frame)
    theirs, theirs_numbered = (crowd_kit(table_, 2 if options.quick else 8) for table_ in (frame, numbered))
    runs = {kind: ours_in_processes(size, kind, 1 if options.quick else 7) for kind in CASES}
    cases = {kind: float(np.median(seconds)) for kind, seconds in runs.items()}
    equal = equality((data, frame))
    compared = [[name, *map("{:.1e}".format, differences)] for name, differences in equal.items()]
    rows = [["crowd-kit DawidSkene, named items and workers", 1e3 * theirs, "", 1.0, theirs_numbered / theirs]]
    rows += [["crowd-kit DawidSkene, numbered", 1e3 * theirs_numbered, "", theirs / theirs_numbered, 1.0]]
    for kind, seconds in cases.items():
        spread = f"{1e3 * runs[kind][0]:.2f} to {1e3 * runs[kind][-1]:.2f}"
        rows.append([kind, 1e3 * seconds, spread, theirs / seconds, theirs_numbered / seconds])
    pieces = parts(data)
    body = (
        f"{size['items']:,} items, {size['workers']:,} workers, {size['annotations']:,} annotations, {size['classes']} classes, "
        f"simulated; both programs measured in one run. An iteration consists of E step, M step and objective.\n\n"
        + table(["", "ms per iteration", "over processes", "times faster than named", "than numbered"], rows)
        + "\n\ncrowd-kit joins tables by identifiers at every iteration, so that its time depends on their type (strings, as in "
        "files of annotations, or integers). Our code converts identifiers once. Our time is the median of seven processes, "
        "since it depends on the location of the arrays in memory.\n\n"
        f"## Agreement with crowd-kit\n\nLargest difference from crowd-kit of any item's probability after {EQUAL_AFTER} "
        "iterations from shares of votes, without a prior:\n\n"
        + table(
            ["data", "our conventions", "crowd-kit's conventions"],
            compared,
        )
        + "\n\nThe differences are due to two conventions of crowd-kit, which the last column emulates. If a worker has no "
        "expected items of a class, crowd-kit's row is uniform over the labels that this worker has given, and ours over all "
        "labels. crowd-kit's probabilities are at least 1e-10, and ours may be zero. Maximum likelihood does not determine "
        "either.\n\n"
        "## Time of each part\n\nFloat64, default prior, first iteration, each part measured separately.\n\n"
        + table(["part", "ms"], [[name, value] for name, value in pieces.items()])
    )
    results = {
        "size": size,
        "crowd_kit_named_s": theirs,
        "crowd_kit_numbered_s": theirs_numbered,
        "ours_s": runs,
        "max_difference": equal,
        "pieces_ms": pieces,
    }
    write("em_iteration", "One EM iteration of Dawid–Skene", body, results, options)


if __name__ == "__main__":
    main()
