"""Snorkel and MeTaL, with which LIA is compared: their label models of today, on random subsets of the annotations.

They need the packages ``snorkel``, ``snorkel-metal`` and ``tensorboardX``, which are not among the library's. The paper's Snorkel
is an older generative model, which the package no longer has; that of today is MeTaL's.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import baselines  # noqa: F401 - puts the folder of common on the path
import numpy as np
from common import spread, table
from lia_program import sets
from redundancy import LEVELS

from crowdppl import Annotations
from crowdppl.data.experiments import thinned

DRAWS, EPOCHS = 4, 500
# Table 2 of the paper.
PAPER = {
    "Blue Birds": {"Snorkel": "63.8 72.4 76.0 76.0 76.0", "MeTaL": "63.0 71.5 83.0 87.0 89.0"},
    "RTE": {"Snorkel": "65.2 79.1 90.0", "MeTaL": "61.0 72.4 78.0"},
}


def installed() -> bool:
    """Whether all packages are there."""
    return all(find_spec(name) is not None for name in ("snorkel", "metal", "tensorboardX"))


def matrix(data: Annotations, absent: int, first: int) -> np.ndarray:
    """Return labels by item and worker ``(N, J)``, counted from ``first``."""
    out = np.full((data.N, data.J), absent)
    out[data.item.numpy(), data.worker.numpy()] = data.label.numpy() + first
    return out


def snorkel(data: Annotations, seed: int) -> np.ndarray:
    """Return the probabilities of Snorkel's label model."""
    from snorkel.labeling.model import LabelModel  # here: not a dependency

    model = LabelModel(cardinality=2, verbose=False)
    given = matrix(data, -1, 0)
    model.fit(given, n_epochs=EPOCHS, seed=seed, progress_bar=False)
    return model.predict_proba(given)


def metal(data: Annotations, seed: int) -> np.ndarray:
    """Return the probabilities of MeTaL's label model."""
    import networkx  # here: not a dependency
    from metal.label_model import LabelModel
    from scipy.sparse import csr_matrix

    if not hasattr(networkx.Graph, "node"):  # the name that the package has for it
        networkx.Graph.node = property(lambda graph: graph.nodes)
    model = LabelModel(k=2, seed=seed, verbose=False)
    given = csr_matrix(matrix(data, 0, 1))
    model.train_model(given, n_epochs=EPOCHS, log_train_every=EPOCHS)
    return model.predict_proba(given)


MODELS: dict[str, Callable[[Annotations, int], np.ndarray]] = {"Snorkel": snorkel, "MeTaL": metal}


def measure(quick: bool) -> dict[str, dict[str, dict[int, list[float]]]]:
    """Return accuracies by set, model and annotations per item."""
    out: dict[str, Any] = {}
    for name in PAPER:
        data, truth = sets()[name]
        for r in LEVELS[name][: 1 if quick else None]:
            for seed in range(1 if quick or r >= data.A / data.N else DRAWS):
                part = thinned(data, per_item=r, seed=seed)
                known = truth.loc[part.items].to_numpy()
                for model, probabilities in MODELS.items():
                    with contextlib.redirect_stdout(io.StringIO()):
                        p = probabilities(part, seed)
                    right = np.where(p[:, 0] == p[:, 1], 0.5, p.argmax(1) == known)
                    out.setdefault(name, {}).setdefault(model, {}).setdefault(r, []).append(float(right.mean()))
            print(name, r, {model: round(float(np.mean(own[r])), 4) for model, own in out[name].items()}, flush=True)
    return out


def page(results: dict[str, dict[str, dict[str, list[float]]]]) -> str:
    """Write the part of the page."""
    parts = []
    for name, models in results.items():
        rows: list[list[Any]] = []
        for model, by in models.items():
            rows.append([f"{model}, here", *(spread(by[str(r)]) for r in LEVELS[name])])
            rows.append([f"{model}, paper", *PAPER[name][model].split()])
        parts.append(f"### {name}, label models\n\n{table(['accuracy', *(f'r = {r}' for r in LEVELS[name])], rows)}\n")
    return f"""## Snorkel and MeTaL

Per cent, mean and standard deviation over {DRAWS} random subsets. Label models of `snorkel` 0.10 and `snorkel-metal` 0.5 with
{EPOCHS} epochs and their defaults: uniform class balance, one accuracy for each worker and class. The paper's Snorkel is an older
generative model, which the package no longer has.

{chr(10).join(parts)}"""
