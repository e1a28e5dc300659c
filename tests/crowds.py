"""Simulated crowds with characters in them, for tests of what is said of workers."""

import numpy as np
import pandas as pd

import crowdppl

# Four items, two workers, two classes.
FOUR_ITEMS = pd.DataFrame(
    {"task": list("aabbccdd") * 3, "worker": ["u", "v"] * 12, "label": [0, 0, 1, 1, 0, 1, 1, 1] * 3}
).drop_duplicates(["task", "worker"])


def crowd_with_characters(seed=0, items=200, classes=3, each=100, honest_workers=16, timestamps=False):
    """Sixteen honest workers, a guesser, one who always says class 1, one who permutes the labels, and one with two annotations.

    Returns:
        The annotations as a frame, and the truth by item.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, items)

    def honest(skill):
        return lambda k: k if rng.random() < skill else int(rng.integers(0, classes))

    characters = {f"honest {j}": honest(0.62 + 0.02 * j) for j in range(honest_workers)}
    characters["guesser"] = lambda k: int(rng.integers(0, classes))
    characters["always"] = lambda k: 1
    characters["adversary"] = lambda k: (k + 1) % classes if rng.random() < 0.9 else int(rng.integers(0, classes))
    rows = [
        (f"item {i}", name, answer(truth[i]))
        for name, answer in characters.items()
        for i in rng.choice(items, each, replace=False)
    ]
    rows += [(f"item {i}", "newcomer", truth[i]) for i in (3, 4)]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    if timestamps:
        frame["timestamp"] = rng.permutation(len(frame))
        frame["seconds"] = rng.exponential(5, len(frame)).round(2)
    return frame, pd.Series(truth, index=[f"item {i}" for i in range(items)])


def fitted(frame, **options):
    """Fit Dawid and Skene's model as the library does by default, quietly."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", crowdppl.CrowdpplWarning)
        data = crowdppl.Annotations.from_frame(
            frame,
            features=options.pop("features", None),
            **{name: name for name in ("timestamp", "seconds") if name in frame.columns},
        )
        return crowdppl.fit(
            data, options.pop("model", "dawid-skene"), **({"method": "em", "num_samples": 300} | options)
        )
