"""The command, as users run it."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from catalog import in_turn
from commands import run
from crowds import crowd_with_characters

import crowdppl


@pytest.fixture
def labels(tmp_path, anaesthesia):
    data = anaesthesia
    path = tmp_path / "labels.csv"
    pd.DataFrame(
        {"task": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    ).to_csv(path, index=False)
    return path


def test_calibrate(public, tmp_path):
    """Coverage on `dog`: low for intervals as published, high for those of the library; rho is printed."""
    data, truth = public("dog")
    frame = {"task": data.items[data.item], "worker": data.workers[data.worker], "label": data.labels[data.label]}
    pd.DataFrame(frame).to_csv(tmp_path / "labels.csv", index=False)
    truth.rename_axis("task").reset_index().to_csv(tmp_path / "gold.csv", index=False)
    words = ("--model", "dawid-skene", "--method", "em")
    result = run("calibrate", tmp_path / "labels.csv", "--truth-file", tmp_path / "gold.csv", *words)
    line = next(row for row in result.output.splitlines() if "share of correct annotations" in row)
    published, ours = (int(cell.rstrip("%")) for cell in line.split()[-2:])
    assert published < 40 < 80 < ours
    command = f"crowdppl fit {tmp_path / 'labels.csv'} --truth-file {tmp_path / 'gold.csv'} {' '.join(words)}"
    assert command in result.output.splitlines()
    assert "--rho 0" not in result.output  # a value as if it were exact
    wrong = run("calibrate", tmp_path / "labels.csv", "--truth-file", tmp_path / "labels.csv", "--method", "em", code=2)
    assert "two different truths" in wrong.output


@pytest.fixture
def quiz(tmp_path, monkeypatch):
    """Annotations with unusual column names, in a file with a space in its name; known truths in a column and in tables."""
    monkeypatch.chdir(tmp_path)
    frame, truth = crowd_with_characters(items=80, each=40)
    # Two items of five mislead: most workers give the same incorrect label, so that a correlation is to be estimated.
    misleads = frame["task"].isin(truth.index[::5]) | frame["task"].isin(truth.index[1::5])
    misled = misleads & (np.random.default_rng(0).random(len(frame)) < 0.6)
    frame.loc[misled, "label"] = (frame["task"].map(truth)[misled] + 1) % 3
    frame = frame.rename(columns={"task": "photo", "worker": "who", "label": "says"})
    frame["gold"] = frame["photo"].map(truth.head(30)).astype("Int64")
    frame.to_csv("my labels.csv", index=False)
    gold = truth.head(30)
    gold.rename_axis("item").rename("label").reset_index().to_csv("usual.csv", index=False)
    gold.rename_axis("photo").rename("says").reset_index().to_csv("same.csv", index=False)
    gold.rename_axis("id").rename("class").reset_index().to_csv("other.csv", index=False)
    return ("--task", "photo", "--worker", "who", "--label", "says")


KNOWN = {
    "column": ("--truth", "gold"),
    "usual names": ("--truth-file", "usual.csv"),
    "names of the annotations": ("--truth-file", "same.csv"),
    "names of its own": ("--truth-file", "other.csv", "--truth-item", "id", "--truth-label", "class"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", KNOWN)
def test_known_truths_are_read_equally_by_all_commands(case, quiz):
    """`--truth` is a column and `--truth-file` a table in `fit` and in `calibrate`, with all column options."""
    options = (*quiz, *KNOWN[case], "--method", "em")
    run("fit", "my labels.csv", *options, "--out", "r")
    assert (crowdppl.load("r/posterior.nc").known_truth() >= 0).sum() == 30
    output = run("calibrate", "my labels.csv", *options).output
    assert "on 30 items of known truth" in output
    # The command that it prints can be run.
    line = next(line for line in output.splitlines() if line.startswith("crowdppl fit "))
    words = shlex.split(line)
    assert words[2] == "my labels.csv"
    assert set(map(str, options)) <= set(words)
    run(*words[1:], "--out", "s")
    story = json.loads(Path("s/run.json").read_text())
    assert story["rho"]["known"] is None
    assert story["rho"]["truths"]["items"] == 30
    assert "estimated from 30 known true labels of this crowd" in story["correlation"]
    # So can the one for other annotations: mean and sd, never a value as if it were exact.
    option = re.search(r"--rho=(-?\d+\.\d\d),(\d+\.\d\d)", output)
    run("fit", "my labels.csv", *quiz, "--method", "em", option[0], "--out", "t")
    stored = json.loads(Path("t/run.json").read_text())["rho"]
    assert (stored["mean"], stored["spread"]) == (float(option[1]), float(option[2]))
    assert (crowdppl.load("s/posterior.nc").known_truth() >= 0).sum() == 30


def test_calibrate_passes_every_option_on(quiz):
    options = (*quiz, *KNOWN["column"], "--model=one-coin", "--method", "em", "--seed", 4, "--prior", "prior_correct=9")
    options = (
        *options,
        "--prior",
        "prior_incorrect=3",
        "--labels=0,1,2",
        "--repeats",
        "last",
        "--skip",
        "label",
        "--level",
        0.8,
    )
    output = run("calibrate", "my labels.csv", *options, "--minimum", 5).output
    line = next(line for line in output.splitlines() if line.startswith("crowdppl fit "))
    for word in (
        "--model one-coin",
        "--seed 4",
        "--prior prior_correct=9 --prior prior_incorrect=3",
        "--repeats last",
        "--level 0.8",
    ):
        assert word in line
    assert "--minimum" not in line
    run(*shlex.split(line)[1:], "--out", "s")
    assert json.loads(Path("s/run.json").read_text())["seed"] == 4


def test_a_file_named_as_a_column_of_truths(quiz, tmp_path):
    pd.read_csv("my labels.csv").to_parquet("x.parquet")
    for words in (("fit", "my labels.csv"), ("calibrate", "my labels.csv"), ("stream", "x.parquet")):
        output = run(*words, *quiz, "--truth", "usual.csv", code=2).output
        assert "no column 'usual.csv', which looks like a file" in " ".join(output.split())
        assert "--truth-file usual.csv" in output
        output = run(*words, *quiz, "--truth", "gould", code=2).output
        assert "did you mean 'gold'?" in output
    for command in ("fit", "calibrate"):
        output = run(command, "my labels.csv", *quiz, "--truth", "gold", "--truth-file", "usual.csv", code=2).output
        assert "--truth and --truth-file both given" in output
        output = run(command, "my labels.csv", *quiz, "--truth", "gold", "--truth-item", "id", code=2).output
        assert "name columns of a --truth-file" in output
        output = run(command, "my labels.csv", *quiz, "--truth-file", "other.csv", code=2).output
        assert "other.csv: no column 'photo' or 'task' or 'item'" in output
        assert "--truth-item" in output
    assert "name their column with --truth" in run("calibrate", "my labels.csv", *quiz, code=2).output


@pytest.mark.parametrize("case", in_turn(KNOWN, 4, night=False))
def test_compare(case, quiz):
    """Disagreements, shares and scores of three models, within 80 columns; with truths, an accuracy that no fit knew."""
    plain = run("compare", "my labels.csv", *quiz).output
    for words in ("Items with different labels, of 80", "Expected share of items of each class", "Which model?"):
        assert words in plain
    assert "known truth" not in plain
    output = run("compare", "my labels.csv", *quiz, *KNOWN[case], "--seed", 2).output
    assert "On 30 items of known truth, which no fit knew" in output
    assert max(map(len, output.splitlines())) <= 80
    data = crowdppl.read("my labels.csv", task="photo", worker="who", label="says")
    truth = pd.read_csv("usual.csv").set_index("item")["label"]
    result = crowdppl.compare(data, truth=truth, seed=2)
    for row in result.models.to_dict("records"):
        lines = [line.split() for line in output.splitlines() if line.split()[:1] == [row["model"]]]
        assert [row["model"], f"{row['accuracy']:.3f}", f"{row['low']:.3f}–{row['high']:.3f}"] in [
            line[:3] for line in lines
        ]
        assert f"{row['elpd']:,.1f}" in [line[2] for line in lines if len(line) > 2]


def test_compare_refuses(quiz):
    for words, message in (
        (("--models", "one-coin"), "models has 1 values; at least 2"),
        (("--models", "one-coin,two-coin"), "no model 'two-coin'"),
        (("--models", "one-coin,hierarchical"), "hierarchical: "),
        (("--method", "nut"), "no method 'nut'"),
        (("--truth", "gould"), "did you mean 'gold'?"),
    ):
        assert message in " ".join(run("compare", "my labels.csv", *quiz, *words, code=2).output.split())


@pytest.mark.slow
def test_truths_of_other_items_are_counted_by_all_commands(quiz):
    gold = pd.read_csv("usual.csv").head(7)
    gold.loc[gold.index < 3, "item"] = ["x", "y", "z"]
    gold.to_csv("gold.csv", index=False)
    for command in (("fit", "--out", "r"), ("calibrate",)):
        output = run(
            command[0], "my labels.csv", *quiz, "--truth-file", "gold.csv", "--method", "em", *command[1:]
        ).output
        assert "3 of 7 known truths are of items not in the" in " ".join(output.split())


def test_calibrate_uses_truths_marked_by_an_export(tmp_path):
    frame, truth = crowd_with_characters(items=80, each=40)
    rows = [
        {
            "id": task,
            "data": {},
            "annotations": [
                {"completed_by": row.worker, "result": [choice(row.label)]} for row in part.itertuples(index=False)
            ]
            + [{"ground_truth": True, "completed_by": "me", "result": [choice(truth[task])]}],
        }
        for task, part in frame.groupby("task")
    ]
    (tmp_path / "x.json").write_text(json.dumps(rows))
    output = run("calibrate", tmp_path / "x.json", "--format", "label-studio", "--method", "em").output
    assert "on 80 items of known truth" in output
    assert "--format label-studio" in output


@pytest.mark.parametrize("copies", [1, 3])
def test_calibrate_recommends_by_log_loss(copies, tmp_path):
    """Independent errors: the model as published. Labels that workers copy from each other: the form with correlation."""
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=150)
    said = [np.where(rng.random(150) < 0.75, truth, 1 - truth) for _ in range(5)]
    rows = [
        (item, f"w{n} {copy}", label[item], truth[item])
        for n, label in enumerate(said)
        for copy in range(copies)
        for item in range(150)
    ]
    pd.DataFrame(rows, columns=["task", "worker", "label", "gold"]).to_csv(tmp_path / "labels.csv", index=False)
    words = ("--truth", "gold", "--model", "one-coin", "--method", "em")
    output = run("calibrate", tmp_path / "labels.csv", *words).output
    text = " ".join(output.split())
    assert "Log loss, published less correlated:" in text
    assert "given their number" in text
    command = next(line for line in output.splitlines() if line.startswith("crowdppl fit "))
    assert ("--independent" in command) == (copies == 1)


def choice(label):
    return {"from_name": "q", "type": "choices", "value": {"choices": [f"class {label}"]}}


def test_fit_as_published_and_with_rho(labels, tmp_path):
    run("fit", labels, "--method", "em", "--independent", "--out", tmp_path / "a")
    run("fit", labels, "--method", "em", "--rho", 0.3, "--out", tmp_path / "b")
    stories = [json.loads((tmp_path / name / "run.json").read_text()) for name in "ab"]
    assert "as published" in stories[0]["correlation"]
    assert "rho = 0.3" in stories[1]["correlation"]
    for words in ("much", "1,2,3", "", "0.1,"):
        assert "it must be mean and sd" in run("fit", labels, f"--rho={words}", "--out", tmp_path / "c", code=2).output
    both = run("fit", labels, "--independent", "--rho", 0.3, "--out", tmp_path / "c", code=2)
    assert "contradict" in both.output


def test_fit(labels, tmp_path):
    out = tmp_path / "results"
    result = run(
        "fit", labels, "--model", "dawid-skene", "--method", "gibbs", "--num-samples", 1500, "--out", out, "--seed", 3
    )
    assert "Workers" in result.output
    assert {p.name for p in out.iterdir()} == {"truth.csv", "workers.csv", "confusion.csv", "posterior.nc", "run.json"}
    posterior = crowdppl.load(out / "posterior.nc")
    truth = pd.read_csv(out / "truth.csv")
    assert truth["label"].tolist() == posterior.truth()["label"].tolist()
    assert len(pd.read_csv(out / "workers.csv")) == 5
    assert len(pd.read_csv(out / "confusion.csv")) == 80
    story = json.loads((out / "run.json").read_text())
    assert story["seed"] == 3
    assert story["options"]["num_samples"] == 1500
    assert re.fullmatch("[0-9a-f]{64}", story["input"]["sha256"])
    assert story["counts"] == {"items": 45, "workers": 5, "annotations": 315, "classes": 4, "features": 0}
    assert {"torch", "pyro-ppl", "crowdppl"} <= set(story["versions"])
    assert {"read", "fit"} <= set(story["timings"])
    again = run("fit", labels, "--out", out, code=2)
    assert "already holds" in again.stderr
    run("fit", labels, "--out", out, "--overwrite", "--method", "em")
    assert json.loads((out / "run.json").read_text())["method"] == "em"


def test_a_fit_ends_with_a_short_paragraph(labels, tmp_path):
    """At most three sentences on the computation; the rest on request, and in run.json."""
    short, long = (
        " ".join(run("fit", labels, "--out", tmp_path / name, *more).output.split())
        for name, more in (("a", []), ("b", ["--verbose"]))
    )
    (paragraph,) = re.findall(r"item-effects by em in .*?(?= Wrote)", short)
    assert paragraph.count(". ") <= 2
    assert "--verbose" in paragraph
    story = json.loads((tmp_path / "a" / "run.json").read_text())
    for words in ("design effect", "Coverage measured for"):
        assert words not in short
        assert words in long
        assert words in story["correlation"] + story["coverage"]


def test_the_summary_says_where_errors_are_probably_independent(tmp_path):
    """Five workers of .85 who label everything by themselves."""
    g = np.random.default_rng(0)
    truth = g.integers(2, size=300)
    label = np.where(g.random((5, 300)) < 0.85, truth, 1 - truth)
    worker, task = np.divmod(np.arange(label.size), 300)
    table = pd.DataFrame(
        {"task": task, "worker": [f"w{j}" for j in worker], "label": np.array(["no", "yes"])[label.ravel()]}
    )
    table.to_csv(tmp_path / "l.csv", index=False)
    ending = " ".join(run("fit", tmp_path / "l.csv", "--out", tmp_path / "out").output.split())
    probability = json.loads((tmp_path / "out" / "run.json").read_text())["independence"]["probability"]
    assert (
        f"Errors of workers are independent with probability {probability:.0%}; intervals average over this" in ending
    )


def test_column_names_truths_and_classes(tmp_path):
    table = pd.DataFrame({"q": list("aabbcc"), "who": list("xyxyxy"), "says": list("010111"), "gold": ["0", *[""] * 5]})
    table.to_csv(tmp_path / "l.csv", index=False)
    columns = ("--task", "q", "--worker", "who", "--label", "says")
    run(
        "fit",
        tmp_path / "l.csv",
        *columns,
        "--truth",
        "gold",
        "--labels",
        "0,1,2",
        "--method",
        "em",
        "--out",
        tmp_path / "r",
    )
    truth = pd.read_csv(tmp_path / "r" / "truth.csv")
    assert list(truth.columns) == ["task", "label", "probability", "entropy", "p_0", "p_1", "p_2"]
    assert truth.loc[0, "p_0"] == 1
    pd.DataFrame({"task": ["b"], "label": [1]}).to_csv(tmp_path / "gold.csv", index=False)
    run(
        "fit",
        tmp_path / "l.csv",
        *columns,
        "--truth-file",
        tmp_path / "gold.csv",
        "--method",
        "em",
        "--out",
        tmp_path / "s",
    )
    assert pd.read_csv(tmp_path / "s" / "truth.csv").loc[1, "p_1"] == 1


def test_truths_in_a_file_with_identifiers_of_another_type(tmp_path):
    """Items are integers in one file, and text in the other because of a single name: they are the same items."""
    (tmp_path / "l.csv").write_text("task,worker,label\n1,a,0\n1,b,1\n2,a,1\n2,b,1\n")
    (tmp_path / "g.csv").write_text("task,label\n1,0\nx9,1\n")
    result = run(
        "fit", tmp_path / "l.csv", "--truth-file", tmp_path / "g.csv", "--method", "em", "--out", tmp_path / "r"
    )
    assert pd.read_csv(tmp_path / "r" / "truth.csv")["p_0"].tolist()[0] == 1
    assert "1 of 2 known truths are of items not in the annotations" in " ".join(result.output.split())


def test_parquet_and_priors(tmp_path):
    pd.DataFrame({"task": [1, 1, 2, 2], "worker": ["u", "v"] * 2, "label": [0, 0, 1, 0]}).to_parquet(
        tmp_path / "l.parquet"
    )
    run(
        "fit",
        tmp_path / "l.parquet",
        "--model",
        "dawid-skene",
        "--prior",
        "prior_correct=2",
        "--prior",
        "prior_incorrect=0.5",
        "--method",
        "em",
        "--out",
        tmp_path / "r",
    )
    story = json.loads((tmp_path / "r" / "run.json").read_text())
    assert story["hyperparameters"] == {
        "prior_correct": 2.0,
        "prior_incorrect": 0.5,
        "prior_items": 0.0,
        "concentration": None,
        "prevalence": None,
    }


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        (None, (), ["no file"]),
        ("", (), ["labels.csv", "empty"]),
        ("task,worker,label\n", (), ["labels.csv", "no rows"]),
        ("task,annotator,label\n1,a,0\n", (), ["labels.csv", "'worker'", "with --worker ..."]),
        ("task,worker,label\n1,a,0\n2,,1\n", (), ["labels.csv", "'worker'", "row 2"]),
        ("task,worker,label\n1,a,0\n1,b,x\n", ("--labels", "0,1"), ["labels.csv", "'label'"]),
        ("task,worker,label\n1,a,0\n1,b,1\n", ("--model", "david"), ["no model 'david'"]),
        ("task,worker,label\n1,a,0\n1,b,1\n", ("--method", "emm"), ["no method 'emm'", "did you mean 'em'"]),
        ("task,worker,label\n1,a,0\n1,b,1\n", ("--method", "em", "--chains", "3"), ["'em' has no option 'chains'"]),
        (
            "task,worker,label\n1,a,0\n1,b,1\n",
            ("--model", "dawid-skene", "--prior", "prior_corect=3"),
            ["no hyperparameter 'prior_corect'", "'prior_correct'"],
        ),
        (
            "task,worker,label\n1,a,0\n1,b,1\n",
            ("--model", "dawid-skene", "--prior", "prior_correct=much"),
            ["'much' is not a number"],
        ),
        (
            "task,worker,label\n1,a,0\n1,b,1\n",
            ("--model", "dawid-skene", "--prior", "prior_correct=-1"),
            ["prior_correct is -1"],
        ),
        (
            "task,worker,label\n1,a,0\n1,b,1\n",
            ("--prior", "prior_correct=3"),
            ["item-effects has no hyperparameter 'prior_correct'", "it has anchoring"],
        ),
        ("task,worker,label\n1,a,0\n1,b,1\n", ("--level", "89"), ["between 0 and 1"]),
        ("task,worker,label\n1,a,0\n1,b,1\n", ("--truth", "gold"), ["no column 'gold'"]),
        ("task,worker,label\n1,a,0\n1,a,1\n", ("--repeats", "refuse"), ["labels.csv", "row 2", "repeats"]),
        ("task,worker,label\n1,a,0\n1,a,1\n", ("--repeats", "first"), ["--repeats first; use"]),
    ],
)
def test_bad_input_is_one_line_and_status_two(tmp_path, content, words, said):
    path = tmp_path / "labels.csv"
    if content is not None:
        path.write_text(content)
    result = run("fit", path, "--out", tmp_path / "r", *words, code=2)
    lines = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert result.stderr.splitlines()[-1] == lines[0]
    for word in said:
        assert word in lines[0]
    assert not (tmp_path / "r").exists()


def test_dropped_rows_are_reported(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("task,worker,label\n1,a,0\n1,b,\n2,a,1\n2,b,1\n")
    result = run("fit", path, "--method", "em", "--out", tmp_path / "r")
    assert "dropped 1 of 4 rows without a label" in " ".join(result.output.split())
    assert "dropped 1 of 4" in json.loads((tmp_path / "r" / "run.json").read_text())["notes"][0]


def test_markup_in_names_is_shown_as_text(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("task,worker,label\n[red]1,[/bold]a,[x]\n[red]1,b,y\n2,[/bold]a,y\n")
    result = run("fit", path, "--method", "em", "--out", tmp_path / "r")
    assert "[/bold]a" in result.output


def test_demo_and_models(tmp_path):
    result = run("demo", "--out", tmp_path / "d")
    assert "40 of 45" in result.output or "of 45 items" in result.output
    assert (tmp_path / "d" / "posterior.nc").exists()
    listing = run("models").output
    for name in crowdppl.inference.catalogue.catalogue():
        assert name in listing
        assert "Methods: " in run("models", name).output
    output = run("models", "item-subtypes").output
    assert "few subtypes are" in output  # the description of a hyperparameter
    assert "ICML 97" in output  # and the source
    assert "did you mean" in run("models", "dawid-skeen", code=2).output
    assert run("--version").output.strip() == f"crowdppl {crowdppl.__version__}"


def test_help_names_every_engine():
    assert all(word in run("fit", "--help").output for word in ("gibbs", "nuts", "svi", "--truth", "--out"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Results of a crowd with workers of all verdicts, and timestamps."""
    from crowds import crowd_with_characters

    place = tmp_path_factory.mktemp("folder")
    frame, _ = crowd_with_characters(items=80, each=40, timestamps=True)
    frame["timestamp"] = (pd.Timestamp("2026-03-01") + pd.to_timedelta(frame["timestamp"], unit="s")).astype(str)
    frame.to_csv(place / "labels.csv", index=False)
    words = ("--num-samples", 60)
    words += ("--timestamp", "timestamp", "--seconds", "seconds", "--report", "--verbose")
    output = run("fit", place / "labels.csv", *words, "--out", place / "results").output
    assert "report.html" in output
    assert "held the share of a worker's annotations" in " ".join(output.split())
    return place / "results"


def test_report(folder, tmp_path):
    assert (folder / "report.html").stat().st_size > 10_000
    result = run("report", folder, "--out", tmp_path / "mine.html", "--level", 0.5)
    assert "mine.html" in result.output
    text = (tmp_path / "mine.html").read_text(encoding="utf-8")
    assert '"level":0.5' in text
    assert '"command":["crowdppl"' in text
    assert '"sha256"' in text
    assert "posterior.nc" in run("report", tmp_path, code=2).output
    assert "cannot write" in run("report", folder, "--out", tmp_path / "no" / "where.html", code=2).output
    (folder / "run.json").rename(tmp_path / "run.json")
    run("report", folder, "--out", tmp_path / "again.html")  # without the command and input
    (folder / "run.json").write_text("{")
    assert "run.json" in run("report", folder, code=2).output
    (tmp_path / "run.json").replace(folder / "run.json")


@pytest.mark.slow
def test_texts_links_title_and_cost(folder, tmp_path):
    """The terminal begins with the actions of the first screen; texts and links are stored, or come from a table of items."""
    frame = pd.read_csv(folder.parent / "labels.csv")
    frame["words"] = "text of " + frame["task"]
    frame["where"] = "https://example.com/" + frame["task"].str.replace(" ", "")
    frame.to_csv(tmp_path / "labels.csv", index=False)
    words = (
        "--method",
        "em",
        "--num-samples",
        60,
        "--text-column",
        "words",
        "--url-column",
        "where",
        "--title",
        "Mine",
    )
    fit = ("fit", tmp_path / "labels.csv", *words, "--cost", 0.5, "--report", "--out", tmp_path / "r")
    output = " ".join(run(*fit).stdout.split())
    assert output.startswith("What to do - Stop and check")
    assert output.index("Send out again") < output.index("Share of each class")
    assert ", cost " in output
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert '<h1 dir="auto">Mine</h1>' in page
    assert "text of item 3" in page
    run("report", tmp_path / "r", "--title", "Other", "--out", tmp_path / "later.html")
    later = (tmp_path / "later.html").read_text(encoding="utf-8")
    assert "Other</h1>" in later
    assert "https://example.com/item3" in later
    frame.drop_duplicates("task").rename(columns={"task": "ID"}).to_csv(tmp_path / "items.csv", index=False)
    table = ("--items", tmp_path / "items.csv", "--item", "ID", "--text-column", "words")
    result = run("report", folder, *table, "--out", tmp_path / "table.html")
    assert result.stdout.strip().startswith("What to do")
    assert "text of item 3" in (tmp_path / "table.html").read_text(encoding="utf-8")
    for wrong, said in (
        (("--text-column", "words"), "--items"),
        (("--items", tmp_path / "items.csv", "--item", "ID"), "--text-column or --url-column"),
        (("--items", tmp_path / "items.csv", "--item", "ID", "--text-column", "word"), "did you mean 'words'"),
        (("--items", tmp_path / "items.csv", "--text-column", "words"), "no column 'task' or 'item'"),
        (("--cost", -1), "price of one annotation"),
    ):
        assert said in " ".join(run("report", folder, *wrong, code=2).output.split())
    wrong = run("fit", tmp_path / "labels.csv", "--text-column", "txt", "--out", tmp_path / "s", code=2)
    assert "no column 'txt' for --text-column" in " ".join(wrong.output.split())
    assert not (tmp_path / "s").exists()


def test_next(folder, tmp_path):
    result = run("next", folder, "-n", 7)
    batch = pd.read_csv(folder / "next.csv")
    assert list(batch.columns) == ["task", "label", "probability", "annotations", "gain"]
    assert len(batch) == 7
    assert batch["gain"].is_monotonic_decreasing
    assert "Next: 7 annotations" in result.output
    run("next", folder, "--pairs", "-n", 5, "--out", tmp_path / "pairs.jsonl")
    assert all("worker" in json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines())
    sure = run("next", folder, "--sure", 0.7, "-n", 500, "--out", tmp_path / "unsure.csv")
    assert "at least 0.7 probable" in sure.output
    assert (pd.read_csv(tmp_path / "unsure.csv")["probability"] < 0.7).all()
    known = run("next", folder, "--known", "-n", 9, "--out", tmp_path / "gold.csv")
    assert "Next: 9 true labels" in known.output
    assert len(pd.read_csv(tmp_path / "gold.csv")) == 9
    assert "leave --by" in run("next", folder, "--known", "--pairs", code=2).output
    run("next", folder, "--known", "-n", 9, "--seed", 1, "--out", tmp_path / "others.csv")
    assert not pd.read_csv(tmp_path / "others.csv").equals(pd.read_csv(tmp_path / "gold.csv"))
    assert "--seed belongs to --known" in run("next", folder, "--seed", 1, code=2).output
    assert "did you mean" in run("next", folder, "--by", "entrpy", code=2).output
    assert "ends in" in run("next", folder, "--out", tmp_path / "x.txt", code=2).output
    assert "at least 1" in run("next", folder, "-n", 0, code=2).output


def test_export(folder, tmp_path):
    for what in ("truth", "soft", "weights", "workers", "confusion"):
        path = tmp_path / f"{what}.parquet"
        assert path.name in run("export", folder, "--what", what, "--out", path).output.replace("\n", "")
        assert len(pd.read_parquet(path))
    assert "ends in" in run("export", folder, "--out", tmp_path / "x.xls", code=2).output


def test_check(folder):
    few = " ".join(run("check", folder, "--draws", 50).output.split())
    assert "50 data sets drawn from the model are too few" in few
    output = " ".join(run("check", folder).output.split())
    sentences = crowdppl.criticism.check(crowdppl.load(folder / "posterior.nc")).sentences
    assert output.startswith(
        f"The model does not reproduce {len(sentences)} of " if sentences else "The model reproduces"
    )
    assert output.count("! differs") == len(sentences)
    for sentence in sentences:
        assert f"! {sentence}" in output
    assert output.index("model") < output.index("Labels given and labels of the model")
    assert "share of the label 0" in output
    assert "approximation" in output


def test_seconds_and_changes_are_in_the_result(folder):
    table = crowdppl.load(folder / "posterior.nc").workers()
    assert table["seconds"].between(0, 60).all()
    assert len(crowdppl.posterior.workers.accuracy_change(crowdppl.load(folder / "posterior.nc"))) == 19


def test_formulas_in_result_files_are_quoted(tmp_path):
    rows = [(f"=1+{i}", w, label) for i in range(5) for w, label in (("@a", "x"), ("b", "y"), ("c", "x"))]
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_csv(tmp_path / "labels.csv", index=False)
    run("fit", tmp_path / "labels.csv", "--method", "em", "--out", tmp_path / "safe")
    assert pd.read_csv(tmp_path / "safe" / "truth.csv")["task"].str.startswith("'=").all()
    assert "'@a" in set(pd.read_csv(tmp_path / "safe" / "confusion.csv")["worker"])
    run("fit", tmp_path / "labels.csv", "--method", "em", "--out", tmp_path / "raw", "--raw")
    assert pd.read_csv(tmp_path / "raw" / "truth.csv")["task"].str.startswith("=").all()


@pytest.mark.parametrize("method", ["majority", "shares", "wawa"])
def test_aggregate(tmp_path, method):
    path, out = tmp_path / "labels.csv", tmp_path / "votes.csv"
    rows = [("a", w, k, 1) for w, k in (("u", 1), ("v", 1), ("w", 0))] + [
        ("b", w, k, 0) for w, k in (("u", 0), ("v", 1))
    ]
    pd.DataFrame(rows, columns=["item", "worker", "label", "gold"]).to_csv(path, index=False)
    result = run("aggregate", path, "--method", method, "--truth", "gold", "--out", out)
    table = pd.read_csv(out).set_index("item")
    assert table.loc["a", "label"] == 1
    assert "of 2 items of known truth" in result.output
    assert "Accuracy: 75.0%" in result.output or method == "wawa"


def test_aggregate_refuses(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("item,worker,label\na,u,1\n")
    for arguments, said in (
        (("--method", "wava"), "wawa"),
        (("--ties", "last"), "split"),
        (("--out", "votes.txt"), ".csv"),
    ):
        result = run("aggregate", path, *arguments, code=2)
        assert said in result.output
        assert not (tmp_path / "votes.txt").exists()
