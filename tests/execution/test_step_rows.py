"""The rows that a run says came into a step and left it are those that did, or are shown as not
known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import semgraph
from semgraph.execution.result import Result
from semgraph.render.outcome import step_columns
from semgraph.stores.base import MatchQuery
from semgraph.stores.sqlite.store import SqliteStore

HEAD = "plan: notes\ninputs: {notes: {id: string, group_id: string, n: int64}}\n"
WINDOWS = "windows: {input: notes, partition: group_id, key: id, size: 2}\n"
NOTES: list[dict[str, Any]] = [{"id": str(i), "group_id": "gh"[i % 2], "n": i} for i in range(6)]


def run(folder: Path, text: str, windows: str) -> Result:
    (folder / "notes.yaml").write_text(HEAD + windows + text)
    with semgraph.Session(store="memory", journal=False, runs="", folder=folder) as session:
        return session.run(folder / "notes.yaml", notes=NOTES)


@pytest.mark.parametrize("windows", ["", WINDOWS], ids=["at once", "in windows"])
def test_steps_that_one_statement_does_are_counted_where_rows_are_one_to_one(
    tmp_path: Path, windows: str
) -> None:
    text = """
steps:
  some: [{from: notes}, {filter: n >= 4}]
  more: [{from: some}, {add: {m: n + 1}}]
  less: [{from: more}, {project: {id, m}}]
returns: [less]
"""
    steps = run(tmp_path, text, windows).meter.steps
    assert {
        name: (steps[name].rows_in, steps[name].rows_out) for name in ("some", "more", "less")
    } == {
        "some": (6, 2),
        "more": (2, 2),
        "less": (2, 2),
    }


@pytest.mark.parametrize("windows", ["", WINDOWS], ids=["at once", "in windows"])
def test_what_is_not_known_inside_a_statement_is_not_shown_as_a_number(
    tmp_path: Path, windows: str
) -> None:
    text = """
steps:
  some: [{from: notes}, {filter: n >= 3}]
  few: [{from: some}, {filter: n % 2 = 0}]
returns: [few]
"""
    result = run(tmp_path, text, windows)
    some, few = result.meter.steps["some"], result.meter.steps["few"]
    assert (some.rows_in, some.rows_out, few.rows_in, few.rows_out) == (6, None, None, 1)
    (shown,) = [
        column.cells
        for column in step_columns(result.meter.lines(), every=True)
        if column.title == "in → out"
    ]
    assert "6 → —" in shown
    assert result.to_json()["metrics"]["steps"]["some"]["rows_out"] is None


async def test_a_search_that_looks_twice_counts_as_two_store_queries_of_its_step(
    tmp_path: Path,
) -> None:
    class Twice(SqliteStore):
        """A store in which every match takes two transactions."""

        async def match(self, query: MatchQuery, rows: pa.Table) -> pa.Table:
            await super().match(query, rows)
            return await super().match(query, rows)

    (tmp_path / "graph.yaml").write_text(
        "graph: notes\nnodes:\n  Note: {properties: {text: string}}\n"
    )
    (tmp_path / "notes.yaml").write_text("""
plan: notes
graph: graph.yaml
inputs: {notes: {id: string, group_id: string, n: int64}}
steps:
  one: [{from: notes}, {match: {pattern: "(a:Note {uuid: id})", how: left}}]
  other: [{from: notes}, {match: {pattern: "(b:Note {uuid: group_id})", how: left}}]
  none: [{from: notes}, {filter: n < 0}, {match: {pattern: "(c:Note {uuid: id})", how: left}}]
returns: [one, other, none]
""")
    store = Twice(":memory:")
    async with semgraph.Session(store=store, journal=False, runs="", folder=tmp_path) as session:
        result = await session.arun(tmp_path / "notes.yaml", notes=NOTES)
    await store.aclose()
    found = {step: result.meter.steps[step].round_trips for step in ("one", "other", "none")}
    assert found == {"one": 2, "other": 2, "none": 0}, (
        "each step counts its own, though both wait at once"
    )
