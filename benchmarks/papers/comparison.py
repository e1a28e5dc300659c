"""The rule by which ``docs/papers.md`` compares figures of the papers with ours, and the tables of that page."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import records
from common import table
from scipy.stats import norm
from scipy.stats import t as student

DOCS = Path(__file__).parents[2] / "docs"
PROGRAM = ", as the program has it"
CLOSE = 2.0  # percentage points
RELATIVE = 0.15  # of the paper's figure, for divergences and entropies
CONFIDENCE = 0.95
FEW = 5  # with fewer seeds a row is marked
REPRODUCED, BETTER, WORSE, UNDECIDED, ABSENT = "reproduced", "better", "not reproduced", "undecided", "data not at hand"
VERDICTS = (REPRODUCED, BETTER, WORSE, UNDECIDED, ABSENT)

RULE = f"""\
The difference of ours from the paper's figure has a standard error: of our mean, the standard deviation over seeds divided by
the root of their number, and of the paper's figure, its printed ± divided by the root of the number of runs, or, where it prints
none, or one of runs on one sample, our standard deviation as that of its one run (its one crowd, one sample); where it is a mean
over runs on the same data, our standard deviation divided by the root of their number. The column *difference* has the difference
and half the width of its {CONFIDENCE:.0%} interval, by Student's distribution with the number of our seeds. The tolerance is
{CLOSE:g} percentage points for accuracies and shares, {RELATIVE:.0%} of the paper's figure for divergences and entropies.

- **{REPRODUCED}**: the difference is within the tolerance, and its interval within twice the tolerance;
- **{BETTER}**, **{WORSE}**: the difference is above the tolerance and its interval excludes zero; ours is better (more accurate,
  of lower divergence) or worse;
- **{UNDECIDED}**: the seeds do not tell: neither holds. So is a figure of one seed that depends on a draw. A dagger marks rows
  that any number of seeds here would leave undecided: the paper's figure is of so few runs that its own standard error is too
  wide;
- **{ABSENT}**: the experiment needs data that are not at hand. Figures on other data, if any, stand in its place.

A statement that is a picture or an order in the paper is *{REPRODUCED}* where our figures agree with it. Rows with fewer than
{FEW} seeds have an asterisk. *Stored* figures are not in print: they are in the results that the authors published with their
program; a *ratio* or a *mean* is one of the paper's figures. A numbered reason follows the table where a figure differs."""


def stored(name: str, *keys: str) -> Any:
    """Return stored figures of an experiment, None where there are none."""
    story = records.load(name, DOCS.parent / records.FIGURES)
    if story is None:
        return missing(name)
    figures = story["results"]
    for key in keys:
        if not isinstance(figures, dict) or key not in figures:
            return missing(" / ".join((name, *keys)))
        figures = figures[key]
    return figures


def missing(name: str) -> None:
    """Say on the screen that figures are not stored."""
    print(f"not stored: {name}", file=sys.stderr)


def per_cent(values: Sequence[float] | None) -> list[float] | None:
    """Return shares as percentages."""
    return None if values is None else [100 * v for v in values]


@dataclass(frozen=True)
class Stored:
    """Mean and standard deviation over seeds of an experiment that does not store each of them, in per cent."""

    mean: float
    spread: float
    seeds: int


@dataclass(frozen=True)
class Row:
    """A figure of a paper and ours, in per cent.

    Attributes:
        what: what is measured.
        paper: the paper's figure; None where it prints none.
        ours: one figure for each seed, or their mean and spread; None where it is not measured here.
        reason: of the difference; required where it is better or not reproduced, and where the paper's data are not at hand.
        at_hand: whether the experiment is on the paper's own data, or drawn as the paper says.
        lower: whether a lower figure is better; None: neither is.
        relative: whether the tolerance is relative to the paper's figure.
        error: standard error of the paper's figure; None: our standard deviation divided by the root of ``runs``.
        runs: number of runs on the same data of which the paper's figure is the mean.
        exact: whether nothing in our figure depends on a draw.
        source: of the paper's figure: ``print``; ``stored`` by its authors and not in print; or a ``ratio`` or ``mean`` of such
    figures.
    """

    what: str
    paper: float | None
    ours: Sequence[float] | Stored | None
    reason: str = ""
    at_hand: bool = True
    lower: bool | None = False
    relative: bool = False
    error: float | None = None
    runs: int = 1
    exact: bool = False
    source: str = "print"

    @property
    def explained(self) -> bool:
        """Whether the reason belongs on the page."""
        return bool(self.reason) and self.verdict != REPRODUCED

    @property
    def figure(self) -> Stored:
        """Mean and standard deviation over seeds, 0 for one seed."""
        assert self.ours is not None
        if isinstance(self.ours, Stored):
            return self.ours
        spread = float(np.std(self.ours, ddof=1)) if len(self.ours) > 1 else 0.0
        return Stored(float(np.mean(self.ours)), spread, len(self.ours))

    @property
    def difference(self) -> tuple[float, float] | None:
        """Ours less the paper's, and half the width of its interval; None where there is nothing to compare."""
        if self.ours is None or self.paper is None or not self.at_hand:
            return None
        ours = self.figure
        error = math.hypot(ours.spread / math.sqrt(ours.seeds), self._error)
        if ours.seeds > 1:
            width = float(student.ppf((1 + CONFIDENCE) / 2, ours.seeds - 1)) * error
        else:
            width = 0.0 if self.exact else math.inf
        return ours.mean - self.paper, width

    @property
    def _error(self) -> float:
        """Standard error of the paper's figure."""
        return self.figure.spread / math.sqrt(self.runs) if self.error is None else self.error

    def _tells(self, difference: float, width: float) -> str:
        """Return the verdict on a difference, half the width of whose interval is ``width``, from the figures alone."""
        tolerance = RELATIVE * abs(self.paper or 0.0) if self.relative else CLOSE
        if abs(difference) <= tolerance and abs(difference) + width <= 2 * tolerance:
            return REPRODUCED
        if abs(difference) <= max(tolerance, width):
            return UNDECIDED
        return BETTER if self.lower is not None and (difference < 0) == self.lower else WORSE

    @property
    def beyond_seeds(self) -> bool:
        """Whether the row is undecided, and any number of seeds of the same mean and spread would leave it so."""
        if self.verdict != UNDECIDED or self.difference is None:
            return False
        return self._tells(self.difference[0], float(norm.ppf((1 + CONFIDENCE) / 2)) * self._error) == UNDECIDED

    @property
    def verdict(self) -> str:
        """The rule of the page.

        Raises:
            ValueError: for a row that needs a reason and has none, or has neither figure.
        """
        if not self.at_hand or self.ours is None:
            if not self.reason:
                raise ValueError(f"{self.what}: say which data are not at hand")
            return ABSENT
        if self.difference is None or self.paper is None:
            raise ValueError(f"{self.what}: there is no figure to compare with")
        difference, width = self.difference
        verdict = self._tells(difference, width)
        if verdict in (BETTER, WORSE) and not self.reason:
            raise ValueError(f"{self.what}: {difference:+.1f} ± {width:.1f} from the paper's figure, without a reason")
        return verdict

    def columns(self) -> list[str]:
        """The row of the table, without its reason."""
        here = "–" if self.ours is None else f"{self.figure.mean:.2f} ± {self.figure.spread:.2f}"
        paper = (
            "–" if self.paper is None else f"{self.paper:g}" + ("" if self.source == "print" else f" ({self.source})")
        )
        seeds = "–" if self.ours is None else marked(self.figure.seeds, self.exact)
        difference = self.difference
        if difference is None:
            apart = "–"
        else:
            apart = f"{difference[0]:+.2f}" + (f" ± {difference[1]:.2f}" if math.isfinite(difference[1]) else "")
            apart += " †" if self.beyond_seeds else ""
        return [self.what, paper, here, seeds, apart, self.verdict]


def marked(seeds: int, exact: bool = False) -> str:
    """Write a number of seeds, with an asterisk where they are few and matter."""
    return f"{seeds}" + (r" \*" if seeds < FEW and not exact else "")


@dataclass(frozen=True)
class Claim:
    """A statement of a paper that is a picture, an order or a property, and what our figures say.

    Attributes:
        what: the statement.
        paper: where the paper has it.
        ours: our figures.
        holds: whether they agree with the statement.
        reason: required where they do not.
        seeds: number of seeds.
        at_hand: as of :class:`Row`.
    """

    what: str
    paper: str
    ours: str
    holds: bool
    reason: str = ""
    seeds: int | None = None
    at_hand: bool = True

    @property
    def explained(self) -> bool:
        """Whether the reason belongs on the page."""
        return bool(self.reason)

    @property
    def verdict(self) -> str:
        """``reproduced`` where the statement holds.

        Raises:
            ValueError: for a statement that does not hold, or is on other data, without a reason.
        """
        if not (self.holds and self.at_hand) and not self.reason:
            raise ValueError(f"{self.what}: a reason is missing")
        return ABSENT if not self.at_hand else REPRODUCED if self.holds else WORSE

    def columns(self) -> list[str]:
        """The row of the table, without its reason."""
        return [self.what, self.paper, self.ours, "–" if self.seeds is None else marked(self.seeds), "–", self.verdict]


@dataclass
class Experiment:
    """A table: its heading, what is measured, and its rows."""

    title: str
    text: str
    rows: list[Row | Claim] = field(default_factory=list)

    def page(self) -> str:
        """Return the heading, the table and the numbered reasons; nothing without rows."""
        if not self.rows:
            return ""
        reasons = list(dict.fromkeys(row.reason for row in self.rows if row.explained))
        lines = [[*row.columns(), f"({reasons.index(row.reason) + 1})" if row.explained else ""] for row in self.rows]
        notes = "\n".join(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))
        header = ["", "paper", "here", "seeds", "difference", "verdict", "reason"]
        return f"### {self.title}\n\n{self.text}\n\n{table(header, lines)}\n" + (f"\n{notes}\n" if notes else "")


def levels(
    names: dict[str, Sequence[float]],
    figures: dict[str, Any] | None,
    by: Sequence[int],
    label: str,
    reasons: dict[str, str],
) -> list[Row | Claim]:
    """Return rows of several methods at several sizes; a method not in ``figures`` has no figures here."""
    rows: list[Row | Claim] = []
    for name, printed in names.items():
        for size, figure in zip(by, printed, strict=True):
            ours = None if figures is None else figures.get(name, {}).get(str(size))
            rows.append(
                Row(f"{name}, {label} = {size:,}", figure, per_cent(ours), reasons.get(name, ""), ours is not None)
            )
    return rows
