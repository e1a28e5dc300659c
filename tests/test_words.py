"""One term for one thing: terms that this project replaced are in no tracked file, in the sense named beside them.

``python tests/test_words.py PREFIX...`` lists them below some paths, ``UNFINISHED`` ones included.
"""

import ast
import bisect
import functools
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".py", ".md", ".html", ".js", ".css", ".ipynb", ".toml", ".yaml", ".yml", ".cff"}

# Prefixes of paths that are not searched.
UNFINISHED: tuple[str, ...] = ()

# What is searched for in texts, and what to write. Capitals matter only after (?-i:. Lines are joined, without the signs of
# comments.
TEXTS = {
    r"\bjudge?ments?\b": "annotation",
    r"\bklass\b": "true_label",
    r"sel\([^)]*\banswer=": "given_label",
    r"\bimaginary\b": "pseudo-counts, pseudo-items",
    r"\berr(s|ed|ing)? together\b": "correlated errors",
    r"\bhonest(y|ly)\b|\bhonest[-_ ](interval|posterior|uncertain|probabilit|result|estimate|band)\w*"
    r"|\b(how|is|are) honest\b": "calibrated, calibration",
    r"\bas sure as (it|they) should\b": "calibrated",
    r"(?-i:\*\*Mind\b|\bMind (the|that|you)\b|\bMind:)": "Note",
    r"\bwhere not given\b|[,;] if not given\b|\bunless given\b": "Defaults to ...",
    r"\basked for(:| ?\|| within\b| \d)": "target; in user documentation, the figure and its bound",
    r"\bevidence\[|\bevidence (of|for) (an|each|every|all|the) items?\b|\bitem'?s'? evidence\b|\bevidence (is )?divided\b"
    r"|\b(as|compute|compares?) evidence,|\bthe evidence (observed|and the item|by)\b|\bsummed as evidence\b": "log-likelihood",
    r"\bleaving[- ]out\b(?! (the|those|a|an|any|what|who|that|items?|workers?|rows?)\b)": "cross-validation",
    r"\btrap_score\b|\btrap(ping)? (set|question|item|score)s?\b": "gold questions, gold_accuracy",
    r"--forget\b|`forget`|\bforget=": "step_size_exponent",
    r"\bleap(s|ed|ing)?\b(?! (year|day|second))": "SQUAREM extrapolation",
    r"(?<!gradient )(?<!coordinate )\bascents?\b|(?<!hill )(?<!hill-)\bclimb(s|ed|ing)?\b": "EM loop, EM run",
    r"\bexponential race\b": "Gumbel-max sampling",
    r"\b(one|process|who|whoever|which|whichever) (that )?leads\b|\b0 leads\b|\bof them leads\b": "rank 0",
    r"\bone that helps\b|\bothers help\b": "other ranks",
    r"\bmoments? (of (time|each|annotations?)|and (a )?durations?)\b|\bannotation's moment\b|\bwith a moment\b"
    r"|\b(return|read|two|some|not a) moments?\b|\bdef moments\b": "timestamps",
    r"(?<!SIMD )(?<!vector )\bregisters\b": "SIMD vectors",
    r"[\"'`]contrary[\"'`]|\bcontrary (one|worker|annotator|crowd)s?\b|\b(worker|annotator)s? (\w+ ){0,2}contrary\b"
    r"|\bcontrary_\w+|\bdef contrary\b|(?-i:\bCONTRARY\b)": "adversarial; random and constant for other verdicts",
    r"\btaught\b|\blessons?\b": "classifier update",
    r"\.(cells|singles)\(|\bdef (cells|singles)\b|\.owner\b|\bowner=|`(cells|singles|owner)\b": "item_label_cells, "
    "per_annotation, parent_item",
    r"`(lean|variety|knows)`|`right`, `wrong`|\b(lean|variety)=": "diagonal_bias, difficulty_scale, prior_correct, ...",
    r"\bshare_right\b|[\"`]bits[\"`]": "share_correct, information",
    r"\bposterior\.how\b|\bself\.how\b": "interval_method",
    r"\bright (answer|label|annotation)s?\b": "correct",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\blend(s|ing)?\b|\blent\b": "borrow strength; the name of what is passed on",
    r"\b(is|are|was|were|be|been) told\b(?! (apart|from)\b)": "reported, stated, passed",
    r"\bneeds? nothing done before\b|\bwhat there is\b|\bbeside the papers\b|\b(not|is|are) to be had\b": "plain words",
    r"\bto go by\b|\bwhat .{0,30}\bgoes by\b|\blook(s|ed|ing)? (it|them) over\b": "plain words",
}

# Names of functions, classes, arguments, variables, attributes, and keywords of calls.
NAMES = {
    "told": "the name of the thing",
    "found": "the name of the thing",
    "made": "the name of the thing",
    "judgement": "annotation",
    "judgements": "annotations",
    "Judgements": "Records, Annotations",
    "klass": "true_label",
    "imaginary": "pseudo_counts",
    "evidence": "log_likelihood",
    "honest_intervals": "calibrated_intervals",
    "Climb": "the EM loop",
    "climb": "the EM loop",
    "Way": "EMState",
    "wander": "a plain EM run",
    "ascend": "the EM loop",
    "ascent": "the EM loop",
    "ascents": "EM runs",
    "leap": "extrapolation",
    "Races": "Gumbel-max sampling",
    "races": "Gumbel-max sampling",
    "winners": "samples",
    "settle": "accumulate",
    "let_go": "release",
    "leads": "rank 0",
    "helps": "other ranks",
    "trap_score": "gold_accuracy",
    "forget": "step_size_exponent",
    "lesson": "classifier update",
    "taught": "classifier update",
    "singles": "per_annotation",
    "owner": "parent_item",
    "lean": "diagonal_bias",
    "variety": "difficulty_scale",
}


@functools.cache
def tracked() -> list[Path]:
    """Return the text files under version control; not this one, which names the words."""
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not in a git checkout")
    paths = [ROOT / name for name in listing.split("\0") if name]
    texts = [path for path in paths if path.suffix in SUFFIXES or path.name == "Makefile"]
    return [path for path in texts if path.is_file() and path != Path(__file__).resolve()]


def finished(paths: list[Path]) -> list[Path]:
    return [path for path in paths if not path.relative_to(ROOT).as_posix().startswith(UNFINISHED)]


@functools.cache
def joined(text: str) -> tuple[str, list[int]]:
    """Return all lines in one, without the signs of comments, and where each starts."""
    lines = [line.strip().removeprefix("#:").removeprefix("#").strip() for line in text.splitlines()]
    return " ".join(lines), list(itertools.accumulate((len(line) + 1 for line in lines), initial=0))


@functools.cache
def content(path: Path) -> str:
    """Return what a file has, which is read once: each pattern is looked for in all files."""
    return path.read_text(encoding="utf-8")


def in_text(text: str, pattern: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each match."""
    whole, starts = joined(text)
    for match in re.finditer(pattern, whole, re.IGNORECASE):
        yield bisect.bisect(starts, match.start()), match.group()


def names_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of all that a module defines or assigns, and of keywords that it passes."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.keyword(arg=str(name)) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name


def places_of_texts(paths: list[Path], pattern: str) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {words}" for path in paths for line, words in in_text(content(path), pattern)
    ]


def places_of_names(paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {name}, write {NAMES[name]}"
        for path in paths
        if path.suffix == ".py"
        for line, name in names_in(path.read_text(encoding="utf-8"))
        if name in NAMES
    ]


@pytest.mark.parametrize("pattern", TEXTS, ids=lambda pattern: TEXTS[pattern][:40])
def test_texts(pattern):
    places = places_of_texts(finished(tracked()), pattern)
    assert not places, f"write {TEXTS[pattern]}:\n" + "\n".join(places)


def test_names():
    places = places_of_names(finished(tracked()))
    assert not places, "\n".join(places)


@pytest.mark.parametrize(
    ("pattern", "text", "count"),
    [
        ("imaginary", "four imaginary answers", 1),
        ("together", "annotations that err\n    # together", 1),
        ("honest", "Honest intervals, how honest; 12 honest workers, 'honest 3'", 2),
        ("Mind", "**Mind.** of one mind", 1),
        ("asked for", "20 (asked for: 10); those asked for", 1),
        ("leaving", "predictive checks, leaving out, and leaving out those who", 1),
        ("leap", "a leap year", 0),
        ("moments?", "the last moment; a moment of each annotation", 1),
        ("told", "they are told apart; that is told", 1),
    ],
)
def test_ordinary_senses_are_allowed(pattern, text, count):
    assert sum(len(list(in_text(text, p))) for p in TEXTS if pattern in p) == count


if __name__ == "__main__":
    below = [path for path in tracked() if path.relative_to(ROOT).as_posix().startswith(tuple(sys.argv[1:]) or "")]
    for words, instead in TEXTS.items():
        for place in places_of_texts(below, words):
            print(f"{place}, write {instead}")
    print(*places_of_names(below), sep="\n")
