"""Support tickets as people label them: five topics in many spellings, with typing errors."""

import numpy as np
import pandas as pd

TOPICS = np.array(["Product Quality", "Shipping", "Billing", "Account Access", "Refund Request"])


def tickets(items, *, workers=25, per_item=4, seed=0):
    """Labels of simulated workers who are correct in 70% to 95%, and the true topics.

    Four labels in ten are in other capitals or white space, and one in nine has a typing error.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, len(TOPICS), items)
    correct = rng.uniform(0.7, 0.95, workers)

    def written(topic):
        kind = rng.random()
        ways = (
            (0.55, topic),
            (0.65, topic.lower()),
            (0.75, topic.upper()),
            (0.8, f"{topic} "),
            (0.84, topic.replace(" ", "  ")),
        )
        for below, text in (*ways, (0.88, f"\u200b{topic}")):
            if kind < below:
                return text
        at = int(rng.integers(1, len(topic) - 1))
        errors = (
            topic[:at] + topic[at + 1 :],
            topic[:at] + topic[at + 1] + topic[at] + topic[at + 2 :],
            topic[: at + 1] + topic[at:],
        )
        return errors[rng.integers(3)]

    rows = []
    for i in range(items):
        for j in rng.choice(workers, per_item, replace=False):
            k = truth[i] if rng.random() < correct[j] else (truth[i] + rng.integers(1, 5)) % 5
            rows.append((i, f"w{j}", written(TOPICS[k])))
    return pd.DataFrame(rows, columns=["task", "worker", "label"]), TOPICS[truth]
