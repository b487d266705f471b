"""The difference between two states of a graph: rows that are new, gone or changed, each with its
cause.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import TypeAdapter

from semgraph.display import Displayed
from semgraph.expr.types import Type
from semgraph.formats import plain_line, shortened
from semgraph.logical.schema import Draw, Graph, Label

Sign = Literal["+", "-", "~"]
Row = Mapping[str, Any]
Rows = Mapping[str, Mapping[str, Row]]  # of a graph, by label and key
FILE = "diff.json"
UNCOMPARED = ("created_at",)  # properties that make no row changed
ENDS = ("source", "target")
_NAME = 200  # characters of a name


@dataclass(frozen=True)
class Change:
    """A node or edge that is new, gone or changed. `row` has its other declared properties that are not
    NULL, and `source` and `target` of an edge: as they will be, or as they were if it is gone.
    `before` and `after` have the properties of a changed row that differ; None: it had none.
    """

    sign: Sign  # `+` new, `-` gone, `~` changed
    label: str
    key: str
    partition: str
    row: Mapping[str, Any]
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    causes: tuple[str, ...] = ()  # `row e1 edited`, `prompt facts changed`
    run: str = ""  # that wrote it before; of a new row, the refresh; "": unknown

    @property
    def ends(self) -> tuple[str, str] | None:
        """The keys at the ends of an edge; None for a node."""
        source, target = self.row.get("source"), self.row.get("target")
        return None if source is None or target is None else (source, target)


@dataclass(frozen=True, repr=False)
class Diff(Displayed):
    """The difference between two states of a graph: the rows that differ.

    `edited` are rows that the plan would make otherwise, and that stay as somebody edited them: `-` a
    row that stays deleted, `~` a row that keeps the values in `before`.
    """

    changes: tuple[Change, ...] = ()
    edited: tuple[Change, ...] = ()
    reasons: tuple[str, ...] = ()  # what changed since the rows were written
    names: Mapping[str, str] = field(default_factory=dict)  # by key, of nodes at the ends of edges
    draws: Mapping[str, Draw] = field(default_factory=dict)  # by label, what shows its rows

    def __len__(self) -> int:
        return len(self.changes)

    @cached_property
    def keys(self) -> frozenset[Any]:
        """The keys of the rows that are new or gone."""
        return frozenset(change.key for change in self.changes if change.sign != "~")

    @classmethod
    def between(
        cls, before: Rows, after: Rows, graph: Graph, edited: Sequence[Change] = ()
    ) -> Self:
        """The difference between two states of a graph: rows with key, partition, ends of edges and
        declared properties; what is missing is NULL. They are matched by label and key. Vectors and
        derived properties do not count.
        """
        states, changes = (before, after), list[Change]()
        for label in (*graph.nodes, *graph.edges):
            changes += _changes(label, graph, *(state.get(label.name, {}) for state in states))
        rows = (row for c in (*changes, *edited) if c.ends for row in (c.row, c.before))
        names = _names(states, graph, {row.get(end) for row in rows for end in ENDS})
        draws = {name: graph.drawn(name) for name in graph.labels}
        return cls(tuple(changes), tuple(edited), names=names, draws=draws)

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows that are `new`, `gone`, `changed`, and `nodes` and `edges` among them."""
        signs = Counter(change.sign for change in self.changes)
        edges = sum(change.ends is not None for change in self.changes)
        by_sign = {"new": signs["+"], "gone": signs["-"], "changed": signs["~"]}
        return by_sign | {"nodes": len(self) - edges, "edges": edges}

    def as_dict(self) -> dict[str, Any]:
        """The object that `--format json` prints; times are texts."""
        return {"counts": self.counts, **_shape().dump_python(self, mode="json")}

    @classmethod
    def of_record(cls, folder: Path) -> Diff | None:
        """The difference in the record of a refresh; None for another record."""
        file = folder / FILE
        return cls.from_dict(json.loads(file.read_text("utf-8"))) if file.exists() else None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Diff:
        """A difference from the object of `as_dict`."""
        return _shape().validate_python({n: v for n, v in data.items() if n != "counts"})


@cache
def _shape() -> TypeAdapter[Diff]:
    return TypeAdapter(Diff)


def _changes(
    label: Label, graph: Graph, old: Mapping[str, Row], new: Mapping[str, Row]
) -> Iterator[Change]:
    """The changes of a label: changed rows, then gone, then new ones."""
    types = {name: kind for name, kind in label.columns.items() if name not in label.derived}
    for key in filter(new.__contains__, old):
        one, other = old[key], new[key]
        names = [
            name
            for name, kind in types.items()
            if one.get(name) != other.get(name) and name not in UNCOMPARED
            if not _same(name, kind, one.get(name), other.get(name))
        ]
        if names:
            was, now = ({name: row.get(name) for name in names} for row in (one, other))
            change = _change("~", label, other, graph)
            yield replace(change, before=was, after=now)
    yield from (_change("-", label, old[key], graph) for key in old if key not in new)
    yield from (_change("+", label, new[key], graph) for key in new if key not in old)


def _same(name: str, kind: Type, one: Any, other: Any) -> bool:
    """Whether two values differ in their order only, where it has no meaning."""
    if one is None or other is None:
        return False
    if kind.name == "json":
        with suppress(ValueError, RecursionError):  # another program may have stored any text
            return bool(json.loads(one) == json.loads(other))
        return False
    return name == "labels" and kind.item is not None and sorted(one) == sorted(other)


def _change(sign: Sign, label: Label, row: Row, graph: Graph) -> Change:
    apart = {graph.key, graph.partition, *label.derived}
    own = {name: value for name, value in row.items() if value is not None and name not in apart}
    return Change(sign, label.name, row[graph.key], row[graph.partition] or "", own)


def _names(states: tuple[Rows, ...], graph: Graph, keys: Collection[str | None]) -> dict[str, str]:
    """The names of nodes, as the last state has them."""
    names: dict[str, str] = {}
    for label in graph.nodes:
        prop = graph.drawn(label.name).node
        for key, row in (pair for state in states for pair in state.get(label.name, {}).items()):
            if key in keys and (text := row.get(prop)):
                names[key] = shortened(plain_line(str(text)), _NAME)
    return names
