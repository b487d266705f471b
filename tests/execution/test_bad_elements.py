"""Bad elements and dates in the answers of a model cost themselves, and nothing beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Faulty, Mind, Oracle, edited
from semgraph.execution.result import Result
from semgraph.llm.base import Reply
from tests.execution.conftest import Row, Watched, Work, said

MANY = ["Ann(user): I work at Luma. I live in Rome. I know Ben. I lead Project Kite."]
LAST = datetime.max.replace(tzinfo=UTC)


def changed(model: Watched, change: Callable[[Any], None]) -> None:
    """Change each extraction of facts before the model sends it."""
    answer = model.answer

    def odd(body: Any) -> tuple[str, str]:
        skill, text = answer(body)
        document = json.loads(text)
        if document.get("facts"):
            change(document)
        return skill, json.dumps(document)

    model.answer = odd  # type: ignore[method-assign]


def notes_of(result: Result) -> list[str]:
    """The notes about answers, without the name of their step."""
    return [note.split(": ", 1)[1] for note in result.notes if "of an answer" in note]


async def test_facts_with_odd_dates_are_all_stored(work: Work) -> None:
    def change(document: Any) -> None:
        dates = ["2025-03", "2025", "2025-03-01T24:00:00Z", "9999-12-31T23:59:59-05:00"]
        for fact, text in zip(document["facts"], dates, strict=True):
            fact["valid_at"] = text

    changed(work.model, change)
    result = await work.run(said(MANY))
    assert not result.failed
    assert await work.place.counts() == {
        "Episodic": 1,
        "Entity": 5,
        "RELATES_TO": 4,
        "MENTIONS": 5,
    }
    stored = (await work.place.dump(times=True))["RELATES_TO"]
    assert {row["fact"]: row["valid_at"] for row in stored.values()} == {
        "Ann works at Luma.": datetime(2025, 3, 1, tzinfo=UTC),
        "Ann lives in Rome.": datetime(2025, 1, 1, tzinfo=UTC),
        "Ann knows Ben.": datetime(2025, 3, 2, tzinfo=UTC),
        "Ann leads Project Kite.": LAST,
    }
    [note] = notes_of(result)
    assert note == (
        "moved a date of an answer into the years 1 to 9999: 1 time, "
        "first: facts[3].valid_at: 9999-12-31T23:59:59-05:00"
    )


async def test_facts_with_unreadable_dates_are_stored_and_dated_by_the_plan(simple: Work) -> None:
    def change(document: Any) -> None:
        for fact, text in zip(document["facts"], ["", "2025-02-30", "soon", "?"], strict=True):
            fact["valid_at"] = text

    changed(simple.model, change)
    result = await simple.run(said(MANY))
    assert not result.failed
    stored = (await simple.place.dump(times=True))["RELATES_TO"]
    assert [row["valid_at"] for row in stored.values()] == 4 * [
        datetime(2025, 1, 15, 9, tzinfo=UTC)
    ]
    assert notes_of(result) == [
        'read a date of an answer as NULL: 4 times, first: facts[0].valid_at: ""'
    ]


@pytest.mark.parametrize("preset", [None, "lean", "bulk"])
async def test_a_bad_fact_costs_itself_and_no_further_request(
    simple: Work, preset: str | None
) -> None:
    whole = await simple.run(said(MANY, group="whole"), preset=preset)

    def change(document: Any) -> None:
        facts = document["facts"]
        del facts[0]["relation"]
        facts[1]["fact"] = None
        facts.insert(3, "Ann leads Project Kite.")

    changed(simple.model, change)
    result = await simple.run(said(MANY, group="damaged"), preset=preset)
    assert not result.failed
    assert sorted(row["fact"] for row in result.tables["edges"].to_pylist()) == [
        "Ann knows Ben.",
        "Ann leads Project Kite.",
    ]
    counts = {label: n for label, n in whole.written.items() if label != "RELATES_TO"}
    assert {label: n for label, n in result.written.items() if label != "RELATES_TO"} == counts
    assert not any("not valid" in body["messages"][-1]["content"] for body in simple.model.requests)
    [note] = notes_of(result)
    assert note.startswith("left out an element of an answer: 3 times, first: facts[0] must have")


KINDS = "{tags: 'list<enum<x, y>>', at: timestamp null}"
BAD = {"tags": ["x", "z", None, "y"], "at": "soon"}
READ = {"tags": ["x", "y"], "at": None}
OPERATORS = {
    "sem_map": "{prompt: 'About {text}?', returns: KINDS}",
    "sem_filter": "{prompt: 'About {text}?', returns: KINDS}",
    "sem_join": "{prompt: 'Is {text} like {o.text}?', other: rows, alias: o, using: id, returns: KINDS}",
    "sem_agg": "{prompt: 'About {text}?', by: id, returns: KINDS}",
}


@pytest.mark.parametrize(
    ("operator", "use"),
    [
        ("sem_map", "per_row"),
        ("sem_map", "packed(rows=2)"),
        ("sem_map", "vote(samples=3)"),
        ("sem_map", "reflexion"),
        ("sem_filter", "per_row"),
        ("sem_filter", "packed"),
        ("sem_join", "nested_loop"),
        ("sem_join", "block"),
        ("sem_agg", "single"),
        ("sem_agg", "fold"),
        ("sem_agg", "tree"),
    ],
)
def test_each_operator_leaves_out_bad_elements_and_asks_nothing_again(
    tmp_path: Path, operator: str, use: str
) -> None:
    answer: Row = BAD | ({"answer": "yes"} if operator == "sem_filter" else {})
    mind = Mind(
        answer=lambda _: dict(answer),
        match=lambda *_: dict(BAD),
        combine=lambda *_: dict(BAD),
        review=lambda *_: {"tags": [], "at": None},
    )
    (tmp_path / "odd.yaml").write_text(
        "plan: odd\ninputs: {rows: {id: int64, text: string}}\nsteps:\n  asked:\n    - from: rows\n"
        f"    - {operator}: {OPERATORS[operator].replace('KINDS', KINDS)}\nreturns: [asked]\n"
    )
    rows = [{"id": i, "text": f"row {i}"} for i in range(3)]
    oracle = Oracle(mind)
    with semgraph.Session(
        llm=oracle, store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        result = session.run(tmp_path / "odd.yaml", inputs={"rows": rows}, use={"asked": use})
    found = result.tables["asked"].to_pylist()
    assert [{name: row[name] for name in READ} for row in found] == 3 * [READ]
    assert not any("not valid" in request.messages[-1].content for request in oracle.requests)
    times = 9 if use.startswith("vote") else 3
    assert notes_of(result) == [
        f'left out an element of an answer: {2 * times} times, first: tags[1] must be "x" or "y"',
        f'read a date of an answer as NULL: {times} times, first: at: "soon"',
    ]


def test_an_answer_without_a_sound_element_is_asked_for_again_then_an_error(
    tmp_path: Path,
) -> None:
    (tmp_path / "odd.yaml").write_text(
        "plan: odd\ninputs: {rows: {text: string}}\nsteps:\n  asked:\n    - from: rows\n"
        "    - sem_map: {prompt: 'About {text}?', returns: {tags: list<int64>, at: timestamp}}\n"
        "returns: [asked]\n"
    )
    answers = {
        "none": {"tags": ["a", "b"], "at": "2025"},
        "undated": {"tags": [1], "at": "soon"},
        "empty": {"tags": [], "at": "2025"},
    }
    oracle = Oracle(Mind(answer=lambda text: answers[text.split()[1].rstrip("?")]))
    with semgraph.Session(
        llm=oracle, store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        result = session.run(tmp_path / "odd.yaml", inputs={"rows": [{"text": n} for n in answers]})
    assert [row["text"] for row in result.rows("asked")] == ["empty"]
    assert [failure.error for failure in result.failed] == [
        "invalid: tags[0] must be integer",
        "invalid: at must be a time in ISO 8601",
    ]
    assert len(oracle.requests) == 5
    assert notes_of(result) == []


def test_json_that_is_nested_too_deep_costs_its_row(tmp_path: Path) -> None:
    (tmp_path / "deep.yaml").write_text(
        "plan: deep\ninputs: {rows: {text: string}}\nsteps:\n  asked:\n    - from: rows\n"
        "    - sem_map: {prompt: 'About {text}?', returns: {x: json}}\nreturns: [asked]\n"
    )

    def deep(_: Any, reply: Reply) -> Reply:
        depth = int(json.loads(reply.text)["x"])
        return replace(reply, text=f'{{"x": {"[" * depth}{"]" * depth}}}')

    depths = [1, *range(900, 1000, 5)]
    oracle = Oracle(Mind(answer=lambda text: {"x": text.split()[1].rstrip("?")}))
    with semgraph.Session(
        llm=Faulty(oracle, deep), store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        rows = [{"text": f"{depth}"} for depth in depths]
        result = session.run(tmp_path / "deep.yaml", inputs={"rows": rows})
    assert len(result.rows("asked")) + len(result.failed) == len(depths)
    assert result.rows("asked")[0]["x"] == "[]"
    said = {failed.error for failed in result.failed}
    assert said
    assert said <= {"invalid: x must be any JSON", "invalid: the answer is not one JSON document"}


def test_sound_elements_of_a_bad_one_are_not_sound(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(
        "plan: inner\ninputs: {rows: {text: string}}\nsteps:\n  asked:\n    - from: rows\n"
        "    - sem_map: {prompt: 'About {text}?', returns: "
        "{all: 'list<struct<tags: list<string>, n: int64>>'}}\nreturns: [asked]\n"
    )
    oracle = Oracle(Mind(answer=lambda _: {"all": [{"tags": ["a"], "n": "one"}]}))
    with (
        semgraph.Session(
            llm=oracle, store="memory", journal=False, runs="", folder=tmp_path
        ) as session,
        pytest.raises(semgraph.RowError, match=r"invalid: all\[0\].n must be integer"),
    ):
        session.run(tmp_path / "inner.yaml", inputs={"rows": [{"text": "a"}]})
    assert len(oracle.requests) == 2


def test_numbers_that_a_ranking_has_too_much_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "best.yaml").write_text(
        "plan: best\ninputs: {rows: {text: string}}\nsteps:\n  best:\n    - from: rows\n"
        "    - sem_topk: {prompt: 'Best of {text}', k: 2}\nreturns: [best]\n"
    )

    def more(document: dict[str, list[Any]]) -> dict[str, list[Any]]:
        first, *rest = document["ranking"]
        return {"ranking": [99, first, None, *rest, first]}

    oracle = Oracle(Mind(score=lambda text: float(text[-1]) * 10))
    model = Faulty(oracle, lambda _, reply: edited(reply, more))
    with semgraph.Session(
        llm=model, store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        rows = [{"text": f"row {i}"} for i in (1, 3, 2)]
        result = session.run(
            tmp_path / "best.yaml", inputs={"rows": rows}, use={"best": "listwise"}
        )
    assert [row["text"] for row in result.rows("best")] == ["row 3", "row 2"]
    assert len(oracle.requests) == 1
    [note] = notes_of(result)
    assert note.startswith("left out an element of an answer: 3 times, first: ranking must have")


def test_a_check_can_demand_a_whole_list(tmp_path: Path) -> None:
    (tmp_path / "whole.yaml").write_text(
        "plan: whole\ninputs: {rows: {text: string}}\nsteps:\n  asked:\n    - from: rows\n"
        "    - sem_map:\n        prompt: 'About {text}?'\n"
        "        returns: {sums: list<double>, count: int64}\n"
        "        check: {where: len(sums) = count, message: \"'all of them'\", retries: 1}\n"
        "returns: [asked]\n"
    )
    oracle = Oracle(Mind(answer=lambda _: {"sums": [1.5, "two"], "count": 2}))
    with (
        semgraph.Session(
            llm=oracle, store="memory", journal=False, runs="", folder=tmp_path
        ) as session,
        pytest.raises(semgraph.RowError, match="check: all of them"),
    ):
        session.run(tmp_path / "whole.yaml", inputs={"rows": [{"text": "a"}]})
    assert "Your last answer was not valid: all of them." in oracle.requests[1].messages[-1].content
