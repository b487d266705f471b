"""Real models: the limit of dollars, labelled rows, and public data sets of a few lines; the simulated
server in place of the model.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.frame import Unmeasured
from benchmarks.memories.memories import MEMORIES
from benchmarks.quality import labelled, public, reviews
from benchmarks.quality.asking import Asking, Noted, Stopped, refuse_simulated
from benchmarks.quality.inputs import UserInputs
from benchmarks.quality.scores import all_at, any_at, best_f1, locomo, recall_at
from benchmarks.quality.tasks import remembered
from benchmarks.world import StandIn
from semgraph.llm.base import LLM, Reply, Request, Usage
from semgraph.llm.dummy import Dummy
from semgraph.llm.embed import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from semgraph.semantic.contract import Outcome


class Priced(Noted):
    """Costs a cent a call."""

    def dollars(self, usage: Usage) -> float | None:
        return 0.01

    async def complete(self, request: Request) -> Reply:
        return replace(await super().complete(request), dollars=0.01)


class Asked(Noted):
    """Keeps what it is asked."""

    def __init__(self, inner: LLM) -> None:
        super().__init__(inner)
        self.texts: list[str] = []

    async def complete(self, request: Request) -> Reply:
        self.texts.append(request.messages[-1].content)
        return await super().complete(request)


class Free(OpenAIEmbedder):
    def dollars(self, usage: Usage) -> float | None:
        return 0.0


@pytest.fixture
async def server() -> AsyncIterator[StandIn]:
    async with StandIn() as own:
        yield own


@pytest.fixture
async def own(server: StandIn) -> AsyncIterator[Asking]:
    llm = Priced(OpenAI("gpt-4.1-mini", server.base_url, "none"))
    own = Asking(llm, Free("stand-in", 256, server.base_url, "none"))
    yield own
    for one in (own.llm, own.embedder, own.store):
        await one.aclose()


async def test_a_world_is_remembered_with_its_costs_and_scores(own: Asking) -> None:
    figures = await remembered("6 messages of a world", "lean", own, 0)
    assert figures["messages"] == 6
    assert figures["entities_f1"] == 1
    assert own.figures()["calls"] > figures["read_calls"] > 0


async def test_the_limit_refuses_a_case_before_it_and_stops_one_at_it(own: Asking) -> None:
    own.inputs = UserInputs(max_usd=0.005)
    with pytest.raises(Unmeasured, match=r"nothing was asked: .* Give more: --max-usd"):
        await remembered("6 messages of a world", "lean", own, 0)
    own.inputs = UserInputs(max_usd=0.03)
    with pytest.raises(Stopped, match=r"of the run's \$0.03 are left"):
        await remembered("6 messages of a world", "lean", own, 0)
    assert own.inputs.spent == pytest.approx(0.03)


def test_the_simulated_model_does_not_pass_as_a_real_one(server: StandIn) -> None:
    refuse_simulated(None)
    refuse_simulated("http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "it calls a real model: --model"),
        ({"model": "dummy"}, "it calls a real model: --model"),
        ({"model": "openai:gpt-4.1-mini"}, "needs a key: export OPENAI_API_KEY"),
        ({"model": "no:such"}, "no"),
    ],
)
def test_missing_inputs_are_said(
    given: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert said in UserInputs(**given).lacks()


def test_a_model_with_a_price_needs_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert "needs a limit: --max-usd" in UserInputs(model="openai:gpt-4.1-mini").lacks()
    assert UserInputs(model="openai:gpt-4.1-mini", max_usd=1).lacks() == ""


def test_labelled_rows_are_as_many_as_their_names_say() -> None:
    asked, labels = labelled.texts()
    assert (len(asked), len(labels)) == (400, 32)
    joined, ranked = (labelled.joined(), labelled.ranked())
    assert (len(joined.truth), sum(joined.truth)) == (200, 49)
    assert len(ranked.rows.groups()) == 20


def test_scores_are_those_of_the_communities() -> None:
    assert locomo("He was running, then painted", "paint, ran", "multi-hop") > 0
    assert locomo("the lakes", "lake; because", "open-domain") == 1
    assert locomo("Not mentioned", "", "adversarial") == 1
    assert (
        recall_at(1, ["a", "b"], {"a", "b"}),
        any_at(1, ["a"], {"a", "b"}),
        all_at(1, ["a"], {"a", "b"}),
    ) == (0.5, 1, 0)


TALK = {
    "sample_id": "talk", "conversation": {
        "speaker_a": "Ada", "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"dia_id": "D1:1", "speaker": "Ada", "text": "I live in Oslo."}],
    },
    "qa": [
        {"question": "Where does Ada live?", "answer": "Oslo", "category": 4, "evidence": ["D1:1"]},
        {"question": "Where does Ada work?", "category": 5, "evidence": []},
    ],
}  # fmt: skip
CHAT = {
    "question_id": "q_abs", "question_type": "multi-session", "question": "Where?", "answer": 3,
    "question_date": "2023/05/20 (Sat) 02:21", "answer_session_ids": ["s1"], "haystack_session_ids": ["s1"],
    "haystack_dates": ["2023/05/19 (Fri) 02:21"], "haystack_sessions": [[{"role": "user", "content": "Hi."}]],
}  # fmt: skip


async def test_locomo_is_told_and_asked(own: Asking, tmp_path: Path) -> None:
    (tmp_path / "locomo10.json").write_text(json.dumps([TALK]))
    part = public.load("LoCoMo", tmp_path)
    figures = await public.measured_locomo(own, part, MEMORIES["turns by both"])
    assert (figures["questions"], figures["turns"], figures["f1"]) == (2, 1, 1.0)
    assert figures["recall@10 shown"] == 1


def test_longmemeval_is_read_by_type(tmp_path: Path) -> None:
    (tmp_path / "longmemeval_oracle.json").write_text(json.dumps([CHAT, CHAT]))
    part = public.load("oracle", tmp_path, 1)
    assert (len(part.questions), len(part.turns)) == (1, 1)
    assert part.questions[0].abstains


def paragraphs(*held: tuple[str, str, bool]) -> list[dict[str, Any]]:
    """Paragraphs as MuSiQue has them: title, text, whether the answer needs it."""
    return [
        {"idx": n, "title": title, "paragraph_text": text, "is_supporting": needed}
        for n, (title, text, needed) in enumerate(held)
    ]


HOPS = {
    "id": "2hop__1_2", "question": "Where was the founder of Luma born?", "answer": "Oslo",
    "answer_aliases": ["Christiania"], "answerable": True, "paragraphs": paragraphs(
        ("Bratt", "Bratt is a family of smiths.", False), ("Luma", "Ada Costa founded Luma.", True),
        ("Riga", "Riga is a city.", False), ("Ada Costa", "Ada Costa was born in Oslo.", True),
    ),
}  # fmt: skip


async def test_musique_is_one_corpus_of_what_is_needed_and_some_others(
    own: Asking, tmp_path: Path
) -> None:
    other = HOPS | {"id": "3hop1__1_2_3"}
    (tmp_path / "musique_ans_v1.0_dev.jsonl").write_text(
        f"{json.dumps(HOPS)}\n{json.dumps(other)}\n"
    )
    part = public.load("MuSiQue", tmp_path, 3, 1)
    assert [turn["speaker"] for turn in part.turns] == ["Luma", "Ada Costa", "Bratt"]
    assert [(q.kind, sorted(q.evidence)) for q in part.questions] == [("2 hops", ["P0", "P1"])]
    assert len(public.load("MuSiQue", tmp_path).questions) == 2
    figures = await public.measured_musique(own, part, MEMORIES["turns by vectors"])
    assert (figures["questions"], figures["paragraphs"], figures["recall shown"]) == (1, 3, 1)


def test_an_answer_counts_under_each_of_its_names() -> None:
    assert best_f1("Christiania.", ["Oslo", "Christiania"]) == 1


REVIEWS = """id,reviewId,originalScore,reviewText,scoreSentiment
ant_man_and_the_wasp_quantumania,1,4/5,"Warm, and funny.",POSITIVE
taken_3,2,1/5,A dull evening.,NEGATIVE
ant_man_and_the_wasp_quantumania,3,2/5,I slept well.,NEGATIVE
"""


def test_reviews_are_filtered_and_joined_as_their_critics_marked_them(tmp_path: Path) -> None:
    (tmp_path / "Reviews_2000.csv").write_text(REVIEWS)
    kept = reviews.load(reviews.FILTER, tmp_path)
    assert (kept.truth, kept.rows.left["reviewText"][0].as_py()) == (
        [True, False, False],
        "Warm, and funny.",
    )
    pairs = reviews.load(reviews.JOIN, tmp_path)
    assert pairs.truth == [True, True]
    answers = [Outcome({"match": True}), Outcome({"match": False})]
    assert (pairs.figures(answers)["recall"], pairs.figures(answers)["precision"]) == (0.5, 1)


async def test_reviews_are_asked_about_in_the_words_of_the_benchmark(
    own: Asking, tmp_path: Path
) -> None:
    (tmp_path / "Reviews_2000.csv").write_text(REVIEWS)
    own.llm = asked = Asked(Dummy())
    for part, way in ((reviews.FILTER, "per_row"), (reviews.JOIN, "nested_loop")):
        task = reviews.load(part, tmp_path)
        await own.answer(task.node, task.rows, way)
    assert "The review is clearly positive: A dull evening." in asked.texts[1]
    assert "Review 1: Warm, and funny. Review 2: I slept well." in asked.texts[3]
    assert own.figures()["calls"] == 5


def test_questions_are_taken_at_equal_distances() -> None:
    assert public.spread(range(10), 4) == [0, 2, 5, 7]
    assert list(public.spread(range(3), 4)) == [0, 1, 2]


@pytest.mark.parametrize(
    "text", ["<html>", "[{}]", '[{"sample_id": 1, "conversation": [], "qa": []}]']
)
def test_a_file_that_is_missing_or_of_another_form_is_reported_with_its_source(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(Unmeasured, match=r"there is no .*locomo10.json .*licence: CC BY-NC"):
        public.load("LoCoMo", tmp_path)
    for name in ("musique_ans_v1.0_dev.jsonl", "Reviews_2000.csv", "locomo10.json"):
        (tmp_path / name).write_text(text)
    with pytest.raises(Unmeasured, match=r"is not musique_ans_v1.0_dev.jsonl as published"):
        public.load("MuSiQue", tmp_path)
    with pytest.raises(Unmeasured, match=r"is not Reviews_2000.csv as published"):
        reviews.load(reviews.FILTER, tmp_path)
    (tmp_path / "locomo10.json").write_text(text)
    with pytest.raises(Unmeasured, match=r"is not locomo10.json as published: .* Get it anew from"):
        public.load("LoCoMo", tmp_path)
