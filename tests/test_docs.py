"""The documentation is executed: every Python block, page by page; every link inside the repository leads somewhere."""

import importlib
import inspect
import itertools
import re
import sys
import warnings
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
import torch

import crowdppl

with suppress(ImportError):  # its first import draws from Python's random stream, which no test may touch
    import sklearn.linear_model  # noqa: F401

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]
# Pages whose code takes seconds.
LONG = {
    "building-blocks",
    "conal",
    "crowd-mixture",
    "custom-models",
    "grades",
    "inspection",
    "judged-systems",
    "judges",
    "lia",
    "numbers",
    "pyro-program",
    "raykar",
}


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=[pytest.mark.slow] * (page.stem in LONG)) for page in WITH_CODE]
)
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
    # Pyro's own inference draws from torch's stream, as its users expect.
    own = torch.random.fork_rng(devices=[]) if page.stem in ("pyro-program", "numbers") else nullcontext()
    with warnings.catch_warnings(), own:
        warnings.simplefilter("ignore")
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            exec(compile(block, str(page), "exec"), space)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")  # many open figures are a warning in whatever comes next


def test_custom_model_is_at_most_twenty_lines():
    """The promise: prior, truth and emission of a model of one's own, class line and docstring included."""
    blocks = [b for b in BLOCK.findall((ROOT / "docs/guide/custom-models.md").read_text()) if "class " in b]
    block = blocks[0]  # the second one has a network
    lines = [line for line in block[block.index("class ") :].splitlines() if line.strip()]
    assert len(lines) <= 20


def test_links_lead_somewhere():
    broken = []
    for page in PAGES:
        text = BLOCK.sub("", page.read_text(encoding="utf-8"))  # in code, brackets are no links
        targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
        local = [target for target in targets if not re.match(r"[a-z]+:", target)]
        broken += [f"{page.name}: {target}" for target in local if not (page.parent / target).exists()]
    assert not broken, "\n".join(broken)


def test_tables_have_as_many_cells_in_every_row():
    """Otherwise the site shows text in place of the table."""
    wrong = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).splitlines()
        for before, line in itertools.pairwise(["", *lines]):
            if line[:1] == "|" and before and (before[:1] != "|" or line.count("|") != before.count("|")):
                wrong.append(f"{page.name}: {line}")
    assert not wrong, "\n".join(wrong)


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
    wanted = (
        project["dependencies"] + project["optional-dependencies"]["test"] + project["optional-dependencies"]["docs"]
    )
    names = {re.match(r"[A-Za-z0-9_.-]+", text).group().lower() for text in wanted}
    assert names <= pinned


# The modules whose names users write, in one place; `__all__` says which names.
PUBLIC = (
    "crowdppl",
    "crowdppl.acquisition",
    "crowdppl.aggregate",
    "crowdppl.criticism",
    "crowdppl.criticism.sbc",
    "crowdppl.crowdkit",
    "crowdppl.data.datasets",
    "crowdppl.data.label_sets",
    "crowdppl.data.masks",
    "crowdppl.data.read",
    "crowdppl.data.experiments",
    "crowdppl.data.soft_answers",
    "crowdppl.data.synthetic",
    "crowdppl.export",
    "crowdppl.inference.scale.result",
    "crowdppl.inference.scale.sharded",
    "crowdppl.model.blocks",
    "crowdppl.judges",
    "crowdppl.learning",
    "crowdppl.metrics",
    "crowdppl.inference.scale.streaming",
    "crowdppl.models",
    "crowdppl.plots",
    "crowdppl.posterior.workers",
    "crowdppl.posterior.workers.groups",
    "crowdppl.report",
)


def resolve(path):
    """Return the object at a dotted path."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_every_public_name_is_in_the_reference():
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md"))
    documented = re.findall(r"^::: (\S+)", text, re.MULTILINE)
    assert len(documented) == len(set(documented))
    # A path that is also a module would show the module.
    assert not [path for path in documented if (ROOT / f"{path.replace('.', '/')}.py").exists()]
    objects = {id(resolve(path)) for path in documented}
    for name in PUBLIC:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__ and name[0] != "_"
        ]
        assert public
        missing = [one for one in public if id(getattr(module, one)) not in objects]
        assert not missing, f"{name}: {missing} on no page of docs/reference"


def test_public_modules_are_those_with_names_of_their_own():
    """A module that says what is public is in the reference, unless a module above it hands its names on."""
    said = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in (ROOT / "crowdppl").rglob("*.py")
        if re.search(r"^__all__ = ", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert said - {"crowdppl.arguments", "crowdppl.export.tables", "crowdppl.kernels.passes"} <= set(PUBLIC)


def test_every_page_is_found():
    """In the navigation, which is short enough to read, or from a page of its folder that is in it."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    named = set(re.findall(r"\S+\.md$", navigation, re.MULTILINE))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert named <= pages | {"CONTRIBUTING.md", "CHANGELOG.md"}  # generated by docs/hooks.py
    assert len(named) <= 35
    for page in pages - named:
        folder, _, name = page.rpartition("/")
        home = f"{folder}/index.md"  # or, of a folder without, any of its pages
        above = [home] if home in named else [one for one in named if one.rpartition("/")[0] == folder]
        assert above, f"{page} is not in the navigation"
        linked = [f"]({name}" in (ROOT / "docs" / one).read_text(encoding="utf-8") for one in above]
        assert any(linked), f"{page} is not linked"


def test_every_model_is_two_clicks_from_the_start():
    """The start page links the page of every model, which links its source."""
    from crowdppl.models import CATALOGUE

    start = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    for name, model in CATALOGUE.items():
        assert f"](models/{name}.md)" in start
        page = (ROOT / "docs/models" / f"{name}.md").read_text(encoding="utf-8")
        assert f"](../../models/{Path(inspect.getfile(model)).name})" in page


def rows(text):
    """Return the tables of a page as lists of cells."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_decision_table_cites_what_was_measured():
    """Calibration in the table of models is that of the benchmarks' own figures."""
    from crowdppl.inference.dependence.coverage import measured
    from crowdppl.models import CATALOGUE

    table = {row[0]: row for row in rows((ROOT / "docs/models/index.md").read_text(encoding="utf-8")) if len(row) == 6}
    simulated = {tuple(row[:2]): row[3] for row in rows((ROOT / "docs/benchmarks/sbc.md").read_text(encoding="utf-8"))}
    assert set(CATALOGUE) <= set(table)
    for name in CATALOGUE:
        by = CATALOGUE[name].default_method or "gibbs"
        figures = measured().get(name, {}).get(by, {}).get("default")
        public = f"{figures['share']:.0%}, {figures['accuracy']:.0%}" if figures else "not measured"
        public += " (em)" if figures and by == "em" else ""
        engine = next((one for one in ("gibbs", "nuts", "em") if (name, one) in simulated), "nuts")
        share = simulated.get((name, engine))
        assert table[name][4:] == [public, f"{float(share):.0%} ({engine})" if share else "not measured"], name


def test_table_of_models_cites_the_times_of_labelme():
    names = {
        "raykar": "learning from crowds (AggNet, DL-EM)",
        "crowd-mixture": "CMM",
        "conal": "CoNAL, one true label per item, EM",
        "lia": "LIA (its own networks)",
    }
    table = {
        row[0]: row[3] for row in rows((ROOT / "docs/models/index.md").read_text(encoding="utf-8")) if len(row) == 6
    }
    seconds = {row[0]: row[-1] for row in rows((ROOT / "docs/benchmarks/paper-labelme.md").read_text(encoding="utf-8"))}
    for model, name in names.items():
        assert f"[{seconds[name]} s](../benchmarks/paper-labelme.md)" in table[model]


def test_plate_diagrams_are_those_of_the_programs(monkeypatch):
    """Nodes, plates and edges: ``python docs/plates.py`` draws them anew."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    plates = importlib.import_module("plates")
    drawn = plates.pictures()
    for name, text in drawn.items():
        assert (plates.FOLDER / name).read_text(encoding="utf-8") == text, name
        page = (ROOT / "docs/models" / name).with_suffix(".md").read_text(encoding="utf-8")
        assert f"](../images/plates/{name})" in page
    assert {path.name for path in plates.FOLDER.glob("*.svg")} == set(drawn)


def test_plate_diagram_shows_what_depends_on_what(monkeypatch):
    """The walk of the program, against a model known by heart."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    plates = importlib.import_module("plates")
    from crowdppl.models import DawidSkene

    graph = plates.graph(DawidSkene())
    assert {node.name: node.plate for node in graph.nodes} == {
        "prevalence": None,
        "confusion": "worker",
        "truth": "item",
        "label": "annotation",
    }
    assert set(graph.edges) == {("prevalence", "truth"), ("truth", "label"), ("confusion", "label")}
    assert [node.name for node in graph.nodes if node.observed] == ["label"]
