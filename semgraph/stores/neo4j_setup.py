"""Setting up a database: of its own accord a new one, one that another program made only when asked.

Nothing that others made is dropped or renamed. What is missing in their databases is told, and done without.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from semgraph.errors import EngineError
from semgraph.logical.schema import Derived, Graph, Label
from semgraph.stores.cypher import schema
from semgraph.stores.neo4j_bolt import Bolt
from semgraph.stores.neo4j_underived import derive
from semgraph.stores.refusals import other_length
from semgraph.stores.settles import derived_told

if TYPE_CHECKING:
    from neo4j import AsyncManagedTransaction

_INDEX_SECONDS = 3600
_BATCH = 5000


class Setup:
    """What a graph needs of a database.

    Args:
        bolt: The connection.
        graph: Says what is needed.
    """

    def __init__(self, bolt: Bolt, graph: Graph) -> None:
        self.bolt, self.graph = bolt, graph

    async def there(self) -> list[schema.Index]:
        """The indexes that the database has."""
        return [schema.Index.of(record) for record in await self.bolt.read(schema.SHOW)]

    async def begin(
        self, dimensions: int | None, there: Sequence[schema.Index], counts: Mapping[str, int]
    ) -> list[str]:
        """Make what is missing, unless another program made the database; what was left undone, in words."""
        wanted = schema.missing(self.graph, dimensions, there)
        left = self._left(wanted, there, counts)
        done = [one for one in wanted if one not in left]
        try:
            await self._make([*schema.own(there), *_statements(done)])
        except EngineError as error:
            again = await self.there()
            if "already exists" not in str(error) or set(map(_name, again)) == set(map(_name, there)):
                raise
            return await self.begin(dimensions, again, counts)  # another program made indexes meanwhile
        return [_undone(left)] if left else []

    def undone(self, dimensions: int | None, there: Sequence[schema.Index], counts: Mapping[str, int]) -> list[str]:
        """What `begin` would leave undone, in words."""
        left = self._left(schema.missing(self.graph, dimensions, there), there, counts)
        return [_undone(left)] if left else []

    def _left(
        self, wanted: Sequence[schema.Wanted], there: Sequence[schema.Index], counts: Mapping[str, int]
    ) -> list[schema.Wanted]:
        """What is missing and stays so, as another program made the database."""
        if not schema.is_anothers(self.graph, there, counts):
            return []
        settled = {n for n, label in self.graph.labels.items() if schema.is_settled(self.graph, label, there)}
        return [one for one in wanted if one.label not in settled]

    async def make(self, dimensions: int | None, *, drop: bool) -> list[str]:
        """Make all that is missing and can be made; what was done, and what could not be, in words.

        Args:
            dimensions: Length of the vectors; None: nobody knows it yet, so no vector index is made.
            drop: First drop the indexes and constraints that bear names of the graph.
        """
        said = await self._drop_own() if drop else []
        there = await self.there()
        done = []
        for one in schema.missing(self.graph, dimensions, there):
            if one.what == f"unique {self.graph.key}" and (why := await self._twice(one)):
                said.append(why)
            elif one.blocked:
                said.append(
                    f"{one.what} of {one.label}: not made, as the index {one.blocked} is on it, and a database has one of the "
                    f"two. It works without; to have it, drop that index (DROP INDEX {one.blocked}) and run this again"
                )
            else:
                done.append(one)
        await self._make([*schema.own(there), *_statements(done)])
        said += [f"made: {one.what} of {one.label}" for one in done]
        for label in self.graph.labels.values():
            for derived in label.derived.values():
                lacking = self._unembedded if derived.by == "embed" else self._fill
                said += derived_told(label, derived, await lacking(label, derived))
        return said

    async def _drop_own(self) -> list[str]:
        found = schema.own_names(self.graph, await self.there())
        await self._make(
            [schema.drop_constraint(i.constraint) if i.constraint else schema.drop_index(i.name) for i in found]
        )
        return [f"dropped: {index.name}" for index in found]

    async def _twice(self, one: schema.Wanted) -> str:
        """Which keys several rows of a label have, in words; "" if none."""
        query = schema.duplicates(self.graph, self.graph.label(one.label))
        [[number, some]] = await self.bolt.read(query)
        if not number:
            return ""
        return (
            f"{number:,} {self.graph.key} of {one.label} are there several times (such as {', '.join(some)}), so they are "
            f"not made unique. Nothing of them was changed; this finds them all: {query.splitlines()[0]} RETURN key, rows"
        )

    async def _make(self, statements: Sequence[str]) -> None:
        if not statements:
            return
        await self.bolt.write(partial(self._run, statements))
        await self.bolt.read(f"CALL db.awaitIndexes({_INDEX_SECONDS})")

    async def _run(self, statements: Sequence[str], tx: AsyncManagedTransaction) -> None:
        for statement in statements:
            await self.bolt.run(tx, statement)

    async def _unembedded(self, label: Label, derived: Derived) -> int:
        """How many rows have a text and no vector of it."""
        [[*_, number]] = await self.bolt.read(schema.lacking(self.graph, [(label.name, derived.name)]))
        return int(number)

    async def _fill(self, label: Label, derived: Derived) -> int:
        """Store a derived text property of all rows that lack it; of how many."""
        read = schema.underived(self.graph, label, derived, confined=False, limit=_BATCH)
        write = schema.fill(self.graph, label, derived)
        total = 0
        while records := await self.bolt.read(read):
            texts = dict.fromkeys((key, text) for key, _, text in records if key is not None)
            rows = [{"k": key, "of": text, "value": derive(derived, text)} for key, text in texts]

            async def work(tx: AsyncManagedTransaction, rows: list[dict[str, str]] = rows) -> int:
                [[number]] = await self.bolt.run(tx, write, {"rows": rows})
                return int(number)

            number = await self.bolt.write(work)
            total += number
            if not number:
                break
        return total


def _name(index: schema.Index) -> str:
    return index.name


def _statements(wanted: Sequence[schema.Wanted]) -> list[str]:
    return [*(one.drop for one in wanted if one.drop), *(one.create for one in wanted)]


def _undone(wanted: Sequence[schema.Wanted]) -> str:
    """What a database lacks that is used as it is."""
    by: dict[str, list[str]] = defaultdict(list)
    for one in wanted:
        by[one.what].append(one.label)
    listed = "; ".join(f"{what} of {', '.join(labels)}" for what, labels in by.items())
    return (
        f"another program made this database, and nothing of it was changed. It lacks {listed}. All works without, more "
        "slowly; a plan that writes `schema`, such as build_indices_and_constraints, makes them"
    )


def refuse_other_length(store: str, held: Mapping[tuple[str, str], int], given: int | None) -> None:
    """Refuse vectors of another length than the stored ones, which are by label and index. Raises StoreUnavailable."""
    for (label, index), stored in held.items():
        if given not in (None, stored):
            raise other_length(store, label, index, stored, given or 0)
