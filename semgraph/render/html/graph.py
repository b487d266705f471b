"""The graph that a run wrote: drawn, where it is small enough to be read, and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any

from semgraph.formats import count
from semgraph.render.html.markup import Html, el, join, scrolling, table
from semgraph.render.picture import Edge, Picture

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
        found = {
            key: [float(x) * side / 2, float(y) * side / 2.8] for key, (x, y) in spread.items()
        }
    _apart(found, {key: _width(names[key]) for key in keys})
    half = {key: _width(names[key]) / 2 for key in keys}
    left, top = min(found[k][0] - half[k] for k in keys), min(found[k][1] for k in keys) - _LINE / 2
    right, bottom = (
        max(found[k][0] + half[k] for k in keys),
        max(found[k][1] for k in keys) + _LINE / 2,
    )
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
    """How far each edge is bent aside, so that those between the same nodes do not cover each
    other.

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
    """A curve between two nodes (start, control, end), kept off their circles, and the middle of
    it.
    """
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


DRAWN = 200
_NAMED = 40
_ROWS = 500
_NAME = 28
Places = Mapping[str, tuple[float, float]]


def graph(picture: Picture, number: str) -> Html:
    """A figure and a table.

    Args:
        picture: What to show.
        number: What tells it from others on its page.
    """
    title = f"{f'“{picture.partition}”: ' if picture.partition else ''}{picture.counts}"
    names = _names(picture)
    listed = _table(picture, title)
    if not 0 < len(names) <= DRAWN:
        return join([el("p", f"{title}. That is too many to draw; here is the table."), listed])
    drawing = _drawing(picture, names, title, number)
    return join(
        [
            el("figure", scrolling(drawing, f"Drawing of {title}"), _legend(picture, title)),
            el("details", el("summary", "The same as a table"), listed),
        ]
    )


def _names(picture: Picture) -> dict[str, str]:
    ends = (end for edge in picture.edges.values() for end in (edge.source, edge.target))
    return {key: picture.name(key) for key in dict.fromkeys([*picture.nodes, *ends])}


def _legend(picture: Picture, title: str) -> Html:
    ended = any(edge.end for edge in picture.edges.values())
    unnamed = len(picture.edges) > _NAMED
    more = [
        ". Dashed: no longer holds." if ended else ".",
        " The table has what each edge is called." if unnamed else "",
    ]
    return el("figcaption", title, *more)


def _drawing(picture: Picture, names: dict[str, str], title: str, number: str) -> Html:
    edges = list(picture.edges.values())
    placed = layout(names, [(edge.source, edge.target) for edge in edges])
    bent = bend([(edge.source, edge.target) for edge in edges])
    size = {"width": f"{placed.width:.0f}", "height": f"{placed.height:.0f}"}
    what = "; ".join(
        f"{picture.name(e.source)} {e.name} {picture.name(e.target)}" for e in edges[:10]
    )
    more = f"; and {len(edges) - 10:,} more, all in the table below" if len(edges) > 10 else ""
    arrow = el(
        "marker", el("path", d="M0 0L9 4.5L0 9z"), id=f"arrow-{number}", viewBox="0 0 9 9", refX="8", refY="4.5",
        markerWidth="8", markerHeight="8", orient="auto-start-reverse",
    )  # fmt: skip
    return el(
        "svg",
        el("title", f"Graph {title}", id=f"graph-{number}-title"),
        el("desc", what + more, id=f"graph-{number}-desc"),
        el("defs", arrow),
        *(_edge(edge, placed.places, aside, number) for edge, aside in zip(edges, bent, strict=True)),
        *(_edge_name(edge, placed.places, aside) for edge, aside in zip(edges, bent, strict=True) if len(edges) <= _NAMED),
        *(_node(name, placed.places[key]) for key, name in names.items()),
        cls="graph", role="img", aria_labelledby=f"graph-{number}-title graph-{number}-desc",
        viewBox=f"0 0 {size['width']} {size['height']}", **size,
    )  # fmt: skip


def _short(text: str) -> str:
    return text if len(text) <= _NAME else text[: _NAME - 1] + "…"


def _node(name: str, place: tuple[float, float]) -> Html:
    x, y = place
    return el(
        "g", el("title", name), el("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r="8"),
        el("text", _short(name), x=f"{x:.1f}", y=f"{y + 22:.1f}"), cls="node",
    )  # fmt: skip


def _told(edge: Edge) -> str:
    return " · ".join(part for part in (edge.name, edge.text, edge.holds) if part)


def _edge(edge: Edge, places: Places, aside: float, number: str) -> Html:
    points, _ = path(places[edge.source], places[edge.target], aside)
    if edge.source == edge.target:
        x, y = places[edge.source]
        d = f"M{x - 6:.1f} {y - 9:.1f}C{x - 30:.1f} {y - 44:.1f} {x + 30:.1f} {y - 44:.1f} {x + 6:.1f} {y - 10:.1f}"
    else:
        (x1, y1), (cx, cy), (x2, y2) = points
        d = f"M{x1:.1f} {y1:.1f}Q{cx:.1f} {cy:.1f} {x2:.1f} {y2:.1f}"
    return el(
        "path", el("title", _told(edge)), d=d, cls="edge ended" if edge.end else "edge",
        marker_end=f"url(#arrow-{number})",
    )  # fmt: skip


def _edge_name(edge: Edge, places: Places, aside: float) -> Html:
    _, (x, y) = path(places[edge.source], places[edge.target], aside)
    lift = -34 if edge.source == edge.target else -3
    return el("text", _short(edge.name), x=f"{x:.1f}", y=f"{y + lift:.1f}", cls="edge-name")


def _table(picture: Picture, title: str) -> Html:
    edges = list(picture.edges.values())
    shown = edges[:_ROWS]
    rest = f" The first {count(_ROWS)} of {count(len(edges))} edges." if len(edges) > _ROWS else ""
    heads = ["from", "edge", "to", "says", "holds from", "until", "learnt from"]
    rows = [
        [
            picture.name(e.source),
            e.name,
            picture.name(e.target),
            e.text,
            e.start,
            e.end,
            count(len(e.sources)) if e.sources else "",
        ]
        for e in shown
    ]
    used = [i for i in range(len(heads)) if i < 3 or any(row[i] for row in rows)]
    parts = [
        table(
            f"Edges of {title}.{rest}",
            [heads[i] for i in used],
            [[row[i] for i in used] for row in rows],
        )
    ]
    return join([*(parts if rows else []), *_alone(picture)])


def _alone(picture: Picture) -> Iterator[Html]:
    """The nodes that no edge names."""
    tied = {end for edge in picture.edges.values() for end in (edge.source, edge.target)}
    alone = [name for key, name in picture.nodes.items() if key not in tied]
    if alone:
        more = f" … and {count(len(alone) - _ROWS)} more" if len(alone) > _ROWS else ""
        yield el(
            "p",
            "Nodes without an edge: " if picture.ties else "Nodes: ",
            ", ".join(alone[:_ROWS]),
            more,
        )
