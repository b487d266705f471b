"""`semgraph report`, and a session's `report`: a page of what was run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import semgraph as sg
from semgraph.errors import PlanError
from tests.cli.conftest import Project


def test_a_run_becomes_a_page(project: Project) -> None:
    project("run", "people")
    done = project("report", "last", "-o", "pages/run.html")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("pages/run.html   ")
    text = (project.folder / "pages" / "run.html").read_text(encoding="utf-8")
    assert "<h1>people · run" in text
    assert "Who knows whom in: Ann knows Bob." in text
    assert "Graph “demo”: 3 Note, 3 Person, 3 KNOWS" in text


def test_its_name_and_size_are_data_too(project: Project) -> None:
    project("run", "people")
    told = json.loads(project("report", "last", "-o", "run.html", "--format", "json").out)
    assert told == {"file": "run.html", "bytes": (project.folder / "run.html").stat().st_size}


def test_what_is_no_record_is_an_error_and_nothing_is_written(project: Project) -> None:
    done = project("report", "zz", "-o", "run.html")
    assert done.code == 2
    assert 'there is no run "zz"' in done.err
    assert not (project.folder / "run.html").exists()


def test_a_comparison_becomes_a_page(project: Project) -> None:
    project("compare", "people", "--step", "told", "--implementations", "per_row,packed(rows=2)")
    assert project("report", "last", "-o", "ways.html").code == 0
    text = (project.folder / "ways.html").read_text(encoding="utf-8")
    assert "people · told · comparison" in text
    assert "packed(rows=2)" in text
    assert "no truth: this is agreement" in text
    assert "Who knows whom in" in text


async def test_a_session_writes_pages_of_its_results(tmp_path: Path) -> None:
    session = sg.Session(llm="recorded", embedder="recorded", store="memory", folder=tmp_path)
    found = await session.arun("add_episode")
    made = session.report(found, to="run.html")
    assert made == tmp_path / "run.html"
    assert f"add_episode · run {found.run}" in made.read_text(encoding="utf-8")
    assert session.report(to="last.html").read_bytes() == made.read_bytes()
    with pytest.raises(PlanError, match="keeps no records"):
        sg.Session(store="memory", folder=tmp_path, runs="").report("last", to="run.html")
