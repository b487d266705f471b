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

from semgraph.engine import on_ray as engine_ledger
from semgraph.engine.on_ray import (
    TAKEN,
    Account,
    EngineSpec,
    Rates,
    Return,
    RunLedger,
    ShardTaken,
    SharedBudget,
    SharedLimiter,
    Task,
)
from semgraph.errors import BudgetReached, SemgraphError
from semgraph.llm.settings import RunLimits
from semgraph.llm.stack import Spending
from tests.engine.here import EngineHere, sent_to
from tests.patience import HANGS

ONE = Spending(1)


@dataclass
class Worker:
    """A worker, and its requests that the budget admitted."""

    name: str
    flying: list[Spending] = field(default_factory=list)


steps = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["send", "end", "end", "die", "twice"]), st.integers(0, 9)), max_size=120)  # fmt: skip


async def asked(ledger: RunLedger, worker: Worker, need: Spending) -> bool:
    """Whether a request is admitted without waiting."""
    asking = asyncio.create_task(ledger.enter(worker.name, None, [(need, "")], ()))
    for _ in range(3):
        await asyncio.sleep(0)
    if asking.done():
        return asking.result() == 1
    asking.cancel()
    await asyncio.wait({asking})
    return False


@given(steps=steps, calls=st.integers(0, 60), tokens=st.integers(0, 400))
def test_no_interleaving_of_requests_returns_and_deaths_passes_a_limit(steps, calls, tokens):
    async def work() -> None:
        ledger = RunLedger(RunLimits(max_calls=calls, max_tokens=tokens, max_usd=2.0))
        budget, sent = ledger.budget, Spending()  # as the endpoint counts
        workers, deaths = [Worker(str(n)) for n in range(4)], 0
        for number, what, size in steps:
            worker, actual = workers[number], Spending(1, size, size / 100)
            if what == "send":
                need = Spending(1, 10, 0.01 + size / 100)
                if await asked(ledger, worker, need):
                    worker.flying.append(need)
                    sent += actual
            elif what in {"end", "twice"} and worker.flying:
                returns = [(worker.flying.pop(0), actual)]
                await ledger.leave(worker.name, None, returns)
                if what == "twice" and returns[0][0] not in worker.flying:
                    await ledger.leave(worker.name, None, returns)
            elif what == "die":
                await ledger.ended(worker.name)
                deaths += 1
                workers[number] = Worker(f"{number}, after {deaths} deaths")
            total = budget.spent + budget.reserved
            assert total.calls <= calls
            assert total.tokens <= tokens
            assert total.usd <= 2.0 + 1e-6
            assert sent.calls <= total.calls
        for worker in workers:
            await ledger.ended(worker.name)
        assert budget.reserved.calls == budget.reserved.tokens == 0
        last = Worker("last")
        while await asked(ledger, last, ONE):  # all that is left can be spent
            await ledger.leave("last", None, [(ONE, ONE)])
        assert budget.spent.calls == calls

    asyncio.run(work())


async def test_a_worker_that_was_taken_for_dead_gets_nothing_more():
    ledger = RunLedger(RunLimits(max_calls=100))
    assert await ledger.enter("a", None, [(ONE, ""), (ONE, "")], ()) == 2
    await ledger.ended("a")
    await ledger.leave("a", None, [(ONE, Spending())])
    assert await ledger.enter("a", None, [(ONE, "")], ()) == TAKEN
    assert ledger.budget.spent == Spending(2)


async def test_a_worker_that_dies_as_it_waits_gets_nothing_and_spends_nothing():
    ledger = RunLedger(RunLimits(max_calls=1))
    assert await ledger.enter("a", None, [(ONE, "")], ()) == 1
    waiting = asyncio.create_task(ledger.enter("b", None, [(ONE, "")], ()))
    await asyncio.sleep(0)
    await ledger.ended("b")
    await ledger.leave("a", None, [(ONE, Spending())])
    assert await waiting == TAKEN
    assert await ledger.enter("c", None, [(ONE, "")], ()) == 1


async def test_requests_that_fit_are_admitted_together():
    ledger = RunLedger(RunLimits(max_calls=5))
    assert await ledger.enter("a", None, [(ONE, "")] * 3, ()) == 3
    assert await ledger.enter("b", None, [(ONE, "")] * 3, ()) == 2


class Shards:
    """Some shards that spend, each with a budget of its own over one ledger."""

    def __init__(self, count: int, **limits: Any) -> None:
        values = RunLimits(**limits)
        self.ledger = RunLedger(values)
        self.budgets = [SharedBudget(sent_to(self.ledger), str(n), values) for n in range(count)]
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
        await budget.line.close()

    async def send(self, budget: SharedBudget, most: Spending, actual: Spending) -> None:
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
    assert work.sent.calls == work.ledger.budget.spent.calls == calls


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
        assert shards.sent.tokens == shards.ledger.budget.spent.tokens
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
    await work.budgets[0].line.close()
    with pytest.raises(BudgetReached) as reached:
        await work.budgets[1].reserve(ONE)
    assert str(reached.value) == "stopped before call 4: it would pass max_calls 3 (spent 3)"


async def test_a_worker_whose_shard_was_taken_over_ends():
    work = Shards(2, max_calls=100)
    await work.budgets[0].reserve(ONE)
    await work.ledger.ended("0")
    work.budgets[0].charge(ONE, ONE)
    with pytest.raises(ShardTaken):
        await work.budgets[0].reserve(ONE)
    assert work.ledger.budget.spent == ONE


async def test_without_limits_the_budget_sends_nothing():
    async def refusing(*_: Any) -> None:
        raise AssertionError

    budget = SharedBudget(refusing, "0", RunLimits())
    await budget.reserve(ONE)
    budget.charge(ONE, ONE)
    await budget.line.close()
    assert budget.spent == ONE


def limiters(rates: Rates, count: int) -> tuple[RunLedger, list[SharedLimiter]]:
    ledger = RunLedger(RunLimits())
    return ledger, [SharedLimiter(sent_to(ledger), str(n), rates) for n in range(count)]


async def test_all_shards_together_have_as_many_requests_in_flight_as_the_endpoint_admits():
    _, shards = limiters(Rates("one", 3, None, None), 4)
    inside, most = 0, 0

    async def request(limiter: SharedLimiter) -> None:
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


class CountingLedger(RunLedger):
    """A ledger that counts what it is sent."""

    def __init__(self) -> None:
        super().__init__(RunLimits())
        self.returned: list[int] = []  # places, by message

    async def leave(self, holder: str, account: Account, left: Sequence[Return]) -> None:
        self.returned += [len(left)] if left else []
        await super().leave(holder, account, left)


async def test_places_that_become_free_together_are_returned_together(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(engine_ledger, "GATHER_SECONDS", HANGS)
    ledger = CountingLedger()
    limiter = SharedLimiter(sent_to(ledger), "one", Rates("one", 64, None, None))
    for _ in range(32):
        await limiter.enter()
    ledger.returned.clear()
    for _ in range(10):
        limiter.leave()
        await asyncio.sleep(0)
    await limiter.enter()  # brings them along
    assert ledger.returned == [10]
    for _ in range(16):  # a quarter of all does not wait
        limiter.leave()
    for _ in range(20):
        await asyncio.sleep(0)
    assert ledger.returned == [10, 16]
    for _ in range(7):
        limiter.leave()
        await asyncio.sleep(0)
    await limiter.line.close()
    assert ledger.returned == [10, 16, 7]
    assert not any(ledger.held.values())


async def test_places_are_returned_while_a_request_waits_for_one():
    ledger = CountingLedger()
    limiter = SharedLimiter(sent_to(ledger), "one", Rates("one", 64, None, None))
    for _ in range(64):
        await limiter.enter()
    waiting = asyncio.create_task(limiter.enter())
    await asyncio.sleep(0)
    limiter.leave()
    async with asyncio.timeout(HANGS):
        await waiting


async def test_unused_tokens_of_each_request_are_returned():
    rates = Rates("one", 64, None, 6000.0)
    ledger, [limiter] = limiters(rates, 1)
    await limiter.enter(50)
    await limiter.enter(50)
    limiter.leave(20)
    limiter.leave(30)
    await limiter.line.close()
    tokens = ledger.limiters[rates].tokens
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
    await ledger.ended("0")
    async with asyncio.timeout(HANGS):
        await third.enter()
        await third.enter()


async def test_a_pause_that_an_endpoint_asks_of_one_shard_holds_for_all():
    rates = Rates("one", 2, None, None)
    ledger, (first, second) = limiters(rates, 2)
    first.pause(3600)
    await first.line.close()
    waiting = asyncio.create_task(second.enter())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    assert ledger.limiters[rates].resume_at > 0


async def test_a_request_that_is_cancelled_as_the_ledger_answers_takes_nothing():
    limits = RunLimits(max_tokens=300)
    ledger = RunLedger(limits)

    async def slowly(method: str, *values: Any) -> Any:
        """As from another process."""
        answer = await sent_to(ledger)(method, *values)
        for _ in range(5):
            await asyncio.sleep(0)
        return answer

    first, second = (SharedBudget(slowly, name, limits) for name in ("first", "second"))
    await first.reserve(Spending(1, 100))
    cancelled = asyncio.create_task(first.reserve(Spending(1, 100)))
    for _ in range(3):
        await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    first.charge(Spending(1, 100), Spending(1, 10))
    await first.reserve(Spending(1, 100))
    first.charge(Spending(1, 100), Spending(1, 10))
    await first.line.close()
    assert ledger.budget.reserved.tokens == 0
    assert ledger.budget.spent.tokens == 20
    async with asyncio.timeout(HANGS):
        await second.reserve(Spending(1, 280))


class Failing(EngineHere):
    """Two workers, of which the first has all requests in flight and fails."""

    def __init__(self) -> None:
        super().__init__(EngineSpec(workers=2))
        self.ledger = RunLedger(RunLimits())

    async def attempt(self, task: Task) -> Any:
        await self.ledger.enter(task.holder, Rates("one", 1, None, None), [(0, "")], ())
        if task.number == 0:
            raise SemgraphError("the disk is full")
        return task.number


async def test_a_shard_that_fails_leaves_its_places_in_flight_to_the_others():
    async with asyncio.timeout(HANGS):
        results, failed = await Failing().run_all([Task(0, None), Task(1, None)])
    assert results == {1: 1}
    assert list(failed) == [0]
