"""Tables 3 and 4: LabelMe with annotators known (individual) and unknown (global), and the groups found."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from baselines import plain, with_features
from cmm_program import first_class
from cmm_shared import Results, at_point, record, stored
from common import fit, spread, table

import crowdppl
from crowdppl import Annotations
from crowdppl.learning import two_stage
from crowdppl.metrics import global_divergence, individual_divergence
from crowdppl.models import CrowdMixture, DawidSkene, Raykar
from crowdppl.posterior.workers import groups

SEEDS = 3
MEASURES = ("train", "test", "individual_js", "global_js")


def matrices(data: Annotations, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the annotators' matrices by the true classes, uniform in classes that they have not seen, and the crowd's."""
    counts = np.zeros((data.J, data.K, data.K))
    np.add.at(counts, (data.worker.numpy(), truth[data.item.numpy()], data.label.numpy()), 1)
    crowd = counts.sum(0)
    counts[counts.sum(-1) == 0] = 1
    return counts / counts.sum(-1, keepdims=True), crowd / crowd.sum(-1, keepdims=True)


def sets() -> tuple[dict[str, Annotations], np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return the annotations of both settings, the true classes, and features and classes of the test items."""
    known, truth, z = with_features("labelme")
    y, test = np.searchsorted(known.labels, truth.loc[known.items]), (z["x_test"], z["y_test"])
    own = Annotations.from_arrays(
        known.item,
        np.arange(known.A),
        known.label,
        labels=range(known.K),
        items=range(known.N),
        features=known.features,
    ).to(dtype=torch.float32)
    return {"individual": known, "global": own}, y, test


def measure(quick: bool) -> dict[str, Any]:
    """Return Table 3 by setting, method and measure, and Table 4 by measure and group."""
    settings, y, test = sets()
    results: dict[str, Results] = {}
    table4: dict[str, Results] = {}
    for setting, data in settings.items():
        table3 = results.setdefault(setting, {})
        true, crowd = matrices(data, y)
        for seed in range(1 if quick else SEEDS):
            record_all(table3, table4, data, y, test, true, crowd, seed)
        print("LabelMe", setting, {n: {m: round(np.mean(v[m]), 4) for m in v} for n, v in table3.items()}, flush=True)
    return {"table3": results, "table4": table4}


def record_all(
    table3: Results,
    table4: dict[str, Results],
    data: Annotations,
    y: np.ndarray,
    test: tuple[np.ndarray, np.ndarray],
    true: np.ndarray,
    crowd: np.ndarray,
    seed: int,
) -> None:
    """Measure all methods with one seed; ``true`` and ``crowd`` are the annotators' matrices and the crowd's."""
    x, shares = data.features.numpy(), data.majority().double().numpy()

    def keep(name: str, train: float, tested: float, each: np.ndarray | None, whole: np.ndarray | None) -> None:
        record(table3, name, "train", train)
        record(table3, name, "test", tested)
        if each is not None and whole is not None:
            record(table3, name, "individual_js", individual_divergence(each, true))
            record(table3, name, "global_js", global_divergence(whole, crowd))

    for name, targets in (
        ("soft majority", shares),
        ("hard majority", first_class(shares)),
        ("truth", np.eye(data.K)[y]),
    ):
        net = two_stage(data, targets, plain, seed=seed)
        by_votes = np.zeros((data.K, data.K))
        np.add.at(by_votes.T, data.label.numpy(), targets[data.item.numpy()])
        by_votes /= by_votes.sum(-1, keepdims=True)
        each = None if name == "truth" else np.broadcast_to(by_votes, true.shape)
        keep(name, net.accuracy(x, y), net.accuracy(*test), each, by_votes)
    for name, model in (
        ("DL-DS", DawidSkene.maximum_likelihood()),
        ("DL-DS, the library's default prior", DawidSkene()),
    ):
        posterior, _ = fit(data, model, method="em", seed=seed, num_samples=2)
        net = two_stage(data, posterior, plain, seed=seed)
        each = at_point(posterior)["confusion"].values.astype(float)
        keep(name, net.accuracy(x, y), net.accuracy(*test), each, each.mean(0))
    models: tuple[tuple[str, Any, dict[str, Any]], ...] = (
        ("DL-EM", Raykar(network=plain, prior_scale=0.1, prior_correct=0.0, prior_incorrect=0.0), {"max_iter": 50}),
        ("DL-EM, the library's default prior", Raykar(network=plain, prior_scale=0.1), {"max_iter": 50}),
        ("CMM", CrowdMixture(network=plain), {"restarts": 1}),
        ("CMM, certainty 0", CrowdMixture(network=plain, certainty=0.0), {"restarts": 1}),
    )
    for name, model, more in models:
        posterior, _ = fit(data, model, method="em", seed=seed, num_samples=2, **more)
        guess = [crowdppl.predict(posterior, f, model=model)["label"].to_numpy() for f in (x, test[0])]
        point = at_point(posterior)
        each = point["confusion"].values.astype(float)
        mixed = isinstance(model, CrowdMixture)
        whole = point["crowd_confusion"].values if mixed else each.mean(0)
        keep(name, (guess[0] == y).mean(), (guess[1] == test[1]).mean(), each, whole)
        if mixed and data.J < data.A:
            frame = groups.table(posterior).sort_values("share", ascending=False)
            for column in ("share", "similarity", "entropy"):
                for m, value in enumerate(frame[column]):
                    record(table4.setdefault(name, {}), column, m, value)


def page(results: dict[str, Any]) -> str:
    """Return the section."""
    paper = stored("table3_labelme").replace({"softMV": "soft majority", "hardMV": "hard majority", "Ideal": "truth"})
    columns = {"train": "train_accuracy", "test": "test_accuracy", "individual_js": "individual_js"}
    columns["global_js"] = "global_js"
    parts = []
    for setting, values in results["table3"].items():
        rows = []
        for name, one in values.items():
            here = [
                spread(one[m]) if m in ("train", "test") else f"{np.mean(one[m]):.3f}" for m in MEASURES if m in one
            ]
            rows.append([f"{name}, here", *here, *["–"] * (4 - len(here))])
            theirs = paper[(paper["setting"] == setting) & (paper["method"] == name)]
            for _, row in theirs.iterrows():
                figures = [100 * row[columns[m]] if m in ("train", "test") else row[columns[m]] for m in MEASURES]
                digits = [2, 2, 3, 3]
                rows.append(
                    [
                        f"{name}, stored",
                        *("–" if np.isnan(c) else f"{c:.{d}f}" for c, d in zip(figures, digits, strict=True)),
                    ]
                )
        parts.append(f"{setting.capitalize()} setting:\n\n")
        parts.append(table(["trained by", "training items", "test items", "I-JS", "G-JS"], rows) + "\n\n")
    table4 = results["table4"]
    theirs = stored("table4_labelme_groups")
    theirs = theirs[theirs["setting"] == "individual"]
    rows = []
    for m, (_, row) in enumerate(theirs.iterrows()):
        here = [
            f"{np.mean(v):.2f} ± {np.std(v, ddof=1) if len(v) > 1 else 0:.2f}"
            for name in ("CMM, certainty 0", "CMM")
            for v in (table4[name][c][str(m)] for c in ("share", "similarity", "entropy"))
        ]
        rows.append([f"{m + 1}", *(f"{row[c]:.2f}" for c in ("alpha", "i_sim", "entropy")), *here])
    seeds = len(results["table3"]["individual"]["CMM"]["test"])
    columns3 = ["share", "similarity", "entropy"]
    header = [
        "group",
        "stored: share",
        "stored: I_sim",
        "stored: entropy",
        *(f"certainty 0: {c}" for c in columns3),
        *(f"default: {c}" for c in columns3),
    ]
    return f"""## Table 3: LabelMe

1,000 images with 2,547 labels by 59 annotators in 8 classes, 1,188 test images; average-pooled VGG-16 features as in the
authors' program, which has no validation items either: the last of 50 epochs counts, without augmentation. One hidden layer
of 128 with dropout .5, features not standardised. In the global setting every label has an annotator of its own (T = 2,547).
Training items: accuracy of the classifier. Per cent, mean and standard deviation over {seeds} seeds. I-JS and G-JS as above,
against the matrices by the true classes (rows of classes that an annotator has not seen are uniform, as in the program).
*Stored*: the authors' results, which the paper prints but for CMM on test items (83.10), the truth (97.90, 92.09) and most of the
global setting. The next section has the program's form. [LabelMe with features](paper-labelme.md) has more models, and 500 images
to choose the epoch.

{"".join(parts)}## Table 4: the groups found on LabelMe

Groups in the order of their share; similarity to the identity and entropy in nats; without the library's `certainty`, as in the
paper, and with it. Which groups are found depends on the start only: every split of the crowd's matrix is as likely. The paper's
one group with all annotations is one such split.

{table(header, rows)}
"""
