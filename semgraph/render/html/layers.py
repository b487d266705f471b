"""Boxes in layers: each stands below those that lead to it, and lines bend around others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from semgraph.render.boxes import Box, Point

_ACROSS, _DOWN = 22.0, 40.0  # pixels between boxes of a layer, between layers
_SWEEPS = 12
_BEND = (10.0, 0.0)  # the size of the place where a line passes a layer
Pair = tuple[str, str]
Node = Any  # a name, or the passage (source, target, layer) of a line through a layer


@dataclass(frozen=True)
class Layers:
    """Boxes by name; the points of each line, from the source's lower edge to the target's upper one;
    the size of the drawing.
    """

    boxes: Mapping[str, Box]
    lines: Mapping[Pair, Sequence[Point]]
    width: float
    height: float


def in_layers(sizes: Mapping[str, tuple[float, float]], edges: Iterable[Pair]) -> Layers:
    """Place boxes in layers. Deterministic.

    Args:
        sizes: Width and height of each box, in pixels.
        edges: Pairs (source, target). A line of a circle leads upwards.
    """
    lines = [pair for pair in dict.fromkeys(edges) if pair[0] != pair[1]]
    ranks = _ranks(sizes, _without_circles(sizes, lines))
    routes = {pair: _route(*pair, ranks) for pair in lines}
    every: dict[Node, tuple[float, float]] = dict(sizes)
    every |= {n: _BEND for route in routes.values() for n in route if n not in every}
    layers = _ordered(sizes, ranks, routes)
    centres = _centres(layers, routes, every)
    tops, top = [], 0.0
    for layer in layers:
        tops.append(top)
        top += max(every[node][1] for node in layer) + _DOWN
    left = min((centres[n] - every[n][0] / 2 for layer in layers for n in layer), default=0.0)
    boxes = {
        node: Box(x, tops[i], x + every[node][0], tops[i] + every[node][1])
        for i, layer in enumerate(layers)
        for node in layer
        for x in (centres[node] - every[node][0] / 2 - left,)
    }
    heights = [max(every[node][1] for node in layer) for layer in layers]
    return Layers(
        {name: boxes[name] for name in sizes},
        {pair: _points(route, boxes, tops, heights) for pair, route in routes.items()},
        max((box.right for box in boxes.values()), default=0.0),
        max((box.bottom for box in boxes.values()), default=0.0),
    )


def _without_circles(names: Iterable[str], pairs: Sequence[Pair]) -> Any:
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(pairs)
    while True:
        try:
            circle = nx.find_cycle(graph)
        except nx.NetworkXNoCycle:
            return graph
        graph.remove_edge(*circle[-1])


def _ranks(names: Iterable[str], graph: Any) -> dict[str, int]:
    """The layer of each name; one without sources is just above what it leads to."""
    import networkx as nx

    ranks = {name: i for i, layer in enumerate(nx.topological_generations(graph)) for name in layer}
    for name in names:
        after = [ranks[target] for target in graph.successors(name)]
        if after and not graph.in_degree(name):
            ranks[name] = min(after) - 1
    return ranks


def _route(source: str, target: str, ranks: Mapping[str, int]) -> list[Node]:
    """The source, the layers that the line passes, and the target."""
    first, last = ranks[source], ranks[target]
    step = 1 if first < last else -1
    return [source, *((source, target, i) for i in range(first + step, last, step)), target]


def _ordered(
    names: Iterable[str], ranks: Mapping[str, int], routes: Mapping[Pair, Sequence[Node]]
) -> list[list[Node]]:
    """The nodes of each layer, so that few lines cross: each near the mean of its neighbours."""
    layers: list[list[Node]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for name in names:
        layers[ranks[name]].append(name)
    for route in routes.values():
        for node in route[1:-1]:
            layers[node[2]].append(node)
    above, below = _neighbours(routes)
    for sweep in range(_SWEEPS):
        near = below if sweep % 2 else above
        for i in range(len(layers)) if near is above else reversed(range(len(layers))):
            place = {node: j for layer in layers for j, node in enumerate(layer)}
            layers[i].sort(
                key=lambda node: _mean([place[n] for n in near.get(node, ())], place[node])
            )
    return layers


def _neighbours(
    routes: Mapping[Pair, Sequence[Node]],
) -> tuple[dict[Node, list[Node]], dict[Node, list[Node]]]:
    above: dict[Node, list[Node]] = {}
    below: dict[Node, list[Node]] = {}
    for route in routes.values():
        for one, other in pairwise(route):
            above.setdefault(other, []).append(one)
            below.setdefault(one, []).append(other)
    return above, below


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _centres(
    layers: Sequence[Sequence[Node]],
    routes: Mapping[Pair, Sequence[Node]],
    sizes: Mapping[Node, tuple[float, float]],
) -> dict[Node, float]:
    """The middles of all nodes: near their neighbours, with the order of layers kept."""
    above, below = _neighbours(routes)
    centres: dict[Node, float] = {}
    for layer in layers:
        centres |= _packed(layer, dict.fromkeys(layer, 0.0), sizes)
    for sweep in range(_SWEEPS):
        near = below if sweep % 2 else above
        for layer in layers if near is above else reversed(layers):
            wanted = {n: _mean([centres[o] for o in near.get(n, ())], centres[n]) for n in layer}
            centres |= _packed(layer, wanted, sizes)
    return centres


def _packed(
    layer: Sequence[Node], wanted: Mapping[Node, float], sizes: Mapping[Node, tuple[float, float]]
) -> dict[Node, float]:
    """Middles near the wanted ones that keep the order and the space between boxes: the mean of
    packing from the left and from the right.
    """
    space = [(sizes[a][0] + sizes[b][0]) / 2 + _ACROSS for a, b in pairwise(layer)]
    right = [wanted[node] for node in layer]
    left = list(right)
    for i, gap in enumerate(space):
        right[i + 1] = max(right[i + 1], right[i] + gap)
    for i in reversed(range(len(space))):
        left[i] = min(left[i], left[i + 1] - space[i])
    return {node: (a + b) / 2 for node, a, b in zip(layer, left, right, strict=True)}


def _points(
    route: Sequence[Node],
    boxes: Mapping[Node, Box],
    tops: Sequence[float],
    heights: Sequence[float],
) -> list[Point]:
    """The points that a line passes; through a layer it is straight."""
    down = boxes[route[0]].top < boxes[route[-1]].top
    first, last = boxes[route[0]], boxes[route[-1]]
    points = [((first.left + first.right) / 2, first.bottom if down else first.top)]
    for node in route[1:-1]:
        x, top = (boxes[node].left + boxes[node].right) / 2, tops[node[2]]
        ends = [(x, top), (x, top + heights[node[2]])]
        points += ends if down else ends[::-1]
    return [*points, ((last.left + last.right) / 2, last.top if down else last.bottom)]
