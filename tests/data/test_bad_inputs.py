"""Every known kind of invalid or unusual input, a row each: refused with one line, accepted with a note, or accepted.

The rows follow what users send: empty and damaged files, names of every kind, labels that cannot be, features and truths that
do not fit. Formats of platforms have tables of their own in test_formats.py.
"""

import gzip
import io
import json
import re
import subprocess
import sys
import textwrap
import uuid
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl import Annotations, fit
from crowdppl.errors import CrowdpplError, CrowdpplWarning
from crowdppl.models import DawidSkene

FRAME = pd.DataFrame(
    {
        "task": ["x", "x", "y", "y", "z", "z"],
        "worker": ["u", "v", "u", "v", "u", "v"],
        "label": ["a", "b", "b", "b", "a", "a"],
    }
)
GOOD = FRAME.to_csv(index=False)


def frame(**columns):
    """The good frame with columns replaced, or left out where ``None``."""
    frame = FRAME.assign(**{name: values for name, values in columns.items() if values is not None})
    return frame.drop(columns=[name for name, values in columns.items() if values is None])


def taken(*args, **options):
    """Make annotations of a frame and fit them: what a person who hands a table in asks for."""
    return lambda path: Annotations.from_frame(*args, **options)


NO_LABEL = r"dropped 2 of 6 rows without a label"


def file(content, name="x.csv", **options):
    """Write a file and read it."""

    def make(path):
        (path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return crowdppl.read(path / name, **options)

    return make


def archive(*members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def fitted(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        return fit(FRAME, method="em", num_samples=3, **options)


FEATURES = pd.DataFrame({"f": [0.0, 1.0, 2.0]}, index=["x", "y", "z"])

REFUSED = {
    # files
    "empty file": (file(""), r"x.csv is empty; it needs a header and one row"),
    "header only": (file("task,worker,label\n"), r"x.csv: no rows; at least one annotation"),
    "a CSV that is HTML": (file("<!DOCTYPE html><html></html>"), r"is a web page.*signing in"),
    "wrong encoding": (file(GOOD.replace("a", "ä").encode("latin-1")), r"not UTF-8 text \(it contains the byte 0xe4\)"),
    "truncated gzip": (file(gzip.compress(GOOD.encode() * 50)[:-20], "x.csv.gz"), r"cannot be read"),
    "decompression bomb": (
        file(gzip.compress(b"task,worker,label\n" + b"1,2,3\n" * 500_000), "x.csv.gz", limit=1_000_000),
        r"more than 1,000,000 bytes once decompressed; raise limit=",
    ),
    "zip bomb": (
        file(archive(("x.csv", "task,worker,label\n" + "1,2,3\n" * 500_000)), "x.csv.zip", limit=1_000_000),
        r"bytes once decompressed; raise limit=",
    ),
    "JSON that nests": (file("[" * 200_000, "x.json"), r"nested too deeply"),
    "JSON that nests in objects": (file('{"a":' * 200_000, "x.json"), r"nested too deeply"),
    "JSON beyond the limit": (file("[" + " " * 2000 + "]", "x.json", limit=1000), r"more than 1,000 bytes"),
    "archive of two tables": (
        file(archive(("a.csv", GOOD), ("b.csv", GOOD.replace("label", "answer"))), "x.zip"),
        r"x.zip: b.csv: its columns differ from those of x.zip: a.csv \('answer', 'label'\)",
    ),
    "archive of pictures": (file(archive(("a.jpg", "x")), "x.zip"), r"x.zip contains no file of annotations"),
    "a row too long": (file(GOOD + "x,w,a,b\n"), r"x.csv cannot be read as CSV: Expected 3 fields in line 8, saw 4"),
    "not Parquet": (file(GOOD, "x.parquet"), r"x.parquet cannot be read as Parquet"),
    "no file": (lambda path: crowdppl.read(path / "none.csv"), r"no file .*none.csv; check the name"),
    "a folder": (crowdppl.read, r"contains no file of annotations"),
    # columns
    "missing column": (
        taken(frame(worker=None, wroker=FRAME["worker"])),
        r"no column 'worker' \(did you mean 'wroker'\?\)",
    ),
    "duplicate headers": (file("task,worker,label,label\nx,u,a,b\n"), r"2 columns are named 'label'; rename or drop"),
    "one column twice": (taken(FRAME, worker="task"), r"must be three different columns"),
    "no frame": (taken([1, 2]), r"is a list; pass a pandas DataFrame"),
    "three lengths": (
        lambda p: Annotations.from_arrays([1], [1, 2], [1]),
        r"differ in length: task has 1, worker has 2",
    ),
    # names
    "no item": (taken(frame(task=["x", None, "y", "y", "z", "z"])), r"column 'task', row 2: task missing"),
    "no worker": (taken(frame(worker=["u", "v", np.nan, "v", "u", "v"])), r"column 'worker', row 3: worker missing"),
    "blank worker in a file": (file(GOOD.replace("x,u", "x,")), r"x.csv, column 'worker', row 1: worker missing"),
    "a label with NUL": (taken(frame(label=["a\0", *"ababa"])), r"row 1: the label 'a\\x00' contains a NUL character"),
    "a worker with NUL after the same without": (
        taken(frame(worker=["u", "v", "u", "v\0", "u", "v"])),
        r"row 4: the worker 'v\\x00' contains a NUL character",
    ),
    "a task with NUL in a category": (
        taken(frame(task=pd.Categorical.from_codes([0, 0, 1, 2, 3, 3], ["x", "y", "y\0z", "z"]))),
        r"row 4: the task 'y\\x00z' contains a NUL character",
    ),
    "half a character in a worker": (
        taken(frame(worker=pd.Series(["v\ud800", *"wvwvw"], dtype=object))),
        r"row 1: the worker 'v\\ud800' contains half a character .*remove it, or export",
    ),
    "half a character in a truth": (taken(FRAME, truth={"x": "\udcff"}), r"row 1: the label '\\udcff' contains half"),
    **{
        f"{what} in {where} of JSON": (
            file(
                json.dumps(
                    [
                        {
                            "id": f"t{text}" if where == "task" else "t",
                            "data": {},
                            "annotations": [
                                {
                                    "completed_by": {"email": f"w{text}" if where == "worker" else "w"},
                                    "ground_truth": where == "truth",
                                    "result": [
                                        {
                                            "from_name": "q",
                                            "type": "choices",
                                            "value": {"choices": [f"c{text}" if where in ("label", "truth") else "c"]},
                                        }
                                    ],
                                }
                            ],
                        }
                    ]
                ),
                "x.json",
            ),
            rf"x.json, task 1: the {where.replace('truth', 'label')} '\w.*' contains {what}.*; remove it",
        )
        for what, text in (("a NUL character", "\0"), ("half a character", "\ud800"))
        for where in ("task", "worker", "label", "truth")
    },
    "every label missing": (taken(frame(label=[None] * 6)), r"every label is missing"),
    "mixed types": (taken(frame(worker=["u", 1, "u", 1, "u", 1])), r"worker names mix str and int"),
    "integers against their strings": (
        taken(FRAME.assign(label=[0, 1] * 3), labels=["0", "1"]),
        r"labels are integers but the declared labels are strings; declare them as integers",
    ),
    "label that is no whole number": (
        taken(frame(label=[0.5, 1, 1, 1, 0, 0]), kind="nominal"),
        r"row 1: label 0.5 is not a whole number",
    ),
    "infinite label": (taken(frame(label=[np.inf, 1, 1, 1, 0, 0])), r"label inf is not a whole number"),
    "ids beyond 64 bits": (
        taken(frame(task=[2**65] * 6)),
        r"task numbers do not fit into 64 bits.*pass them as strings",
    ),
    "objects as names": (taken(frame(worker=[object()] * 6)), r"worker names are of type object"),
    "bytes as names": (taken(frame(worker=[b"u"] * 6)), r"worker names are of type bytes"),
    # labels
    "label outside the declared set": (
        taken(FRAME, labels=["a", "c"]),
        r"column 'label', rows 2, 3, 4: label 'b' not among the declared labels 'a', 'c'",
    ),
    "one class declared": (taken(frame(label=["a"] * 6), labels=["a"]), r"only one class declared, 'a'"),
    "a class declared twice": (taken(FRAME, labels=["a", "b", "a"]), r"contain 'a' more than once"),
    "no class declared": (taken(FRAME, labels=[]), r"no labels declared"),
    "classes as a set": (taken(FRAME, labels={"a", "b"}), r"pass a list of all labels, in order"),
    "the same worker and item twice, refused": (
        taken(pd.concat([FRAME, FRAME[:1]]), repeats="refuse"),
        r"rows? 7: the worker has annotated the item before",
    ),
    "an unknown policy for repeats": (
        taken(FRAME, repeats="first"),
        r"repeats='first'; use 'keep', 'last' or 'refuse'",
    ),
    "soft labels that do not sum to one": (
        file("task,worker,a,b\nx,u,0.5,0.9\n", format="soft"),
        r"row 1.*sum",
    ),
    "durations below zero": (
        taken(FRAME.assign(s=[1, -1, 1, 1, 1, 1]), seconds="s"),
        r"column 's', row 2: a duration below 0",
    ),
    # truths
    "truth with two answers": (
        taken(FRAME, truth=pd.DataFrame({"task": ["x", "x"], "label": ["a", "b"]})),
        r"two different truths for item 'x'",
    ),
    "truth of another kind": (taken(FRAME, truth={1: "a"}), r"tasks are integers but in the frame they are strings"),
    "truth of no class": (
        taken(FRAME, truth={"x": "c"}, labels=["a", "b"]),
        r"label 'c' not among the declared labels",
    ),
    "truth as a list": (taken(FRAME, truth=["a"]), r"truth is a list; pass a column name, a mapping"),
    # features
    "features with NaN": (taken(FRAME, features=FEATURES.replace(1.0, np.nan)), r"features.*'y'"),
    "infinite features": (taken(FRAME, features=FEATURES.replace(1.0, np.inf)), r"features.*'y'"),
    "features of missing items": (taken(FRAME, features=FEATURES[:2]), r"features.*'z'"),
    "features of the wrong height": (taken(FRAME, features=np.zeros((2, 3))), r"features"),
    "features of the wrong width at prediction": (
        lambda p: Annotations.from_frame(FRAME, features=FEATURES).unseen(np.zeros((2, 3))),
        r"3 item features; the model was fitted with 1",
    ),
    "features that are words": (taken(FRAME, features=FEATURES.astype(str) + "?"), r"features"),
    "negative weight": (
        lambda p: Annotations.from_frame(FRAME).with_weights({"x": 1, "y": -1, "z": 1}),
        r"weights: the weight of task 'y' is negative",
    ),
    # models
    "a prior that is not positive": (lambda p: DawidSkene(concentration=((1.0, 0.0), (1.0, 1.0))), r"positive numbers"),
    "a prior of another shape": (
        lambda p: fit(FRAME, DawidSkene(concentration=((1.0,) * 3,) * 3), method="em"),
        r"concentration is for 3 classes; the data have 2",
    ),
    "negative pseudo-counts": (lambda p: DawidSkene(prior_correct=-1.0), r"prior_correct"),
    "more than the machine can hold": (
        lambda p: fit(
            Annotations.from_frame(
                FRAME,
                labels=[f"c{n}" for n in range(30_000)] + ["a", "b"],
                workers=[f"w{n}" for n in range(2_000)] + ["u", "v"],
            ),
            method="em",
        ),
        r"need some [\d,]+ GiB for confusions and probabilities, and this machine has",
    ),
    # afterwards
    "unseen worker": (lambda p: fitted().confusion("zoe"), r"no worker 'zoe' in this result"),
    "unseen worker of another kind": (lambda p: fitted().confusion(1), r"no worker 1 in this result"),
    "unseen label in an update": (
        lambda p: crowdppl.update(fitted(), frame(label=list("ccabab"))),
        r"labels that the result does not have, 'c'; its classes are 'a', 'b'",
    ),
    "items of other classes at prediction": (
        lambda p: crowdppl.predict(fitted(), Annotations.from_frame(frame(label=list("xyxyxy")))),
        r"classes are not those of the fit",
    ),
    "features where the model has none": (
        lambda p: crowdppl.predict(fitted(), np.zeros((2, 3))),
        r"3 item features; the model was fitted with 0",
    ),
    "a result that is none": (
        lambda p: ((p / "x.nc").write_bytes(b"CDF no"), crowdppl.load(p / "x.nc")),
        r"x.nc is not a readable NetCDF file",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_one_line(case, tmp_path):
    make, message = REFUSED[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        with pytest.raises(CrowdpplError, match=message) as caught:
            make(tmp_path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    # Nothing half done: what lies there is what was put there.
    assert len(list(tmp_path.iterdir())) <= 1


LONG = "n" * 10_000
TOLD = {
    "labels missing": (
        taken(frame(label=["a", None, "b", np.nan, "a", "b"])),
        r"dropped 2 of 6 rows without a label \(rows 2, 4\)",
    ),
    "nan and blank in a file": (
        file(GOOD.replace("x,v,b", "x,v,").replace("y,u,b", "y,u,nan")),
        r"dropped 2 of 6 rows",
    ),
    "a single class": (taken(frame(label=["a"] * 6)), r"every label is 'a'; declare labels="),
    "spaces around": (
        taken(frame(worker=["u", "v ", "u", "v", "u", "v"])),
        r"1 worker name differs from another in capitals or white space only: 'v' and 'v '",
    ),
    "capitals": (
        taken(frame(label=["a", "B", "b", "b", "a", "a"])),
        r"1 spelling of 1 label merged, .*'b': 'B'",
    ),
    "one name in two Unicode forms": (
        taken(frame(worker=["\u00e9", "e\u0301", "u", "v", "u", "v"])),
        r"1 worker name differs from another in Unicode form or invisible characters only",
    ),
    "truth for items never judged": (
        taken(FRAME, truth={"nobody": "a", "x": "a"}),
        r"1 of 2 known truths are of items not in the a",
    ),
    "a single worker": (lambda p: fit(FRAME[FRAME["worker"] == "u"], method="em", num_samples=3), r"only one worker"),
    "items with one label": (
        lambda p: fit(FRAME.drop(index=1), method="em", num_samples=3),
        r"1 of 3 items has one annotation",
    ),
    "disconnected workers": (
        lambda p: fit(
            pd.concat([FRAME, frame(task=list("ppqqrr"), worker=list("ststst"))]), method="em", num_samples=3
        ),
        r"fall into 2 groups that share no item .*can be compared through the prior only",
    ),
    "exact repeats": (
        taken(pd.concat([FRAME, FRAME[:2]])),
        r"2 repeated annotations .*\(0 worker-item pairs have different labels",
    ),
    "repeats that contradict": (
        taken(pd.concat([FRAME, frame(label=list("bbbbaa"))[:1]])),
        r"1 repeated annotations .*\(1 worker-item pairs have different labels",
    ),
    "the last of repeats": (taken(pd.concat([FRAME, FRAME[:2]]), repeats="last"), r"2 earlier ones dropped"),
    "no convergence": (
        lambda p: fit(FRAME, method="em", max_iter=1, num_samples=3),
        r"before it converged; raise max_iter",
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_accepted_with_a_note(case, tmp_path):
    make, message = TOLD[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        result = make(tmp_path)
    notes = list(result.notes) + list(getattr(result, "warnings", ()))
    assert any(re.search(message, sentence) for sentence in notes), notes
    assert not any("\n" in sentence for sentence in notes)


WORKS = {
    "a byte-order mark": file(b"\xef\xbb\xbf" + GOOD.encode()),
    "carriage returns": file(GOOD.replace("\n", "\r\n")),
    "unsorted rows": taken(FRAME.sample(frac=1, random_state=0)),
    "emoji, right-to-left and very long names": taken(
        frame(worker=["👩‍⚕️", "עובד", "👩‍⚕️", "עובד", "👩‍⚕️", "עובד"], task=[LONG, LONG, "y", "y", "z", "z"])
    ),
    "ids of 10^18": taken(frame(task=[10**18, 10**18, 10**18 + 1, 10**18 + 1, 5, 5])),
    "ids of 2^63 and more": taken(frame(task=[2**63, 2**63, 2**63 + 1, 2**63 + 1, 5, 5])),
    "negative numbers as names": taken(frame(worker=[-1, -2] * 3)),
    "UUIDs": taken(frame(worker=[uuid.UUID(int=1), uuid.UUID(int=2)] * 3)),
    "booleans as labels": taken(frame(label=[True, False] * 3)),
    "categories": taken(FRAME.astype("category")),
    "Arrow's strings": taken(FRAME.astype("string[pyarrow]")),
    "gaps in ids": taken(frame(task=[3, 3, 70, 70, 900, 900])),
    "known truths that are blank": taken(FRAME.assign(t=["a", None, None, None, None, None]), truth="t"),
    "an unlabelled item": taken(FRAME, items=["x", "y", "z", "never"]),
    "a class nobody used": taken(FRAME, labels=["a", "b", "c"]),
    "a thousand classes": taken(FRAME, labels=["a", "b", *(f"c{n}" for n in range(998))]),
    "UTF-16": file(GOOD.encode("utf-16")),
    "named gzip and none": file(GOOD, "x.csv.gz"),
    "an archive with a path outside its folder": file(archive(("../../../escaped.csv", GOOD)), "x.csv.zip"),
    "Parquet": lambda path: (FRAME.to_parquet(path / "x.parquet"), Annotations.from_parquet(path / "x.parquet"))[1],
}


@pytest.mark.parametrize("case", WORKS)
def test_just_works(case, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = WORKS[case](tmp_path)
    assert data.A == 6
    assert not any((folder / "escaped.csv").exists() for folder in list(tmp_path.parents)[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        posterior = fit(data, method="em", num_samples=3, max_iter=30)
    assert len(posterior.truth()) == data.N
    assert torch.isfinite(torch.from_numpy(posterior.probability())).all()


@pytest.mark.slow
def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path):
    """A limit on the size of files stands for a full disk: the library under NetCDF does not survive a write that fails."""
    (tmp_path / "x.csv").write_text(
        pd.DataFrame(
            {"task": np.arange(6000) // 3, "worker": np.arange(6000) % 7, "label": np.arange(6000) % 2}
        ).to_csv(index=False)
    )
    script = """
        import resource, sys
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        from crowdppl.cli.main import main
        sys.argv = ["crowdppl", "fit", sys.argv[1], "--out", sys.argv[2], "--method", "em", *sys.argv[3:]]
        main()
    """
    out = tmp_path / "out"
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "x.csv"), str(out)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert re.search(r"error: the result may take [\d.,]+ MB; cannot write that in .*: File too large", ended.stderr), (
        ended.stderr
    )
    assert "Traceback" not in ended.stderr
    assert not out.exists()


def test_a_full_disk_leaves_the_old_result(tmp_path, monkeypatch):
    posterior = fitted()
    posterior.save(tmp_path / "old.nc")
    before = (tmp_path / "old.nc").read_bytes()
    monkeypatch.setattr("crowdppl.files.writing.shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(
        CrowdpplError, match=r"old.nc may take 0.\d MB and .* has 0.0 MB left; free some space, or write elsewhere"
    ):
        posterior.save(tmp_path / "old.nc")
    assert (tmp_path / "old.nc").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["old.nc"]
