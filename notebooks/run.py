"""Execute the notebooks and store their outputs: ``make notebooks``, or ``python notebooks/run.py dawid-skene``.

Each notebook runs in a new kernel and an empty folder, from the first cell to the last. What is stored is the same on every
machine, up to the numbers themselves: no times, no paths, no versions, cells numbered in order. Notebooks that have something to
say to standard error, or that show a path or an address in memory, are refused.

``CROWDPPL_DATA`` must name the folder of public data sets, since the stored outputs are those of real data. Without it, notebooks
run on simulated data; with ``CROWDPPL_NOTEBOOKS=small`` they run on small settings. Tests do both, and store nothing.
"""

import base64
import io
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

HERE = Path(__file__).resolve().parent
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))
# A progress bar of notebooks needs ipywidgets, which nothing stored shows, and warns where it is not installed.
QUIET = {"PYTHONWARNINGS": "ignore:IProgress not found"}
# Bytes of a stored image at most: plots are stored with 256 colours, a third of what matplotlib writes.
LARGEST_IMAGE = 50_000
# Paths of machines, and addresses of objects in memory.
LOCAL = re.compile(r"(?<![\w.])/(?:home|tmp|root|Users|work|var|opt|usr)/|[A-Z]:\\\\|site-packages|\bat 0x[0-9a-f]+")


def execute(path: Path, *, environment: dict[str, str] | None = None, timeout: int = 3600) -> NotebookNode:
    """Return a notebook with the outputs of a new run.

    Args:
        path: the notebook; it is not changed.
        environment: environment variables of the kernel, in addition to those of this process.
        timeout: maximum time of a cell, seconds.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell raises an error.
        nbclient.exceptions.CellTimeoutError: if a cell takes longer.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, timeout=timeout, record_timing=False, resources={"metadata": {"path": folder}}
        )
        return client.execute(env={**os.environ, **QUIET, **(environment or {})})


def clean(notebook: NotebookNode) -> NotebookNode:
    """Return a notebook without what differs between runs and machines; cells get their number as identifier."""
    cells = []
    for number, cell in enumerate(notebook.cells, 1):
        kept = NotebookNode(cell_type=cell.cell_type, id=f"{number:02d}", metadata={}, source=cell.source.strip())
        if cell.cell_type == "code":
            kept |= {"execution_count": cell.execution_count, "outputs": _outputs(cell.outputs)}
        cells.append(kept)
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return NotebookNode(cells=cells, metadata=metadata, nbformat=4, nbformat_minor=5)


def _outputs(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Return outputs without metadata; what is printed comes in pieces of any size, which are joined."""
    kept: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and kept and kept[-1].get("name") == output.name:
            kept[-1].text += output.text
        elif output.output_type == "stream":
            kept.append(NotebookNode(output_type="stream", name=output.name, text=output.text))
        else:
            kept.append(NotebookNode(output, metadata={}))
            if "image/png" in kept[-1].get("data", {}):
                kept[-1].data["image/png"] = _smaller(kept[-1].data["image/png"])
    return kept


def _smaller(image: str) -> str:
    """Return a PNG image in base64 with at most 256 colours, unless it is small as it is."""
    given, out = base64.b64decode(image), io.BytesIO()
    Image.open(io.BytesIO(given)).convert("RGB").quantize(256).save(out, "PNG", optimize=True)
    return base64.b64encode(min(given, out.getvalue(), key=len)).decode()


def refusals(notebook: NotebookNode) -> list[str]:
    """Return what a stored notebook must not have, one line for each finding, none for a notebook as it should be."""
    findings = []
    for number, cell in enumerate(notebook.cells, 1):
        texts = [cell.source]
        for output in cell.get("outputs", []):
            if output.output_type == "error" or output.get("name") == "stderr":
                findings.append(f"cell {number} writes to standard error: {output.get('text', output.get('evalue'))}")
            data = {kind: text for kind, text in output.get("data", {}).items() if kind.startswith("text/")}
            texts += [output.get("text", ""), *data.values()]
            size = len(base64.b64decode(output.get("data", {}).get("image/png", "")))
            if size > LARGEST_IMAGE:
                findings.append(f"cell {number} has an image of {size:,} bytes, more than {LARGEST_IMAGE:,}")
        findings += [f"cell {number} has {match[0]!r}" for text in texts for match in LOCAL.finditer(text)]
    return findings


def main(names: list[str]) -> None:
    """Execute the notebooks with these names, or all, and store their outputs.

    Raises:
        SystemExit: without the public data sets, for an unknown name, or if a notebook is refused.
    """
    if not Path(os.environ.get("CROWDPPL_DATA") or "-").is_dir():
        raise SystemExit(
            "CROWDPPL_DATA must name the folder of public data sets: stored outputs are those of real data"
        )
    unknown = set(names) - {path.stem for path in NOTEBOOKS}
    if unknown:
        raise SystemExit(f"no notebook {', '.join(sorted(unknown))}; there are {', '.join(p.stem for p in NOTEBOOKS)}")
    for path in NOTEBOOKS:
        if names and path.stem not in names:
            continue
        start = time.perf_counter()
        notebook = clean(execute(path))
        if findings := refusals(notebook):
            raise SystemExit("\n".join([f"{path.name} is not stored:", *findings]))
        nbformat.write(notebook, path)
        print(f"{path.name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
