"""The result of a panel of judges as an ``xarray.DataTree``, which ArviZ reads, and its file."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from crowdppl.errors import DataError, FileError
from crowdppl.judges.human import HumanLabels
from crowdppl.judges.model.calibration import Calibration
from crowdppl.judges.model.draws import TruthDraws
from crowdppl.judges.model.features import features_of
from crowdppl.judges.tables.system_table import rates
from crowdppl.judges.verdicts import Verdicts
from crowdppl.posterior import io

Array = npt.NDArray[Any]
DRAW = ("chain", "draw")
# Fields of verdicts: names on an axis of their own; codes and values on the axis of items, judges or rows.
NAMES = {
    "items": "item",
    "judges": "judge",
    "labels": "class",
    "systems": "system",
    "questions": "question",
    "families": "family",
    "versions": "version",
    "clusters": "cluster",
}
OF_ITEM = ("system", "opponent", "question")
# Fields of items that are stored if they are stated; files of earlier versions do not have them.
OPTIONAL = ("cluster", "length", "opponent_length")
OF_ROW = ("item", "judge", "label", "state", "swapped", "score", "cost", "seconds", "when", "version")
# The same of human labels, whose items and classes are those of the verdicts.
HUMAN_NAMES = {"annotators": "annotator", "strata": "stratum", "systems": "human_system", "answers": "answer"}
HUMAN = ("item", "label", "annotator", "probability", "stratum", "system", "opponent", "answer")


def tree_of(draws: TruthDraws) -> xr.DataTree:
    """Return a result as a tree.

    Groups: ``posterior`` with ``rate`` of each system (of the judged items), ``true_label`` as codes of classes, the coefficients
    ``theta`` and ``scale`` of the model, which systems are ``pure``, and ``person_error`` of people who are named, with axes
    ``chain`` and ``draw``; ``truth`` with
    ``probability`` ``(item, class)``, ``labelled`` and ``value``;
    ``observed_data`` with the ``label`` of each verdict as a code, -1 if none was given;
    ``constant_data`` with everything else that is known of verdicts, items and judges; and ``human_labels``.
    """
    v = draws.verdicts
    names = {axis: (axis, _storable(getattr(v, field))) for field, axis in NAMES.items()}
    truth = xr.Dataset(
        {
            "probability": (("item", "class"), draws.probability),
            "labelled": ("item", draws.labelled.astype(np.int8)),
            "value": ("class", draws.value),
            "pure_class": ("pure_system", draws.calibration.pure_class),
        },
        coords={axis: names[axis] for axis in ("item", "class")},
    )
    if draws.features.outcome is not None:
        truth["outcome"] = ("class", draws.features.outcome)
    groups = {
        "posterior": _posterior(draws),
        "truth": truth,
        "observed_data": xr.Dataset({"label": ("verdict", v.label)}),
        # Codes have the names of their columns, so that the names of what they stand for are no coordinates.
        "constant_data": xr.Dataset(
            _constant_data(v) | {f"names_of_{field}": names[axis] for field, axis in NAMES.items()}
        ),
    }
    if draws.human is not None:
        groups["human_labels"] = _human_labels(draws.human, draws.error_basis)
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    tree.attrs = {
        "crowdppl_format": io.FORMAT,
        "crowdppl_version": version("crowdppl"),
        io.KIND: io.JUDGES,
        "level": draws.level,
        "human_error": draws.human_error,
        "pairs": int(v.pairs),
        "ordered": json.dumps(v.ordered),
        "asked": v.asked,
        "notes": json.dumps(list(v.notes)),
    }
    return tree


def _posterior(draws: TruthDraws) -> xr.Dataset:
    """Return the group of the draws."""
    blocks = draws.calibration.blocks
    posterior = xr.Dataset(
        {
            "rate": ((*DRAW, "rated"), rates(draws, "items")[None]),
            "true_label": ((*DRAW, "item"), draws.truth[None]),
            "theta": ((*DRAW, "coefficient"), draws.calibration.theta[None]),
            "scale": ((*DRAW, "block"), draws.calibration.scale[None]),
            "pure": ((*DRAW, "pure_system"), draws.calibration.pure[None].astype(np.int8)),
        },
        coords={
            "chain": [0],
            "draw": np.arange(len(draws.truth)),
            "item": ("item", _storable(draws.verdicts.items)),
            "rated": ("rated", _storable(draws.rated[0])),
            "block": ("block", _storable(np.array([block.name for block in blocks], dtype=object))),
            "coefficient": (
                "coefficient",
                _storable(np.array([f"{b.name}[{n}]" for b in blocks for n in range(b.size)], dtype=object)),
            ),
        },
    )
    if draws.human is not None and len(draws.error_basis):
        posterior["person_error"] = ((*DRAW, "person"), draws.person_error[None])
    return posterior


def _constant_data(v: Verdicts) -> dict[str, Any]:
    """Return what is known of verdicts, items and judges besides the labels."""
    constant: dict[str, Any] = {f"{name}_of_item": ("item", getattr(v, name)) for name in OF_ITEM}
    constant |= {f"{name}_of_item": ("item", getattr(v, name)) for name in OPTIONAL if len(getattr(v, name))}
    constant |= {name: ("verdict", getattr(v, name)) for name in OF_ROW if name not in ("label", "when")}
    constant["when"] = ("verdict", v.when.astype("datetime64[us]").astype(np.int64))
    constant["family_of_judge"] = ("judge", v.family)
    return constant


def _human_labels(human: HumanLabels, error_basis: Array) -> xr.Dataset:
    """Return the group of the human labels; ``error_basis`` says of each person what their error rests on, if of any."""
    fields: dict[str, Any] = {
        name: ("human_label", getattr(human, name)) for name in HUMAN if len(getattr(human, name)) == len(human)
    }
    fields |= {f"names_of_{field}": (axis, _storable(getattr(human, field))) for field, axis in HUMAN_NAMES.items()}
    if len(error_basis):
        fields["error_basis"] = ("annotator", _storable(error_basis))
    return xr.Dataset(fields, attrs={"notes": json.dumps(list(human.notes))})


def read(path: Path) -> dict[str, Any]:
    """Return the attributes of the result in a file, by name.

    Raises:
        FileError: if the file is missing, damaged, or not a result of judges.
    """
    tree = io.read(path)
    if tree.attrs.get(io.KIND) != io.JUDGES:
        raise FileError(f"{path.name} is not a result of crowdppl.judges; read it with crowdppl.load")
    try:
        return _attributes(tree)
    except (KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
        reason = DataError(f"{type(error).__name__} {' '.join(str(error).split())[:80]}")
        raise io.damaged(path, reason) from None


def _attributes(tree: xr.DataTree) -> dict[str, Any]:
    """Return the attributes of the result that a tree is of, by name."""
    groups = {str(name): node.to_dataset(inherit=False) for name, node in tree.children.items()}
    constant, truth, posterior = (groups[name] for name in ("constant_data", "truth", "posterior"))
    attrs = tree.attrs
    rows: dict[str, Any] = {name: constant[name].to_numpy() for name in OF_ROW if name not in ("label", "when")}
    names: dict[str, Any] = {
        field: _names(constant[f"names_of_{field}"])
        for field in NAMES
        if field != "clusters" or "names_of_clusters" in constant  # not in files of earlier versions
    }
    stated = [name for name in OPTIONAL if f"{name}_of_item" in constant]
    of_item: dict[str, Any] = {name: constant[f"{name}_of_item"].to_numpy() for name in (*OF_ITEM, *stated)}
    verdicts = Verdicts(
        **names,
        **rows,
        label=groups["observed_data"]["label"].to_numpy(),
        when=constant["when"].to_numpy().astype("datetime64[us]"),
        **of_item,
        family=constant["family_of_judge"].to_numpy(),
        pairs=bool(attrs["pairs"]),
        ordered=json.loads(attrs["ordered"]),
        asked=str(attrs["asked"]),
        notes=tuple(json.loads(attrs["notes"])),
    )
    human = None
    if "human_labels" in groups:
        stored = groups["human_labels"]
        codes = {name: stored[name].to_numpy() for name in HUMAN if name in stored}
        of_people = {field: _names(stored[f"names_of_{field}"]) for field in HUMAN_NAMES}
        notes = tuple(json.loads(stored.attrs["notes"]))
        human = HumanLabels(items=verdicts.items, labels=verdicts.labels, notes=notes, **of_people, **codes)
    value = truth["value"].to_numpy()
    outcome = truth["outcome"].to_numpy() if "outcome" in truth else None
    features = features_of(verdicts, outcome, value)
    if "question_rate" not in _names(posterior["block"]):  # not in files of earlier versions
        features = replace(features, question_rate=features.question_rate[:, :0])
    theta, scale = posterior["theta"].to_numpy()[0], posterior["scale"].to_numpy()[0]
    if theta.shape[1] != sum(block.size for block in features.blocks):
        raise ValueError("coefficients of other features")
    return dict(
        verdicts=verdicts,
        human=human,
        features=features,
        calibration=Calibration(
            theta, scale, features.blocks, posterior["pure"].to_numpy()[0].astype(bool), truth["pure_class"].to_numpy()
        ),
        truth=posterior["true_label"].to_numpy()[0],
        probability=truth["probability"].to_numpy(),
        labelled=truth["labelled"].to_numpy().astype(bool),
        human_error=float(attrs["human_error"]),
        **_of_people(groups),
        value=value,
        level=float(attrs["level"]),
    )


def _of_people(groups: dict[str, xr.Dataset]) -> dict[str, Any]:
    """Return the errors of people; files of earlier versions have none."""
    if "person_error" not in groups["posterior"]:
        return {}
    return {
        "person_error": groups["posterior"]["person_error"].to_numpy()[0],
        "error_basis": _names(groups["human_labels"]["error_basis"]),
    }


def _storable(names: Array) -> Array:
    """Return names as an array that NetCDF stores: booleans as bytes."""
    if names.dtype == bool:
        return names.astype(np.uint8)
    return names if names.dtype.kind in "iu" else names.astype(str).astype(object) if len(names) else names.astype("U1")


def _names(variable: xr.DataArray) -> Array:
    """Return names as they were: bytes were booleans."""
    values = variable.to_numpy()
    if values.dtype == np.uint8:
        return values.astype(bool)
    return values if values.dtype.kind in "iu" else np.array([str(name) for name in values.tolist()], dtype=object)
