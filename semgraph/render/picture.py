"""The nodes and edges of a run, or of a group of a store, from their tables, and their picture in a
terminal: arrows between names.

Nodes come from tables with the graph's key and the property that `draw: node` names. Edges come
from tables that also have `source` and `target`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from semgraph.execution.record import WRITTEN, Run, recorded_parts, recorded_steps
from semgraph.expr.types import Type, python_rows
from semgraph.formats import count, day, plain_line, plural, shortened
from semgraph.logical.schema import Draw, Graph, Label
from semgraph.render.tables import (
    GAP,
    Column,
    cell,
    clipped,
    fit,
    fitting,
    folded,
    hanging,
    rows_of,
)

if TYPE_CHECKING:
    import pyarrow as pa


_EDGES = 40
_NAME = 28
_MORE = 8
_FACTS = 8
_FACT = 300  # characters


@dataclass
class Dot:
    """A node: its name, its label ("" if unknown), and its other properties as texts. In a picture
    of a difference `sign` says what became of it. `background` nodes and edges are behind the facts.
    """

    name: str
    label: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    sign: str = ""
    background: bool = False


@dataclass
class Arrow:
    """An edge: the keys of its ends, its label ("" if unknown), and the properties to draw; `period` has
    the exact times of `start` and `end`. `sign` and `background` are as in `Dot`.
    """

    source: str
    target: str
    label: str = ""
    name: str = ""
    text: str = ""
    start: str = ""
    end: str = ""
    sources: list[str] = field(default_factory=list)
    sign: str = ""
    background: bool = False
    period: tuple[str, str] = ("", "")

    @property
    def holds(self) -> str:
        """The known period of validity."""
        return f"{self.start or '…'} → {self.end}".rstrip() if self.start or self.end else ""


@dataclass
class Picture:
    """All nodes and edges of one partition, by key. `loose`: omitted edges without name and text that
    have an end outside of the picture. `rows`: the keys of all, by label ("" if unknown) and whether
    it is of edges. `names`: names of nodes outside of the picture, as far as they are known.
    """

    partition: str
    nodes: dict[str, Dot] = field(default_factory=dict)
    edges: dict[str, Arrow] = field(default_factory=dict)
    loose: dict[str, Arrow] = field(default_factory=dict)
    rows: dict[tuple[str, bool], dict[str, None]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def counts(self, of: Callable[[str], bool] = lambda _: True) -> str:
        """The counts by label of the rows with these keys: `3 Person, 2 KNOWS`; `2 nodes` of rows whose
        label is unknown.
        """
        rows: Mapping[tuple[str, bool], Iterable[str]] = self.rows or {
            ("", False): self.nodes,
            ("", True): self.edges,
        }
        sums = [(sum(map(of, rows[name])), *name) for name in sorted(rows, key=itemgetter(1))]
        return ", ".join(
            f"{count(number)} {label}" if label else plural(number, "edge" if edge else "node")
            for number, label, edge in sums
            if number
        )

    @property
    def front(self) -> tuple[dict[str, Arrow], dict[str, Dot]]:
        """The edges and the nodes that are no background; all if there are no others."""
        edges = {key: edge for key, edge in self.edges.items() if not edge.background}
        nodes = {key: node for key, node in self.nodes.items() if not node.background}
        return (edges, nodes) if edges or nodes else (self.edges, self.nodes)

    @property
    def alone(self) -> dict[str, Dot]:
        """The nodes of the front without an edge of it."""
        edges, nodes = self.front
        tied = {end for edge in edges.values() for end in (edge.source, edge.target)}
        return {key: node for key, node in nodes.items() if key not in tied}

    def name(self, key: str) -> str:
        """The name of a node, else its abbreviated key."""
        return self.nodes[key].name if key in self.nodes else self.names.get(key, key[:_MORE])


def pictures(tables: Iterable[tuple[str, pa.Table]], graph: Graph) -> list[Picture]:
    """The graph in the tables, one picture per partition; empty without nodes and edges.

    Args:
        tables: Tables, each with the label of its rows; "" if unknown.
        graph: The graph.
    """
    by_partition: dict[str, Picture] = {}
    edges = {label.name for label in graph.edges}
    for label, table in tables:
        names = set(table.column_names)
        if graph.key not in names:
            continue
        draw = graph.drawn(label) if label in graph.labels else graph.draw
        for row in python_rows(table):
            partition = str(row.get(graph.partition) or "")
            picture = by_partition.setdefault(partition, Picture(partition))
            is_edge = {"source", "target"} <= names or label in edges
            if is_edge:
                _add_edge(picture, row, graph, label, draw)
            elif label or graph.draw.node in names:
                _add_node(picture, row, graph, label, draw)
            picture.rows.setdefault((label, is_edge), {})[str(row[graph.key])] = None
            _add_sources(picture, str(row[graph.key]), row.get(draw.sources) or ())
    for picture in by_partition.values():
        _tie(picture)
    return [p for p in by_partition.values() if p.nodes or p.edges or _partial(p)]


def of_run(run: Run) -> list[Picture]:
    """The graph that a recorded run wrote, one picture per partition; for a run without writes, the
    rows that it returned.
    """
    facts = run.facts.get("graph")
    if not facts:
        return []
    listed = facts.get("labels", {})
    draws = {name: Draw(**each["draw"]) for name, each in listed.items()}
    labels = {name: _drawn_label(name, draws[name], each["kind"]) for name, each in listed.items()}
    key, partition = str(run.facts.get("key")), str(facts["partition"])
    graph = Graph("", key, partition, labels, Draw(**facts["draw"]), draws)
    written = recorded_steps(run.folder, WRITTEN)
    returned = sorted({*(run.facts.get("returns") or {}).values()})

    def tables(kind: str, steps: Iterable[str]) -> Iterator[tuple[str, pa.Table]]:
        for step in steps:
            label = step if kind == WRITTEN else ""
            yield from ((label, rows) for rows in recorded_parts(run.folder, kind, step))

    if not written:
        return pictures(tables("steps", returned), graph)
    drawn = pictures(tables(WRITTEN, written), graph)
    complete(drawn, tables("steps", returned), graph)
    return [picture for picture in drawn if picture.nodes or picture.edges]


def _drawn_label(name: str, draw: Draw, kind: str) -> Label:
    """A label with the properties that a picture shows."""
    shown = [prop for prop in vars(draw).values() if isinstance(prop, str)]
    return Label(
        name, "edge" if kind == "edge" else "node", dict.fromkeys(shown, Type("string")), {}, {}
    )


def complete(
    drawn: Iterable[Picture], tables: Iterable[tuple[str, pa.Table]], graph: Graph
) -> None:
    """Complete stored nodes that have only a key, such as an end of a new edge, and stored edges of
    which a run wrote only some properties.

    Args:
        drawn: The pictures, which are modified.
        tables: Tables that may have the rest; read if something is missing.
        graph: The graph.
    """
    lacking = [p for p in drawn if _nameless(p) or _partial(p)]
    known = {p.partition: p for p in pictures(tables, graph)} if lacking else {}
    for picture in lacking:
        other = known.get(picture.partition, Picture(picture.partition))
        for key in _partial(picture) & other.edges.keys():
            edge, new = picture.loose.pop(key), other.edges[key]
            picture.edges[key] = replace(new, label=edge.label, background=edge.background)
        for key in _nameless(picture):
            if key in picture.nodes:
                picture.nodes[key].name = other.name(key)
            else:
                picture.names[key] = other.name(key)


def _partial(picture: Picture) -> set[str]:
    """The edges of earlier runs of which this one wrote some properties."""
    return {key for key, edge in picture.loose.items() if not edge.source}


def _nameless(picture: Picture) -> list[str]:
    ends = (end for edge in picture.edges.values() for end in (edge.source, edge.target))
    return [
        key for key in dict.fromkeys([*picture.nodes, *ends]) if picture.name(key) == key[:_MORE]
    ]


def _add_edge(
    picture: Picture, row: Mapping[str, Any], graph: Graph, label: str, draw: Draw
) -> None:
    key = str(row[graph.key])
    drawn = draw.edge in row or draw.text in row
    ends = str(row.get("source") or ""), str(row.get("target") or "")
    new = Arrow(*ends, label, label, background=draw.background)
    drawn = key in picture.edges or (drawn and bool(ends[0]))  # else of an earlier run
    edge = (picture.edges if drawn else picture.loose).setdefault(key, new)
    edge.name = plain_line(str(row.get(draw.edge) or "")) or edge.name
    edge.text = plain_line(str(row.get(draw.text) or "")) or edge.text
    edge.start = day(row.get(draw.start)) or edge.start
    edge.end = day(row.get(draw.end)) or edge.end
    start, end = (cell(row.get(prop)) for prop in (draw.start, draw.end))
    edge.period = start or edge.period[0], end or edge.period[1]


def _add_node(
    picture: Picture, row: Mapping[str, Any], graph: Graph, label: str, draw: Draw
) -> None:
    key = str(row[graph.key])
    own = [each for each in row.get("labels") or () if each != label]
    new = Dot("", own[-1] if label and own else label, background=draw.background)
    dot = picture.nodes.setdefault(key, new)
    dot.name = plain_line(str(row.get(draw.node) or "")) or dot.name or key[:_MORE]
    hidden = {graph.key, graph.partition, draw.node}
    for name, value in row.items():
        if name not in hidden and not name.startswith("_") and value not in (None, "", []):
            dot.facts[name] = shortened(plain_line(cell(value)), _FACT)
    dot.facts = dict(list(dot.facts.items())[:_FACTS])


def _add_sources(picture: Picture, key: str, sources: Iterable[str]) -> None:
    edge = picture.edges.get(key)
    if edge is not None:
        edge.sources += [s for s in sources if s not in edge.sources]


def _tie(picture: Picture) -> None:
    """Draw the edges without name and text that have both ends in the picture."""
    for key, edge in list(picture.loose.items()):
        if key in picture.edges:
            del picture.loose[key]
        elif {edge.source, edge.target} <= picture.nodes.keys():
            picture.edges[key] = picture.loose.pop(key)


def lines(
    picture: Picture,
    graph: Graph,
    width: int,
    members: Mapping[str, int] | None = None,
    of: str = "this run",
) -> Iterator[str]:
    """The lines of a picture: how many rows of each label it has, and each node with its outgoing
    edges, at most 40 in total. Background is counted only, unless there is nothing else.

    Args:
        picture: The picture.
        graph: The graph, for the name of the partition.
        width: The width of the terminal.
        members: Numbers of the source nodes of edges, by key; without them, sources are not
            printed.
        of: What the picture is of.
    """
    place = {key: i for i, key in enumerate(picture.nodes)}
    facts, nodes = picture.front
    edges = sorted(facts.values(), key=lambda edge: place.get(edge.source, len(place)))
    named = {key: dot for key, dot in picture.alone.items() if dot.name != key[:_MORE]}
    alone = named if named or facts else picture.alone
    drawn = edges[:_EDGES]
    counted = {*facts, *alone, *(nodes.keys() - picture.alone.keys())}
    name = f'{graph.partition.removesuffix("_id")} "{plain_line(picture.partition)}"'
    title = f"{name}, {of}: {picture.counts(counted.__contains__)}"
    columns = [
        Column("", _arrows(picture, drawn)),
        Column("holds", [edge.holds for edge in drawn]),
        Column("from", [_numbers(edge, members or {}) for edge in drawn]),
    ]
    columns = [columns[0], *(column for column in columns[1:] if any(column.cells))]
    fitted, widths = fitting(columns, width, whole=True)
    room = width - sum(GAP + each for each in widths[1:])
    if (needed := Column(title, []).width) <= room:
        fitted[0], widths[0] = replace(fitted[0], title=title), max(widths[0], needed)
    else:
        yield from folded(title, width)
    heads, *rows = rows_of(fitted, widths)
    yield from filter(None, [heads.plain])
    left = " " * (2 + _width(picture.name(edge.source) for edge in drawn))
    for row, edge in zip(rows, drawn, strict=False):
        yield row.plain
        if edge.text:
            yield f'{left} "{clipped(edge.text, max(width - len(left) - 3, 1))}"'
    if len(edges) > _EDGES:
        yield f"  … {plural(len(edges) - _EDGES, 'more edge')}"
    yield from _alone(picture, [dot.name for dot in alone.values()], width)
    if left_out := picture.counts(lambda key: key not in counted):
        yield from hanging(f"  not drawn: {left_out}", width, 4)
    if dropped := [column.title for column in columns[len(fitted) :]]:
        yield f"  … {plural(len(dropped), 'more column')} in a wider terminal: {', '.join(dropped)}"


def _arrows(picture: Picture, edges: Sequence[Arrow]) -> list[str]:
    """The edges as arrows between names; the source is written once."""
    left = _width(picture.name(edge.source) for edge in edges)
    right = _width(picture.name(edge.target) for edge in edges)
    names = [f"─ {shortened(edge.name, _NAME)} " if edge.name else "─" for edge in edges]
    long = max(map(len, names), default=0) + 1
    arrows, before = [], None
    for edge, name in zip(edges, names, strict=True):
        source = "" if edge.source == before else picture.name(edge.source)
        target = fit(picture.name(edge.target), right)
        arrows.append(f"  {fit(source, left)} {name:─<{long}}▶ {target}")
        before = edge.source
    return arrows


def _width(names: Iterable[str]) -> int:
    return min(_NAME, Column("", list(names)).width)


def _numbers(edge: Arrow, members: Mapping[str, int]) -> str:
    """The numbers of the source nodes of an edge."""
    return ", ".join(str(n) for n in sorted(members[s] for s in edge.sources if s in members))


def _alone(picture: Picture, names: Sequence[str], width: int) -> Iterator[str]:
    """The nodes without an edge: names side by side, texts below each other."""
    first, more = names[:_MORE], len(names) - _MORE
    rest = [f"… {count(more)} more"] if more > 0 else []
    if any(len(name) > _NAME for name in first):
        yield from (clipped(f"  {each}", width) for each in [*first, *rest])
    elif first:
        lead = "without an edge: " if picture.edges else ""
        yield from hanging("  " + lead + ", ".join([*first, *rest]), width, 4)
