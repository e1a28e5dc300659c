"""Verdicts of judges in HELM's runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from crowdppl.errors import DataError
from crowdppl.judges.coding.states import State
from crowdppl.judges.readers.content import Content, first, mapping, objects
from crowdppl.judges.readers.rows import Collector

# Keys of an annotation: a number of a model, an equivalence that a model states, and the number of a single judge.
_SCORE = re.compile(r"(?P<model>.+)_score")
_EQUIVALENT = re.compile(r"(?P<model>.+)_equivalence_\w+")
# The part of the name of a run, which is that of its folder, that says which model was run.
_OF_MODEL = re.compile(r",?(?<=[:,])model=[^,]*")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
_WORDS = {"true": True, "false": False}


class _Verdict(NamedTuple):
    metric: str
    model: str | None
    value: Any


def is_helm(content: Content) -> bool:
    """Recognise ``adapter_spec`` and ``request_states``, the keys of ``scenario_state.json``."""
    document = mapping(content.document)
    return isinstance(document.get("adapter_spec"), Mapping) and isinstance(document.get("request_states"), list)


def helm(content: Content, rows: Collector) -> None:
    """Read the annotations of models in HELM's ``scenario_state.json``.

    The system is the ``model`` of ``adapter_spec``; the item the ``id`` of the instance, with the name of its perturbation; each
    train trial is another answer. Of an annotation, ``gpt_score`` is a verdict of the judge ``gpt``, and ``score`` that of a
    judge with the annotator's name. Of a jury, whose annotation has an object for each model, each criterion with a ``score`` is
    a metric. Equivalences are verdicts ``true`` and ``false``. Numbers may be texts. Another text is ``UNPARSEABLE``.

    Sources: ``benchmark/annotation`` and ``benchmark/runner.py`` of https://github.com/stanford-crfm/helm. Uncertain: instances
    of two scenarios of a folder are told apart by the names of the annotators.
    """
    document = mapping(content.document)
    system = mapping(document.get("adapter_spec")).get("model")
    names: set[str] = set()
    states = objects(document.get("request_states"))
    trials = len({str(state.get("train_trial_index")) for state in states}) > 1
    for state in states:
        instance = mapping(state.get("instance"))
        item, perturbed = instance.get("id"), mapping(instance.get("perturbation")).get("name")
        item = item if perturbed is None else f"{item}, {perturbed}"
        others = {"answer": state.get("train_trial_index")} if trials else {}
        for name, annotation in mapping(state.get("annotations")).items():
            names.add(str(name))
            for one in _verdicts(str(name), annotation):
                value = _parsed(one.value)
                blank = value is None
                rows.add(
                    item,
                    one.metric,
                    value,
                    model=one.model,
                    state=State.UNPARSEABLE if blank else None,
                    system=first(mapping(state.get("request")), "model") if system is None else system,
                    **others,
                )
    scenario = _OF_MODEL.sub("", content.path.resolve().parent.name)
    rows.task = "+".join(sorted(names)) + (f", {scenario}" if ":" in scenario else "") or None
    if not rows.rows:
        raise DataError(
            f"{content.name}: no annotation of a model; HELM writes them for scenarios with an annotator, such as WildBench"
        )


def _parsed(value: Any) -> Any:
    """Return a verdict, that of a text as a truth value or number; ``None`` for another text."""
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    return float(text) if _NUMBER.fullmatch(text) else _WORDS.get(text)


def _verdicts(name: str, annotation: Any) -> Iterator[_Verdict]:
    """Yield the verdicts of an annotation by the annotator ``name``."""
    for one in [annotation] if isinstance(annotation, Mapping) else objects(annotation):
        for key, value in one.items():
            named = _SCORE.fullmatch(str(key)) or _EQUIVALENT.fullmatch(str(key))
            if key == "score":
                yield _Verdict(name, None, value)
            elif named:
                yield _Verdict(name, named["model"], value)
            elif isinstance(value, Mapping):
                yield from (
                    _Verdict(str(criterion), str(key), of["score"])
                    for criterion, of in value.items()
                    if isinstance(of, Mapping) and "score" in of
                )
