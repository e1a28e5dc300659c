"""Acceleration of EM on public data: evaluations, seconds and the log posterior reached, with and without."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from common import SETS, arguments, fit, table, write

from crowdppl import CrowdpplWarning
from crowdppl.data import datasets
from crowdppl.inference.backends.expectation import CompiledExpectation
from crowdppl.models import DawidSkene

# How many steps the default model's extrapolation takes besides the last one: 0 is SQUAREM.
MEMORY = (0, 5, CompiledExpectation.memory, 20)
SLOW = ("rte", "product", "cifar10s", "hitspam-crowdflower", "adult-content", "fact-eval", "judges-triviaqa-v1")
MODELS = {"default prior": DawidSkene(), "maximum likelihood": DawidSkene.maximum_likelihood()}


def of_the_default(names: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Fit the default model by SQUAREM and by Anderson acceleration: a table, and the results."""
    from default_model import load

    rows, results = [], {}
    kept = CompiledExpectation.memory
    for name in names:
        data = load(name)[0]
        evaluations, seconds, ends = [], [], []
        for memory in MEMORY:
            CompiledExpectation.memory = memory
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CrowdpplWarning)
                info = fit(data, "item-effects", method="em", max_iter=10_000, num_samples=2)[0].info
            evaluations.append(info["facts"]["evaluations"])
            ends.append(info["facts"]["log_posterior"])
            seconds.append(info["seconds"])
        own = MEMORY.index(kept)
        rows.append([name, *evaluations, seconds[0], seconds[own], f"{ends[own] - ends[0]:+.4f}"])
        results[f"item effects: {name}"] = {"evaluations": evaluations, "log_posterior": ends}
    CompiledExpectation.memory = kept
    header = ["set", "E steps, SQUAREM", *(f"Anderson, {memory}" for memory in MEMORY[1:])]
    header += ["s, SQUAREM", f"s, Anderson, {kept}", "log posterior gained"]
    ratio = np.exp(np.mean([np.log(row[1] / row[1 + own]) for row in rows]))
    text = (
        f"## Item effects\n\nWhere both steps are compiled, runs are extrapolated from {kept} earlier steps (Anderson 1965) in "
        f"place of SQUAREM. E steps with all turns of the anchor, for several numbers of earlier steps. A difference of the "
        f"log posterior may be of another anchor.\n\n{table(header, rows)}\n\n"
        f"Geometric mean of SQUAREM's steps over those of Anderson, {kept}: {ratio:.2f}."
    )
    return text, results


def main() -> None:
    """Fit every set four ways."""
    options = arguments(__doc__ or "")
    results, tables = {}, []
    for kind, model in MODELS.items():
        rows = []
        for name in SETS[:3] if options.quick else SETS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CrowdpplWarning)
                data, _ = datasets.public(name)
            plain, fast = (
                fit(data, model, method="em", accelerate=a, max_iter=10_000, num_samples=2)[0].info
                for a in (False, True)
            )
            gain = fast["facts"]["log_posterior"] - plain["facts"]["log_posterior"]
            counts = [info["facts"]["evaluations"] for info in (plain, fast)]
            rows.append(
                [name, *counts, f"{counts[0] / counts[1]:.1f}", plain["seconds"], fast["seconds"], f"{gain:+.4f}"]
            )
            results[f"{kind}: {name}"] = {"evaluations": counts, "gain": gain}
        ratio = np.exp(np.mean([np.log(float(row[3])) for row in rows]))
        header = ["set", "E steps, plain", "accelerated", "ratio", "s, plain", "s, accelerated", "log posterior gained"]
        tables.append(f"## {kind.capitalize()}\n\n{table(header, rows)}\n\nGeometric mean of the ratios: {ratio:.2f}.")
    text, more = of_the_default(SLOW[:1] if options.quick else SLOW)
    tables.append(text)
    results |= more
    body = (
        "SQUAREM (Varadhan and Roland 2008, scheme 3) on untransformed probabilities. If an extrapolation would lower the log "
        "posterior, the plain step is taken. Relative tolerance 1e-9; plain EM stops after one small step, accelerated EM after "
        "two in a row. If the log posterior differs, EM found another mode (without a prior there are many) or stopped closer to "
        "the maximum.\n\n" + "\n\n".join(tables)
    )
    write("acceleration", "Acceleration of EM", body, results, options)


if __name__ == "__main__":
    main()
