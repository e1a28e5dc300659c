"""Texts with their spans: tokens in order, spans coloured by their probability.

Shown are the sequences whose spans are least certain, as markup that needs no script.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdppl import arguments
from crowdppl.data.html import Markup, element, joined
from crowdppl.posterior.descriptions import descriptions
from crowdppl.posterior.posterior import Posterior
from crowdppl.posterior.spans import has_spans

# Sequences that are shown, and tokens of each at most.
SHOWN, MOST = 60, 400
# Steps of the colour; the style sheet has a class for each.
STEPS = 10


@arguments.checked(posterior=arguments.posterior)
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


def markup(data: dict[str, Any] | None) -> Markup:
    """Return the section of the page; nothing without texts."""
    if data is None:
        return joined()
    shown, uncertain = len(data["shown"]), data["uncertain"]
    more = f"; the {shown:,} least certain of {uncertain:,}" if uncertain > shown else ""
    note = (
        f"Spans of the most probable labels, the darker the more probable; pale ones are doubtful{more}. Below a text: spans "
        f"that some worker marked and that may be right as well."
    )
    return element(
        "section",
        element("h2", "Texts", id="h-texts"),
        element("p", note, class_="small"),
        *(_text(one) for one in data["shown"]),
        id="texts",
        aria_labelledby="h-texts",
    )


def _text(one: dict[str, Any]) -> Markup:
    """Return one text."""
    opening = {span[0]: span for span in one["spans"]}
    parts: list[str] = []
    n = 0
    while n < len(one["words"]):
        if n in opening:
            _, last, kind, probability, workers, of_workers = opening[n]
            said = f"{kind} {probability:.0%}"
            parts.append(
                element(
                    "mark",
                    " ".join(one["words"][n : last + 1]),
                    element("sub", said),
                    class_=f"span p{min(STEPS - 1, int(probability * STEPS))}",
                    title=f"{said}, marked by {workers} of {of_workers} workers",
                )
            )
            n = last + 1
        else:
            parts.append(one["words"][n])
            n += 1
        if n < len(one["words"]):
            parts.append(" … " if one["gaps"][n - 1] else " ")
    name = element("b", f"{one['name']}: ")
    others = element("p", "Or: " + "; ".join(one["others"]), class_="small", dir="auto") if one["others"] else None
    return element("div", element("p", name, joined(*parts), dir="auto"), others, class_="text")
