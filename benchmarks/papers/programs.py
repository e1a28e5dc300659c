"""Experiments in the form of the authors' programs where these differ from our fits: their schedules, samples and choices."""

from __future__ import annotations

import json
import sys
from typing import Any

import labelme_confusions
import lia_learner
import lia_program
import music_program
import records
import snorkel_models
import two_gaussians_program
from common import arguments, write

SECTIONS: dict[str, Any] = {
    "two Gaussians": two_gaussians_program,
    "LIA": lia_program,
    "LIA itself": lia_learner,
    "Music": music_program,
    "LabelMe": labelme_confusions,
    "Snorkel": snorkel_models,
}


def main() -> None:
    """Measure the parts asked for, all by default, and write the page from the figures of all."""
    options = arguments(__doc__ or "", parts=tuple(SECTIONS))
    story = records.load("paper_programs", records.folder_of(options.out))
    results = story["results"] if story else {}
    asked = list(SECTIONS) if options.only is None else options.only
    if options.only is None and not snorkel_models.installed():
        print("Snorkel and MeTaL are not installed: their figures stay", file=sys.stderr)
        asked.remove("Snorkel")
    for name in asked:
        # As the figures are stored: names of dictionaries are text.
        results[name] = json.loads(json.dumps(SECTIONS[name].measure(options.quick)))
        if not options.quick:
            records.save("paper_programs", {"results": results}, records.folder_of(options.out))
    parts = "\n".join(one.page(results[name]) for name, one in SECTIONS.items() if name in results)
    body = f"""Each part is written from what the authors' program does, to see what of a paper's figure is the method and
what is the schedule, the sample or the choice of an epoch. [The five papers](../papers.md) has these figures
beside those of our own fits.

{parts}"""
    write("paper_programs", "The authors' programs", body, results, options, script="papers/programs")


if __name__ == "__main__":
    main()
