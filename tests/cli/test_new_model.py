"""The template of a model: written by a command, fitted by every engine, and under every test of the catalogue as it is."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from catalog import ALL, SHORT, quiet_fit, tiny
from commands import run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path):
    """Return a copy of the checkout with a model that the command added."""
    hidden = shutil.ignore_patterns("__pycache__")
    for name in ("crowdppl", "models", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=hidden)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    run("new-model", "my-own-model", "--out", tmp_path)
    return tmp_path


def test_the_template_fits_by_every_engine(tmp_path, monkeypatch):
    run("new-model", "my-own-model", "--out", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("my_own_model")
    monkeypatch.delitem(sys.modules, "my_own_model")
    for method in ALL:
        posterior = quiet_fit(tiny(1), module.MyOwnModel(), method=method, seed=0, **SHORT[method])
        assert len(posterior.truth()) == 4


def test_a_checkout_takes_the_model_up(checkout):
    zoo = (checkout / "models/__init__.py").read_text()
    assert "from crowdppl.models.my_own_model import MyOwnModel\n" in zoo
    assert '    "my-own-model": MyOwnModel,\n}\n' in zoo
    assert '    "MyOwnModel",\n' in zoo
    assert '    Case("my-own-model", MyOwnModel(), ALL),\n' in (checkout / "tests/catalog.py").read_text()
    ruff = Path(sys.executable).parent / "ruff"
    if not ruff.exists():
        pytest.skip("ruff is not installed in this environment")
    for words in (("check",), ("format", "--check")):
        done = subprocess.run(
            [ruff, *words, "models", "tests/catalog.py"], cwd=checkout, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_template_passes_the_tests_of_the_catalogue(checkout):
    """Brute force, engines against each other, the contract: unmodified, and every test of the new row."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    files = ("test_oracle.py", "model", "inference/test_em.py", "inference/test_metamorphic.py")
    tests = [f"tests/{name}" for name in files]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, "-k", "my-own-model"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize("name", ["My-Model", "my_model", "-x", "dawid-skene", "1st"])
def test_refused_names(name, tmp_path):
    output = run("new-model", "--out", tmp_path, "--", name, code=2).output
    assert name in output
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path):
    run("new-model", "my-own-model", "--out", tmp_path)
    assert "already exists" in run("new-model", "my-own-model", "--out", tmp_path, code=2).output
    assert "is not a folder" in " ".join(run("new-model", "a", "--out", tmp_path / "none", code=2).output.split())
