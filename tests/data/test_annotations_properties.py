"""Properties that hold for any annotations: nothing is lost or changed, order does not matter, and the sums are sums."""

import unicodedata
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import torch
from catalog import annotation_counts
from hypothesis import given, settings

from crowdppl.data.annotations import Annotations
from crowdppl.data.readers.tables import MISSING, read_csv

# Names that differ in capitals are reported, which is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore:.*differ from others in capitals.*")

quick = settings(max_examples=100, deadline=None)

# Names of one kind a column; white space at the ends and equal Unicode forms would warn, and "nan" and "NaN" are missing in
# files, which is tested elsewhere.
letters = st.characters(codec="utf-8", categories=["Lu", "Ll", "Lo", "Nd", "So"])
strings = (
    st.text(letters, min_size=1, max_size=4)
    .map(lambda s: unicodedata.normalize("NFC", s))
    .filter(lambda s: s not in MISSING)
)
kinds = [
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 5),
    st.booleans(),
    st.uuids(),
    strings,
]


@st.composite
def annotations(draw, most=30):
    """Draw a table of annotations of at least two classes, in identifiers of any kind."""
    task, worker = (draw(st.lists(draw(st.sampled_from(kinds)), min_size=1, max_size=6, unique=True)) for _ in range(2))
    label = draw(st.lists(draw(st.sampled_from(kinds)), min_size=2, max_size=4, unique=True))
    row = st.tuples(*(st.integers(0, len(names) - 1) for names in (task, worker, label)))
    rows = draw(st.lists(row, min_size=1, max_size=most))
    columns = ([names[r[i]] for r in rows] for i, names in enumerate((task, worker, label)))
    frame = pd.DataFrame(
        {c: pd.Series(v, dtype=object) for c, v in zip(("task", "worker", "label"), columns, strict=True)}
    )
    return frame, label


def written(value):
    return value if isinstance(value, (bool, int)) else str(value)


def votes(data):
    labels = data.labels.tolist()
    return {
        item: dict(zip(labels, row, strict=True))
        for item, row in zip(data.items.tolist(), data.votes.tolist(), strict=True)
    }


@quick
@given(annotations())
def test_annotations_and_identifiers_come_back(drawn):
    frame, labels = drawn
    data = Annotations.from_frame(frame, labels=labels)
    rows = [tuple(written(v) for v in row) for row in frame.itertuples(index=False)]
    assert annotation_counts(data) == Counter(rows)
    assert all(
        type(a) is type(b)
        for a, b in zip(sorted(annotation_counts(data), key=str), sorted(set(rows), key=str), strict=True)
    )
    assert data.items.tolist() == list(dict.fromkeys(r[0] for r in rows))
    assert data.workers.tolist() == list(dict.fromkeys(r[1] for r in rows))
    assert data.labels.tolist() == [written(label) for label in labels]
    assert bool((data.item.diff() >= 0).all())
    assert data.votes.sum() == len(frame)


@quick
@given(annotations(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(drawn, random):
    frame, labels = drawn
    order = random.sample(range(len(frame)), len(frame))
    data, mixed = (Annotations.from_frame(f, labels=labels) for f in (frame, frame.iloc[order]))
    assert annotation_counts(data) == annotation_counts(mixed)
    assert votes(data) == votes(mixed)


@quick
@given(annotations(), st.randoms(use_true_random=False))
def test_arrays_and_frames_agree(drawn, random):
    frame, labels = drawn
    arrays = [
        random.choice([list, np.array, pd.Series])(frame[c].tolist()) for c in frame if not isinstance(frame[c][0], int)
    ]
    if len(arrays) < 3:  # NumPy rounds large integers that stand beside others, before we see them
        arrays = [frame[c].tolist() for c in frame]
    data, same = Annotations.from_frame(frame, labels=labels), Annotations.from_arrays(*arrays, labels=labels)
    assert annotation_counts(data) == annotation_counts(same)


@quick
@given(annotations(), st.data())
def test_batches_have_the_votes_of_their_items(drawn, data):
    frame, labels = drawn
    whole = Annotations.from_frame(frame, labels=labels, truth={frame["task"][0]: labels[-1]})
    index = torch.tensor(data.draw(st.permutations(range(whole.N))))
    part = whole.batch(index)
    assert torch.equal(part.votes, whole.votes[index])
    assert torch.equal(part.truth, whole.truth[index])
    assert torch.equal(part.majority(), whole.majority()[index])
    assert annotation_counts(part) == annotation_counts(whole)
    some = whole.batch(index[: len(index) // 2])
    assert torch.equal(some.votes, whole.votes[index[: len(index) // 2]])


@quick
@given(annotations(), st.integers(0, 2**32 - 1), st.sampled_from([(), (1,), (2, 3)]))
def test_sums_by_brute_force(drawn, seed, lead):
    frame, labels = drawn
    data = Annotations.from_frame(frame, labels=labels)
    rng = np.random.default_rng(seed)
    N, J, K = data.N, data.J, data.K
    log_table = np.log(rng.dirichlet(np.ones(K), size=(*lead, J, K)))
    weight = rng.dirichlet(np.ones(K), size=(*lead, N))
    log_likelihood, expected = np.zeros((*lead, N, K)), np.zeros((*lead, J, K, K))
    for i, j, label in zip(data.item.tolist(), data.worker.tolist(), data.label.tolist(), strict=True):
        log_likelihood[..., i, :] += log_table[..., j, :, label]
        expected[..., j, :, label] += weight[..., i, :]
    product = data.counts.log_likelihoods(torch.from_numpy(log_table))
    np.testing.assert_allclose(product, log_likelihood, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(data.counts.expected(torch.from_numpy(weight)), expected, rtol=1e-12, atol=1e-12)
    with torch.enable_grad():
        wanted = torch.from_numpy(log_table).requires_grad_()
        np.testing.assert_allclose(data.counts.log_likelihoods(wanted).detach(), log_likelihood, rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(annotations(most=10))
def test_csv_keeps_what_is_written(tmp_path_factory, drawn):
    frame, _ = drawn
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    frame.to_csv(path, index=False)
    back = read_csv(path)
    for column in frame:
        assert [str(v) for v in back[column].tolist()] == [str(v) for v in frame[column].tolist()]
