"""Where the nodes of a picture stand: each connected part by itself, the parts side by side, no name upon another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any

_WIDE, _SPACE, _MARGIN = 1040.0, 175.0, 24.0
_LETTER, _LINE = 7.2, 44.0
_ROUNDS = 40

Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Places of nodes by key, in pixels, and how large the whole is."""

    places: Mapping[str, Point]
    width: float
    height: float


def layout(names: Mapping[str, str], edges: Sequence[tuple[str, str]]) -> Layout:
    """Place nodes. The same graph is always placed alike.

    Args:
        names: What nodes are called, by key.
        edges: Keys of both ends; ends that are no nodes are left.
    """
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(names)
    graph.add_edges_from(edge for edge in edges if edge[0] in names and edge[1] in names)
    parts = sorted(nx.connected_components(graph), key=len, reverse=True)
    places: dict[str, Point] = {}
    left, top, deep, wide = _MARGIN, _MARGIN, 0.0, 0.0
    for part in parts:
        inner, width, height = _part(graph.subgraph([key for key in names if key in part]), names)
        if left > _MARGIN and left + width > _WIDE:
            left, top, deep = _MARGIN, top + deep + _MARGIN, 0.0
        places |= {key: (left + x, top + y) for key, (x, y) in inner.items()}
        left, deep = left + width + _MARGIN, max(deep, height)
        wide = max(wide, left)
    return Layout(places, max(wide, 320.0), top + deep + _MARGIN)


def _part(graph: Any, names: Mapping[str, str]) -> tuple[dict[str, Point], float, float]:
    """A connected part, from (0, 0)."""
    keys = list(graph)
    if len(keys) == 1:
        found: dict[str, list[float]] = {keys[0]: [0.0, 0.0]}
    elif len(keys) == 2:
        found = {keys[0]: [0.0, 0.0], keys[1]: [_SPACE * 1.7, 0.0]}
    else:
        import networkx as nx

        side = _SPACE * sqrt(len(keys))
        spread = nx.spring_layout(graph, seed=1, iterations=150, k=1.6 / sqrt(len(keys)))
        found = {key: [float(x) * side / 2, float(y) * side / 2.8] for key, (x, y) in spread.items()}
    _apart(found, {key: _width(names[key]) for key in keys})
    half = {key: _width(names[key]) / 2 for key in keys}
    left, top = min(found[k][0] - half[k] for k in keys), min(found[k][1] for k in keys) - _LINE / 2
    right, bottom = max(found[k][0] + half[k] for k in keys), max(found[k][1] for k in keys) + _LINE / 2
    return {k: (x - left, y - top) for k, (x, y) in found.items()}, right - left, bottom - top


def _width(name: str) -> float:
    return max(40.0, min(len(name), 28) * _LETTER)


def _apart(places: dict[str, list[float]], widths: Mapping[str, float]) -> None:
    """Push nodes apart until no name lies upon another, or the rounds are over."""
    for _ in range(_ROUNDS):
        moved = False
        order = sorted(places, key=lambda key: places[key][1])
        for i, one in enumerate(order):
            for other in order[i + 1 :]:
                dx, dy = places[other][0] - places[one][0], places[other][1] - places[one][1]
                if dy >= _LINE:
                    break
                over = (widths[one] + widths[other]) / 2 + 10 - abs(dx)
                if over > 0:
                    moved = True
                    push = (_LINE - dy) / 2 + 0.5
                    places[one][1] -= push
                    places[other][1] += push
        if not moved:
            return


def bend(ends: Sequence[tuple[str, str]]) -> list[float]:
    """How far each edge is bent aside, so that those between the same nodes do not cover each other.

    >>> bend([("a", "b"), ("a", "b"), ("b", "c")])
    [-0.5, 0.5, 0.0]
    """
    together: dict[tuple[str, ...], list[int]] = {}
    for i, pair in enumerate(ends):
        together.setdefault(tuple(sorted(pair)), []).append(i)
    found = [0.0] * len(ends)
    for (one, _), members in together.items():
        for place, i in enumerate(members):
            aside = place - (len(members) - 1) / 2
            found[i] = aside if ends[i][0] == one else -aside
    return found


def path(start: Point, end: Point, aside: float) -> tuple[list[Point], Point]:
    """A curve between two nodes (start, control, end), kept off their circles, and the middle of it."""
    (x1, y1), (x2, y2) = start, end
    length = max(sqrt((x2 - x1) ** 2 + (y2 - y1) ** 2), 1.0)
    across = ((y1 - y2) / length * aside * 46, (x2 - x1) / length * aside * 46)
    control = ((x1 + x2) / 2 + across[0] * 2, (y1 + y2) / 2 + across[1] * 2)
    points = [_off(start, control, 11.0), control, _off(end, control, 14.0)]
    middle = tuple((points[0][i] + 2 * control[i] + points[2][i]) / 4 for i in (0, 1))
    return points, (middle[0], middle[1])


def _off(point: Point, towards: Point, distance: float) -> Point:
    length = max(sqrt(sum((b - a) ** 2 for a, b in zip(point, towards, strict=True))), 1.0)
    return point[0] + (towards[0] - point[0]) / length * distance, point[1] + (
        towards[1] - point[1]
    ) / length * distance


def ticks(most: float, number: int = 5) -> list[float]:
    """Round values from 0 to about `most`.

    >>> ticks(1.7), ticks(0)
    ([0.0, 0.5, 1.0, 1.5], [0.0])
    """
    if most <= 0:
        return [0.0]
    step = 10.0**-6
    for low, high in pairwise(10.0**e * f for e in range(-6, 9) for f in (1, 2, 5)):
        step = low
        if low * number >= most or high > most:
            break
    return [round(i * step, 9) for i in range(int(most / step) + 1)]
