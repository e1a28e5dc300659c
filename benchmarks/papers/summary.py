"""The results page of the five source papers, ``docs/papers.md``: their figures beside ours, with a verdict and its reason.

Our figures are read from ``benchmarks/results``, which the other scripts of this folder write; the papers' figures stand
in those scripts or here, with the number of their table. An experiment without stored figures is left out and named on the
screen.
"""

from __future__ import annotations

import math
from dataclasses import replace

import labelme
import labelme_confusions
import music
import numpy as np
import two_gaussians
from comparison import (
    DOCS,
    PROGRAM,
    RULE,
    VERDICTS,
    Claim,
    Experiment,
    Row,
    per_cent,
    stored,
)
from crowd_methods import TABLE1
from summary_crowd_mixture import crowd_mixture_paper
from summary_lia import lia_paper


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
        "the paper's CoNAL: its features or its division of the clips differ from the public ones. Another program of CoNAL "
        "(github.com/seunghyukcho/CoNAL-pytorch), which chooses on the test clips, too, says 67.00 ± 0.76."
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
    sizes = ", ".join(f"{size:,}" for size in measured["sizes"])
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
            "What the two percentages count is not at hand: of the paper's text there are extracts. "
            f"{labelme_confusions.tried(measured)} Both can be shares of the same things only where "
            f"these are {sizes} or more; a class of LabelMe has {measured['items'][0]} to {measured['items'][1]} items to learn "
            f"from and {measured['annotations'][0]} to {measured['annotations'][1]} annotations.",
            at_hand=False,
        ),
        Claim(
            "Theorem 1: a bound",
            "bound",
            "–",
            False,
            "The statement of the theorem is not at hand: of the paper's text there are extracts. The authors' program does not "
            "compute a bound.",
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
    parts, counts, beyond = [], {verdict: 0 for verdict in VERDICTS}, 0
    for title, experiments in PAPERS.items():
        tables = [with_errors(experiment) for experiment in experiments() if experiment.rows]
        for experiment in tables:
            for row in experiment.rows:
                counts[row.verdict] += 1
                beyond += isinstance(row, Row) and row.beyond_seeds
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

Of all rows: {total}. Of those undecided, {beyond} have a dagger.

{chr(10).join(parts)}"""
    (DOCS / "papers.md").write_text(page.rstrip() + "\n", encoding="utf-8")
    print(total)


if __name__ == "__main__":
    main()
