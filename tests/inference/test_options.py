"""The options of the engines are declared once: signature, help, checks and the command follow."""

import inspect
import subprocess
import sys
import textwrap
import typing

import pytest
import typer.main
from catalog import SHORT, quiet_fit, tiny

import crowdppl
from crowdppl import OptionError
from crowdppl.cli.main import app
from crowdppl.inference import options
from crowdppl.inference.fit import ENGINES
from crowdppl.models import CATALOGUE

PAIRS = [(method, name) for method, known in options.OPTIONS.items() for name in known]


def test_engines_take_their_options():
    assert set(ENGINES) == set(options.OPTIONS) == set(typing.get_args(options.Method))
    for method, engine in ENGINES.items():
        parameters = inspect.signature(engine).parameters.values()
        named = {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
        assert named == set(options.OPTIONS[method])


def test_fit_shows_every_option():
    """``help(fit)`` and completion read the signature: every option of every engine is in it, with its defaults."""
    parameters = inspect.signature(crowdppl.fit).parameters
    assert not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    for method, name in PAIRS:
        default = repr(parameters[name].default)
        assert f"{method}: {options.OPTIONS[method][name].default!r}" in default
        assert parameters[name].annotation is not inspect.Parameter.empty
        assert f"    {name}: " in crowdppl.fit.__doc__
    assert crowdppl.fit.__doc__.index("    jit: ") < crowdppl.fit.__doc__.index("Raises:")


@pytest.mark.parametrize(("method", "name"), PAIRS)
def test_defaults_pass_their_own_checks_and_are_told(method, name):
    option = options.OPTIONS[method][name]
    assert option.help
    if option.default is not None:
        assert option.check(name, option.default) == option.default
    assert options.filled(method, {})[name] == option.default
    assert option.help in options.described(name)


def test_models_wish_only_for_what_engines_have():
    for kind in CATALOGUE.values():
        for method, wished in kind().engine_defaults.items():
            assert options.filled(method, {}, wished).items() >= dict(wished).items()


def test_what_is_given_goes_before_the_model_and_the_engine():
    filled = options.filled("em", {"max_iter": 7}, {"max_iter": 5, "tol": 0.5})
    assert (filled["max_iter"], filled["tol"], filled["restarts"]) == (7, 0.5, 0)
    raykar = CATALOGUE["raykar"]()
    stored = quiet_fit(tiny(), raykar, method="em", num_samples=3).info["options"]
    assert stored["max_iter"] == raykar.engine_defaults["em"]["max_iter"]


def test_options_of_another_engine_say_whose_they_are():
    with pytest.raises(
        OptionError, match=r"'em' has no option 'chains', which is an option of 'gibbs' and 'nuts'; it takes"
    ):
        crowdppl.fit(tiny(), "dawid-skene", method="em", chains=2)
    with pytest.raises(OptionError, match=r"'gibbs' has no option 'warm_up' \(did you mean 'warmup'\?\)"):
        crowdppl.fit(tiny(), "dawid-skene", method="gibbs", warm_up=2)
    with pytest.raises(OptionError, match=r"max_iter=None; it must be a whole number of at least 1"):
        crowdppl.fit(tiny(), "dawid-skene", method="em", max_iter=None)
    with pytest.raises(OptionError, match=r"target_accept=2; it must be between 0 and 1, such as 0.8"):
        crowdppl.fit(tiny(), "dawid-skene", method="nuts", target_accept=2)


@pytest.mark.parametrize("method", list(options.OPTIONS))
def test_defaults_given_are_defaults_left_out(method):
    """Naming a default changes nothing."""
    short = {name: value for name, value in SHORT[method].items() if name in options.OPTIONS[method]}
    plain = quiet_fit(tiny(), "dawid-skene", method=method, **short)
    named = quiet_fit(tiny(), "dawid-skene", method=method, **options.filled(method, short))
    assert plain.tree["posterior"].to_dataset().identical(named.tree["posterior"].to_dataset())
    assert plain.info["options"] == named.info["options"]


def test_the_command_has_every_option_that_can_be_typed():
    command = typer.main.get_command(app).commands["fit"]
    there = {parameter.name for parameter in command.params}
    assert set(options.names()) - there == {"validation"}


@pytest.mark.slow
def test_type_checkers_see_the_options_of_each_engine(tmp_path):
    """Names and types are checked method by method."""
    script = tmp_path / "calls.py"
    script.write_text(
        textwrap.dedent(
            """
            import crowdppl
            data = crowdppl.read("x.csv")
            crowdppl.fit(data, "one-coin", method="em", max_iter=50, tol=1e-6, seed=1)
            crowdppl.fit(data, method="svi", batch_size=10, guide="point")
            crowdppl.fit(data, method="gibbs", chains=2, warmup=10, rho=0.1)
            crowdppl.fit(data, method="nuts", target_accept=0.9, device="cpu")
            crowdppl.fit(data, chains=2)
            crowdppl.fit(data, max_iter=2, worker="annotator")
            crowdppl.fit(data, method="em", chains=2)
            crowdppl.fit(data, method="gibbs", warm_up=2)
            crowdppl.fit(data, method="nuts", target_accept="high")
            crowdppl.fit(data, method="svi", guide="line")
            """
        ).lstrip()
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(script)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    # The library has its own check: of these messages, the caller's lines count.
    errors = [line for line in process.stdout.splitlines() if ": error:" in line and "calls.py:" in line]
    wrong = sorted({int(line.split("calls.py:")[1].split(":")[0]) for line in errors})
    assert wrong == [9, 10, 11, 12], process.stdout + process.stderr
