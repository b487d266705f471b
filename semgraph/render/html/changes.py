"""The difference between two states of a graph on a page: its rows as a table, and drawings of what
changed with its neighbours.
"""

from __future__ import annotations

from typing import Any

from semgraph.diff import Diff
from semgraph.formats import count
from semgraph.render.diff import (
    EDITED,
    WORDS,
    differing,
    end,
    full_name,
    groups,
    headline,
    holds,
    name_of,
    reasons,
    text_of,
)
from semgraph.render.html.graph import graphs
from semgraph.render.picture import Arrow, Dot, Picture
from semgraph.render.tables import Column, page_table

_ROWS, _PICTURES = 500, 3
_VALUES = 400  # characters of an old and a new value
_TITLES = ("change", "label", "row", "text", "holds", "differs", "cause")


def changed(diff: Diff, number: str) -> dict[str, Any]:
    """The parts of a page: notes, drawings, a table. `number` begins the ids of the drawings."""
    pictures = graphs(_pictures(diff)[:_PICTURES], number)
    return {
        "notes": [*reasons(diff), headline(diff)],
        "graphs": [each | {"table": None, "alone": ""} for each in pictures],
        "table": _table(diff) if diff.changes or diff.edited else None,
    }


def _table(diff: Diff) -> dict[str, Any]:
    """The changes by node, then the rows that stay as edited."""
    rows = [(c, "{} → {}", ", ".join(c.causes)) for _, own in groups(diff.changes) for c in own]
    rows += [(change, EDITED, "stays as edited") for change in diff.edited]
    cells = [
        (
            {"sign": change.sign, "word": WORDS[change.sign]},
            change.label,
            full_name(diff, change),
            text_of(diff, change),
            holds(diff, change),
            "; ".join(": ".join(each) for each in differing(diff, change, _VALUES, form)),
            cause,
        )
        for change, form, cause in rows[:_ROWS]
    ]
    columns = map(Column, _TITLES, zip(*cells, strict=True))
    rest = f" The first {count(_ROWS)} of {count(len(rows))}." if len(rows) > _ROWS else ""
    used = [column for column in columns if any(column.cells)]
    return page_table(used, f"Rows that are new, gone or changed.{rest}")


def _pictures(diff: Diff) -> list[Picture]:
    """Changed rows and the nodes at their ends, by partition."""
    by_partition: dict[str, Picture] = {}
    for change in diff.changes:
        picture = by_partition.setdefault(change.partition, Picture(change.partition))
        sign, facts = WORDS[change.sign], dict(differing(diff, change, _VALUES))
        if change.ends is None:
            picture.nodes[change.key] = Dot(name_of(diff, change), change.label, facts, sign)
            continue
        edge, _, _ = name_of(diff, change).rpartition(" ─▶ ")
        texts = [text_of(diff, change), *map(": ".join, facts.items())]
        start, _, ended = holds(diff, change).partition("→")
        picture.edges[f"{change.label} {change.key}"] = Arrow(
            *change.ends, change.label, edge, "; ".join(filter(None, texts)),
            start.strip(), ended.strip(), sign=sign,
        )  # fmt: skip
    for picture in by_partition.values():
        for key in (key for edge in picture.edges.values() for key in (edge.source, edge.target)):
            picture.nodes.setdefault(key, Dot(end(diff, key), sign="unchanged"))
    return list(by_partition.values())
