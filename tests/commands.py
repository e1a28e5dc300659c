"""The command, run inside the process of a test."""

from typer.testing import CliRunner

from crowdppl.cli.main import app

runner = CliRunner()


def run(*words, code=0):
    result = runner.invoke(app, [str(w) for w in words])
    assert result.exit_code == code, result.output + str(result.exception)
    assert "Traceback" not in result.output
    return result
