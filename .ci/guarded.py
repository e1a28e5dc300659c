"""Run the long suites: those parts whose guarded files have changed since they last passed, or all of them.

``guarded.py slow`` runs the slow tests, ``guarded.py lowest`` the tests with the lowest versions. Parts that have passed on the
files as they are, and the tests that take longest, run with ``--all`` only. ``passed.json``, which is committed, records passes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path(__file__).with_name("passed.json")
# Of the readers of files, those that annotations are read with whatever the tool; tests/test_guarded.py checks the list.
READERS = (
    "__init__",
    "arrow",
    "file_kinds",
    "open_quotes",
    "opening",
    "parquet",
    "repeated_headers",
    "table_kinds",
    "spreadsheets",
    "streams",
    "tables",
    "worker_columns",
    "worker_pairs",
)
# What models and engines are, and are computed with.
ENGINES = [
    "constraints.txt",
    "models",
    "crowdppl/*.py",
    *(
        f"crowdppl/{name}"
        for name in ("acquisition", "arguments", "files", "isolation", "kernels", "model", "posterior", "inference")
    ),
    "crowdppl/data/*.py",
    "crowdppl/data/synthetic",
    "crowdppl/data/table",
    *(f"crowdppl/data/readers/{name}.py" for name in READERS),
    "tests/catalog.py",
    "tests/conftest.py",
    "tests/shared.py",
    *(
        f"tests/{name}.py"
        for name in (
            "counterfeit",
            "crowds",
            "forked",
            "number_crowds",
            "plain",
            "token_crowds",
            "user_densities",
            "user_models",
        )
    ),
]
# What is computed of results, and of judges.
CRITICISM = [*ENGINES, "crowdppl/criticism"]
FITS = [*CRITICISM, "crowdppl/learning", "tests/test_devices.py"]
COMPUTATION = [*CRITICISM, "crowdppl/data", "crowdppl/learning", "crowdppl/judges", "tests/judge_files.py"]
# The whole library: what commands, notebooks and other packages touch.
LIBRARY = [
    "constraints.txt",
    "pyproject.toml",
    "constraints-lowest.txt",
    "models",
    "notebooks",
    "crowdppl",
    "tests/*.py",
]
# What the code in the documentation is.
PAGES = ["docs", "README.md", "CONTRIBUTING.md"]
DOCS_TESTS = "tests/test_docs.py"
SLOW = ["-m", "slow and not longest", "-n", "2", "--dist", "worksteal"]
# Tests of computations that run commands or write reports, too: they are a part of their own, which guards the whole library.
OF_COMMANDS = [
    *(f"tests/criticism/{name}.py" for name in ("test_earlier_result", "test_mean_squares", "test_perspectives")),
    "tests/inference/streaming/test_streaming.py",
    *(
        f"tests/inference/{name}.py"
        for name in ("test_convergence", "test_options", "test_pyro_program", "test_update", "test_workers_alike")
    ),
    *(f"tests/judges/{name}.py" for name in ("test_criteria", "test_human_columns", "test_more_tools")),
    "tests/model/test_other_rates.py",
    "tests/models/test_grades_by_criteria.py",
]


def without_commands(*folders: str) -> list[str]:
    """Return the files of tests in some folders but those."""
    paths = (path for folder in folders for path in (ROOT / "tests" / folder).rglob("test_*.py"))
    return sorted({path.relative_to(ROOT).as_posix() for path in paths} - {*OF_COMMANDS})


# The tests of each part, which are among its guarded files.
SLOW_PARTS = {
    "criticism": without_commands("criticism"),
    "commands": OF_COMMANDS,
    "oracle": ["tests/test_oracle.py"],
    "inference": without_commands("inference"),
    "models": without_commands("model", "models", "kernels"),
    "judges": without_commands("learning", "judges"),
    "others": [
        "tests/cli",
        "tests/crowdkit",
        "tests/data",
        "tests/export",
        "tests/posterior",
        "tests/report",
        "tests/metrics",
    ],
    "docs": [DOCS_TESTS],
    "top": sorted(
        {f"tests/{path.name}" for path in (ROOT / "tests").glob("test_*.py")} - {"tests/test_oracle.py", DOCS_TESTS}
    ),
}
# What old packages use of newer ones may be deprecated there: their warnings are not ours.
LOWEST = ["-m", "not slow", "-n", "2", "-W", "ignore::DeprecationWarning"]
LOWEST_PARTS = {
    "all": [
        *(f"tests/{name}" for name in ("data", "export", "crowdkit", "cli", "test_plots.py", "test_packaging.py")),
        "tests/posterior/test_posterior.py",
        *(f"tests/inference/{name}.py" for name in ("test_em", "test_checkpoint")),
    ],
    "commands": [f"tests/{name}" for name in ("data", "export", "cli", "test_plots.py")],
}
# Simulation-based calibration at length: run at night, by ``--all``.
NIGHT = ["-m", "slow"]
# Commands take a second each: with the lowest versions, too, they are run among the slow tests. The tests of a new model's
# template are those of the repository, which the pinned versions pass without warnings.
FURTHER = {"lowest: commands": ["-m", "slow", "--deselect", "tests/cli/test_new_model.py"]}
SUITES = {"slow": (SLOW, SLOW_PARTS), "lowest": (LOWEST, LOWEST_PARTS)}
# Files of parts that guard computations only; the others guard the whole library.
COMPUTED = {
    "slow: criticism": CRITICISM,
    "slow: oracle": ENGINES,
    "slow: inference": FITS,
    "slow: models": CRITICISM,
    "slow: judges": COMPUTATION,
}
# Status of pytest where tests failed, and where no test of a part is of this kind.
FAILED, NOTHING_RUN = 1, 5


def digest(patterns: list[str]) -> str:
    """Return the SHA-256 of all files that some patterns name, folders included, with their names."""
    paths = {path for pattern in patterns for place in ROOT.glob(pattern) for path in (place, *place.rglob("*"))}
    files = sorted(path for path in paths if path.is_file() and not {"__pycache__", "binaries"} & {*path.parts})
    together = hashlib.sha256()
    for path in files:
        together.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        together.update(hashlib.sha256(path.read_bytes()).digest())
    return together.hexdigest()


def recorded() -> dict[str, str]:
    """Return the digests of the files on which parts have passed."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def main() -> int:
    """Run the parts of a suite, record those that pass, and return the first status of one that does not.

    Parts with the same options are run together, since each run of pytest imports and collects for half a minute.
    """
    suite = sys.argv[1]
    options, parts = SUITES[suite]
    together: dict[tuple[str, ...], dict[str, str]] = {}
    for name, tests in parts.items():
        key = f"{suite}: {name}"
        now = digest([*COMPUTED.get(key, LIBRARY), *(PAGES if DOCS_TESTS in tests else []), *tests])
        if "--all" not in sys.argv and recorded().get(key) == now:
            sys.stdout.write(f"{key}: passed on these files; not run again\n")
            continue
        further = NIGHT if suite == "slow" and "--all" in sys.argv else FURTHER.get(key, [])
        together.setdefault((*options, *further), {})[name] = now
    for chosen, names in together.items():
        sys.stdout.write(f"{suite}: {', '.join(names)}: run\n")
        sys.stdout.flush()
        existing = (test for name in names for test in parts[name] if (ROOT / test).exists())
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            # This form of the report names the file of each test.
            reporting = [f"--junitxml={report}", "-o", "junit_family=xunit1"]
            command = [sys.executable, "-m", "pytest", *chosen, *reporting, *existing]
            status = subprocess.run(command, cwd=ROOT, check=False).returncode
            if status not in (0, FAILED, NOTHING_RUN):
                return status
            failed = failures(report)
        if "CROWDPPL_DATA" in os.environ:  # without it tests of public data were skipped: not a pass to be recorded
            whole = {
                f"{suite}: {name}": now
                for name, now in names.items()
                if not any(file == test or file.startswith(f"{test}/") for file in failed for test in parts[name])
            }
            RECORD.write_text(json.dumps(recorded() | whole, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        if status == FAILED:
            return status
    return 0


def failures(report: Path) -> set[str]:
    """Return the files with a test that failed, or could not be run, by a report of pytest."""
    cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    return {
        case.get("file", "") for case in cases if case.find("failure") is not None or case.find("error") is not None
    }


if __name__ == "__main__":
    sys.exit(main())
