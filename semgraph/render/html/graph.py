"""The graph that a run wrote, as coordinates for a drawing and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from semgraph.formats import count, shortened
from semgraph.render.picture import Arrow, Picture

_WIDE, _SPACE, _MARGIN = 1040.0, 175.0, 24.0
_LETTER, _LINE = 7.2, 44.0
_ROUNDS = 40

Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Positions of nodes by key, in pixels, and the size of the drawing."""

    places: Mapping[str, Point]
    width: float
    height: float


def layout(names: Mapping[str, str], edges: Sequence[tuple[str, str]]) -> Layout:
    """Place nodes. The layout of a graph is deterministic.

    Args:
        names: Names of nodes, by key.
        edges: Keys of both ends; unknown keys are ignored.
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
        places: dict[str, list[float]] = {keys[0]: [0.0, 0.0]}
    elif len(keys) == 2:
        places = {keys[0]: [0.0, 0.0], keys[1]: [_SPACE * 1.7, 0.0]}
    else:
        import networkx as nx

        side = _SPACE * sqrt(len(keys))
        spread = nx.spring_layout(graph, seed=1, iterations=150, k=1.6 / sqrt(len(keys)))
        places = {
            key: [float(x) * side / 2, float(y) * side / 2.8] for key, (x, y) in spread.items()
        }
    _spread(places, {key: _width(names[key]) for key in keys})
    half = {key: _width(names[key]) / 2 for key in keys}
    left, top = (
        min(places[k][0] - half[k] for k in keys),
        min(places[k][1] for k in keys) - _LINE / 2,
    )
    right, bottom = (
        max(places[k][0] + half[k] for k in keys),
        max(places[k][1] for k in keys) + _LINE / 2,
    )
    return {k: (x - left, y - top) for k, (x, y) in places.items()}, right - left, bottom - top


def _width(name: str) -> float:
    return max(40.0, min(len(name), 28) * _LETTER)


def _spread(places: dict[str, list[float]], widths: Mapping[str, float]) -> None:
    """Push nodes away from each other until no names overlap, for a limited number of rounds."""
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
    """The curvature of each edge, so that edges between the same nodes do not overlap.

    >>> bend([("a", "b"), ("a", "b"), ("b", "c")])
    [-0.5, 0.5, 0.0]
    """
    by_ends: dict[tuple[str, ...], list[int]] = {}
    for i, pair in enumerate(ends):
        by_ends.setdefault(tuple(sorted(pair)), []).append(i)
    bends = [0.0] * len(ends)
    for (first, _), parallel in by_ends.items():
        for place, i in enumerate(parallel):
            offset = place - (len(parallel) - 1) / 2
            bends[i] = offset if ends[i][0] == first else -offset
    return bends


def path(start: Point, end: Point, aside: float) -> tuple[list[Point], Point]:
    """A curve between two nodes (start, control, end) outside of their circles, and its middle."""
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


DRAWN = 200  # most nodes of a drawing
_NAMED = 40  # most edges of a drawing with names of edges
_ROWS = 500
_NAME = 28


def graph(picture: Picture, number: str) -> dict[str, Any]:
    """A graph as a table, and as a drawing if it is small enough.

    Args:
        picture: The graph.
        number: Its number on the page.
    """
    title = f"{f'“{picture.partition}”: ' if picture.partition else ''}{picture.counts}"
    ends = (end for edge in picture.edges.values() for end in (edge.source, edge.target))
    names = {key: picture.name(key) for key in dict.fromkeys([*picture.nodes, *ends])}
    drawn = 0 < len(names) <= DRAWN
    ended = any(edge.end for edge in picture.edges.values())
    unnamed = " The table has the names of edges." if len(picture.edges) > _NAMED else ""
    return {
        "title": title,
        "number": number,
        "drawing": _drawing(picture, names) if drawn else None,
        "legend": f"{title}. Dashed: no longer holds.{unnamed}" if ended else f"{title}.{unnamed}",
        "table": _edges_table(picture, title) if picture.edges else None,
        "alone": _alone(picture),
    }


def _drawing(picture: Picture, names: Mapping[str, str]) -> dict[str, Any]:
    edges = list(picture.edges.values())
    ends = [(edge.source, edge.target) for edge in edges]
    placed = layout(names, ends)
    first = "; ".join(
        f"{picture.name(e.source)} {e.name} {picture.name(e.target)}" for e in edges[:10]
    )
    more = f"; and {len(edges) - 10:,} more, all in the table below" if len(edges) > 10 else ""
    shapes = [
        _edge(edge, placed.places, aside) for edge, aside in zip(edges, bend(ends), strict=True)
    ]
    return {
        "width": f"{placed.width:.0f}",
        "height": f"{placed.height:.0f}",
        "description": first + more,
        "edges": shapes,
        "named": len(edges) <= _NAMED,
        "nodes": [
            {
                "title": name,
                "name": shortened(name, _NAME),
                "x": _px(x),
                "y": _px(y),
                "below": _px(y + 22),
            }
            for key, name in names.items()
            for x, y in (placed.places[key],)
        ],
    }


def _edge(edge: Arrow, places: Mapping[str, Point], aside: float) -> dict[str, Any]:
    curve, (x, y) = path(places[edge.source], places[edge.target], aside)
    if edge.source == edge.target:
        left, top = places[edge.source]
        d = (
            f"M{left - 6:.1f} {top - 9:.1f}"
            f"C{left - 30:.1f} {top - 44:.1f} {left + 30:.1f} {top - 44:.1f} {left + 6:.1f} {top - 10:.1f}"
        )
    else:
        (x1, y1), (cx, cy), (x2, y2) = curve
        d = f"M{x1:.1f} {y1:.1f}Q{cx:.1f} {cy:.1f} {x2:.1f} {y2:.1f}"
    lift = -34 if edge.source == edge.target else -3
    return {
        "title": " · ".join(part for part in (edge.name, edge.text, edge.holds) if part),
        "name": shortened(edge.name, _NAME),
        "ended": bool(edge.end),
        "d": d,
        "x": _px(x),
        "y": _px(y + lift),
    }


def _px(value: float) -> str:
    return f"{value:.1f}"


def _edges_table(picture: Picture, title: str) -> dict[str, Any]:
    edges = list(picture.edges.values())
    rest = f" The first {count(_ROWS)} of {count(len(edges))} edges." if len(edges) > _ROWS else ""
    heads = ["from", "edge", "to", "text", "valid from", "until", "sources"]
    rows = [
        [
            picture.name(e.source), e.name, picture.name(e.target), e.text, e.start, e.end,
            count(len(e.sources)) if e.sources else "",
        ]
        for e in edges[:_ROWS]
    ]  # fmt: skip
    used = [i for i in range(len(heads)) if i < 3 or any(row[i] for row in rows)]
    return {
        "caption": f"Edges of {title}.{rest}",
        "heads": [heads[i] for i in used],
        "rows": [[row[i] for i in used] for row in rows],
        "numbers": set(),
        "cls": "",
    }


def _alone(picture: Picture) -> str:
    """The nodes without an edge, as a sentence; "" if there are none."""
    tied = {end for edge in picture.edges.values() for end in (edge.source, edge.target)}
    alone = [name for key, name in picture.nodes.items() if key not in tied]
    if not alone:
        return ""
    more = f" … and {count(len(alone) - _ROWS)} more" if len(alone) > _ROWS else ""
    lead = "Nodes without an edge: " if picture.counts_edges else "Nodes: "
    return lead + ", ".join(alone[:_ROWS]) + more
