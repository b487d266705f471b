"""Slices are computed side by side; what they write is as if one ran after the other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.errors import StoreUnavailable
from semgraph.stores.base import CommitMarker, WriteBatch, Written
from semgraph.stores.sqlite.store import SqliteStore

GRAPH = """
graph: notes
nodes:
  Note: {properties: {text: string}}
  Line: {properties: {text: string}}
"""
PLAN = """
plan: notes
graph: graph.yaml
inputs: {notes: {id: string, group_id: string, name: string, text: string}}
windows: {input: notes, partition: group_id, key: id, key_of: [text], size: 1, ahead: 4}
steps:
  lines: [{from: notes}, {project: {uuid: id, group_id, text}}]
  named: [{from: notes}, {project: {uuid: name, group_id, text: "CASE WHEN text = 'bad' THEN error('bad') ELSE text END"}}]
writes:
  - merge: {from: named, node: Note, first: true}
  - merge: {from: lines, node: Line}
"""


class Slow(SqliteStore):
    """A store whose first write takes longer than those that come after it."""

    def __init__(self, path: Path, fails: str = "") -> None:
        super().__init__(path)
        self.fails, self.called = fails, False
        self.written: list[str] = []

    async def commit(self, batch: WriteBatch, marker: CommitMarker | None = None) -> Written:
        texts = [
            f"{write.label} {text}"
            for write in batch.writes
            for text in (write.rows.column("text").to_pylist() if write.rows.num_rows else ())
        ]
        first, self.called = not self.called, True
        for _ in range(200 if first else 0):
            await asyncio.sleep(0)
        if self.fails in texts:
            raise StoreUnavailable(f"refused: {self.fails}")
        written = await super().commit(batch, marker)
        self.written += texts
        return written


def note(n: int, text: str = "") -> dict[str, Any]:
    return {"id": f"i{n}", "group_id": "g", "name": f"n{n}", "text": text or f"t{n}"}


async def run(
    tmp_path: Path, store: SqliteStore, notes: list[dict[str, Any]], plan: str = PLAN
) -> Any:
    (tmp_path / "graph.yaml").write_text(GRAPH)
    (tmp_path / "notes.yaml").write_text(plan)
    async with semgraph.Session(store=store, journal=False, folder=tmp_path) as session:
        return await session.arun(tmp_path / "notes.yaml", notes=notes)


async def test_rows_of_the_input_are_written_in_its_order(tmp_path: Path) -> None:
    store = Slow(tmp_path / "graph.db")
    await run(tmp_path, store, [note(n) for n in range(9)])
    for label in ("Note", "Line"):
        own = [text for text in store.written if text.startswith(label)]
        assert own == [f"{label} t{n}" for n in range(9)]


async def test_a_slice_with_bad_data_keeps_its_turn(tmp_path: Path) -> None:
    store = Slow(tmp_path / "graph.db")
    result = await run(tmp_path, store, [note(n, text="bad" if n == 2 else "") for n in range(9)])
    assert [failure.input_row for failure in result.failed] == [2]
    rest = [f"t{n}" for n in range(9) if n != 2]
    for label in ("Note", "Line"):
        own = [text.split()[1] for text in store.written if text.startswith(label)]
        assert own == rest


async def test_a_window_that_cannot_be_computed_stops_its_group_there(tmp_path: Path) -> None:
    """The windows before it are committed, in whichever slice they are, and in the order of `by`."""
    plan = (
        PLAN.replace("size: 1, ahead: 4", "size: 2, ahead: 8, order: [name]")
        .replace(
            "{project: {uuid: id, group_id, text}}",
            "{aggregate: {by: {group_id: group_id}, add: {uuid: min(id), text: \"CASE WHEN list_has_all(list(text), ['t4', 't5']) THEN error('bad') ELSE max(text) END\"}}}",
        )
        .replace("  - merge: {from: named, node: Note, first: true}\n", "")
    )
    store = Slow(tmp_path / "graph.db")
    result = await run(tmp_path, store, [note(n) for n in reversed(range(9))], plan)
    assert store.written == ["Line t1", "Line t3"]
    assert (result.committed, len(result.notes), result.exit_code) == (4, 1, 1)


async def test_a_slice_that_fails_ends_the_run_once_those_before_it_are_committed(
    tmp_path: Path,
) -> None:
    store = Slow(tmp_path / "graph.db", fails="Note t1")
    with pytest.raises(StoreUnavailable, match="Note t1"):
        await run(tmp_path, store, [note(n) for n in range(9)])
    assert [text for text in store.written if text.startswith("Line")] == ["Line t0"]
    resumed = await run(tmp_path, SqliteStore(tmp_path / "graph.db"), [note(n) for n in range(9)])
    assert (resumed.skipped, resumed.committed) == (1, 8)
