"""What the workers of one run may spend and send together, and a worker's side of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from semgraph.errors import BudgetReached, SemgraphError
from semgraph.execution.result import Progress
from semgraph.llm.settings import RunLimits
from semgraph.llm.stack import Budget, Limiter, Spending, refusal

GATHER_SECONDS = 0.01
"""Seconds for which a worker gathers what it returns, before it sends a message."""
TAKEN = "another worker has taken over this shard"


class ShardTaken(SemgraphError):
    """A worker that was taken for dead must not go on: another one runs its shard."""


@dataclass(frozen=True)
class Rates:
    """The limits of an endpoint, and its name."""

    name: str
    in_flight: int
    rpm: float | None
    tpm: float | None


Account = Rates | None
"""What admits a request: an endpoint, for tokens; None: the budget of the run, for a `Spending`."""
Return = tuple[Any, Any]
"""What a request gives back. To a budget: what it reserved, and its cost; to an endpoint: 0, and its
unused tokens.
"""
Ledger = Callable[..., Coroutine[Any, Any, Any]]
"""Sends a message to the `RunLedger` of a run: the name of a method, and its arguments."""


def _unused(account: Account, cost: Any) -> Return:
    """What a request gives back that was admitted and not sent."""
    return (cost, Spending()) if account is None else (0, cost)


class RunLedger:
    """The budget of a run and the limiters of its endpoints, for workers in any process: what was
    spent and what requests in flight can cost never exceed a limit together. It also passes on what
    workers report.

    Args:
        limits: What the run may spend; each worker watches `max_seconds`.
    """

    def __init__(self, limits: RunLimits) -> None:
        self.budget = Budget(limits.max_calls, limits.max_tokens, limits.max_usd)
        self._limiters: dict[Rates, Limiter] = {}
        self._held: dict[tuple[str, Account], list[Any]] = {}  # what requests in flight will return
        self._ended: set[str] = set()
        self._reports: dict[tuple[int, str], Progress] = {}

    async def enter(
        self,
        holder: str,
        account: Account,
        asked: Sequence[tuple[Any, str]],
        left: Sequence[Return],
    ) -> int | str:
        """Take back what ended requests return; then wait until the first of others is admitted.

        Args:
            holder: The worker.
            account: What admits them.
            asked: The most that each can cost, and what it is, for errors.
            left: As in `leave`.

        Returns:
            How many are admitted now; or why the first is refused: a limit, or TAKEN.
        """
        await self.leave(holder, account, left)
        own = self.budget if account is None else self._limiter(account)
        now = own.reserve_now if isinstance(own, Budget) else own.enter_now
        if holder in self._ended:
            return TAKEN
        try:
            await (own.reserve(*asked[0]) if isinstance(own, Budget) else own.enter(asked[0][0]))
        except BudgetReached as reached:
            return str(reached)
        count = 1
        while count < len(asked) and now(asked[count][0]):
            count += 1
        returns = [_unused(account, cost) for cost, _ in asked[:count]]
        self._held.setdefault((holder, account), []).extend(most for most, _ in returns)
        if holder in self._ended:  # it died while it waited
            await self.leave(holder, account, returns)
            return TAKEN
        return count

    async def leave(self, holder: str, account: Account, left: Sequence[Return]) -> None:
        """Take back what requests return that have ended; nothing of a worker that has ended."""
        held = self._held.get((holder, account), [])
        for most, actual in left:
            if most in held:
                held.remove(most)
                self._take_back(account, most, actual)

    async def pause(self, rates: Rates, seconds: float) -> None:
        """Admit no request of any worker to an endpoint for so long."""
        self._limiter(rates).pause(seconds)

    async def ended(self, holder: str) -> None:
        """A worker has ended, or died: what it has in flight counts as spent, its places are free, and
        it gets nothing more.
        """
        self._ended.add(holder)
        for key in [key for key in self._held if key[0] == holder]:
            for most in self._held.pop(key):
                self._take_back(key[1], most, most)

    async def report(self, number: int, progress: Progress) -> None:
        """A shard has committed, or answered rows of a step."""
        self._reports[number, progress.step] = progress

    async def reports(self) -> dict[tuple[int, str], Progress]:
        """Take what was reported since."""
        reports, self._reports = self._reports, {}
        return reports

    def _take_back(self, account: Account, most: Any, actual: Any) -> None:
        if account is None:
            self.budget.charge(most, actual)
        else:
            self._limiter(account).leave(actual)

    def _limiter(self, rates: Rates) -> Limiter:
        if rates not in self._limiters:
            self._limiters[rates] = Limiter(rates.in_flight, rates.rpm, rates.tpm)
        return self._limiters[rates]


class Line:
    """The requests of a worker that wait for an account, and what others return to it.

    A message to the ledger costs about as much as a request does here, so several share one. What is
    returned goes with the next wait, after GATHER_SECONDS, or when it is `many`. Waits for the budget
    are gathered as well; those for an endpoint are not, as its places would be idle.
    """

    def __init__(self, ledger: Ledger, holder: str, account: Account, many: float) -> None:
        self._ledger, self._holder, self._account, self._many = ledger, holder, account, many
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: deque[tuple[Any, str, asyncio.Future[None]]] = deque()
        self._left: list[Return] = []
        self._asking: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def enter(self, cost: Any, what: str = "") -> None:
        """Wait until a request is admitted, first come first served. A cancelled wait takes nothing.
        Raises BudgetReached, ShardTaken, and what the ledger raises.
        """
        place = asyncio.get_running_loop().create_future()
        self._waiting.append((cost, what, place))
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.leave(*_unused(self._account, cost))
            raise

    def leave(self, most: Any, actual: Any) -> None:
        """Return what a request was admitted with."""
        self._left.append((most, actual))
        if len(self._left) >= self._many:
            self._send_left()
        elif len(self._left) == 1:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._send_left)

    def send(self, method: str, *values: Any) -> None:
        """Send a message without waiting. One that is lost costs no more than a death does."""
        task = asyncio.create_task(self._ledger(method, *values))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def close(self) -> None:
        """Ask for nothing more, and wait until all messages have arrived."""
        if self._asking is not None:
            self._asking.cancel()
        self._send_left()
        while self._sending:
            await asyncio.wait(set(self._sending))

    async def _ask(self) -> None:
        """Ask for all requests that wait, in their order, until none waits."""
        while self._waiting:
            await asyncio.sleep(GATHER_SECONDS if self._account is None else 0)
            asked = [each[:2] for each in self._waiting]
            error: Exception | None = None
            try:
                told = await self._ledger(
                    "enter", self._holder, self._account, asked, self._taken()
                )
                if isinstance(told, str):
                    error = ShardTaken(told) if told == TAKEN else BudgetReached(told)
            except Exception as raised:  # noqa: BLE001 - the first that waits raises it
                error = raised
            for _ in range(told if error is None else 1):
                cost, _, place = self._waiting.popleft()
                if place.done() and error is None:  # it does not wait any more
                    self.leave(*_unused(self._account, cost))
                elif not place.done():
                    place.set_exception(error) if error else place.set_result(None)

    def _taken(self) -> list[Return]:
        if self._timer is not None:
            self._timer.cancel()
        left, self._left = self._left, []
        return left

    def _send_left(self) -> None:
        if left := self._taken():
            self.send("leave", self._holder, self._account, left)


class SharedBudget(Budget):
    """The budget of one shard, which is that of the run: limits and requests in flight are those of
    all shards. `reserve` raises ShardTaken where another worker has taken over the shard.

    Args:
        ledger: The ledger of the run.
        holder: The worker, as the ledger knows it.
        limits: The limits of the run.
        elapsed: Seconds since the run began.
    """

    def __init__(self, ledger: Ledger, holder: str, limits: RunLimits, elapsed: float = 0) -> None:
        super().__init__(limits.max_calls, limits.max_tokens, limits.max_usd, limits.max_seconds)
        self._began -= elapsed
        self._limited = {self.max_calls, self.max_tokens, self.max_usd} != {None}
        self.line = Line(ledger, holder, None, many=16)

    async def reserve(self, most: Spending, what: str = "") -> None:
        """See `Budget.reserve`."""
        if passed := self.passed(Spending()):  # only `max_seconds` is known here
            raise BudgetReached(refusal(passed, what, (self.spent + self._reserved).calls))
        if self._limited:
            await self.line.enter(most, what)
        self._reserved += most

    def charge(self, most: Spending, actual: Spending) -> None:
        """Replace a reservation by the actual cost."""
        super().charge(most, actual)
        if self._limited:
            self.line.leave(most, actual)


class SharedLimiter(Limiter):
    """The limiter of an endpoint for one shard; all shards of a run share its limits.

    Args:
        ledger: The ledger of the run.
        holder: The worker, as the ledger knows it.
        rates: The limits of the endpoint.
    """

    def __init__(self, ledger: Ledger, holder: str, rates: Rates) -> None:
        super().__init__(rates.in_flight, rates.rpm, rates.tpm)
        self._rates = rates
        self.line = Line(ledger, holder, rates, many=rates.in_flight / 4)

    async def enter(self, tokens: int = 0) -> None:
        """See `Limiter.enter`."""
        await self.line.enter(tokens)

    def leave(self, unused_tokens: int = 0) -> None:
        """Free the slot, and return unused tokens."""
        self.line.leave(0, unused_tokens)

    def pause(self, seconds: float) -> None:
        """Admit no request for so long, of any shard."""
        self.line.send("pause", self._rates, seconds)
