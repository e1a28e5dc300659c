"""Sequences of tokens: spans found in named entities by MTurk workers, their probabilities, and the time it takes."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import arguments, table, write

import crowdppl
from crowdppl import aggregate, metrics
from crowdppl.data import datasets
from crowdppl.data.sequences import Tags
from crowdppl.errors import silent

NAME = "ner-mturk"
# Column of the sequence: sentences, or whole documents with the position of a token counted through.
SEQUENCES = ("sentence", "document")
PARTS = {"test": "test", "val": "validation"}
BINS = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0)
REPEATS = 3


def folder() -> Path:
    """Return the folder of the data."""
    here = datasets.folder()
    if here is None:
        raise SystemExit(f"no folder of data sets; set CROWDPPL_DATA to the one that holds {NAME}")
    return here / NAME


def places() -> pd.DataFrame:
    """Return sequence, position and part of each token."""
    items = pd.read_csv(folder() / "items.csv")
    return items.assign(task=items["item"], place=items.groupby("document").cumcount())


def gold(tokens: pd.DataFrame) -> set[tuple[str, Any, Any, str]]:
    """Return the true spans: part, first and last token, type."""
    known = pd.read_csv(folder() / "truth.csv").set_index("item")["label"].reindex(tokens["task"])
    return spans(tokens, known.to_numpy())


def spans(tokens: pd.DataFrame, label: Any) -> set[tuple[str, Any, Any, str]]:
    """Return the spans of a label for each token."""
    names = sorted(set(label))
    tags = Tags.of(names)
    assert tags is not None
    codes = pd.Categorical(label, categories=names).codes.astype(int)
    following = np.concatenate([[False], tokens["sentence"].to_numpy()[1:] == tokens["sentence"].to_numpy()[:-1]])
    task, part = tokens["task"].to_numpy(), tokens["split"].to_numpy()
    return {(part[a], task[a], task[b - 1], tags.types[k]) for a, b, k in tags.spans(codes, following).tolist()}


def f1(given: set[Any], true: set[Any], part: str) -> float:
    """Return the F1 of spans of a part of the data."""
    here, there = ({one for one in some if one[0] == part} for some in (given, true))
    return 2 * len(here & there) / max(1, len(here) + len(there))


def labels_of(truth: pd.DataFrame, tokens: pd.DataFrame) -> Any:
    """Return the label of each token, ``O`` where there is none."""
    return truth.set_index(truth.columns[0])["label"].reindex(tokens["task"]).fillna("O").to_numpy()


def main() -> None:
    """Score votes, Dawid and Skene's model and sequential workers; then the probabilities of spans."""
    options = arguments(__doc__ or "")
    tokens, annotated = places(), datasets.public(NAME)[0]
    true = gold(tokens)
    rows, results = [], {}
    votes = aggregate.majority(annotated).truth()
    methods: dict[str, Any] = {"votes": labels_of(votes, tokens)}
    posterior: Any = None
    in_sentences: Any = None
    seconds: dict[str, float] = {}
    with silent():
        fits = {"Dawid–Skene, token by token": (annotated, "dawid-skene")}
        for column in SEQUENCES:
            place = "position" if column == "sentence" else "place"
            in_order = annotated.with_sequences(tokens, sequence=column, position=place, task="task")
            in_sentences = in_order if column == "sentence" else in_sentences
            fits[f"sequential workers, by {column}"] = (in_order, None)
        for name, (data, model) in fits.items():
            times = []
            for _ in range(REPEATS):
                begin = time.perf_counter()
                posterior = crowdppl.fit(data, model, method="em", seed=0)
                truth = posterior.truth()
                times.append(time.perf_counter() - begin)
            methods[name], seconds[name] = labels_of(truth, tokens), min(times)
            if name.endswith("sentence"):
                reported = posterior.spans(every=True)
                facts = posterior.info["facts"]
    for name, label in methods.items():
        scores = [f1(spans(tokens, label), true, part) for part in PARTS]
        rows.append([name, *(f"{score:.3f}" for score in scores), seconds.get(name, "")])
        results[name] = {"f1": scores, "seconds": seconds.get(name)}
    part = dict(zip(tokens["task"], tokens["split"], strict=True))
    right = [
        (part[a], a, b, kind) in true
        for a, b, kind in zip(reported["first_item"], reported["last_item"], reported["type"], strict=True)
    ]
    bins = pd.cut(reported["probability"], BINS, include_lowest=True)
    calibrated = reported.assign(right=right).groupby(bins, observed=True)[["probability", "right"]]
    shares = calibrated.mean().assign(spans=calibrated.size())
    results["probabilities"] = shares.reset_index(drop=True).to_dict("list")
    results["facts"] = facts
    lines = [
        [f"{low:g} to {high:g}", int(row.spans), f"{row.probability:.3f}", f"{row.right:.3f}"]
        for (low, high), row in zip(itertools.pairwise(BINS), shares.itertuples(), strict=True)
    ]
    header = ["", *(f"span F1, {name}" for name in PARTS.values()), f"seconds, least of {REPEATS}"]
    text = (
        f"{annotated.A:,} annotations of {annotated.N:,} tokens by {annotated.J} workers (Rodrigues, Pereira and Ribeiro 2014), "
        f"without the words. Tokens of documents that nobody annotated count as missed in all rows. A span is right if ends and "
        f"type are. Seconds are those of the fit and its table of true labels; EM of sequential workers took "
        f"{facts['evaluations']} passes.\n\n{table(header, rows)}\n\n## Probabilities of spans\n\nOf the spans that some worker "
        f"marked or the most probable labels have, by sentence: the mean reported probability, and the share that is right.\n\n"
        f"{table(['probability', 'spans', 'mean', 'right'], lines)}"
    )
    agreement = metrics.span_agreement(in_sentences)
    results["agreement"] = agreement.to_dict("records")
    share = metrics.agreement(annotated).iloc[0]["value"]
    of_types = [
        [row.type, row.spans, f"{row.exact:.3f}", f"{row.overlap:.3f}"] for row in agreement.itertuples(index=False)
    ]
    text += (
        f"\n\n## Agreement on spans\n\nHow often another worker who labelled the same tokens marks the same span, or one of its "
        f"type with a token in common. Of single tokens, pairs of workers give {share:.3f} the same label.\n\n"
        f"{table(['type', 'spans marked', 'same span', 'token in common'], of_types)}"
    )
    write("sequences", "Sequences of tokens", text, results, options)


if __name__ == "__main__":
    main()
