"""The budget and the limiters of a shard, which it leases from the ledger of its run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from semgraph.engine.ledger import GONE, Grant, LedgerLink, Rates
from semgraph.errors import BudgetReached, SemgraphError
from semgraph.llm.settings import RunLimits
from semgraph.llm.stack import Budget, Limiter, Spending, refusal

GATHER_SECONDS = 0.01
"""Seconds for which places in flight that become free are gathered, before they are returned."""


class ShardTaken(SemgraphError):
    """A worker that was taken for dead must not go on: another one runs its shard."""


class LeasedBudget(Budget):
    """The budget of one shard. What it spends was leased before.

    Args:
        link: The ledger of the run.
        holder: The worker, as the ledger knows it.
        limits: The limits of the run.
        elapsed: Seconds since the run began.
    """

    def __init__(
        self, link: LedgerLink, holder: str, limits: RunLimits, elapsed: float = 0.0
    ) -> None:
        super().__init__(limits.max_calls, limits.max_tokens, limits.max_usd, limits.max_seconds)
        self._began -= elapsed
        self._link, self._holder = link, holder
        self._number, self._amount = 0, Spending()  # of its lease
        self._used = Spending()  # of its lease
        self._trade: asyncio.Task[Grant] | None = None

    async def reserve(self, most: Spending, what: str = "") -> None:
        """See `Budget.reserve`; the requests in flight are those of all shards.

        Raises:
            BudgetReached: It could pass a limit, even if all requests in flight cost nothing.
            ShardTaken: Another worker has taken over this shard.
        """
        async with self._turn:
            if passed := self.passed(Spending()):  # only `max_seconds` is known here
                raise BudgetReached(refusal(passed, what, self.spent.calls + self._reserved.calls))
            while not self._covers(most):
                await self._exchange(most, what)
            self._reserved += most

    def charge(self, most: Spending, actual: Spending) -> None:
        """Replace a reservation by the actual cost."""
        self._used += actual
        super().charge(most, actual)

    async def settle(self) -> None:
        """Return what is left, after the last request."""
        await self._trade_ended()
        number, self._number = self._number, 0
        if number:
            await self._link.exchange(self._holder, number, self._used, Spending(), None)

    def _covers(self, most: Spending) -> bool:
        left = self._amount - self._used - self._reserved
        return (
            (self.max_calls is None or left.calls >= most.calls)
            and (self.max_tokens is None or left.tokens >= most.tokens)
            and (self.max_usd is None or left.usd >= most.usd - 1e-9)
        )

    async def _exchange(self, most: Spending, what: str) -> None:
        await self._trade_ended()
        self._charged = charged = asyncio.get_running_loop().create_future()
        self._trade = asyncio.create_task(self._traded(most))
        self._trade.add_done_callback(lambda done: done.cancelled() or done.exception())
        grant = await asyncio.shield(self._trade)
        if grant.gone:
            raise ShardTaken(grant.gone)
        if grant.refused is not None:
            raise BudgetReached(refusal(grant.refused[0], what, grant.refused[1]))
        if grant.wait:
            await _first(charged, self._link.changed(grant.version))

    async def _traded(self, need: Spending) -> Grant:
        """Change the lease. It is not cancelled with the request that needs it, as the ledger has
        changed it then.
        """
        used = self._used
        grant = await self._link.exchange(self._holder, self._number, used, self._reserved, need)
        self._number, self._amount = grant.number, grant.amount
        self._used -= used
        return grant

    async def _trade_ended(self) -> None:
        """Wait for the change of a request that was cancelled."""
        if self._trade is not None:
            await asyncio.wait({self._trade})


async def _first(future: asyncio.Future[None], other: Coroutine[Any, Any, None]) -> None:
    """Wait for one of two."""
    task = asyncio.ensure_future(other)
    try:
        await asyncio.wait({future, task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        task.cancel()


def _check_admitted(admitted: int) -> None:
    if not admitted:
        raise ShardTaken(GONE)


class LeasedLimiter(Limiter):
    """The limiter of an endpoint for one shard; all shards of a run share its limits.

    Each message to the ledger costs about as much as a request does here, so places that become free
    are returned together: after `GATHER_SECONDS`, or when they are a quarter of all, or with the next wait.

    Args:
        link: The ledger of the run.
        holder: The worker, as the ledger knows it.
        rates: The limits of the endpoint.
    """

    def __init__(self, link: LedgerLink, holder: str, rates: Rates) -> None:
        super().__init__(rates.in_flight, rates.rpm, rates.tpm)
        self._link, self._holder, self._rates = link, holder, rates
        self._asking: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._left: list[int] = []  # unused tokens of requests that ended
        self._many = asyncio.Event()  # so many of them that they are returned at once
        self._returning: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def enter(self, tokens: int = 0) -> None:
        """Wait for a free slot, first come first served. A cancelled wait takes nothing."""
        place = asyncio.get_running_loop().create_future()
        self._asking.append((tokens, place))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._admit())
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave(tokens)
            raise

    def leave(self, unused_tokens: int = 0) -> None:
        """Free the slot, and return unused tokens."""
        self._left.append(unused_tokens)
        if 4 * len(self._left) >= self._rates.in_flight:
            self._many.set()
        if self._returning is None or self._returning.done():
            self._returning = self._send(self._return())

    def pause(self, seconds: float) -> None:
        """Admit no request for so long, of any shard."""
        self._send(self._link.pause(self._rates, seconds))

    async def settle(self) -> None:
        """Wait until all that was sent to the ledger is there."""
        self._many.set()
        if self._pump is not None:
            await asyncio.wait({self._pump})
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _admit(self) -> None:
        """Ask for all requests that wait, in their order."""
        while self._asking:
            try:
                costs = [tokens for tokens, _ in self._asking]
                left = self._take_left()
                admitted = await self._link.enter(self._holder, self._rates, costs, left)
                _check_admitted(admitted)
            except Exception as error:  # noqa: BLE001 - those who wait raise it
                while self._asking:
                    place = self._asking.popleft()[1]
                    if not place.done():
                        place.set_exception(error)
                return
            for _ in range(admitted):
                tokens, place = self._asking.popleft()
                if place.done():  # it does not wait any more
                    self.leave(tokens)
                else:
                    place.set_result(None)

    async def _return(self) -> None:
        while self._left:
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER_SECONDS):
                    await self._many.wait()
            if left := self._take_left():
                await self._link.leave(self._holder, self._rates, left)

    def _take_left(self) -> list[int]:
        """Take the places to return: the unused tokens of each."""
        left, self._left = self._left, []
        self._many.clear()
        return left

    def _send(self, message: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(message)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task
