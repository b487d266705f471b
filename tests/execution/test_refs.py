"""`refs`: the model sees numbered records of another relation, and an answer is the row."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.execution.result import Result
from tests.partial import partial_result

HEAD = """
plan: refs
inputs:
  statements: {id: string, text: string}
  memories: {id: string, at: int64, note: string, secret: string}
steps:
  decided:
    - from: statements
"""
ONE = """
    - sem_map:
        prompt: "Statement: {text} Known: {known}"
        returns: {event: "enum<ADD, UPDATE>", memory: ref<known> null}
        refs: {known: {of: memories, using: id, order: at desc, shows: {note: upper(note)}}}
returns: [decided]
"""
MANY = """
    - sem_map:
        prompt: "Statement: {text} Known: {known}"
        returns: {pairs: "list<struct<same: ref<known>, why: string>>", all: list<ref<known>>}
        refs: {known: {of: memories, using: id, order: at, limit: 3, shows: [note], unknown: UNKNOWN}}
returns: [decided]
"""
OWN = """
    - sem_map:
        prompt: "Statement: {text} Known: {known}"
        returns: {memory: ref<known>}
        refs: {known: {of: memories, where: known.at > 10, number: at, shows: [note]}}
        when: len(known) > 0
        otherwise: {memory: "NULL"}
returns: [decided]
"""
STATEMENTS = [
    {"id": "a", "text": "moved"},
    {"id": "b", "text": "works"},
    {"id": "c", "text": "new"},
]
MEMORIES = [
    {"id": "a", "at": 1, "note": "rome", "secret": "s1"},
    {"id": "a", "at": 2, "note": "oslo", "secret": "s2"},
    {"id": "a", "at": 3, "note": "oslo", "secret": "s3"},
    {"id": "b", "at": 11, "note": "luma", "secret": "s4"},
]


def shown(text: str) -> list[dict[str, Any]]:
    """The records that a question shows."""
    found = re.search(r"Known: (\[.*?\])", text)
    records: list[dict[str, Any]] = json.loads(found[1]) if found else []
    return records


def run(
    folder: Path,
    steps: str,
    answer: Callable[[str], dict[str, Any]],
    *,
    use: str = "per_row",
    statements: list[dict[str, Any]] = STATEMENTS,
) -> tuple[Result, Oracle]:
    """The result of a plan, and the model that answered."""
    (folder / "refs.yaml").write_text(HEAD + steps, encoding="utf-8")
    oracle = Oracle(Mind(answer=answer))
    with semgraph.Session(
        llm=oracle, store="memory", journal=False, runs="", folder=folder
    ) as session:
        result = partial_result(
            session.run,
            folder / "refs.yaml",
            inputs={"statements": statements, "memories": MEMORIES},
            use={"decided": use},
        )
    return result, oracle


def last(text: str) -> dict[str, Any]:
    """An answer that names the last record."""
    records = shown(text)
    return {"event": "UPDATE" if records else "ADD", "memory": len(records) or None}


WAYS = pytest.mark.parametrize("use", ["per_row", "packed(rows=2)"])


@WAYS
def test_an_answer_is_the_row_that_it_names(tmp_path: Path, use: str) -> None:
    result, _ = run(tmp_path, ONE, last, use=use)
    assert result.tables["decided"].to_pylist() == [
        {**STATEMENTS[0], "event": "UPDATE", "memory": MEMORIES[0]},
        {**STATEMENTS[1], "event": "UPDATE", "memory": MEMORIES[3]},
        {**STATEMENTS[2], "event": "ADD", "memory": None},
    ]


def test_an_answer_may_have_the_name_that_the_engine_gives_to_records(tmp_path: Path) -> None:
    steps = OWN.replace("memory:", "_r:")
    result, _ = run(tmp_path, steps, lambda _: {"_r": 11})
    assert [row["_r"] for row in result.tables["decided"].to_pylist()] == 3 * [MEMORIES[3]]


def test_the_model_sees_numbers_and_what_is_shown_in_the_order_of_the_records(
    tmp_path: Path,
) -> None:
    _, oracle = run(tmp_path, ONE, last)
    texts = [request.messages[-1].content for request in oracle.requests]
    assert shown(texts[0]) == [
        {"number": 1, "note": "OSLO"},
        {"number": 2, "note": "OSLO"},
        {"number": 3, "note": "ROME"},
    ]
    assert shown(texts[2]) == []
    assert not any("secret" in text or "s1" in text for text in texts)


@WAYS
def test_lists_and_structs_hold_rows_each_number_of_a_list_once(tmp_path: Path, use: str) -> None:
    def answer(text: str) -> dict[str, Any]:
        numbers = [record["number"] for record in shown(text)]
        return {
            "pairs": [{"same": n, "why": "w"} for n in numbers[:1]],
            "all": [*numbers, *numbers],
        }

    result, _ = run(tmp_path, MANY.replace("UNKNOWN", "ask"), answer, use=use)
    first, _, third = result.tables["decided"].to_pylist()
    assert first["pairs"] == [{"same": MEMORIES[0], "why": "w"}]
    assert first["all"] == MEMORIES[:3]
    assert (third["pairs"], third["all"]) == ([], [])


@WAYS
def test_an_unknown_number_is_asked_for_again_then_an_error_of_its_row(
    tmp_path: Path, use: str
) -> None:
    seen: list[str] = []

    def answer(text: str) -> dict[str, Any]:
        first, numbers = text not in seen, [record["number"] for record in shown(text)]
        seen.append(text)
        wrong = 7 if "works" in text else 9 if first and "moved" in text else None
        return {"event": "UPDATE", "memory": wrong or (numbers or [None])[0]}

    result, oracle = run(tmp_path, ONE, answer, use=use)
    assert [row["id"] for row in result.tables["decided"].to_pylist()] == ["a", "c"]
    [failure] = result.failed
    assert "memory has 7, which is the number of no record" in failure.error
    again = [
        r.messages[-1].content for r in oracle.requests if "not valid" in r.messages[-1].content
    ]
    assert any("memory has 7, which is the number of no record" in text for text in again)


@WAYS
def test_entries_with_an_unknown_number_are_dropped_and_nothing_is_asked(
    tmp_path: Path, use: str
) -> None:
    def answer(text: str) -> dict[str, Any]:
        return {"pairs": [{"same": 9, "why": "w"}, {"same": 1, "why": "x"}], "all": [1, 8]}

    only = STATEMENTS[:2]
    result, oracle = run(
        tmp_path, MANY.replace("UNKNOWN", "drop"), answer, use=use, statements=only
    )
    rows = result.tables["decided"].to_pylist()
    assert [row["pairs"] for row in rows] == [
        [{"same": MEMORIES[0], "why": "x"}],
        [{"same": MEMORIES[3], "why": "x"}],
    ]
    assert [row["all"] for row in rows] == [[MEMORIES[0]], [MEMORIES[3]]]
    assert len(oracle.requests) == (2 if use == "per_row" else 1)


def test_a_relation_may_bring_its_own_numbers(tmp_path: Path) -> None:
    result, oracle = run(tmp_path, OWN, lambda text: {"memory": shown(text)[0]["number"]})
    assert [row["memory"] for row in result.tables["decided"].to_pylist()] == [MEMORIES[3]] * 3
    assert shown(oracle.requests[0].messages[-1].content) == [{"note": "luma", "number": 11}]


def test_a_row_without_records_that_must_name_one_is_an_error_and_is_not_asked(
    tmp_path: Path,
) -> None:
    steps = ONE.replace("ref<known> null", "ref<known>")
    result, oracle = run(tmp_path, steps, last)
    [failure] = result.failed
    assert failure.error.endswith("known is empty: ask only when: len(known) > 0")
    assert len(oracle.requests) == 2


def test_equal_questions_lead_to_the_records_of_each_row(tmp_path: Path) -> None:
    statements = [{"id": "a", "text": "x"}, {"id": "d", "text": "x"}]
    steps = ONE.replace("order: at desc, ", "order: at, limit: 1, ")
    twin = {"id": "d", "at": 5, "note": "Rome", "secret": "other"}
    MEMORIES.append(twin)
    try:
        result, oracle = run(tmp_path, steps, last, statements=statements)
    finally:
        MEMORIES.remove(twin)
    assert [row["memory"] for row in result.tables["decided"].to_pylist()] == [MEMORIES[0], twin]
    assert len(oracle.requests) == 1


@WAYS
def test_what_is_asked_for_again_in_vain_costs_its_list_entry_only(
    tmp_path: Path, use: str
) -> None:
    def answer(text: str) -> dict[str, Any]:
        return {"pairs": [{"same": 9, "why": "w"}, {"same": 1, "why": "x"}], "all": [8, 1, 1]}

    steps, only = MANY.replace("UNKNOWN", "ask"), STATEMENTS[:1]
    result, oracle = run(tmp_path, steps, answer, use=use, statements=only)
    [row] = result.tables["decided"].to_pylist()
    assert row["pairs"] == [{"same": MEMORIES[0], "why": "x"}]
    assert row["all"] == [MEMORIES[0]]
    assert len(oracle.requests) == 2
    [note] = [note for note in result.notes if "of an answer" in note]
    assert note.endswith(
        "left out an element of an answer: 2 times, first: pairs has the number of no record"
    )


@WAYS
def test_a_row_of_which_no_list_entry_is_left_is_an_error(tmp_path: Path, use: str) -> None:
    steps, only = MANY.replace("UNKNOWN", "ask"), STATEMENTS[:1]
    result, _ = run(tmp_path, steps, lambda _: {"pairs": [], "all": [8]}, use=use, statements=only)
    [failure] = result.failed
    assert "all has 8, which is the number of no record" in failure.error
