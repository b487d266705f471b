"""A run that is not to write neither makes nor changes the store's file."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import semgraph

GRAPH = "graph: notes\nnodes:\n  Note: {properties: {text: string%s}}\n%s"
PLAN = """
plan: notes
graph: graph.yaml
inputs: {notes: {id: string, group_id: string, text: string}}
windows: {input: notes, partition: group_id, key: id}
steps:
  known:
    - from: notes
    - match: {pattern: "(n:Note {uuid: id})"}
returns: [known]
writes:
  - merge: {from: notes, node: Note, key: id, set: {text: text}}
"""
NOTES: list[dict[str, Any]] = [{"id": name, "group_id": "g", "text": name} for name in "ab"]


def state(folder: Path) -> dict[str, bytes]:
    """The files that belong to the database."""
    return {path.name: path.read_bytes() for path in folder.glob("graph.db*")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "graph.yaml").write_text(GRAPH % ("", ""))
    return tmp_path


def opened(folder: Path) -> semgraph.Session:
    return semgraph.Session(
        store=f"sqlite:{folder / 'graph.db'}", journal=False, runs="", folder=folder
    )


def known(session: semgraph.Session, plan: str = "notes", **options: Any) -> int:
    """How many of the notes the store holds already, for a plan of this name."""
    path = Path(session.folder) / f"{plan}.yaml"
    path.write_text(PLAN.replace("plan: notes", f"plan: {plan}"))
    return session.run(path, notes=NOTES, **options).tables["known"].num_rows


def test_a_file_that_is_not_there_is_not_made(folder: Path) -> None:
    with opened(folder) as session:
        assert known(session, write=False) == 0
        session.explain(folder / "notes.yaml", notes=NOTES)
        assert state(folder) == {}
    assert state(folder) == {}


@pytest.mark.parametrize("grown", [False, True], ids=["same graph", "grown graph"])
def test_a_file_stays_as_it_is_and_is_read(folder: Path, grown: bool) -> None:
    """Also one that lacks what the graph needs by now."""
    with opened(folder) as session:
        known(session)
    before = state(folder)
    if grown:
        (folder / "graph.yaml").write_text(
            GRAPH % (", more: string", "  Topic: {properties: {text: string}}\n")
        )
    with opened(folder) as session:
        assert known(session, "others", write=False) == 2
    assert state(folder) == before
    with opened(folder) as session:
        assert known(session, "others") == 2
    assert state(folder) != before


def test_a_run_that_reads_does_not_disturb_one_that_writes(folder: Path) -> None:
    with opened(folder) as session:
        assert known(session) == 0
        layout = (
            sqlite3.connect(folder / "graph.db")
            .execute("SELECT sql FROM sqlite_master ORDER BY name")
            .fetchall()
        )
        (folder / "graph.yaml").write_text(
            GRAPH % (", more: string", "  Topic: {properties: {text: string}}\n")
        )
        assert known(session, "others", write=False) == 2
        after = (
            sqlite3.connect(folder / "graph.db")
            .execute("SELECT sql FROM sqlite_master ORDER BY name")
            .fetchall()
        )
        assert layout == after
        assert known(session, "others") == 2
    with opened(folder) as session:
        assert known(session, "later") == 2


async def test_a_store_that_was_opened_to_read_can_be_written_afterwards(tmp_path):
    from semgraph.stores.sqlite.store import SqliteStore

    (tmp_path / "graph.yaml").write_text(GRAPH % ("", ""))
    (tmp_path / "notes.yaml").write_text(PLAN)
    store = SqliteStore(tmp_path / "graph.db")
    async with semgraph.Session(store=store, journal=False, runs="", folder=tmp_path) as session:
        await session.arun(tmp_path / "notes.yaml", notes=NOTES, write=False)
        assert state(tmp_path) == {}
        assert (await session.arun(tmp_path / "notes.yaml", notes=NOTES)).committed == 2
        assert (await session.arun(tmp_path / "notes.yaml", notes=NOTES)).skipped == 2
    await store.aclose()
