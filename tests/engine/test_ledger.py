"""The ledger of a run: whatever its workers do and whenever they die, no limit is passed, and what
is returned can be spent.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semgraph.engine import leased
from semgraph.engine.engines import Task, run_all
from semgraph.engine.leased import LeasedBudget, LeasedLimiter, ShardTaken
from semgraph.engine.ledger import CHUNK, Grant, Rates, RunLedger, SharedLedger
from semgraph.errors import BudgetReached, SemgraphError
from semgraph.llm.settings import RunLimits
from semgraph.llm.stack import Spending
from tests.patience import HANGS

ONE = Spending(1)


@dataclass
class Worker:
    """What a worker knows of its lease."""

    name: str
    grant: Grant = field(default_factory=Grant)
    spent: Spending = field(default_factory=Spending)
    flying: list[Spending] = field(default_factory=list)

    @property
    def left(self) -> Spending:
        return self.grant.amount - self.spent - sum(self.flying, Spending())

    def ask(self, ledger: RunLedger, need: Spending | None) -> None:
        kept = sum(self.flying, Spending())
        number = self.grant.number
        self.grant = ledger.exchange(self.name, number, self.spent, kept, need)
        self.spent = Spending()


def fits(need: Spending, left: Spending) -> bool:
    return need.calls <= left.calls and need.tokens <= left.tokens and need.usd <= left.usd + 1e-9


steps = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["send", "end", "end", "die", "settle"]), st.integers(0, 9)), max_size=120)  # fmt: skip


@given(steps=steps, calls=st.integers(0, 60), tokens=st.integers(0, 400))
def test_no_interleaving_of_leases_settlements_and_deaths_passes_a_limit(steps, calls, tokens):
    ledger = RunLedger(calls, tokens, 2.0, workers=4)
    workers, deaths = [Worker(str(n)) for n in range(4)], 0
    sent = Spending()  # as the endpoint counts
    for number, what, size in steps:
        worker = workers[number]
        need = Spending(1, 10, 0.01 + size / 100)
        if what == "send":
            if not fits(need, worker.left):
                worker.ask(ledger, need)
            if fits(need, worker.left):
                worker.flying.append(need)
                sent += Spending(1, size, size / 100)
        elif what == "end" and worker.flying:
            worker.flying.pop(0)
            worker.spent += Spending(1, size, size / 100)
        elif what == "die":
            ledger.died(worker.name)
            deaths += 1
            workers[number] = Worker(f"{number}, after {deaths} deaths")
        elif what == "settle" and not worker.flying:
            worker.ask(ledger, None)
        total = ledger.spent + ledger.leased
        assert total.calls <= calls
        assert total.tokens <= tokens
        assert total.usd <= 2.0 + 1e-6
        assert sent.calls <= total.calls
    for worker in workers:
        worker.flying.clear()
        worker.ask(ledger, None)
    assert ledger.leased.calls == 0
    assert ledger.leased.tokens == 0
    last, more = Worker("last"), 0
    while True:  # all that is left can be spent, one request after the other
        last.ask(ledger, ONE)
        if last.grant.refused:
            break
        last.spent, more = ONE, more + 1
    assert ledger.spent.calls == calls
    assert more <= calls


def test_a_lease_is_settled_once():
    ledger = RunLedger(max_calls=100)
    grant = ledger.exchange("a", 0, Spending(), Spending(), ONE)
    ledger.exchange("a", grant.number, Spending(2), Spending(), None)
    again = ledger.exchange("a", grant.number, Spending(2), Spending(), None)
    assert ledger.spent.calls == 2
    assert again.gone


def test_a_worker_that_was_taken_for_dead_gets_nothing_more():
    ledger = RunLedger(max_calls=100)
    grant = ledger.exchange("a", 0, Spending(), Spending(), ONE)
    ledger.died("a")
    assert ledger.exchange("a", grant.number, ONE, Spending(), ONE).gone
    assert ledger.spent == grant.amount


def test_leases_are_for_several_requests_while_there_is_plenty_and_for_one_near_the_end():
    ledger = RunLedger(max_calls=10 * CHUNK, workers=2)
    first = ledger.exchange("a", 0, Spending(), Spending(), ONE)
    assert first.amount.calls == CHUNK
    ledger.exchange("a", first.number, Spending(8 * CHUNK), Spending(), None)
    assert ledger.exchange("b", 0, Spending(), Spending(), ONE).amount.calls == 1


class Shards:
    """Some shards that spend, each with a budget of its own over one ledger."""

    def __init__(self, count: int, **limits: Any) -> None:
        self.ledger = SharedLedger(RunLedger(**limits, workers=count))
        values = RunLimits(**limits)
        self.budgets = [LeasedBudget(self.ledger, str(n), values) for n in range(count)]
        self.sent = Spending()

    async def shard(self, number: int, costs: Iterator[tuple[Spending, Spending]]) -> None:
        budget = self.budgets[number]
        async with asyncio.TaskGroup() as group:
            for most, actual in costs:
                try:
                    await budget.reserve(most)
                except BudgetReached:
                    break
                group.create_task(self.send(budget, most, actual))
        await budget.settle()

    async def send(self, budget: LeasedBudget, most: Spending, actual: Spending) -> None:
        self.sent += actual
        for _ in range(random.Random(actual.tokens).randrange(4)):
            await asyncio.sleep(0)
        budget.charge(most, actual)


@pytest.mark.parametrize("shards", [1, 3, 8])
@pytest.mark.parametrize("calls", [1, 40, 500])
async def test_exactly_as_many_calls_are_sent_as_the_limit_says(shards: int, calls: int):
    work = Shards(shards, max_calls=calls)
    async with asyncio.timeout(HANGS):
        endless = (iter(lambda: (ONE, ONE), None) for _ in range(shards))
        await asyncio.gather(*(work.shard(n, costs) for n, costs in enumerate(endless)))
    assert work.sent.calls == work.ledger.ledger.spent.calls == calls


@given(
    costs=st.lists(st.lists(st.integers(0, 100), max_size=30), min_size=1, max_size=5),
    limit=st.integers(100, 900),
)
def test_shards_wait_for_what_others_have_in_flight_as_one_run_does(costs, limit):
    async def work() -> Spending:
        shards = Shards(len(costs), max_tokens=limit)
        for number, own in enumerate(costs):
            pairs = iter([(Spending(1, 100), Spending(1, tokens)) for tokens in own])
            running.append(asyncio.create_task(shards.shard(number, pairs)))
        async with asyncio.timeout(HANGS):
            await asyncio.gather(*running)
        assert shards.sent.tokens == shards.ledger.ledger.spent.tokens
        return shards.sent

    running: list[asyncio.Task[None]] = []
    sent = asyncio.run(work())
    assert sent.tokens <= limit
    if sent.calls < sum(map(len, costs)):  # one was refused: it could have passed the limit
        assert sent.tokens + 100 > limit


async def test_the_message_at_a_limit_is_that_of_one_process():
    work = Shards(2, max_calls=3)
    for n in (0, 1, 0):
        await work.budgets[n].reserve(ONE)
        work.budgets[n].charge(ONE, ONE)
    await work.budgets[0].settle()
    with pytest.raises(BudgetReached) as reached:
        await work.budgets[1].reserve(ONE)
    assert str(reached.value) == "stopped before call 4: it would pass max_calls 3 (spent 3)"


async def test_a_worker_whose_shard_was_taken_over_ends():
    work = Shards(2, max_calls=100)
    await work.budgets[0].reserve(ONE)
    await work.ledger.died("0")
    work.budgets[0].charge(ONE, ONE)
    for _ in range(CHUNK - 1):  # what it had leased, which counts as spent
        await work.budgets[0].reserve(ONE)
        work.budgets[0].charge(ONE, ONE)
    with pytest.raises(ShardTaken):
        await work.budgets[0].reserve(ONE)


def limiters(rates: Rates, count: int) -> tuple[SharedLedger, list[LeasedLimiter]]:
    ledger = SharedLedger(RunLedger(workers=count))
    return ledger, [LeasedLimiter(ledger, str(n), rates) for n in range(count)]


async def test_all_shards_together_have_as_many_requests_in_flight_as_the_endpoint_admits():
    _, shards = limiters(Rates("one", 3, None, None), 4)
    inside, most = 0, 0

    async def request(limiter: LeasedLimiter) -> None:
        nonlocal inside, most
        await limiter.enter()
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        limiter.leave()

    async with asyncio.timeout(HANGS):
        await asyncio.gather(*(request(shards[n % 4]) for n in range(60)))
    assert most == 3


class CountingLink(SharedLedger):
    """A ledger that counts what it is sent."""

    def __init__(self, ledger: RunLedger) -> None:
        super().__init__(ledger)
        self.returned: list[int] = []  # places, by message

    async def leave(self, holder: str, rates: Rates, left: Sequence[int]) -> None:
        self.returned.append(len(left))
        await super().leave(holder, rates, left)


async def test_places_that_become_free_together_are_returned_together(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(leased, "GATHER_SECONDS", HANGS)
    link = CountingLink(RunLedger())
    limiter = LeasedLimiter(link, "one", Rates("one", 64, None, None))
    for _ in range(32):
        await limiter.enter()
    link.returned.clear()
    for _ in range(10):
        limiter.leave()
        await asyncio.sleep(0)
    await limiter.enter()  # brings them along
    assert link.returned == [10]
    for _ in range(16):  # a quarter of all does not wait
        limiter.leave()
    for _ in range(20):
        await asyncio.sleep(0)
    assert link.returned == [10, 16]
    for _ in range(7):
        limiter.leave()
        await asyncio.sleep(0)
    await limiter.settle()
    assert link.returned == [10, 16, 7]
    assert link._inside["one"]["one"] == 0


async def test_places_are_returned_while_a_request_waits_for_one():
    link = CountingLink(RunLedger())
    limiter = LeasedLimiter(link, "one", Rates("one", 64, None, None))
    for _ in range(64):
        await limiter.enter()
    waiting = asyncio.create_task(limiter.enter())
    await asyncio.sleep(0)
    limiter.leave()
    async with asyncio.timeout(HANGS):
        await waiting


async def test_unused_tokens_of_each_request_are_returned():
    link = SharedLedger(RunLedger())
    limiter = LeasedLimiter(link, "one", Rates("one", 64, None, 6000.0))
    await limiter.enter(50)
    await limiter.enter(50)
    limiter.leave(20)
    limiter.leave(30)
    await limiter.settle()
    tokens = link._limiters["one"]._tokens
    assert tokens is not None
    assert tokens.level >= 50  # of 100, of which two requests took 50 each


async def test_places_of_a_dead_worker_and_of_cancelled_waits_are_free_again():
    ledger, (first, second, third) = limiters(Rates("one", 2, None, None), 3)
    await first.enter()
    await first.enter()
    waiting = asyncio.create_task(second.enter())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await ledger.died("0")
    async with asyncio.timeout(HANGS):
        await third.enter()
        await third.enter()


async def test_a_pause_that_an_endpoint_asks_of_one_shard_holds_for_all():
    ledger, (first, second) = limiters(Rates("one", 2, None, None), 2)
    first.pause(3600)
    await first.settle()
    waiting = asyncio.create_task(second.enter())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    assert ledger._limiters["one"]._resume_at > 0


class SlowLink(SharedLedger):
    """A ledger whose answers take their time, as those of another process do."""

    async def exchange(
        self, holder: str, number: int, spent: Spending, kept: Spending, need: Spending | None
    ) -> Grant:
        grant = await super().exchange(holder, number, spent, kept, need)
        for _ in range(5):
            await asyncio.sleep(0)
        return grant


async def test_a_request_that_is_cancelled_as_the_ledger_answers_loses_no_lease():
    link = SlowLink(RunLedger(max_tokens=300, workers=2))
    first, second = (
        LeasedBudget(link, name, RunLimits(max_tokens=300)) for name in ("first", "second")
    )
    await first.reserve(Spending(1, 100))
    cancelled = asyncio.create_task(first.reserve(Spending(1, 100)))
    for _ in range(3):
        await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    first.charge(Spending(1, 100), Spending(1, 10))
    await first.reserve(Spending(1, 100))
    first.charge(Spending(1, 100), Spending(1, 10))
    await first.settle()
    assert link.ledger.leased.tokens == 0
    assert link.ledger.spent.tokens == 20
    async with asyncio.timeout(HANGS):
        await second.reserve(Spending(1, 280))


@dataclass
class Failing:
    """Two workers, of which the first has all requests in flight and fails."""

    ledger: SharedLedger
    workers: int = 2

    async def attempt(self, task: Task) -> Any:
        await self.ledger.enter(task.holder, Rates("one", 1, None, None), [0])
        if task.number == 0:
            raise SemgraphError("the disk is full")
        return task.number

    async def died(self, holder: str) -> None:
        await self.ledger.died(holder)


async def test_a_shard_that_fails_leaves_its_places_in_flight_to_the_others():
    running = Failing(SharedLedger(RunLedger(workers=2)))
    async with asyncio.timeout(HANGS):
        results, failed = await run_all(running, [Task(0, None), Task(1, None)])
    assert results == {1: 1}
    assert [each.number for each in failed] == [0]
