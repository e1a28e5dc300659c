"""Which of the long suites must run: those whose guarded files have changed since they last passed.

``guarded.py slow`` exits with 0 if the slow tests have passed on the files as they are, otherwise with 1. ``make test-slow`` and
``make test-lowest`` record a pass in ``passed.json``, which is committed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path(__file__).with_name("passed.json")
# What each suite guards: models, engines and what is computed from them; what touches other packages.
GUARDED = {
    "slow": [
        "constraints.txt",
        "models",
        *(
            f"crowdppl/{name}"
            for name in ("kernels", "model", "posterior", "inference", "criticism", "learning", "judges")
        ),
        "tests/*.py",
        *(f"tests/{name}" for name in ("criticism", "inference", "judges", "kernels", "learning", "model", "models")),
    ],
    "lowest": [
        "pyproject.toml",
        "constraints-lowest.txt",
        *(f"crowdppl/{name}" for name in ("cli", "crowdkit", "data", "export", "files", "posterior", "report")),
        "crowdppl/*.py",
        "tests/*.py",
        *(f"tests/{name}" for name in ("cli", "crowdkit", "data", "export", "posterior")),
    ],
}


def digest(patterns: list[str]) -> str:
    """Return the SHA-256 of all files that some patterns name, folders included, with their names."""
    paths = {path for pattern in patterns for place in ROOT.glob(pattern) for path in (place, *place.rglob("*"))}
    files = sorted(path for path in paths if path.is_file() and "__pycache__" not in path.parts)
    together = hashlib.sha256()
    for path in files:
        together.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        together.update(hashlib.sha256(path.read_bytes()).digest())
    return together.hexdigest()


def main() -> int:
    """Compare with the record, or add to it."""
    name = sys.argv[-1]
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    now = digest(GUARDED[name])
    if "--passed" in sys.argv:
        RECORD.write_text(json.dumps({**known, name: now}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    same = known.get(name) == now
    sys.stdout.write(f"{name}: {'passed on these files; not run again' if same else 'the files have changed; run'}\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
