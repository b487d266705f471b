"""`require`: rows that are not as they must be are set aside with what is said of them, or end the
run where they are no one's.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import semgraph
from semgraph.errors import InputError, PlanError
from semgraph.execution.record import Run
from semgraph.frontend.load import load_plan
from semgraph.render.html import page
from semgraph.render.outcome import outcome, run_page

PLAN = """
plan: notes
inputs:
  notes: {id: string, group_id: string, kind: string}
  kinds: {kind: string}
optional: [kinds]
{windows}
steps:
  sound:
    - from: notes
    - require: {where: length(kind) > 2, says: "concat(kind, ' is no kind')"}
  known:
    - from: kinds
    - require: {where: kind <> 'all', says: "'all is no kind of its own'"}
  found:
    - from: sound
    - join: {other: known, alias: k, using: kind, how: left}
returns: [found]
"""
WINDOWS = "windows: {input: notes, partition: group_id, key: id}"
NOTES = [
    {"id": "1", "group_id": "g", "kind": "mail"},
    {"id": "2", "group_id": "g", "kind": "x"},
    {"id": "3", "group_id": "h", "kind": "note"},
]


@pytest.fixture(params=[WINDOWS, ""], ids=["in windows", "at once"])
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "notes.yaml").write_text(PLAN.replace("{windows}", request.param))
    return tmp_path / "notes.yaml"


@pytest.fixture
def session(tmp_path: Path):
    with semgraph.Session(store="memory", journal=False, runs="", folder=tmp_path) as found:
        yield found


def test_a_row_that_is_wrong_is_set_aside_and_the_others_go_on(session, plan):
    found = session.run(plan, notes=NOTES)
    assert [row["id"] for row in found.tables["found"].to_pylist()] == ["1", "3"]
    assert [(f.step, f.error, f.row["id"]) for f in found.failed] == [
        ("sound", "x is no kind", "2")
    ]
    assert found.exit_code == 3


def test_a_wrong_row_of_no_member_ends_a_run_in_windows(session, tmp_path):
    (tmp_path / "cut.yaml").write_text(PLAN.replace("{windows}", WINDOWS))
    with pytest.raises(InputError, match="all is no kind of its own"):
        session.run(tmp_path / "cut.yaml", notes=NOTES, kinds=[{"kind": "mail"}, {"kind": "all"}])


def test_what_must_hold_is_a_condition_and_what_is_said_a_text(tmp_path):
    text = PLAN.replace("{windows}", "").replace("length(kind) > 2", "length(kind)")
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(PlanError, match="expected boolean"):
        load_plan(tmp_path / "bad.yaml")


def test_it_stands_in_the_plan_as_it_is_explained(session, plan):
    assert "require_{length(kind) > 2}" in session.explain(plan, format="algebra")


COUNTING = PLAN.replace("is no kind')\"}", "is no kind')\", fails: false}", 1)


def counting(tmp_path: Path, windows: str) -> Path:
    """The plan of this file with a first requirement that counts rows, and a second one over them."""
    text = COUNTING.replace("{windows}", windows).replace(
        "returns: [found]",
        "    - require: {where: id <> '2', says: \"'two'\"}\nreturns: [found]",
    )
    (tmp_path / "counting.yaml").write_text(text)
    return tmp_path / "counting.yaml"


@pytest.mark.parametrize("windows", [WINDOWS, ""], ids=["in windows", "at once"])
def test_rows_that_are_counted_stay_and_count_once_if_a_row_is_set_aside_later(
    session, tmp_path, windows
):
    notes = [*NOTES, {"id": "4", "group_id": "g", "kind": "x"}]
    found = session.run(counting(tmp_path, windows), notes=notes)
    assert [row["id"] for row in found.tables["found"].to_pylist()] == ["1", "3", "4"]
    assert found.meter.counts == {"sound": {"x is no kind": 2}}
    assert [f.error for f in found.failed] == ["two"]


def test_counts_are_in_the_record_the_result_the_report_and_the_output(tmp_path):
    with semgraph.Session(store="memory", journal=False, runs=tmp_path / "runs") as session:
        found = session.run(counting(tmp_path, WINDOWS), notes=NOTES)
        plan = load_plan(counting(tmp_path, WINDOWS))
    counts = {"sound": {"x is no kind": 1}}
    assert found.record is not None
    assert json.loads((found.record / "metrics.json").read_text())["counts"] == counts
    assert found.to_json()["metrics"]["counts"] == counts
    assert "<dt>x is no kind" in page([Run(found.record)])
    assert "  x is no kind: 1 row of sound" in list(outcome(found, plan, 100, 0.0))
    assert "  x is no kind: 1 row of sound" in list(run_page(Run(found.record), 100))


def test_a_requirement_that_counts_says_so_where_it_is_explained(session, tmp_path):
    shown = session.explain(counting(tmp_path, ""), format="algebra")
    assert "count_{concat(kind, ' is no kind')}" in shown
