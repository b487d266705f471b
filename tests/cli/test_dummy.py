"""`--llm dummy`: made-up answers that fit every schema, for nothing, into no store that stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Project, Serving

PLAN = """
plan: made
inputs: {rows: {id: int64, text: string}}
steps:
  kept:
    - from: rows
    - sem_filter: Is “{text}” about tea?
  read:
    - from: rows
    - sem_map:
        prompt: What is in “{text}”?
        returns:
          word: string
          count: int64
          share: double
          sure: boolean
          kind: "enum<tea, coffee>"
          at: timestamp null
          day: date
          parts: "list<struct<name: string, kind: enum<a, b>>>"
  scored:
    - from: rows
    - sem_topk: {prompt: "How strong is the tea of “{text}”?", k: 2}
  paired:
    - from: rows
    - sem_join: {prompt: "Is {text} the tea of {other.text}?", other: rows, alias: other}
  told:
    - from: rows
    - sem_agg: {prompt: "Sum up: {text}", returns: {summary: string}}
returns: [kept, read, scored, paired, told]
"""
ROWS = "".join(json.dumps({"id": n, "text": f"tea {n % 6}"}) + "\n" for n in range(12))


@pytest.fixture
def made(project: Project) -> Project:
    project.write("made.yaml", PLAN)
    project.write("rows.jsonl", ROWS)
    return project


def tables(project: Project, *more: str) -> dict[str, list[dict[str, Any]]]:
    ran = project(
        "run", "made.yaml", "-i", "rows=rows.jsonl", "--llm", "dummy", "--format", "json", *more
    )
    assert ran.code == 0, ran.err
    data = json.loads(ran.out)
    assert data["failed"] == []
    return data["tables"]


@pytest.mark.parametrize("how", ["per_row", "packed"])
def test_every_type_is_answered_and_equal_questions_get_equal_answers(
    made: Project, how: str
) -> None:
    found = tables(made, "--use", f"kept={how}", "--use", f"read={how}")
    for row in found["read"]:
        assert row["word"] == "dummy"
        assert row["kind"] in ("tea", "coffee")
        assert isinstance(row["sure"], bool)
        assert row["day"] == "2025-01-01"
        assert row["parts"][0]["name"] == "dummy"
    answers = [{k: v for k, v in row.items() if k != "id"} for row in found["read"]]
    assert answers[:6] == answers[6:], "rows 6 to 11 have the texts of 0 to 5"
    assert len({json.dumps(answer) for answer in answers}) == 6, "other questions, other answers"
    kept = {row["id"] for row in found["kept"]}
    assert {n % 6 for n in kept} == {n for n in kept if n < 6}
    assert 0 < len(kept) < 12
    assert tables(made, "--use", f"kept={how}", "--use", f"read={how}") == found


LIMITED = """
plan: limited
inputs: {rows: {id: int64, text: string}}
steps:
  read:
    - from: rows
    - sem_map:
        prompt: What is in “{text}”?
        returns:
          age: {type: int64, describe: in years, minimum: 18, maximum: 20}
          share: {type: double, exclusiveMinimum: 0, exclusiveMaximum: 0.1}
          cold: {type: double, maximum: -3}
          step: {type: int64, multipleOf: 5, minimum: 11}
          code: {type: string, minLength: 8}
          short: {type: string, maxLength: 3}
          tags: {type: "list<string>", minItems: 2}
          parts: {type: "list<struct<name: string, n: int64>>"}
          "parts[].n": {minimum: 100}
returns: [read]
"""


@pytest.mark.parametrize("how", ["per_row", "packed"])
def test_answers_are_within_their_limits(made: Project, how: str) -> None:
    made.write("made.yaml", LIMITED)
    rows = tables(made, "--use", f"read={how}")["read"]
    assert {row["age"] for row in rows} == {18, 19, 20}
    assert all(0 < row["share"] < 0.1 and row["cold"] <= -3 for row in rows)
    assert all(row["step"] >= 15 and row["step"] % 5 == 0 for row in rows)
    assert {(len(row["code"]), row["short"], len(row["tags"])) for row in rows} == {(8, "dum", 2)}
    assert all(row["parts"][0]["n"] >= 100 for row in rows)


@pytest.mark.parametrize(
    "how",
    [
        [],
        ["paired=block", "scored=packed", "told=tree"],
        ["paired=logit", "scored=listwise", "kept=logit(threshold=0.5)"],
        ["scored=tournament", "kept=vote", "read=reflexion"],
    ],
    ids=lambda how: "+".join(how) or "reference",
)
def test_every_operator_is_answered(made: Project, how: list[str]) -> None:
    found = tables(made, *(word for each in how for word in ("--use", each)))
    assert [row["rank"] for row in found["scored"]] == [0, 1]
    assert 0 < len(found["paired"]) < 144
    assert found["told"] == [{"summary": "dummy"}]


def test_it_is_marked_as_made_up(made: Project, serving: Serving) -> None:
    ran = made("run", "made.yaml", "-i", "rows=rows.jsonl", "--llm", "dummy")
    assert ran.code == 0
    assert "dummy: made-up answers" in ran.err.splitlines()[1]
    note = "answers are made up (dummy): they mean nothing"
    assert f"! {note}" in ran.err
    record = json.loads(made("runs", "show", "last", "--format", "json").out)
    assert record["notes"] == [note]
    assert record["models"]["kept"] == "dummy"
    assert "$0" in ran.out
    assert serving.calls == 0, "no request is sent"


def test_a_comparison_is_marked_as_made_up(made: Project) -> None:
    compared = made(
        "compare", "made.yaml", "-i", "rows=rows.jsonl", "--llm", "dummy", "--step", "read",
        "--implementations", "per_row,packed",
    )  # fmt: skip
    assert compared.code == 0, compared.err
    assert "! answers are made up (dummy): they mean nothing" in compared.out


def test_it_writes_into_memory_only(made: Project) -> None:
    refused = made("run", "people", "--llm", "dummy", "--store", "sqlite:g.db")
    assert refused.code == 2
    assert "people would write made-up answers (dummy) to sqlite:" in refused.err
    assert "g.db. Use --store memory" in refused.err
    assert not (made.folder / "g.db").exists()
    assert made("run", "people", "--llm", "dummy", "--store", "sqlite:g.db", "--no-write").code == 0
    kept = made("run", "people", "--llm", "dummy", "--store", "memory")
    assert kept.code == 0, kept.err
    assert "written: 3 Note, 1 Person, 1 KNOWS" in kept.out


def test_a_made_up_model_of_one_role_or_step_is_refused_too(made: Project) -> None:
    refused = made("run", "people", "--model", "told=dummy", "--store", "sqlite:g.db")
    assert refused.code == 2
    assert "made-up answers" in refused.err


def test_searches_have_made_up_vectors(made: Project) -> None:
    ran = made("run", "add_episode", "--llm", "dummy", "--store", "memory")
    assert ran.code == 0, ran.err
    assert "embed dummy: made-up vectors" in ran.err
    assert "0 rows failed" in ran.out


def test_its_answers_are_not_in_the_journal(made: Project) -> None:
    made("run", "made.yaml", "-i", "rows=rows.jsonl", "--llm", "dummy")
    pruned = json.loads(made("journal", "prune", "--older", "0m", "--format", "json").out)
    assert pruned["answers"] == 0
