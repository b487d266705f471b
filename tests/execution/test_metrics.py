"""What is counted is what went over the wire, however much is under way at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from semgraph.meter import StepMetrics
from semgraph.stores import base
from semgraph.stores.base import record_round_trip
from semgraph.stores.neo4j import bolt as neo4j_bolt
from tests.execution.conftest import STORY, Work, declared, said, variant


def flood(groups: int) -> list[dict[str, object]]:
    """Groups of which every second one says what its neighbour says."""
    rows = [
        [
            row | {"content": row["content"].replace("Ann", f"Ann{g // 2}")}
            for row in said(STORY[:2], f"g{g}")
        ]
        for g in range(groups)
    ]
    return [row for part in zip(*rows, strict=True) for row in part]


def calls(metrics: StepMetrics) -> int:
    return metrics.calls_issued + metrics.calls_journal + metrics.calls_coalesced


async def test_calls_add_up_with_64_in_flight_and_groups_share_no_answer(
    simple: Work, tmp_path: Path
) -> None:
    model = simple.model
    plan = variant(tmp_path, ("size: $window", "size: $window, ahead: 256"))
    model.gate.clear()
    task = asyncio.create_task(simple.run(flood(40), plan=plan, session={"store": "memory"}))
    await model.until(lambda: len(model.arrived) >= 64 or task.done())
    model.gate.set()
    result = await task
    total = result.meter.total()
    assert model.most_waiting == 64
    assert total.calls_issued == model.counters.calls == len(model.requests)
    assert total.attempts == len(model.requests) + model.counters.embedding_calls
    assert total.embeddings == model.counters.embedding_calls
    assert total.tokens_out == model.counters.tokens_out
    assert (total.calls_coalesced, total.calls_journal) == (0, 0), (
        "what another group asked is asked again"
    )
    asked = sum(calls(step) for step in result.meter.steps.values())
    assert asked == calls(total)
    mentions = result.meter.step("read/mentions")
    assert (mentions.rows_in, calls(mentions)) == (80, 80)
    assert total.dollars is None or total.dollars > 0


async def test_a_second_reading_is_paid_by_the_journal_alone(simple: Work) -> None:
    rows = flood(4)
    first = (await simple.run(rows, session={"store": "memory"})).meter.total()
    model_calls = len(simple.model.requests)
    second = (await simple.run(rows, session={"store": "memory"})).meter.total()
    assert len(simple.model.requests) == model_calls == first.calls_issued
    assert (second.calls_issued, second.attempts, second.tokens_in, second.tokens_out) == (
        0,
        0,
        0,
        0,
    )
    assert calls(second) == calls(first)


async def test_each_step_counts_its_own(simple: Work) -> None:
    result = await simple.run(said(STORY[:6]), session={"store": "memory"})
    by_step = {
        name: step.calls_issued for name, step in result.meter.steps.items() if step.calls_issued
    }
    asked = simple.model.counters.by_question
    assert by_step["read/mentions"] == asked["entities"] == 6
    assert by_step["read/facts"] == asked["facts"] == 6
    assert by_step["settle/ask/verdicts"] == asked["verdict"]
    assert sum(by_step.values()) == sum(asked.values())


async def test_round_trips_are_those_that_the_store_made(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[None] = []

    def record() -> None:
        made.append(None)
        record_round_trip()

    for module in (base, neo4j_bolt):
        monkeypatch.setattr(module, "record_round_trip", record)
    store = work.place.look()
    try:
        async with work.session(store=store) as session:
            await session.arun("add_episode", episodes=said(STORY[:1]))
            before = len(made)
            result = await session.arun("add_episode", episodes=said(STORY[:5]))
        ensured = len(made) - before - result.meter.total().round_trips
        [length] = set((await store.statistics()).dimensions.values())
        before = len(made)
        await store.ensure(declared(), length)
        alone = len(made) - before
    finally:
        await store.aclose()
    embedded = work.place.spec.startswith("sqlite")
    looked = (
        not embedded
    )  # a run asks once for rows that lack their keys, as others may have written them
    assert ensured == alone + looked, "besides what the run counts, only what `ensure` looks at"
    assert bool(alone) == embedded, "a database that lacks nothing is looked at once"
