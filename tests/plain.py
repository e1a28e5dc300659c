"""Networks in plain Python, one number at a time, for transcriptions of papers' equations."""

import math


def layers(bound, values, name):
    """Return the weights and biases of a network as nested lists, from its vector of parameters."""
    parts = bound.networks.views(name, values[f"{name}.weights"]).values()
    matrices = [part.tolist() for part in parts]
    return list(zip(matrices[::2], matrices[1::2], strict=True))


def perceptron(network, x):
    """ReLU between the layers."""
    for number, (W, b) in enumerate(network):
        x = [max(0.0, v) for v in x] if number else x
        x = [sum(w * v for w, v in zip(row, x, strict=True)) + c for row, c in zip(W, b, strict=True)]
    return x


def normalised(row):
    return [v / sum(row) for v in row]


def softmax(row):
    return normalised([math.exp(v) for v in row])


def unit(row):
    """The row over its length."""
    return [v / math.sqrt(sum(w * w for w in row)) for v in row]


def standard(features):
    """Return rows with mean 0 and standard deviation 1 in every column."""
    columns = list(zip(*features, strict=True))
    mean = [sum(c) / len(c) for c in columns]
    sd = [math.sqrt(sum((v - m) ** 2 for v in c) / len(c)) for c, m in zip(columns, mean, strict=True)]
    return [[(v - m) / s for v, m, s in zip(row, mean, sd, strict=True)] for row in features]
