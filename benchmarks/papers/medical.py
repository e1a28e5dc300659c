"""Medical relations: sets of labels as pairs (sentence, relation), LIA-ML compared with majority vote and Dawid–Skene."""

from __future__ import annotations

import baselines  # noqa: F401 - puts the folder of common on the path
import numpy as np
import pandas as pd
import torch
from common import arguments, fit, spread, table, write

from crowdppl.data import datasets
from crowdppl.data.label_sets import pairs
from crowdppl.models import LIA

SCHEDULE = {"max_iter": 4, "steps": 200, "fine_tune": 200, "learning_rate": 1e-3}


def main() -> None:
    """Fit all annotations of all relations at once; compare on pairs with expert labels."""
    options = arguments(__doc__ or "")
    seeds = range(1 if options.quick else 3)
    folder = datasets.folder()
    if folder is None:
        raise SystemExit("set CROWDPPL_DATA to the folder of public data sets")
    place = folder / "medical-relations"
    frame = pd.read_csv(place / "annotations.csv.gz", dtype={"item": str})
    z = np.load(place / "features.npz", allow_pickle=False)
    features = pd.DataFrame(z["x"].astype(float), index=z["items"].astype(str))
    data = pairs(frame, features=features).to(dtype=torch.float32)
    experts = pd.read_csv(place / "truth.csv", dtype={"item": str})
    experts.index = experts["item"] + "|" + experts["relation"]
    experts = experts[experts.index.isin(data.items)]
    relations = data.N // frame["item"].nunique()

    def right(labels: pd.Series, relation: str) -> float:
        known = experts[experts["relation"] == relation]
        return float((labels.loc[known.index].to_numpy() == known["label"].to_numpy()).mean())

    majority = pd.Series((data.majority()[:, 1] > 0.5).long().numpy(), index=data.items)
    labels: dict[str, list[pd.Series]] = {"majority vote": [majority]}
    posterior, _ = fit(data, "dawid-skene", method="em", num_samples=2)
    labels["Dawid–Skene on the pairs"] = [posterior.truth().set_index("item")["label"]]
    times = []
    for seed in seeds:
        posterior, seconds = fit(
            data, LIA(relations=relations, hidden=(32, 32, 32, 32)), method="em", seed=seed, **SCHEDULE
        )
        labels.setdefault("LIA-ML", []).append(posterior.truth().set_index("item")["label"])
        labels.setdefault("LIA-ML, classifier alone", []).append(posterior.classifier().set_index("item")["label"])
        times.append(seconds)
    names = sorted(experts["relation"].unique())
    rows = [[name, *(spread([right(s, r) for s in series]) for r in names)] for name, series in labels.items()]
    sizes = {r: int((experts["relation"] == r).sum()) for r in names}
    body = f"""{frame["item"].nunique():,} sentences, {len(frame):,} annotations, each a set of some of {relations} relations:
{data.A:,} yes-or-no annotations of {data.N:,} pairs (`crowdppl.data.label_sets.pairs`); sentence embeddings of 384 numbers.
Accuracy in per cent on pairs with expert labels. LIA-ML with 32 units a layer, as in the paper,
{SCHEDULE["steps"]} gradient steps per M step, {SCHEDULE["max_iter"]} iterations and {SCHEDULE["fine_tune"]} steps of fine-tuning,
{len(times)} seeds, {np.median(times):.0f} seconds each. *Classifier alone* is h(x), without the pair's own labels.

{table(["accuracy", *(f"{r} ({sizes[r]} sentences)" for r in names)], rows)}

The paper's figures (causes 34.1, treats 45.4 at redundancy 10, for LIA-ML) use other features and another measure and are not
comparable. Most workers choose one of several relations that hold, so that a majority rarely says yes.
"""
    results = {n: {r: [right(s, r) for s in series] for r in names} for n, series in labels.items()}
    write("paper_medical", "Medical relations", body, results, options, script="papers/medical")


if __name__ == "__main__":
    main()
