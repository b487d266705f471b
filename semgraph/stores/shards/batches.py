"""A batch divided among shards: each row goes to the shard of its partition; one without a partition,
to the shard that has its key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import DataError
from semgraph.logical.schema import Graph
from semgraph.shards import shard_of
from semgraph.stores.base import CommitMarker, Deletion, Write, WriteBatch
from semgraph.stores.batch_io import (
    Refusals,
    RefusedRow,
    check_columns,
    check_partitions,
    keys_of,
)

Locate = Callable[[str, Sequence[str]], Awaitable[Mapping[str, Sequence[int]]]]
"""The shards that have some keys of a label; keys that none has may be missing."""


@dataclass(frozen=True)
class ShardBatch:
    """What one shard writes.

    Args:
        shard: Its number.
        batch: The rows for it.
        marker: The commit marker, if it is for this shard.
        origins: By the `id` of each write of the batch, the write that its rows come from.
    """

    shard: int
    batch: WriteBatch
    marker: CommitMarker | None = None
    origins: Mapping[int, Write] = field(default_factory=dict)

    def refused(self, rows: Iterable[RefusedRow]) -> list[RefusedRow]:
        """Rows that the shard refused, as rows of the whole batch."""
        return [replace(row, write=self.origins.get(id(row.write), row.write)) for row in rows]


def only_shard(
    graph: Graph, batch: WriteBatch, marker: CommitMarker | None, count: int
) -> int | None:
    """The shard of all rows of a batch and its commit marker; None if they are of several, or rows
    name no partition.
    """
    shards = set() if marker is None else {shard_of(marker.partition, count)}
    for write in batch.writes:
        if not write.rows.num_rows:
            continue
        if graph.partition not in write.rows.column_names:
            return None
        values = pc.unique(write.rows.column(graph.partition).cast(pa.string())).to_pylist()
        if None in values:
            return None
        shards |= {shard_of(value, count) for value in values if value is not None}
    return next(iter(shards)) if len(shards) == 1 else None


async def divided(
    graph: Graph,
    batch: WriteBatch,
    marker: CommitMarker | None,
    count: int,
    existing: Sequence[int],
    locate: Locate,
) -> list[ShardBatch]:
    """What each shard writes, in the order of the shards.

    Raises:
        RowsRefused: One key is merged under two partitions.
        DataError: A row without a partition has a key that several shards have.
    """
    for write in batch.writes:
        check_columns(graph, write)
    refusals = Refusals()
    check_partitions(graph, batch, refusals, every=True)
    refusals.check()
    home = _named_partitions(graph, batch, count)
    deleted = _deleted_anywhere(graph, batch)
    places: list[list[Sequence[int]]] = []
    for write in batch.writes:
        keys, partitions = keys_of(graph, write)
        free = [key for key, part in zip(keys, partitions, strict=True) if part is None]
        stored = await locate(write.label, free) if free else {}
        _refuse_several(write, stored)
        elsewhere: Sequence[int] = existing
        if not isinstance(write, Deletion):
            stored = {key: at for key, at in stored.items() if (write.label, key) not in deleted}
            elsewhere = (shard_of("", count),)
        places.append(
            [
                (shard_of(part, count),)
                if part is not None
                else stored.get(key) or home.get((write.label, key)) or elsewhere
                for key, part in zip(keys, partitions, strict=True)
            ]
        )
    of_marker = {shard_of(marker.partition, count)} if marker is not None else set()
    shards = of_marker | {shard for rows in places for row in rows for shard in row}
    return [
        _part(shard, batch, marker if shard in of_marker else None, places)
        for shard in sorted(shards)
    ]


def _named_partitions(
    graph: Graph, batch: WriteBatch, count: int
) -> dict[tuple[str, str], tuple[int]]:
    """The shard of each key that the batch merges under a partition."""
    return {
        (write.label, key): (shard_of(part, count),)
        for write in batch.writes
        if not isinstance(write, Deletion)
        for key, part in zip(*keys_of(graph, write), strict=True)
        if part is not None
    }


def _deleted_anywhere(graph: Graph, batch: WriteBatch) -> set[tuple[str, str]]:
    """The keys that the batch deletes wherever they are."""
    return {
        (write.label, key)
        for write in batch.writes
        if isinstance(write, Deletion)
        for key, part in zip(*keys_of(graph, write), strict=True)
        if part is None
    }


def _refuse_several(write: Write, stored: Mapping[str, Sequence[int]]) -> None:
    for key, shards in stored.items():
        if len(shards) > 1:
            listed = " and ".join(str(shard + 1) for shard in shards)
            error = DataError(
                f"{write.label} {key} is in the shards {listed}, and the row to write names no group; nothing was written",
                hint="write it with its group",
            )
            error.write = write
            raise error


def _part(
    shard: int,
    batch: WriteBatch,
    marker: CommitMarker | None,
    places: Sequence[Sequence[Sequence[int]]],
) -> ShardBatch:
    writes = []
    origins: dict[int, Write] = {}
    for write, shards in zip(batch.writes, places, strict=True):
        own = [place for place, of_row in enumerate(shards) if shard in of_row]
        part = replace(write, rows=write.rows.take(pa.array(own, pa.int64())))
        origins[id(part)] = write
        writes.append(part)
    return ShardBatch(shard, WriteBatch(tuple(writes)), marker, origins)
