"""`vote`: several draws of each row's answer, over HTTP, from a model that answers by the text and the
seed that it is sent.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.conformance.cases import LIBRARY, Case, Mind, Oracle, run
from semgraph.errors import PlanError
from semgraph.execution.record import read_answers
from semgraph.frontend.load import load_plan
from semgraph.llm.base import Limits
from semgraph.llm.openai import OpenAI
from semgraph.logical.plan import Choice
from semgraph.semantic.contract import Outcome
from semgraph.semantic.verdicts import elected
from tests.llm.server import ModelServer, error
from tests.operators.test_reflexion import node
from tests.partial import maybe_partial

PLAN = """
plan: told
inputs: {notes: {text: string}, known: {id: string, kind: string, text: string}}
steps:
  one:
    - from: notes
    - sem_map:
        prompt: Which of {known} is {text}?
        returns: {memory: "ref<known> null"}
        refs: {known: {of: known, where: "TRUE", order: id, shows: {text: text}}}
  checked:
    - from: notes
    - sem_map:
        prompt: How many {text}?
        returns: {n: int64}
        check: {where: n < 5, message: "'too many'", retries: 1}
returns: [one, checked]
use: {one: vote, checked: vote}
"""
TEXTS = [f"tea {i}" for i in range(12)]


@dataclass
class Drawing:
    """Answers by text and seed: three of five seeds say what is true, other two what is drawn."""

    wrong: frozenset[int] = frozenset({1, 4})
    knows_seeds: bool = True
    broken: frozenset[int] = frozenset()
    asked: list[dict[str, Any]] = field(default_factory=list)

    async def __call__(self, body: dict[str, Any]) -> Any:
        self.asked.append(body)
        text = body["messages"][-1]["content"]
        if "seed" in body and not self.knows_seeds:
            return error(400, "Unrecognized request argument supplied: seed")
        seed = body.get("seed", 0)
        if seed in self.broken:
            return "perhaps"
        draw = zlib.crc32(f"{text} {seed}".encode())
        properties = body["response_format"]["json_schema"]["schema"]["properties"]
        truth = {"answer": "no", "colour": "green", "cups": 2, "why": "Because of  THE leaves."}
        drawn = {
            "answer": "yes",
            "colour": ["black", "white"][draw % 2],
            "cups": draw % 7,
            "why": "?",
        }
        return json.dumps(
            {name: (drawn if seed in self.wrong else truth)[name] for name in properties}
        )


@pytest.fixture
async def drawing() -> Drawing:
    return Drawing()


@pytest.fixture
async def server(drawing: Drawing) -> AsyncIterator[ModelServer]:
    async with ModelServer(drawing) as started:
        yield started


def opened(server: ModelServer, folder: Path, **options: Any) -> sg.Session:
    llm = f"openai:gpt-4.1-mini@{server.base_url}"
    return sg.Session(**{"llm": llm, "store": "memory", "folder": folder} | options)


def described(texts: list[str] = TEXTS) -> sg.Frame:
    returns = {"colour": "enum<green, black, white>", "cups": "int64", "why": "string"}
    rows = sg.table([{"text": text} for text in texts])
    return rows.sem_map("Describe “{text}”.", returns=returns).step("told")


def kept(texts: list[str] = TEXTS) -> sg.Frame:
    return sg.table([{"text": text} for text in texts]).sem_filter("Is “{text}” bad?").step("told")


def seeds(drawing: Drawing) -> Counter[int]:
    return Counter(body["seed"] for body in drawing.asked)


# ------------------------------------------------------------------------------- what is sent


async def test_each_draw_has_a_seed_and_the_temperature(
    server: ModelServer, drawing: Drawing, tmp_path: Path
) -> None:
    async with opened(server, tmp_path) as session:
        result = await session.arun(described(), use={"told": "vote(temperature=0.9)"})
    assert {row["colour"] for row in result.rows()} == {"green"}
    assert {body["temperature"] for body in drawing.asked} == {0.9}
    assert seeds(drawing) == dict.fromkeys(range(1, 6), len(TEXTS))
    messages = {json.dumps(body["messages"]) for body in drawing.asked}
    assert len(messages) == len(TEXTS), "a draw is the reference's question"


async def test_one_draw_alone_is_what_the_reference_may_answer(
    server: ModelServer, drawing: Drawing, tmp_path: Path
) -> None:
    drawing.wrong = frozenset({0})
    async with opened(server, tmp_path) as session:
        reference = await session.arun(described())
        assert {row["colour"] for row in reference.rows()} <= {"black", "white"}
        assert "seed" not in drawing.asked[0]
        assert drawing.asked[0]["temperature"] == 0
        voted = await session.arun(described(), use={"told": "vote"})
    assert {row["colour"] for row in voted.rows()} == {"green"}


async def test_verdicts_are_counted_and_the_share_of_yes_is_recorded(
    server: ModelServer, drawing: Drawing, tmp_path: Path
) -> None:
    async with opened(server, tmp_path) as session:
        assert not (await session.arun(kept(), use={"told": "vote"})).rows()
        drawing.wrong = frozenset({2, 3, 5})
        two = await session.arun(kept(["other"]), use={"told": "vote(samples=2)"})
        assert two.rows() == [], "on a tie the first draw decides"
        result = await session.arun(kept(["other"]), use={"told": "vote"})
        assert [row["text"] for row in result.rows()] == ["other"]
    (answers,) = read_answers(result.record).values()
    assert [row["score"] for row in answers] == [0.6]


async def test_an_endpoint_that_takes_no_seed_is_asked_without(
    server: ModelServer, drawing: Drawing, tmp_path: Path
) -> None:
    drawing.knows_seeds = False
    async with opened(server, tmp_path) as session:
        result = await session.arun(described(), use={"told": "vote(samples=3)"})
    assert not result.failed
    answered = [body for body in drawing.asked if "seed" not in body]
    assert len(answered) == 3 * len(TEXTS), "no draw is the coalesced answer of another"


async def test_models_that_reason_get_neither_temperature_nor_seed(
    server: ModelServer, drawing: Drawing
) -> None:
    model = OpenAI("o4-mini", server.base_url, "none")
    case = Case("sem_map", ["a cup"])
    returns = {"colour": "enum<green, black, white>"}
    await run(case, LIBRARY.get("sem_map", Choice.parse("vote")), model, instead=node(returns))
    await model.aclose()
    assert len(drawing.asked) == 5
    assert not any({"temperature", "seed"} & body.keys() for body in drawing.asked)


# ------------------------------------------------------------ journal, resuming, recordings


async def test_draws_are_journalled_one_by_one(
    server: ModelServer, drawing: Drawing, tmp_path: Path
) -> None:
    async with opened(server, tmp_path) as session:
        first = await session.arun(described(), use={"told": "vote(samples=3)"})
        paid = len(drawing.asked)
        assert paid == 3 * len(TEXTS)
        again = await session.arun(described(), use={"told": "vote(samples=3)"})
        assert len(drawing.asked) == paid
        more = await session.arun(described(), use={"told": "vote(samples=5)"})
        assert seeds(drawing)[4] == seeds(drawing)[5] == len(TEXTS)
        assert len(drawing.asked) == 5 * len(TEXTS), "only the new draws are paid"
        await session.arun(described(), use={"told": "vote(temperature=0.5)"})
        assert len(drawing.asked) == 10 * len(TEXTS), "another temperature is another question"
    assert first.rows() == again.rows() == more.rows()


async def test_a_run_that_reached_its_budget_pays_the_rest_alone(
    server: ModelServer, drawing: Drawing, tmp_path: Path
) -> None:
    async with opened(server, tmp_path, max_calls=17) as session:
        stopped = await maybe_partial(session.arun(described(), use={"told": "vote"}))
    assert "it would pass max_calls 17" in str(stopped.stopped)
    assert len(drawing.asked) == 17
    async with opened(server, tmp_path) as session:
        done = await session.arun(described(), use={"told": "vote"})
    assert len(drawing.asked) == 5 * len(TEXTS)
    assert {row["colour"] for row in done.rows()} == {"green"}


async def test_a_recorded_run_is_replayed_with_its_draws(
    server: ModelServer, drawing: Drawing, tmp_path: Path
) -> None:
    async with opened(server, tmp_path) as session:
        told = await session.arun(
            described(), use={"told": "vote"}, record_to=tmp_path / "told.jsonl"
        )
    asked = len(drawing.asked)
    async with sg.Session(
        llm=f"recorded:{tmp_path / 'told.jsonl'}", store="memory", folder=tmp_path, journal=False
    ) as replay:
        result = await replay.arun(described(), use={"told": "vote"})
    assert result.rows() == told.rows()
    assert len(drawing.asked) == asked


def test_explain_bounds_the_calls_by_samples(tmp_path: Path) -> None:
    frame = described()
    with sg.Session(llm=Oracle(Mind()), store="memory", folder=tmp_path, runs="") as session:
        frame.save(tmp_path / "told.yaml")
        plan = load_plan(tmp_path / "told.yaml", use={"told": "vote(samples=7)"})
        text = str(session.explain(plan, inputs=dict(frame.tables)))
    assert "sem_map vote(samples=7)" in text
    assert f"{7 * len(TEXTS)} calls" in text


# ------------------------------------------------------------------------ failures and votes


async def test_a_row_fails_if_fewer_than_half_of_its_draws_are_valid(
    server: ModelServer, drawing: Drawing, tmp_path: Path
) -> None:
    drawing.broken = frozenset({1, 2})
    drawing.wrong = frozenset()
    async with opened(server, tmp_path, journal=False) as session:
        result = await session.arun(described(["a", "b"]), use={"told": "vote"})
        assert [row["cups"] for row in result.rows()] == [2, 2]
        drawing.broken = frozenset({1, 2, 5})
        failed = await maybe_partial(session.arun(described(["a", "b"]), use={"told": "vote"}))
    assert len(failed.failed) == 2
    assert not failed.rows()


def outcome(call: str, **values: Any) -> Outcome:
    return Outcome(values, None, (call,))


SEVERAL = {"colour": "string", "cups": "int64", "who": "list<string>"}


@pytest.mark.parametrize(
    ("draws", "winner"),
    [
        ([("a", 1, []), ("B", 1, []), (" b", 2, [])], "B"),  # case and white space do not count
        ([("a", 1, []), ("b", 2, []), ("c", 3, [])], "a"),  # on a tie the first
        ([("a", 1, []), ("b", 2, []), ("b", 1, []), ("a", 1, [])], "a"),
        ([("x", 9, ["p"]), ("y", 8, ["p", "q"]), ("z", 7, ["p", "q", "r"])], "y"),  # most in common
        ([("x", 1, []), ("y", 2, []), ("y", 1, []), ("z", 1, [])], "y"),  # one answer, no mixture
    ],
)
def test_the_answer_that_agrees_most_wins(draws: list[tuple[Any, ...]], winner: str) -> None:
    samples = [
        outcome(f"c{i}", **dict(zip(SEVERAL, draw, strict=True))) for i, draw in enumerate(draws)
    ]
    elected_outcome = elected(node(SEVERAL), samples)
    assert elected_outcome.values is not None
    assert elected_outcome.values["colour"] == winner
    assert elected_outcome.calls == tuple(f"c{i}" for i in range(len(draws)))
    assert elected_outcome.values in [sample.values for sample in samples]


def test_the_answers_beside_a_verdict_are_elected_by_those_who_gave_it() -> None:
    returns = {"quote": "string null"}
    filtered = sg.table([{"text": "a"}]).sem_filter("Is “{text}” bad?", returns=returns).node
    draws = [
        ("it is", True),
        ("so it is", True),
        (None, True),
        ("it is", True),
        (None, False),
        (None, False),
    ]
    samples = [outcome(f"c{i}", quote=q, keep=keep) for i, (q, keep) in enumerate(draws)]
    won = elected(filtered, samples)
    assert won.values == {"quote": "it is", "keep": True, "score": 4 / 6}


async def test_draws_answer_by_the_numbers_of_refs_and_are_asked_again_by_a_check(
    tmp_path: Path,
) -> None:
    chosen, asked = {1: 1, 2: 2, 3: 3, 4: 3, 5: 2}, []

    async def model(body: dict[str, Any]) -> Any:
        asked.append(body)
        if "n" in body["response_format"]["json_schema"]["schema"]["properties"]:
            return json.dumps({"n": 3 if "too many" in json.dumps(body["messages"]) else 9})
        return json.dumps({"memory": chosen[body["seed"]]})

    (tmp_path / "told.yaml").write_text(PLAN)
    known = [{"id": str(i), "kind": "tea", "text": f"tea {i}"} for i in (1, 2, 3)]
    async with ModelServer(model) as started, opened(started, tmp_path) as session:
        inputs = {"notes": [{"text": "t"}], "known": known}
        result = await session.arun(tmp_path / "told.yaml", inputs=inputs)
    assert [row["memory"]["id"] for row in result["one"].to_pylist()] == ["2"]
    assert [row["n"] for row in result["checked"].to_pylist()] == [3]
    assert len(asked) == 5 + 2 * 5


async def test_models_that_answer_in_one_word_vote_by_the_words_that_were_drawn() -> None:
    class Words(Oracle):
        """The most probable word is yes; what is drawn is no."""

        async def complete(self, request: Any) -> Any:
            from semgraph.llm.base import Reply

            self.requests.append(request)
            return Reply("no", call_id=f"c{request.sample}", logprobs=(-0.1, -2.0))

    model = Words(mind=None, limits=Limits(yes_no="word"))  # type: ignore[arg-type]
    case = Case("sem_filter", ["tea"])
    (found,) = await run(case, LIBRARY.get("sem_filter", Choice.parse("vote")), model)
    assert {**(found.values or {}), "logprobs": None} == {
        "keep": False,
        "score": 0.0,
        "logprobs": None,
    }
    assert {request.words for request in model.requests} == {("yes", "no")}


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("vote(samples=1)", "samples must be from 2 to 100"),
        ("vote(samples=101)", "samples must be from 2 to 100"),
        ("vote(temperature=0)", "temperature must be above 0, and at most 2"),
        ("vote(temperature=2.5)", "temperature must be above 0, and at most 2"),
        ("vote(samples=2.5)", "samples must be a whole number"),
    ],
)
def test_parameters_out_of_range_are_refused(way: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        LIBRARY.get("sem_filter", Choice.parse(way))
