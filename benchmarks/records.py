"""Figures of the benchmarks: a compressed file for each benchmark, a line of JSON for each record."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

# Folder of the pages, and that of the figures they were written from.
PAGES, FIGURES = Path("docs/benchmarks"), Path("benchmarks/results")


def folder_of(pages: Path) -> Path:
    """Return the folder of the figures behind the pages in a folder: beside them unless these are the pages of the docs."""
    return FIGURES if pages.resolve() == PAGES.resolve() else pages / "results"


def save(name: str, story: dict[str, Any], folder: Path = FIGURES) -> None:
    """Write figures.

    Args:
        name: of the benchmark, and of the file.
        story: what was measured, as ``results``, and where, such as ``machine``.
        folder: of the file.
    """
    results = story["results"]
    pairs = results.items() if isinstance(results, dict) else enumerate(results)
    head = {key: value for key, value in story.items() if key != "results"} | {"named": isinstance(results, dict)}
    lines = [head, *([key, value] for key, value in pairs)]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    folder.mkdir(parents=True, exist_ok=True)
    # Without the time, the same figures are the same bytes.
    (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def load(name: str, folder: Path = FIGURES) -> dict[str, Any] | None:
    """Return figures as :func:`save` was given them; ``None`` where there are none."""
    path = folder / f"{name}.jsonl.gz"
    if not path.is_file():
        return None
    head, *lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    named = head.pop("named")
    return head | {"results": dict(lines) if named else [value for _, value in lines]}
