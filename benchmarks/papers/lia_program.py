"""What LIA is compared with, in the form of its authors' program: minimax entropy, and classifiers trained on its E step.

Written from what the program (github.com/eaplatanios/noisy-labels) does: five E steps; after each, 1,000 steps of Adam on batches
of 128 annotations in their order, from small random effects. Penalties count once for each annotation of a batch, not once for
each worker and item. All draws of the annotations are fitted at once, in the first dimension of every tensor.

The paper's MAJ* and MMCE* put a classifier beside the votes or the effects. Judged are the labels of the last E step, from an
item's own annotations without the classifier, or with its probabilities as their prior, and those of the classifier alone.
"""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import baselines  # noqa: F401 - puts the folder of common on the path
import numpy as np
import pandas as pd
import torch
from common import spread, table
from lia import overlap, similarity
from redundancy import LEVELS, PAPER
from torch import Tensor

from crowdppl import CrowdpplWarning
from crowdppl.data import datasets
from crowdppl.data.experiments import thinned

E_STEPS, STEPS, BATCH, RATE, BETAS = 5, 1000, 128, 1e-3, (0.9, 0.99)
ALPHA = 0.5  # gamma (2 L)^2 / 2 with gamma = 1/4 and one label a problem
UNITS = 16  # of each of the four layers of a classifier
DRAWS = 10
TIE = 1e-6  # weight of what decides between tied votes


class Draws:
    """Several random subsets of the annotations of a set, equal in size: items and workers ``(S, A)``, labels ``(S, A, 2)``.

    Args:
        data: all annotations.
        truth: true labels by item.
        per_item: annotations of each item.
        draws: number of subsets ``S``.
        soft: answers 0 to 10 by item and worker, as ten times the probability of class 1; without them labels are certain.
    """

    def __init__(self, data: Any, truth: pd.Series, per_item: int, draws: int, soft: pd.Series | None = None) -> None:
        parts = [thinned(data, per_item=per_item, seed=seed) for seed in range(draws)]
        self.items, self.workers = data.N, data.J
        codes = []
        for part in parts:
            item = pd.Index(data.items).get_indexer(part.items)[part.item]
            worker = pd.Index(data.workers).get_indexer(part.workers)[part.worker]
            codes.append([item, worker, part.label.numpy()])
        self.item, self.worker, label = torch.tensor(np.array(codes)).unbind(1)
        self.label = torch.nn.functional.one_hot(label, 2).float()
        if soft is not None:
            pairs = [
                (data.items[i], data.workers[j]) for i, j in zip(self.item.ravel(), self.worker.ravel(), strict=True)
            ]
            one = torch.tensor(soft.loc[pairs].to_numpy() / 10).float().view(self.item.shape)
            self.label = torch.stack([1 - one, one], -1)
        self.truth = torch.tensor(truth.loc[data.items].to_numpy())
        self.beta = torch.tensor([ALPHA * p.N / p.J for p in parts])

    def sums(self, values: Tensor) -> Tensor:
        """Sum values ``(S, A, 2)`` by item: ``(S, N, 2)``."""
        out = values.new_zeros(len(values), self.items, 2)
        return out.scatter_add(1, self.item[..., None].expand_as(values), values)


def glorot(generator: torch.Generator, *shape: int) -> Tensor:
    """Return uniform numbers in Glorot's range by the last two sizes of ``shape``, times those before as a receptive field."""
    field = int(np.prod(shape[1:-2])) if len(shape) > 3 else 1
    bound = (6 / (field * (shape[-2] + shape[-1]))) ** 0.5
    return ((2 * torch.rand(shape, generator=generator) - 1) * bound).requires_grad_()


def classifier(draws: Draws, inputs: Tensor | None, generator: torch.Generator) -> tuple[list[Tensor], Any]:
    """Return parameters, and a function that gives log-probabilities ``(S, B, 2)`` at items ``(S, B)``.

    Args:
        draws: annotations.
        inputs: features ``(N, D)`` of a network, or none for a table of logits, as in the program's minimax entropy. An empty
            second dimension stands for an embedding that is learned.
        generator: of the first parameters.
    """
    S = len(draws.item)
    rows = torch.arange(S)[:, None]
    if inputs is None:
        logits = glorot(generator, S, draws.items, 2)
        return [logits], lambda item: logits[rows, item].log_softmax(-1)
    embedding = [] if inputs.shape[1] else [glorot(generator, S, draws.items, UNITS)]
    sizes = [inputs.shape[1] or UNITS, *[UNITS] * 4, 2]
    weights = [glorot(generator, S, a, b) for a, b in pairwise(sizes)]
    biases = [torch.zeros(S, 1, b, requires_grad=True) for b in sizes[1:]]

    def apply(item: Tensor) -> Tensor:
        h = embedding[0][rows, item] if embedding else inputs[item]
        for layer, (w, b) in enumerate(zip(weights, biases, strict=True)):
            h = h @ w + b
            h = h.relu() if layer < len(weights) - 1 else h
        return h.log_softmax(-1)

    return [*embedding, *weights, *biases], apply


def program(
    draws: Draws, entropy: bool, inputs: Tensor | None = None, prior: bool = False, seed: int = 0
) -> dict[str, list[float]]:
    """Return the accuracy of each draw: of the classifier, and of the labels of a last E step.

    Args:
        draws: annotations.
        entropy: effects of workers and items (minimax entropy); else the votes.
        inputs: of the classifier, as of :func:`classifier`.
        prior: whether the classifier's probabilities are the prior of the E step. Without, it decides between tied votes only.
        seed: of the first parameters.
    """
    generator = torch.Generator().manual_seed(seed)
    S, A = draws.item.shape
    rows = torch.arange(S)[:, None]
    parameters, h = classifier(draws, inputs, generator)
    by_item = glorot(generator, S, draws.items, 2, 2)
    by_worker = glorot(generator, S, draws.workers, 2, 2)
    if entropy:
        parameters = [*parameters, by_item, by_worker]
    optimizer = torch.optim.Adam(parameters, lr=RATE, betas=BETAS)
    every = torch.arange(draws.items).expand(S, -1)
    votes = draws.sums(draws.label).log()

    def given(at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probability of each label by class ``(S, B, 2)``, and the effects behind it."""
        item, worker, label = (v[:, at] for v in (draws.item, draws.worker, draws.label))
        of_item, of_worker = by_item[rows, item], by_worker[rows, worker]
        q = (of_item + of_worker).log_softmax(-1)
        return (q * label[:, :, None]).sum(-1), of_item, of_worker

    order, place = torch.arange(A), 0
    for step in range(E_STEPS):
        with torch.no_grad():
            joint = votes if step == 0 or not entropy else draws.sums(given(order)[0])
            if prior and step:
                joint = joint + h(every)
            target = joint.softmax(-1)
        for _ in range(STEPS):
            at = order[place : place + BATCH]
            place = place + BATCH if place + BATCH < A else 0
            item = draws.item[:, at]
            r = target[rows, item]
            loss = -(r * h(item)).sum()
            if entropy:
                q, of_item, of_worker = given(at)
                loss = loss - (r * q).sum()
                loss = (
                    loss
                    + (draws.beta[:, None] * of_item.square().sum((-1, -2))).sum()
                    + ALPHA * of_worker.square().sum()
                )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        joint = draws.sums(given(order)[0]) if entropy else votes
        if prior or (inputs is not None and not entropy):
            joint = joint + (1 if prior else TIE) * h(every)
        answers = {"classifier": h(every), "E step": joint}
    known = draws.truth
    out = {}
    for name, scores in answers.items():
        right = (scores.argmax(-1) == known).double()
        tied = (scores[..., 0] == scores[..., 1]).double()
        out[name] = (right * (1 - tied) + tied / 2).mean(-1).tolist()
    return out


PRIOR = ", classifier as prior"
# Name, effects of workers and items, what the classifier reads, and whether it is the prior of the E step.
METHODS = (
    ("vote shares, embeddings (MAJ*-E)", False, "embeddings", True),
    ("minimax entropy, embeddings (MMCE*-E)", True, "embeddings", True),
    ("vote shares, features (MAJ*)", False, "features", False),
    (f"vote shares, features (MAJ*){PRIOR}", False, "features", True),
    ("minimax entropy, features (MMCE*)", True, "features", False),
    (f"minimax entropy, features (MMCE*){PRIOR}", True, "features", True),
)


def sets() -> dict[str, tuple[Any, pd.Series]]:
    """Return the sets of the paper that are at hand, with their truth."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        words, positive = similarity()
        return {
            "Blue Birds": datasets.public("bluebirds"),
            "RTE": datasets.public("rte"),
            "Word Similarity": (words, pd.Series(positive, words.items)),
        }


def measure(quick: bool) -> dict[str, dict[str, dict[int, dict[str, list[float]]]]]:
    """Return accuracies by set, method, annotations per item, and who is judged."""
    out: dict[str, dict[str, dict[int, dict[str, list[float]]]]] = {}
    learned = torch.zeros(0, 0)
    answers = pd.read_csv(datasets.folder() / "word-similarity" / "annotations.csv.gz").set_index(["item", "worker"])[
        "label"
    ]
    for name, (data, truth) in sets().items():
        x = overlap().loc[data.items].to_numpy().astype(np.float32) if name == "RTE" else None
        features = None if x is None else torch.tensor((x - x.mean(0)) / x.std(0).clip(1e-6))
        for r in LEVELS[name][: 1 if quick else None]:
            draws = Draws(data, truth, r, 2 if quick else DRAWS)
            own = out.setdefault(name, {})
            own.setdefault("minimax entropy", {})[r] = program(draws, True)
            for method, entropy, inputs, prior in METHODS:
                given = learned if inputs == "embeddings" else features
                if given is not None:
                    own.setdefault(method, {})[r] = program(draws, entropy, given, prior)
            if name == "Word Similarity":
                soft = Draws(data, truth, r, 2 if quick else DRAWS, soft=answers)
                own.setdefault("vote shares, embeddings (MAJ*-E), soft answers", {})[r] = program(
                    soft, False, learned, True
                )
            print(
                name,
                r,
                {m: {k: round(float(np.mean(v)), 4) for k, v in one[r].items()} for m, one in own.items()},
                flush=True,
            )
    return out


def page(results: dict[str, dict[str, dict[str, dict[str, list[float]]]]]) -> str:
    """Write the part of the page."""
    parts = []
    for name, methods in results.items():
        rows = []
        for method, by in methods.items():
            for judged, label in (("classifier", "classifier"), ("E step", "labels of the E step")):
                rows.append([f"{method}, {label}", *(spread(by[str(r)][judged]) for r in LEVELS[name])])
            if method in PAPER[name]:
                rows.append([f"{method}, paper", *PAPER[name][method].split()])
        parts.append(f"### {name}\n\n{table(['accuracy', *(f'r = {r}' for r in LEVELS[name])], rows)}\n")
    return f"""## What LIA is compared with

Per cent, mean and standard deviation over {DRAWS} random subsets with r annotations an item (the same one where r keeps
everything). {E_STEPS} E steps, each with {STEPS:,} steps of Adam on {BATCH} annotations: the classes cannot move far from the
votes at which they start, so that minimax entropy does not lose them with two annotations an item, as it does when its
likelihood is maximised ([page](paper-redundancy.md)). *Labels of the E step*: from an item's own annotations; with the
classifier of features as their prior where that is said, and always with that of embeddings, which sees no more than these
annotations. The program's minimax entropy has no such prior. In RTE's rows with features the labels of the E step come near the
paper's figures, and the classifier alone is not.

{chr(10).join(parts)}"""
