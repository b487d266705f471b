"""What the workers of one run may spend and send together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from semgraph.llm.stack import Budget, Limiter, Passed, Spending

CHUNK = 16
"""Requests that a worker may send for one lease, while there is enough for all."""


GONE = "another worker has taken over this shard"


@dataclass(frozen=True)
class Lease:
    """An amount that one worker may spend, until it settles the lease or dies."""

    number: int
    holder: str
    amount: Spending


@dataclass(frozen=True)
class Grant:
    """The answer to a worker.

    Args:
        number: Of its lease; 0 for none.
        amount: Of its lease; what it has in flight is part of it.
        refused: The limit that its request could pass, and how many calls are spent or leased.
        wait: Whether the request may be sent when workers have returned what they do not need.
        version: What to wait for a change of.
        gone: Why the worker must end; "" if it need not.
    """

    number: int = 0
    amount: Spending = Spending()
    refused: tuple[Passed, int] | None = None
    wait: bool = False
    version: int = 0
    gone: str = ""


class RunLedger:
    """What a run may spend over all its workers: at any time, what was spent and what is leased are
    within the limits together.

    A lease ends when it is settled, by its number and once, or when its holder is dead. What a dead
    worker did not report counts as spent: it may have been.

    Args:
        max_calls: As in `Budget`; so are the others.
        max_tokens: Likewise.
        max_usd: Likewise.
        workers: How many hold leases at one time. Leases are for several requests while there is
            plenty for all of them, and for single ones near the end.
    """

    def __init__(
        self,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_usd: float | None = None,
        workers: int = 1,
    ) -> None:
        self.budget = Budget(max_calls, max_tokens, max_usd)
        self.version = 0  # rises with what waiting workers may wait for
        self._plenty = 2 * CHUNK * max(1, workers)
        self._leases: dict[int, Lease] = {}
        self._number = 0
        self._dead: set[str] = set()

    @property
    def spent(self) -> Spending:
        """What workers reported, and what dead ones had leased."""
        return self.budget.spent

    @property
    def leased(self) -> Spending:
        """What workers hold."""
        return sum((lease.amount for lease in self._leases.values()), Spending())

    def settle(self, number: int, spent: Spending) -> None:
        """End a lease with what was spent of it; nothing if it has ended before."""
        if self._leases.pop(number, None) is not None:
            self.budget.spent += spent
            self.version += 1

    def died(self, holder: str) -> None:
        """End the leases of a worker; it gets no other."""
        self._dead.add(holder)
        for lease in [lease for lease in self._leases.values() if lease.holder == holder]:
            self.settle(lease.number, lease.amount)

    def exchange(
        self, holder: str, number: int, spent: Spending, kept: Spending, need: Spending | None
    ) -> Grant:
        """End a worker's lease and begin its next one.

        Args:
            holder: The worker, which has one lease at most.
            number: Of the lease that ends; 0 for none.
            spent: What was spent of it.
            kept: What the worker has in flight of it.
            need: What its next request can cost; None: it sends no more.
        """
        if holder in self._dead or (number and number not in self._leases):
            return Grant(gone=GONE)
        before = self._leases.get(number)
        version = self.version
        self.settle(number, spent)
        if need is None:
            return Grant()
        if before is not None and spent == Spending() and _is_nothing(before.amount - kept):
            self.version = version  # nothing was returned
        if passed := self.budget.passed(self.spent + need):
            calls = (self.spent + self.leased + kept).calls
            return replace(self._lease(holder, kept), refused=(passed, calls))
        if self._is_over(kept + need):
            return replace(self._lease(holder, kept), wait=True)
        many = not self._is_over(kept + _times(need, self._plenty))
        return self._lease(holder, kept + _times(need, CHUNK if many else 1))

    def _lease(self, holder: str, amount: Spending) -> Grant:
        self._number += 1
        self._leases[self._number] = Lease(self._number, holder, amount)
        return Grant(self._number, amount, version=self.version)

    def _is_over(self, more: Spending) -> bool:
        return self.budget.passed(self.spent + self.leased + more) is not None


def _is_nothing(amount: Spending) -> bool:
    return not amount.calls and not amount.tokens and abs(amount.usd) < 1e-9


def _times(amount: Spending, times: int) -> Spending:
    return Spending(amount.calls * times, amount.tokens * times, amount.usd * times)


@dataclass(frozen=True)
class Rates:
    """The limits of an endpoint, and its name."""

    name: str
    in_flight: int
    rpm: float | None
    tpm: float | None


class LedgerLink(Protocol):
    """The ledger of a run as its workers reach it."""

    async def exchange(
        self, holder: str, number: int, spent: Spending, kept: Spending, need: Spending | None
    ) -> Grant:
        """See `RunLedger.exchange`."""
        ...

    async def changed(self, version: int) -> None:
        """Wait until something was returned since."""
        ...

    async def enter(
        self, holder: str, rates: Rates, tokens: Sequence[int], left: Sequence[int] = ()
    ) -> int:
        """Free places as `leave` does; then wait until an endpoint admits a request; how many of these it
        admits then. 0: the worker was taken for dead.
        """
        ...

    async def leave(self, holder: str, rates: Rates, left: Sequence[int]) -> None:
        """Free places in flight, and return the unused tokens of each."""
        ...

    async def pause(self, rates: Rates, seconds: float) -> None:
        """Admit no request of any worker for so long."""
        ...


class SharedLedger:
    """A ledger with the limiters of all endpoints, for workers in any process: a `LedgerLink`.

    Args:
        ledger: What the run may spend.
    """

    def __init__(self, ledger: RunLedger) -> None:
        self.ledger = ledger
        self._limiters: dict[str, Limiter] = {}
        self._inside: dict[str, Counter[str]] = {}  # requests in flight, by holder and endpoint
        self._gone: set[str] = set()
        self._changed: asyncio.Future[None] | None = None

    async def exchange(
        self, holder: str, number: int, spent: Spending, kept: Spending, need: Spending | None
    ) -> Grant:
        """See `RunLedger.exchange`."""
        before = self.ledger.version
        grant = self.ledger.exchange(holder, number, spent, kept, need)
        if self.ledger.version > before:
            self._tell()
        return grant

    async def changed(self, version: int) -> None:
        """Wait until something was returned since."""
        while self.ledger.version <= version:
            if self._changed is None:
                self._changed = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._changed)

    def _tell(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None and not changed.done():
            changed.set_result(None)

    async def enter(
        self, holder: str, rates: Rates, tokens: Sequence[int], left: Sequence[int] = ()
    ) -> int:
        """See `LedgerLink.enter`."""
        await self.leave(holder, rates, left)
        if holder in self._gone:
            return 0
        limiter = self._limiter(rates)
        await limiter.enter(tokens[0])
        count = 1
        while count < len(tokens) and limiter.enter_now(tokens[count]):
            count += 1
        if holder in self._gone:  # it died while it waited
            for _ in range(count):
                limiter.leave()
            return 0
        self._inside.setdefault(holder, Counter())[rates.name] += count
        return count

    async def leave(self, holder: str, rates: Rates, left: Sequence[int]) -> None:
        """See `LedgerLink.leave`; nothing of a worker that was taken for dead."""
        inside = self._inside.get(holder, Counter())
        for unused in left[: inside[rates.name]]:
            self._limiter(rates).leave(unused)
        inside[rates.name] -= len(left)

    async def pause(self, rates: Rates, seconds: float) -> None:
        """Admit no request of any worker for so long."""
        self._limiter(rates).pause(seconds)

    async def died(self, holder: str) -> None:
        """A worker is gone: what it leased and did not report counts as spent, its places in flight
        are free.
        """
        self.ledger.died(holder)
        self._gone.add(holder)
        for name, count in self._inside.pop(holder, Counter()).items():
            for _ in range(count):
                self._limiters[name].leave()
        self._tell()

    async def spent(self) -> Spending:
        """What was spent so far, as far as workers reported it."""
        return self.ledger.spent

    def _limiter(self, rates: Rates) -> Limiter:
        if rates.name not in self._limiters:
            self._limiters[rates.name] = Limiter(rates.in_flight, rates.rpm, rates.tpm)
        return self._limiters[rates.name]
