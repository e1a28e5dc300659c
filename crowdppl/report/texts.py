"""Texts with their spans: tokens in order, spans coloured by their probability.

Shown are the sequences whose spans are least certain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdppl.arguments import checked
from crowdppl.posterior.descriptions import descriptions
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.spans import has_spans

# Sequences that are shown, and tokens of each at most.
SHOWN, MOST = 60, 400
# Steps of the colour; the style sheet has a class for each.
STEPS = 10


@checked
def texts(posterior: Posterior) -> dict[str, Any] | None:
    """Return the sequences to show, least certain first; ``None`` for a result without spans.

    The uncertainty of a sequence is the sum of ``min(p, 1 - p)`` over the spans that somebody marked: how many of them are
    expected to be judged wrongly.
    """
    if not has_spans(posterior):
        return None
    constant = posterior.tree["constant_data"].to_dataset()
    sequence, position = (constant[name].to_numpy() for name in ("sequence_index", "position"))
    table = posterior.spans(every=True)
    group = posterior.tree["spans"].to_dataset()
    first, last = group["first"].to_numpy(), group["last"].to_numpy()
    kind, probability = table["type"].astype(str).tolist(), table["probability"].tolist()
    chosen, marked = table["chosen"].tolist(), table[["workers", "of_workers"]].to_numpy().tolist()
    p = np.asarray(probability)
    doubt = np.minimum(p, 1 - p)
    total = np.bincount(sequence[first], weights=doubt, minlength=len(constant["sequence"]))
    order = [int(s) for s in np.argsort(-total, kind="stable")[:SHOWN] if total[s] > 0]
    words = descriptions(posterior)[0] or [str(name) for name in posterior.items().tolist()]
    names = [str(name) for name in constant["sequence"].to_numpy().tolist()]
    starts = np.searchsorted(sequence, np.arange(len(names) + 1))
    out = []
    for s in order:
        begin, end = int(starts[s]), int(min(starts[s + 1], starts[s] + MOST))
        here = np.flatnonzero((first >= begin) & (last < end))
        spans = [
            [int(first[n]) - begin, int(last[n]) - begin, kind[n], probability[n], *marked[n]]
            for n in here
            if chosen[n]
        ]
        others = [
            f"{' '.join(words[first[n] : last[n] + 1])} ({kind[n]} {probability[n]:.0%}, {marked[n][0]} of {marked[n][1]})"
            for n in here
            if not chosen[n] and probability[n] >= 1 / STEPS
        ]
        gaps = (np.diff(position[begin:end]) != 1).tolist()
        out.append({"name": names[s], "words": words[begin:end], "spans": spans, "others": others, "gaps": gaps})
    return {"shown": out, "total": len(names), "uncertain": int((total > 0).sum())}


def shown_texts(data: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the variables of ``texts.html``; ``None`` without texts."""
    if data is None:
        return None
    shown = [{"name": one["name"], "parts": _parts(one), "others": one["others"]} for one in data["shown"]]
    return {"shown": shown, "uncertain": data["uncertain"]}


def _parts(one: dict[str, Any]) -> list[str | dict[str, Any]]:
    """Return one text in parts: words, and spans."""
    opening = {span[0]: span for span in one["spans"]}
    parts: list[str | dict[str, Any]] = []
    n = 0
    while n < len(one["words"]):
        if n in opening:
            _, last, kind, probability, workers, of_workers = opening[n]
            parts.append(
                {
                    "words": " ".join(one["words"][n : last + 1]),
                    "said": f"{kind} {probability:.0%}",
                    "step": min(STEPS - 1, int(probability * STEPS)),
                    "workers": workers,
                    "of_workers": of_workers,
                }
            )
            n = last + 1
        else:
            parts.append(one["words"][n])
            n += 1
        if n < len(one["words"]):
            parts.append(" … " if one["gaps"][n - 1] else " ")
    return parts
