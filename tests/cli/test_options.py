"""Option groups: declared once, shown by every command that takes them, and built from the values given."""

import typer
import typer.main
from typer.testing import CliRunner

from crowdppl.cli.main import app
from crowdppl.cli.options import Columns, DemoOutput, KnownTruth, Reading, with_option_groups


def command_of(function):
    single = typer.Typer()
    single.command()(with_option_groups(function))
    return single


def test_a_command_gets_its_groups():
    values = {}

    def command(*, file: str, columns: Columns, n: int = 3, output: DemoOutput, **engine: float) -> None:
        values.update(file=file, columns=columns, n=n, output=output, engine=engine)

    words = ["a.csv", "--item", "photo", "--max-iter", "7", "--no-accelerate", "--overwrite"]
    result = CliRunner().invoke(command_of(command), words)
    assert result.exit_code == 0, result.output
    assert values["file"] == "a.csv"
    assert values["n"] == 3
    assert values["columns"] == Columns(task="photo")
    assert values["output"] == DemoOutput(overwrite=True)
    assert values["engine"] == {"max_iter": 7, "accelerate": False}


def test_commands_share_the_options_of_a_group():
    """`calibrate` prints a `fit` with the same options: they must be the same in both."""
    commands = typer.main.get_command(app).commands
    names = ("fit", "calibrate", "compare")
    options = {name: {parameter.name: parameter for parameter in commands[name].params} for name in names}
    for group in (Columns, KnownTruth, Reading):
        for field in group.__dataclass_fields__:
            first, *others = (options[name][field] for name in options)
            for other in others:
                assert (first.opts, first.help, first.default) == (other.opts, other.help, other.default)
