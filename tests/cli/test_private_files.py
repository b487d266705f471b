"""Files that hold the user's texts are readable by their owner only, and damaged statistics never
stop a run.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Project


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """The mask with which most systems start: others may read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def readable_by_others(folder: Path) -> list[str]:
    """The files and folders at and below a folder that anybody but the owner may touch."""
    return [str(path) for path in (folder, *folder.rglob("*")) if path.stat().st_mode & 0o077]


def test_graph_journal_and_records_are_private(project: Project) -> None:
    assert project("run", "people").code == 0
    assert project("report", "last", "-o", "pages/out.html").code == 0
    compared = project(
        "compare", "people", "--variant", "a:told=per_row", "--variant", "b:told=packed"
    )
    assert compared.code == 0, compared.err
    assert len(list((project.folder / ".semgraph").rglob("*.parquet"))) > 3
    assert readable_by_others(project.folder / ".semgraph") == []
    assert readable_by_others(project.folder / "pages") == []


def test_the_logs_of_an_open_graph_are_private(project: Project) -> None:
    assert project("run", "people").code == 0
    with closing(sqlite3.connect(project.folder / ".semgraph" / "graph.db")) as graph:
        graph.execute("CREATE TABLE more (a)")
        assert (project.folder / ".semgraph" / "graph.db-wal").exists()
        assert readable_by_others(project.folder / ".semgraph") == []


def test_a_failed_row_and_a_store_in_a_new_folder_are_private(project: Project) -> None:
    row = '[{"group_id": "g", "at": "2025-01-01", "text": "nobody"}]'
    ended = project(
        "run", "people", "-i", "notes=-", "--store", "sqlite:data/deep/graph.db", text=row
    )
    assert ended.code == 3, ended.err
    assert list((project.folder / ".semgraph").rglob("failed.jsonl"))
    assert readable_by_others(project.folder / ".semgraph") == []
    assert readable_by_others(project.folder / "data") == []


def test_a_file_that_exists_keeps_its_mode(project: Project) -> None:
    page = project.write("out.html", "")
    page.chmod(0o644)
    assert project("run", "people").code == 0
    assert project("report", "last", "-o", "out.html").code == 0
    assert page.stat().st_mode & 0o777 == 0o644


def test_a_damaged_file_of_statistics_is_set_aside_and_begun_anew(project: Project) -> None:
    assert project("run", "people").code == 0
    statistics = project.folder / ".semgraph" / "journal.observed.db"
    sound = statistics.stat().st_size
    for damage in (b"no database", statistics.read_bytes()[:4096] + b"\xff" * (sound - 4096)):
        statistics.write_bytes(damage)
        shown = project("explain", "people")
        assert shown.code == 0, shown.err
        assert "journal.observed.db cannot be read" in shown.out
        done = project("run", "people", "--reprocess")
        assert done.code == 0, done.err
        assert "journal.observed.db was damaged" in done.out + done.err
        assert statistics.with_name("journal.observed.db.damaged").read_bytes() == damage
        with closing(sqlite3.connect(statistics)) as found:
            assert found.execute("SELECT count(*) FROM observed").fetchone()[0] > 0
        assert "observed.db" not in project("explain", "people").out
        assert "observed.db" not in project("run", "people", "--reprocess").err


def test_statistics_that_hold_no_numbers_count_as_damaged(project: Project) -> None:
    assert project("run", "people").code == 0
    statistics = project.folder / ".semgraph" / "journal.observed.db"
    with closing(sqlite3.connect(statistics)) as found, found:
        found.execute("UPDATE observed SET calls = 'many'")
    done = project("run", "people", "--reprocess")
    assert done.code == 0, done.err
    assert "journal.observed.db was damaged" in done.out + done.err
