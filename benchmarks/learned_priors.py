"""Other default priors of Dawid-Skene: learned populations, and anchoring to votes, chosen by leaving one public set out.

A small EM of its own, since most of these variants are no models of the library. Completed sets are kept in the file
``--results``.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import table, write
from default_model import GROUPS, load, scores
from torch import Tensor

from crowdppl import Annotations
from crowdppl.model.weighted_votes import weighted_votes

Pseudo = Callable[[Tensor], Tensor]  # expected counts (J, K, K) to pseudo-counts (K, K)
ANCHORS = (0.0, 0.3, 0.5)
STEPS, CHANGE = 120, 1e-3
# A crowd's pseudo-annotations in each class, correct and incorrect, from which a learned one starts.
CROWD = (4.0, 1.0)
DEFAULT = "correct 4 (K/2 if more), incorrect 1; anchor 0"
TRIED = 120


def rows(correct: float, incorrect: float, K: int) -> Tensor:
    """Return pseudo-counts ``(K, K)``."""
    return torch.full((K, K), incorrect / max(1, K - 1), dtype=torch.float64).fill_diagonal_(correct)


def fixed(correct: float | None, incorrect: float) -> Pseudo:
    """Return pseudo-counts that do not depend on the annotations."""

    def pseudo(counts: Tensor) -> Tensor:
        K = counts.shape[-1]
        return rows(max(4.0, K / 2) if correct is None else correct, incorrect, K)

    return pseudo


def learned_competence(strength: float) -> Pseudo:
    """Return pseudo-counts that say how competent the crowd is, as learned; each worker counts as ``strength`` annotations."""

    def pseudo(counts: Tensor) -> Tensor:
        total = counts.sum((-1, -2))
        weight = strength / (total + strength)
        correct = (counts.diagonal(dim1=-2, dim2=-1).sum(-1) * weight).sum() + CROWD[0]
        share = float(correct / ((total * weight).sum() + sum(CROWD)))
        return rows(strength * share, strength * (1 - share), counts.shape[-1])

    return pseudo


def learned_rows(strength: float) -> Pseudo:
    """Return pseudo-counts with the crowd's confusion as learned; each worker's row counts as ``strength`` annotations."""

    def pseudo(counts: Tensor) -> Tensor:
        total = counts.sum(-1, keepdim=True)
        crowd = (counts * strength / (total + strength)).sum(0) + rows(*CROWD, counts.shape[-1])
        return strength * crowd / crowd.sum(-1, keepdim=True)

    return pseudo


PRIORS: dict[str, Pseudo] = {
    "flat": fixed(0, 0),
    "correct 0.5, incorrect 0.5": fixed(0.5, 0.5),
    "correct 1, incorrect 0": fixed(1, 0),
    "correct 1, incorrect 1": fixed(1, 1),
    "correct 1, incorrect 2": fixed(1, 2),
    "correct 2, incorrect 1": fixed(2, 1),
    "correct 4, incorrect 0": fixed(4, 0),
    "correct 4 (K/2 if more), incorrect 1": fixed(None, 1),
    "correct 4, incorrect 2": fixed(4, 2),
    "correct 8, incorrect 2": fixed(8, 2),
    "learned competence, strength 2": learned_competence(2),
    "learned competence, strength 5": learned_competence(5),
    "learned competence, strength 10": learned_competence(10),
    "learned rows, strength 2": learned_rows(2),
    "learned rows, strength 5": learned_rows(5),
    "learned rows, strength 10": learned_rows(10),
}


def estimate(data: Annotations, pseudo: Pseudo, share: float, votes: Tensor) -> np.ndarray:
    """Return class probabilities ``(N, K)`` of EM whose parameters are learned from a share of ``votes`` ``(N, K)``."""
    r, earlier = (votes if share else data.majority()), None
    for _ in range(STEPS):
        counts = data.counts.expected(r)
        table = counts + pseudo(counts)
        total = table.sum(-1, keepdim=True)
        table = torch.where(total > 0, table / total.clamp(min=1e-300), 1 / data.K)
        joint = data.counts.log_likelihoods(table.log()).add_((r.sum(0) / data.N).log())
        posterior = joint.softmax(-1)
        r = (1 - share) * posterior + share * votes
        if earlier is not None and float((posterior - earlier).abs().max()) < CHANGE:
            break
        earlier = posterior
    return posterior.numpy()


def main() -> None:
    """Measure what is not in the results, the smallest sets first, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("build/learned_priors.json"))
    parser.add_argument("--quick", action="store_true", help="two small sets, to see that it runs; writes no page")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    options = parser.parse_args()
    kept: dict[str, dict[str, Any]] = {}
    if options.results.exists() and not options.quick:
        kept = json.loads(options.results.read_text(encoding="utf-8"))
    names = sorted((name for group in GROUPS.values() for name in group), key=lambda name: load(name)[0].A)
    torch.set_default_dtype(torch.float64)
    for name in names[: 2 if options.quick else None]:
        data, truth = load(name)
        own = kept.setdefault(name, {})
        votes = weighted_votes(data)
        for prior, pseudo in PRIORS.items():
            for share in ANCHORS:
                variant = f"{prior}; anchor {share:g}"
                if variant not in own:
                    measured = scores(estimate(data, pseudo, share, votes), data, truth)
                    own[variant] = {what: measured[what] for what in ("accuracy", "log_loss", "ece")}
        print(name, own[DEFAULT], flush=True)
        if not options.quick:
            options.results.parent.mkdir(parents=True, exist_ok=True)
            options.results.write_text(json.dumps(kept), encoding="utf-8")
    write("learned_priors", "Learned priors and anchoring in Dawid–Skene", page(kept), kept, options)


def page(kept: dict[str, dict[str, Any]]) -> str:
    """Return the text of the page."""
    public = [name for name in GROUPS["public"] if name in kept]
    other = {
        group: [name for name in members if name in kept] for group, members in GROUPS.items() if group != "public"
    }
    variants = list(kept[public[0]])

    def mean(variant: str, what: str, names: list[str]) -> float:
        return float(np.mean([kept[name][variant][what] for name in names]))

    lines = []
    for variant in variants:
        cells = [f"{mean(variant, what, public):.4f}" for what in ("accuracy", "log_loss", "ece")]
        cells += [f"{mean(variant, 'accuracy', names):.3f}" if names else "–" for names in other.values()]
        prior, share = variant.split("; anchor ")
        lines.append([f"**{prior}**" if variant == DEFAULT else prior, share, *cells])
    head = ["prior", "anchor", "accuracy", "log loss", "calibration error", *(f"accuracy: {group}" for group in other)]
    parts = [
        f"""EM of Dawid–Skene with other priors, on the {len(public)} public sets of [the default model](default-model.md) and its
other groups of sets. Pseudo-counts are for each worker and class, on top of a flat prior. *Learned competence*: the share of
correct pseudo-annotations is that of the crowd, learned in every M step (empirical Bayes); *learned rows*: the pseudo-counts are
proportional to the crowd's confusion matrix. *Anchor*: parameters are learned as if this share of each item had been labelled by
votes weighted by competence, as in [item effects](../models/item-effects.md). Probabilities are those of independent annotations,
without allowance for correlated errors; log loss in nats. Bold: the default.""",
        table(head, lines),
        "## Chosen on the other sets",
    ]
    values = {
        what: np.array([[kept[n][v][what] for v in variants] for n in public]) for what in ("accuracy", "log_loss")
    }
    before = variants.index(DEFAULT)
    for what, words, sign in (("accuracy", "mean accuracy", 1), ("log_loss", "mean log loss", -1)):
        chosen = [int((sign * np.delete(values[what], n, axis=0).mean(0)).argmax()) for n in range(len(public))]
        own = {key: float(table[np.arange(len(public)), chosen].mean()) for key, table in values.items()}
        counts = "; ".join(f"*{variants[c]}* on {n}" for c, n in Counter(chosen).most_common())
        parts.append(
            f"Chosen for each set on the others by {words}: accuracy {own['accuracy']:.4f}, log loss {own['log_loss']:.4f} "
            f"({counts}). The default has {values['accuracy'][:, before].mean():.4f} and "
            f"{values['log_loss'][:, before].mean():.4f}."
        )
    unanchored = [n for n, variant in enumerate(variants) if variant.endswith("; anchor 0")]
    mean_of = {what: table.mean(0) for what, table in values.items()}
    best = max(unanchored, key=lambda n: float(mean_of["accuracy"][n]))
    name, gain = variants[best].split(";")[0], mean_of["accuracy"][best] - mean_of["accuracy"][before]
    parts.append(
        f"""The default prior is kept. Without an anchor the best prior (*{name}*) has {gain:.4f} more than the default, with a
log loss of {mean_of["log_loss"][best]:.2f}, and weaker priors are worse [on sparse data](priors.md). Anchoring lowers log loss.
What it adds to accuracy is hardly more than the choice among variants can support. It is a part of item effects, which assume
no competence and are [more accurate](default-model.md) than any variant here. On `mace-example`, a crowd of mostly spammers,
weak and learned priors with an anchor are far better than the default: use item effects there.

In all, {TRIED} combinations of prior and anchor were tried on these sets, among them learned strengths, rows learned in the first
step only, anchors on plain votes, and rows shrunk towards each worker's own competence and preferences. None had a higher
accuracy than the best above."""
    )
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
