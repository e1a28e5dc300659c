"""What every result states of the fit that made it, whatever its labels are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from crowdppl.data.alerts import CLASSES_LOST, HARDLY_AGREE, LABELS_UNCLEAR, ONE_CLASS_OR_GUESSES, SAME_ANSWERS

# The beginning of the first warning of a result whose chains have not converged.
NOT_CONVERGED = "not converged: do not use the intervals"
# Beginnings of the warnings that come first in every view.
ALERTS = (LABELS_UNCLEAR, NOT_CONVERGED, CLASSES_LOST, ONE_CLASS_OR_GUESSES, HARDLY_AGREE, SAME_ANSWERS)


class Recorded:
    """A result with attributes that describe the run."""

    _alerts: ClassVar[tuple[str, ...]] = ALERTS

    @property
    def _attrs(self) -> Mapping[Any, Any]:
        """Attributes of the result's tree, which are there before any draws."""
        raise NotImplementedError

    @property
    def info(self) -> dict[str, Any]:
        """Model, method, options, seed, versions and facts of the run."""
        return dict(json.loads(self._attrs["run"]))

    @property
    def interval_method(self) -> str:
        """How the intervals were computed, in a sentence."""
        return str(self._attrs["interval_method"])

    @property
    def kind(self) -> str:
        """Kind of the draws: ``posterior``, ``approximation`` or ``point``."""
        return str(self._attrs["kind"])

    @property
    def warnings(self) -> list[str]:
        """Warnings about the reliability of the result."""
        return list(json.loads(self._attrs["warnings"]))

    @property
    def notes(self) -> list[str]:
        """Notes on the fit, and on data that were dropped, merged or unusual."""
        return list(json.loads(self._attrs["notes"]))

    @property
    def alerts(self) -> list[str]:
        """The warnings that come first in every view: labels to be cleaned, classes lost, workers who hardly agree and others."""
        return [sentence for start in self._alerts for sentence in self.warnings if sentence.startswith(start)]

    @property
    def alert(self) -> str:
        """The :attr:`alerts` in one line; empty without any."""
        return "; ".join(self.alerts)

    @property
    def not_converged(self) -> bool:
        """Whether the chains have not converged."""
        return any(sentence.startswith(NOT_CONVERGED) for sentence in self.warnings)

    @property
    def item_column(self) -> str:
        """Name of the item column in tables: ``"item"`` if the annotations used it, otherwise ``"task"``."""
        return str(self._attrs.get("item_column", "task"))
