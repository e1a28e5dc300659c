"""Annotations of tokens in sequences, and random Markov chains."""

import numpy as np
import pandas as pd
import torch

from crowdppl import Annotations
from crowdppl.data.sequences import Tags
from crowdppl.model.chains import Chain

BIO = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]


def in_sequences(lengths, seed=0, labels=BIO, workers=3, share=0.8):
    """Return annotations of tokens: each worker labels a share of them at random."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"s{s}", t, f"w{j}", labels[rng.integers(len(labels))])
        for s, length in enumerate(lengths)
        for t in range(length)
        for j in range(workers)
        if j == 0 or rng.random() < share
    ]
    frame = pd.DataFrame(rows, columns=["text", "at", "worker", "label"])
    return Annotations.from_frame(frame, sequence="text", position="at", labels=labels)


def random_chain(states, seed=0, forbidden=False):
    """Return a chain with random probabilities, in some of which states cannot follow each other."""
    generator = torch.Generator().manual_seed(seed)
    start, moves = (torch.rand(*shape, generator=generator).double() for shape in ((states,), (states, states)))
    if forbidden:
        tags = Tags.of(BIO)
        start, moves = start * torch.from_numpy(tags.first), moves * torch.from_numpy(tags.allowed)
    return Chain((start / start.sum()).log(), (moves / moves.sum(-1, keepdim=True)).log())
