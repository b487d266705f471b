"""The graph that a run wrote: coordinates for a drawing, facts for its page, and a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from textwrap import wrap
from typing import Any, NamedTuple

from semgraph.formats import count, plural, shortened
from semgraph.render.picture import Arrow, Picture
from semgraph.render.svg import SHAPES, Box, Point, apart, free
from semgraph.render.tables import Column, page_table

DRAWN, DRAWN_EDGES = 80, 300  # maximum nodes and edges of a drawing
KINDS = 8  # number of label colours
_ROWS = 500
_SOURCES, _SOURCE = 5, 200  # sources of an edge in the page's script, characters of each
_TEXT = 1000  # characters of a text in the page's script
_WIDE, _MARGIN = 1040.0, 28.0
_LETTER, _SMALL, _LINE = 7.0, 6.0, 14.0  # pixels of a letter of a node and of an edge; of a line
_NAME, _LINES = 22, 8  # letters of a line, lines of a node
_EDGE_NAME = 40
_SHAPE = 13.0  # from the centre of a node to the ends of edges
_ALONG = (0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78)  # candidate positions for the name of an edge


@dataclass(frozen=True)
class Layout:
    """Positions of nodes by key, in pixels, and the size of the drawing."""

    places: Mapping[str, Point]
    width: float
    height: float


def lines_of(name: str) -> list[str]:
    """The lines of a node's name, at most eight.

    >>> lines_of("Ada Costa: I have joined Luma in Riga.")
    ['Ada Costa: I have', 'joined Luma in Riga.']
    """
    return wrap(shortened(name, _NAME * _LINES), _NAME, max_lines=_LINES, placeholder=" …") or [""]


def _box(name: str) -> Box:
    """The space of a node around its centre: the shape, and its name below."""
    lines = lines_of(name)
    wide = max(26.0, max(map(len, lines)) * _LETTER)
    return Box(-wide / 2 - 5, -12.0, wide / 2 + 5, 14.0 + _LINE * len(lines))


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
    """The layout of a connected component, from (0, 0)."""
    keys = list(graph)
    boxes = {key: _box(names[key]) for key in keys}
    places = apart(_springs(graph, keys, boxes), boxes)
    around = [boxes[key].at(places[key]) for key in keys]
    left, top = min(box.left for box in around), min(box.top for box in around)
    right, bottom = max(box.right for box in around), max(box.bottom for box in around)
    return {k: (x - left, y - top) for k, (x, y) in places.items()}, right - left, bottom - top


def _springs(graph: Any, keys: Sequence[str], boxes: Mapping[str, Box]) -> dict[str, Point]:
    """Positions that place connected nodes close together. Names fill at most a fifth of the area,
    and there is room for the names of edges.
    """
    if len(keys) == 1:
        return {keys[0]: (0.0, 0.0)}
    if len(keys) == 2:
        return {keys[0]: (0.0, 0.0), keys[1]: (300.0, 0.0)}
    import networkx as nx

    names = sum(box.area for box in boxes.values())
    area = names * 5 + 60_000 + 20_000 * graph.number_of_edges()
    wide = min(sqrt(area * 1.7), _WIDE)
    high = area / wide
    start = nx.circular_layout(graph)
    spread = nx.spring_layout(graph, pos=start, seed=1, iterations=200, k=1.8 / sqrt(len(keys)))
    return {key: (float(x) * wide / 2, float(y) * high / 2) for key, (x, y) in spread.items()}


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


def path(start: Point, end: Point, aside: float, boxes: tuple[Box, Box]) -> list[Point]:
    """A curve between two nodes (start, control, end), outside of their shapes and names."""
    (x1, y1), (x2, y2) = start, end
    length = max(sqrt((x2 - x1) ** 2 + (y2 - y1) ** 2), 1.0)
    across = ((y1 - y2) / length * aside * 46, (x2 - x1) / length * aside * 46)
    control = ((x1 + x2) / 2 + across[0] * 2, (y1 + y2) / 2 + across[1] * 2)
    return [_leave(start, control, boxes[0]), control, _leave(end, control, boxes[1])]


def _leave(point: Point, towards: Point, box: Box) -> Point:
    """The point where the line from a node leaves its shape, or its name if the line crosses it."""
    dx, dy = towards[0] - point[0], towards[1] - point[1]
    share = _SHAPE / max(sqrt(dx * dx + dy * dy), 1.0)
    if dy > 0 and abs(dx / dy * _SHAPE) < box.right:
        share = min(box.bottom / dy, box.right / abs(dx) if dx else 1.0)
    share = min(share, 0.9)
    return point[0] + dx * share, point[1] + dy * share


def graph(picture: Picture, number: str) -> dict[str, Any]:
    """A graph as a drawing, as facts for the page's script, and as a table."""
    title = f"{f'“{picture.partition}”: ' if picture.partition else ''}{picture.counts}"
    ends = (end for edge in picture.edges.values() for end in (edge.source, edge.target))
    keys = dict.fromkeys([*picture.nodes, *ends])
    drawn = _drawn(picture, keys)
    edges = [e for e in picture.edges.values() if e.source in drawn and e.target in drawn]
    edges = edges[:DRAWN_EDGES]
    drawing = _Drawing(picture, drawn, edges)
    return {
        "title": title,
        "number": number,
        "drawing": drawing.shapes(),
        "legend": drawing.legend(),
        "notes": [*_left_out(picture, len(keys), len(drawn), len(edges)), *drawing.notes()],
        "facts": drawing.facts(),
        "table": _edges_table(picture, title) if picture.edges else None,
        "alone": _alone(picture),
    }


def _drawn(picture: Picture, keys: Mapping[str, None]) -> list[str]:
    """The nodes of the drawing: all, or those with the most edges."""
    if len(keys) <= DRAWN:
        return list(keys)
    edges = Counter(key for e in picture.edges.values() for key in {e.source, e.target})
    most = set(sorted(keys, key=lambda key: -edges[key])[:DRAWN])
    return [key for key in keys if key in most]


def _left_out(picture: Picture, nodes: int, drawn: int, edges: int) -> Iterator[str]:
    """Sentences on the parts that the drawing omits."""
    if drawn < nodes or edges < len(picture.edges):
        most = " with the most edges" if drawn < nodes else ""
        rest = f"{plural(nodes - drawn, 'node')} and {plural(len(picture.edges) - edges, 'edge')}"
        yield f"Drawn: {plural(drawn, 'node')}{most}, {plural(edges, 'edge')} between them. Not drawn: {rest}."
    if picture.loose:
        number = plural(len(picture.loose), "more edge")
        yield f"{number} without a text, with an end that this run did not write: not drawn."


class Kind(NamedTuple):
    """A label of nodes or edges, which has a colour, or in a difference what became of them; and
    whether it belongs to edges.
    """

    label: str
    edge: bool
    signed: bool = False


class _Drawing:
    """The shapes of some nodes and edges of a picture, and their facts for the page."""

    def __init__(self, picture: Picture, keys: Sequence[str], edges: Sequence[Arrow]) -> None:
        self.picture, self.keys, self.edges = picture, keys, edges
        self.names = {key: picture.name(key) for key in keys}
        self.kinds = Counter([*map(self._node_kind, keys), *map(self._edge_kind, edges)])
        self.place = {kind: i for i, kind in enumerate(self.kinds)}
        self.unnamed = 0

    def _label(self, key: str) -> str:
        return self.picture.nodes[key].label if key in self.picture.nodes else ""

    def _node_kind(self, key: str) -> Kind:
        sign = self.picture.nodes[key].sign if key in self.picture.nodes else ""
        return Kind(sign or self._label(key), edge=False, signed=bool(sign))

    def _edge_kind(self, edge: Arrow) -> Kind:
        return Kind(edge.sign or edge.label, edge=True, signed=bool(edge.sign))

    def legend(self) -> list[dict[str, Any]]:
        """The labels of the drawing with their colours and counts; empty if no label is known."""
        return [
            {
                "kind": self._colour(kind),
                "shape": None if kind.edge else self._shape(kind),
                "text": kind.label or ("other edges" if kind.edge else "other nodes"),
                "count": count(number),
            }
            for kind, number in self.kinds.items()
            if any(each.label for each in self.kinds)
        ]

    def _colour(self, kind: Kind) -> int | str:
        if kind.signed:
            return kind.label
        return self.place[kind] % KINDS if kind.label or not kind.edge else "none"

    def _shape(self, kind: Kind) -> str:
        return SHAPES[self.place[kind] % len(SHAPES)]

    def notes(self) -> Iterator[str]:
        """Explanations that the drawing lacks."""
        if any(edge.end and not edge.sign for edge in self.edges):
            yield "Dashed: no longer holds."
        if self.unnamed:
            yield f"{plural(self.unnamed, 'name')} of edges found no place in the drawing."

    def shapes(self) -> dict[str, Any]:
        """The drawing for the template."""
        ends = [(edge.source, edge.target) for edge in self.edges]
        placed = layout(self.names, ends)
        curves = [
            _loop(placed.places[a])
            if a == b
            else path(
                placed.places[a],
                placed.places[b],
                aside,
                (_box(self.names[a]), _box(self.names[b])),
            )
            for (a, b), aside in zip(ends, bend(ends), strict=True)
        ]
        taken = [_box(self.names[key]).at(placed.places[key]) for key in self.keys]
        edges = [
            self._edge(i, edge, curve, taken)
            for i, (edge, curve) in enumerate(zip(self.edges, curves, strict=True))
        ]
        around = [*taken, *(Box(*point, *point) for point in map(_middle, curves))]
        left, top = (min(0.0, *(getattr(b, side) for b in around)) for side in ("left", "top"))
        right = max(placed.width, *(box.right + 8 for box in around))
        bottom = max(placed.height, *(box.bottom + 8 for box in around))
        return {
            "box": f"{left:.0f} {top:.0f} {right - left:.0f} {bottom - top:.0f}",
            "width": f"{right - left:.0f}",
            "height": f"{bottom - top:.0f}",
            "edges": edges,
            "nodes": [self._node(i, key, placed.places[key]) for i, key in enumerate(self.keys)],
        }

    def _node(self, i: int, key: str, place: Point) -> dict[str, Any]:
        label, kind = self._label(key), self._node_kind(key)
        edges = sum(key in {edge.source, edge.target} for edge in self.edges)
        sign = kind.label if kind.signed else ""
        told = (self.names[key], label, sign, plural(edges, "edge"))
        said = ", ".join(part for part in told if part)
        x, y = place
        return {
            "number": i,
            "kind": self._colour(kind),
            "said": said,
            "shape": self._shape(kind),
            "place": f"translate({x:.1f} {y:.1f})",
            "area": _box(self.names[key]).at(place),
            "lines": [
                {"x": _px(x), "y": _px(y + 23 + _LINE * j), "text": line}
                for j, line in enumerate(lines_of(self.names[key]))
            ],
        }

    def _edge(
        self, i: int, edge: Arrow, curve: Sequence[Point], taken: list[Box]
    ) -> dict[str, Any]:
        """The shape of an edge. The space of its name is added to `taken`."""
        own = edge.name if edge.name != edge.label else ""
        name = shortened(own, _EDGE_NAME)
        place = free(_along(curve, name), taken) if name else None
        self.unnamed += bool(name) and place is None
        ends = f"{self.names[edge.source]} {edge.name or '→'} {self.names[edge.target]}"
        form = "M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}"
        return {
            "number": i,
            "kind": self._colour(self._edge_kind(edge)),
            "ended": bool(edge.end) and not edge.sign,
            "d": (form if len(curve) == 3 else form.replace("Q", "C") + " {:.1f} {:.1f}").format(
                *(value for point in curve for value in point)
            ),
            "said": " · ".join(part for part in (edge.sign, ends, edge.text, edge.holds) if part),
            "name": name if place else "",
            "x": _px((place.left + place.right) / 2) if place else "",
            "y": _px(place.top + 10.5) if place else "",
        }

    def facts(self) -> dict[str, Any]:
        """The facts of nodes and edges for the page's script; ends are node indexes."""
        place = {key: i for i, key in enumerate(self.keys)}
        nodes = self.picture.nodes
        return {
            "nodes": [
                {
                    "name": shortened(self.names[key], _TEXT),
                    "label": self._label(key),
                    "facts": list(nodes[key].facts.items()) if key in nodes else [],
                    "known": key in nodes,
                }
                for key in self.keys
            ],
            "edges": [
                {
                    "ends": [place[edge.source], place[edge.target]],
                    "name": shortened(edge.name, _TEXT),
                    "label": edge.label,
                    "text": shortened(edge.text, _TEXT),
                    "holds": edge.holds,
                    "sources": [
                        shortened(self.picture.name(key), _SOURCE)
                        for key in edge.sources[:_SOURCES]
                    ],
                    "more": max(0, len(edge.sources) - _SOURCES),
                }
                for edge in self.edges
            ],
        }


def _along(curve: Sequence[Point], name: str) -> Iterator[Box]:
    """The places for a name on its edge."""
    half = len(name) * _SMALL / 2 + 2
    for x, y in (_on(curve, t) for t in _ALONG):
        yield Box(x - half, y - 7, x + half, y + 7)


def _on(curve: Sequence[Point], t: float) -> Point:
    """The point of a curve with two or three controls at `t`, from 0 to 1."""
    points = list(curve)
    while len(points) > 1:
        points = [(a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t) for a, b in pairwise(points)]
    return points[0]


def _middle(curve: Sequence[Point]) -> Point:
    return _on(curve, 0.5)


def _loop(at: Point) -> list[Point]:
    """The curve of an edge from a node to itself."""
    x, y = at
    return [(x - 6, y - 9), (x - 34, y - 50), (x + 34, y - 50), (x + 6, y - 11)]


def _px(value: float) -> str:
    return f"{value:.1f}"


def _edges_table(picture: Picture, title: str) -> dict[str, Any]:
    edges = list(picture.edges.values())
    rest = f" The first {count(_ROWS)} of {count(len(edges))} edges." if len(edges) > _ROWS else ""
    listed = edges[:_ROWS]
    ends = [
        Column("from", [picture.name(e.source) for e in listed]),
        Column("edge", [e.name or e.label for e in listed]),
        Column("to", [picture.name(e.target) for e in listed]),
    ]
    facts = [
        Column("text", [e.text for e in listed]),
        Column("valid from", [e.start for e in listed]),
        Column("until", [e.end for e in listed]),
        Column("sources", [count(len(e.sources)) if e.sources else "" for e in listed]),
    ]
    used = [*ends, *(column for column in facts if any(column.cells))]
    return page_table(used, f"Edges of {title}.{rest}")


def _alone(picture: Picture) -> str:
    """A sentence on the nodes without an edge; "" if there are none."""
    tied = {end for edge in picture.edges.values() for end in (edge.source, edge.target)}
    alone = [node.name for key, node in picture.nodes.items() if key not in tied]
    if not alone:
        return ""
    more = f" … and {count(len(alone) - _ROWS)} more" if len(alone) > _ROWS else ""
    lead = "Nodes without an edge: " if picture.counts_edges else "Nodes: "
    return lead + ", ".join(alone[:_ROWS]) + more
