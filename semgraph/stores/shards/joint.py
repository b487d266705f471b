"""One batch, written by several shards: all write, and then all commit, or none does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from semgraph.errors import DataError, StoreUnavailable
from semgraph.stores.base import Shard, Written
from semgraph.stores.batch_io import RefusedRow, RowsRefused
from semgraph.stores.shards.batches import ShardBatch
from semgraph.stores.shards.places import ShardStore


class ShardUnavailable(StoreUnavailable):
    """A shard cannot be used; the message names it."""


@contextmanager
def naming(shard: Shard) -> Iterator[None]:
    """Name the shard in errors of its store."""
    try:
        yield
    except ShardUnavailable:
        raise
    except StoreUnavailable as error:
        raise ShardUnavailable(f"{shard}, {error}") from error


class _Refused(Exception):
    """Rolls back the transactions of all shards, as one refused rows."""


class JointCommit:
    """The transactions of a batch, one in each shard: a shard ends its own when the next one has
    ended. Their order is that of their numbers, so two batches never wait for each other's locks.

    Args:
        parts: What each shard writes, by number.
        opened: Opens a shard.
        count: How many shards there are.
    """

    def __init__(
        self,
        parts: Sequence[ShardBatch],
        opened: Callable[[int], Awaitable[ShardStore]],
        count: int,
    ) -> None:
        self._parts, self._opened, self._count = parts, opened, count
        self._written: Counter[str] = Counter()
        self._refused: list[RefusedRow] = []
        self._committed: set[int] = set()

    async def run(self) -> Written:
        """Write the batch. Raises RowsRefused for the rows that any shard refused."""
        try:
            await self._commit_from(0)
        except _Refused:
            raise RowsRefused(self._refused) from None
        except StoreUnavailable as error:
            if not self._committed:
                raise
            done = ", ".join(str(self._parts[place].shard + 1) for place in sorted(self._committed))
            raise ShardUnavailable(
                f"{error} The rows of the shards {done} are written. Run again to write the others"
            ) from error
        return Written(dict(self._written))

    async def _commit_from(self, place: int) -> None:
        """Write a shard and those after it. One that refused rows has no transaction any more; those
        after it tell theirs.
        """
        if place == len(self._parts):
            if self._refused:
                raise _Refused
            return
        part = self._parts[place]

        async def others_commit() -> None:
            if place + 1 not in self._committed:  # a server may be asked again
                await asyncio.create_task(self._commit_from(place + 1))  # a stack for each shard

        with naming(Shard(part.shard, self._count)):
            store = await self._opened(part.shard)
            try:
                done = await store.commit(part.batch, part.marker, others_commit)
            except RowsRefused as error:
                self._refused += part.refused(error.rows)
            except DataError as error:
                error.write = part.origins.get(id(error.write), error.write)
                raise
            else:
                self._written.update(done.rows)
                self._committed.add(place)
                return
        await self._commit_from(place + 1)
