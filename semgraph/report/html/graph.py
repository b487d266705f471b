"""The graph that a run wrote: drawn, where it is small enough to be read, and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from semgraph.report.formats import count
from semgraph.report.html.layout import bend, layout, path
from semgraph.report.html.markup import Html, el, join, scrolling, table
from semgraph.report.picture import Edge, Picture

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
    what = "; ".join(f"{picture.name(e.source)} {e.name} {picture.name(e.target)}" for e in edges[:10])
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
    parts = [table(f"Edges of {title}.{rest}", [heads[i] for i in used], [[row[i] for i in used] for row in rows])]
    return join([*(parts if rows else []), *_alone(picture)])


def _alone(picture: Picture) -> Iterator[Html]:
    """The nodes that no edge names."""
    tied = {end for edge in picture.edges.values() for end in (edge.source, edge.target)}
    alone = [name for key, name in picture.nodes.items() if key not in tied]
    if alone:
        more = f" … and {count(len(alone) - _ROWS)} more" if len(alone) > _ROWS else ""
        yield el("p", "Nodes without an edge: " if picture.ties else "Nodes: ", ", ".join(alone[:_ROWS]), more)
