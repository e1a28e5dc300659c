"""Draw the plate diagram of every model of the zoo from its Pyro program: ``python docs/plates.py``.

The three methods of a model are run once while Pyro tracks which sites each distribution depends on. Nodes are sites, shaded
where observed; boxes are plates. Output is the same at every run; a test compares it with docs/images/plates/.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
import pyro
import torch
from pyro import poutine
from pyro.infer.inspect import TrackProvenance
from pyro.ops.provenance import ProvenanceTensor, detach_provenance, get_provenance

from crowdppl import AnnotationModel, Annotations
from crowdppl.isolation import isolated
from crowdppl.model.base import provides
from crowdppl.model.bound import bind
from crowdppl.model.numeric import StandardLabels
from crowdppl.model.stated import is_unknown
from crowdppl.models import CATALOGUE, NUMERIC, LabelSets, LinearGaussian

FOLDER = Path(__file__).parent / "images" / "plates"


@dataclass(frozen=True)
class Node:
    """A random variable or a known input; ``plate`` is ``None`` for one that all items and workers share."""

    name: str
    kind: str  # the distribution, or "given" for an input
    plate: str | None
    observed: bool = False


@dataclass(frozen=True)
class Graph:
    """Nodes in the order of the program, and edges from parent to child."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[str, str], ...]


def design() -> Annotations:
    """Return a few annotations with features, on which every model of the zoo runs."""
    rng = np.random.default_rng(0)
    task, worker = np.repeat(np.arange(6), 3), np.tile(np.arange(3), 6)
    return Annotations.from_arrays(
        task, worker, rng.integers(0, 2, 18), labels=range(2), features=rng.normal(size=(6, 2))
    )


def graph(model: AnnotationModel) -> Graph:
    """Run a model's prior, truth and emission and return what depends on what."""
    data = design()
    if isinstance(model, LabelSets):
        data = data._in_sets(np.arange(data.N) // 2, np.arange(data.N) % 2, np.array(["a", "b"], dtype=object))
    elif provides(model, "coupling"):
        tokens = pd.DataFrame({"task": data.items, "sequence": 0, "position": range(data.N)})
        data = data.with_sequences(tokens)
    with isolated(0), torch.no_grad(), pyro.validation_enabled(False):
        bound = bind(model, data)
        arranged = model.expand(data)
        own_truth = arranged.parent_item is not None  # each annotation has a truth of its own
        if own_truth:
            data = data.per_annotation()
        data = replace(data, features=ProvenanceTensor(data.features, frozenset({"features"})))
        if arranged.class_scores is not None:
            data = replace(data, class_scores=ProvenanceTensor(arranged.class_scores, frozenset({"features"})))
        with poutine.trace() as traced, TrackProvenance():
            parameters = bound.prior(data, bound.plates(data))
            truth = pyro.sample("truth", bound.truth(parameters, data))
        under_each = bound.emission(parameters, data).log_prob(data.label.unsqueeze(-1))  # (A, S)
        label = under_each * truth.reshape(-1)[0]

    sites = {name: site for name, site in traced.trace.nodes.items() if is_unknown(site)}
    nodes, parents = [], {}
    for name, site in sites.items():
        plate = next((frame.name for frame in site["cond_indep_stack"]), None)
        if name == "truth":
            plate = "annotation" if own_truth else "item"
        nodes.append(Node(name, kind(site["fn"]), plate))
        parents[name] = get_provenance(site["fn"].log_prob(detach_provenance(site["value"])))
    nodes.append(Node("label", kind(bound.emission(parameters, data)), "annotation", observed=True))
    parents["label"] = get_provenance(label)
    if any("features" in of for of in parents.values()):
        nodes.insert(0, Node("features", "given", "item", observed=True))
    order = [node.name for node in nodes]
    edges = [(a, b) for b in order for a in order if a != b and a in parents.get(b, ())]
    return Graph(tuple(nodes), tuple(edges))


def graph_of_numbers(model: LinearGaussian) -> Graph:
    """Return what depends on what in a model of numbers, whose program has the truth integrated out: it is put back."""
    data = design()
    rng = np.random.default_rng(0)
    labels = Annotations.from_arrays(
        data.item.numpy(), data.worker.numpy(), rng.normal(size=data.A), kind="numeric", features=data.features
    )
    with isolated(0), torch.no_grad(), pyro.validation_enabled(False):
        standard = StandardLabels.of(labels)  # type: ignore[arg-type]  # numbers give this type
        standard = replace(standard, features=ProvenanceTensor(standard.features, frozenset({"features"})))
        with poutine.trace() as traced, TrackProvenance():
            model.program(standard)
    nodes, parents = [Node("features", "given", "item", observed=True)], {}
    sites = {name: site for name, site in traced.trace.nodes.items() if site["type"] == "sample" and name != "worker"}
    of_labels = sites.pop("labels")["fn"]
    for name, site in sites.items():
        plate = next((frame.name for frame in site["cond_indep_stack"]), None)
        nodes.append(Node(name, kind(site["fn"]), plate))
        parents[name] = get_provenance(site["fn"].log_prob(detach_provenance(site["value"])))
    nodes += [Node("truth", "Normal", "item"), Node("label", "Normal", "annotation", observed=True)]
    parents["truth"] = get_provenance((of_labels.truth_sd, of_labels.centre))
    parents["label"] = get_provenance((of_labels.intercept, of_labels.slope, of_labels.noise)) | {"truth"}
    order = [node.name for node in nodes]
    edges = [(a, b) for b in order for a in order if a != b and a in parents.get(b, ())]
    return Graph(tuple(nodes), tuple(edges))


def kind(distribution: Any) -> str:
    """Return the name of a distribution without the wrappers that shape it."""
    while hasattr(distribution, "base_dist") and type(distribution).__name__ in (
        "Independent",
        "ExpandedDistribution",
        "MaskedDistribution",
    ):
        distribution = distribution.base_dist
    return type(distribution).__name__


# ---------------------------------------------------------------------- the picture

INK, LINE, SOFT, SHADE, BOX = "#22303c", "#5b6b78", "#7b8a96", "#cfdde6", "#f6f9fb"
HEIGHT, ROW, GAP, MARGIN = 46, 84, 22, 14  # of a node; between rows; between nodes; inside a plate
PLATES = {"worker": "J workers", "item": "N items", "annotation": "A annotations"}


def width(node: Node) -> float:
    """Return the width of a node in pixels, from the lengths of its two lines."""
    return max(8.2 * len(node.name), 6.6 * len(node.kind)) + 34


def row(nodes: list[Node], centre: float, y: float) -> dict[str, tuple[float, float]]:
    """Return the centres of nodes side by side."""
    x = centre - span(nodes) / 2
    places = {}
    for node in nodes:
        places[node.name] = (x + width(node) / 2, y)
        x += width(node) + GAP
    return places


def span(nodes: list[Node]) -> float:
    """Return the width of nodes side by side."""
    return sum(map(width, nodes)) + GAP * max(0, len(nodes) - 1)


def layout(graph: Graph) -> tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float, float, float]]]:
    """Return the centres of nodes, and plates as (left, top, right, bottom).

    Workers are on the left, items on the right, annotations below. Shared parameters stand above the plates of their children,
    and those of the label alone between the plates.
    """
    children = {node.name: [b for a, b in graph.edges if a == node.name] for node in graph.nodes}
    plate = {node.name: node.plate for node in graph.nodes}
    inside = {box: [node for node in graph.nodes if node.plate == box] for box in PLATES}
    inside["item"].reverse()  # features on the outside
    inside["annotation"].reverse()  # a truth of each annotation on the side of the items
    above: dict[str, list[Node]] = {"worker": [], "middle": [], "item": []}
    middle = []
    for node in graph.nodes:
        if node.plate is None:
            plates = {plate[child] for child in children[node.name]}
            if plates == {"annotation"}:
                middle.append(node)
            else:
                above["worker" if "worker" in plates else "item"].append(node)

    middle.sort(key=lambda node: "truth" in children[node.name])

    top = 16.0 + HEIGHT / 2
    second = top + (ROW if any(above.values()) else MARGIN)
    places: dict[str, tuple[float, float]] = {}
    x = 16.0
    for column, nodes in (("worker", inside["worker"]), ("middle", middle), ("item", inside["item"])):
        if nodes:
            inner = span(nodes) + (0 if column == "middle" else 2 * MARGIN)
            room = max(inner, span(above[column]))
            first = (
                nodes[0] if column == "item" else None
            )  # parameters stand above the truth, beside which features stand
            centre = x + room / 2
            places |= row(nodes, centre, second)
            head = places[first.name][0] if first else centre
            places |= row(above[column], max(head, x + span(above[column]) / 2), top)
            x += room + GAP
    parents = [places[a][0] for a, b in graph.edges if plate[b] == "annotation" and a in places]
    places |= row(inside["annotation"], (min(parents) + max(parents)) / 2, second + ROW + 34)

    boxes = {}
    for box, nodes in inside.items():
        if nodes:
            x1 = min(places[node.name][0] - width(node) / 2 for node in nodes) - MARGIN
            x2 = max(places[node.name][0] + width(node) / 2 for node in nodes) + MARGIN
            y = places[nodes[0].name][1]
            boxes[box] = (x1, y - HEIGHT / 2 - MARGIN, x2, y + HEIGHT / 2 + MARGIN + 12)
    return places, boxes


def edge(graph: Graph, places: dict[str, tuple[float, float]], a: str, b: str) -> str:
    """Return the path between the borders of two nodes: straight, or bent around a node that stands in the way."""
    of = {node.name: width(node) / 2 for node in graph.nodes}
    (x1, y1), (x2, y2) = places[a], places[b]
    bend = ((x1 + x2) / 2, (y1 + y2) / 2)
    for name, (x, y) in places.items():
        if name not in (a, b) and y1 < y < y2 and abs(x1 + (x2 - x1) * (y - y1) / (y2 - y1) - x) < of[name]:
            bend = (x - 2 * of[name] - 30, y)
    start = border((x1, y1), bend, of[a], 0)
    end = border((x2, y2), bend, of[b], 3)
    return f"M{start[0]:.1f} {start[1]:.1f}Q{bend[0]:.1f} {bend[1]:.1f} {end[0]:.1f} {end[1]:.1f}"


def border(centre: tuple[float, float], towards: tuple[float, float], half: float, gap: float) -> tuple[float, float]:
    """Return the point on the border of a node in the direction of another point."""
    dx, dy = towards[0] - centre[0], towards[1] - centre[1]
    share = 1 / np.hypot(dx / half, dy / (HEIGHT / 2)) + gap / np.hypot(dx, dy)
    return centre[0] + dx * share, centre[1] + dy * share


def svg(graph: Graph, title: str) -> str:
    """Return the diagram; its elements carry the names of nodes, plates and edges."""
    places, boxes = layout(graph)
    right = max([box[2] for box in boxes.values()] + [places[n.name][0] + width(n) / 2 for n in graph.nodes]) + 16
    bottom = max(box[3] for box in boxes.values()) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right:.0f} {bottom:.0f}" width="{right:.0f}" '
        f'height="{bottom:.0f}" role="img" font-family="Helvetica, Arial, sans-serif" text-anchor="middle">',
        f"<title>{escape(title)}</title>",
        f'<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 1 10 5 0 9z" fill="{LINE}"/></marker></defs>',
        f'<rect width="{right:.0f}" height="{bottom:.0f}" fill="#fff"/>',
    ]
    for plate, (x1, y1, x2, y2) in boxes.items():
        lines.append(
            f'<g data-plate="{plate}"><rect x="{x1:.1f}" y="{y1:.1f}" width="{x2 - x1:.1f}" height="{y2 - y1:.1f}" rx="12" '
            f'fill="{BOX}" stroke="{LINE}"/><text x="{x1 + 10 if plate == "worker" else x2 - 10:.1f}" y="{y2 - 8:.1f}" '
            f'font-size="12" fill="{SOFT}" text-anchor="{"start" if plate == "worker" else "end"}">{PLATES[plate]}</text></g>'
        )
    for a, b in graph.edges:
        lines.append(
            f'<path data-from="{a}" data-to="{b}" d="{edge(graph, places, a, b)}" fill="none" stroke="{LINE}" stroke-width="1.4" '
            f'marker-end="url(#arrow)"/>'
        )
    for node in graph.nodes:
        x, y = places[node.name]
        fill = SHADE if node.observed else "#fff"
        lines.append(
            f'<g data-node="{node.name}"><ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{width(node) / 2:.1f}" ry="{HEIGHT / 2}" '
            f'fill="{fill}" stroke="{INK}" stroke-width="1.3"/><text x="{x:.1f}" y="{y - 1:.1f}" font-size="14" '
            f'fill="{INK}">{node.name}</text>'
            f'<text x="{x:.1f}" y="{y + 14:.1f}" font-size="11" fill="{SOFT}">{node.kind}</text></g>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def pictures() -> dict[str, str]:
    """Return the diagram of every model of the zoo, by its file name."""
    graphs = {name: graph(model()) for name, model in CATALOGUE.items()}
    graphs |= {name: graph_of_numbers(model()) for name, model in NUMERIC.items()}
    return {f"{name}.svg": svg(one, f"Plate diagram of {name}") for name, one in graphs.items()}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
