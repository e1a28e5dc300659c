"""Messages of the library that name arguments of Python name options in the command."""

import ast
import inspect
import re
from pathlib import Path

import pandas as pd
import pytest
import typer.main
from commands import run

import crowdppl
from crowdppl import DataError, OptionError
from crowdppl.cli.main import app
from crowdppl.cli.wording import flags_of, for_command

FLAGS = {
    "task": "--task",
    "num_samples": "--num-samples",
    "independent": "--independent",
    "rho": "--rho",
    "tol": "--tol",
}
FLAGS |= {"method": "--method", "format": "--format"}


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("name the task column with task=...", "name the task column with --task ..."),
        ("num_samples=0; it must be", "--num-samples 0; it must be"),
        ("raise num_samples, or loosen tol=...", "raise --num-samples, or loosen --tol ..."),
        ("the method and the task are words here", "the method and the task are words here"),
        ("independent=True and rho=0.3 contradict", "--independent and --rho 0.3 contradict"),
        ("independent=False would do", "without --independent would do"),
        ("rho=(nan, 1); it must be", "--rho (nan, 1); it must be"),
        ("rho=[1, 'a'], no", "--rho [1, 'a'], no"),
        ("method='gibbs' gives draws", "--method gibbs gives draws"),
        ("method='two words'.", "--method 'two words'."),
        ("name it with format=..., or", "name it with --format ..., or"),
        ("columns are 'task=5', \"rho=1\"", "columns are 'task=5', \"rho=1\""),
        ("the worker's rho=1, and the others' rho=2", "the worker's --rho 1, and the others' --rho 2"),
        ("my_task=... and task==1 and x.task=1", "my_task=... and task==1 and x.task=1"),
        ("labels=['a'] is none of its options", "labels=['a'] is none of its options"),
        ("tol=1e-09.", "--tol 1e-09."),
    ],
)
def test_arguments_become_options(message, shown):
    assert for_command(message, FLAGS) == shown


def test_every_option_of_every_command_is_known():
    group = typer.main.get_command(app)
    for command in group.commands.values():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                name = parameter.name.rstrip("_")
                assert f"a {name}=..." != for_command(f"a {name}=...", flags_of(app)), name
                assert for_command(f"{name}=...", flags_of(app)).startswith("--")


def test_the_command_names_its_options(tmp_path):
    """A refused option is named as it was typed."""
    path = tmp_path / "x.csv"
    path.write_text("x,worker,label\n1,a,0\n1,b,1\n2,a,0\n")
    out = tmp_path / "out"
    for options, message in {
        (): "name the task column with --task ...",
        ("--task", "y"): "no column 'y', which --task ... names; columns are 'x', 'worker', 'label'",
        ("--task", "x", "--truth", "t"): "no column 't', which --truth ... names; columns are",
        ("--task", "x", "--num-samples", "0"): "--num-samples 0; it must be",
        ("--task", "x", "--rho", "7"): "--rho 7.0; it must be",
        ("--task", "x", "--seed", "-1"): "--seed -1; it must be",
        ("--task", "x", "--repeats", "maybe"): "--repeats maybe; use",
        ("--task", "x", "--method", "nuts", "--target-accept", "2"): "--target-accept 2.0; it must be",
        ("--task", "x", "--level", "2"): "--level 2.0; an interval",
    }.items():
        output = " ".join(run("fit", path, "--out", out, *options, code=2).output.split())
        assert message in output, output
    result = run("fit", path, "--out", out, "--task", "x", "--method", "em", "--max-iter", "1", "--num-samples", "3")
    output = " ".join(result.output.split())
    assert "raise --max-iter ..., or loosen --tol ..." in output
    assert not re.search(r"\b(independent|method|max_iter)=", output), output


def test_messages_name_arguments_in_one_form():
    """An argument in a message is written ``name=value``; one with an underscore may stand alone, others are words."""
    names = set(flags_of(app))
    lonely = re.compile(r"\b(?:raise|Raise|loosen|give|pass|set) (\w+)(?=[,;.]|$)")
    for path in sorted(Path(crowdppl.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
                for name in lonely.findall(node.value):
                    assert name not in names or "_" in name, f"{path.name}: {node.value!r}; write {name}=..."


def test_fit_takes_the_columns_of_a_frame():
    """Messages name the arguments as they are accepted."""
    frame = pd.DataFrame({"item": [1, 1, 2], "annotator": ["u", "v", "u"], "said": ["a", "b", "a"]})
    with pytest.raises(DataError, match=r"no column 'worker'.*name the worker column with worker=\.\.\."):
        crowdppl.fit(frame)
    frame["gold"] = ["a", "a", None]
    posterior = crowdppl.fit(frame, worker="annotator", label="said", truth="gold", method="em", num_samples=100)
    assert posterior.worker_names().tolist() == ["u", "v"]
    assert posterior.known_truth().tolist() == [0, -1]
    with pytest.raises(
        DataError,
        match=r"no column 'anotator' \(did you mean 'annotator'\?\), which worker=\.\.\. names; columns are [^;]*$",
    ):
        crowdppl.fit(frame, worker="anotator")
    data = crowdppl.Annotations.from_frame(frame, worker="annotator", label="said")
    with pytest.raises(OptionError, match="worker= names a column of a frame"):
        crowdppl.fit(data, worker="annotator")
    assert {"task", "worker", "label", "truth"} <= set(inspect.signature(crowdppl.fit).parameters)


def test_arguments_become_options_still():
    assert for_command("name its column with worker=...", flags_of(app)) == "name its column with --worker ..."
    assert for_command("raise num_samples.", flags_of(app)) == "raise --num-samples."


@pytest.mark.parametrize(
    "message",
    [
        "no file data/worker_features.csv; check the name",
        "worker_features.csv: no column 'worker'",
        "truth_file.csv.gz cannot be read",
        "label=1/part.parquet is not readable",
    ],
)
def test_names_of_files_are_no_options(message):
    assert for_command(message, flags_of(app)) == message
