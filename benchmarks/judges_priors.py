"""Priors of the weights of verdicts, chosen leave-one-set-out: each panel with the variant that is best on the others."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from common import arguments, table, write
from judges import NOMINAL, ORDERED
from judges_methods import chosen, load

from crowdppl.judges.model.calibration import PRIORS, BlockPrior, calibrate
from crowdppl.judges.model.features import Features, features_of
from crowdppl.judges.people.human_likelihood import log_likelihood

LABELS, REPETITIONS, DRAWS = (30, 100), 10, 200
# Items whose log loss is computed.
EVALUATED = 1000
ROUNDS = 1
Change = tuple[str, str, float]  # block, field of its prior, factor
Variant = tuple[Change, ...]
DEFAULT: Variant = ()


def changes() -> list[Change]:
    """Return the changes of one prior that are tried: other scales, heavier tails, and other means where they are not zero."""
    out = [(block, "scale", factor) for block in PRIORS for factor in (0.5, 2.0, 4.0)]
    out += [(block, "spread", 1.5) for block in PRIORS]
    return out + [(b, "mean", factor) for b, prior in PRIORS.items() if prior.mean for factor in (0.6, 1.5)]


def priors_of(variant: Variant) -> Mapping[str, BlockPrior]:
    """Return the priors after some changes."""
    priors = dict(PRIORS)
    for block, field, factor in variant:
        priors[block] = priors[block]._replace(**{field: getattr(priors[block], field) * factor})
    return priors


@functools.cache
def _features(name: str) -> Features:
    return features_of(load(name).verdicts)


def log_loss(name: str, variant: Variant, repetitions: int) -> float:
    """Return the mean log loss of items without human labels, over numbers of labels and random choices."""
    panel, of = load(name), _features(name)
    K, losses = of.shape[2], []
    for labels in LABELS:
        for seed in range(repetitions):
            items = chosen(panel, labels, seed)
            rng = np.random.default_rng(seed)
            log_human = log_likelihood(np.eye(K)[panel.truth[items]], 0.0)
            posterior = calibrate(
                of, items, log_human, np.ones(len(items)), draws=DRAWS, rng=rng, priors=priors_of(variant)
            )
            rest = np.setdiff1d(np.arange(len(panel.truth)), items)
            rest = rng.permutation(rest)[:EVALUATED]
            p = posterior.probability(of.rows(rest)).mean(1)  # (K, n)
            losses.append(-np.log(p[panel.truth[rest], np.arange(len(rest))]).mean())
    return float(np.mean(losses))


def concerned(name: str, variant: Variant) -> Variant:
    """Return the changes of a variant that concern blocks which a panel has."""
    there = {block.name for block in _features(name).blocks}
    return tuple(change for change in variant if change[0] in there)


class Losses:
    """Log losses of panels and variants, computed once."""

    def __init__(self, names: tuple[str, ...], repetitions: int):
        self.names, self.repetitions = names, repetitions
        self.kept: dict[tuple[str, Variant], float] = {}

    def of(self, variants: list[Variant]) -> np.ndarray[Any, Any]:
        """Return the log loss of each variant on each panel, ``(V, panels)``."""
        cells = [(name, concerned(name, variant)) for variant in variants for name in self.names]
        missing = sorted(set(cells) - set(self.kept))
        with ProcessPoolExecutor(2) as pool:
            losses = pool.map(
                log_loss, *zip(*[(*cell, self.repetitions) for cell in missing], strict=True), chunksize=4
            )
            self.kept |= dict(zip(missing, losses, strict=True)) if missing else {}
        return np.array([self.kept[cell] for cell in cells]).reshape(len(variants), len(self.names))


def text(variant: Variant) -> str:
    """Return a variant in words."""
    return ", ".join(f"{block} {field} x {factor:g}" for block, field, factor in variant) or "as they are"


def main() -> None:
    """Measure every variant on every panel and write the page."""
    options = arguments(__doc__ or "")
    names = ("judges-mtbench-alttest", "judges-lgbteen") if options.quick else (*NOMINAL, *ORDERED)
    losses = Losses(names, 1 if options.quick else REPETITIONS)
    default = losses.of([DEFAULT])[0]
    tried: dict[Variant, np.ndarray[Any, Any]] = {DEFAULT: default}
    base = DEFAULT
    for _ in range(1 if options.quick else ROUNDS):
        taken = {change[:2] for change in base}
        variants = [(*base, change) for change in changes() if change[:2] not in taken]
        tried |= dict(zip(variants, losses.of(variants), strict=True))
        base = min(tried, key=lambda v: tried[v].mean())
        print(text(base), tried[base].mean() - default.mean(), flush=True)
    values = np.array(list(tried.values()))  # (V, panels)
    every = list(tried)
    rows = []
    held_out = []
    for n, name in enumerate(names):
        best = int(np.delete(values, n, 1).mean(1).argmin())
        held_out.append(values[best, n])
        rows.append(
            [name.removeprefix("judges-"), *(round(x, 4) for x in (default[n], values[best, n])), text(every[best])]
        )
    ranked = sorted(every, key=lambda v: tried[v].mean())[:10]
    ranking = [
        [text(v), round(float((tried[v] - default).mean()), 4), int((tried[v] < default - 1e-4).sum())] for v in ranked
    ]
    body = f"""
Each of {len(every)} variants of the priors of [judges](judges.md) changes one of them: half, twice or four times the
scale of a block of coefficients, 1.5 times the spread of its logarithm, .6 or 1.5 times its mean. A panel is then judged with
the variant that has the lowest mean log loss on the *other* panels. Log loss of items without human labels, mean over
{LABELS[0]} and {LABELS[1]} labels, {losses.repetitions} random choices each.

{table(["panel", "default", "chosen on the others", "which"], rows)}

Mean {default.mean():.4f} by default and {np.mean(held_out):.4f} as chosen on the others.

The variants of the lowest mean log loss over all panels, relative to the default:

{table(["variant", "difference", f"better on, of {len(names)}"], ranking)}
"""
    results = {text(v): dict(zip(names, x.tolist(), strict=True)) for v, x in tried.items()}
    write("judges_priors", "Priors of the weights of language models as judges", body, results, options)


if __name__ == "__main__":
    main()
