"""Fingerprints of models and data, by which checkpoints recognise a fit."""

import numpy as np
import pandas as pd

from crowdppl.inference.fingerprint import described


def test_what_differs_is_described_differently():
    def of(value):
        def function(*, keyword=value):
            return keyword

        return function

    def unfinished():
        def function():
            return later

        text = described(function)  # what it closes over is not there yet
        later = 1
        return text, later

    assert "empty" in unfinished()[0]
    pairs = [(pd.DataFrame({"a": np.arange(100)}), pd.DataFrame({"a": np.arange(100)[::-1].copy()})), (of(1), of(2))]
    for one, two in pairs:
        assert described(one) != described(two)
        assert described(one) == described(one)
    assert described({"b", "a"}) == described({"a", "b"})
