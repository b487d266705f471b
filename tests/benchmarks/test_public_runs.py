"""Public data sets from file to figures, with the simulated model over SQLite: small files of their
forms, made up here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.memories.memories import MEMORIES
from benchmarks.public import locomo, longmemeval, movies, musique
from benchmarks.public.bench import BENCHMARK
from benchmarks.real.asking import Asking, Noted, Stopped
from benchmarks.suite import Case, Lines, Unmeasured
from benchmarks.suite.inputs import INPUTS, UserInputs
from benchmarks.suite.pages import page
from benchmarks.suite.running import measure, work
from semgraph.llm.base import Reply, Request, Usage
from semgraph.llm.embed.openai import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from tests.benchmarks import datasets
from tests.benchmarks.reading import Reading
from tests.served import served


@pytest.fixture
async def asking() -> AsyncIterator[Asking]:
    async with Reading() as server:
        own = Asking(
            Noted(OpenAI("gpt-4.1-mini", server.base_url, "none")),
            OpenAIEmbedder("stand-in", 256, server.base_url, "none"),
        )
        try:
            yield own
        finally:
            await own.llm.aclose()
            await own.embedder.aclose()
            await own.store.aclose()


@pytest.mark.parametrize(
    "way", ["turns by both", "graphiti", "graphiti, combined", "graphiti, lean"]
)
async def test_locomo_is_ingested_queried_and_scored_by_category(
    tmp_path: Path, asking: Asking, way: str
) -> None:
    datasets.written(
        tmp_path / "locomo10.json", [datasets.locomo_sample(), datasets.locomo_sample("conv-2")]
    )
    part = locomo.load(tmp_path, 1)
    assert [(turn.group, turn.place) for turn in part.turns] == [
        ("conv-1", p) for p in ("D1:1", "D1:2", "D2:1", "D2:2")
    ]
    assert part.turns[2].text == "I have moved to Porto. [shares a harbour]"
    figures = await locomo.measured(asking, part, MEMORIES[way])
    wanted = {
        "turns": 4,
        "sessions": 2,
        "questions": 5,
        "f1 single-hop": 1.0,
        "f1 temporal": 0.0,
        "declined": 1.0,
    }
    assert {name: figures[name] for name in wanted} == wanted
    assert figures["f1"] == pytest.approx((1 + figures["f1 multi-hop"] + 0 + 0) / 4)  # type: ignore[operator]
    assert figures["questions adversarial"] == 1
    assert figures["unanswered"] == 0
    assert figures["recall@10 shown"] == 1.0
    assert figures["recall@10 cited"] == 0.6667  # it does not understand "When did Ada Costa move?"


async def test_figures_include_the_cost_and_the_model(tmp_path: Path, asking: Asking) -> None:
    datasets.written(tmp_path / "locomo10.json", [datasets.locomo_sample()])
    await locomo.measured(asking, locomo.load(tmp_path), MEMORIES["graphiti, lean"])
    figures = asking.figures()
    assert figures["calls"] == 4 + 5  # a turn, a question
    assert figures["version"] == "gpt-4.1-mini-2025-04-14"
    assert figures["temperature"] == "0"
    assert figures["failed"] == 0
    assert figures["tokens_in"] > figures["tokens_out"] > 0  # type: ignore[operator]


async def test_longmemeval_is_judged_by_type_and_evidence_is_found_by_session(
    tmp_path: Path, asking: Asking
) -> None:
    datasets.written(tmp_path / "longmemeval_oracle.json", datasets.longmemeval())
    part = longmemeval.load("oracle", tmp_path)
    assert len(part.turns) == 16  # each question has a memory of its own
    assert (part.turns[0].speaker, part.turns[0].text) == ("user", "Ada Costa lives in Riga.")
    figures = await longmemeval.measured(asking, part, MEMORIES["graphiti"])
    wanted = {
        "accuracy": 0.75, "accuracy single-session-user": 0.5, "accuracy knowledge-update": 1.0,
        "accuracy multi-session": 1.0, "accuracy unanswerable": 1.0, "accuracy temporal-reasoning": None,
        "mean of types": round((0.5 + 1 + 1) / 3, 4), "all@5 cited": 1.0, "any@5 cited": 1.0,
    }  # fmt: skip
    assert {name: figures[name] for name in wanted} == wanted


async def test_another_model_may_judge(tmp_path: Path, asking: Asking) -> None:
    datasets.written(tmp_path / "longmemeval_oracle.json", datasets.longmemeval()[:1])
    assert isinstance(asking.llm.inner, OpenAI)
    url = str(asking.llm.inner.name).partition("@")[2]
    asking.judge = Noted(OpenAI("gpt-4o", url, "none"))
    figures = await longmemeval.measured(
        asking, longmemeval.load("oracle", tmp_path), MEMORIES["graphiti, lean"]
    )
    await asking.judge.aclose()
    assert (figures["accuracy"], figures["judge"]) == (1.0, "gpt-4o-2025-04-14")
    assert asking.figures()["version"] == "gpt-4.1-mini-2025-04-14"


def test_longmemeval_takes_the_first_of_each_type(tmp_path: Path) -> None:
    datasets.written(tmp_path / "longmemeval_oracle.json", datasets.longmemeval())
    part = longmemeval.load("oracle", tmp_path, each=1)
    assert [q.id for q in part.questions] == ["q1", "q2", "q4_abs"]


@pytest.mark.parametrize(
    ("way", "facts"),
    [("passages", 0), ("passages and OpenIE", 2), ("passages and mention_graph", 3)],
)
async def test_musique_finds_the_passages_and_answers(
    tmp_path: Path, asking: Asking, way: str, facts: int
) -> None:
    datasets.musique(tmp_path)
    figures = await musique.measured(asking, musique.load(tmp_path), way, tmp_path)
    wanted = {
        "questions": 1,
        "passages": 3,
        "facts": facts,
        "recall@5": 1.0,
        "exact": 1.0,
        "f1": 1.0,
        "unanswered": 0,
    }
    assert {name: figures[name] for name in wanted} == wanted
    assert figures["recall@2"] in {0.5, 1.0}


def test_some_questions_of_musique_bring_their_own_passages(tmp_path: Path) -> None:
    datasets.musique(tmp_path)
    part = musique.load(tmp_path, 1)
    assert {p.title for p in part.passages} == {"Project Fern", "Luma", "Ada Costa"}
    assert part.questions[0].truths == ("Riga", "Rīga")


@pytest.mark.parametrize(
    ("query", "figure", "value"),
    [
        ("Q1", "quality", 1.0),  # five are wanted, and five are positive (one of them stands twice)
        ("Q2", "quality", 1.0),
        ("Q3", "error", 0.0),
        ("Q4", "error", 0.0),
        ("Q5", "quality", 1.0),
        ("Q6", "quality", 1.0),
        ("Q7", "quality", 1.0),
        ("Q8", "error", 0.0),
        ("Q9", "quality", 1.0),  # 5, 2, 4, 1 of 5 2 4 1
        ("Q10", "quality", 1.0),
    ],
)
async def test_the_movies_queries_by_each_way(
    tmp_path: Path, asking: Asking, query: str, figure: str, value: float
) -> None:
    datasets.movies(tmp_path)
    data = movies.load(tmp_path)
    for way in movies.QUERIES[query].ways:
        figures = await movies.measured(asking, data, query, way)
        assert figures[figure] == pytest.approx(value), way


async def test_labels_ask_about_each_review_once(tmp_path: Path, asking: Asking) -> None:
    datasets.movies(tmp_path)
    await movies.measured(asking, movies.load(tmp_path), "Q7", "label")
    assert asking.figures()["calls"] == 4  # five rows, of which two are one review


async def test_a_limit_that_is_too_small_is_reported_before_the_first_call(
    tmp_path: Path, asking: Asking
) -> None:
    datasets.written(tmp_path / "locomo10.json", [datasets.locomo_sample()])
    asking.inputs = UserInputs(max_usd=0.000001)
    asking.llm.inner = OpenAI(
        "gpt-4.1-mini", None, "none"
    )  # the price is that of OpenAI's own; it is not asked
    with pytest.raises(
        Unmeasured,
        match=r"nothing was asked: reading 4 turns sends at least \d+ tokens, \$0.0000 .* are left",
    ):
        await locomo.measured(asking, locomo.load(tmp_path), MEMORIES["graphiti"])
    assert asking.figures()["calls"] == 0


class Dear(Noted):
    """Costs a dollar a call."""

    def dollars(self, usage: Usage) -> float | None:
        return 1.0

    async def complete(self, request: Request) -> Reply:
        return replace(await super().complete(request), dollars=1.0)


class Free(OpenAIEmbedder):
    def dollars(self, usage: Usage) -> float | None:
        return 0.0


async def test_at_the_limit_a_case_is_stopped_and_has_no_figures(
    tmp_path: Path, asking: Asking
) -> None:
    datasets.written(tmp_path / "locomo10.json", [datasets.locomo_sample()])
    assert isinstance(asking.embedder, OpenAIEmbedder)
    asking.embedder.__class__ = Free
    asking.llm, asking.inputs = Dear(asking.llm.inner), UserInputs(max_usd=5)
    with pytest.raises(
        Stopped, match=r"it would pass max_usd 5.00 .*; \$\d\.0000 of the run's \$5 are left"
    ):
        await locomo.measured(asking, locomo.load(tmp_path), MEMORIES["graphiti"])
    assert asking.inputs.spent > 0


def test_a_case_leaves_a_line_of_a_real_model_and_a_row_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets.movies(tmp_path / "data")
    monkeypatch.setattr("benchmarks.real.asking.refuse_simulated", lambda _: None)
    monkeypatch.setattr("benchmarks.real.asking.JOURNALS", tmp_path / "journals")
    server, lines = Reading(), Lines("public", tmp_path)
    with served(server):
        monkeypatch.setenv("SEMGRAPH_EMBEDDER", f"openai:stand-in@{server.base_url}?dimensions=256")
        monkeypatch.setattr(INPUTS, "model", f"openai:gpt-4.1-mini@{server.base_url}")
        monkeypatch.setattr(INPUTS, "data", tmp_path / "data")
        (todo,) = (
            one
            for one in work(BENCHMARK, quick=False, full=False, trials=1)
            if _is(one[0], "Q3", "per_row")
        )
        list(measure(BENCHMARK, [todo], lines))
    (line,) = lines
    assert (line.kind, line.failed, line.figures["error"], line.figures["calls"]) == (
        "real",
        "",
        0.0,
        4,
    )
    assert [one["file"] for one in line.settings["data"]] == ["Reviews.csv", "Movies.csv"]
    (row,) = (
        text for text in page(BENCHMARK, [line]).splitlines() if text.startswith("| Q3 | per_row |")
    )
    for part in (
        "relative error | — | 0.000",
        "gpt-4.1-mini-2025-04-14",
        "Reviews.csv, sha256",
        "(not known)",
    ):
        assert part in row
    assert list((tmp_path / "journals").iterdir()) == []


def _is(case: Case, part: str, way: str) -> bool:
    return (case.key["part"], case.key["way"]) == (part, way)
