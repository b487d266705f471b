"""Set-up of a database: automatic for a new one, on request for one created by another program.

Nothing created by another program is dropped or renamed. What such a database lacks is reported, and
computed in memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from semgraph.errors import EngineError
from semgraph.expr.functions import TEXT_FUNCTIONS
from semgraph.logical.graph import Element
from semgraph.logical.schema import Derived, Graph, Label
from semgraph.stores.base import MatchQuery, SearchQuery, derived_report
from semgraph.stores.batch_io import check_partition
from semgraph.stores.neo4j import schema
from semgraph.stores.neo4j.bolt import Bolt
from semgraph.stores.neo4j.cypher import DERIVED

if TYPE_CHECKING:
    from neo4j import AsyncManagedTransaction


Place = tuple[str, str]
"""A label and a derived property."""


def derive(derived: Derived, text: str) -> Any:
    """The derived text property of a text."""
    return TEXT_FUNCTIONS[derived.by].python(text)


@dataclass
class MissingDerived:
    """The rows of one database that lack derived text properties.

    Args:
        bolt: The connection.
        graph: Says what derives from what.
        outdated: How many rows have a key as an earlier version made it, of the properties counted
            so far in this process.
        counts: How many rows lack which, of the properties counted so far.
    """

    bolt: Bolt
    graph: Graph
    outdated: dict[Place, int] = field(default_factory=dict)
    counts: dict[Place, int] = field(default_factory=dict)
    _checked: set[Place] = field(default_factory=set)
    _values: dict[Place, dict[str, Any]] = field(default_factory=dict)
    _holders: dict[Place, dict[Any, list[str]]] = field(default_factory=dict)
    _read: dict[Place, set[str] | None] = field(default_factory=dict)

    async def look(self, places: Iterable[Place]) -> bool:
        """Count the rows that lack some derived text properties, once. Returns whether the counts
        changed.
        """
        new = sorted(place for place in set(places) - self._checked if self._is_text(*place))
        self._checked.update(new)
        keys = [p for p in new if p not in self.outdated and self._derived(*p).by == "key"]
        if keys:
            found = await self._counted(schema.count_outdated(self.graph, keys))
            self.outdated |= dict.fromkeys(keys, 0) | found
        maybe = await self._counted(schema.count_without(self.graph, new)) if new else {}
        counts = (
            await self._counted(schema.count_lacking(self.graph, sorted(maybe))) if maybe else {}
        )
        self.counts |= counts
        return bool(counts)

    async def _counted(self, query: str) -> dict[Place, int]:
        return {
            (label, name): number for label, name, number in await self.bolt.read(query) if number
        }

    def _is_text(self, label: str, name: str) -> bool:
        derived = self.graph.labels[label].derived.get(name) if label in self.graph.labels else None
        return derived is not None and derived.by != "embed"

    @property
    def places(self) -> frozenset[Place]:
        """The properties that some rows lack."""
        return frozenset(self.counts)

    @property
    def notes(self) -> list[str]:
        """Notes for the user."""
        return [
            f"{number:,} {label} have no {name}: it is computed from {self._derived(label, name).of} in memory, for this run"
            for (label, name), number in self.counts.items()
        ] + [
            f"{number:,} {label} have a {name} of an earlier version, by which some spellings of their "
            f"{self._derived(label, name).of} do not find them. The plan build_indices_and_constraints recomputes it"
            for (label, name), number in self.outdated.items()
            if number and label in self.graph.labels
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
        query = schema.rows_lacking(self.graph, label, derived, confined=partitions is not None)
        values, holders = self._values.setdefault(place, {}), self._holders.setdefault(place, {})
        for key, _, text in await self.bolt.read(query, {"partitions": sorted(partitions or ())}):
            if key not in values:
                values[key] = derive(derived, text)
                holders.setdefault(values[key], []).append(key)

    def holders(self, label: str, name: str, value: Any) -> list[str]:
        """Keys of the rows that would have a value of a property."""
        return self._holders.get((label, name), {}).get(value, [])

    def parameters(self, text: str) -> dict[str, Any]:
        """The parameter of a statement that compares such properties: values by label and property,
        and by key.
        """
        if f"${DERIVED}" not in text:
            return {}
        return {
            DERIVED: {
                f"{label}.{name}": self._values.get((label, name), {})
                for label, name in self.counts
            }
        }


def compared(query: SearchQuery) -> set[Place]:
    """The properties of hits that a search compares or ranks by."""
    names = {method.prop for method in query.methods if method.via == "equal"} | {
        name for name, _ in query.order
    }
    paths = {path for scalar in query.where for path in scalar.columns}
    names |= {
        path.removeprefix(f"{query.alias}.") for path in paths if path.startswith(f"{query.alias}.")
    }
    return {(query.label, name) for name in names}


def compared_in_match(
    query: MatchQuery, elements: Iterable[tuple[Element, Label | None]]
) -> set[Place]:
    """The properties that a pattern names, and those of its variables that its conditions
    compare.
    """
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


_INDEX_SECONDS = 3600
_BATCH = 5000


class Setup:
    """The set-up of a database for a graph.

    Args:
        bolt: The connection.
        graph: Declares what is needed.
    """

    def __init__(self, bolt: Bolt, graph: Graph) -> None:
        self.bolt, self.graph = bolt, graph

    async def check_layout(self) -> list[str]:
        """Refuse a graph with another partition or key than the rows of the database have; returns
        its labels that have no recorded layout. Raises PlanError.
        """
        stored = {label: own for label, *own in await self.bolt.read(schema.LAYOUTS)}
        for label in self.graph.labels.keys() & stored.keys():
            check_partition(self.bolt.uri, self.graph, label, *stored[label])
        new = [label for label in self.graph.labels if label not in stored]
        others = [n for n, own in stored.items() if own != [self.graph.partition, self.graph.key]]
        if new and (others or self.graph.partition != schema.USUAL):
            query = schema.rows_divided_otherwise(self.graph, new)
            for label, other in await self.bolt.read(query, {"others": others}):
                own = stored.get(other) or (schema.USUAL, self.graph.key)
                check_partition(self.bolt.uri, self.graph, label, *own)
        return new

    async def record_layout(self, labels: Sequence[str]) -> None:
        """Record the partition and the key of some labels."""
        of = {"partition": self.graph.partition, "key": self.graph.key}
        if labels:
            await self.bolt.write(
                lambda tx: self.bolt.run(tx, schema.RECORD, {"labels": labels, "of": of})
            )

    async def indexes(self) -> list[schema.Index]:
        """The indexes that the database has."""
        return [schema.Index.of(record) for record in await self.bolt.read(schema.SHOW)]

    async def create_missing(
        self, dimensions: int | None, existing: Sequence[schema.Index], counts: Mapping[str, int]
    ) -> list[str]:
        """Create what is missing, unless the database was created by another program; returns notes
        on what was left out.
        """
        wanted = schema.missing(self.graph, dimensions, existing)
        left = self._left_out(wanted, existing, counts)
        done = [one for one in wanted if one not in left]
        try:
            await self._create([*schema.missing_internal(existing), *_statements(done)])
        except EngineError as error:
            now = await self.indexes()
            if "already exists" not in str(error) or set(map(_name, now)) == set(
                map(_name, existing)
            ):
                raise
            return await self.create_missing(
                dimensions, now, counts
            )  # another program created indexes meanwhile
        return [_external_note(left)] if left else []

    def describe_missing(
        self, dimensions: int | None, existing: Sequence[schema.Index], counts: Mapping[str, int]
    ) -> list[str]:
        """The notes that `create_missing` would return."""
        left = self._left_out(schema.missing(self.graph, dimensions, existing), existing, counts)
        return [_external_note(left)] if left else []

    def _left_out(
        self,
        wanted: Sequence[schema.Wanted],
        existing: Sequence[schema.Index],
        counts: Mapping[str, int],
    ) -> list[schema.Wanted]:
        """What is missing and stays so, as the database was created by another program."""
        if not schema.is_external(self.graph, existing, counts):
            return []
        complete = {
            n
            for n, label in self.graph.labels.items()
            if schema.has_unique_keys(self.graph, label, existing)
        }
        return [one for one in wanted if one.label not in complete]

    async def migrate(self, dimensions: int | None, *, drop: bool) -> list[str]:
        """Create all that is missing and can be created; returns a report of what was and was not.

        Args:
            dimensions: Length of the vectors; None: unknown, so no vector index is
                created.
            drop: First drop the indexes and constraints that bear names of the graph.
        """
        report = await self._drop_own() if drop else []
        existing = await self.indexes()
        done = []
        for one in schema.missing(self.graph, dimensions, existing):
            if one.what == f"unique {self.graph.key}" and (why := await self._duplicates(one)):
                report.append(why)
            elif one.blocked:
                report.append(
                    f"{one.what} of {one.label}: not made, as the index {one.blocked} is on it, and a database has one of the "
                    f"two. It works without; to have it, drop that index (DROP INDEX {one.blocked}) and run this again"
                )
            else:
                done.append(one)
        await self._create([*schema.missing_internal(existing), *_statements(done)])
        report += [f"made: {one.what} of {one.label}" for one in done]
        for label in self.graph.labels.values():
            for derived in label.derived.values():
                lacking = self._unembedded if derived.by == "embed" else self._fill
                report += derived_report(label, derived, await lacking(label, derived))
        return report

    async def _drop_own(self) -> list[str]:
        indexes = schema.indexes_named_by(self.graph, await self.indexes())
        await self._create(
            [
                schema.drop_constraint(i.constraint) if i.constraint else schema.drop_index(i.name)
                for i in indexes
            ]
        )
        return [f"dropped: {index.name}" for index in indexes]

    async def _duplicates(self, one: schema.Wanted) -> str:
        """Which keys several rows of a label have, in words; "" if none."""
        query = schema.duplicates(self.graph, self.graph.label(one.label))
        [[number, some]] = await self.bolt.read(query)
        if not number:
            return ""
        return (
            f"{number:,} {self.graph.key} of {one.label} are duplicates (such as {', '.join(map(str, some))}), so they are "
            f"not made unique. Nothing of them was changed; this finds them all: {query.splitlines()[0]} RETURN key, rows"
        )

    async def _create(self, statements: Sequence[str]) -> None:
        if not statements:
            return
        await self.bolt.write(partial(self._run, statements))
        await self.bolt.read(f"CALL db.awaitIndexes({_INDEX_SECONDS})")

    async def _run(self, statements: Sequence[str], tx: AsyncManagedTransaction) -> None:
        for statement in statements:
            await self.bolt.run(tx, statement)

    async def _unembedded(self, label: Label, derived: Derived) -> int:
        """How many rows have a text and no vector of it."""
        [[*_, number]] = await self.bolt.read(
            schema.count_lacking(self.graph, [(label.name, derived.name)])
        )
        return int(number)

    async def _fill(self, label: Label, derived: Derived) -> int:
        """Store a derived text property of all rows that lack it, or have it as an earlier version
        made it; of how many.
        """
        total, after = 0, ""
        read = schema.rows_lacking(self.graph, label, derived, confined=False, limit=_BATCH)
        while records := await self.bolt.read(read):
            number = await self._store(label, derived, [(key, of) for key, _, of in records])
            total += number
            if not number:
                break
        read = schema.rows_to_check(self.graph, label, derived, limit=_BATCH)
        while records := await self.bolt.read(read, {"after": after}):
            after = records[-1][0]
            old = [(key, of) for key, of, value in records if derive(derived, of) != value]
            total += await self._store(label, derived, old) if old else 0
        return total

    async def _store(self, label: Label, derived: Derived, texts: list[tuple[str, str]]) -> int:
        """Store a derived property of some rows, each a key and a text; of how many."""
        rows = [
            {"k": key, "of": of, "value": derive(derived, of)} for key, of in dict.fromkeys(texts)
        ]
        write = schema.fill(self.graph, label, derived)

        async def work(tx: AsyncManagedTransaction) -> int:
            [[number]] = await self.bolt.run(tx, write, {"rows": rows})
            return int(number)

        return await self.bolt.write(work)


def _name(index: schema.Index) -> str:
    return index.name


def _statements(wanted: Sequence[schema.Wanted]) -> list[str]:
    return [*(one.drop for one in wanted if one.drop), *(one.create for one in wanted)]


def _external_note(wanted: Sequence[schema.Wanted]) -> str:
    """The note on a database that is left unchanged."""
    by: dict[str, list[str]] = defaultdict(list)
    for one in wanted:
        by[one.what].append(one.label)
    listed = "; ".join(f"{what} of {', '.join(labels)}" for what, labels in by.items())
    return (
        f"this database was created by another program and was left unchanged. Missing: {listed}. Queries work, but more "
        "slowly; a plan that writes `schema`, such as build_indices_and_constraints, creates them"
    )
