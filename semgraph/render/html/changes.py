"""The difference between two states of a graph on a page: its rows as a table, and drawings of what
changed with its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from semgraph.diff import Change, Diff
from semgraph.formats import count
from semgraph.render.diff import (
    WORDS,
    end,
    groups,
    headline,
    holds,
    name_of,
    properties,
    reasons,
    text_of,
)
from semgraph.render.html.graph import graph
from semgraph.render.picture import Arrow, Dot, Picture
from semgraph.render.tables import Column, page_table

_ROWS, _PICTURES = 500, 3
_VALUES = 400  # characters of an old and a new value
_UNCHANGED = "unchanged"


def changed(diff: Diff, number: str) -> dict[str, Any]:
    """The parts of a page: notes, drawings, a table. `number` begins the ids of the drawings."""
    pictures = [graph(p, f"{number}-{i}") for i, p in enumerate(_pictures(diff)[:_PICTURES])]
    rows = [(change, "") for _, own in groups(diff.changes) for change in own]
    rows += [(change, "stays as edited") for change in diff.edited]
    return {
        "notes": [*reasons(diff), headline(diff)],
        "graphs": [each | {"table": None, "alone": ""} for each in pictures],
        "table": _table(diff, rows) if rows else None,
    }


def _table(diff: Diff, rows: list[tuple[Change, str]]) -> dict[str, Any]:
    listed = rows[:_ROWS]
    columns = [
        Column("change", [{"sign": c.sign, "word": WORDS[c.sign]} for c, _ in listed]),
        Column("label", [change.label for change, _ in listed]),
        Column("row", [_full_name(diff, change) for change, _ in listed]),
        Column("text", [text_of(diff, c) if c.ends else "" for c, _ in listed]),
        Column("holds", [holds(diff, c) if c.ends else "" for c, _ in listed]),
        Column("differs", ["; ".join(_differences(diff, c, bool(e))) for c, e in listed]),
        Column("cause", [", ".join(change.causes) or edited for change, edited in listed]),
    ]
    rest = f" The first {count(_ROWS)} of {count(len(rows))}." if len(rows) > _ROWS else ""
    used = [column for column in columns if any(column.cells)]
    return page_table(used, f"Rows that are new, gone or changed.{rest}")


def _full_name(diff: Diff, change: Change) -> str:
    name = name_of(diff, change)
    return f"{end(diff, change.ends[0])} ─ {name}" if change.ends else name


def _differences(diff: Diff, change: Change, edited: bool = False) -> Iterator[str]:
    for name, before, after in properties(diff, change, _VALUES):
        yield f"{name}: {before} (the plan: {after})" if edited else f"{name}: {before} → {after}"


def _pictures(diff: Diff) -> list[Picture]:
    """Changed rows and the nodes at their ends, by partition."""
    by_partition: dict[str, Picture] = {}
    for change in diff.changes:
        picture = by_partition.setdefault(change.partition, Picture(change.partition, True))
        sign, name = WORDS[change.sign], name_of(diff, change)
        facts = {prop: f"{a} → {b}" for prop, a, b in properties(diff, change, _VALUES)}
        if change.ends is None:
            picture.nodes[change.key] = Dot(name, change.label, facts, sign)
            continue
        source, target = change.ends
        edge, _, _ = name.rpartition(" ─▶ ")
        text = "; ".join(
            filter(None, (text_of(diff, change), *(f"{n}: {f}" for n, f in facts.items())))
        )
        arrow = Arrow(source, target, change.label, edge, text, sign=sign)
        arrow.start, _, arrow.end = (part.strip() for part in holds(diff, change).partition("→"))
        picture.edges[f"{change.label} {change.key}"] = arrow
    for picture in by_partition.values():
        for key in (key for edge in picture.edges.values() for key in (edge.source, edge.target)):
            picture.nodes.setdefault(key, Dot(end(diff, key), sign=_UNCHANGED))
    return list(by_partition.values())
