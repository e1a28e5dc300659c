"""All experiments of Mena and Ñanculef (2019): Tables 2, 3 and 4, Figure 3, and why figures differ from the paper's."""

from __future__ import annotations

from typing import Any

import cmm_cifar
import cmm_cost
import cmm_forms
import cmm_labelme
import cmm_labelme_forms
import cmm_reasons
import cmm_setup1
import cmm_setup2
import records
from common import arguments, write

# What measures and what shows each part; the keys of the results that it holds.
SECTIONS: dict[str, Any] = {
    "setup1": cmm_setup1,
    "program1": cmm_forms,
    "reasons": cmm_reasons,
    "setup2": cmm_setup2,
    "cifar": cmm_cifar,
    "labelme": cmm_labelme,
    "program3": cmm_labelme_forms,
    "cost": cmm_cost,
}
# Parts whose figures lie at the top of the results, under these names.
TOP = {
    "setup1": ("accuracy", "crowd", "individual_js", "global_js"),
    "cost": ("seconds_per_iteration", "peak_mib"),
}


INTRODUCTION = """The experiments of F. Mena and R. Ñanculef (2019). [The five papers](../papers.md) has a verdict on each figure.
"""


def section(results: dict[str, Any], name: str) -> Any:
    """Return the figures of a part, if it has been measured."""
    if name not in TOP:
        return results.get(name)
    return {key: results[key] for key in TOP[name]} if set(TOP[name]) <= set(results) else None


def main() -> None:
    """Measure the parts asked for, all by default, and write the page from the figures of all."""
    options = arguments(__doc__ or "", parts=tuple(SECTIONS))
    story = records.load("paper_crowd_mixture", records.folder_of(options.out)) if options.only is not None else None
    results = story["results"] if story else {}
    for name in SECTIONS if options.only is None else options.only:
        measured = SECTIONS[name].measure(options.quick)
        results |= measured if name in TOP else {name: measured}
    parts = [one.page(figures) for name, one in SECTIONS.items() if (figures := section(results, name))]
    body = "\n".join([INTRODUCTION, *parts])
    write(
        "paper_crowd_mixture", "CMM: the crowd mixture's paper", body, results, options, script="papers/crowd_mixture"
    )


if __name__ == "__main__":
    main()
