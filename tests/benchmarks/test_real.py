"""Real models: what is asked, what stands in a line, and what a limit of dollars does; a server in
place of the model.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.memories.conversations import f1, of_world
from benchmarks.memories.memories import MEMORIES
from benchmarks.real.asking import Asking, Noted, Stopped, asking
from benchmarks.real.bench import BENCHMARK
from benchmarks.real.tasks import TURNS, WAYS, answered, questioned, remembered, tasks, told
from benchmarks.suite import Unmeasured
from benchmarks.suite.inputs import INPUTS, UserInputs
from benchmarks.suite.running import work
from benchmarks.world import StandIn
from semgraph.llm.base import Reply, Request, Usage
from semgraph.llm.embed.openai import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from tests.served import served


class Priced(Noted):
    """Costs a cent a call."""

    def dollars(self, usage: Usage) -> float | None:
        return 0.01

    async def complete(self, request: Request) -> Reply:
        return replace(await super().complete(request), dollars=0.01)


class Free(OpenAIEmbedder):
    def dollars(self, usage: Usage) -> float | None:
        return 0.0


Made = Callable[..., Asking]


@pytest.fixture
async def server() -> AsyncIterator[StandIn]:
    async with StandIn() as own:
        yield own


@pytest.fixture
async def made(server: StandIn) -> AsyncIterator[Made]:
    """Makes what asks, as often as it is called; each over a store of its own."""
    all_: list[Asking] = []

    def make(**options: Any) -> Asking:
        llm = Priced(OpenAI("gpt-4.1-mini", server.base_url, "none"))
        all_.append(Asking(llm, Free("stand-in", 256, server.base_url, "none"), **options))
        return all_[-1]

    yield make
    for own in all_:
        await own.llm.aclose()
        await own.embedder.aclose()
        await own.store.aclose()


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> UserInputs:
    for name in ("model", "max_usd", "data"):
        monkeypatch.setattr(INPUTS, name, None)
    return INPUTS


@pytest.mark.parametrize(("way", "calls"), [("as shipped", 8), ("combined", 5), ("lean", 3)])
async def test_three_turns_are_ingested_by_each_variant(made: Made, way: str, calls: int) -> None:
    own = made()
    figures = await remembered(own, told(TURNS, 0), WAYS[way])
    assert figures["messages"] == 3
    assert "3 Episodic" in str(figures["graph"])
    assert own.figures()["calls"] == calls
    assert own.figures()["usd"] == pytest.approx(calls / 100)


async def test_a_world_is_scored_by_the_messages_so_far(made: Made) -> None:
    stream = told("6 messages of a world", 0)
    assert len(stream.rows) == 6
    figures = await remembered(made(), stream, WAYS["as shipped"])
    assert (figures["entities_f1"], figures["facts_f1"]) == (1.0, 1.0)


def test_each_trial_is_another_world() -> None:
    first, second = (told("6 messages of a world", trial).rows for trial in (0, 1))
    assert [row["content"] for row in first] != [row["content"] for row in second]


@pytest.mark.parametrize(
    ("answer", "truth", "score"),
    [
        ("Sofia", "Sofia", 1.0),
        ("in Sofia", "Sofia", 2 / 3),
        ("Ada Costa, Bo Lindt", "Bo Lindt, Ada Costa", 1.0),
        ("Ada Costa", "Bo Lindt, Ada Costa", 2 / 3),
        ("27 October 2024", "2024-10-27", 1.0),
        ("2024-10-27", "2024-10-27", 1.0),
        ("October 2024", "2024-10-27", 0.8),  # 2 of 2, 2 of 3
        (None, "", 1.0),
        ("Sofia", "", 0.0),
        (None, "Sofia", 0.0),
    ],
)
def test_answers_about_a_world_are_scored_by_their_words(
    answer: str | None, truth: str, score: float
) -> None:
    assert f1(truth, answer) == pytest.approx(score)


@pytest.mark.parametrize("way", ["full context", "graphiti, lean"])
async def test_a_memory_is_asked_about_a_conversation(made: Made, way: str) -> None:
    figures = await questioned(made(), of_world(2, 2, 0, 6), MEMORIES[way])
    assert figures["asked"] == 6
    assert figures["f1 unanswerable"] == 1.0
    assert figures["f1 now"] == 1.0
    assert figures["cited"] > 0.5  # type: ignore[operator]


@pytest.mark.parametrize(("way", "calls"), [("per_row", 12), ("packed(rows=12)", 1)])
async def test_twelve_rows_are_judged_one_by_one_or_in_one_call(
    made: Made, way: str, calls: int
) -> None:
    own = made()
    figures = await answered(own, tasks()["sem_filter 12 rows"], way)
    assert (figures["precision"], figures["recall"], figures["f1"]) == (1.0, 1.0, 1.0)
    assert own.figures()["calls"] == calls
    assert own.figures()["failed"] == 0


async def test_a_limit_holds_over_all_cases_of_a_run(made: Made) -> None:
    purse = UserInputs(max_usd=0.15)
    await answered(made(inputs=purse), tasks()["sem_filter 12 rows"], "per_row")
    assert purse.left == pytest.approx(0.03)
    with pytest.raises(
        Stopped, match=r"it would pass max_usd 0\.030 .*; \$0\.0\d00 of the run's \$0.15 are left"
    ):
        await answered(made(inputs=purse), tasks()["sem_filter 12 rows"], "per_row")
    with pytest.raises(
        Unmeasured,
        match=r"nothing was asked: .* sends at least \d+ tokens, \$0\.0100 .* \$0\.0000 are left",
    ):
        await answered(made(inputs=purse), tasks()["sem_filter 12 rows"], "packed(rows=12)")


async def test_a_case_that_was_stopped_goes_on_where_it_was(
    made: Made, server: StandIn, tmp_path: Path
) -> None:
    kept = tmp_path / "answers.db"
    with pytest.raises(
        Stopped, match=r"What was answered is kept: run it again with a higher --max-usd"
    ):
        await remembered(
            made(inputs=UserInputs(max_usd=0.045), journal=kept), told(TURNS, 0), WAYS["as shipped"]
        )
    assert len(server.requests) == 4
    own = made(inputs=UserInputs(max_usd=1), journal=kept)
    await remembered(own, told(TURNS, 0), WAYS["as shipped"])
    assert len(server.requests) == 8  # none is asked twice
    assert own.figures()["usd"] == pytest.approx(0.08)  # of the whole, not of the second half
    assert own.figures()["seconds"] is None  # nobody timed the whole


def test_the_simulated_model_is_no_real_one(given: UserInputs) -> None:
    server = StandIn()
    with served(server):
        given.model = f"openai:gpt-4.1-mini@{server.base_url}"
        (case, *_) = BENCHMARK.cases()
        with pytest.raises(
            Unmeasured,
            match="is the simulated model: its answers would pass as those of a real one",
        ):
            case.run(0)
    assert server.requests == []


async def _ended(how: BaseException | None) -> None:
    async with asking({"way": "lean"}, 0) as own:
        assert own.journal is not None
        own.journal.write_bytes(b"")
        if how is not None:
            raise how


async def test_a_trial_leaves_nothing_behind(
    given: UserInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.real.asking.JOURNALS", tmp_path)
    given.model = "local"
    with pytest.raises(Stopped):
        await _ended(Stopped())
    assert len(os.listdir(tmp_path)) == 1
    await _ended(None)
    assert os.listdir(tmp_path) == []


def test_without_full_the_local_model_has_eight_cases_once_and_others_three_times(
    given: UserInputs,
) -> None:
    given.model = "local"
    todo = work(BENCHMARK, quick=False, full=False)
    assert len(todo) == 8
    assert {case.key["model"] for case, _ in todo} == {"local:Qwen2.5-Coder-1.5B"}
    assert todo[0][0].settings == {"provider": "this machine"}
    given.model = "openai:some-model@http://gpu:8000/v1"
    todo = work(BENCHMARK, quick=False, full=False)
    assert len(todo) == 24
    assert todo[0][0].settings == {"provider": "gpu:8000"}
    assert todo[0][0].key["model"] == "openai:some-model@http://gpu:8000/v1"
