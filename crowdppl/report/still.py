"""The first screen of the report and the tops of its tables as markup, which is read where scripts do not run, as in mail.

The script leaves the first screen as it is. It draws the tables anew, with all rows, search and order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crowdppl.data.html import Markup, element, joined
from crowdppl.report import texts
from crowdppl.report.plan import money

Data = Mapping[str, Any]

# Rows of each table.
ROWS = 25
# For each verdict: words, appearance, mark, and what to do. The most severe verdict comes first.
VERDICTS = {
    "adversarial": ("adversarial", "bad", "✕", "ask why"),
    "random": ("random labels", "bad", "✕", "exclude"),
    "constant": ("one label for all", "bad", "✕", "exclude"),
    "hasty": ("hasty", "bad", "✕", "check speed"),
    "confuses": ("confuses classes", "warn", "!", "retrain"),
    "weak": ("weak", "warn", "!", "retrain"),
    "severe": ("severe", "warn", "!", "compare grades"),
    "lenient": ("lenient", "warn", "!", "compare grades"),
    "unknown": ("not known yet", "dim", "?", "wait"),
    "fair": ("fair", "plain", "•", "keep"),
    "reliable": ("reliable", "good", "✓", "keep"),
}


# In place of what to do about items and workers.
_CLEAN = (
    "Labels with typing errors in them, or spellings that may be one label, are classes of their own here, so that nothing is "
    "said of items and workers. Where crowdppl fit has written a table of names (label-map.csv), look through it and run the "
    "command that was printed."
)


def parts(data: Data) -> dict[str, Markup]:
    """Return the markup for each place of the page of a posterior.

    Args:
        data: of :func:`crowdppl.report.figures.content`.
    """
    todo = data["todo"]
    clean = [_block("do-labels", "Clean the labels", "warn", element("p", _CLEAN))]
    return {
        "WHAT": joined(_lead(data)),
        "CAUTION": _caution(data["warnings"]),
        "CARDS": joined() if todo["unclear"] else _cards(todo),
        "TODO": joined(*clean)
        if todo["unclear"]
        else joined(element("div", *_about_people(data)), element("div", *_about_items(data))),
        "WORKERS": _workers(data),
        "CONFUSIONS": _confusions(data),
        "AGAIN": _again(data),
        "TEXTS_LINK": joined(None if data["texts"] is None else element("a", "Texts", href="#texts")),
        "TEXTS": texts.markup(data["texts"]),
        "ITEMS": _items(data),
        "NOTES": _notes(data),
        "ADVICE": _paragraphs(
            f"Model {data['model']}, fitted by {data['method']}. {data['interval_method']}", *data["advice"]
        ),
        "CORRELATION": joined(data["correlation"]),
        "FOOTNOTE": joined(f"Intervals are {percent(data['level'])} intervals. {data['coverage']}"),
    }


# ---------------------------------------------------------------------- the first screen


def _lead(data: Data) -> str:
    counts, correct = data["counts"], data["todo"]["correct"]
    classes = "one class" if counts["classes"] == 1 else f"{counts['classes']:,} classes"
    what = "true grades are expected to be the most probable grade or next to it" if data["todo"]["graded"] else ""
    expected = (
        ""
        if correct is None
        else f" About {percent(correct)} of the {what or 'resulting labels are expected to be correct'}."
    )
    aside = counts.get("set_aside", 0)  # of workers with the same answers
    uncounted = f", of which {aside:,} of workers with the same answers do not count" if aside else ""
    return (
        f"{count(counts['workers'], 'worker')} gave {count(counts['annotations'] + aside, 'annotation')} to "
        f"{count(counts['items'], 'item')} in {classes}{uncounted}.{expected}"
    )


def _caution(warnings: Sequence[str]) -> Markup:
    if not warnings:
        return Markup()
    link = element("a", count(len(warnings), "warning"), href="#appendix")
    return element("p", "Read before relying on this report: ", link, ".", class_="note")


def _cards(todo: Data) -> Markup:
    stop, retrain, again, finished = len(todo["stop"]), len(todo["retrain"]), todo["open"], todo["finished"]
    return joined(
        card(f"{stop:,}", f"{plural(stop, 'worker')} to stop and check", "#do-stop", "bad" if stop else ""),
        card(f"{retrain:,}", f"{plural(retrain, 'worker')} to talk to", "#do-retrain", "warn" if retrain else ""),
        card(f"{again:,}", f"{plural(again, 'item')} to send out again", "#do-items", "warn" if again else ""),
        card(
            f"{finished:,}", f"of {count(todo['total'], 'item')} finished", "#do-finished", "good" if finished else ""
        ),
    )


def _about_people(data: Data) -> list[Markup]:
    todo, out = data["todo"], []
    if todo["stop"]:
        advice = "Assign them no further work until somebody has checked. The final labels already account for this."
        out.append(
            _block("do-stop", "Stop and check these workers", "bad", small(advice), *_people(todo["stop"], todo))
        )
    if todo["retrain"]:
        advice = "Their labels can be used. Workers with most wrong labels first."
        out.append(
            _block("do-retrain", "Talk to these workers", "warn", small(advice), *_people(todo["retrain"], todo))
        )
    if not out:
        nothing = all(verdict == "unknown" for verdict in data["workers"]["verdict"])
        sentence = (
            "Nothing can be said about the workers: there is nothing to compare their labels with."
            if nothing
            else "No worker stands out by wrong labels."
        )
        out.append(_block("do-retrain", "Workers", "good", element("p", sentence)))
    if todo["questions"]:
        lines = [
            element(
                "li",
                element("b", f"{data['names'][one['first']]} or {data['names'][one['second']]}?", dir="auto"),
                element("p", one["sentence"]),
            )
            for one in todo["questions"][: todo["shown"]]
        ]
        more = len(todo["questions"]) > todo["shown"]
        out.append(
            _block(
                "do-questions",
                "Clarify in the guideline",
                "plain",
                small("Most workers confuse these classes, so the instructions are probably unclear."),
                element("ul", *lines, class_="people"),
                small(element("a", "All confusions", href="#confusions")) if more else None,
            )
        )
    return out


def _people(people: Sequence[Data], todo: Data) -> list[Markup]:
    lines = [
        element(
            "li",
            element(
                "div",
                element("a", one["name"], href="#workers", dir="auto", data_worker=str(one["index"])),
                pill(one["verdict"]),
                class_="who",
            ),
            element("p", element("b", f"{one['action']}. "), one["sentence"]),
        )
        for one in people[: todo["shown"]]
    ]
    out = [element("ul", *lines, class_="people")]
    left = len(people) - todo["shown"]
    if left > 0:
        out.append(small(element("a", f"{left:,} more in the table of workers", href="#workers")))
    return out


def _about_items(data: Data) -> list[Markup]:
    todo, out = data["todo"], []
    open_at, finished_at = todo["at"]
    if todo["open"]:
        lines = [
            element("li", element("span", _probable(data, one, 2, " or "), class_="now"), _item(data, one["item"]))
            for one in data["again"][: todo["shown"]]
        ]
        out.append(
            _block(
                "do-items",
                f"Send out again: {count(todo['open'], 'item')}",
                "warn",
                small(f"Their {_what(todo)} is less than {percent(open_at)} probable. Least certain first."),
                element("ul", *lines, class_="people"),
                small(
                    element("a", "Who gave which label", href="#again"),
                    " · all of them as a file: ",
                    element("code", todo["command"]),
                ),
            )
        )
    if todo["rounds"]:
        out.append(_costs(todo["rounds"]))
    known = f"; {count(data['known'], 'item')} had a known true label" if data["known"] else ""
    bars = [
        (f"finished ({percent(finished_at)} or more)", todo["finished"]),
        (f"probable ({percent(open_at)}–{percent(finished_at)})", todo["probable"]),
        (f"open (under {percent(open_at)})", todo["open"]),
    ]
    rows = [
        part
        for words, size in bars
        for part in (
            element("span", words),
            element(
                "svg",
                # Lengths as attributes: the policy of the page allows no styles of elements.
                element("rect", width=percent(size / max(1, todo["total"]), 2), height="100%", rx="3"),
                class_="bar",
                aria_hidden="true",
            ),
            element("span", f"{size:,}", class_="num"),
        )
    ]
    out.append(
        _block(
            "do-finished",
            "What is finished",
            "good",
            small(f"Items by the probability of their label{known}."),
            element("div", *rows, class_="bars"),
        )
    )
    return out


def _costs(rounds: Sequence[Data]) -> Markup:
    priced, simulated = rounds[0]["cost"] is not None, rounds[0]["corrected"] is not None
    names = ["annotations"] + ["cost"] * priced + ["labels corrected"] * simulated
    rows = []
    for one in rounds:
        cells = [f"{one['annotations']:,}"]
        cells += [money(one["cost"])] if priced else []
        if simulated:
            cells.append("under 1" if one["corrected"] < 0.5 else f"about {one['corrected']:,.0f}")
        rows.append([f"+{one['each']}", *cells])
    return _block(
        "do-cost",
        "What it costs",
        "plain",
        small(
            "Each round has one further annotation per item to send out again, given to the items that are least certain at "
            f"that time{'.' if priced else '. Write the report with --cost to see prices.'}"
        ),
        grid(["rounds", *names], rows, "tight", numbers=range(1, len(names) + 1)),
    )


# ---------------------------------------------------------------------- the tops of the tables


def _workers(data: Data) -> Markup:
    crew = data["workers"]
    graded = "severity" in crew
    wrong = [n * (1 - (p or 0.0)) for n, p in zip(crew["annotations"], crew["accuracy"], strict=True)]
    severity = list(VERDICTS)
    order = sorted(range(len(wrong)), key=lambda j: (severity.index(crew["verdict"][j]), -wrong[j]))
    rows = [
        [
            crew["worker"][j],
            element(
                "span",
                pill(crew["verdict"][j]),
                element("span", VERDICTS[crew["verdict"][j]][3], class_="small"),
                class_="verdict",
            ),
            _severity(crew, j)
            if graded
            else f"{percent(crew['accuracy'][j])} {ends(crew['accuracy_low'][j], crew['accuracy_high'][j])}",
            f"{crew['annotations'][j]:,}",
            "–" if crew["place"][j] == "unknown" else crew["place"][j],
        ]
        for j in order[:ROWS]
    ]
    quality = "severity" if graded else "accuracy"
    return top(["worker", "verdict", quality, "annotations", "rank"], rows, len(order), numbers=(2, 3, 4))


def _what(todo: Data) -> str:
    """Return what of an item is more or less probable."""
    return "true grade, or one next to it," if todo["graded"] else "label"


def _severity(crew: Data, j: int) -> str:
    """Return the severity of a rater with its interval: by how many grades lower than the mean rater."""
    low, high = crew["severity_low"][j], crew["severity_high"][j]
    return f"{crew['severity'][j]:+.2f}" + ("" if low is None else f" ({low:+.2f} to {high:+.2f})")


def _confusions(data: Data) -> Markup:
    pairs = data["crowd"]["pairs"]
    rows = [
        [class_name(data, k), class_name(data, m), percent(often / of), f"{often:,} of {of:,}"]
        for k, m, often, of in pairs[:ROWS]
    ]
    if not rows:
        return small("No annotation differs from the final label of its item.")
    return top(["final label", "label given", "share", "annotations"], rows, len(pairs), numbers=(2, 3))


def _again(data: Data) -> Markup:
    rows = [
        [_item(data, one["item"]), _probable(data, one, 3, ", "), _votes(data, one["item"])]
        for one in data["again"][:ROWS]
    ]
    if not rows:
        return small(f"None: every {_what(data['todo'])} is at least {percent(data['todo']['at'][0])} probable.")
    return top(["item", "probable labels", "labels given"], rows, data["todo"]["open"])


def _items(data: Data) -> Markup:
    items = data["items"]
    known = set(items["known"])
    total = len(items["task"])
    least = heapq.nsmallest(ROWS, range(total), key=lambda i: items["probability"][i])
    rows = [
        [
            _item(data, i),
            class_name(data, items["label"][i]) + (" (known)" if i in known else ""),
            percent(items["probability"][i], 1),
            f"{items['annotations'][i]:,}",
            _votes(data, i),
        ]
        for i in least
    ]
    names = ["item", "label", "probability", "annotations", "labels given"]
    return top(names, rows, total, numbers=(2, 3))


def _notes(data: Data) -> Markup:
    warnings = [element("p", sentence, class_="note") for sentence in data["warnings"]]
    if not data["notes"]:
        return joined(*warnings)
    notes = element("ul", *(element("li", sentence) for sentence in data["notes"]))
    return joined(*warnings, element("h3", "Notes on the data"), notes)


# ---------------------------------------------------------------------- words and elements


def class_name(data: Data, code: int) -> str:
    """Return the name of a class in tables: "class 0" for numbers, other names as they are."""
    name = str(data["names"][code])
    return name if name.startswith("class ") else str(data["labels"][code])


def percent(share: float | None, digits: int = 0) -> str:
    """Return a share as a percentage, a dash where there is none."""
    return "–" if share is None else f"{100 * share:.{digits}f}%"


def ends(low: float | None, high: float | None) -> str:
    """Return the ends of an interval of shares in parentheses, nothing where there is none."""
    return "" if low is None or high is None else f"({100 * low:.0f}–{100 * high:.0f}%)"


def plural(number: int, word: str) -> str:
    """Return a word in the form that follows a number."""
    return word if number == 1 else f"{word}s"


def count(number: int, word: str) -> str:
    """Return a number with its word."""
    return f"{number:,} {plural(number, word)}"


def small(*children: str | None) -> Markup:
    """Return a paragraph in small letters."""
    return element("p", *children, class_="small")


def card(value: str, words: str, link: str, kind: str = "") -> Markup:
    """Return a key figure that leads to what it counts."""
    return element("a", element("b", value), element("span", words), class_=f"card {kind}".rstrip(), href=link)


def pill(verdict: str) -> Markup:
    """Return a verdict with its mark."""
    words, kind, mark, _ = VERDICTS[verdict]
    return element("span", element("span", mark, class_="mark", aria_hidden="true"), words, class_=f"pill {kind}")


def grid(names: Sequence[str], rows: Iterable[Sequence[str]], kind: str, numbers: Iterable[int] = ()) -> Markup:
    """Return a table, with a label at each cell for narrow screens.

    Args:
        names: of the columns.
        rows: their cells, the first of which is the name of the row.
        kind: class of the table.
        numbers: positions of columns of numbers.
    """
    right = set(numbers)
    head = [element("th", name, scope="col", class_="num" if n in right else None) for n, name in enumerate(names)]
    body = []
    for row in rows:
        first = element("th", row[0], scope="row", dir="auto")
        rest = [
            element("td", cell, class_="num" if n in right else None, data_label=names[n])
            for n, cell in enumerate(row)
            if n > 0
        ]
        body.append(element("tr", first, *rest))
    return element("table", element("thead", element("tr", *head)), element("tbody", *body), class_=kind)


def top(names: Sequence[str], rows: Sequence[Sequence[str]], total: int, numbers: Iterable[int] = ()) -> Markup:
    """Return the first rows of a table, with a line on the others."""
    left = total - len(rows)
    more = small(f"... and {left:,} more, shown where JavaScript is allowed.") if left > 0 else None
    return joined(grid(names, rows, "data", numbers), more)


def _paragraphs(*sentences: str) -> Markup:
    return joined(*(element("p", sentence) for sentence in sentences))


def _block(place: str, title: str, kind: str, *children: str | None) -> Markup:
    return element("section", element("h3", title), *children, class_=f"block {kind}", id=place, aria_label=title)


def _probable(data: Data, one: Data, most: int, between: str) -> str:
    return between.join(f"{class_name(data, k)} {percent(p)}" for k, p in one["probabilities"][:most])


def _votes(data: Data, i: int) -> str:
    return ", ".join(f"{class_name(data, k)} × {often:,}" for k, often in data["items"]["votes"][i]) or "none"


def _item(data: Data, i: int) -> Markup:
    """Return an item's identifier, as a link if there is one, and the beginning of its text. Links were checked before."""
    items = data["items"]
    url, text = (items[key][i] if key in items else None for key in ("url", "text"))
    name = (
        element("a", items["task"][i], href=url, target="_blank", rel="noopener noreferrer", class_="name", dir="auto")
        if url
        else element("span", items["task"][i], class_="name", dir="auto")
    )
    excerpt = element("span", text, class_="excerpt", dir="auto") if text else None
    return element("span", name, excerpt, class_="item")
