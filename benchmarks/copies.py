"""Accounts that give the same answers: how often they are named, and who is named in public crowds.

Simulated crowds: honest workers know the answer with probability .7 and guess otherwise; one account knows it with probability
.55, and the copies give its answer with probability 1 or .85, and one of their own otherwise.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
from common import arguments, table, write

from crowdppl import Annotations, CrowdpplError
from crowdppl.data import datasets
from crowdppl.data.copies import copied_answers

CROWDS = ((7, 2), (7, 3), (7, 4), (15, 3), (30, 4))


def crowd(seed: int, items: int, classes: int, workers: int, copies: int, share: float) -> Annotations:
    """Draw a crowd whose last accounts are one source and its copies."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=items)

    def person(knows: float) -> np.ndarray:
        return np.where(rng.random(items) < knows, truth, rng.integers(classes, size=items))

    said = [person(0.7) for _ in range(workers - copies)]
    source = person(0.55)
    said += [np.where(rng.random(items) < (share if n else 1.0), source, person(0.55)) for n in range(copies)]
    item, worker = np.tile(np.arange(items), workers), np.repeat(np.arange(workers), items)
    return Annotations.from_arrays(item, worker, np.concatenate(said), labels=range(classes))


def simulated(repeats: int) -> list[dict[str, float]]:
    """Count the crowds whose group is named, as a whole and alone, and those in which an honest worker is."""
    rows = []
    for items in (150, 300):
        for classes in (2, 3):
            for workers, copies in CROWDS:
                row: dict[str, float] = {"items": items, "classes": classes, "workers": workers, "copies": copies}
                accused = 0
                for share in (1.0, 0.85):
                    named = 0
                    for seed in range(repeats):
                        data = crowd(seed, items, classes, workers, copies, share)
                        groups = [group.workers for group in copied_answers(data)]
                        named += groups == [tuple(range(workers - copies, workers))]
                        accused += any(j < workers - copies for group in groups for j in group)
                    row[f"named {share:g}"] = named / repeats
                honest = [copied_answers(crowd(seed, items, classes, workers, 0, 1.0)) for seed in range(repeats)]
                row |= {"accused": accused / (2 * repeats), "accused without copies": sum(map(bool, honest)) / repeats}
                rows.append(row)
    return rows


def public() -> tuple[list[dict[str, object]], int]:
    """Return the groups of public crowds, and the number of crowds that were looked at."""
    rows: list[dict[str, object]] = []
    count = 0
    for path in sorted(Path(os.environ["CROWDPPL_DATA"]).iterdir()):
        if not (path / "annotations.csv.gz").is_file():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                data, _ = datasets.public(path.name)
            except CrowdpplError:  # numbers and other kinds of files
                continue
        count += 1
        for group in copied_answers(data):
            names = ", ".join(map(str, data.workers[list(group.workers)].tolist()))
            rows.append({"set": path.name, "workers": names, "equal": group.equal, "common": group.common})
    return rows, count


def main() -> None:
    """Measure, and write the page."""
    options = arguments(__doc__)
    repeats = 5 if options.quick else 100
    rows = simulated(repeats)
    groups, count = public()
    body = f"""A pair of accounts is named where its equal labels cannot be explained even if half of them were copied, given
how often both agree with the other annotations of the same items (`crowdppl.data.copies`). Every fit of up to two million
annotations looks for such pairs, and warns. The labels are not changed: leave one of the accounts in the table.

## Simulated crowds

Honest workers know the answer with probability .7 and guess otherwise; the source of the copies with .55. Shares of {
        repeats
    }
crowds in which the group, and nobody else, is named, where all answers or 85% are copied; in which an honest worker is named
beside copies; and in which somebody is named in a crowd of as many honest workers without copies.

{
        table(
            (
                "items",
                "classes",
                "accounts",
                "copies",
                "named, all copied",
                "named, 85%",
                "honest named",
                "named without copies",
            ),
            [list(row.values()) for row in rows],
        )
    }

What falls short: with 85% copied, 150 items of two classes do not suffice, and a group may be named in part.

## Public crowds

Of {
        count
    } public sets these have accounts that are named. The groups of `judges-llmbar` are prompts of one language model that
differ in a few words.

{
        table(
            ("set", "workers", "equal labels", "common items, pair by pair"),
            [list(row.values()) for row in groups],
        )
    }
"""
    write("copies", "Accounts that give the same answers", body, {"simulated": rows, "public": groups}, options)


if __name__ == "__main__":
    main()
