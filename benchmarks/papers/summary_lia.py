"""Rows of the paper of LIA (Platanios et al.) on the results page."""

from __future__ import annotations

from dataclasses import replace

import bluebirds
import lia
import lia_learner
import numpy as np
import redundancy
import snorkel_models
from comparison import PROGRAM, Claim, Experiment, Row, Stored, levels, per_cent, stored

# Random subsets of the annotations of which the program of LIA's authors takes the mean, by annotations per item.
SUBSETS = {2: 10, 5: 10, 10: 10, 20: 5, 39: 5}
OF_SUBSETS = (
    "The paper does not say how many subsets of the annotations its figures are means over. The last script of its authors, the "
    "only one with all methods of the table, takes 10 random ones; here the figures are taken for means over these{more} "
    "An earlier script has 10, 5 and 3 at r = 2, 5 and 10."
)


def lia_paper() -> list[Experiment]:
    """Platanios et al."""
    own = "The exact posterior of the truth under the marginal likelihood, with a prior on the competence of workers."
    kept = (
        (stored("paper_programs", "LIA", "Blue Birds", "minimax entropy") or {}).get("39", {}).get("E step", [np.nan])
    )
    raised = [
        one["accuracy"] for one in stored("paper_redundancy", "Blue Birds") or [] if one["method"] == "minimax entropy"
    ]
    of_birds = (
        f"{own} The five E steps of the authors' program leave the classes near the votes: minimax entropy, which is LIA without "
        f"networks, has {100 * np.mean(kept):.1f}% that way with all annotations, and {100 * max(raised, default=np.nan):.1f}% "
        "where its likelihood is maximised."
    )
    skene = stored("paper_lia", "rte", "Dawid–Skene") or {}
    of_texts = f"{own} Dawid–Skene with the library's prior has " + (
        ", ".join(f"{100 * np.mean(skene[str(r)]):.1f}" for r in lia.LEVELS if str(r) in skene) + "%, too."
    )
    figures = stored("paper_bluebirds")
    birds = Experiment(
        "Blue Birds, Table 2",
        "Accuracy, per cent, at redundancy r; [details](benchmarks/paper-bluebirds.md). "
        + OF_SUBSETS.format(more=", and over 5 at r = 20 and 39, as an earlier one has."),
    )
    names = {
        "majority": bluebirds.PAPER["majority"],
        "LIA-E": bluebirds.PAPER["LIA-E"],
    }
    birds.rows += levels(names, figures, bluebirds.REDUNDANCY, "r", {"LIA-E": of_birds})
    birds.rows += [
        Row(
            f"LIA, r = {r}",
            figure,
            None,
            "The pictures of Blue Birds, which LIA reads, and their features in the authors' repository are not at hand.",
            at_hand=False,
        )
        for r, figure in zip(bluebirds.REDUNDANCY, bluebirds.PAPER[bluebirds.WITH_PICTURES], strict=True)
    ]
    words = Experiment(
        "Word Similarity, Table 2",
        f"Accuracy, per cent, at redundancy r; [details](benchmarks/paper-lia.md). {OF_SUBSETS.format(more='.')}",
    )
    embeddings = "The word embeddings that LIA reads are in the authors' repository, and not among the data at hand."
    figures = stored("paper_lia", "word-similarity")
    spreads = [0.0 if figures is None else 100 * lia.deviation(figures["LIA-E"][str(r)]) for r in (2, 5)]
    few = (
        "30 pairs: one pair is 3.3 points. At r = 2 there are 60 labels of ten workers; the accuracy of LIA-E differs between "
        f"subsets by {spreads[0]:.0f} points, at r = 5 by {spreads[1]:.1f}."
    )
    many = (
        "30 pairs: one pair is 3.3 points. The paper's is the same at every redundancy; ours gains with annotations, as a "
        "majority does."
    )
    for name, printed in lia.PAPER["word-similarity"].items():
        for r, figure in zip(lia.LEVELS, printed.split(), strict=True):
            if figure == "–":
                continue
            ours = None if figures is None or name == "LIA" else per_cent(figures[name][str(r)])
            reason = embeddings if name == "LIA" else few if r == 2 else many if name == "LIA-E" else few
            words.rows.append(Row(f"{name}, r = {r}", float(figure), ours, reason, at_hand=name != "LIA"))
    texts = Experiment(
        "RTE, Table 2",
        f"Accuracy, per cent, at redundancy r; [details](benchmarks/paper-lia.md). {OF_SUBSETS.format(more='.')}",
    )
    figures = stored("paper_lia", "rte")
    for name, printed in lia.PAPER["rte"].items():
        wanted = {name: [float(v) for v in printed.split()]}
        texts.rows += levels(wanted, figures, lia.LEVELS, "r", {"LIA-E": of_texts} if name == "LIA-E" else {})
    for experiment, name in ((birds, "Blue Birds"), (words, "Word Similarity"), (texts, "RTE")):
        experiment.rows += [*compared(name), *as_the_program_has_it(name), *itself(name), *label_models(name)]
        experiment.rows = [over_subsets(row) for row in experiment.rows]
    return [birds, words, texts, medical_relations(), without_fine_tuning(), oracles()]


def over_subsets(row: Row | Claim) -> Row | Claim:
    """Return a row whose figure of the paper is a mean over the subsets of the program at the redundancy of the row."""
    return replace(row, runs=SUBSETS[int(row.what.rpartition("r = ")[2])]) if isinstance(row, Row) else row


def medical_relations() -> Experiment:
    """Table 2 of LIA on the relations, whose measure is not known."""
    medical = Experiment(
        "Medical relations, Table 2",
        "The paper's figures at redundancy 2, 5 and 10; [ours](benchmarks/paper-medical.md) are accuracies on pairs with expert "
        "labels.",
    )
    other = "The paper's sentence features and its measure are not at hand; accuracy on pairs is not comparable."
    for name, by in lia.MEDICAL.items():
        for relation, printed in zip(("CAUSES", "TREATS"), by, strict=True):
            for r, figure in zip(lia.LEVELS, printed.split(), strict=True):
                medical.rows.append(Row(f"{name}, {relation}, r = {r}", float(figure), None, other, at_hand=False))
    return medical


def without_fine_tuning() -> Experiment:
    """Table 3 of LIA, of which eight of 17 figures are at hand, and Figure 2."""
    out = Experiment(
        "Without fine-tuning, Table 3, and Figure 2", "Accuracy of LIA without the marginal likelihood, per cent."
    )
    features = "The features with which LIA was fitted for this table are not at hand."
    for name, printed in lia.WITHOUT.items():
        for r, figure in zip(redundancy.LEVELS[name], printed.split(), strict=True):
            out.rows.append(Row(f"{name}, r = {r}", float(figure), None, features, at_hand=False))
    out.rows += [
        Claim(
            "Word Similarity and Medical relations, nine figures",
            "Table 3",
            "–",
            False,
            "These figures of the paper are not at hand: of its text there are extracts. Neither are the features, which the "
            "authors' repository has for Word Similarity.",
            at_hand=False,
        ),
        Claim(
            "Figure 2",
            "picture",
            "[curves](benchmarks/paper-redundancy.md)",
            True,
            "The paper's picture has no numbers at hand to compare with. Ours are curves of accuracy against annotations per "
            "item.",
            at_hand=False,
        ),
    ]
    return out


SETS_OF_LIA = {"RTE": "rte", "Word Similarity": "word-similarity"}


def as_the_program_has_it(name: str) -> list[Row | Claim]:
    """Return what LIA is compared with, on one set, in the form of the authors' program."""
    measured = (stored("paper_programs", "LIA") or {}).get(name, {})
    rows: list[Row | Claim] = []
    pairs = "30 pairs: one pair is 3.3 points. " if name == "Word Similarity" else ""
    every = str(max(redundancy.LEVELS[name]))
    figures = stored("paper_bluebirds") if name == "Blue Birds" else stored("paper_lia", SETS_OF_LIA[name])
    right = 100 * np.mean((figures or {}).get("majority", {}).get(every, [np.nan]))
    votes = (
        f"{pairs}The labels of the E step are the votes, of which {right:.1f}% are right with all annotations; the embedding of "
        "an item sees no more than these. Why the paper's are more accurate with many annotations is not known."
    )
    other = (
        "The features are ours. With the classifier as the prior of the E step the labels are less accurate "
        "([page](benchmarks/paper-programs.md)); the paper's, with features of its own, are between the two."
    )
    for method, printed in redundancy.PAPER[name].items():
        judged = "classifier" if method == "minimax entropy" else "E step"
        for r, figure in zip(redundancy.LEVELS[name], printed.split(), strict=True) if method in measured else ():
            values = measured[method][str(r)][judged]
            step = f"{pairs}Ten subsets, or ten starts where all annotations are kept."
            if judged == "classifier":
                step += f" The labels of the E step have {100 * np.mean(measured[method][str(r)]['E step']):.1f}%."
            alone = votes if method.startswith("vote") else step
            reason = other if "(MMCE*)" in method or "(MAJ*)" in method else alone
            what = f"{method}{PROGRAM}{', labels of the E step' if judged == 'E step' else ''}, r = {r}"
            rows.append(Row(what, float(figure), per_cent(values), reason))
    return rows


def itself(name: str) -> list[Row | Claim]:
    """Return LIA on one set in the form of the authors' program; the features of RTE are ours."""
    results = stored("paper_programs", "LIA itself") or {}
    measured, last = results.get(name, {}), results.get("last script", {}).get(name, {})
    versions = (
        "Ten subsets, or ten starts where all annotations are kept. The authors' script has several versions; from which one the "
        "printed figures are is not said. One has 5 E steps with 1,000 steps each at a rate of .001, as its minimax entropy has, "
        "and the last a tenth of that rate, which falls."
    )
    if name == "RTE":
        versions += " The features of RTE are ours."
    rows: list[Row | Claim] = []
    for method, printed in lia_learner.PAPER[name].items():
        forms = {"labels": (measured.get(method, {}), f"posterior, {lia_learner.AFTER}")}
        if method == "LIA-E":
            forms["labels of the E step, last script"] = (last, lia_learner.ESTIMATED)
        for form, (by, judged) in forms.items():
            for r, figure in zip(redundancy.LEVELS[name], printed.split(), strict=True) if by else ():
                values = per_cent(by[str(r)][judged])
                rows.append(Row(f"{method}{PROGRAM}, {form}, r = {r}", float(figure), values, versions))
    return rows


def label_models(name: str) -> list[Row | Claim]:
    """Return Snorkel and MeTaL on one set."""
    measured = (stored("paper_programs", "Snorkel") or {}).get(name, {})
    today = (
        "The paper's Snorkel is an older generative model; ours is the label model of `snorkel` 0.10. Both packages are used "
        "with their defaults, which assume that the classes are equally frequent."
    )
    rows: list[Row | Claim] = []
    for model, printed in snorkel_models.PAPER.get(name, {}).items():
        for r, figure in zip(redundancy.LEVELS[name], printed.split(), strict=True):
            values = measured.get(model, {}).get(str(r))
            missing_package = "The packages `snorkel` and `snorkel-metal` were not installed."
            reason = missing_package if values is None else today
            rows.append(Row(f"{model}, r = {r}", float(figure), per_cent(values), reason, at_hand=values is not None))
    return rows


def compared(name: str) -> list[Row | Claim]:
    """Return the methods that Table 2 of LIA's paper compares itself with, on one set."""
    figures = {(one["method"], one["per_item"]): one for one in (stored("paper_redundancy", name) or [])}
    early = figures.get(("minimax entropy, stopped after two E steps", 2), {}).get("accuracy", np.nan)
    drift = (
        "With two annotations an item the likelihood of minimax entropy keeps rising while the classes move away from the votes; "
        f"stopped after two E steps it has {100 * early:.1f}."
    )
    more = {
        "Blue Birds": " With more annotations it is more accurate here; at r = 39 another implementation has 91.67, too.",
        "Word Similarity": " With more annotations it is more accurate here.",
    }
    drift += more.get(name, "")
    repeats = (
        "The embedding of an item is learned from the annotations of that item alone, so that the classifier repeats its target. "
        "Why the paper's differs from its target is not known."
    )
    ours = "The features are ours and separate the classes poorly; the paper's are not at hand."
    rows: list[Row | Claim] = []
    for method, printed in redundancy.PAPER[name].items():
        if method == "majority":
            continue  # above, with the draws of LIA
        reason = ours if "features" in method else drift if method.startswith("minimax") else repeats
        for r, figure in zip(redundancy.LEVELS[name], printed.split(), strict=True):
            one = figures[method, r]
            spread = 0.0 if one["draws"] == 1 else 100 * one["error"] * one["draws"] ** 0.5
            mean = Stored(100 * one["accuracy"], spread, one["draws"])
            exact = one["draws"] == 1 and method == "minimax entropy"  # all annotations, and no network
            rows.append(Row(f"{method}, r = {r}", float(figure), mean, reason, exact=exact))
    return rows


def oracles() -> Experiment:
    """Workers who are always right or always wrong."""
    out = Experiment(
        "Oracle workers",
        "A worker who is always right and one who is always wrong are added to all annotations: their places by estimated "
        "accuracy. The paper's statement is about LIA; [details](benchmarks/paper-bluebirds.md), and "
        "[in the form of the program](benchmarks/paper-programs.md).",
    )
    crowd = (
        "The fit is wrong about {wrong_items} of {items} items, where {others_wrong:.0%} of its annotations are incorrect; by "
        "the estimated labels, a worker who shares these errors is as accurate as the one who is always right."
    )
    for name, judges in (stored("paper_bluebirds", "reference") or {}).items():
        for judge, fits in judges.items():
            figures = max(fits, key=lambda one: one["right"])
            places = [(one["right"], one["wrong"]) for one in fits]
            ends = sum(place == (1, figures["workers"]) for place in places)
            each = ", ".join(f"{right} and {wrong}" for right, wrong in places)
            out.rows.append(
                Claim(
                    f"first and last: {name}, {judge}",
                    "text" if judge.startswith("LIA") else "–",
                    f"{each} of {figures['workers']}",
                    2 * ends > len(fits),
                    f"In {ends} of {len(fits)} fits. {crowd.format(**figures)}" if ends < len(fits) else "",
                    len(fits),
                )
            )
    for name, one in ((stored("paper_programs", "LIA itself") or {}).get("oracles") or {}).items():
        places, last = one["places"], one["workers"]
        ends = sum(place == [1, last] for place in places)
        each = ", ".join(f"{right} and {wrong}" for right, wrong in dict.fromkeys(map(tuple, places)))
        least = 100 * min(one["accuracy"])
        out.rows.append(
            Claim(
                f"first and last: {name}, LIA-E{PROGRAM}",
                "text",
                f"{each} of {last}",
                2 * ends > len(places),
                f"In {ends} of {len(places)} fits. {least:.1f}% of the labels and more are right. The workers before the one who "
                f"is always right annotated {max(one['before'])} of {one['items']} items at most, and nothing but the data says "
                "how competent they are."
                if ends < len(places)
                else "",
                len(places),
            )
        )
    return out
