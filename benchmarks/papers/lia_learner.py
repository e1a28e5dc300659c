"""LIA in the form of its authors' program: accuracies, and the places of workers who are always right or always wrong.

Written from what the program (github.com/eaplatanios/noisy-labels) does: a network of four hidden layers of 16 units reads an
embedding of the item or its features and gives the log-probabilities of the classes and the difficulties; a linear layer of an
embedding of the worker gives the competences; the label is drawn by the softmax of their sum. Five E steps, the first of which
takes the votes; after each, 1,000 steps of Adam on batches of 128 annotations in their order, where the network's present
probabilities are the prior of the target. Then 1,000 steps on the marginal likelihood of each annotation. No penalties. The
script of the program has several versions, with 2, 5 or 10 E steps; these are those of its minimax entropy. The last version, and
the program then, have no prior of the target, a rate of .0001 that falls, an entropy bonus, probabilities of a label that are
divided by their sum over the classes, and no fine-tuning; its layers are wider than ours.
"""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any, NamedTuple

import baselines  # noqa: F401 - puts the folder of common on the path
import bluebirds
import lia
import numpy as np
import torch
from common import spread, table
from lia_program import BATCH, BETAS, E_STEPS, RATE, STEPS, UNITS, Draws, glorot, sets
from redundancy import LEVELS
from torch import Tensor

from crowdppl import CrowdpplWarning
from crowdppl.data import datasets
from crowdppl.data.experiments import with_reference_workers


class Form(NamedTuple):
    """A version of the script.

    Attributes:
        prior: whether the network's present probabilities are the prior of the target.
        rate: of Adam.
        decay: factor of the rate at each step.
        batch: annotations of a step.
        entropy: weight of the entropy of the network's probabilities.
        relative: whether probabilities of a label are divided by their sum over the classes.
        fine: steps on the marginal likelihood.
    """

    prior: bool = True
    rate: float = RATE
    decay: float = 1.0
    batch: int = BATCH
    entropy: float = 0.0
    relative: bool = False
    fine: int = 1000


MAIN = Form()
LAST = Form(prior=False, rate=1e-4, decay=0.995, batch=512, entropy=0.01, relative=True, fine=0)
LAYERS = 4
OF_LAST, SETS_OF_LAST = "LIA-E, last script", ("Word Similarity",)
SHOWN = tuple(f"{who}, {when}" for when in ("without fine-tuning", "fine-tuned") for who in ("classifier", "posterior"))
DRAWS, STARTS = 10, {"bluebirds": 10, "rte": 3}
BEFORE, AFTER, ESTIMATED = "without fine-tuning", "fine-tuned", "labels of the last E step"
# Figures of the paper by set, method and annotations per item.
PAPER = {
    "Blue Birds": {"LIA-E": " ".join(f"{v:.1f}" for v in bluebirds.PAPER["LIA-E"])},
    "RTE": {name: lia.PAPER["rte"][name] for name in ("LIA-E", "LIA")},
    "Word Similarity": {"LIA-E": lia.PAPER["word-similarity"]["LIA-E"]},
}


class Learner:
    """The networks of several fits at once, in the first dimension ``S`` of every tensor."""

    def __init__(self, draws: Draws, inputs: Tensor | None, generator: torch.Generator) -> None:
        S = len(draws.item)
        self.rows = torch.arange(S)[:, None]
        self.inputs = inputs
        self.items = glorot(generator, S, draws.items, UNITS)
        self.workers = glorot(generator, S, draws.workers, UNITS)
        sizes = [UNITS if inputs is None else inputs.shape[1], *[UNITS] * LAYERS]
        self.hidden = [self.dense(generator, a, b) for a, b in pairwise(sizes)]
        self.classes, self.difficulty, self.competence = (self.dense(generator, UNITS, b) for b in (2, 4, 4))
        layers = [*self.hidden, self.classes, self.difficulty, self.competence]
        learned = [self.items] if inputs is None else []
        self.parameters = [*learned, self.workers, *(tensor for layer in layers for tensor in layer)]

    def dense(self, generator: torch.Generator, inputs: int, outputs: int) -> tuple[Tensor, Tensor]:
        """Return the weights and the biases of a layer."""
        S = len(self.rows)
        return glorot(generator, S, inputs, outputs), torch.zeros(S, 1, outputs, requires_grad=True)

    def __call__(self, item: Tensor, worker: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities of classes ``(S, B, 2)``, and of labels by class ``(S, B, 2, 2)``."""
        x = self.items[self.rows, item] if self.inputs is None else self.inputs[item]
        for w, b in self.hidden:
            x = (x @ w + b).relu()
        apply = lambda values, layer: values @ layer[0] + layer[1]  # noqa: E731
        cells = apply(x, self.difficulty) + apply(self.workers[self.rows, worker], self.competence)
        return apply(x, self.classes).log_softmax(-1), cells.unflatten(-1, (2, 2)).log_softmax(-1)


def program(
    draws: Draws, inputs: Tensor | None = None, form: Form = MAIN, seed: int = 0
) -> tuple[dict[str, list[float]], Tensor]:
    """Return the accuracy of each draw by who is judged, and the probability that a worker is right ``(S, J)``.

    Judged are the classifier and the posterior before and after fine-tuning; without a prior the labels of the last E step, too.

    Args:
        draws: annotations.
        inputs: features ``(N, D)``; without them an embedding of the item is learned.
        form: version of the script.
        seed: of the first parameters.
    """
    learner = Learner(draws, inputs, torch.Generator().manual_seed(seed))
    S, A = draws.item.shape
    rows, order, place = torch.arange(S)[:, None], torch.arange(A), 0
    optimizer = torch.optim.Adam(learner.parameters, lr=form.rate, betas=BETAS)
    every = torch.arange(draws.items).expand(S, -1)

    def given(at: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of classes, and of the labels by class."""
        h, q = learner(draws.item[:, at], draws.worker[:, at])
        q = q.log_softmax(-2) if form.relative else q
        return h, (q * draws.label[:, at][:, :, None]).sum(-1)

    @torch.no_grad()
    def answers() -> dict[str, Tensor]:
        h = learner(every, torch.zeros_like(every))[0]
        return {"classifier": h, "posterior": h + draws.sums(given(order)[1])}

    def step(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= form.decay

    scores: dict[str, Tensor] = {}
    joint = draws.sums(draws.label).log()
    for number in range(E_STEPS + 1):
        if number == E_STEPS:
            scores |= {f"{name}, {BEFORE}": values for name, values in answers().items()}
            scores |= {} if form.prior else {ESTIMATED: joint}  # with a prior the target moves within a step
        if number:
            with torch.no_grad():
                joint = draws.sums(given(order)[1])
        for _ in range(form.fine if number == E_STEPS else STEPS):
            at = order[place : place + form.batch]
            place = place + form.batch if place + form.batch < A else 0
            h, q = given(at)
            if number == E_STEPS:
                step(-(h + q).logsumexp(-1).sum())
                continue
            target = joint[rows, draws.item[:, at]] + (h.detach() if number and form.prior else 0)
            step(form.entropy * (h.exp() * h).sum() - (target.softmax(-1) * (h + q)).sum())
    scores |= {f"{name}, {AFTER}": values for name, values in answers().items()}
    right = {name: (values.argmax(-1) == draws.truth).double().mean(-1).tolist() for name, values in scores.items()}
    with torch.no_grad():
        item = torch.arange(draws.items).repeat_interleave(draws.workers).expand(S, -1)
        worker = torch.arange(draws.workers).repeat(draws.items).expand(S, -1)
        h, q = learner(item, worker)
        correct = (h.exp() * q.exp().diagonal(dim1=-2, dim2=-1)).sum(-1)
    return right, correct.view(S, draws.items, draws.workers).mean(1)


def oracles(name: str, starts: int) -> dict[str, Any]:
    """Add a worker who is always right and one who is always wrong, and return their places by estimated accuracy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        data, truth = datasets.public(name)
    data = with_reference_workers(data, truth, seed=0)
    codes = truth.map({label: code for code, label in enumerate(data.labels.tolist())})
    draws = Draws(data, codes, int(np.bincount(data.item.numpy()).max()), starts)
    accuracy, correct = program(draws)
    order = correct.argsort(1, descending=True).numpy()
    codes_of = [data.workers.tolist().index(one) for one in ("always right", "always wrong")]
    places = [[int(np.flatnonzero(row == code)[0]) + 1 for code in codes_of] for row in order]
    given = np.bincount(data.worker.numpy(), minlength=data.J)
    return {
        "places": places,
        "workers": data.J,
        "items": data.N,
        "accuracy": accuracy[f"posterior, {AFTER}"],
        # Annotations of the workers before the one who is always right: the most of any.
        "before": [int(given[row[: place[0] - 1]].max(initial=0)) for row, place in zip(order, places, strict=True)],
    }


def measure(quick: bool) -> dict[str, Any]:
    """Return accuracies by set, method, annotations per item and who is judged, and the places of workers of known quality."""
    out: dict[str, Any] = {"oracles": {}}
    for name, starts in STARTS.items() if not quick else [("bluebirds", 1)]:
        out["oracles"][name] = oracles(name, starts)
        print(name, out["oracles"][name], flush=True)
    for name, (data, truth) in sets().items():
        features: dict[str, Tensor | None] = {"LIA-E": None}
        if name == "RTE":
            x = lia.overlap().loc[data.items].to_numpy().astype(np.float32)
            features["LIA"] = torch.tensor((x - x.mean(0)) / x.std(0).clip(1e-6))
        for r in LEVELS[name][: 1 if quick else None]:
            draws = Draws(data, truth, r, 2 if quick else DRAWS)
            for method, inputs in features.items():
                own = out.setdefault(name, {}).setdefault(method, {})
                own[str(r)] = program(draws, inputs)[0]
                print(name, r, method, {k: round(float(np.mean(v)), 4) for k, v in own[str(r)].items()}, flush=True)
    out["last script"] = last_script(quick)
    return out


def last_script(quick: bool) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return accuracies of LIA-E by the last version of the script, by set, annotations per item and who is judged."""
    out: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name, (data, truth) in ((name, one) for name, one in sets().items() if name in SETS_OF_LAST):
        for r in LEVELS[name][: 1 if quick else None]:
            one = program(Draws(data, truth, r, 2 if quick else DRAWS), form=LAST)[0]
            out.setdefault(name, {})[str(r)] = one
            print("last script", name, r, {k: round(float(np.mean(v)), 4) for k, v in one.items()}, flush=True)
    return out


def page(results: dict[str, Any]) -> str:
    """Write the part of the page."""
    parts = []
    for name, printed in PAPER.items():
        rows = []
        for method, figures in printed.items():
            by = results[name][method]
            for judged in SHOWN:
                rows.append([f"{method}, {judged}", *(spread(by[str(r)][judged]) for r in LEVELS[name])])
            if method == "LIA-E" and (last := results.get("last script", {}).get(name)):
                rows.append([f"{OF_LAST}, {ESTIMATED}", *(spread(last[str(r)][ESTIMATED]) for r in LEVELS[name])])
            rows.append([f"{method}, paper", *figures.split()])
        parts.append(f"### {name}, LIA\n\n{table(['accuracy', *(f'r = {r}' for r in LEVELS[name])], rows)}\n")
    places = [
        [name, one["workers"], ", ".join(f"{a} and {b}" for a, b in one["places"]), spread(one["accuracy"])]
        for name, one in results["oracles"].items()
    ]
    return f"""## LIA itself

Per cent, mean and standard deviation over {DRAWS} random subsets with r annotations an item, or as many starts where r keeps
everything. {E_STEPS} E steps, each with {STEPS:,} steps of Adam on {BATCH} annotations, and {MAIN.fine:,} on the marginal
likelihood of each annotation (fine-tuning). LIA-E reads an embedding of the item, LIA on RTE the features of ours.

{chr(10).join(parts)}
### Workers of known quality

Places by estimated accuracy of a worker who is always right and of one who is always wrong, added to all annotations, one pair
for each start, and the accuracy of the labels.

{table(["", "workers", "places", "accuracy"], places)}
"""
