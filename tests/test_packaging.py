"""The wheel: built, installed where no checkout is near, and used."""

import os
import re
import shutil
import site
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = """
import pathlib, sys
import crowdppl, crowdppl.models, crowdppl.models.dawid_skene
home = pathlib.Path(sys.argv[1]).resolve()
for module in (crowdppl, crowdppl.models, crowdppl.models.dawid_skene):
    assert home in pathlib.Path(module.__file__).resolve().parents, module.__file__
from crowdppl.data import datasets
posterior = crowdppl.fit(datasets.anaesthesia(), crowdppl.models.DawidSkene(), method="em", num_samples=20)
assert len(posterior.truth()) == 45
crowdppl.load(posterior.save("posterior.nc"))
"""


def run(*command, cwd, **environment):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")} | environment
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(folder, **environment):
    """Build from a copy without the link and without anything that git does not hold, as a source archive would be."""
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    left = shutil.ignore_patterns("__pycache__", "binaries")
    shutil.copytree(ROOT / "crowdppl", source / "crowdppl", symlinks=True, ignore=left)
    shutil.copytree(ROOT / "models", source / "models", ignore=left)
    command = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source)
    run(*command, cwd=folder, **environment)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel without machine code, which takes most of the time."""
    return build(tmp_path_factory.mktemp("build"), CROWDPPL_MACHINE_CODE="0")


@pytest.fixture(scope="module")
def whole_wheel(tmp_path_factory):
    """The wheel with machine code for this version of numba."""
    constraints = str(ROOT / "constraints.txt")
    return build(tmp_path_factory.mktemp("whole"), PIP_CONSTRAINT=constraints, PIP_BUILD_CONSTRAINT=constraints)


@pytest.mark.slow
def test_a_wheel_without_machine_code_is_for_every_platform(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")


@pytest.mark.slow
def test_wheel_holds_the_zoo_once(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert names.count("crowdppl/models/dawid_skene.py") == 1
    assert "crowdppl/py.typed" in names
    assert "crowdppl/cli/commands/new_model.txt" in names
    assert not [name for name in names if name.startswith(("models/", "tests/", "benchmarks/"))]
    for path in (ROOT / "crowdppl").rglob("*.py"):
        assert path.relative_to(ROOT).as_posix() in names


@pytest.mark.slow
def test_wheel_works_in_a_fresh_environment(wheel, tmp_path):
    """A new environment with the wheel and, for speed, the dependencies of this one by path; far from the checkout."""
    home = tmp_path / "environment"
    run(sys.executable, "-m", "venv", home, cwd=tmp_path)
    python = home / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel, cwd=tmp_path)
    (packages,) = home.glob("lib/python*/site-packages")
    # Paths in a .pth file join sys.path behind the environment's own; .pth files found there (of editable installs) do not run.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    run(python, "-c", SCRIPT, home, cwd=tmp_path)
    assert "dawid-skene" in run(home / "bin" / "crowdppl", "models", cwd=tmp_path)


@pytest.mark.slow
def test_wheel_with_its_own_dependencies(whole_wheel, tmp_path):
    """Everything that the wheel asks for, installed anew: nothing is missing from its list, and a first fit compiles nothing."""
    assert not whole_wheel.name.endswith("-any.whl")
    home = tmp_path / "environment"
    run(sys.executable, "-m", "venv", home, cwd=tmp_path)
    python = home / "bin" / "python"
    constraints = ("-c", ROOT / "constraints.txt")
    run(python, "-m", "pip", "install", "--quiet", *constraints, "torch", cwd=tmp_path)
    run(python, "-m", "pip", "install", "--quiet", *constraints, whole_wheel, cwd=tmp_path)
    run(python, "-c", SCRIPT, home, cwd=tmp_path)
    cached = tmp_path / "compiled"
    run(home / "bin" / "crowdppl", "demo", "--out", "results", cwd=tmp_path, NUMBA_CACHE_DIR=str(cached))
    assert not cached.exists()
    assert (tmp_path / "results" / "workers.csv").is_file()


def test_hooks_of_pre_commit_are_the_checks_of_ci():
    """The same commands in the same environment; pre-commit passes the files to ruff itself."""
    recipe = (ROOT / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    commands = [line.removeprefix("\t$(BIN)/").removesuffix(" .") for line in recipe.splitlines()[1:]]
    hooks = re.findall(r"entry: \.venv/bin/(.+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert commands == hooks == ["ruff check", "ruff format --check", "mypy"]
    assert "make check\n" in (ROOT / ".ci/run").read_text()


def test_the_version_has_one_place():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    texts = [*(ROOT / "crowdppl").rglob("*.py"), ROOT / "README.md", ROOT / "CITATION.cff", ROOT / "mkdocs.yml"]
    assert not [
        path for path in texts if f'"{version}"' in path.read_text() or f"version: {version}" in path.read_text()
    ]


def test_lowest_versions_are_those_of_pyproject():
    """Each lower bound is what `make test-lowest` installs; a bound that was changed needs `make constraints-lowest`."""
    lines = [line for line in (ROOT / "constraints-lowest.txt").read_text().splitlines() if not line.startswith("#")]
    lowest = {canonicalize_name(name): Version(version) for name, version in (line.split("==") for line in lines)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(text) for text in project["dependencies"]]
    wanted = [one for one in wanted if one.marker is None or one.marker.evaluate({"python_version": "3.11"})]
    bounds: dict[str, Version] = {}
    for one in wanted:
        least = [Version(part.version) for part in one.specifier if part.operator == ">="]
        bounds[canonicalize_name(one.name)] = max([*least, bounds.get(canonicalize_name(one.name), Version("0"))])
    assert all(bound > Version("0") for bound in bounds.values())
    there = {name: lowest[name] for name in bounds}
    pinned = (ROOT / "constraints.txt").read_text()
    assert f"torch=={there.pop('torch')}" in pinned  # the one that is not at its lowest
    assert there == {name: bound for name, bound in bounds.items() if name != "torch"}
    assert not [name for name in lowest if name.startswith(("nvidia", "cuda", "triton"))]


def test_editable_install_is_the_checkout():
    """The environment of the tests has the checkout itself, zoo included."""
    import crowdppl.models

    assert Path(crowdppl.models.__file__).resolve().parent == ROOT / "models"


def test_importing_the_library_does_not_import_the_zoo(tmp_path):
    code = "import sys, crowdppl; assert not [m for m in sys.modules if m.startswith('crowdppl.models')]"
    run(sys.executable, "-c", code, cwd=tmp_path)
