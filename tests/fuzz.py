"""Damage exports at random for a fixed time: read, or refused by the library's own exception, never another. `make fuzz`."""

import argparse
import random
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

from data.readers.test_formats import GOOD, WIDE

from crowdppl import CrowdpplError, read

SIGNS = [
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b":",
    b",",
    b"\t",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b"\\u0000",
    b"null",
    b"1e999",
    b"-1",
    b"NaN",
    "é".encode(),
]
FORMATS = [None, None, None, "wide", "mace", "soft", "toloka", "mturk", "appen", "prodigy", "argilla", "sagemaker"]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Insert, take out, repeat or overwrite a few pieces."""
    for _ in range(rng.randint(1, 8)):
        a, b = sorted(rng.randint(0, len(content)) for _ in range(2))
        b = min(b, a + rng.choice([1, 4, 40, 400]))
        kind = rng.randrange(4)
        if kind == 0:
            content = content[:a] + rng.choice(SIGNS) + content[a:]
        elif kind == 1:
            content = content[:a] + content[b:]
        elif kind == 2:
            content = content[:b] + content[a:b] * rng.randint(1, 3) + content[b:]
        else:
            content = content[:a] + bytes(rng.randrange(256) for _ in range(min(b - a, 4))) + content[b:]
    return content


def main() -> int:
    """Go on until the time is over or something breaks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    seeds = [(entry[1].encode(), entry[2]) for entry in GOOD] + [(content.encode(), "w.csv") for content, _ in WIDE]
    began, tried, refused = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while time.monotonic() - began < options.seconds:
            content, name = rng.choice(seeds)
            content = damaged(content, rng)
            path = Path(folder) / name
            path.write_bytes(content)
            tried += 1
            try:
                read(path, format=rng.choice(FORMATS))
            except CrowdpplError as error:
                refused += 1
                if "\n" in str(error):
                    print("more than one line:", repr(str(error)), repr(content))
                    return 1
            except Exception:
                traceback.print_exc()
                print("seed", options.seed, "after", tried, "files:", name, repr(content))
                return 1
    print(f"{tried:,} damaged files: {refused:,} refused in one line, {tried - refused:,} read")
    return 0


if __name__ == "__main__":
    sys.exit(main())
