"""Notebooks run from top to bottom, on real and on simulated data, and are stored with outputs of a full run."""

import base64
import importlib.util
import os
import re
from pathlib import Path

import pytest
from test_words import TEXTS, in_text

from crowdppl.data import datasets

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


@pytest.fixture(scope="module")
def run():
    """The script that stores notebooks."""
    spec = importlib.util.spec_from_file_location("run_notebooks", ROOT / "notebooks" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def stored():
    import nbformat

    return lambda path: nbformat.read(path, as_version=4)


def lines(cell):
    """All text of a cell: its source, and what its outputs print or show as text."""
    yield cell.source
    for output in cell.get("outputs", []):
        yield output.get("text", "")
        yield from (text for kind, text in output.get("data", {}).items() if kind.startswith("text/"))


@pytest.mark.slow
@pytest.mark.parametrize("data", ["public", "simulated"])
@each
@pytest.mark.filterwarnings("ignore")
def test_notebook_runs(path, data, run, tmp_path):
    if data == "public" and datasets.folder() is None:
        pytest.skip("CROWDPPL_DATA names no folder of public data sets")
    environment = {"CROWDPPL_NOTEBOOKS": "small", "OMP_NUM_THREADS": "1"}
    if data == "simulated":  # no folder, nothing in the cache, nothing to be fetched
        away = "http://127.0.0.1:9"
        environment |= {"CROWDPPL_DATA": "", "XDG_CACHE_HOME": str(tmp_path), "HTTPS_PROXY": away, "https_proxy": away}
        environment |= {"MPLCONFIGDIR": os.environ.get("MPLCONFIGDIR", str(Path.home() / ".cache" / "matplotlib"))}
    run.execute(path, environment=environment, timeout=300)  # short chains may warn; an error is raised


@each
def test_outputs_are_those_of_one_run_of_all_cells(path, run, stored):
    notebook = stored(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert sum(bool(cell.outputs) for cell in code) > len(code) / 2
    assert not run.refusals(notebook)
    assert run.clean(notebook) == notebook, "store it by make notebooks"


@each
def test_head_states_the_needs(path, stored):
    head = stored(path).cells[0]
    assert head.cell_type == "markdown"
    assert head.source.startswith("# ")
    for need in ("Data", "Extras", "Time"):
        assert re.search(rf"^- \*\*{need}\*\*: \S", head.source, re.MULTILINE), need


@each
def test_settings_can_be_small(path, stored):
    code = "\n".join(cell.source for cell in stored(path).cells if cell.cell_type == "code")
    assert "CROWDPPL_NOTEBOOKS" in code


@each
def test_words(path, stored):
    """Those of the repository, in texts joined as a reader sees them; the file itself splits lines into strings."""
    for number, cell in enumerate(stored(path).cells, 1):
        for text in lines(cell):
            places = [(words, TEXTS[pattern]) for pattern in TEXTS for _, words in in_text(text, pattern)]
            assert not places, f"cell {number}"


@each
def test_links_lead_somewhere(path, stored):
    for cell in stored(path).cells:
        if cell.cell_type == "markdown":
            for target in re.findall(r"\]\((?![a-z]+:)([^)#\s]+)", cell.source):
                assert (path.parent / target).exists(), target


@each
def test_linked(path):
    """From the README and the page of notebooks."""
    assert f"(notebooks/{path.name})" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"(../notebooks/{path.name})" in (ROOT / "docs/notebooks.md").read_text(encoding="utf-8")


def test_what_differs_between_machines_is_refused(run):
    from nbformat.v4 import new_code_cell, new_notebook, new_output

    def outputs(*texts, name="stdout"):
        return new_notebook(
            cells=[new_code_cell("x", outputs=[new_output("stream", name=name, text=t) for t in texts])]
        )

    assert not run.refusals(run.clean(outputs("one ", "two\n")))
    assert run.clean(outputs("one ", "two\n")).cells[0].outputs[0].text == "one two\n"
    assert run.refusals(outputs("written to /home/someone/x.csv"))
    assert run.refusals(outputs("<Thing at 0x7f00aa>"))
    assert run.refusals(outputs("a warning", name="stderr"))


def test_images_are_small(run):
    import io

    import numpy as np
    from nbformat.v4 import new_code_cell, new_notebook, new_output
    from PIL import Image

    def notebook(pixels):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        data = {"image/png": base64.b64encode(file.getvalue()).decode()}
        return new_notebook(cells=[new_code_cell("x", outputs=[new_output("display_data", data=data)])])

    smooth = np.linspace(0, 255, 600 * 400 * 3).reshape(400, 600, 3).astype(np.uint8)
    kept = run.clean(notebook(smooth))
    assert Image.open(io.BytesIO(base64.b64decode(kept.cells[0].outputs[0].data["image/png"]))).size == (600, 400)
    assert not run.refusals(kept)
    noise = np.random.default_rng(0).integers(0, 256, (400, 600, 3), dtype=np.uint8)
    assert "image of" in run.refusals(run.clean(notebook(noise)))[0]
