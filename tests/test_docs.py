"""The documentation is executed: every Python block, page by page; every link inside the repository leads somewhere."""

import re
import warnings
from pathlib import Path

import pytest

import crowdppl

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: p.stem)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Documentation shows usual settings; here chains are cut short, since what is tested is that the words work.
    fit = crowdppl.fit
    short = {"nuts": {"chains": 2, "warmup": 40, "num_samples": 40}, "svi": {"max_iter": 150}}
    monkeypatch.setattr(
        crowdppl,
        "fit",
        lambda *a, **o: fit(*a, **(o | {k: v for k, v in short.get(o.get("method"), {}).items()})),
    )
    space = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            exec(compile(block, str(page), "exec"), space)


def test_custom_model_is_at_most_twenty_lines():
    """The promise: prior, truth and emission of a model of one's own, class line and docstring included."""
    blocks = [b for b in BLOCK.findall((ROOT / "docs/guide/custom-models.md").read_text()) if "class " in b]
    block = blocks[0]  # the second one has a network
    lines = [line for line in block[block.index("class ") :].splitlines() if line.strip()]
    assert len(lines) <= 20


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_links_lead_somewhere(page):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))  # in code, brackets are no links
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), target


def test_every_model_has_a_page():
    from crowdppl.models import CATALOGUE

    for name in CATALOGUE:
        assert (ROOT / "docs" / "models" / f"{name}.md").is_file()


def test_constraints_pin_what_pyproject_asks_for():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {
        line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().splitlines()
    }
    wanted = project["dependencies"] + project["optional-dependencies"]["test"]
    names = {re.match(r"[A-Za-z0-9_.-]+", text).group().lower() for text in wanted}
    assert names <= pinned
