"""A plan that is run again is loaded once, until one of the files that it is made of changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import semgraph
from semgraph.errors import PlanError

PLAN = """
plan: outer
inputs: {people: {name: string}}
steps:
  asked: [{from: people}, {sem_map: {prompt: code}}]
  called: [{call: {plan: inner, inputs: {of: asked}}}]
returns: {called: called}
"""
INNER = "plan: inner\ninputs: {of: {name: string}}\nsteps: {kept: [{from: of}, {filter: \"name <> 'Ann'\"}]}\nreturns: {kept: kept}\n"
PROMPT = "---\nreturns: {code: string}\n---\n# item\nGive a code to {name}.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "code.md").write_text(PROMPT, encoding="utf-8")
    (tmp_path / "outer.yaml").write_text(PLAN, encoding="utf-8")
    (tmp_path / "inner.yaml").write_text(INNER, encoding="utf-8")
    return tmp_path


@pytest.fixture
def session(folder: Path) -> semgraph.Session:
    return semgraph.Session(store="memory", journal=False, runs="", folder=folder)


def changed(path: Path, old: str, new: str) -> None:
    """Write a file anew, a second later."""
    before = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))


def test_nothing_is_loaded_twice(session):
    first = session.prepare("outer")
    assert session.prepare("outer") is first
    assert session.prepare("outer", use={"asked": "packed(rows=2)"}) is not first
    assert session.prepare("outer") is first


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("outer.yaml", "{from: people}", "{from: people}, {limit: {n: 1}}"),
        ("inner.yaml", "Ann", "Bob"),
        ("prompts/code.md", "Give", "Find"),
    ],
)
def test_a_file_that_changed_is_read_again(session, folder, file, old, new):
    first = session.prepare("outer")
    changed(folder / file, old, new)
    second = session.prepare("outer")
    assert [node.fingerprint for node in second.roots] != [node.fingerprint for node in first.roots]
    assert session.prepare("outer") is second


def test_a_file_that_is_found_earlier_than_another_counts(session, folder, monkeypatch):
    (folder / "plans").mkdir()
    (folder / "inner.yaml").rename(folder / "plans" / "inner.yaml")
    monkeypatch.chdir(folder)
    first = session.prepare("outer")
    (folder / "inner.yaml").write_text(INNER.replace("Ann", "Bob"), encoding="utf-8")
    assert (
        session.prepare("outer").steps["called/kept"].fingerprint
        != first.steps["called/kept"].fingerprint
    )


def test_what_is_wrong_is_told_each_time_until_it_is_mended(session, folder):
    changed(folder / "inner.yaml", "from: of", "from: off")
    for _ in range(2):
        with pytest.raises(PlanError, match="off"):
            session.prepare("outer")
    changed(folder / "inner.yaml", "from: off", "from: of")
    assert session.prepare("outer").name == "outer"


def test_a_deleted_file_is_missed(session, folder):
    session.prepare("outer")
    (folder / "prompts" / "code.md").unlink()
    with pytest.raises(PlanError, match="code"):
        session.prepare("outer")


def test_sessions_of_one_process_share_what_they_have_loaded(session, folder, tmp_path_factory):
    first = session.prepare("outer")
    assert semgraph.Session(store="memory", folder=folder).prepare("outer") is first
    elsewhere = semgraph.Session(store="memory", folder=tmp_path_factory.mktemp("elsewhere"))
    assert elsewhere.prepare(folder / "outer.yaml") is not first
    with pytest.raises(PlanError, match="outer"):
        elsewhere.prepare("outer")


def test_a_plan_that_appears_in_a_folder_of_the_session_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        (tmp_path / name).mkdir()
    semgraph.Session(store="memory", folder=tmp_path / "a").prepare("search_edges")
    second = semgraph.Session(store="memory", folder=tmp_path / "b")
    assert second.prepare("search_edges").name == "search_edges"
    (tmp_path / "b" / "search_edges.yaml").write_text(INNER, encoding="utf-8")
    assert second.prepare("search_edges").name == "inner"
    (tmp_path / "search_edges.yaml").write_text(INNER, encoding="utf-8")
    assert (
        semgraph.Session(store="memory", folder=tmp_path / "a").prepare("search_edges").name
        == "inner"
    )
