"""`--llm dummy`: made-up answers that fit every schema, for nothing, into no store that stays."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Project, Serving

PLAN = """
plan: made
inputs: {rows: {id: int64, text: string}, others: {name: string}}
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
    - from: [rows, others]
    - sem_join: {left: rows, right: others, prompt: "Does {rows.text} name {others.name}?"}
  told:
    - from: rows
    - sem_agg: {prompt: "Sum up: {text}", returns: {summary: string}}
returns: [kept, read, scored, told]
"""
ROWS = "".join(json.dumps({"id": n, "text": f"tea {n % 6}"}) + "\n" for n in range(12))


@pytest.fixture
def made(project: Project) -> Project:
    project.write("made.yaml", PLAN)
    project.write("rows.jsonl", ROWS)
    return project


def tables(project: Project, *more: str) -> dict[str, list[dict[str, object]]]:
    ran = project("run", "made.yaml", "-i", "rows=rows.jsonl", "--llm", "dummy", "--format", "json", *more)
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
