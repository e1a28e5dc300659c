"""The results page of the five source papers, ``docs/papers.md``: their figures beside ours, with a verdict and its reason.

Our figures are read from ``benchmarks/results``, which the other scripts of this folder write; the papers' figures stand
in those scripts or here, with the number of their table. An experiment without stored figures is left out and named on the
screen.
"""

from __future__ import annotations

import math
from dataclasses import replace

import bluebirds
import labelme
import labelme_confusions
import lia
import music
import numpy as np
import redundancy
import snorkel_models
import two_gaussians
from comparison import (
    DOCS,
    PROGRAM,
    RULE,
    VERDICTS,
    Claim,
    Experiment,
    Row,
    Stored,
    levels,
    per_cent,
    stored,
)
from crowd_methods import TABLE1
from summary_crowd_mixture import crowd_mixture_paper


def conal_paper() -> list[Experiment]:
    """Chu, Ma and Wang (2021)."""
    votes = stored("paper_labelme", "test", "hard majority (DL-MV)")
    features = (
        "Other features of the same images: average-pooled VGG-16, no augmentation to 10,000 images. The majority vote is "
        f"{np.nan if votes is None else 100 * np.mean(votes) - 79.83:.1f} points higher with them."
    )
    first = Experiment(
        "LabelMe, Tables 1 and 2", "Test accuracy, per cent; [details](benchmarks/paper-labelme.md).", []
    )
    for name, figure in {
        **{name: figures[0] for name, figures in TABLE1.items()},
        "CoNAL, one true label per item, EM": 87.12,
    }.items():
        if (ours := stored("paper_labelme", "test", name)) is not None:
            first.rows.append(Row(name, figure, per_cent(ours), features))
    for weight, figure in labelme.LAMBDAS.items():
        if weight == labelme.DEFAULT:
            continue  # as above
        if (ours := stored("paper_labelme", "lambda", f"{weight:g}")) is not None:
            first.rows.append(Row(f"CoNAL, end to end, lambda = {weight:g}", figure, per_cent(ours), features))
    first.rows.append(
        Claim(
            "Figures 1, 5: confusions of the whole crowd are in the common matrix, others in the annotators' own",
            "pictures",
            "[pictures](benchmarks/paper-labelme.md#common-confusions)",
            True,
            "Inside city, tall building and street are confused in the common matrix. Open country and mountain, which the crowd "
            "confuses as well, differ between annotators and are in their own.",
            1,
        )
    )
    protocol = (
        "In the authors' program the epoch is chosen on the test clips; ours on a tenth of the training clips. A classifier of "
        "these 124 features trained on the *true* labels reaches {truth:.1f}% here, less than the paper's CoNAL."
    )
    second = Experiment(
        "Music genre, Tables 1 and 2", "Test accuracy, per cent; [details](benchmarks/paper-music.md).", []
    )
    tested = stored("paper_music", "test")
    if tested is not None:
        reason = protocol.format(truth=100 * np.mean(tested["truth"]))
        second.rows += [Row(name, figure, per_cent(tested[name]), reason) for name, figure in music.PAPER.items()]
    second.rows += music_recipe()
    third = Experiment(
        "Synthetic set, Figure 4",
        "The paper's figure has curves on CIFAR-10. Simulated features: share of the items whose true label is recovered, per "
        "cent; [details](benchmarks/paper-conal.md). CIFAR-10: test accuracy on features of its images that were computed "
        "without labels, the annotations drawn by the paper's recipe; [details](benchmarks/paper-conal-cifar10.md).",
    )
    pictures = "Here features are simulated; those of CIFAR-10 follow."
    for name, figures in (stored("paper_conal") or {}).items():
        share, strength = name.split(", ")
        ours = {key: f"{100 * np.mean(figures[key]):.1f}" for key in ("CoNAL", "Dawid–Skene", "majority")}
        third.rows.append(
            Claim(
                f"CoNAL finds more true labels than Dawid–Skene and majority: share {share}, error rate {strength}",
                "Figure 4",
                " / ".join(ours.values()),
                np.mean(figures["CoNAL"]) > max(np.mean(figures["Dawid–Skene"]), np.mean(figures["majority"])),
                pictures,
                len(figures["CoNAL"]),
                at_hand=False,
            )
        )
    third.rows += pictures_of_cifar()
    first.rows += common_confusions()
    return [first, second, third]


def music_recipe() -> list[Row | Claim]:
    """Return the music clips by the recipe of CoNAL's program."""
    measured = stored("paper_programs", "Music")
    if measured is None:
        return []
    bound = 100 * np.mean(measured["truth"]["best"])
    last = {name: 100 * np.mean(own["last"]) for name, own in measured.items()}
    reason = (
        f"At the best step by the test clips, as the program chooses it; at the last of 200 steps CoNAL has "
        f"{last['CoNAL, end to end']:.1f}%. With the same recipe a classifier of the *true* genres has {bound:.1f}%, less than "
        "the paper's CoNAL: its features or its division of the clips differ from the public ones."
    )
    return [
        Row(f"{name}{PROGRAM}", music.PAPER[name], per_cent(own["best"]), reason)
        for name, own in measured.items()
        if name in music.PAPER
    ]


def common_confusions() -> list[Row | Claim]:
    """Return what CoNAL's paper says of LabelMe's crowd in Figure 1 and in Theorem 1, whose numbers are not at hand."""
    measured = stored("paper_programs", "LabelMe")
    if measured is None:
        return []
    frequent = labelme_confusions.frequent(measured)
    country = measured["shares"][labelme.CLASSES.index("open country")]
    right = country[labelme.CLASSES.index("open country")]
    return [
        Claim(
            "Figure 1: percentages of the crowd's confusions",
            "percentages",
            ", ".join(f"{what} {share:.1%}" for what, share in list(frequent.items())[:4]),
            True,
            "The paper's percentages are not at hand. Ours are shares of the annotations of a class.",
            at_hand=False,
        ),
        Claim(
            "open country, a pair of percentages",
            "67.21 / 54.19",
            f"{right:.1%} of its annotations are right, {country[labelme.CLASSES.index('mountain')]:.1%} say mountain",
            False,
            "What the two percentages count is not at hand. No share of the annotations, of a worker's annotations, or of the "
            "workers with a confusion is one of them (all pairs of classes were tried).",
            at_hand=False,
        ),
        Claim(
            "Theorem 1: a bound",
            "bound",
            "–",
            False,
            "The statement of the theorem is not at hand, and no experiment of the paper measures it.",
            at_hand=False,
        ),
    ]


def pictures_of_cifar() -> list[Row | Claim]:
    """Return Figure 4 of CoNAL on features of CIFAR-10."""
    rows: list[Row | Claim] = []
    measured = stored("paper_conal_cifar10") or {}
    paired = [
        100 * (a - b)
        for own in measured.values()
        for a, b in zip(own["crowd layer, MW (DL-CL)"], own["CoNAL, end to end"], strict=True)
    ]
    behind, points = [d > 0 for d in paired], float(np.mean(paired)) if paired else math.nan
    for name, figures in measured.items():
        mean = {method: 100 * float(np.mean(values)) for method, values in figures.items()}
        names = ("CoNAL, end to end", "crowd layer, MW (DL-CL)", "hard majority (DL-MV)")
        own, *others = (mean[method] for method in names)
        rows.append(
            Claim(
                f"CIFAR-10, {name}: CoNAL is above the crowd layer and majority",
                "Figure 4",
                f"{' / '.join(f'{mean[method]:.1f}' for method in names)}, truth {mean['truth']:.1f}",
                own > max(others),
                "" if own > max(others) else CIFAR.format(cases=len(behind), less=sum(behind), points=points),
                len(figures["truth"]),
            )
        )
    return rows


CIFAR = (
    "Features of the images, computed without labels, and one hidden layer stand in place of the paper's network on images. "
    "On these CoNAL is less accurate than the crowd layer on the same crowd in {less} of {cases} cases, by {points:.1f} points "
    "on average. Where the common wrong class is as frequent as the right one (error rate .6), a fit from the annotations alone "
    "can exchange the classes of a pair."
)


def difficulty_paper() -> list[Experiment]:
    """Xu, Zhang, Zhang and Zhang."""
    first = Experiment(
        "Two Gaussians, Table 1",
        "Test accuracy, per cent, structural labels; [details](benchmarks/paper-two-gaussians.md).",
    )
    one_sample = (
        "The best possible classifier has 92.14% on average: the paper's figures are those of one sample of 1,000 test points "
        "(standard deviation .85). Ours has another sample for each seed."
    )
    for name, printed in two_gaussians.PAPER.items():
        if (ours := stored("paper_two_gaussians", "structural", name, "test")) is not None:
            first.rows.append(Row(name, float(printed.split()[0]), per_cent(ours), one_sample))
    figures = stored("paper_two_gaussians", "structural")
    second = Experiment(
        "ROC curves and expertise, Figures 2 and 3",
        "Structural labels; [details](benchmarks/paper-two-gaussians.md).",
    )
    first.rows += authors_sample()
    if figures is not None:
        auc = {name: float(np.mean(figures[name]["auc"])) for name in ("adaptive", "original EM", "majority")}
        fixed = float(np.mean(figures["fixed, prior of the program"]["auc"]))
        error = {name: float(np.mean(figures[name]["experts"])) for name in ("adaptive", "original EM")}
        unbounded = float(np.mean(figures["fixed, prior of the program"]["experts"]))
        seeds = len(figures["adaptive"]["auc"])
        second.rows += [
            Claim(
                "ROC curve of the truth: adaptive above original EM above majority",
                "Figure 2",
                "AUC " + " / ".join(f"{value:.3f}" for value in auc.values()),
                auc["adaptive"] > auc["original EM"] > auc["majority"],
                seeds=seeds,
            ),
            Claim(
                "ROC curve of the truth: fixed difficulty above majority",
                "Figure 2",
                f"AUC {fixed:.3f} / {auc['majority']:.3f}",
                fixed > auc["majority"],
                seeds=seeds,
            ),
            Claim(
                "expertise: adaptive nearer to the true values than original EM",
                "Figure 3",
                "root mean square error " + " / ".join(f"{value:.3f}" for value in error.values()),
                error["adaptive"] < error["original EM"],
                seeds=seeds,
            ),
            Claim(
                "expertise: fixed difficulty near the true values (error of at most .1)",
                "Figure 3",
                f"root mean square error {unbounded:.3f}",
                unbounded <= 0.1,
                "The slopes lambda are not bounded where votes are unanimous. The authors' stored expertise is equal to its "
                "starting values of appendix A.3: their step size does not move lambda.",
                seeds=seeds,
            ),
        ]
    third = Experiment(
        "Dogs vs. Cats, Tables 2 and 3", "Test accuracy, per cent; [ours, on two digits](benchmarks/paper-digits.md)."
    )
    pictures = "The pictures of Dogs vs. Cats are not at hand."
    for labels, printed in two_gaussians.PICTURES.items():
        for name, figure in printed.items():
            ours = (
                stored("paper_digits", labels, name, "test")
                if (DOCS / "benchmarks/paper-digits.md").is_file()
                else None
            )
            text = (
                pictures
                if ours is None
                else f"{pictures} Ours: two classes of scikit-learn's digits, and a small network."
            )
            third.rows.append(Row(f"{name}, {labels}", figure, per_cent(ours), text, at_hand=False))
    return [first, second, third]


def authors_sample() -> list[Row | Claim]:
    """Return Table 1 of the difficulty paper on its authors' own points: our models, and the algorithms of their program."""
    measured = stored("paper_programs", "two Gaussians")
    rows: list[Row | Claim] = []
    for name, printed in two_gaussians.PAPER.items() if measured else ():
        figure = float(printed.split()[0])
        own = measured["authors' labels"][name]["best"]
        rows.append(Row(f"{name}, the authors' points and labels{PROGRAM}: best epoch", figure, per_cent(own)))
        if name in measured["ours"]:
            last = 100 * np.mean(measured["labels drawn"][name]["last"])
            early = (
                "Ours is run to convergence. The program takes 30 steps and keeps the best by the test points; on labels drawn "
                f"anew its last step has {last:.1f}%."
            )
            rows.append(
                Row(f"{name}, the authors' points, labels drawn", figure, per_cent(measured["ours"][name]), early)
            )
    return rows


# Random subsets of the annotations of which the program of LIA's authors takes the mean, by annotations per item.
SUBSETS = {2: 10, 5: 5, 10: 3, 20: 5, 39: 5}
OF_SUBSETS = (
    "A script of the authors takes means over 10, 5 and 3 random subsets at r = 2, 5 and 10{more} The paper does not say how "
    "many its figures are means of; here they are taken for these."
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
        + OF_SUBSETS.format(more=", and 5 at r = 20 and 39."),
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
            "The pictures of Blue Birds, which LIA reads, are not at hand.",
            at_hand=False,
        )
        for r, figure in zip(bluebirds.REDUNDANCY, bluebirds.PAPER[bluebirds.WITH_PICTURES], strict=True)
    ]
    words = Experiment(
        "Word Similarity, Table 2",
        f"Accuracy, per cent, at redundancy r; [details](benchmarks/paper-lia.md). {OF_SUBSETS.format(more='.')}",
    )
    embeddings = "The word embeddings that LIA reads are not at hand."
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
        experiment.rows += [*compared(name), *as_the_program_has_it(name), *label_models(name)]
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
            "These figures of the paper are not at hand, and neither are the features.",
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
        "accuracy. The paper's statement is about LIA; [details](benchmarks/paper-bluebirds.md).",
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
    return out


def sorting_paper() -> list[Experiment]:
    """Salmon et al.: describing a crowd and sorting its workers."""
    missing_ids = "The raw answers of CIFAR-10H, with their workers, are not at hand; label counts of its images are."
    first = Experiment(
        "CIFAR-10H: feedback, load and sorted workers",
        "[Details](benchmarks/paper-sorting.md), with entropy, confusions, and the histogram of each way of sorting.",
    )
    figures = stored("paper_sorting")
    if figures is None:
        return []
    counts, sorted_by = figures["cifar10h-counts"], figures["cifar10s"]
    picture = "The paper's picture has no numbers to compare with. Ours is of the label counts of the same annotations."
    stands = f"{missing_ids} CIFAR-10S, with 248 known workers, stands in its place."
    entropy, people = counts["entropy"], sorted_by["mean_diagonal"]
    frequent = ", ".join(f"{what} {share:.1%}" for what, share in counts["confusions"].items())
    first.rows += [
        Row("annotations per task, mean", 51.14, [counts["feedback"]], lower=None, exact=True),
        Row("annotations per worker", 200.0, None, missing_ids, at_hand=False),
        Claim(
            "entropy of naive soft labels, bits: mean, share at 0, share above 1",
            "histogram",
            f"{entropy['mean']:.2f}, {entropy['zero']:.0%}, {entropy['above 1']:.0%}",
            True,
            picture,
            at_hand=False,
        ),
        Claim("average confusions, the most frequent", "picture", frequent, True, picture, at_hand=False),
        Claim(
            "confusions of the best and of the worst worker: their accuracy",
            "picture",
            f"{people['best']:.0%}, {people['worst']:.0%} on CIFAR-10S",
            True,
            stands,
            at_hand=False,
        ),
    ]
    for name in ("gold questions", "spammer score", "mean diagonal", "median seconds"):
        ours = sorted_by["sorted"][name]
        first.rows.append(
            Claim(
                f"workers below the threshold by {name}, {ours['threshold']:.2f}",
                "histogram",
                f"{ours['below']} of {ours['workers']} on CIFAR-10S",
                True,
                stands,
                at_hand=False,
            )
        )
    return [first]


PAPERS = {
    "Crowd mixture (Mena and Ñanculef 2019)": crowd_mixture_paper,
    "Common and individual noise (Chu, Ma and Wang 2021)": conal_paper,
    "Two coins and difficulty (Xu et al.)": difficulty_paper,
    "Difficulty times competence (Platanios et al.)": lia_paper,
    "Sorting workers (Salmon et al.)": sorting_paper,
}


# Where each paper's model is described, and worked through.
PAGES = {
    "Crowd mixture (Mena and Ñanculef 2019)": ("crowd-mixture", "crowd-mixture"),
    "Common and individual noise (Chu, Ma and Wang 2021)": ("conal", "common-and-individual-noise"),
    "Two coins and difficulty (Xu et al.)": ("two-coin-difficulty", "difficulty-and-expertise"),
    "Difficulty times competence (Platanios et al.)": ("lia", "difficulty-times-competence"),
    "Sorting workers (Salmon et al.)": ("dawid-skene", "dawid-skene"),
}


# Table 1 of CoNAL: standard deviations over five runs on LabelMe and on Music.
RUNS_OF_CONAL = 5
SPREADS = {
    "hard majority (DL-MV)": (0.34, 0.41),
    "GLAD, then a classifier (DL-GLAD)": (0.34, 0.37),
    "worker groups, then a classifier (DL-WC)": (0.33, 0.24),
    "crowd layer, MW (DL-CL)": (0.52, 0.53),
    "doctor net, learned weights (Doctor Net)": (0.43, 0.47),
    "trace regularization (Anno-Reg)": (0.48, 0.36),
    "Max-MIG": (0.61, 0.33),
    "learning from crowds (AggNet, DL-EM)": (0.27, 0.41),
    "CoNAL, end to end": (0.55, 0.42),
}
COLUMN = {"LabelMe, Tables 1 and 2": 0, "Music genre, Tables 1 and 2": 1}


def with_errors(experiment: Experiment) -> Experiment:
    """Return a table of CoNAL with the standard errors of its printed figures; others as they are."""
    if experiment.title not in COLUMN:
        return experiment
    column = COLUMN[experiment.title]
    rows = [
        replace(row, error=SPREADS[row.what][column] / math.sqrt(RUNS_OF_CONAL))
        if isinstance(row, Row) and row.what in SPREADS
        else row
        for row in experiment.rows
    ]
    return replace(experiment, rows=rows)


def main() -> None:
    """Write the page."""
    parts, counts = [], {verdict: 0 for verdict in VERDICTS}
    for title, experiments in PAPERS.items():
        tables = [with_errors(experiment) for experiment in experiments() if experiment.rows]
        for experiment in tables:
            for row in experiment.rows:
                counts[row.verdict] += 1
        if tables:
            where = ""
            if title in PAGES:
                model, notebook = PAGES[title]
                where = f"[The model](models/{model}.md); [the notebook](../notebooks/{notebook}.ipynb).\n\n"
            parts.append(f"## {title}\n\n{where}" + "\n".join(experiment.page() for experiment in tables))
    total = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    page = f"""# The five papers

Rerun: `python benchmarks/papers/summary.py`, from the stored figures of the other scripts in `benchmarks/papers/`.

The models of five papers are in the library. Each table has a paper's printed figures, ours with mean and standard deviation over
seeds, and a verdict by one rule.

{RULE}

Of all rows: {total}.

{chr(10).join(parts)}"""
    (DOCS / "papers.md").write_text(page.rstrip() + "\n", encoding="utf-8")
    print(total)


if __name__ == "__main__":
    main()
