"""Rows of Tables 3 and 4 of the crowd mixture's paper (Mena and Ñanculef 2019), LabelMe, on the results page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from cmm_shared import PRINTED
from cmm_shared import stored as cmm_stored
from comparison import PROGRAM, Claim, Experiment, Row, per_cent, stored

DETAILS = "[details](benchmarks/paper-crowd-mixture.md)"
RUNS = 20  # networks of which a figure of the paper is the mean
COLUMNS = {
    "train": "train_accuracy",
    "test": "test_accuracy",
    "individual_js": "individual_js",
    "global_js": "global_js",
}
WORDS = {"train": "training items", "test": "test items", "individual_js": "I-JS", "global_js": "G-JS"}


def labelme() -> list[Experiment]:
    """Return Table 3, by setting."""
    ours, program = (stored("paper_crowd_mixture", part, "table3") for part in ("labelme", "program3"))
    if ours is None or program is None:
        return []
    early = (
        "Ours is the network after 50 epochs, which has learned the errors of the labels. With the program's stop at a change of "
        "3% the figures are the paper's (rows of the program's form)."
    )
    prior = (
        "The authors' program adds one annotation to every entry of every matrix, ours none. Where an annotator has one label, "
        "as in the global setting, the labels alone say nothing about the matrix, and the votes are lost without this prior."
    )
    stop = "Ours is EM run to convergence; the program stops at a change of 3%."
    certain = (
        "Ours has two starts and runs on; without the preference for classes of low entropy it is the same (page of details). "
        "The likelihood identifies neither the groups nor the matrices of annotators."
    )
    reasons = {
        "soft majority": early,
        "hard majority": early,
        "truth": early,
        "DL-DS": stop,
        "DL-EM": prior,
        "CMM": certain,
    }
    out = []
    for setting, text in (("individual", "annotators known"), ("global", "an annotator for each label")):
        one = Experiment(
            f"LabelMe, Table 3, {text}",
            f"Accuracy on test and training items, per cent, and divergences of matrices, hundredths of a bit; {DETAILS}. Ideal "
            "(the truth) is 97.90 and 92.09 in print, one run; the authors' stored runs of one network have 99.20 and 93.60 "
            "here, 99.80 and 94.19 with an annotator for each label.",
        )
        for figures, form in ((ours[setting], ""), (program[setting], PROGRAM)):
            for name, values in figures.items():
                if name in reasons:
                    reason = RANDOM if form else reasons[name]
                    one.rows += rows_of_table_3(setting, name, form, values, reason)
        out.append(one)
    return out


RANDOM = "The program's form, with other random weights."
# In the global setting the paper prints these; of the votes and of CMM it says that they are as in the individual one.
PRINTED_GLOBAL = {(name, key) for name in ("DL-DS", "DL-EM") for key in ("train", "test", "global_js")}


def rows_of_table_3(
    setting: str, name: str, form: str, values: Mapping[str, Sequence[float]], reason: str
) -> list[Row | Claim]:
    """Return the rows of one method: printed figures where the paper has them, the authors' stored ones elsewhere."""
    theirs = cmm_stored("table3_labelme").replace(
        {"softMV": "soft majority", "hardMV": "hard majority", "Ideal": "truth"}
    )
    row = theirs[(theirs["setting"] == setting) & (theirs["method"] == name)]
    rows: list[Row | Claim] = []
    for key in WORDS:
        if key not in values:
            continue
        figure = float(row[COLUMNS[key]].item())
        printed = setting == "individual" or (name, key) in PRINTED_GLOBAL
        if printed:
            figure = PRINTED["labelme"].get((name, key), figure)
        if np.isnan(figure):
            continue
        bits = key.endswith("js")
        rows.append(
            Row(
                f"{name}{form}, {WORDS[key]}",
                round(100 * figure, 2),
                per_cent(values[key]),
                reason,
                lower=bits,
                relative=bits,
                runs=1 if name == "truth" else RUNS,
                source="print" if printed else "stored",
            )
        )
    return rows


def table_4() -> Experiment:
    """Return the groups of LabelMe."""
    out = Experiment(
        "LabelMe, Table 4",
        "The groups in the order of their share: share and similarity to the identity in per cent, entropy of the rows in nats; "
        f"{DETAILS}.",
    )
    ours = stored("paper_crowd_mixture", "labelme", "table4")
    program = stored("paper_crowd_mixture", "program3", "table4")
    if ours is None or program is None:
        return out
    split = "The likelihood does not identify groups: every split of the crowd's matrix is as likely, and the start decides."
    uniform = (
        "A matrix of a group without annotations, which is near the uniform one: the authors' stored similarities are -1.6 and "
        "-2.7 (per cent), with the other sign."
    )
    for figures, form, reason in (
        (program, PROGRAM, uniform),
        (ours["CMM, certainty 0"], ", the library's, certainty 0", split),
    ):
        for column, printed in PRINTED["groups"].items():
            scale = 1 if column == "entropy" else 100
            for m, figure in enumerate(printed):
                values = [scale * v for v in figures[column][str(m)]]
                what = f"group {m + 1}{form}: {column}"
                out.rows.append(
                    Row(
                        what,
                        round(scale * figure, 2),
                        values,
                        reason,
                        lower=None,
                        relative=column == "entropy",
                        runs=RUNS,
                    )
                )
    return out
