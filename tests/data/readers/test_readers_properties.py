"""Properties of the readers: one set of annotations in any kind of file is one and the same, and names are but names."""

import json
import unicodedata

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from catalog import annotation_counts, in_turn
from hypothesis import given, settings

import crowdppl
from crowdppl import Annotations, fit
from crowdppl.data.readers.arrow import long_csv
from crowdppl.data.readers.tables import read_csv

pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")

cells = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=5),
    st.sampled_from(
        ["", "nan", "NaN", "NA", "1", "-1", "007", "1.0", '"', ",", "a\nb", " x ", "9" * 19, "9" * 20, "é"]
    ),
    st.integers(-(2**64), 2**64).map(str),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_arrow_reads_what_pandas_reads(tmp_path_factory, rows, end):
    """The quick way of reading CSV and the plain one agree on every cell, its type included."""
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_csv(path, index=False, lineterminator=end)
    quick, plain = long_csv(path), read_csv(path)
    assert quick.columns.tolist() == plain.columns.tolist()
    for column in plain:
        one, two = (frame[column].astype(object) for frame in (quick, plain))
        assert one.isna().tolist() == two.isna().tolist()
        assert one[one.notna()].tolist() == two[two.notna()].tolist()


names = st.text(st.characters(codec="utf-8", categories=["Lu", "Ll", "Lo"]), min_size=1, max_size=4).map(
    lambda s: "x" + unicodedata.normalize("NFC", s)  # begins no mark of missing values, such as nan
)


@st.composite
def crowds(draw):
    """Draw annotations, at most one of each item by each worker, so that every kind of file can hold them."""
    task, worker = (draw(st.lists(names, min_size=2, max_size=5, unique=True)) for _ in range(2))
    label = draw(st.lists(names, min_size=2, max_size=3, unique=True))
    pairs = draw(
        st.lists(st.tuples(st.sampled_from(task), st.sampled_from(worker)), min_size=2, max_size=12, unique=True)
    )
    return pd.DataFrame([(t, w, draw(st.sampled_from(label))) for t, w in pairs], columns=["task", "worker", "label"])


def answers(frame):
    by_task = {}
    for row in frame.itertuples():
        by_task.setdefault(row.task, {})[row.worker] = row.label
    return json.dumps(by_task)


def toloka(frame):
    columns = {"task": "INPUT:x", "worker": "ASSIGNMENT:worker_id", "label": "OUTPUT:y"}
    return frame.rename(columns=columns).to_csv(index=False, sep="\t")


WRITERS = {
    "long": ("x.csv", lambda frame: frame.to_csv(index=False)),
    "tabs": ("x.tsv", lambda frame: frame.to_csv(index=False, sep="\t")),
    "parquet": ("x.parquet", lambda frame: frame.to_parquet(None, index=False)),
    "wide": ("x.csv", lambda frame: frame.set_index(["task", "worker"])["label"].unstack().to_csv()),  # noqa: PD010 - text
    "peerannot": ("answers.json", answers),
    "toloka": ("x.tsv", toloka),
}


def read(place, frame, writer):
    name, write = WRITERS[writer]
    content = write(frame)
    (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return crowdppl.read(place / name, format=writer if writer in ("wide", "peerannot") else None)


@pytest.mark.parametrize("writer", in_turn(WRITERS, 3, night=False))
@settings(max_examples=25, deadline=None)
@given(frame=crowds(), random=st.randoms(use_true_random=False))
def test_annotations_are_the_same_in_every_kind_of_file(tmp_path_factory, writer, frame, random):
    place = tmp_path_factory.mktemp("files")
    wanted = annotation_counts(Annotations.from_frame(frame))
    assert annotation_counts(read(place, frame, writer)) == wanted
    shuffled = frame.sample(frac=1, random_state=random.randrange(2**32))
    assert annotation_counts(read(place, shuffled, writer)) == wanted


@pytest.mark.parametrize("writer", in_turn(WRITERS, 3, night=False))
@settings(max_examples=8, deadline=None)
@given(frame=crowds(), seed=st.integers(0, 100))
def test_other_names_permute_the_results_and_nothing_else(tmp_path_factory, writer, frame, seed):
    """Rows in another order, workers and classes by other names: every number of the fit stands at the other name."""
    rng = np.random.default_rng(seed)
    renamed = {
        column: dict(
            zip(kinds := sorted(set(frame[column])), [f"{column}{n}" for n in rng.permutation(len(kinds))], strict=True)
        )
        for column in ("task", "worker", "label")
    }
    other = pd.DataFrame({column: frame[column].map(renamed[column]) for column in frame}).sample(
        frac=1, random_state=seed
    )
    options = {"method": "em", "num_samples": 2, "independent": True, "max_iter": 20, "tol": 0.0}
    one, two = (
        fit(read(tmp_path_factory.mktemp("files"), table, writer), "dawid-skene", **options) for table in (frame, other)
    )
    back = {column: {new: old for old, new in names.items()} for column, names in renamed.items()}
    for axes, a, b in (
        (("item", "true_label"), one.tree["truth"]["probability"], two.tree["truth"]["probability"]),
        (("worker", "true_label", "given_label"), one.tree["point"]["confusion"], two.tree["point"]["confusion"]),
        (("true_label",), one.tree["point"]["prevalence"], two.tree["point"]["prevalence"]),
    ):
        of = {"item": "task", "worker": "worker", "true_label": "label", "given_label": "label"}
        b = b.assign_coords({axis: [back[of[axis]][name] for name in b[axis].values] for axis in axes})
        np.testing.assert_allclose(a.values, b.reindex({axis: a[axis] for axis in axes}).values, atol=1e-9)
