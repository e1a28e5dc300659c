"""Several criteria at once: a result for each, and tables of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import pandas as pd

from crowdppl import arguments
from crowdppl.arguments import Identifier, PositiveFloat, PositiveInt, checked
from crowdppl.data import html
from crowdppl.errors import DataError, OptionError, listed
from crowdppl.judges import views
from crowdppl.judges.fit import fit
from crowdppl.judges.human import HumanLabels
from crowdppl.judges.people.human_columns import labelled, labelled_by_criterion
from crowdppl.judges.result import JudgesResult
from crowdppl.judges.tables.criteria_correlation import correlations
from crowdppl.judges.tables.system_table import Target
from crowdppl.judges.verdicts import Verdicts


class CriteriaResult(Mapping[Any, JudgesResult]):
    """The :class:`JudgesResult` of each criterion, by its name, and tables with a column ``criterion``.

    Each criterion has true labels of its own: nothing that was learned on one is used for another.
    """

    def __init__(self, results: Mapping[Any, JudgesResult]):
        self._results = dict(results)

    def __getitem__(self, criterion: Any) -> JudgesResult:
        """Return the result of a criterion."""
        return self._results[criterion]

    def __iter__(self) -> Iterator[Any]:
        """Return the names of the criteria."""
        return iter(self._results)

    def __len__(self) -> int:
        """Return the number of criteria."""
        return len(self._results)

    def __repr__(self) -> str:
        """Return a few lines on each criterion."""
        return "\n\n".join(f"{name}: {views.text(result)}" for name, result in self.items())

    def _repr_html_(self) -> str:
        """Return the same as HTML, for notebooks."""
        return "".join(html.element("h4", str(name)) + views.markup(result) for name, result in self.items())

    @property
    def statements(self) -> tuple[str, ...]:
        """What cannot be known from these data, by criterion, in sentences."""
        return tuple(f"{name}: {sentence}" for name, result in self.items() for sentence in result.statements)

    @checked
    def systems(self, target: Target = "items") -> pd.DataFrame:
        """Return :meth:`JudgesResult.systems` of each criterion."""
        return self._table(lambda result: result.systems(target))

    @checked
    def rates(self, target: Target = "items") -> pd.DataFrame:
        """Return one table of systems and criteria.

        Args:
            target: as of :meth:`JudgesResult.systems`.

        Returns:
            A row for each system, in the order of the first criterion, and for each criterion a column of its name with the
            corrected rate, and its ends ``..._low`` and ``..._high``; NaN where a criterion has no item of the system.
        """
        own = [
            result.systems(target)
            .set_index("system")[["corrected", "corrected_low", "corrected_high"]]
            .set_axis([str(name), f"{name}_low", f"{name}_high"], axis=1)
            for name, result in self.items()
        ]
        return pd.concat(own, axis=1).rename_axis("system").reset_index()

    def correlations(self) -> pd.DataFrame:
        """Return the correlation of criteria across items.

        See :func:`crowdppl.judges.tables.criteria_correlation.correlations`.
        """
        return correlations(self)

    @checked
    def comparisons(self, target: Target = "items") -> pd.DataFrame:
        """Return :meth:`JudgesResult.comparisons` of each criterion."""
        return self._table(lambda result: result.comparisons(target))

    def judges(self) -> pd.DataFrame:
        """Return :meth:`JudgesResult.judges` of each criterion."""
        return self._table(JudgesResult.judges)

    def judge_comparisons(self) -> pd.DataFrame:
        """Return :meth:`JudgesResult.judge_comparisons` of each criterion."""
        return self._table(JudgesResult.judge_comparisons)

    def people(self) -> pd.DataFrame:
        """Return :meth:`JudgesResult.people` of each criterion that people labelled."""
        return self._table(JudgesResult.people)

    @checked
    def pass_at(
        self,
        k: Annotated[int | Sequence[int], arguments.one_of(arguments.several(arguments.whole(1)), arguments.whole(1))]
        | None = None,
        target: Target = "items",
    ) -> pd.DataFrame:
        """Return :meth:`JudgesResult.pass_at` of each criterion."""
        return self._table(lambda result: result.pass_at(k, target))

    def labels(self) -> pd.DataFrame:
        """Return :meth:`JudgesResult.items` of each criterion: the most probable label of each item."""
        return self._table(JudgesResult.items)

    @checked
    def next(self, n: PositiveInt = 10) -> pd.DataFrame:
        """Return :meth:`JudgesResult.next` of each criterion: the ``n`` items of each that people should label next."""
        return self._table(lambda result: result.next(n))

    @checked
    def labels_needed(self, width: PositiveFloat) -> pd.DataFrame:
        """Return :meth:`JudgesResult.labels_needed` of each criterion."""
        return self._table(lambda result: result.labels_needed(width))

    def of(self, table: pd.DataFrame, criterion: Any) -> pd.DataFrame:
        """Return the rows of one criterion of a table of this result, as its own result has them."""
        rows = table[(table["criterion"] == criterion).to_numpy(dtype=bool)]
        return rows.drop(columns="criterion").reset_index(drop=True)

    def _table(self, of: Callable[[JudgesResult], pd.DataFrame]) -> pd.DataFrame:
        tables = {name: of(result) for name, result in self.items()}
        for name, table in tables.items():
            table.insert(0, "criterion", pd.Series([name] * len(table), dtype=object))
        return pd.concat(list(tables.values()), ignore_index=True)


@checked
def fit_criteria(
    verdicts: Any,
    human: Any = None,
    *,
    criterion: Identifier = None,
    positive: Any = None,
    human_error: Annotated[
        float | Mapping[Any, float], arguments.one_of(arguments.number(at_least=0, below=1), arguments.mapping)
    ]
    | None = None,
    map: Annotated[Mapping[Any, Any], arguments.mapping] | None = None,
    **options: Any,
) -> CriteriaResult:
    """Fit the verdicts on several criteria, such as helpful and safe, each with true labels of its own.

    Args:
        verdicts: a table with a column of criteria (:meth:`Verdicts.by_criterion`), or :class:`Verdicts` by criterion.
        human: a table of human labels with the same column, :class:`HumanLabels` or tables by criterion, or ``None``.
        criterion: name of the column of criteria in both tables. Defaults to a usual one: ``criterion``, ``metric``, ``scorer``,
            ``rubric``, ``dimension``, ``aspect``.
        positive: as of :func:`fit`: for all criteria that have these classes, or by criterion.
        human_error: as of :func:`fit`: of people who labelled any criterion.
        map: as of :func:`fit`: of labels on any criterion.
        **options: of :func:`fit`, such as ``seed`` and ``level``.

    Raises:
        DataError: if the tables cannot be used, or human labels are on other criteria than the verdicts.
        OptionError: for a wrong argument, or a ``positive`` that is a class of no criterion.
    """
    parts = dict(verdicts) if isinstance(verdicts, Mapping) else Verdicts.by_criterion(verdicts, criterion)
    for name, part in parts.items():
        if not isinstance(part, Verdicts):
            raise OptionError(
                f"verdicts[{name!r}] must be Verdicts, as Verdicts.by_criterion returns, not {type(part).__name__}"
            )
    labels: dict[Any, HumanLabels] = {}
    if human is not None:
        by_name = human if isinstance(human, Mapping) else labelled_by_criterion(human, parts, criterion)
        _require_same(list(parts), list(by_name))
        labels = {
            name: one
            if isinstance(one, HumanLabels)
            else labelled(one, parts[name], source=f"the human labels, {name}")
            for name, one in by_name.items()
        }
    passing = _positive({name: _classes(part, map or {}) for name, part in parts.items()}, positive)
    results = {}
    for name, part in parts.items():
        try:
            own = labels.get(name)
            given = {str(label) for one in (part, own) if one is not None for label in one.labels.tolist()}
            names = {label: new for label, new in (map or {}).items() if str(label) in given} or None
            error = _of_people(human_error, own, labels)
            results[name] = fit(part, own, positive=passing[name], map=names, human_error=error, **options)
        except DataError as error:
            raise DataError(f"criterion {listed([name])}: {error}") from None
    return CriteriaResult(results)


def _of_people(
    error: float | Mapping[Any, float] | None, own: HumanLabels | None, labels: Mapping[Any, HumanLabels]
) -> float | Mapping[Any, float] | None:
    """Return the stated errors without those of people who labelled other criteria only."""
    if not isinstance(error, Mapping):
        return error
    here = set() if own is None else set(map(str, own.annotators.tolist()))
    anywhere = {str(name) for one in labels.values() for name in one.annotators.tolist()}
    return {name: value for name, value in error.items() if str(name) in here or str(name) not in anywhere} or None


def _require_same(criteria: list[Any], labelled: list[Any]) -> None:
    """Refuse human labels on a criterion that no judge was asked for."""
    unknown = [name for name in labelled if name not in criteria]
    if unknown:
        raise DataError(
            f"human labels are on {listed(unknown)}, but the criteria of the verdicts are {listed(criteria)}; use "
            f"the same names, or drop these labels"
        )


def _classes(verdicts: Verdicts, names: Mapping[Any, Any]) -> list[str]:
    """Return the classes of a criterion as text, some of them renamed."""
    new = {str(label): str(name) for label, name in names.items()}
    return [new.get(label, label) for label in map(str, verdicts.labels.tolist())]


def _positive(parts: Mapping[Any, list[str]], positive: Any) -> dict[Any, Any]:
    """Return which labels pass, by criterion; ``None`` where it is not stated.

    Args:
        parts: classes by criterion, as text.
        positive: labels that pass, or labels by criterion.

    Raises:
        OptionError: for an unknown criterion, or labels that are classes of no criterion.
    """
    if isinstance(positive, Mapping):
        unknown = [name for name in positive if name not in parts]
        if unknown:
            raise OptionError(f"positive: {listed(unknown)} is no criterion; they are {listed(list(parts))}")
        return {name: positive.get(name) for name in parts}
    if positive is None:
        return dict.fromkeys(parts)
    wanted = [positive] if isinstance(positive, (str, bytes)) or not hasattr(positive, "__iter__") else list(positive)
    out = {name: [one for one in wanted if str(one) in classes] or None for name, classes in parts.items()}
    lost = [one for one in wanted if not any(one in (chosen or ()) for chosen in out.values())]
    if lost:
        raise OptionError(f"positive: {listed(lost)} is a class of no criterion")
    return out
