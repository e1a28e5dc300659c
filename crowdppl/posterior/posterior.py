"""The result of a fit: tables of truths, workers and confusion matrices, and the file that holds it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.data.identifiers import class_columns
from crowdppl.posterior import io
from crowdppl.posterior.measures import USUAL, interval
from crowdppl.posterior.variables import PosteriorVariables
from crowdppl.posterior.workers.table import table as worker_table

Array = npt.NDArray[Any]

# Items whose entropies are computed in one go.
_PIECE = 2**15


class Posterior(PosteriorVariables):
    """What is known after a fit.

    ``tree`` holds, with the caller's identifiers as coordinates ``item``, ``worker``, ``true_label`` (the true class) and ``given_label``
    (the label given; ArviZ keeps the name ``label`` for itself):

    - ``posterior``: parameters ``(chain, draw, ...)``, and ``confusion (chain, draw, worker, true_label, answer)`` and ``prevalence
      (chain, draw, true_label)`` for every model. For EM and SVI an approximation: ``interval_method`` says which. Where truths and workers
      allow for annotations that err together (``correlation`` says so), these two follow the truths drawn, and ``rho (chain,
      draw)`` is the correlation drawn.
    - ``as_published``: there, the model's own ``confusion`` and ``prevalence``, where it has parameters of these names.
    - ``point``: the mode, for EM.
    - ``truth``: ``probability (item, true_label)``, ``as_published`` where that differs, and ``draw_of (chain, draw, item)``, a truth
      drawn with each draw of the parameters (index into ``true_label``).
    - ``log_likelihood``: ``labels (chain, draw, item)``, all labels of an item together, the truth summed out.
    - ``sample_stats``: ``lp (chain, draw)``, and the engine's trace of its objective.
    - ``annotation``: what a model says of single annotations, averaged over draws, where it says something.
    - ``networks``: the weights of networks in the safetensors format, see :attr:`networks`.
    - ``observed_data``, ``constant_data``: labels, items and workers of the annotations, known truths.

    Attributes:
        tree: the whole result, which ArviZ's functions take as it is.
    """

    def truth(self) -> pd.DataFrame:
        """Return a row for each item.

        Columns: ``task`` (``item`` where the annotations' own column was called so, see :attr:`item_column`); ``label``, the
        most probable class (the first of equals); ``probability`` of it; ``entropy`` of the item's distribution in bits; and
        ``p_<class>`` for every class.
        """
        return truth_table(
            self._values("truth", "item"), self.labels, self._values("truth", "probability"), self.item_column
        )

    @arguments.checked(
        level=arguments.level,
        sort=arguments.text,
        minimum=arguments.whole(0),
        measures=arguments.several(arguments.text, 0),
        cost=arguments.anything,
    )
    def workers(
        self,
        *,
        level: float | None = None,
        sort: str | None = None,
        minimum: int = 0,
        measures: Iterable[str] = USUAL,
        cost: Any = None,
    ) -> pd.DataFrame:
        """Return a row for each worker, every quality with the ends of its interval.

        Columns: ``worker``; ``annotations``; ``share_correct``, the share of the worker's own annotations that are right (by the
        truth of each draw); ``accuracy`` under the prevalence, that of annotations yet to come; ``sensitivity_<class>``, the
        probability of the right label in each class; ``informativeness`` in bits; each followed by ``_low`` and ``_high``. Then
        ``rank`` by accuracy with ``rank_low`` and ``rank_high``, and ``place``, the same in words, see
        :func:`crowdppl.posterior.workers.summarise_ranks`; ``spammer``, the probability of one whose labels do not depend on the truth;
        ``adversarial``, that of one who avoids the correct label; ``verdict``, see :func:`crowdppl.posterior.workers.verdicts`; and
        ``seconds``, the median of an annotation, where times are known.

        Args:
            level: probability of the intervals (equal-tailed); ArviZ's default, .89, where not given.
            sort: column to sort by, best first; the order of the data where not given. A column with an interval is sorted by
                its worse end, so that few annotations do not put a worker at the top.
            minimum: leave out workers with fewer annotations, who then have no rank.
            measures: what to show, names of :data:`crowdppl.posterior.workers.MEASURES`, ``sensitivity`` and ``specificity``.
            cost: of errors, for ``expected_cost`` and ``cost_quality``, see :func:`crowdppl.posterior.workers.expected_cost`.

        Raises:
            OptionError: for a level outside (0, 1), an unknown column or measure.
        """
        return worker_table(self, level=level, sort=sort, minimum=minimum, measures=measures, cost=cost)

    @arguments.checked(worker=arguments.identifier, level=arguments.level)
    def confusion(self, worker: Any = None, *, level: float | None = None) -> pd.DataFrame:
        """Return a row for each cell of a worker's confusion matrix, or of every worker's.

        Columns: ``worker`` (where all are asked for), ``truth``, ``label``, ``probability`` of that label under that truth, and
        the ends of its interval ``low`` and ``high``. ``.pivot(index="truth", columns="label", values="probability")`` is the
        matrix.

        Raises:
            DataError: for an unknown worker.
        """
        names = self.worker_names()
        if worker is not None:
            chosen = np.array([self.worker_index(worker)])
            parts = [interval(self.draws("confusion", worker=chosen), level)]
        else:
            chosen = np.arange(len(names))
            parts = [interval(confusion, level) for _, confusion, _ in self.worker_blocks()]
        mean, low, high = (np.concatenate(part).reshape(-1) for part in zip(*parts, strict=True))
        K = len(self.labels)
        table = pd.DataFrame(
            {
                "worker": np.repeat(names[chosen], K * K),
                "truth": np.tile(np.repeat(self.labels, K), len(chosen)),
                "label": np.tile(self.labels, K * len(chosen)),
                "probability": mean,
                "low": low,
                "high": high,
            }
        )
        return table if worker is None else table.drop(columns="worker")

    @arguments.checked(level=arguments.level)
    def prevalence(self, *, level: float | None = None) -> pd.DataFrame:
        """Return a row for each class: ``label``, ``share`` of items, ``low``, ``high``."""
        mean, low, high = interval(self.draws("prevalence"), level)
        return pd.DataFrame({"label": self.labels, "share": mean, "low": low, "high": high})

    @arguments.checked(path=arguments.output_file)
    def save(self, path: str | Path) -> Path:
        """Write the whole result to one NetCDF file, in one go: an interruption leaves the old file or the new one.

        Raises:
            FileError: where the file cannot be written.
        """
        path = Path(path)
        io.write(self.tree, path)
        return path


@arguments.checked(
    items=arguments.a_list, labels=arguments.a_list, probability=arguments.anything, item_column=arguments.text
)
def truth_table(items: Array, labels: Array, probability: Array, item_column: str = "task") -> pd.DataFrame:
    """Return a row for each item from its class probabilities ``(N, K)``, as described in :meth:`Posterior.truth`."""
    best, bits = probability.argmax(-1), np.empty(len(probability), dtype=probability.dtype)
    for begin in range(0, len(bits), _PIECE):
        some = probability[begin : begin + _PIECE]
        # What is impossible adds nothing.
        logs = np.log2(some, out=np.zeros_like(some), where=some > 0)
        bits[begin : begin + _PIECE] = -np.einsum("nk,nk->n", some, logs)
    table = {
        item_column: items,
        "label": labels[best],
        "probability": probability[np.arange(len(best)), best],
        "entropy": np.maximum(bits, 0.0),
    }
    return pd.DataFrame(table | {name: probability[:, n] for n, name in enumerate(probability_columns(labels))})


def probability_columns(labels: Array) -> list[str]:
    """Return the columns of a table of truths that hold the probabilities of the classes."""
    return class_columns("p_", labels.tolist())


@arguments.checked(path=arguments.input_path)
def load(path: str | Path) -> Posterior:
    """Read a result written by :meth:`Posterior.save`, and check all of it, see :mod:`crowdppl.posterior.schema`.

    Raises:
        FileError: where the file is missing, damaged, of another kind, or of a later format.
    """
    return Posterior(io.read(Path(path)))
