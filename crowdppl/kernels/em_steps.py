"""Compiled steps of EM: the E step of every family of models with a parameter step, and the M steps of those that have one.

The E step sums the responsibilities up as the M step needs them. It takes a range of items, so that ranges run in threads, each
with counts of its own.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from crowdppl.kernels.chains import family_module, version
from crowdppl.kernels.code_cache import compiled, inner
from crowdppl.kernels.items import LOST, fill_log_joint, fill_shares_from_logs

# The modules of the M steps by name of the family.
MODES = {"logit rows": "crowdppl.kernels.logit_rows_mode"}


@inner
def _expect_items(
    first: Any,
    end: Any,
    start: Any,
    column: Any,
    known: Any,
    anchor: Any,
    table: Any,
    prior: Any,
    counts: Any,
    size: Any,
) -> Any:
    """Add responsibilities of the items from ``first`` to ``end`` (exclusive), and return the sum of their objectives."""
    S, K = prior.shape[0], anchor.shape[1]
    M, anchored = S // K, anchor.shape[0] > 0
    p, share, mass, logs = np.empty(S), np.empty(K), np.empty(K), np.empty(K)
    objective = 0.0
    for i in range(first, end):
        for s in range(S):
            p[s] = prior[s]
        for n in range(start[i], start[i + 1]):
            row = column[n]
            for s in range(S):
                p[s] *= table[row, s]
        whole, lost = 0.0, False
        for k in range(K):
            mass[k] = 0.0
            if known[i] < 0 or known[i] == k:
                for s in range(k * M, k * M + M):
                    mass[k] += p[s]
            whole += mass[k]
            lost |= anchored and mass[k] < LOST and anchor[i, k] > 0.0
        free = 1.0
        if anchored:
            for k in range(K):
                free -= anchor[i, k]
        if lost or whole < LOST:
            fill_log_joint(p, prior, known[i], K, table, column, start[i], start[i + 1])
            log_whole = fill_shares_from_logs(p, share, mass, logs)
            for k in range(K):
                if anchored and anchor[i, k] > 0.0:
                    objective += anchor[i, k] * logs[k]
            objective += free * log_whole
        else:
            objective += free * math.log(whole)
            for k in range(K):
                share[k] = mass[k] / whole
                if anchored and anchor[i, k] > 0.0:
                    objective += anchor[i, k] * math.log(mass[k])
        for k in range(K):
            weight = free * share[k] + (anchor[i, k] if anchored else 0.0)
            weight = weight / mass[k] if mass[k] > 0.0 else 0.0
            for s in range(k * M, k * M + M):
                p[s] *= weight
                size[s] += p[s]
        for n in range(start[i], start[i + 1]):
            row = column[n]
            for s in range(S):
                counts[row, s] += p[s]
    return objective


# First item, end; start, column, known, anchor; table, prior; counts, size, objective.
ITEMS = "void(i8, i8, u8[::1], u4[::1], i2[::1], f8[:,::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8[::1])"
# Parameters; sizes and numbers of the step; table, prior.
TABLE = "void(f8[::1], i8[::1], f8[::1], f8[:,::1], f8[::1])"
# Counts, sizes of the states; parameters, changed; sizes and numbers of the step; work.
MODE = "void(f8[:,::1], f8[::1], f8[::1], i8[::1], f8[::1], f8[::1])"


@cache
def expectation() -> Any:
    """Return the compiled sums of responsibilities over a range of items.

    Its arguments, for ``N`` items, ``J`` workers, ``K`` classes, ``S`` states: the first item and the one after
    the last; the data as :func:`crowdppl.kernels.chains.sweeps` takes them; ``table (J*K, S)`` and ``prior (S,)``; and what is
    written: expected labels ``counts (J*K, S)`` = (worker and label, state), items ``size (S,)``, and the ``objective (1,)``.
    """

    def run(
        first: Any,
        end: Any,
        start: Any,
        column: Any,
        known: Any,
        anchor: Any,
        table: Any,
        prior: Any,
        counts: Any,
        size: Any,
        objective: Any,
    ) -> None:
        for row in range(counts.shape[0]):
            for s in range(counts.shape[1]):
                counts[row, s] = 0.0
        for s in range(size.shape[0]):
            size[s] = 0.0
        objective[0] = _expect_items(first, end, start, column, known, anchor, table, prior, counts, size)

    run.__qualname__ += f".{version(str(Path(__file__)))}"
    return compiled(run, ITEMS, nogil=True, error_model="numpy")


@cache
def tabulation(family: str) -> Any:
    """Return the compiled ``tabulate`` of a family: ``parameters (P,)``, sizes, numbers, ``table (J*K, S)``, ``prior (S,)``."""
    module = family_module(family)
    tabulate = module.tabulate

    def run(parameters: Any, sizes: Any, numbers: Any, table: Any, prior: Any) -> None:
        tabulate(parameters, sizes, numbers, table, prior)

    run.__qualname__ += f".{family.replace(' ', '_')}.{version(str(module.__file__), str(Path(__file__)))}"
    return compiled(run, TABLE, nogil=True, error_model="numpy")


@cache
def maximisation(family: str) -> Any:
    """Return the compiled M step of a family.

    Its arguments: ``counts (J*K, S)`` and ``size (S,)`` as :func:`expectation` writes them; ``parameters (P,)``, which are
    changed; sizes and numbers of the step, and memory for its work.
    """
    module = import_module(MODES[family])
    improve = module.improve

    def run(counts: Any, size: Any, parameters: Any, sizes: Any, numbers: Any, work: Any) -> None:
        improve(counts, size, parameters, sizes, numbers, work)

    own = (str(family_module(family).__file__), str(module.__file__), str(Path(__file__)))
    run.__qualname__ += f".{family.replace(' ', '_')}.{version(*own)}"
    return compiled(run, MODE, nogil=True, error_model="numpy")
