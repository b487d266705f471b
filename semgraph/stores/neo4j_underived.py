"""Rows of other programs that lack a text property which is derived from another: what it would be is kept in memory.

A run reads the texts of a partition once and stores nothing. What it merges itself it writes with all derived properties.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from semgraph.expr.functions import TEXT_FUNCTIONS
from semgraph.logical.pattern import Element
from semgraph.logical.schema import Derived, Graph, Label
from semgraph.stores.base import MatchQuery, SearchQuery
from semgraph.stores.cypher import schema
from semgraph.stores.cypher.terms import UNDERIVED
from semgraph.stores.neo4j_bolt import Bolt

Place = tuple[str, str]
"""A label and a derived property."""


def derive(derived: Derived, text: str) -> Any:
    """What a derived text property is for a text."""
    return TEXT_FUNCTIONS[derived.by].python(text)


@dataclass
class Underived:
    """The rows of one database that lack derived text properties.

    Args:
        bolt: The connection.
        graph: Says what derives from what.
        counts: How many rows lack which, of those that were asked about.
    """

    bolt: Bolt
    graph: Graph
    counts: dict[Place, int] = field(default_factory=dict)
    _looked: set[Place] = field(default_factory=set)
    _values: dict[Place, dict[str, Any]] = field(default_factory=dict)
    _holders: dict[Place, dict[Any, list[str]]] = field(default_factory=dict)
    _read: dict[Place, set[str] | None] = field(default_factory=dict)

    async def look(self, places: Iterable[Place]) -> bool:
        """Count the rows that lack some derived text properties, once; whether any do of which that was not known."""
        new = sorted(place for place in set(places) - self._looked if self._is_text(*place))
        self._looked.update(new)
        maybe = await self._counted(schema.without(self.graph, new)) if new else {}
        found = await self._counted(schema.lacking(self.graph, sorted(maybe))) if maybe else {}
        self.counts |= found
        return bool(found)

    async def _counted(self, query: str) -> dict[Place, int]:
        return {(label, name): number for label, name, number in await self.bolt.read(query) if number}

    def _is_text(self, label: str, name: str) -> bool:
        derived = self.graph.labels[label].derived.get(name) if label in self.graph.labels else None
        return derived is not None and derived.by != "embed"

    @property
    def places(self) -> frozenset[Place]:
        """What some rows lack."""
        return frozenset(self.counts)

    @property
    def notes(self) -> list[str]:
        """What the user should know of them."""
        return [
            f"{number:,} {label} have no {name}: it is worked out from {self._derived(label, name).of} in memory, for this run"
            for (label, name), number in self.counts.items()
        ]

    def _derived(self, label: str, name: str) -> Derived:
        return self.graph.label(label).derived[name]

    async def read(self, labels: Iterable[str], partitions: Iterable[str] | None) -> None:
        """Read what rows of some partitions (None: all) lack, unless it was read before."""
        wanted = None if partitions is None else set(partitions)
        of = set(labels)
        for place in self.counts:
            seen = self._read.setdefault(place, set())
            if place[0] not in of or seen is None:
                continue
            more = None if wanted is None else wanted - seen
            if more is None or more:
                await self._read_more(place, more)
                self._read[place] = None if more is None else seen | more

    async def _read_more(self, place: Place, partitions: set[str] | None) -> None:
        label, derived = self.graph.label(place[0]), self._derived(*place)
        query = schema.underived(self.graph, label, derived, confined=partitions is not None)
        values, holders = self._values.setdefault(place, {}), self._holders.setdefault(place, {})
        for key, _, text in await self.bolt.read(query, {"partitions": sorted(partitions or ())}):
            if key is None or key in values:
                continue
            values[key] = derive(derived, text)
            holders.setdefault(values[key], []).append(key)

    def holders(self, label: str, name: str, value: Any) -> list[str]:
        """Keys of the rows whose property would have a value."""
        return self._holders.get((label, name), {}).get(value, [])

    def parameters(self, text: str) -> dict[str, Any]:
        """The parameter of a statement that compares such properties: values by label and property, and by key."""
        if f"${UNDERIVED}" not in text:
            return {}
        return {UNDERIVED: {f"{label}.{name}": self._values.get((label, name), {}) for label, name in self.counts}}


def compared(query: SearchQuery) -> set[Place]:
    """The properties of hits that a search compares or ranks by."""
    names = {method.prop for method in query.methods if method.via == "equal"} | {name for name, _ in query.order}
    paths = {path for scalar in query.where for path in scalar.columns}
    names |= {path.removeprefix(f"{query.alias}.") for path in paths if path.startswith(f"{query.alias}.")}
    return {(query.label, name) for name in names}


def compared_in_match(query: MatchQuery, elements: Iterable[tuple[Element, Label | None]]) -> set[Place]:
    """The properties that a pattern names, and those of its variables that its conditions compare."""
    paths = {path for scalar in query.where for path in scalar.columns}
    return {
        (label.name, name)
        for element, label in elements
        if label is not None
        for name in (
            *(prop for prop, _ in element.props),
            *(
                path.removeprefix(f"{element.var}.")
                for path in paths
                if element.var and path.startswith(f"{element.var}.")
            ),
        )
    }
