"""What is imported, and when: the library and the help of the command load nothing that takes long to import."""

import ast
import inspect
import os
import pickle
import pydoc
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import crowdppl
from crowdppl.cli.main import COMMANDS

# Packages of which each takes a tenth of a second or more to import.
SLOW = (
    "arviz_base",
    "arviz_plots",
    "arviz_stats",
    "h5py",
    "matplotlib",
    "numba",
    "pandas",
    "pyarrow",
    "pyro",
    "scipy",
    "sympy",
    "torch",
    "xarray",
)
# The command as its entry point runs it, and what it leaves imported.
COMMAND = """
    import io, sys
    from contextlib import redirect_stderr, redirect_stdout
    from crowdppl.cli.main import main

    for words, status in {runs!r}:
        sys.argv = ["crowdppl", *words]
        output = io.StringIO()
        with redirect_stdout(output), redirect_stderr(output):
            try:
                main()
            except SystemExit as end:
                assert end.code == status, (words, end.code, output.getvalue())
        assert output.getvalue(), words
"""


def run(script):
    """Run a program in a process of its own; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC")}
    words = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def imported(script, packages=SLOW):
    """Return which of the packages a program has imported when it ends."""
    left = f"\nimport sys\nprint(*[name for name in {packages!r} if name in sys.modules])"
    return run(textwrap.dedent(script) + left).splitlines()[-1].split()


def test_importing_the_library_imports_nothing_slow():
    assert imported("import crowdppl", (*SLOW, "numpy", "rich", "typer")) == []


def test_errors_and_names_are_there_without_anything_slow():
    script = """
        import crowdppl
        assert "fit" in dir(crowdppl) and "plots" in dir(crowdppl) and crowdppl.__version__
        assert not hasattr(crowdppl, "no_such_name") and not hasattr(crowdppl.data, "no_such_module")
        try:
            raise crowdppl.OptionError("a message")
        except crowdppl.CrowdpplError:
            pass
    """
    assert imported(script) == []


def test_help_imports_nothing_slow():
    """The help of the command and of each of its commands, and what it says of a wrong use."""
    helped = [(["--help"], 0), (["--version"], 0), *(([name, "--help"], 0) for name in COMMANDS)]
    wrong = [[], ["fit", "--no-such-option"], ["fit"], ["no-such-command"], ["stream", "x", "--rows", "many"]]
    assert imported(COMMAND.format(runs=[*helped, *((words, 2) for words in wrong)])) == []


def test_results_import_no_more_than_they_need():
    """True labels by EM: SymPy would take longer to import than the fit takes. Then intervals of workers: no plots.

    ArviZ, which imports matplotlib, is not asked for its default probability where nothing can have changed it.
    """
    import arviz_base

    level = arviz_base.rcparams.defaultParams["stats.ci_prob"][0]
    plots = ("arviz_base", "arviz_plots", "arviz_stats", "matplotlib")
    unneeded = (*plots, "h5py", "numba", "sympy", "scipy.interpolate", "scipy.stats", "rich", "crowdppl.criticism")
    script = f"""
        import sys
        import crowdppl
        from crowdppl.data import datasets

        assert len(crowdppl.fit(datasets.anaesthesia(), method="em").truth()) == 45
        assert [name for name in {unneeded!r} if name in sys.modules] == []

        from crowdppl.posterior.measures import default_level

        posterior = crowdppl.fit(datasets.anaesthesia(), "dawid-skene", method="em")
        assert len(posterior.truth()) and len(posterior.workers()) and default_level(None) == {level}
    """
    assert imported(script, plots) == []


@pytest.mark.slow
def test_a_fit_by_the_command_imports_no_plots(tmp_path):
    unneeded = ("arviz_base", "arviz_plots", "arviz_stats", "matplotlib", "scipy.stats", "scipy.optimize")
    labels = tmp_path / "labels.csv"
    labels.write_text("task,worker,label\n" + "".join(f"{n},{w},{n % 2}\n" for n in range(20) for w in "abc"))
    command = ("fit", str(labels), "--method", "em", "--out", str(tmp_path / "result"))
    assert imported(COMMAND.format(runs=[(command, 0)]), unneeded) == []


@pytest.mark.parametrize(
    "before",
    [
        "os.chdir({folder!r})",
        pytest.param("os.environ['ARVIZ_DATA'] = {folder!r}", marks=pytest.mark.slow),
        pytest.param("os.environ['XDG_CONFIG_HOME'] = os.path.dirname({folder!r})", marks=pytest.mark.slow),
        "import arviz_base; arviz_base.rcParams['stats.ci_prob'] = 0.7",
    ],
)
def test_the_probability_of_intervals_that_arviz_is_given_counts(before, tmp_path):
    """Set in the process, or in a file in any place where ArviZ looks."""
    folder = tmp_path / "arviz"
    folder.mkdir()
    if "rcParams" not in before:
        (folder / "arvizrc").write_text("stats.ci_prob: 0.7\n")
    script = """
        import os
        from crowdppl.posterior.measures import default_level

        {before}
        print(default_level(None), default_level(0.5))
    """
    assert run(textwrap.dedent(script).format(before=before.format(folder=str(folder)))).split() == ["0.7", "0.5"]


def test_type_checkers_see_the_names_of_the_program():
    """Each name stands twice in the file, once for type checkers and once for the program."""
    tree = ast.parse(Path(crowdppl.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module not in ("crowdppl", "crowdppl.data")  # modules
        for alias in node.names
    }
    assert seen == {(f"crowdppl.{module}", name) for name, module in crowdppl._MODULES.items()}
    at_once = {name for name in crowdppl.__all__ if name in vars(crowdppl.errors)}
    assert set(crowdppl._MODULES) | at_once == set(crowdppl.__all__)


def test_every_name_is_what_its_module_defines():
    for name in crowdppl.__all__:
        value = getattr(crowdppl, name)
        assert value.__name__ == name
        assert getattr(sys.modules[value.__module__], name) is value
    space = {}
    exec("from crowdppl import *", space)
    assert set(crowdppl.__all__) == set(space) - {"__builtins__"}
    assert space["fit"] is crowdppl.fit


REACHED = [
    "acquisition.next_items",
    "arguments.checked",
    "criticism.comparison",
    "criticism.compare",
    "crowdkit.DawidSkene",
    "data.readers.formats",
    "data.datasets",
    "errors.DataError",
    "export.to_file",
    "inference.distributed.joined",
    "inference.scale.sharded.distribute",
    "inference.scale.streaming.stream",
    "judges.Verdicts",
    "kernels.ops",
    "model.bound",
    "models.DawidSkene",
    "plots.workers",
    "posterior.posterior",
    "posterior.workers.verdicts",
    "report.write",
]


@pytest.mark.slow
@pytest.mark.parametrize("names", [REACHED, REACHED[::-1]], ids=["forth", "back"])
def test_modules_are_reached_without_an_import_of_their_own(names):
    """In two orders: whether a module is there must not depend on what was used before."""
    run(f"from operator import attrgetter; import crowdppl\nfor name in {names}: attrgetter(name)(crowdppl)")


@pytest.mark.parametrize("module", [crowdppl, crowdppl.data, crowdppl.posterior])
def test_an_unknown_name_is_the_usual_error(module):
    with pytest.raises(AttributeError, match=f"^module '{module.__name__}' has no attribute 'no_such_name'$"):
        module.no_such_name  # noqa: B018
    with pytest.raises(ImportError, match=f"^cannot import name 'no_such_name' from '{module.__name__}'"):
        exec(f"from {module.__name__} import no_such_name")
    # A module that starts the command, and names of Python's own protocols.
    assert not [name for name in ("__main__", "__wrapped__", "_repr_html_") if hasattr(module, name)]


def test_an_error_within_a_module_is_not_taken_for_an_unknown_name():
    """A package that is not installed is reported as such."""
    script = """
        import sys
        import crowdppl
        sys.modules["numpy"] = None
        try:
            crowdppl.plots
        except ModuleNotFoundError as error:
            print(error.name)
    """
    assert run(script).split() == ["numpy"]


def test_tools_see_the_library():
    assert list(inspect.signature(crowdppl.fit).parameters)[:2] == ["data", "model"]
    text = pydoc.plain(pydoc.render_doc(crowdppl))
    for name in crowdppl.__all__:
        assert f"{name}(" in text or f"class {name}" in text, name
    assert pickle.loads(pickle.dumps(crowdppl.Posterior)) is crowdppl.Posterior
    assert set(crowdppl.__all__) <= set(dir(crowdppl))
    assert all(hasattr(crowdppl, name) for name in dir(crowdppl))
    assert crowdppl.datasets is crowdppl.data.datasets
    assert not {"kernels", "inference", "isolation"} & set(dir(crowdppl))
    assert crowdppl.inference.fit.fit is crowdppl.fit  # what is not shown is there


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_forked_child_can_compute_where_the_library_was_only_imported():
    """Torch's threads do not survive a fork, so that an operation that needs them would wait for ever."""
    script = """
        import os
        import crowdppl, torch
        torch.set_num_threads(2)
        torch.ones(2000, 2000) @ torch.ones(2000, 2000)
        child = os.fork()
        if child == 0:
            os._exit(torch.get_num_threads())
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), torch.get_num_threads())
    """
    assert run(script).split() == ["1", "2"]


def test_the_choice_of_items_imports_no_torch(tmp_path):
    """`crowdppl next` reads a result: it has no use for what takes longest to import."""
    from crowdppl.data import datasets
    from crowdppl.export import results

    results.write(crowdppl.fit(datasets.anaesthesia(), method="em", num_samples=20), tmp_path / "r", run={})
    unneeded = (
        "torch",
        "pyro",
        "arviz_stats",
        "arviz_plots",
        "matplotlib",
        "numba",
        "sympy",
        "crowdppl.criticism",
    )
    assert imported(COMMAND.format(runs=[(("next", str(tmp_path / "r")), 0)]), unneeded) == []
