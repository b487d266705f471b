"""The difference between two states of a graph, and its plain data."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from semgraph.diff import Change, Diff, Rows
from semgraph.expr.types import python_rows
from semgraph.frontend.graph_files import graph_of
from semgraph.logical.schema import Draw

GRAPH = graph_of(
    {
        "key": "uuid",
        "partition": "group",
        "common": {"created_at": "timestamp"},
        "nodes": {
            "Note": {"draw": {"node": "content"}, "properties": {"source": "string", "content": "string"}},
            "Person": {
                "open": ["labels", "attributes"],
                "properties": {"name": "string", "summary": "string", "score": "double"},
                "derived": {"name_key": "key(name)", "vector": {"embed": "name"}},
            },
        },
        "edges": {
            "TIE": {
                "source": "Person",
                "target": "Person",
                "properties": {"name": "string", "fact": "string", "notes": "list<string>",
                               "since": "timestamp", "until": "timestamp"},
            },
            "NAMES": {"source": "Note", "target": "Person"},
        },
        "draw": {"node": "name", "edge": "name", "text": "fact", "from": "since", "to": "until"},
    }
)  # fmt: skip
DAY = datetime(2025, 1, 15, tzinfo=UTC)


def state(**rows: list[dict[str, Any]]) -> Rows:
    """Rows by label and key as a store gives them."""
    made = {}
    for name, own in rows.items():
        label = GRAPH.labels[name]
        schema = pa.schema([(prop, kind.arrow) for prop, kind in label.columns.items()])
        table = pa.Table.from_pylist([{"group": "g", **row} for row in own], schema=schema)
        made[name] = {row["uuid"]: row for row in python_rows(table)}
    return made


ANN = {"uuid": "a", "name": "Ann", "summary": "Lives in Riga.", "score": 0.5}
BEN = {"uuid": "b", "name": "Ben"}
TIE = {
    "uuid": "t",
    "source": "a",
    "target": "b",
    "name": "KNOWS",
    "fact": "Ann knows Ben.",
    "since": DAY,
}


def only(diff: Diff) -> Change:
    (change,) = diff.changes
    return change


def test_equal_states_have_no_difference() -> None:
    one = state(Person=[ANN, BEN], TIE=[TIE])
    other = state(Person=[BEN, ANN], TIE=[TIE])
    assert Diff.between(one, other, GRAPH).changes == ()
    assert Diff.between({}, {}, GRAPH).changes == ()
    assert Diff.between(state(Person=[]), {}, GRAPH).changes == ()


def test_a_new_row_has_its_properties_without_key_partition_and_nulls() -> None:
    found = Diff.between(state(Person=[ANN]), state(Person=[ANN, BEN]), GRAPH)
    assert only(found) == Change("+", "Person", "b", "g", {"name": "Ben"})


def test_a_row_that_is_gone_is_as_it_was() -> None:
    found = Diff.between(state(Person=[ANN, BEN]), state(Person=[BEN]), GRAPH)
    assert only(found).sign == "-"
    assert only(found).row == {"name": "Ann", "summary": "Lives in Riga.", "score": 0.5}


def test_a_changed_row_has_the_old_and_new_values_of_what_differs() -> None:
    moved = {**ANN, "summary": "Lives in Oslo.", "score": None, "attributes": '{"age": 7}'}
    change = only(Diff.between(state(Person=[BEN, ANN]), state(Person=[moved, BEN]), GRAPH))
    assert (change.sign, change.key) == ("~", "a")
    assert change.row == {"name": "Ann", "summary": "Lives in Oslo.", "attributes": '{"age": 7}'}
    assert change.before == {"summary": "Lives in Riga.", "score": 0.5, "attributes": None}
    assert change.after == {"summary": "Lives in Oslo.", "score": None, "attributes": '{"age": 7}'}


@pytest.mark.parametrize(
    ("prop", "one", "other"),
    [
        ("created_at", DAY, DAY + timedelta(days=1)),
        ("attributes", '{"a":1,"b":2}', '{"b": 2, "a": 1}'),
        ("labels", ["Old", "Tall"], ["Tall", "Old"]),
        ("name_key", "ann", "other"),
    ],
)
def test_differences_without_a_meaning_do_not_count(prop: str, one: Any, other: Any) -> None:
    found = [state(Person=[{**ANN, prop: value}]) for value in (one, other)]
    assert Diff.between(found[0], found[1], GRAPH).changes == ()


@pytest.mark.parametrize(
    ("prop", "one", "other"),
    [
        ("notes", ["n1"], ["n1", "n2"]),
        ("notes", None, ["n1"]),
        ("since", DAY, DAY + timedelta(seconds=1)),
        ("until", None, DAY),
        ("target", "a", "b"),
        ("fact", "x", None),
    ],
)
def test_values_of_every_type_are_compared(prop: str, one: Any, other: Any) -> None:
    found = [state(TIE=[{**TIE, prop: value}]) for value in (one, other)]
    change = only(Diff.between(found[0], found[1], GRAPH))
    assert (change.before, change.after) == ({prop: one}, {prop: other})


def test_a_column_that_a_state_lacks_is_null() -> None:
    narrow = {"a": {"uuid": "a", "group": "g"}}
    change = only(Diff.between({"Person": narrow}, state(Person=[ANN]), GRAPH))
    assert change.before == {"name": None, "summary": None, "score": None}


def test_rows_of_different_labels_with_one_key_are_different_rows() -> None:
    note = {"uuid": "a", "content": "Hello", "source": "message"}
    found = Diff.between(state(Person=[ANN]), state(Note=[note], Person=[ANN]), GRAPH)
    assert (only(found).label, only(found).ends) == ("Note", None)


def test_an_edge_names_its_ends_from_both_states() -> None:
    note = {"uuid": "n", "content": "Hello\nAnn"}
    before = state(Person=[ANN, BEN], TIE=[TIE])
    names = {"uuid": "m", "source": "n", "target": "a"}
    after = state(Person=[{**ANN, "name": "Anna"}], Note=[note], NAMES=[names])
    found = Diff.between(before, after, GRAPH)
    assert found.names == {"a": "Anna", "b": "Ben", "n": "Hello Ann"}
    assert [c.ends for c in found.changes if c.label in {"TIE", "NAMES"}] == [
        ("a", "b"),
        ("n", "a"),
    ]
    assert found.counts == {"new": 2, "gone": 2, "changed": 1, "nodes": 3, "edges": 2}
    assert found.draws["TIE"] == Draw("name", "name", "fact", "since", "until")
    assert found.draws["Note"] == Draw(node="content")


def test_an_edge_that_moved_names_its_old_end() -> None:
    before, after = (state(Person=[ANN, BEN], TIE=[{**TIE, "target": t}]) for t in "ab")
    assert Diff.between(before, after, GRAPH).names == {"a": "Ann", "b": "Ben"}


def test_the_ends_of_edited_edges_are_named_too() -> None:
    edited = Change("-", "TIE", "t", "g", {"source": "a", "target": "b"})
    found = Diff.between(state(Person=[ANN, BEN]), state(Person=[ANN, BEN]), GRAPH, [edited])
    assert (found.changes, found.edited) == ((), (edited,))
    assert found.names == {"a": "Ann", "b": "Ben"}


def test_plain_data_and_back() -> None:
    later = {**TIE, "until": DAY}
    found = Diff.between(state(TIE=[TIE]), state(TIE=[later], Person=[ANN]), GRAPH)
    data = json.loads(json.dumps(found.as_dict()))
    assert data["counts"] == {"new": 1, "gone": 0, "changed": 1, "nodes": 1, "edges": 1}
    assert data["changes"][1]["after"] == {"until": "2025-01-15T00:00:00Z"}
    again = Diff.from_dict(data)
    assert again.as_dict() == data
    assert again.changes[0] == found.changes[0]


def test_fifty_thousand_rows_are_compared_in_seconds() -> None:
    rows = [{**TIE, "uuid": f"t{i}", "notes": [f"n{i}"], "since": DAY + timedelta(days=i % 99)}
            for i in range(50_000)]  # fmt: skip
    one, other = state(TIE=rows), state(TIE=[*rows[1:], {**rows[0], "notes": ["x"]}])
    began = time.process_time()
    found = Diff.between(one, other, GRAPH)
    assert time.process_time() - began < 3
    assert only(found).before == {"notes": ["n0"]}
