"""The options of the engines are declared once: signature, help, checks and the command follow."""

import inspect
import pickle
import subprocess
import sys
import textwrap
import typing

import pytest
import typer.main
from catalog import SHORT, quiet_fit, tiny

import crowdppl
from crowdppl import EM, NUTS, SVI, Gibbs, OptionError
from crowdppl.cli.main import app
from crowdppl.errors import silent
from crowdppl.inference import option_help, options
from crowdppl.inference.numeric import fit as numeric_fit
from crowdppl.inference.run import ENGINES
from crowdppl.models import CATALOGUE

PAIRS = [(method, name) for method, known in options.OPTIONS.items() for name in known]


@pytest.mark.parametrize("engines", [ENGINES, numeric_fit.ENGINES])
def test_engines_take_their_options(engines):
    assert set(engines) == set(options.OPTIONS) == set(typing.get_args(options.Method))
    for method, engine in engines.items():
        assert typing.get_type_hints(engine)["options"] is options.TYPES[method]
        assert options.completed(method, {}).given().keys() == options.OPTIONS[method].keys()


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
    assert option.help in option_help.described(name)


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
    assert set(option_help.names()) - there == {"validation"}


ENGINE = {"em": EM, "svi": SVI, "gibbs": Gibbs, "nuts": NUTS}


@pytest.mark.parametrize("method", list(options.OPTIONS))
def test_an_engine_with_options_is_its_name_with_them(method):
    short = {name: value for name, value in SHORT[method].items() if name in options.OPTIONS[method]}
    plain = quiet_fit(tiny(), "dawid-skene", method=method, **short)
    named = quiet_fit(tiny(), "dawid-skene", method=ENGINE[method](**short))
    assert plain.tree["posterior"].to_dataset().identical(named.tree["posterior"].to_dataset())
    assert plain.info["options"] == named.info["options"]
    assert named.info["method"] == method
    # An engine may be a key, travel to another process, and be shown.
    engine = ENGINE[method](**short)
    assert engine == pickle.loads(pickle.dumps(engine)) == eval(repr(engine), dict(vars(crowdppl), **ENGINE))
    assert {engine: 1}[ENGINE[method](**short)] == 1
    assert engine.given() == short


def test_options_left_out_of_an_engine_are_the_models():
    raykar = CATALOGUE["raykar"]()
    stored = quiet_fit(tiny(), raykar, method=EM(num_samples=3)).info["options"]
    assert stored["max_iter"] == raykar.engine_defaults["em"]["max_iter"]
    posterior = quiet_fit(tiny(), "dawid-skene", method=EM(num_samples=3, max_iter=7))
    with silent():
        again = crowdppl.update(posterior, tiny(1), method=EM(num_samples=4))
    assert (again.info["options"]["max_iter"], again.info["options"]["num_samples"]) == (7, 4)


@pytest.mark.parametrize("method", list(options.OPTIONS))
def test_help_of_an_engine_has_every_option(method):
    shown = inspect.signature(ENGINE[method]).parameters
    assert {name: parameter.default for name, parameter in shown.items()} == options.filled(method, {})
    for name, option in options.OPTIONS[method].items():
        assert f"    {name}: {option.help}" in ENGINE[method].__doc__


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: EM(max_iter=0), r"max_iter=0; it must be a whole number of at least 1"),
        (lambda: EM(chains=2), r"'em' has no option 'chains', which is an option of 'gibbs' and 'nuts'"),
        (lambda: Gibbs(warm_up=2), r"did you mean 'warmup'"),
        (lambda: NUTS(2), r"NUTS takes options by name, such as NUTS\(chains=...\)"),
        (
            lambda: crowdppl.fit(tiny(), method=EM(tol=1e-3), tol=1e-4),
            r"tol= is given in method=EM\(tol=0.001\) and beside it",
        ),
        (lambda: crowdppl.fit(tiny(), method=EM(), chains=2), r"'em' has no option 'chains'"),
        (lambda: crowdppl.fit(tiny(), method=EM), r"no method"),
        (lambda: crowdppl.fit(tiny(), method=options.Engine()), r"no method"),
    ],
)
def test_wrong_options_of_engines_are_refused_in_one_line(make, said):
    with pytest.raises(OptionError, match=rf"^[^\n]*{said}[^\n]*$"):
        make()


@pytest.mark.slow
def test_type_checkers_see_the_options_of_each_engine(tmp_path):
    """Names and types are checked method by method."""
    script = tmp_path / "calls.py"
    script.write_text(
        textwrap.dedent(
            """
            import crowdppl
            data = crowdppl.read("x.csv")
            from crowdppl import EM, NUTS, SVI, Gibbs
            crowdppl.fit(data, "one-coin", method=EM(max_iter=50, tol=1e-6), seed=1)
            crowdppl.fit(data, method=SVI(batch_size=10, guide="point"))
            crowdppl.fit(data, method=Gibbs(chains=2, warmup=10), rho=0.1)
            crowdppl.fit(data, method="nuts", target_accept=0.9, device="cpu")
            crowdppl.fit(data, max_iter=2, worker="annotator")
            crowdppl.fit(data, method=EM(chains=2))
            crowdppl.fit(data, method=Gibbs(warm_up=2))
            crowdppl.fit(data, method=NUTS(target_accept="high"))
            crowdppl.fit(data, method=SVI(guide="line"))
            crowdppl.fit(data, method=3)
            """
        ).lstrip()
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(script)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    # The library has its own check: of these messages, the caller's lines count.
    errors = [line for line in process.stdout.splitlines() if ": error:" in line and "calls.py:" in line]
    wrong = sorted({int(line.split("calls.py:")[1].split(":")[0]) for line in errors})
    assert wrong == [9, 10, 11, 12, 13], process.stdout + process.stderr
