"""Notes of a run on answers that are all alike: a filter that keeps everything, a join that matches
nothing, a map that repeats.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.conformance.cases import Mind, Oracle
from semgraph.display import in_shell

PLAN = """
plan: alike
inputs: {left: {name: string}, right: {name: string}}
steps:
  kept: [{from: left}, {sem_filter: {prompt: "Is “{name}” good?"}}]
  paired: [{from: left}, {sem_join: {prompt: "Are “{name}” and “{c.name}” alike?", other: right, alias: c}}]
  told: [{from: left}, {sem_map: {prompt: "Kind of {name}", returns: {kind: string}}}]
returns: [kept, paired, told]
"""


def run(folder: Path, count: int, mind: Mind, *, runs: bool = True) -> Any:
    path = folder / "alike.yaml"
    path.write_text(PLAN.lstrip())
    where = folder / "runs" if runs else ""
    rows = [{"name": f"row {i}"} for i in range(count)]
    with sg.Session(llm=Oracle(mind), store="memory", journal=False, runs=where) as session:
        return session.run(path, left=rows, right=[{"name": "other"}])


def answers(verdict: str, kind: str) -> Mind:
    return Mind(
        answer=lambda text: {"answer": verdict} if text.startswith("Is") else {"kind": kind},
        match=lambda left, right: {} if verdict == "yes" else None,
    )


@pytest.mark.parametrize(("verdict", "count"), [("yes", "12"), ("no", "none")])
def test_a_run_notes_what_is_answered_alike_for_all_rows(tmp_path, verdict, count):
    result = run(tmp_path, 12, answers(verdict, "thing"))
    look = f'; look at one: session.why("TEXT", "{result.run}"), with the text of a row'
    assert list(result.notes) == [
        f"step kept: sem_filter kept {count} of 12 rows{look}",
        f"step paired: sem_join matched {count} of 12 pairs{look}",
        f"step told: sem_map gave the same answer for all 12 rows{look}",
    ]


def test_in_a_shell_a_note_names_the_command(tmp_path):
    with in_shell():
        result = run(tmp_path, 12, answers("yes", "thing"))
    look = f"; look at one: semgraph why {result.run} TEXT, with the text of a row"
    assert [note.endswith(look) for note in result.notes] == [True] * 3


def test_nine_rows_are_too_few_for_a_note(tmp_path):
    assert run(tmp_path, 9, answers("yes", "thing")).notes == ()


def test_equal_rows_count_once(tmp_path):
    path = tmp_path / "alike.yaml"
    path.write_text(PLAN.lstrip())
    with sg.Session(
        llm=Oracle(answers("yes", "thing")), store="memory", journal=False, runs=""
    ) as session:
        found = session.run(path, left=[{"name": "same"}] * 20, right=[])
    assert found.notes == ()


def test_answers_that_vary_are_not_noted(tmp_path):
    mind = Mind(
        answer=lambda text: (
            {"answer": "yes" if "3" in text else "no"} if text.startswith("Is") else {"kind": text}
        ),
        match=lambda left, right: {} if "3" in left else None,
    )
    assert run(tmp_path, 12, mind).notes == ()


def test_without_a_record_there_is_nothing_to_look_at(tmp_path):
    notes = run(tmp_path, 12, answers("yes", "thing"), runs=False).notes
    assert notes[0] == "step kept: sem_filter kept 12 of 12 rows"


def test_rows_without_an_answer_do_not_count(tmp_path):
    def answer(text: str) -> dict[str, Any]:
        if "row 1" in text:
            return {"neither": 1}
        return {"answer": "yes"} if text.startswith("Is") else {"kind": "thing"}

    result = run(tmp_path, 12, Mind(answer=answer, match=lambda left, right: {}))
    assert [note.split("; ")[0] for note in result.notes] == [
        "step paired: sem_join matched 12 of 12 pairs"
    ]
