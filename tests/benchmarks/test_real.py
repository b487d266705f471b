"""Real models: what is asked, what stands in a line, and what a limit of dollars does; a server in
place of the model.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.memories.conversations import f1, of_world
from benchmarks.memories.memories import MEMORIES
from benchmarks.real.asking import Asking, Noted, Stopped, asking
from benchmarks.real.bench import BENCHMARK
from benchmarks.real.tasks import WAYS, answered, questioned, remembered, tasks, told
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


SMALL = "6 messages of a world"


@pytest.mark.parametrize("way", WAYS)
async def test_a_world_is_scored_by_the_messages_so_far_and_by_questions_about_them(
    made: Made, way: str
) -> None:
    own, stream = made(), told(SMALL, 0)
    assert len(stream.rows) == 6
    figures = await remembered(own, stream, WAYS[way])
    assert (figures["entities_f1"], figures["facts_f1"]) == (1.0, 1.0)
    assert "6 Episodic" in str(figures["graph"])
    assert figures["asked"] == 10
    assert figures["f1 unanswerable"] == 1.0
    assert figures["f1"] >= 0.7  # type: ignore[operator]
    calls = own.figures()["calls"]
    assert calls == figures["read_calls"] + 10  # type: ignore[operator]
    assert own.figures()["usd"] == pytest.approx(calls / 100)  # type: ignore[operator]


def test_questions_are_about_the_messages_that_are_told() -> None:
    stream = told(SMALL, 0)
    ids = {row["uuid"] for row in stream.rows}
    evidence = {turn for one in stream.asked.asked for turns in one.evidence for turn in turns}
    assert evidence
    assert evidence <= ids


def test_each_trial_is_another_world() -> None:
    first, second = (told(SMALL, trial).rows for trial in (0, 1))
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


MOVES = "sem_map 100 rows"


@pytest.mark.parametrize(("way", "calls"), [("per_row", 100), ("packed(rows=10)", 10)])
async def test_rows_are_answered_one_by_one_or_ten_in_a_call(
    made: Made, way: str, calls: int
) -> None:
    own = made()
    figures = await answered(own, tasks()[MOVES], way)
    assert (figures["precision"], figures["recall"], figures["f1"]) == (1.0, 1.0, 1.0)
    assert own.figures()["calls"] == calls
    assert own.figures()["failed"] == 0


async def test_a_limit_holds_over_all_cases_of_a_run(made: Made) -> None:
    purse = UserInputs(max_usd=0.13)
    await answered(made(inputs=purse), tasks()[MOVES], "packed(rows=10)")
    assert purse.left == pytest.approx(0.03)
    with pytest.raises(
        Stopped, match=r"it would pass max_usd 0\.030 .*; \$0\.0\d00 of the run's \$0.13 are left"
    ):
        await answered(made(inputs=purse), tasks()[MOVES], "packed(rows=10)")
    with pytest.raises(
        Unmeasured,
        match=r"nothing was asked: .* sends at least [\d,]+ tokens, \$0\.0100 .* \$0\.0000 are left",
    ):
        await answered(made(inputs=purse), tasks()[MOVES], "per_row")


async def _told_a_world(own: Asking) -> None:
    await remembered(own, told(SMALL, 0), WAYS["as shipped"])


async def _answered_rows(own: Asking) -> None:
    await answered(own, tasks()[MOVES], "packed(rows=10)")


@pytest.mark.parametrize("work", [_told_a_world, _answered_rows])
async def test_a_case_that_was_stopped_goes_on_where_it_was(
    made: Made, server: StandIn, tmp_path: Path, work: Callable[[Asking], Awaitable[None]]
) -> None:
    whole = made(journal=tmp_path / "whole.db")
    await work(whole)
    calls = whole.figures()["calls"]
    kept, before = tmp_path / "answers.db", len(server.requests)
    with pytest.raises(
        Stopped, match=r"What was answered is kept: run it again with a higher --max-usd"
    ):
        await work(made(inputs=UserInputs(max_usd=0.045), journal=kept))
    assert len(server.requests) == before + 4
    own = made(inputs=UserInputs(max_usd=1), journal=kept)
    await work(own)
    assert len(server.requests) == before + calls  # type: ignore[operator]  # none is asked twice
    assert own.figures()["usd"] == pytest.approx(calls / 100)  # type: ignore[operator]  # of the whole
    assert own.figures()["seconds"] is None  # nobody timed the whole
    assert own.figures()["cpu_s"] is None


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


def test_the_local_model_is_asked_once_about_rows_and_tells_two_worlds(given: UserInputs) -> None:
    given.model = "local"
    todo = work(BENCHMARK, quick=False, full=False)
    labelled = [case for case, _ in todo if "rows" in case.key]
    worlds = [(case.key["way"], trial) for case, trial in todo if "messages" in case.key]
    assert len(labelled) == 15
    assert sorted(worlds) == [(way, trial) for way in sorted(WAYS) for trial in (0, 1)]
    assert len(todo) == 21
    assert {case.key["model"] for case, _ in todo} == {"local:Qwen2.5-Coder-1.5B"}
    assert todo[0][0].settings == {"provider": "this machine"}
    assert len(work(BENCHMARK, quick=True, full=False)) == 4


def test_other_models_have_three_trials(given: UserInputs) -> None:
    given.model = "openai:some-model@http://gpu:8000/v1"
    todo = work(BENCHMARK, quick=False, full=False)
    assert len(todo) == 3 * 18
    assert todo[0][0].settings == {"provider": "gpu:8000"}
    assert todo[0][0].key["model"] == "openai:some-model@http://gpu:8000/v1"
