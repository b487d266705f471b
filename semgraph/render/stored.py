"""The graph of a group as a store has it: a text for a terminal, a drawing for notebooks, a page."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semgraph.errors import PlanError
from semgraph.formats import count, plural
from semgraph.logical.schema import Graph
from semgraph.privacy import redacted, write_private
from semgraph.render.html import graph_html, graph_page
from semgraph.render.picture import Picture, lines, pictures
from semgraph.render.tables import Column, cell
from semgraph.render.tables import lines as table_lines

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, repr=False)
class StoredGraph:
    """The graph of a group: `print` shows a text, a notebook the drawing.

    Args:
        group: The value of the partition.
        graph: The graph, whose labels are shown.
        tables: The rows by label, nodes before edges.
        at: Edges that do not hold at this time are left out; None: all are shown.
        notes: Which stored rows were left out.
    """

    group: str
    graph: Graph
    tables: Sequence[tuple[str, pa.Table]]
    at: datetime | None = None
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows by label."""
        return {label: table.num_rows for label, table in self.tables if table.num_rows}

    def lines(self, width: int) -> Iterator[str]:
        """The lines of the text: the counts, and the 40 first edges; the nodes with the most edges
        come first, and the edges of a node in the order of their times.
        """
        of = f"as of {cell(self.at)}" if self.at else "stored"
        for picture in self._pictures():
            yield from lines(picture, self.graph, width, of=of)

    def _pictures(self) -> list[Picture]:
        drawn = pictures(self.tables, self.graph)
        for picture in drawn:
            degree = Counter(edge.source for edge in picture.front[0].values())
            by_degree = sorted(picture.nodes.items(), key=lambda each: -degree[each[0]])
            by_time = sorted(picture.edges.items(), key=lambda each: each[1].period)
            picture.nodes, picture.edges = dict(by_degree), dict(by_time)
        return drawn

    def __str__(self) -> str:
        return "\n".join(self.lines(shutil.get_terminal_size((120, 24)).columns))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The HTML for notebooks."""
        return graph_html(self.tables, self.graph)

    def save(self, to: str | Path) -> Path:
        """Write the page of the graph, which opens without a network. Returns the file. Raises
        PlanError for a suffix that is not HTML's, OSError.
        """
        path = Path(to)
        if path.suffix.lower() not in {".html", ".htm"}:
            raise PlanError(f"{path}: the page of a graph is HTML", hint=f"write {path.stem}.html")
        title = f"{self.graph.partition.removesuffix('_id')} “{self.group}”"
        title += f", as of {cell(self.at)}" if self.at else ""
        write_private(path, redacted(graph_page(self.tables, self.graph, title)))
        return path

    def as_dict(self) -> dict[str, Any]:
        """The group, the time, the counts, and all nodes and edges with what a picture shows of them."""
        (drawn,) = self._pictures() or [Picture(self.group)]
        rows = drawn.nodes, {**drawn.edges, **drawn.loose}
        nodes, edges = ([{"key": k, **vars(each)} for k, each in of.items()] for of in rows)
        at = self.at.isoformat() if self.at else None
        facts = {"group": self.group, "at": at, "counts": self.counts, "notes": self.notes}
        return {**facts, "nodes": nodes, "edges": edges}


def as_of(
    tables: Sequence[tuple[str, pa.Table]], graph: Graph, at: datetime
) -> list[tuple[str, pa.Table]]:
    """The nodes, and the edges that began by then and have not ended, as far as it is known. Raises
    PlanError if the graph has no such times.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    draws = {label.name: graph.drawn(label.name) for label in graph.edges}
    times = {
        (name, prop): holds
        for name, draw in draws.items()
        for prop, holds in ((draw.start, pc.less_equal), (draw.end, pc.greater))
        if prop and graph.labels[name].properties[prop].name == "timestamp"
    }
    if not times:
        raise PlanError(
            f'graph "{graph.name}" does not say when an edge holds: "draw" names no times'
        )
    found = dict(tables)
    for (name, prop), holds in times.items():
        time = pc.field(prop)
        found[name] = found[name].filter(time.is_null() | holds(time, pa.scalar(at)))
    return list(found.items())


def read_time(text: str | datetime) -> datetime:
    """A time; one without a zone is in UTC. Raises PlanError."""
    try:
        time = datetime.fromisoformat(text) if isinstance(text, str) else text
    except ValueError:
        hint = "2025-02-01, or 2025-02-01T09:00:00Z"
        raise PlanError(f'"{text}" is no time', hint=hint) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def group_lines(groups: Mapping[str, Mapping[str, int]], width: int) -> Iterator[str]:
    """The groups of a store, with the number of rows of each label."""
    if not groups:
        yield "no rows of this graph; for those of another one, name its file: --graph FILE"
        return
    labels = dict.fromkeys(label for counts in groups.values() for label in counts)
    columns = [Column("group", [name or '""' for name in groups])]
    for label in labels:
        cells = [count(counts[label]) if label in counts else "" for counts in groups.values()]
        columns.append(Column(label, cells, right=True))
    yield plural(len(groups), "group")
    yield from table_lines(columns, width)
