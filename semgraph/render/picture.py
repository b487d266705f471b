"""A graph in a terminal: the nodes and edges of a run, as arrows between names.

Nodes are in tables with the graph's key and the property of `draw: node`; edges are in tables that
also have `source`, `target` and the property of `draw: edge` or `draw: text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from semgraph.formats import day, plain_line, plural, shortened
from semgraph.logical.schema import Graph
from semgraph.render.tables import fit

if TYPE_CHECKING:
    import pyarrow as pa


_EDGES = 40
_NAME = 28
_MORE = 8


@dataclass
class Arrow:
    """An edge: the keys of its ends, and the properties to draw."""

    source: str
    target: str
    name: str = ""
    text: str = ""
    start: str = ""
    end: str = ""
    sources: list[str] = field(default_factory=list)

    @property
    def holds(self) -> str:
        """The known period of validity."""
        return f"{self.start or '…'} → {self.end}".rstrip() if self.start or self.end else ""


@dataclass
class Picture:
    """All nodes and edges of one partition, by key. `has_edges`: whether the graph has edge labels."""

    partition: str
    has_edges: bool = False
    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, Arrow] = field(default_factory=dict)

    @property
    def counts_edges(self) -> bool:
        """Whether edges are counted, even if there are none."""
        return self.has_edges or bool(self.edges)

    @property
    def counts(self) -> str:
        """The counts in words: `3 nodes, 0 edges`."""
        nodes = plural(len(self.nodes), "node")
        return f"{nodes}, {plural(len(self.edges), 'edge')}" if self.counts_edges else nodes

    def name(self, key: str) -> str:
        """The name of a node, else its abbreviated key."""
        return self.nodes.get(key) or key[:_MORE]


def pictures(tables: Mapping[str, pa.Table], graph: Graph) -> list[Picture]:
    """The graph in the tables, a picture for each partition; none without nodes and edges."""
    by_partition: dict[str, Picture] = {}
    for table in tables.values():
        names = set(table.column_names)
        if graph.key not in names:
            continue
        for row in table.to_pylist():
            partition = row.get(graph.partition)
            picture = by_partition.setdefault(
                str(partition or ""), Picture(str(partition or ""), bool(graph.edges))
            )
            _add(picture, row, graph, names)
    return [p for p in by_partition.values() if p.nodes or p.edges]


def _add(picture: Picture, row: Mapping[str, Any], graph: Graph, names: set[str]) -> None:
    draw, key = graph.draw, str(row[graph.key])
    if {"source", "target"} <= names:
        if draw.edge in names or draw.text in names:
            new = Arrow(str(row["source"]), str(row["target"]))
            edge = picture.edges.setdefault(key, new)
            edge.name = plain_line(str(row.get(draw.edge) or "")) or edge.name
            edge.text = plain_line(str(row.get(draw.text) or "")) or edge.text
            edge.start, edge.end = (
                day(row.get(draw.start)) or edge.start,
                day(row.get(draw.end)) or edge.end,
            )
    elif draw.node in names:
        picture.nodes[key] = plain_line(str(row[draw.node] or "")) or key[:_MORE]
    if key in picture.edges:
        sources = picture.edges[key].sources
        sources += [s for s in row.get(draw.sources) or () if s not in sources]


def lines(
    picture: Picture, graph: Graph, width: int, members: Mapping[str, int] | None = None
) -> Iterator[str]:
    """The lines of a picture: each node with its outgoing edges, at most 40 in all.

    Args:
        picture: The picture.
        graph: The graph, for the name of the partition.
        width: The width of the terminal.
        members: Numbers of the source nodes of edges, by key; without them sources are not printed.
    """
    from rich.cells import cell_len

    place = {key: i for i, key in enumerate(picture.nodes)}
    edges = sorted(picture.edges.values(), key=lambda edge: place.get(edge.source, len(place)))
    drawn = edges[:_EDGES]
    left = _width([picture.name(edge.source) for edge in drawn])
    right = _width([picture.name(edge.target) for edge in drawn])
    arrows = [f"─ {shortened(edge.name, _NAME)} " if edge.name else "─" for edge in drawn]
    arrow = max(map(len, arrows), default=0) + 1
    title = _title(picture, graph)
    body = max(2 + left + 1 + arrow + 2 + right, cell_len(title))
    columns, dropped = _columns(drawn, members or {}, width - body)
    head = "".join(f"  {fit(title, size)}" for title, size, _ in columns)
    yield (
        (fit(_title(picture, graph), body) + head).rstrip()
        if columns
        else fit(_title(picture, graph), width).rstrip()
    )
    for source, group in groupby(enumerate(drawn), key=lambda pair: pair[1].source):
        lead = fit(picture.name(source), left)
        for i, edge in group:
            line = f"  {lead} {arrows[i]:─<{arrow}}▶ {fit(picture.name(edge.target), right)}"
            yield (
                fit(line, body) + "".join(f"  {fit(cells[i], size)}" for _, size, cells in columns)
            ).rstrip()
            lead = " " * left
            if edge.text:
                yield fit(f'  {lead} "{edge.text}"', width).rstrip()
    if len(edges) > _EDGES:
        yield f"  … {plural(len(edges) - _EDGES, 'more edge')}"
    yield from _alone(picture, edges, width)
    if dropped:
        yield f"  … {plural(len(dropped), 'more column')} in a wider terminal: {', '.join(dropped)}"


def _width(names: Sequence[str]) -> int:
    from rich.cells import cell_len

    return min(_NAME, max(map(cell_len, names), default=0))


def _title(picture: Picture, graph: Graph) -> str:
    return f'{graph.partition.removesuffix("_id")} "{plain_line(picture.partition)}", this run: {picture.counts}'


def _columns(
    edges: Sequence[Arrow], members: Mapping[str, int], width: int
) -> tuple[list[tuple[str, int, list[str]]], list[str]]:
    """The columns right of the arrows, as (title, width, a cell for each edge), and the titles that
    do not fit.
    """
    origins = [
        ", ".join(str(n) for n in sorted(members[s] for s in edge.sources if s in members))
        for edge in edges
    ]
    columns: list[tuple[str, int, list[str]]] = []
    dropped: list[str] = []
    for title, cells in (("holds", [edge.holds for edge in edges]), ("from", origins)):
        size = max(map(len, (title, *cells)))
        if any(cells) and not dropped and size + 2 <= width:
            columns.append((title, size, cells))
            width -= size + 2
        elif any(cells):
            dropped.append(title)
    return columns, dropped


def _alone(picture: Picture, edges: Sequence[Arrow], width: int) -> Iterator[str]:
    """The nodes without an edge."""
    touched = {key for edge in edges for key in (edge.source, edge.target)}
    alone = [name for key, name in picture.nodes.items() if key not in touched]
    if alone:
        rest = f", … {len(alone) - _MORE} more" if len(alone) > _MORE else ""
        lead = "without an edge: " if picture.counts_edges else ""
        yield fit("  " + lead + ", ".join(alone[:_MORE]) + rest, width).rstrip()
