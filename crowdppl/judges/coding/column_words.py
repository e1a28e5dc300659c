"""What the name of a column says of its content, by the words in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Words of columns of labels; of people or groups of them; of measurements; of identifiers and texts.
OF_LABELS = _set(
    "human gold golden truth reference rating rate grade verdict score label labels annotation opinion decision choice "
    "winner preference preferred correct ok pass passed expert"
)
OF_PEOPLE = _set(
    "rater raters annotator annotators labeler labeller user users reviewer worker workers shift group team site person "
    "people coder assessor grader evaluator author editor batch split fold"
)
OF_MEASURES = _set(
    "second seconds sec secs minute minutes min mins hour hours ms time duration length len words word tokens token chars "
    "characters count counts confidence conf certainty difficulty age date day month year week weight cost price rank "
    "order position page turn round probability prob split fold batch size version"
)
OF_ITEMS = _set(
    "id ids qid uid item question sample example case doc document task prompt image text instance query input problem "
    "trace run conversation dialogue pair row key index idx response output answer comment reason note notes"
)


def words_of(column: Any) -> set[str]:
    """Return the words in the name of a column, in lower case."""
    return set(_spelled(column))


def last_word(column: Any) -> str:
    """Return the last word in the name of a column, blank without one."""
    return next(reversed(_spelled(column)), "")


def _spelled(column: Any) -> list[str]:
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(column))
    return re.findall(r"[^\W\d_]+", apart.lower())


def first_of_two(columns: Sequence[Any]) -> Any:
    """Return the first of two columns such as ``model_a`` and ``model_b``, ``None`` if their names do not tell."""
    for ends in (("a", "b"), ("1", "2"), ("first", "second"), ("left", "right")):
        for column, other in (columns, columns[::-1]):
            stem = str(column).lower().removesuffix(ends[0])
            if str(column).lower() != stem and str(other).lower() == stem + ends[1]:
                return column
    return None
