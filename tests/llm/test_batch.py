"""Requests that run ahead go into batches: over real HTTP, with a clock that does not wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.world.batches import BatchFault
from semgraph.errors import BudgetReached, ModelUnavailable, RowError
from semgraph.llm.base import Message, Reply, Request
from semgraph.llm.batch import Batched, BatchPolicy
from semgraph.llm.journal import Journal, Journalled
from semgraph.llm.openai import OpenAI
from semgraph.llm.stack import Budget, Budgeted, Coalesced, Limiter, RetryPolicy, Stack
from semgraph.llm.tokens import FlatPrice, most_usage
from tests.examples import examples
from tests.inside import endpoint, waits_for_room
from tests.llm.server import Answer, Fault, ModelServer, error
from tests.patience import HANGS

Ask = Callable[..., Request]


class Clock:
    """Sleeps that end in the next turns of the event loop, and how long they would have been."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        for _ in range(20):
            await asyncio.sleep(0)


@asynccontextmanager
async def batches(
    server: ModelServer,
    journal: Journal,
    attempts: int = 3,
    size: int = 190_000_000,
    **options: Any,
) -> AsyncIterator[Batched]:
    """A model that sends batches to the server."""
    model = OpenAI("m", server.base_url, price=FlatPrice(1.0, 10.0, 0.5), timeout=HANGS, batch=True)
    clock = Clock()
    policy = BatchPolicy(size=size, sleep=clock.sleep)
    batched = Batched(
        model, journal, retry=RetryPolicy(attempts, first=0.001), policy=policy, **options
    )
    try:
        yield batched
    finally:
        await batched.aclose()
        await model.aclose()


async def all_of(work: list[Awaitable[Reply]]) -> list[Any]:
    async with asyncio.timeout(HANGS):
        return await asyncio.gather(*work, return_exceptions=True)


async def rows(model: Any, ask: Ask, count: int) -> list[Any]:
    return await all_of([model.complete(ask(f"row {i}")) for i in range(count)])


def texts(replies: list[Any]) -> list[str]:
    return [json.loads(reply.text) for reply in replies]


async def test_concurrent_requests_are_one_batch_at_half_the_price(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    async with batches(server, journal) as model:
        replies = await rows(model, ask, 30)
    assert texts(replies) == [f"row {i}" for i in range(30)]
    assert [len(batch) for batch in server.batches.submitted] == [30]
    assert server.requests == []
    usage = replies[0].usage
    assert replies[0].dollars == pytest.approx((usage.prompt + 10 * usage.completion) / 2e6)
    assert (replies[0].origin, replies[0].attempts) == ("issued", 1)


async def test_the_bodies_are_those_of_direct_requests(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    asked = [ask("plain"), ask("draw", sample=2), ask("word", words=("yes", "no"), max_tokens=1)]
    direct = OpenAI("m", server.base_url, timeout=HANGS)
    await all_of([direct.complete(request) for request in asked])
    await direct.aclose()
    async with batches(server, journal) as model:
        await all_of([model.complete(request) for request in asked])
    sent = [body for batch in server.batches.submitted for body in batch]
    assert sorted(map(json.dumps, sent)) == sorted(map(json.dumps, server.requests))


async def test_requests_that_do_not_run_ahead_are_sent_directly(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    direct = OpenAI("m", server.base_url, timeout=HANGS)
    async with batches(server, journal) as ahead:
        model = Stack(journal=journal).model(direct, Limiter(), ahead)
        replies = await all_of(
            [model.complete(ask("now")), model.complete(ask("later", ahead=True))]
        )
        again = await model.complete(ask("later"))
        await model.aclose()
    assert texts(replies) == ["now", "later"]
    assert len(server.requests) == 1
    assert [len(batch) for batch in server.batches.submitted] == [1]
    assert again.origin == "journal"  # an answer is the same, whichever way it came


async def test_a_full_file_is_sent_at_once(server: ModelServer, journal: Journal, ask: Ask) -> None:
    async with batches(server, journal, size=2_000) as model:
        replies = await rows(model, ask, 12)
    assert texts(replies) == [f"row {i}" for i in range(12)]
    assert len(server.batches.submitted) > 1
    assert all(
        len(file) <= 2_500 for name, file in server.batches.files.items() if name == "file-1"
    )


async def test_looks_at_a_batch_become_rarer(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.looks = 14
    async with batches(server, journal) as model:
        await model.complete(ask())
        slept = model.policy.sleep.__self__.slept  # type: ignore[attr-defined]
    looks = slept[1:]  # the first gathers
    assert looks == sorted(looks)
    assert (looks[0], looks[-1]) == (2.0, 60.0)


@pytest.mark.parametrize("kind", ["upload", "create", "look", "read", "lost_create"])
@pytest.mark.parametrize("status", [429, 500])
async def test_a_call_that_fails_is_repeated_and_nothing_is_paid_twice(
    kind: str, status: int, server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.faults = (BatchFault(kind, (1,), status),)
    async with batches(server, journal) as model:
        replies = await rows(model, ask, 4)
    assert texts(replies) == [f"row {i}" for i in range(4)]
    assert server.batches.calls[kind] >= 1
    assert set(server.batches.answered.values()) == {1}
    assert len(server.batches.batches) == 1


@pytest.mark.parametrize("kind", ["line_500", "line_429", "line_expired", "line_missing"])
async def test_a_line_that_was_not_answered_goes_into_the_next_batch(
    kind: str, server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.faults = (BatchFault(kind, (2, 3)),)
    async with batches(server, journal) as model:
        replies = await rows(model, ask, 5)
    assert texts(replies) == [f"row {i}" for i in range(5)]
    assert [len(batch) for batch in server.batches.submitted] == [5, 2]
    assert sorted(reply.attempts for reply in replies) == [1, 1, 1, 2, 2]
    assert set(server.batches.answered.values()) == {1}


async def test_an_expired_batch_keeps_its_answers_and_sends_the_rest_again(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.faults = (BatchFault("expired"),)
    async with batches(server, journal) as model:
        replies = await rows(model, ask, 6)
    assert texts(replies) == [f"row {i}" for i in range(6)]
    assert [len(batch) for batch in server.batches.submitted] == [6, 3]
    assert set(server.batches.answered.values()) == {1}


async def test_a_line_that_always_fails_is_an_error_of_its_row(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    async def answer(body: dict) -> Any:
        text = body["messages"][-1]["content"]
        return error(500, "broken") if text == "row 1" else json.dumps(text)

    server.answer = answer
    async with batches(server, journal) as model:
        replies = await rows(model, ask, 3)
    assert isinstance(replies[1], RowError)
    assert (replies[1].kind, replies[1].attempts) == ("server", 3)
    assert "3 batches" in str(replies[1])
    assert [len(batch) for batch in server.batches.submitted] == [3, 1, 1]


@pytest.mark.parametrize(
    ("answer", "kind", "spent"),
    [
        (error(400, "wrong schema"), "rejected", False),
        (Answer('{"keep": tr', finish="length"), "truncated", True),
        (Answer(None, refusal="no"), "refused", True),
    ],
)
async def test_a_refused_line_is_an_error_of_its_row_as_with_direct_calls(
    answer: Any, kind: str, spent: bool, server: ModelServer, journal: Journal, ask: Ask
) -> None:
    async def said(body: dict) -> Any:
        return answer

    server.answer = said
    async with batches(server, journal) as model:
        [reply] = await rows(model, ask, 1)
    assert (reply.kind, reply.attempts, reply.spent is not None) == (kind, 1, spent)
    assert await journal.open_batches() == []


async def test_an_endpoint_that_takes_no_seeds_is_asked_without(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    async def answer(body: dict) -> Any:
        return error(400, "Unknown parameter: seed") if "seed" in body else '"drawn"'

    server.answer = answer
    async with batches(server, journal) as model:
        reply = await model.complete(ask(sample=1))
    assert reply.text == '"drawn"'
    assert [["seed" in body for body in batch] for batch in server.batches.submitted] == [
        [True],
        [False],
    ]


async def test_a_cancelled_batch_stops_the_run_and_keeps_its_answers(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.faults = (BatchFault("cancelled"),)
    async with batches(server, journal) as model:
        replies = await rows(model, ask, 4)
    assert texts(replies[:2]) == ["row 0", "row 1"]
    assert all(isinstance(reply, ModelUnavailable) for reply in replies[2:])
    assert "batch_1 was cancelled" in str(replies[3])


async def test_a_batch_that_is_refused_as_a_whole_stops_the_run(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.faults = (BatchFault("failed"),)
    async with batches(server, journal) as model:
        replies = await rows(model, ask, 2)
    assert all("The model is not supported in batches" in str(reply) for reply in replies)
    assert all(isinstance(reply, ModelUnavailable) for reply in replies)
    assert await journal.open_batches() == []


async def test_a_batch_with_a_wrong_line_is_sent_again_without_it(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.faults = (BatchFault("line_failed"),)
    async with batches(server, journal) as model:
        replies = await rows(model, ask, 3)
    assert isinstance(replies[0], RowError)
    assert "This line is wrong" in str(replies[0])
    assert texts(replies[1:]) == ["row 1", "row 2"]


async def test_without_room_for_a_batch_halves_are_sent_one_after_the_other(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.faults = (BatchFault("full"),)
    async with batches(server, journal) as model:
        replies = await rows(model, ask, 8)
    assert texts(replies) == [f"row {i}" for i in range(8)]
    assert [len(batch) for batch in server.batches.submitted] == [8, 4, 4]


async def test_without_room_for_a_batch_it_waits_for_another_one(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.faults = (BatchFault("full", (2,)),)
    server.batches.gate.clear()
    async with batches(server, journal) as model:
        first = asyncio.create_task(rows(model, ask, 2))
        await server.until(lambda server: len(server.batches.submitted) == 1)
        second = asyncio.create_task(
            all_of([model.complete(ask("late")), model.complete(ask("later"))])
        )
        await server.until(lambda _: waits_for_room(model))
        server.batches.gate.set()
        assert texts([*await first, *await second]) == ["row 0", "row 1", "late", "later"]
    assert [len(batch) for batch in server.batches.submitted] == [2, 2, 2]


async def test_if_half_a_file_fails_no_request_waits_for_ever(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.faults = (BatchFault("full", (1,)), BatchFault("failed", (2,)))
    async with batches(server, journal) as model:
        replies = await rows(model, ask, 4)
    assert all(isinstance(reply, ModelUnavailable) for reply in replies[:2])
    assert texts(replies[2:]) == ["row 2", "row 3"]


async def test_without_room_for_a_single_request_the_run_stops(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.faults = (BatchFault("full", tuple(range(1, 10))),)
    async with batches(server, journal) as model:
        [reply] = await rows(model, ask, 1)
    assert isinstance(reply, ModelUnavailable)
    assert "Enqueued token limit reached. Resume the run when other batches have ended" in str(
        reply
    )


async def test_an_endpoint_without_batches_says_what_to_do(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.has_batches = False
    await server.__aexit__()
    await server.__aenter__()
    async with batches(server, journal) as model:
        [reply] = await rows(model, ask, 1)
    assert isinstance(reply, ModelUnavailable)
    assert "has no batch endpoint" in str(reply)
    assert "Leave batch=true out of the model" in str(reply)


async def submitted(
    server: ModelServer, journal: Journal, ask: Ask, count: int, until: Callable[[Any], Any]
) -> None:
    """A run that ends while its batch is under way."""
    server.batches.gate.clear()
    async with batches(server, journal) as model:
        task = asyncio.create_task(rows(model, ask, count))
        await server.until(until)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    server.batches.gate.set()


async def test_a_later_run_collects_the_answers_of_a_submitted_batch(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    await submitted(server, journal, ask, 5, lambda server: server.batches.calls["look"])
    [open_] = await journal.open_batches()
    assert (open_.id, len(open_.keys)) == ("batch_1", 5)
    async with batches(server, journal) as model:
        recorded = Journalled(model, journal)
        replies = await rows(recorded, ask, 5)
    assert texts(replies) == [f"row {i}" for i in range(5)]
    assert len(server.batches.submitted) == 1
    assert await journal.open_batches() == []


async def test_a_batch_whose_id_was_not_recorded_is_found_by_its_token(
    server: ModelServer, journal: Journal, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_recorded(*_: object) -> None:  # the process ends before it
        pass

    monkeypatch.setattr(journal, "submitted", not_recorded)
    await submitted(server, journal, ask, 3, lambda server: server.batches.calls["look"])
    for _ in range(150):  # batches of others, made later
        server.batches.batches[f"other_{len(server.batches.batches)}"] = {
            **server.batches.batches["batch_1"], "id": f"other_{len(server.batches.batches)}", "metadata": None,
        }  # fmt: skip
    assert [open_.id for open_ in await journal.open_batches()] == [None]
    async with batches(server, journal) as model:
        replies = await rows(model, ask, 3)
    assert texts(replies) == ["row 0", "row 1", "row 2"]
    assert len(server.batches.submitted) == 1
    assert server.batches.calls["list"] == 2


async def test_a_batch_that_was_never_submitted_is_sent(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.faults = (BatchFault("upload", tuple(range(1, 4))),)
    async with batches(server, journal) as model:
        first = await rows(model, ask, 2)
    assert all(isinstance(reply, ModelUnavailable) for reply in first)
    assert [open_.id for open_ in await journal.open_batches()] == [None]
    async with batches(server, journal) as model:
        assert texts(await rows(model, ask, 2)) == ["row 0", "row 1"]
    assert len(server.batches.submitted) == 1


async def test_a_batch_that_the_endpoint_has_forgotten_is_sent_again(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    await submitted(server, journal, ask, 2, lambda server: server.batches.calls["look"])
    server.batches.batches.clear()
    async with batches(server, journal) as model:
        assert texts(await rows(model, ask, 2)) == ["row 0", "row 1"]


async def test_a_run_that_asks_less_leaves_the_other_answers_for_a_later_one(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    await submitted(server, journal, ask, 4, lambda server: server.batches.calls["look"])
    async with batches(server, journal) as model:
        await rows(Journalled(model, journal), ask, 2)
        assert len((await journal.open_batches())[0].keys) == 2
        later = await rows(Journalled(model, journal), ask, 4)
    assert texts(later) == [f"row {i}" for i in range(4)]
    assert len(server.batches.submitted) == 1
    assert server.batches.calls["read"] == 1


async def test_an_answer_that_was_withdrawn_is_not_collected_again(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    async with batches(server, journal) as model:
        reply = await Journalled(model, journal).complete(ask())
        journal.withdraw([reply.call_id])
    async with batches(server, journal) as model:
        await Journalled(model, journal).complete(ask())
    assert len(server.batches.submitted) == 2


async def test_a_fresh_run_ignores_the_batches_of_earlier_ones(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    await submitted(server, journal, ask, 2, lambda server: server.batches.calls["look"])
    async with batches(server, journal, fresh=True) as model:
        await rows(model, ask, 2)
    assert len(server.batches.submitted) == 2


async def test_batches_outlive_a_restart_of_the_server(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.gate.clear()
    async with batches(server, journal, attempts=100_000) as model:
        task = asyncio.create_task(rows(model, ask, 3))
        await server.until(lambda server: server.batches.calls["look"])
        await server.__aexit__()
        server.batches.gate.set()
        await server.__aenter__()
        assert texts(await task) == ["row 0", "row 1", "row 2"]
    assert set(server.batches.answered.values()) == {1}


async def test_a_request_that_is_asked_again_while_its_batch_is_under_way_is_not_sent_again(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    server.batches.gate.clear()
    async with batches(server, journal) as model:
        shared = Coalesced(model)
        first = asyncio.create_task(shared.complete(ask()))
        await server.until(lambda server: server.batches.calls["look"])
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        second = asyncio.create_task(shared.complete(ask()))
        server.batches.gate.set()
        assert json.loads((await second).text) == "hello"
    assert [len(batch) for batch in server.batches.submitted] == [1]


async def test_a_cancelled_request_is_not_sent(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    async with batches(server, journal) as model:
        gone = asyncio.create_task(model.complete(ask("gone")))
        stays = asyncio.create_task(model.complete(ask("stays")))
        await asyncio.sleep(0)
        gone.cancel()
        assert json.loads((await stays).text) == "stays"
    assert [len(batch) for batch in server.batches.submitted] == [1]


async def test_a_limit_of_calls_holds_exactly(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    budget = Budget(max_calls=7)
    async with batches(server, journal) as model:
        replies = await rows(Budgeted(model, budget), ask, 20)
    assert sum(isinstance(reply, Reply) for reply in replies) == 7
    assert sum(isinstance(reply, BudgetReached) for reply in replies) == 13
    assert server.batches.answered.total() == budget.spent.calls == 7


async def test_a_limit_in_dollars_reserves_the_price_of_batches(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    async with batches(server, journal) as model:
        most = model.dollars(most_usage(model, ask("row 0")))
        assert most is not None
        budget = Budget(max_usd=most * 3)
        replies = await rows(Budgeted(model, budget), ask, 3)
    assert all(isinstance(reply, Reply) for reply in replies)
    assert len(server.batches.submitted) == 1  # all three were admitted at once


HARMLESS = (
    "upload",
    "create",
    "list",
    "look",
    "read",
    "lost_create",
    "expired",
    "line_500",
    "line_expired",
)
faults = st.lists(
    st.builds(BatchFault, st.sampled_from(HARMLESS), st.tuples(st.integers(1, 4))), max_size=5
)


@settings(max_examples=examples(12, 25))
@given(
    faults=faults,
    number=st.integers(1, 9),
    point=st.sampled_from(["", "upload", "create", "look", "read"]),
)
def test_whatever_fails_each_request_is_paid_once(
    faults: list[BatchFault], number: int, point: str
) -> None:
    def ask(text: str) -> Request:
        return Request("default", (Message("user", text),), "")

    async def scenario(folder: Path) -> None:
        journal = Journal(folder / "journal.db")
        async with ModelServer() as server:
            server.batches.faults = tuple(faults)
            if point:  # a run that ends when it has come so far
                async with batches(server, journal, attempts=30) as model:
                    task = asyncio.create_task(rows(Journalled(model, journal), ask, number))
                    await server.until(lambda server: server.batches.calls[point] or task.done())
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
            async with batches(server, journal, attempts=30) as model:
                replies = await rows(Journalled(model, journal), ask, number)
            assert texts(replies) == [f"row {i}" for i in range(number)]
            assert set(server.batches.answered.values()) == {1}
            assert await journal.open_batches() == []
        journal.close()

    with TemporaryDirectory() as folder:
        asyncio.run(scenario(Path(folder)))


ODD_LOOKS = {
    "a page": b"<html>",
    "a status that is a list": b'{"id": "batch_1", "status": ["x"]}',
    "a status that is an object": b'{"id": "batch_1", "status": {}}',
    "no status": b'{"id": "batch_1"}',
    "403": 403,
    "404": 404,
}


@pytest.mark.parametrize("kind", ODD_LOOKS)
async def test_an_odd_look_at_a_batch_is_repeated(
    server: ModelServer, journal: Journal, ask: Ask, kind: str
) -> None:
    server.batches.looks = 3
    odd, looks = ODD_LOOKS[kind], 0
    if isinstance(odd, int):
        server.batches.faults = (BatchFault("look", (2,), odd),)
    async with batches(server, journal) as model:
        wire = endpoint(model).wire
        get = wire.get

        async def get_oddly(path: str, seconds: float | None = None) -> bytes:
            nonlocal looks
            content = await get(path, seconds)
            looks += path.startswith("/batches/")
            return odd if looks == 2 and isinstance(odd, bytes) else content

        wire.get = get_oddly  # type: ignore[method-assign]
        replies = await rows(model, ask, 2)
    assert texts(replies) == ["row 0", "row 1"]
    assert len(server.batches.submitted) == 1


async def test_a_batch_that_stays_without_a_status_ends_the_run(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    async with batches(server, journal) as model:

        async def no_status(path: str, seconds: float | None = None) -> bytes:
            return b"{}"

        endpoint(model).wire.get = no_status  # type: ignore[method-assign]
        [reply] = await rows(model, ask, 1)
    assert isinstance(reply, ModelUnavailable)
    assert "batch batch_1 has no status (3 attempts). Submitted batches are recorded" in str(reply)


@pytest.mark.parametrize(
    ("status", "what"), [(401, "The key was not accepted"), (403, "no access to this model")]
)
async def test_a_refused_upload_says_what_to_do(
    server: ModelServer, journal: Journal, ask: Ask, status: int, what: str
) -> None:
    server.batches.faults = (BatchFault("upload", tuple(range(1, 9)), status),)
    async with batches(server, journal) as model:
        [reply] = await rows(model, ask, 1)
    assert isinstance(reply, ModelUnavailable)
    assert what in str(reply)
    assert server.batches.calls["upload"] == (1 if status == 401 else 3)


async def test_a_request_near_a_limit_is_in_the_batch_of_the_next_run(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    async with batches(server, journal) as ahead:
        stack = Stack(RetryPolicy(3), Budget(max_tokens=1100), journal)
        model = stack.model(endpoint(ahead), Limiter(), ahead)
        for n in range(5):
            await model.complete(ask(f"{n}", ahead=True, max_tokens=700))
        server.batches.gate.clear()
        task = asyncio.create_task(model.complete(ask("last", ahead=True, max_tokens=900)))
        await asyncio.wait([task], timeout=0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    sent = len(server.batches.submitted)
    server.batches.gate.set()
    async with batches(server, journal) as ahead:
        model = Stack(RetryPolicy(3), None, journal).model(endpoint(ahead), Limiter(), ahead)
        await model.complete(ask("last", ahead=True, max_tokens=900))
    bodies = [body for batch in server.batches.submitted for body in batch]
    assert {body["max_tokens"] for body in bodies} == {700, 900}
    assert len(bodies) == 6
    assert sent in (5, 6)


@pytest.mark.parametrize(
    "body",
    [
        None, [], "x", {}, {"choices": None}, {"choices": []}, {"choices": [None]},
        {"choices": [{"message": {"content": 5}}]}, {"error": "gone"}, {"error": [1]},
        {"models": []},
    ],
    ids=json.dumps,
)  # fmt: skip
async def test_an_odd_line_of_a_batch_costs_its_row_only(
    server: ModelServer, journal: Journal, ask: Ask, body: Any
) -> None:
    async def answer(asked: dict[str, Any]) -> str | Fault:
        odd = asked["messages"][-1]["content"] == "row 0"
        return Fault(body=body) if odd else json.dumps(asked["messages"][-1]["content"])

    server.answer = answer
    async with batches(server, journal) as model:
        odd, *others = await rows(model, ask, 3)
    assert isinstance(odd, RowError)
    assert odd.kind == "server"
    assert texts(others) == ["row 1", "row 2"]


async def test_a_line_that_is_no_json_is_sent_again(
    server: ModelServer, journal: Journal, ask: Ask
) -> None:
    read, cut = server.batches.files, []

    class Cutting(dict):  # type: ignore[type-arg]
        """Files; the first one read has its last line cut."""

        def __setitem__(self, name: str, content: bytes) -> None:
            if b'"response"' in content and not cut:
                cut.append(name)
                content = content.rstrip(b"\n")[:-40]
            super().__setitem__(name, content)

    server.batches.files = Cutting(read)
    async with batches(server, journal) as model:
        replies = await rows(model, ask, 3)
    assert texts(replies) == ["row 0", "row 1", "row 2"]
    assert cut
    assert len(server.batches.submitted) == 2
