"""Inputs that need not be given: they have no rows; without those that must be there nothing
runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import semgraph
from semgraph.errors import PlanError

INNER = """
plan: inner
inputs: {of: {id: string}, kinds: {id: string, kind: string}}
optional: [kinds]
steps: {known: [{from: of}, {join: {other: kinds, alias: k, using: id, how: left}}, {project: {id, kind: k.kind}}]}
returns: [known]
"""
OUTER = """
plan: outer
inputs: {notes: {id: string, group_id: string}}
windows: {input: notes, partition: group_id, key: id}
steps: {called: [{call: {plan: inner, inputs: {of: notes}}}]}
returns: [called]
"""
NOTES = [{"id": "a", "group_id": "g"}, {"id": "b", "group_id": "g"}]


@pytest.fixture
def session(tmp_path: Path):
    (tmp_path / "inner.yaml").write_text(INNER)
    (tmp_path / "outer.yaml").write_text(OUTER)
    with semgraph.Session(store="memory", journal=False, runs="", folder=tmp_path) as found:
        yield found


def test_an_optional_input_may_be_given_or_not(session, tmp_path):
    inner = tmp_path / "inner.yaml"
    given = session.run(inner, of=[{"id": "a"}, {"id": "b"}], kinds=[{"id": "b", "kind": "old"}])
    assert given.tables["known"].to_pylist() == [
        {"id": "a", "kind": None},
        {"id": "b", "kind": "old"},
    ]
    without = session.run(inner, of=[{"id": "a"}])
    assert without.tables["known"].to_pylist() == [{"id": "a", "kind": None}]


def test_any_other_must_be_given(session, tmp_path):
    with pytest.raises(PlanError, match="plan inner needs the input of"):
        session.run(tmp_path / "inner.yaml", kinds=[{"id": "b", "kind": "old"}])


def test_a_calling_plan_may_leave_it_out_also_where_windows_are_cut(session, tmp_path):
    found = session.run(tmp_path / "outer.yaml", notes=NOTES)
    assert found.tables["called"].to_pylist() == [
        {"id": "a", "kind": None},
        {"id": "b", "kind": None},
    ]
    assert "called" in session.explain(tmp_path / "outer.yaml", inputs={"notes": NOTES})
    assert (
        session.explain(tmp_path / "outer.yaml", format="prompts", inputs={"notes": NOTES})
        is not None
    )
