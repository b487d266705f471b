"""The graph of a group as a store has it: a text for a terminal, a drawing for notebooks, a page."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from semgraph.errors import PlanError
from semgraph.logical.schema import Graph
from semgraph.render.html import graph_html, graph_page, write_page
from semgraph.render.picture import Picture, lines
from semgraph.render.tables import cell


@dataclass(frozen=True, repr=False)
class StoredGraph:
    """The graph of a group: `print` shows a text, a notebook the drawing. `notes` say which stored rows
    were left out, `at` the time at which its edges hold; "": all are shown.
    """

    picture: Picture
    graph: Graph
    notes: tuple[str, ...] = ()
    at: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows by label."""
        return {label: len(keys) for (label, _), keys in self.picture.rows.items() if keys}

    def lines(self, width: int) -> Iterator[str]:
        """The lines of the text: the counts, and the first 40 edges, those of nodes with the most
        edges first.
        """
        return lines(
            self.picture, self.graph, width, of=f"as of {self.at}" if self.at else "stored"
        )

    def __str__(self) -> str:
        return "\n".join(self.lines(shutil.get_terminal_size((120, 24)).columns))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The HTML for notebooks."""
        return graph_html([self.picture], self.graph.name)

    def save(self, to: str | Path) -> Path:
        """Write the page of the graph, which opens without a network; see `write_page`."""
        title = f"{self.graph.partition.removesuffix('_id')} “{self.picture.partition}”"
        title += f", as of {self.at}" if self.at else ""
        return write_page(Path(to), graph_page([self.picture], title))

    def as_dict(self) -> dict[str, Any]:
        """The group, the counts, and all nodes and edges with what a picture shows of them."""
        drawn = self.picture
        rows = drawn.nodes, {**drawn.edges, **drawn.loose}
        nodes, edges = ([{"key": k, **vars(each)} for k, each in of.items()] for of in rows)
        facts = {"group": drawn.partition, "at": self.at or None, "counts": self.counts}
        return {**facts, "notes": self.notes, "nodes": nodes, "edges": edges}


def stored(
    drawn: Picture, graph: Graph, notes: tuple[str, ...], at: str | date | None
) -> StoredGraph:
    """The picture of a stored group, the nodes with the most edges first, without edges that do not
    hold at a time. Raises PlanError if that is no time, or the graph has none.
    """
    try:
        time = None if at is None else datetime.fromisoformat(str(at))
    except ValueError:
        hint = "2025-02-01, or 2025-02-01T09:00:00Z"
        raise PlanError(f'"{at}" is no time', hint=hint) from None
    then = cell(time if time is None or time.tzinfo else time.replace(tzinfo=UTC))
    if then and not any(graph.drawn(label.name).start for label in graph.edges):
        raise PlanError(f'graph "{graph.name}" does not say from when an edge holds')
    periods = {key: edge.period for key, edge in drawn.edges.items()} if then else {}
    gone = {key for key, (start, end) in periods.items() if start > then or "" < end <= then}
    drawn.edges = {key: edge for key, edge in drawn.edges.items() if key not in gone}
    drawn.rows = {name: dict.fromkeys(keys.keys() - gone) for name, keys in drawn.rows.items()}
    degree = Counter(edge.source for edge in drawn.front[0].values())
    drawn.nodes = dict(sorted(drawn.nodes.items(), key=lambda each: -degree[each[0]]))
    drawn.edges = dict(sorted(drawn.edges.items(), key=lambda each: each[1].period))
    return StoredGraph(drawn, graph, notes, then)
