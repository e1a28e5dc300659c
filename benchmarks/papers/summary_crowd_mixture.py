"""Rows of the crowd mixture's paper (Mena and Ñanculef 2019) on the results page of the five papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cmm_setup1
import numpy as np
from cmm_cifar import IDEAL
from cmm_forms import NETWORKS, of_crowds
from cmm_setup2 import ranking
from cmm_shared import PRINTED, table2
from comparison import CLOSE, Claim, Experiment, Row, levels, per_cent, stored
from summary_labelme import DETAILS, PROGRAM, labelme, table_4

DIVERGENCES = {"G-JS": "global_js", "I-JS": "individual_js"}


def crowd_mixture_paper() -> list[Experiment]:
    """Return all tables of the paper."""
    second = Experiment(
        "Set-up 2, Table 2",
        "Accuracy on the test images of CIFAR-10 in per cent of that of a classifier trained on the true classes: the paper's "
        f"with pictures and a convolutional network, {100 * IDEAL:.2f} with the true classes (stored, not in print); ours on "
        f"unsupervised features of the same images and a perceptron, as the program has the methods. Accuracies are in brackets; "
        f"{DETAILS}. Below, the order of the methods on digits.",
    )
    second.rows += set_up_2()
    second.rows += orders(stored("paper_crowd_mixture", "setup2", "program"), "shares of the program")
    second.rows += orders(stored("paper_crowd_mixture", "setup2", "printed"), "printed shares")
    return [set_up_1(), divergences_of_set_up_1(), second, *labelme(), table_4(), cost_of_crowd_mixture()]


REASONS = {
    "soft majority": "The accuracy depends on the draw of the crowd; it rises with more epochs than the program's stop allows.",
    "hard majority": "Ties go to the first class, as in the authors' program, which happens to suit this crowd. Ours is a larger "
    "network, trained for 50 epochs; the program stops early. The accuracy depends on the draw of the crowd.",
    "DL-DS": "EM runs to convergence here, and the network for 50 epochs; the program stops both early.",
    "DL-EM": "The authors' program adds one annotation to every entry of every annotator's matrix, nine for each annotator: with "
    "few labels each, this prior is the collapse (page of details). Ours has no prior; rows of the program's form are below.",
    "CMM": "The authors' program stops at a change of 3%; run on, and with a preference for classes of low entropy, the "
    "classifier is the best possible. Rows of the program's form are below.",
    "truth": "",
}
CROWD = (
    "The program's form on other crowds: the paper has one crowd at each T, which is not stored, and the figure differs between "
    "crowds by the standard deviation given."
)


def printed_accuracy(method: str, T: str) -> float:
    """Return an accuracy of Table 2, set-up 1, as the paper prints it, in per cent."""
    figure = PRINTED["setup1"].get((method, T), table2("setup1")[method][T])
    return round(100 * figure, 2)


def of_program(what: str, paper: float, values: Sequence[float], reason: str, **more: Any) -> Row:
    """Return a row of the program's form, with a value for each crowd: the mean of its networks."""
    return Row(what, paper, list(100 * of_crowds(list(values))), reason, **more)


def over_sizes(
    what: str, paper: Sequence[float], values: Mapping[str, Sequence[float]], reason: str, **more: Any
) -> Row:
    """Return a row of the means over T, which vary less than the figure at one T."""
    ours = 100 * np.mean([of_crowds(list(each)) for each in values.values()], axis=0)
    return Row(
        f"{what}{PROGRAM}, mean over T", round(float(np.mean(paper)), 2), list(ours), reason, source="mean", **more
    )


def set_up_1() -> Experiment:
    """Return the accuracies of set-up 1."""
    accuracy = stored("paper_crowd_mixture", "accuracy")
    sizes = cmm_setup1.WORKERS
    methods = [name for name in REASONS if name != "truth"]
    printed = {name: [printed_accuracy(name, str(T)) for T in sizes] for name in methods}
    out = Experiment(
        "Set-up 1, Table 2",
        f"Test accuracy, per cent, for T annotators; {DETAILS}. *As the program has it*: with the authors' points, network, "
        f"pseudo-annotations, rule for ties and stop; a value for each crowd, the mean of {NETWORKS} networks. The paper's "
        f"figures are means over networks for one crowd. That of DL-DS at T = 3,500 is 90.00 in print, 91.69 in the authors' "
        "stored results.",
        levels(printed, accuracy, sizes, "T", REASONS),
    )
    ideal = round(100 * PRINTED["setup1"]["truth"], 2)
    if accuracy is not None:
        other = "Ours has other test points for each seed, the paper one sample."
        out.rows.append(Row("truth (Ideal)", ideal, per_cent(accuracy["truth"][str(sizes[0])]), other))
    program = stored("paper_crowd_mixture", "program1", "accuracy")
    if program is not None:
        for name in methods:
            for T in sizes:
                what = f"{name}{PROGRAM}, T = {T:,}"
                out.rows.append(of_program(what, printed_accuracy(name, str(T)), program[name][str(T)], CROWD))
            out.rows.append(over_sizes(name, printed[name], program[name], CROWD))
        out.rows.append(Row(f"truth (Ideal){PROGRAM}", ideal, per_cent(program["truth"][""]), CROWD))
    return out


def divergences_of_set_up_1() -> Experiment:
    """Return the divergences of set-up 1, which the paper does not print."""
    out = Experiment(
        "Set-up 1, divergences",
        f"Hundredths of a bit. The paper does not print them: these are its authors' stored results; {DETAILS}.",
    )
    for measure, key in DIVERGENCES.items():
        theirs = table2("setup1", key)
        figures = stored("paper_crowd_mixture", key) or {}
        program = stored("paper_crowd_mixture", "program1", key) or {}
        for name, values in figures.items():
            for T, ours in values.items():
                paper = round(100 * theirs[name][T], 2)
                what = f"{name}, {measure}, T = {int(T):,}"
                more: dict[str, Any] = {"lower": True, "relative": True, "source": "stored"}
                out.rows.append(Row(what, paper, per_cent(ours), REASONS[name], **more))
                if name in program:
                    what = f"{name}{PROGRAM}, {measure}, T = {int(T):,}"
                    out.rows.append(of_program(what, paper, program[name][T], CROWD, **more))
            if name in program:
                figures_of = [100 * theirs[name][T] for T in values]
                out.rows.append(
                    over_sizes(f"{name}, {measure}", figures_of, program[name], CROWD, lower=True, relative=True)
                )
    return out


def set_up_2() -> list[Row | Claim]:
    """Return Table 2, set-up 2, relative to the accuracy with the true classes."""
    figures = stored("paper_crowd_mixture", "cifar")
    if figures is None:
        return []
    truth, rows = float(np.mean(figures["truth"][""])), []
    level = (
        f"Other features: {100 * truth:.2f} with the true classes, {100 * IDEAL:.2f} in the authors' results. A perceptron on "
        "fixed features can fit few errors of the labels; a convolutional network on pictures can fit more. That this is the "
        "reason was not tested: the pictures are not at hand."
    )
    for name, values in table2("setup2").items():
        for T, figure in values.items():
            ours = figures[name].get(T)
            mean = "not run" if ours is None else f"{100 * np.mean(ours):.2f} here"
            what = f"{name}, T = {int(T):,} ({100 * figure:.2f} in the paper, {mean})"
            relative = None if ours is None else [100 * v / truth for v in ours]
            rows.append(Row(what, round(100 * figure / IDEAL, 2), relative, level, source="ratio"))
    pictures = "The pictures are not at hand. Ours: a perceptron on features of them."
    ideal = Row("truth (Ideal)", 100 * IDEAL, per_cent(figures["truth"][""]), pictures, at_hand=False, source="stored")
    return [*rows, ideal, *orders_on_cifar(figures, truth)]


def orders_on_cifar(figures: Mapping[str, Any], truth: float) -> list[Row | Claim]:
    """Return what Table 2, set-up 2, says of the methods, on CIFAR-10."""
    mean = {name: {T: 100 * float(np.mean(v)) for T, v in values.items()} for name, values in figures.items()}
    sizes, seeds = list(mean["CMM"]), len(figures["truth"][""])
    last, others = sizes[-1], ("hard majority", "soft majority")
    best = max(mean[name][last] for name in others)
    span = max(mean["CMM"].values()) - min(mean["CMM"].values())
    drops = {name: mean[name]["100"] - mean[name]["3500"] for name in ("DL-EM", "DL-DS") if "3500" in mean[name]}
    claims: list[Row | Claim] = []
    for T in sizes:
        theirs = {name: values[T] for name, values in table2("setup2").items() if T in values}
        order = ranking({name: mean[name][T] for name in theirs})
        same = order == ranking(theirs)
        near = "" if same else "Differences of methods are small on these features; the paper has one crowd."
        claims.append(
            Claim(f"CIFAR-10, T = {int(T):,}: the order of the methods", ranking(theirs), order, same, near, seeds)
        )
    return [
        *claims,
        Claim(
            f"CIFAR-10, T = {int(last):,}: CMM is more accurate than the votes",
            "78.96 / 66.01",
            f"{mean['CMM'][last]:.1f} / {best:.1f} for the better vote",
            mean["CMM"][last] > best,
            "" if mean["CMM"][last] > best else "The features.",
            seeds,
        ),
        Claim(
            "CIFAR-10: the accuracy of CMM does not depend on T (span over T)",
            "1.4",
            f"{span:.1f}",
            span <= CLOSE,
            "" if span <= CLOSE else "One run in place of the best of 15, and a crowd for each seed.",
            seeds,
        ),
        Claim(
            "CIFAR-10: DL-EM and DL-DS lose accuracy with T",
            "11.6 / 4.5 by T = 3,500",
            " / ".join(f"{drop:.1f}" for drop in drops.values()),
            min(drops.values()) > 0,
            "" if min(drops.values()) > 0 else "The features.",
            seeds,
        ),
    ]


def orders(digits: dict[str, dict[str, list[float]]] | None, shares: str) -> list[Row | Claim]:
    """Return what the paper's Table 2, set-up 2, says of the methods, on digits, with these shares of the abilities."""
    if digits is None:
        return []
    mean = {name: {T: 100 * float(np.mean(v)) for T, v in values.items()} for name, values in digits.items()}
    sizes, methods = list(mean["CMM"]), ("DL-EM", "DL-DS", "hard majority", "soft majority")
    seeds = len(digits["CMM"][sizes[0]])
    rows: list[Row | Claim] = []
    other = max(mean[name][sizes[-1]] for name in methods)
    rows.append(
        Claim(
            f"digits, {shares}, T = {int(sizes[-1]):,}: CMM is the most accurate",
            "78.96 / 66.01 at T = 10,000",
            f"{mean['CMM'][sizes[-1]]:.1f} / {other:.1f} for the next",
            mean["CMM"][sizes[-1]] > other,
            "The votes do well on digits, with a larger network and 50 epochs. With the printed shares three labels of five are "
            "wrong, and the default `certainty` is too much.",
            seeds,
        )
    )
    span = max(mean["CMM"].values()) - min(mean["CMM"].values())
    rows.append(
        Claim(
            f"digits, {shares}: the accuracy of CMM does not depend on T (span over T)",
            "1.4",
            f"{span:.1f}",
            span <= CLOSE,
            "Three seeds with a split and a crowd each.",
            seeds,
        )
    )
    drops = {name: mean[name][sizes[0]] - mean[name][sizes[-1]] for name in ("DL-EM", "DL-DS")}
    rows.append(
        Claim(
            f"digits, {shares}: DL-EM and DL-DS lose accuracy with T",
            "11.6 / 4.5 by T = 3,500",
            " / ".join(f"{drop:.1f}" for drop in drops.values()),
            min(drops.values()) > 0,
            "Maximum likelihood run to convergence.",
            seeds,
        )
    )
    return rows


def cost_of_crowd_mixture() -> Experiment:
    """Figures 1 to 3 of the crowd mixture."""
    one = Experiment(
        "Figures 1 to 3", "Convergence, and cost with more annotators; [details](benchmarks/paper-crowd-mixture.md)."
    )
    seconds, memory = (stored("paper_crowd_mixture", key) for key in ("seconds_per_iteration", "peak_mib"))
    if seconds is None or memory is None:
        return one
    small, *_, large = memory["CMM"]
    times = [min(seconds[name][large]) / min(seconds[name][small]) for name in ("CMM", "DL-EM")]
    single = (f"{name}, one gradient step" for name in ("CMM", "DL-EM"))
    bare = [min(seconds[name][large]) / min(seconds[name][small]) for name in single]
    held = {name: float(np.mean(memory[name][large]) / np.mean(memory[name][small])) for name in ("CMM", "DL-EM")}
    at = f"T = {int(large):,} over T = {int(small):,}"
    one.rows += [
        Claim(
            f"Figure 3: time of an iteration does not grow with T for CMM, and grows for DL-EM, {at}",
            "0.99 / 4.99",
            " / ".join(f"{ratio:.2f}" for ratio in times),
            times[0] < 1.1 < times[1],
            "Here the network takes nearly all of an iteration of both; with one gradient step in place of an epoch, the ratios "
            f"are {' / '.join(f'{ratio:.2f}' for ratio in bare)}. Measured while other programs ran.",
        ),
        Claim(
            f"Figure 3: memory of a fit does not grow with T for CMM, and grows for DL-EM, {at}",
            "Figure 3",
            f"{held['CMM']:.1f} / {held['DL-EM']:.1f}",
            held["CMM"] < 1.5 < held["DL-EM"],
        ),
        Claim(
            "Figures 1, 2: curves of convergence; iterations until the stop",
            "no numbers stored",
            iterations(),
            False,
            "The authors' stored results have no numbers of these figures.",
            at_hand=False,
        ),
    ]
    return one


def iterations() -> str:
    """Return the mean number of iterations until the program's stop, set-up 1 and LabelMe."""
    first = stored("paper_crowd_mixture", "program1", "iterations")
    third = stored("paper_crowd_mixture", "program3", "table3", "individual")
    if first is None or third is None:
        return "–"
    parts = []
    for name in ("DL-EM", "CMM"):
        means = [float(np.mean(values)) for values in first[name].values()]
        one = float(np.mean(third[name]["iterations"]))
        parts.append(f"{name} {min(means):.0f} to {max(means):.0f} in set-up 1, {one:.0f} on LabelMe")
    return "; ".join(parts)
