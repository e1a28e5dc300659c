"""The result of :func:`crowdppl.judges.fit`: posterior draws of the true labels, and tables that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import xarray as xr

from crowdppl import arguments
from crowdppl.arguments import InputPath, OutputFile, PositiveFloat, PositiveInt, Probability, checked
from crowdppl.data.table.identifiers import class_columns
from crowdppl.judges import datatree, views
from crowdppl.judges.model.draws import TruthDraws
from crowdppl.judges.people import errors as of_people
from crowdppl.judges.statements import statements
from crowdppl.judges.tables import (
    alternative,
    drift,
    judge_table,
    panel_table,
    selection,
    several_answers,
    system_table,
)
from crowdppl.judges.tables.panel_table import Panel
from crowdppl.judges.tables.system_table import Target
from crowdppl.posterior import io


class JudgesResult(TruthDraws):
    """Posterior of the true labels of judged items, and of judges, systems and the panel.

    Tables have a row for each judge, system or item, and columns ``..._low`` and ``..._high`` for the ends of credible
    intervals with probability ``level``.
    """

    def __repr__(self) -> str:
        """Return a few lines: the first systems and judges."""
        return views.text(self)

    def _repr_html_(self) -> str:
        """Return the same as HTML, for notebooks."""
        return views.markup(self)

    @cached_property
    def statements(self) -> tuple[str, ...]:
        """What cannot be known from these data, and then the notes on how they were read, in sentences."""
        return (*statements(self, self._drift), *self.notes)

    @cached_property
    def _drift(self) -> pd.DataFrame:
        return drift.drift(self)

    @cached_property
    def tree(self) -> xr.DataTree:
        """The result as an ``xarray.DataTree`` for ArviZ: see :func:`crowdppl.judges.datatree.tree_of`."""
        return datatree.tree_of(self)

    @checked
    def save(self, path: OutputFile) -> Path:
        """Write the result to one NetCDF file, which :func:`crowdppl.judges.load` reads.

        Raises:
            FileError: if the file cannot be written.
        """
        io.write(self.tree, Path(path), "full")
        return Path(path)

    def items(self) -> pd.DataFrame:
        """Return the most probable label of each item, its probability, and the probability of every class."""
        best = self.probability.argmax(1)
        frame = pd.DataFrame({"item": self.verdicts.items})
        if len(self.verdicts.systems):
            frame["system"] = self.system_names
        if self.paired:
            frame["opponent"] = self.opponent_names
        frame["labelled"] = self.labelled
        frame["label"] = self.verdicts.labels[best]
        frame["probability"] = self.probability[np.arange(len(best)), best]
        columns = class_columns("p_", self.verdicts.labels)
        return pd.concat([frame, pd.DataFrame(self.probability, columns=columns)], axis=1)

    def judges(self) -> pd.DataFrame:
        """Return the quality of each judge: see :func:`crowdppl.judges.tables.judge_table.judges`."""
        return judge_table.judges(self)

    def judge_comparisons(self) -> pd.DataFrame:
        """Return the difference of the accuracies of each pair of judges.

        See :func:`crowdppl.judges.tables.judge_table.comparisons`.
        """
        return judge_table.comparisons(self)

    def versions(self) -> pd.DataFrame:
        """Return versions of a judge compared on the items that both saw.

        See :func:`crowdppl.judges.tables.judge_table.versions`.
        """
        return judge_table.versions(self)

    def drift(self) -> pd.DataFrame:
        """Return whether judges have changed between versions and over time: see :func:`crowdppl.judges.tables.drift.drift`."""
        return self._drift.copy()

    @checked
    def alternative_annotators(
        self, *, epsilon: Annotated[float, arguments.number(at_least=0, below=1)] = 0.2, q: Probability = 0.05
    ) -> pd.DataFrame:
        """Test whether judges may take the place of a person: see :func:`crowdppl.judges.alternative_annotators`.

        Args:
            epsilon: what a judge may be worse, since it costs less.
            q: rate of false discoveries.

        Returns:
            A row for each judge; none if people are not named, or fewer than three of them share enough items.
        """
        named = self.human is not None and bool((self.human.annotator >= 0).all())
        human = self.human if named else None
        return (
            alternative.replacements(self.verdicts, human, epsilon, q)
            if human is not None
            else alternative.EMPTY.copy()
        )

    def people(self) -> pd.DataFrame:
        """Return how often each person who labelled items is wrong: see :func:`crowdppl.judges.people.errors.people`."""
        return of_people.people(self)

    @checked
    def systems(self, target: Target = "items") -> pd.DataFrame:
        """Return the uncorrected and the corrected rate of each system: see :func:`crowdppl.judges.tables.system_table.systems`.

        Args:
            target: ``"items"`` for the rate on the judged items, ``"population"`` for that on further questions of their kind.
        """
        return system_table.systems(self, target)

    @checked
    def comparisons(self, target: Target = "items") -> pd.DataFrame:
        """Return the difference of each pair of systems: see :func:`crowdppl.judges.tables.system_table.comparisons`."""
        return system_table.comparisons(self, target)

    @checked
    def pass_at(
        self,
        k: Annotated[int | Sequence[int], arguments.one_of(arguments.whole(1), arguments.several(arguments.whole(1)))]
        | None = None,
        target: Target = "items",
    ) -> pd.DataFrame:
        """Return whether one, or all, of ``k`` answers of a system to a question pass, and what the judges' pick is worth.

        See :func:`crowdppl.judges.tables.several_answers.pass_at`.

        Args:
            k: numbers of answers. Defaults to the powers of 2 up to the largest number of answers of a system to a question.
            target: ``"items"`` for the judged questions, ``"population"`` for further questions of their kind.

        Raises:
            DataError: if no system gave several answers to a question, or none as many as ``k``.
        """
        numbers = [k] if isinstance(k, int) else k
        return several_answers.pass_at(self, numbers, target)

    def panel(self) -> Panel:
        """Return the effective number of judges, the correlation of their errors, and what each adds."""
        return panel_table.panel(self)

    @checked
    def next(self, n: PositiveInt = 10) -> pd.DataFrame:
        """Return the ``n`` items that people should label next: see :func:`crowdppl.judges.tables.selection.choose`."""
        return selection.choose(self, n)

    @checked
    def labels_needed(self, width: PositiveFloat) -> pd.DataFrame:
        """Return how many more human labels bring the intervals of all systems to a width.

        See :func:`crowdppl.judges.tables.selection.needed`.
        """
        return selection.needed(self, width)


@checked
def load(path: InputPath) -> JudgesResult:
    """Read a result that :meth:`JudgesResult.save` has written.

    Raises:
        FileError: if the file is missing, damaged, or not a result of judges.
    """
    return JudgesResult(**datatree.read(Path(path)))
