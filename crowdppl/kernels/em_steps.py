"""Compiled steps of EM: the E step of every family of models with a parameter step, and the M steps of those that have one.

The E step sums the responsibilities up as the M step needs them. It takes a range of items, so that ranges run in threads, each
with counts of its own.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from crowdppl.kernels.chains import family_module, version
from crowdppl.kernels.code_cache import INNER, borrowed, compiled
from crowdppl.kernels.items import fill_shares, weigh

# The modules of the M steps by name of the family, and those whose code they contain besides.
MODES = {"logit rows": "crowdppl.kernels.logit_rows_mode"}
PARTS = {"logit rows": ("crowdppl.kernels.logit_rows_slopes", "crowdppl.kernels.logit_rows_workers")}


# First item, end; start, column, known, anchor; table, prior; counts, size, objective.
ITEMS = "void(i8, i8, u8[::1], u4[::1], i2[::1], f8[:,::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8[::1])"
# Parameters; sizes and numbers of the step; table, prior.
TABLE = "void(f8[::1], i8[::1], f8[::1], f8[:,::1], f8[::1])"
# Counts, sizes of the states; parameters, changed; sizes and numbers of the step; work; whether it is the first M step.
MODE = "void(f8[:,::1], f8[::1], f8[::1], i8[::1], f8[::1], f8[::1], i8)"
# Parameters; sizes and numbers of the step.
DENSITY = "f8(f8[::1], i8[::1], f8[::1])"


@cache
def expectation() -> Any:
    """Return the compiled sums of responsibilities over a range of items.

    Its arguments, for ``N`` items, ``J`` workers, ``K`` classes, ``S`` states: the first item and the one after the last; the
    data as :func:`crowdppl.kernels.chains.sweeps` takes them; ``table (J*K, width)`` and ``prior (width,)``, both zero from ``S``
    on; and what is written: expected labels ``counts (J*K, S)`` = (worker and label, state), items ``size (S,)``, and the
    ``objective (1,)``.
    """

    def run(
        begin: Any,
        stop: Any,
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
        start, column, known, anchor = borrowed(start), borrowed(column), borrowed(known), borrowed(anchor)
        table, prior, counts, size = borrowed(table), borrowed(prior), borrowed(counts), borrowed(size)
        S, W, K = size.shape[0], prior.shape[0], anchor.shape[1]
        M, anchored, flat, total = S // K, anchor.shape[0] > 0, table.reshape(-1), 0.0
        own = np.zeros(2 * W + 3 * K)
        room = borrowed(own)
        some, weights = room[:W], room[W : 2 * W]
        share, mass, logs = room[2 * W : 2 * W + K], room[2 * W + K : 2 * W + 2 * K], room[2 * W + 2 * K :]
        p = weights[:S]
        counts[:], size[:] = 0.0, 0.0
        for i in range(begin, stop):
            first, end, only = start[i], start[i + 1], np.intp(known[i])
            given = anchor[i] if anchored else share[:0]
            weigh(only, K, S, flat, prior, some, weights, column, first, end)
            whole, unit = fill_shares(p, prior[:S], only, table, column, first, end, given, share, mass, logs)
            likelihood, free = math.log(whole) + unit, 1.0
            total += likelihood
            for k in range(given.shape[0]):
                free -= given[k]
                if given[k] > 0.0:
                    total += given[k] * (math.log(share[k]) if unit == 0.0 else logs[k] - likelihood)
            for k in range(K):
                weight = free * share[k] + (given[k] if anchored else 0.0)
                weight = weight / mass[k] if mass[k] > 0.0 else 0.0
                for s in range(k * M, k * M + M):
                    p[s] *= weight
                    size[s] += p[s]
            for n in range(first, end):
                row = counts[np.intp(column[n])]
                for s in range(S):
                    row[s] += p[s]
        objective[0] = total
        own[0] = 0.0  # what is borrowed from it ends before

    run.__qualname__ += f".{version(__file__)}"
    return compiled(run, ITEMS, nogil=True, error_model="numpy", fastmath=INNER["fastmath"])


@cache
def tabulation(family: str) -> Any:
    """Return the compiled ``tabulate`` of a family.

    Its arguments: ``parameters (P,)``; sizes and numbers of the step; ``table (J*K, width)`` and ``prior (width,)``, written.
    """
    module = family_module(family)
    tabulate = module.tabulate

    def run(parameters: Any, sizes: Any, numbers: Any, table: Any, prior: Any) -> None:
        tabulate(parameters, sizes, numbers, table, prior)

    run.__qualname__ += f".{family.replace(' ', '_')}.{version(str(module.__file__), __file__)}"
    return compiled(run, TABLE, nogil=True, error_model="numpy")


@cache
def maximisation(family: str) -> Any:
    """Return the compiled M step of a family.

    Its arguments: ``counts (J*K, S)`` and ``size (S,)`` as :func:`expectation` writes them; ``parameters (P,)``, which are
    changed; sizes and numbers of the step, and memory for its work; and whether it is the first M step, from a start of its own.
    """
    module = import_module(MODES[family])
    improve = module.improve

    def run(counts: Any, size: Any, parameters: Any, sizes: Any, numbers: Any, work: Any, first: Any) -> None:
        improve(counts, size, parameters, sizes, numbers, work, first)

    return _of_mode(run, family, MODE)


@cache
def density(family: str) -> Any:
    """Return the compiled log prior of a family with an M step; of ``parameters (P,)``, and sizes and numbers of the step."""
    log_prior = import_module(MODES[family]).log_prior

    def run(parameters: Any, sizes: Any, numbers: Any) -> Any:
        return log_prior(parameters, sizes, numbers)

    return _of_mode(run, family, DENSITY)


def _of_mode(run: Any, family: str, signature: str) -> Any:
    """Return a function compiled that calls one of a family's M step."""
    modules = [family_module(family), *map(import_module, (MODES[family], *PARTS[family]))]
    own = (*(str(module.__file__) for module in modules), __file__)
    run.__qualname__ += f".{family.replace(' ', '_')}.{version(*own)}"
    return compiled(run, signature, nogil=True, error_model="numpy")
