"""The labels of a column as classes: words for nothing dropped, names given by the caller, spellings of one label merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from crowdppl import arguments
from crowdppl.data.table.identifier_checks import written_number
from crowdppl.data.table.identifiers import Coded
from crowdppl.data.table.missing_words import codes_for_nothing, words_for_nothing
from crowdppl.data.table.spellings import KEYS, NearDuplicate, alike, folded, near_duplicates, used_apart, visible
from crowdppl.errors import DataError, listed, suggestion

Array = npt.NDArray[Any]

# Near-duplicates make a result likely wrong from this number on, or from this share of the annotations.
MANY, SHARE = 3, 0.01


@dataclass(frozen=True)
class LabelChoices:
    """Choices of the caller about labels, see :meth:`crowdppl.Annotations.from_frame`.

    Attributes:
        map: class by label, ``None`` for no label.
        missing: words that stand for no label, beside the usual ones.
        keep_missing: whether the usual words for nothing are classes.
        fold: whether spellings of one label are merged.
        graded: whether labels are grades, so that numbers that are not whole need no note.
        others: labels that are never a true label; none of them stands for nothing.
    """

    map: Mapping[str, str | None] = field(default_factory=dict)
    missing: Sequence[str] = ()
    keep_missing: bool = False
    fold: bool = True
    graded: bool = False
    others: Sequence[str] = ()


USUAL = LabelChoices()


@dataclass
class Named:
    """What becomes of each label.

    Attributes:
        names: class by label as written, ``None`` for no label; empty if nothing changes.
        order: the classes in the order of the numbers that they name; ``None`` for the usual order.
        nothing: number of annotations by word for nothing.
        notes: sentences on what was merged or left apart.
        unclear: sentences on words that may stand for nothing and are taken for classes.
        doubts: those of them that make a result likely wrong.
    """

    names: dict[Any, Any] = field(default_factory=dict)
    order: list[Any] | None = None
    nothing: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def declared(self, classes: Any) -> Any:
        """Return declared classes with the names that the caller gave them."""
        if not self.names or not isinstance(classes, (list, tuple, pd.Index, np.ndarray)):
            return classes
        new = {str(name): other for name, other in self.names.items()}
        return list(dict.fromkeys(new.get(str(name)) or name for name in list(classes)))

    def apply(self, column: Coded) -> Coded:
        """Return a column of labels with the names of their classes."""
        if not self.names:
            return column
        named = pd.Series([self.names.get(name, name) for name in column.names.tolist()], dtype=object)
        codes, names = pd.factorize(named)
        renamed = any(isinstance(name, str) for name in names)
        kind = object if renamed or not len(names) else column.names.dtype  # numbers stay numbers
        return Coded(np.append(codes, -1)[column.codes].astype(np.int64), np.asarray(names, dtype=kind))


def named(columns: Sequence[Coded], known: Coded, declared: Any, choices: LabelChoices, where: str) -> Named:
    """Decide what becomes of each label of annotations and of known truths.

    Args:
        columns: items, workers and labels, ``A`` each.
        known: labels of the known truths.
        declared: the classes that the caller declared, which are never merged or dropped; ``None`` for none.
        choices: of the caller.
        where: location of the labels, for messages.

    Raises:
        DataError: if the caller's names are of no label that occurs.
    """
    label = columns[2]
    written = list(dict.fromkeys([*label.names.tolist(), *known.names.tolist()]))
    out = Named()
    codes = [] if choices.missing or choices.map or declared is not None else codes_for_nothing(written)
    if codes:
        out.unclear.append(
            f"{where}: {listed(codes, 3)} taken for a class, though surveys and programs write this for no answer; if so, add "
            f"missing={codes[0]!r}"
        )
    text = all(isinstance(name, str) for name in written)
    if not text and not choices.map and not choices.missing:
        return out
    kept = {str(name) for name in declared} if isinstance(declared, (list, pd.Index, np.ndarray, tuple)) else set()
    others = {folded(str(name)) for name in choices.others}
    kept |= {str(name) for name in written if folded(str(name)) in others}
    names: dict[Any, Any] = {name: name for name in written}
    mapped = _mapped(written, choices, where) if choices.map else {}
    names |= mapped
    if mapped and not text:
        if isinstance(written[0], (int, np.integer)):
            out.order = list(dict.fromkeys(str(names[n]) for n in sorted(written) if names[n] is not None))
        names = {name: None if new is None else str(new) for name, new in names.items()}
    free = {str(name): name for name in written if name not in mapped and str(name) not in kept}
    # Of numbers only those that the caller names stand for nothing.
    nothing, unclear = words_for_nothing(free, choices.missing, keep=choices.keep_missing or not text)
    dropped = {free[word] for word in nothing}
    absent = {folded(word) for word in choices.missing} - {folded(str(name)) for name in written}
    if absent:
        out.unclear.append(f"{where}: missing=... names {listed(sorted(absent), 3)}, which does not occur")
    if dropped or unclear:
        size = Counter(dict(zip(label.names.tolist(), _sizes(label), strict=True)))
        names |= dict.fromkeys(dropped)
        out.nothing = {str(word): size[word] for word in sorted(dropped, key=lambda word: (-size[word], str(word)))}
        unclear = [word for word in unclear if size[word]]
        if unclear:
            words = ", ".join(f"{word!r} ({size[word]:,})" for word in unclear[:3])
            out.unclear.append(
                f"{where}: {words} taken for a class; if it stands for no label, add missing={visible(unclear[0])!r}"
            )
    if choices.fold:
        _fold(columns, names, kept, out, where)
    out.names = names if any(new != name for name, new in names.items()) else {}
    return out


def _sizes(label: Coded) -> list[int]:
    return np.bincount(label.codes[label.codes >= 0], minlength=len(label.names)).tolist()


def _mapped(written: Sequence[Any], choices: LabelChoices, where: str) -> dict[Any, Any]:
    """Return the class of each label that the caller names, exactly or, where spellings are merged, by another spelling."""
    exact = {str(label): new for label, new in choices.map.items()}
    spelled: dict[str, set[Any]] = {}
    for label, new in exact.items():
        spelled.setdefault(folded(label), set()).add(new)
    out = {}
    for label in written:
        plain = str(label)
        other = spelled.get(folded(plain), set()) if choices.fold else set()
        if plain in exact:
            out[label] = exact[plain]
        elif len(other) == 1:
            out[label] = next(iter(other))
    if not out:
        first = next(iter(exact))
        occurring = [str(label) for label in written]
        raise DataError(
            f"{where}: map=... names {listed(exact, 3)}, none of which occurs{suggestion(first, occurring)}; labels are "
            f"{listed(occurring, 8)}"
        )
    return out


def _fold(columns: Sequence[Coded], names: dict[Any, Any], kept: set[str], out: Named, where: str) -> None:
    """Merge spellings of one label in place, unless workers use them apart."""
    item, worker, label = columns
    current = list(dict.fromkeys(new for new in names.values() if new is not None))
    if not all(isinstance(name, str) for name in current) or not any(alike(current, key) for key in KEYS):
        return
    place = {name: n for n, name in enumerate(current)}
    of = np.array([-1 if names[name] is None else place[names[name]] for name in label.names.tolist()] + [-1])
    given = of[label.codes]
    sizes = np.bincount(given[given >= 0], minlength=len(current))
    order = np.argsort(given, kind="stable")
    begins = np.searchsorted(given[order], np.arange(len(current) + 1))
    target = np.arange(len(current))
    merged: dict[str, list[str]] = {}
    apart: list[list[str]] = []
    for key in KEYS:
        heads = [current[n] for n in np.unique(target).tolist()]
        for group in alike(heads, key):
            codes = [place[name] for name in group]
            if len(kept & set(group)) > 1 or any(set(group) & set(other) for other in apart):
                continue
            members = np.flatnonzero(np.isin(target, codes)).tolist()
            rows = np.concatenate([order[begins[n] : begins[n + 1]] for n in members])
            if len(rows) and used_apart(item.codes[rows], worker.codes[rows], target[given[rows]]):
                apart.append(group)
                continue
            head = min(group, key=lambda n: (n not in kept, visible(n) != n, -int(sizes[place[n]]), n))
            target[members] = place[head]
            sizes[place[head]] = sum(int(sizes[n]) for n in codes)
    final = {name: current[target[place[name]]] for name in current}
    if len(set(final.values())) < 2 <= len(current):
        # With one class left there would be nothing to learn.
        if not all(map(written_number, current)):
            out.unclear.append(
                f"{where}: {' and '.join(map(ascii_name, current[:3]))} differ in capitals, white space or characters that look "
                f"alike only, and are kept as {len(current)} classes, as one would be left; if they are one, write them alike"
            )
        return
    for name, head in final.items():
        if name != head:
            merged.setdefault(head, []).append(name)
    for name, new in names.items():
        if new is not None:
            names[name] = final[new]
    if merged:
        count = sum(map(len, merged.values()))
        first = list(merged.items())[:3]
        examples = "; ".join(f"{head!r}: {', '.join(map(ascii_name, group[:3]))}" for head, group in first)
        rest = f"; and {len(merged) - 3:,} more" if len(merged) > 3 else ""
        out.notes.append(
            f"{where}: {count:,} spelling{'s' if count > 1 else ''} of {len(merged):,} label{'s' if len(merged) > 1 else ''} "
            f"merged, as they differ in capitals, white space or characters that look alike only ({examples}{rest}); "
            f"fold=False keeps them apart"
        )
    for group in apart:
        sentence = (
            f"{where}: {' and '.join(map(ascii_name, group[:3]))} look like one label, but the same workers use them apart, so "
            f"they are kept as {len(group)} classes; if they are one, merge them with map={{{group[1]!r}: {group[0]!r}}}"
        )
        out.notes.append(sentence)
        out.doubts.append(sentence)


def ascii_name(name: str) -> str:
    """Return a name in quotes, with the codes of characters that cannot be seen or told from others."""
    return repr(name) if visible(name) == name and name.isprintable() else ascii(name)


def typing_errors(item: Array, label: Array, labels: Array) -> list[NearDuplicate]:
    """Return the labels that are probably typing errors of a far more frequent one.

    A label that several annotations of an item share more often than they have the other one is a class of its own.

    Args:
        item: item of each annotation, ``(A,)``.
        label: its label, ``(A,)``.
        labels: the classes, ``(K,)``.
    """
    if labels.dtype != object or len(labels) < 3:
        return []
    sizes = np.bincount(label, minlength=len(labels))
    names = labels.tolist()
    near = near_duplicates(dict(zip(names, sizes.tolist(), strict=True)))
    if not near:
        return []
    place = {name: n for n, name in enumerate(names)}
    own = np.full(len(names), -1)
    for one in near:
        own[place[one.label]] = place[one.meant]
    rare = np.flatnonzero(own[label] >= 0)
    at = np.unique(item[rare])
    nearby = np.flatnonzero(np.isin(item, at))
    cells = pd.Series(item[nearby].astype(np.int64) * len(names) + label[nearby]).value_counts()
    again: Counter[int] = Counter()
    other: Counter[int] = Counter()
    for i, n in set(zip(item[rare].tolist(), label[rare].tolist(), strict=True)):
        again[n] += int(cells.get(i * len(names) + n, 1)) - 1
        other[n] += int(cells.get(i * len(names) + own[n], 0))
    return [one for one in near if again[place[one.label]] <= other[place[one.label]]]


def of_typing_errors(near: Sequence[NearDuplicate], total: int, labels: int, where: str) -> tuple[str, bool]:
    """Return a sentence on probable typing errors, and whether they make a result likely wrong."""
    examples = ", ".join(f"{one.label!r} ({one.size:,}) for {one.meant!r}" for one in near[:4])
    rest = f" and {len(near) - 4:,} more" if len(near) > 4 else ""
    count = sum(one.size for one in near)
    what = (
        f"1 of {labels:,} labels is probably a typing error of another one"
        if len(near) == 1
        else f"{len(near):,} of {labels:,} labels are probably typing errors of others"
    )
    each, them = ("it is", "it") if len(near) == 1 else ("each is", "them")
    annotations = "1 annotation" if count == 1 else f"{count:,} annotations"
    sentence = (
        f"{where}: {what} ({examples}{rest}), with {annotations}; {each} a class of its own until map=... merges {them}"
    )
    return sentence, len(near) >= MANY or count >= SHARE * total


def respelled(labels: Sequence[Any], classes: Sequence[Any], given: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
    """Return the class of each label: as the caller named it, or that of which it is another spelling, or itself.

    Args:
        labels: as written, such as those of known truths or of further annotations.
        classes: of the annotations.
        given: names of the caller, see :func:`names_of_labels`.
    """
    mapped = names_of_labels(given)
    spelled: dict[str, set[Any]] = {}
    for name in classes:
        spelled.setdefault(folded(str(name)), set()).add(name)
    out: dict[Any, Any] = {}
    for label in labels:
        name = mapped.get(str(label), label)
        alike_classes = spelled.get(folded(str(name)), set()) if name is not None else set()
        out[label] = name if name is None or name in classes or len(alike_classes) != 1 else next(iter(alike_classes))
    return out


def words(missing: Any) -> tuple[str, ...]:
    """Return the labels that the caller takes for nothing, as text.

    Raises:
        OptionError: if they are neither a text nor several labels.
    """
    given = [missing] if isinstance(missing, str) else arguments.several(arguments.identifier, 0)("missing", missing)
    return tuple(map(str, given))


def names_of_labels(given: Mapping[Any, Any] | None) -> dict[str, str | None]:
    """Return the class by label as text, ``None`` for no label.

    Raises:
        DataError: if the mapping is empty, or gives a label two names.
    """
    if given is None:
        return {}
    out: dict[str, str | None] = {}
    for label, new in given.items():
        blank = new is None or new is pd.NA or new != new or str(new).strip() == ""
        name = None if blank else str(new)
        if out.setdefault(str(label), name) != name:
            raise DataError(f"map=... gives {str(label)!r} two names, {out[str(label)]!r} and {name!r}; leave one")
    if not out:
        raise DataError("map=... is empty; give the name of a class for each label that is to be changed")
    return out
