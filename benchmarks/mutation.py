"""Mutation testing: a random sample of mutants of the models and engines, and the share that the fast tests kill.

Works in a copy of the repository, with mutmut; writes docs/benchmarks/mutation.md. Takes half an hour on two cores.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import table, write

ROOT = Path(__file__).parents[1]
INFERENCE = {
    "": ("draws", "evaluate", "sampling"),
    "backends/": ("choose", "evaluation", "expectation", "samplers"),
    "dependence/": ("design_effect",),
    "engines/": (
        "anderson",
        "em",
        "em_loop",
        "em_state",
        "em_stochastic",
        "gibbs",
        "guides",
        "m_step",
        "nuts",
        "squarem",
        "svi",
        "unconstrained",
    ),
}
MODULES = [f"inference/{folder}{name}.py" for folder, names in INFERENCE.items() for name in names]
FILES = ["models/*", "model/*", "kernels/ops.py", *MODULES]
TESTS = [
    "tests/test_oracle.py",
    "tests/inference/test_em.py",
    "tests/inference/test_sampling.py",
    "tests/inference/test_metamorphic.py",
    "tests/inference/test_design_effect.py",
    "tests/data/test_features.py",
    "tests/model",
    "tests/models",
]
SETTINGS = f"""
[tool.mutmut]
source_paths = ["crowdppl"]
only_mutate = {[f"crowdppl/{name}" for name in FILES]}
also_copy = ["README.md", "docs", "benchmarks", "models", "constraints.txt", "Makefile", "notebooks"]
pytest_add_cli_args = ["-m", "not slow", "-p", "no:cacheprovider"]
pytest_add_cli_args_test_selection = {TESTS}
timeout_constant = 60.0
timeout_multiplier = 10.0
"""


def mutmut(place: Path, *words: str) -> str:
    """Run mutmut in the copy and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(Path(sys.executable).parent / "mutmut"), *words]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False).stdout


def results(place: Path) -> dict[str, str]:
    """Return the state of each mutant that was not killed, by name."""
    lines = [line.strip().rsplit(": ", 1) for line in mutmut(place, "results").splitlines() if ": " in line]
    return {name: state for name, state in lines if "__mutmut_" in name}


def main() -> None:
    """Copy, mutate, sample, run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=400, help="mutants to try [400]")
    parser.add_argument("--seed", type=int, default=0, help="of the sample [0]")
    parser.add_argument("--quick", action="store_true", help="ten mutants; writes nothing")
    parser.add_argument(
        "--out", type=Path, default=Path("docs/benchmarks"), help="folder for the table [docs/benchmarks]"
    )
    options = parser.parse_args()
    missing = [name for name in FILES if not any((ROOT / "crowdppl").glob(name))]
    if missing:  # mutmut passes over them without a word
        parser.error(f"no files {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "copy"
        keep = shutil.ignore_patterns(".git", ".venv", "build", "*.egg-info", "demo-results", "__pycache__")
        # The link to models/ becomes a folder, since all mutated files must be below crowdppl/.
        shutil.copytree(ROOT, place, ignore=keep)
        settings = (
            (place / "pyproject.toml")
            .read_text(encoding="utf-8")
            .replace('filterwarnings = [\n    "error",', "filterwarnings = [")
        )
        (place / "pyproject.toml").write_text(settings + SETTINGS, encoding="utf-8")
        mutmut(place, "run", "crowdppl.inference.engines.unconstrained.x_is_simplex__mutmut_1", "--max-children", "2")
        names = sorted(name for name, state in results(place).items() if state == "not checked")
        sample = random.Random(options.seed).sample(names, min(10 if options.quick else options.sample, len(names)))
        mutmut(place, "run", *sample, "--max-children", "2")
        left = results(place)
        states = {name: left.get(name, "killed") for name in sample}
        shown = {name: mutmut(place, "show", name) for name, state in states.items() if state != "killed"}
    count = collections.Counter(states.values())
    tried = len(sample) - count["not checked"]
    killed = count["killed"] + count["timeout"]
    by_file = collections.defaultdict(list)
    for name, state in states.items():
        if state != "not checked":
            by_file[name.rsplit(".", 1)[0].removeprefix("crowdppl.")].append(state in ("killed", "timeout"))
    rows = [[file, len(hits), f"{sum(hits) / len(hits):.0%}"] for file, hits in sorted(by_file.items())]
    error = (killed / tried * (1 - killed / tried) / tried) ** 0.5
    changes = []
    for name, text in shown.items():
        new = [line[1:].strip() for line in text.splitlines() if line.startswith("+ ")]
        changes.append(f"- {name.rsplit('.', 1)[0].removeprefix('crowdppl.')}: `{new[0][:110] if new else '?'}`")
    body = f"""
`make mutation`: mutmut makes one change in a copy of the models and engines, and their fast tests run until one fails. Of a
random sample of {tried} of {len(names):,} mutants, the tests killed **{killed / tried:.1%}** (standard error {error:.1%}).

{table(["file", "tried", "killed"], rows)}

The changed line of each surviving mutant. Many have no visible effect on a CPU (`device=None`, `float("INF")`), or change
only the initial values of EM.

{chr(10).join(sorted(changes))}
"""
    write("mutation", "Mutation testing", body, {"states": count, "tried": tried, "killed": killed}, options)


if __name__ == "__main__":
    main()
