"""Limits: what is paid, as the server counts it, stays below them whatever fails; a search that was stopped
continues, and pays for nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.errors import BudgetReached
from tests.llm.server import Answer, Fault, ModelServer, error
from tests.tune.judges import PRICES, Judge, leaking, notes, opened, share, truth_of, tuned

RULES = "Rules: " + "a pipe leaks if water comes out of it, however little. " * 12
ROWS = notes(100)
OPTIONS: dict[str, Any] = {
    "floor": 0.6, "units": "row", "use": {"good": "per_row"}, "models": ["default", "small"],
}  # fmt: skip


@pytest.fixture
def judge() -> Judge:
    return Judge(lambda texts, at, model: "nano" in model and share(texts[at]) < 0.3)


@pytest.fixture
async def server(judge: Judge) -> AsyncIterator[ModelServer]:
    async with ModelServer(Counting(judge)) as started:
        yield started


class Counting:
    """A model that adds up the price of all that it answers."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.paid, self.answered = judge, 0.0, list[str]()

    async def __call__(self, body: dict[str, Any]) -> str | Answer | Fault:
        said = await self.judge(body)
        if isinstance(said, Fault):
            return said
        text = said.text if isinstance(said, Answer) else said
        sent = -(-sum(len(message["content"]) for message in body["messages"]) // 4)
        prices = PRICES[body["model"]]
        self.paid += (sent * prices[0] + -(-len(text or "") // 4) * prices[1]) / 1e6
        if "response_format" in body:  # a word without its probability is no answer, and not kept
            self.answered.append(body["messages"][-1]["content"])
        return said


def opened_at(server: ModelServer, folder: Path, limit: float | None, **options: Any) -> sg.Session:
    given = {"journal": None, "runs": None, "max_usd": limit}
    return opened(server, folder, **given | options)


def faulty(kind: str) -> Any:
    """Each seventh request is answered by something else."""

    def fault(body: dict[str, Any], asked: int) -> Fault | Answer | None:
        if asked % 7:
            return None
        return {
            "429": error(429, "slow down", retry_after="0.01"), "500": error(500, "oops"),
            "drop": Fault(drop=True), "invalid": Answer("Of course! It leaks."),
        }[kind]  # fmt: skip

    return fault


@pytest.fixture
async def whole(server: ModelServer, tmp_path: Path) -> tuple[float, int]:
    """The price of the whole search, and its requests."""
    async with opened(server, tmp_path / "other") as session:
        result = await tuned(session, leaking(ROWS, RULES), **OPTIONS)
    assert result.stopped is None
    assert result.paid.dollars == pytest.approx(server.answer.paid)
    paid, requests = server.answer.paid, len(server.answer.answered)
    server.answer.paid, server.answer.answered = 0.0, []
    server.answer.judge.asked = 0
    return paid, requests


@pytest.mark.parametrize("latency", [0.0, 0.003])
@pytest.mark.parametrize("kind", ["", "429", "500", "drop", "invalid"])
async def test_what_is_paid_stays_below_the_limit(server, judge, whole, tmp_path, kind, latency):
    judge.fault, server.latency = faulty(kind) if kind else None, latency
    limit = whole[0] * 0.6
    async with opened_at(server, tmp_path, limit) as session:
        try:
            result = await tuned(session, leaking(ROWS, RULES, on_error="null"), **OPTIONS)
        except BudgetReached:
            result = None
    assert 0 < server.answer.paid <= limit
    assert result is None or result.stopped


class TestASearchThatWasStopped:
    async def test_at_a_limit_shows_its_table_and_continues_where_it_was(
        self, server, whole, tmp_path
    ):
        plan, seen = leaking(ROWS, RULES), 0
        paid, requests = whole
        limits = [paid * part for part in (0.5, 0.75)]
        for limit in limits:
            async with opened_at(server, tmp_path, limit) as session:
                result = await tuned(session, plan, **OPTIONS)
            assert result.stopped
            assert result.exit_code == 4
            assert "max_usd" in result.stopped
            assert result.reference.cost
            assert "good=packed(rows=40) @ small" in str(result)
            assert len(server.answer.answered) >= seen
            seen = len(server.answer.answered)
        async with opened_at(server, tmp_path, None) as session:
            result = await tuned(session, plan, **OPTIONS)
        assert result.stopped is None
        assert len(server.answer.answered) == requests
        assert server.answer.paid == pytest.approx(paid, rel=0.01)

    async def test_by_its_user_likewise(self, server, judge, whole, tmp_path):
        plan = leaking(ROWS, RULES)
        reached = asyncio.Event()

        def cut(_: object, asked: int) -> Fault | None:
            if asked > whole[1] // 2:
                reached.set()
                return Fault(hang=True)
            return None

        judge.fault = cut
        async with opened_at(server, tmp_path, None, more="&in_flight=1") as session:
            search = asyncio.create_task(tuned(session, plan, **OPTIONS))
            await reached.wait()
            search.cancel()
            with pytest.raises(asyncio.CancelledError):
                await search
        half = len(server.answer.answered)
        assert 0 < half < whole[1]
        judge.fault = None
        async with opened_at(server, tmp_path, None) as session:
            result = await tuned(session, plan, **OPTIONS)
        assert result.stopped is None
        assert len(server.answer.answered) == whole[1]

    async def test_is_known_when_repeated_whole(self, server, whole, tmp_path):
        results = []
        for _ in range(2):
            async with opened_at(server, tmp_path, None) as session:
                results.append(await tuned(session, leaking(ROWS, RULES), **OPTIONS))
        first, again = results
        assert len(server.answer.answered) == whole[1]
        assert again.paid.calls <= 1  # the word
        assert again.spent == first.spent
        assert [(t.name, t.verdict, t.f1) for t in again.tried] == [
            (t.name, t.verdict, t.f1) for t in first.tried
        ]


async def test_a_limit_below_the_pilot_tries_nothing(server, whole, tmp_path):
    limit = whole[0] / 1_000
    async with opened_at(server, tmp_path, limit) as session:
        result = await tuned(session, leaking(ROWS, RULES), truth=truth_of(ROWS), **OPTIONS)
    assert result.stopped
    assert not any(each.units for each in result.tried)
    assert server.answer.paid <= limit


async def test_a_limit_of_calls_is_kept_as_well(server, whole, tmp_path):
    async with opened_at(server, tmp_path, None, max_calls=40) as session:
        try:
            result = await tuned(session, leaking(ROWS, RULES), **OPTIONS)
        except BudgetReached:
            result = None
    assert len(server.answer.answered) <= 40
    assert result is None or result.stopped
