"""LOTUS's operators in runs, over HTTP: what is asked, journalled, limited and paid again is as
with all other ways.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.operators.cases import MARK
from benchmarks.world import StandIn
from semgraph.session import Session
from tests.partial import maybe_partial

PLAN = """
plan: moves
inputs: {texts: {id: int64, text: string}}
steps:
  moved:
    - from: texts
    - sem_filter: {prompt: "Does “{text}” say that somebody moved?", on_error: "null"}
returns: [moved]
"""
TEXTS = [
    f"Ada Costa {'moved to Oslo' if i % 3 == 0 else 'works at Luma'} in {1990 + i}."
    for i in range(30)
]


@pytest.fixture
async def model(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StandIn]:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    async with StandIn(refuse=MARK) as server:
        yield server


async def run(model: StandIn, tmp_path: Path, texts: list[str], **limits: Any) -> Any:
    plan = tmp_path / "moves.yaml"
    plan.write_text(PLAN)
    rows = [{"id": i, "text": text} for i, text in enumerate(texts)]
    given: dict[str, Any] = {
        "llm": f"openai:gpt-4.1-mini@{model.base_url}",
        "store": "memory",
        **limits,
    }
    async with Session(**given, journal=tmp_path / "journal.db", folder=tmp_path) as session:
        return await maybe_partial(session.arun(plan, texts=rows, use={"moved": "lotus"}))


def kept(result: Any) -> list[int]:
    return [row["id"] for row in result.tables["moved"].to_pylist()]


async def test_each_row_is_a_call_and_a_run_again_is_none(model: StandIn, tmp_path: Path) -> None:
    first = await run(model, tmp_path, TEXTS)
    assert kept(first) == list(range(0, 30, 3))
    assert (first.meter.total().calls_issued, model.counters.attempts) == (30, 30)
    again = await run(model, tmp_path, TEXTS)
    assert kept(again) == kept(first)
    assert (again.meter.total().calls_journal, model.counters.attempts) == (30, 30)


async def test_equal_rows_are_one_call(model: StandIn, tmp_path: Path) -> None:
    result = await run(model, tmp_path, TEXTS[:3] * 10)
    assert kept(result) == list(range(0, 30, 3))
    assert model.counters.attempts == 3


async def test_a_row_that_is_refused_costs_the_others_nothing(
    model: StandIn, tmp_path: Path
) -> None:
    texts = [f"{text} {MARK}" if i == 4 else text for i, text in enumerate(TEXTS)]
    result = await run(model, tmp_path, texts)
    assert set(kept(result)) - {4} == set(range(0, 30, 3))
    assert model.counters.calls == 29
    model.refuse = ""
    await run(model, tmp_path, texts)
    assert model.counters.calls == 30


async def test_a_budget_ends_it_and_what_was_paid_is_kept(model: StandIn, tmp_path: Path) -> None:
    ended = await run(model, tmp_path, TEXTS, max_calls=7)
    assert ended.stopped is not None
    assert model.counters.attempts == 7
    result = await run(model, tmp_path, TEXTS)
    assert kept(result) == list(range(0, 30, 3))
    assert model.counters.attempts == 30
