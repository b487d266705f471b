"""A row that the store refuses costs only itself: it is set aside, and the rest of its group is
written.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.errors import DataError, SemgraphError
from semgraph.execution.record import all_runs, read_lines, read_rows
from semgraph.execution.result import Progress, Result
from semgraph.frontend.head import read_graph
from semgraph.stores.base import ScanQuery
from tests.execution.conftest import Place
from tests.inside import resources

GRAPH = """
graph: notes
nodes:
  Note: {properties: {text: string, rank: double, more: json}, index: [text]}
  Topic: {properties: {text: string}}
edges:
  AFTER: {source: Note, target: Note, properties: {text: string}}
  ABOUT: {source: Note, target: Topic}
"""
HEAD = """
plan: notes
graph: graph.yaml
inputs: {notes: {id: string null, group_id: string, text: string null, before: string null}}
"""
WINDOWS = "windows: {input: notes, partition: group_id, key: id, key_of: [text], size: %s}\n"
MERGE = """
writes:
  - merge: {from: notes, node: Note, key: id, set: {text: text}%s}
"""
LINKS = """
steps:
  links:
    - from: notes
    - filter: before IS NOT NULL
    - project: {uuid: "id(id, before)", group_id, source: id, target: before, text}
"""
WITH_LINKS = MERGE % "" + "  - merge: {from: links, edge: AFTER}\n"


@pytest.fixture
def session(tmp_path: Path, place: Place):
    (tmp_path / "graph.yaml").write_text(GRAPH)
    with semgraph.Session(store=place.spec, journal=False, folder=tmp_path) as opened:
        yield opened


def run(session: semgraph.Session, text: str, notes: list[dict[str, Any]]) -> Result:
    plan = Path(session.folder) / "notes.yaml"
    plan.write_text(HEAD + text)
    return session.run(plan, notes=notes)


def note(
    name: str, group: str = "g", before: str | None = None, text: str | None = None
) -> dict[str, Any]:
    return {"id": name, "group_id": group, "text": name if text is None else text, "before": before}


def ids(session: semgraph.Session, label: str = "Note") -> list[str]:
    """The keys that the store holds of a label."""

    async def read() -> list[str]:
        async with resources(session).opened_store() as store:
            await store.ensure(read_graph(Path(session.folder) / "graph.yaml"), None)
            table = await store.scan(ScanQuery(label))
            return sorted(table.column("uuid").to_pylist())

    return asyncio.run(read())


def failed(result: Result) -> list[str]:
    return [result.keys[f.input_row] for f in result.failed]


def set_aside(result: Result) -> list[dict[str, Any]]:
    assert result.record is not None
    return [json.loads(line) for line in (result.record / "failed.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("window", ["1", "2", "all"])
def test_a_key_of_another_group_costs_its_row_alone(session, window: str) -> None:
    plan = WINDOWS % window + MERGE % ""
    run(session, plan, [note("taken", "other"), note("taken too", "other")])
    notes = [
        note("a"),
        note("b"),
        note("taken"),
        note("c"),
        note("taken too"),
        note("d"),
        note("e", "h"),
    ]
    result = run(session, plan, notes)
    assert failed(result) == ["taken", "taken too"]
    assert (result.committed, result.exit_code, result.notes) == (5, 3, ())
    assert ids(session) == ["a", "b", "c", "d", "e", "taken", "taken too"]
    assert [(row["id"], row["text"], row["_step"]) for row in set_aside(result)] == [
        ("taken", "taken", "merge Note"),
        ("taken too", "taken too", "merge Note"),
    ]
    again = run(session, plan, notes)
    assert (again.skipped, again.committed, failed(again)) == (5, 0, ["taken", "taken too"])


def test_rows_set_aside_are_in_the_record_before_the_next_window_is_written(session) -> None:
    plan = WINDOWS % 1 + MERGE % ""
    run(session, plan, [note("taken", "other"), note("taken too", "other")])
    on_disk: list[list[str]] = []
    (before,) = all_runs(session.runs)

    def look(progress: Progress) -> None:
        if not progress.step and progress.done:
            (now,) = (found for found in all_runs(session.runs) if found.name != before.name)
            on_disk.append([row["id"] for row in read_lines(now.folder, "failed.jsonl")])

    notes = [note("a"), note("taken"), note("b"), note("taken too"), note("c")]
    result = session.run(Path(session.folder) / "notes.yaml", notes=notes, progress=look)
    assert on_disk == [[], ["taken"], ["taken", "taken too"]]
    assert [row["id"] for row in set_aside(result)] == ["taken", "taken too"], "each once"


def test_an_edge_without_its_end_costs_the_rows_that_need_it(session) -> None:
    notes = [
        note("a"),
        note("b", before="a"),
        note("c", before="nowhere"),
        note("d", before="c"),
        note("e", before="b"),
    ]
    result = run(session, WINDOWS % "all" + LINKS + WITH_LINKS, notes)
    assert failed(result) == ["c", "d"], "d needs c, which is not written"
    assert ids(session) == ["a", "b", "e"]
    assert len(ids(session, "AFTER")) == 2


def test_an_edge_that_would_get_other_ends_is_refused(session) -> None:
    plan = WINDOWS % "all" + LINKS.replace('"id(id, before)"', "text") + WITH_LINKS
    run(session, plan, [note("a"), note("b", before="a", text="edge")])
    result = run(session, plan, [note("c", before="a", text="edge"), note("d", before="a")])
    assert failed(result) == ["c"]
    assert ids(session) == ["a", "b", "d"]


def test_a_value_that_the_store_cannot_hold_costs_its_row_alone(session) -> None:
    half = "\\ud800"  # as JSON, half of a surrogate pair
    notes = [note("a"), note("b", text=f'"{half}"'), note("c", text="no json"), note("d")]
    notes[0]["text"] = notes[3]["text"] = "1"
    result = run(session, WINDOWS % "all" + MERGE % ", create: {more: text}", notes)
    assert failed(result) == ["b", "c"]
    assert ids(session) == ["a", "d"]


def test_a_node_that_still_has_edges_is_not_deleted_and_others_are(session) -> None:
    run(
        session,
        WINDOWS % "all" + LINKS + WITH_LINKS,
        [note("a"), note("b", before="a"), note("c"), note("d")],
    )
    delete = WINDOWS % "all" + "writes:\n  - delete: {from: notes, node: Note, key: id}\n"
    result = run(
        session, delete.replace("plan: notes", "plan: remove"), [note(n) for n in "abcd"][::-1]
    )
    del result
    assert ids(session) == ["a", "b", "c", "d"], "they are marked as written by the same plan"
    plan = Path(session.folder) / "remove.yaml"
    plan.write_text(HEAD.replace("plan: notes", "plan: remove") + delete)
    result = session.run(plan, notes=[note(n) for n in "abcd"])
    assert failed(result) == ["a", "b"]
    assert ids(session) == ["a", "b"]


def test_rows_that_are_merged_first_are_set_aside_too(session) -> None:
    plan = WINDOWS % "1" + MERGE % ", first: true"
    run(session, plan, [note("taken", "other")])
    result = run(session, plan, [note("a"), note("taken"), note("b"), note("c")])
    assert failed(result) == ["taken"]
    assert (ids(session), result.committed) == (["a", "b", "c", "taken"], 3)


def test_without_an_order_a_refused_row_ends_the_run_and_nothing_is_written(session) -> None:
    run(session, MERGE % "", [note("taken", "other")])
    with pytest.raises(DataError, match="nothing was written"):
        run(
            session,
            LINKS + WITH_LINKS,
            [note("a"), note("taken"), note("b", before="a"), note("c", before="no")],
        )
    assert (ids(session), ids(session, "AFTER")) == (["taken"], [])


def test_on_error_stop_ends_the_group_and_no_other(session) -> None:
    plan = (WINDOWS % "1").replace("size: 1", "size: 1, on_error: stop") + MERGE % ""
    run(session, plan, [note("taken", "other")])
    result = run(session, plan, [note("a"), note("taken"), note("b"), note("c", "h")])
    assert failed(result) == ["taken"]
    assert result.notes == ('group "g" stopped: a row of it failed',)
    assert (ids(session), result.exit_code) == (["a", "c", "taken"], 1)


def test_rows_that_disagree_and_whose_key_is_taken_cost_no_other_row(session) -> None:
    """The second of two rows with one key is set aside for the first, and then the first for the
    row of another group.
    """
    steps = "steps: {short: [{from: notes}, {project: {uuid: 'left(id, 1)', group_id, text}}]}\n"
    plan = WINDOWS % "all" + steps + "writes: [{merge: {from: short, node: Note}}]\n"
    run(session, plan, [note("a0", "other")])
    result = run(session, plan, [note("a1"), note("a2"), note("b1"), note("c1")])
    assert sorted(failed(result)) == ["a1", "a2"], "each once"
    assert (ids(session), result.committed) == (["a", "b", "c"], 2)


def test_a_refused_row_that_is_made_of_a_whole_window_costs_the_window_and_no_other(
    session,
) -> None:
    steps = """
steps:
  topics:
    - from: notes
    - aggregate: {by: [group_id], add: {text: min(before)}}
    - project: {uuid: text, group_id, text}
writes:
  - merge: {from: notes, node: Note, key: id, set: {text: text}}
  - merge: {from: topics, node: Topic}
"""
    run(session, WINDOWS % "all" + steps, [note("x", "other", before="topic")])
    notes = [note(f"n{i}", before="topic") for i in range(50)]
    result = run(session, WINDOWS % "all" + steps, [*notes, note("y", "h", before="topic of h")])
    assert sorted(set(failed(result))) == sorted(n["id"] for n in notes)
    assert (ids(session), ids(session, "Topic")) == (["x", "y"], ["topic", "topic of h"])


def test_a_refused_row_of_no_member_ends_the_run_with_its_reason(session) -> None:
    lone = """
steps:
  lone:
    - from: {label: Note, partition: all}
    - project: {uuid: text, group_id, text}
writes:
  - merge: {from: notes, node: Note, key: id, set: {text: text}}
  - merge: {from: lone, node: Topic}
"""
    run(session, MERGE % "", [note("a", "other", text="same"), note("b", "third", text="same")])
    with pytest.raises(SemgraphError, match="derives from no input row"):
        run(session, WINDOWS % "all" + lone, [note("c")])


SEEN = """  seen:
    - from: notes
    - match: {pattern: "(n:Note {uuid: before})", how: left}
"""


def test_each_row_of_a_window_that_is_run_again_is_counted_and_recorded_once(session) -> None:
    plan = WINDOWS % "all" + LINKS + SEEN + WITH_LINKS + "returns: [links, seen]\n"
    result = run(
        session,
        plan,
        [note("a"), note("b", before="a"), note("c", before="no"), note("d", before="b")],
    )
    assert failed(result) == ["c"]
    assert result.record is not None
    steps = result.meter.steps
    for step, members in (("links", [1, 2, 3]), ("seen", [0, 1, 2, 3])):
        assert sorted(row["_m"] for row in read_rows(result.record, "steps", step)) == members
        assert (steps[step].rows_in, steps[step].rows_out) == (4, len(members))
