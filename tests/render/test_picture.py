"""The picture of a graph: what is drawn, and how it gives way in a narrow terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from semgraph.errors import Fault, each
from semgraph.frontend.graph_files import graph_of
from semgraph.render.picture import Picture, complete, lines, pictures

GRAPH = graph_of(
    {
        "graph": "people",
        "nodes": {"Person": {"properties": {"name": "string"}}},
        "edges": {
            "KNOWS": {
                "source": "Person",
                "target": "Person",
                "properties": {
                    "name": "string", "says": "string", "since": "timestamp", "until": "timestamp", "notes": "list<string>",
                },
            }
        },
        "draw": {"node": "name", "edge": "name", "text": "says", "from": "since", "to": "until", "sources": "notes"},
    }
)  # fmt: skip
DAY = datetime(2025, 1, 15, 9, tzinfo=UTC)


def person(key: str, name: str, group: str = "demo") -> dict[str, Any]:
    return {"uuid": key, "group_id": group, "name": name}


def tie(
    key: str, source: str, target: str, name: str, says: str = "", **more: Any
) -> dict[str, Any]:
    row = {
        "uuid": key,
        "group_id": "demo",
        "source": source,
        "target": target,
        "name": name,
        "says": says,
    }
    return row | {"since": None, "until": None, "notes": None} | more


def unlabelled(tables: dict[str, pa.Table]) -> list[tuple[str, pa.Table]]:
    return [("", table) for table in tables.values()]


def drawn(
    people: list[dict[str, Any]],
    ties: list[dict[str, Any]],
    width: int = 100,
    members: dict[str, int] | None = None,
) -> str:
    tables = {"people": pa.Table.from_pylist(people)}
    if ties:
        schema = pa.schema([
            *((name, pa.string()) for name in ("uuid", "group_id", "source", "target", "name", "says")),
            ("since", pa.timestamp("us", "UTC")), ("until", pa.timestamp("us", "UTC")), ("notes", pa.list_(pa.string())),
        ])  # fmt: skip
        tables["ties"] = pa.Table.from_pylist(ties, schema=schema)
    return (
        "\n".join(
            line
            for p in pictures(unlabelled(tables), GRAPH)
            for line in lines(p, GRAPH, width, members)
        )
        + "\n"
    )


PEOPLE = [
    person("a", "Alice Chen"),
    person("t", "TechCorp"),
    person("p", "Project Phoenix"),
    person("z", "Zoë"),
]
TIES = [
    tie("1", "a", "t", "WORKS_AT", "Alice Chen works at TechCorp.", since=DAY, notes=["n1"]),
    tie(
        "2",
        "p",
        "a",
        "LED_BY",
        "Alice leads Project Phoenix, a migration.",
        since=DAY,
        until=DAY,
        notes=["n2", "n3"],
    ),
    tie("3", "a", "p", "", ""),
]


def test_the_whole_picture() -> None:
    assert (
        drawn(PEOPLE, TIES, 100, {"n1": 1, "n2": 2, "n3": 3})
        == """\
group "demo", this run: 4 nodes, 3 edges         holds                    from
  Alice Chen      ─ WORKS_AT ─▶ TechCorp         2025-01-15 →             1
                  "Alice Chen works at TechCorp."
                  ────────────▶ Project Phoenix
  Project Phoenix ─ LED_BY ───▶ Alice Chen       2025-01-15 → 2025-01-15  2, 3
                  "Alice leads Project Phoenix, a migration."
  without an edge: Zoë
"""
    )


def test_columns_fall_away_from_the_right_and_the_last_line_says_so() -> None:
    assert drawn(PEOPLE[:3], TIES[:2], 70, {"n1": 1, "n2": 2}).splitlines()[-1] == (
        "  … 1 more column in a wider terminal: from"
    )
    narrow = drawn(PEOPLE[:3], TIES[:2], 50, {"n1": 1, "n2": 2}).splitlines()
    assert narrow[-1] == "  … 2 more columns in a wider terminal: holds, from"
    assert narrow[4] == '                  "Alice leads Project Phoenix, …"'
    assert max(map(len, narrow[:-1])) <= 50


def test_wide_letters_take_two_places() -> None:
    picture = drawn(
        [person("a", "東京"), person("b", "Bo")],
        [tie("1", "a", "b", "NEAR"), tie("2", "b", "a", "NEAR")],
    )
    assert "  東京 ─ NEAR ─▶ Bo\n  Bo   ─ NEAR ─▶ 東京\n" in picture


def test_a_partition_has_a_picture_of_its_own() -> None:
    picture = drawn([person("a", "Ann", "one"), person("b", "Bo", "two")], [])
    assert picture.splitlines() == [
        'group "one", this run: 1 node', "  Ann", 'group "two", this run: 1 node', "  Bo",
    ]  # fmt: skip


def test_later_rows_of_an_edge_add_to_it() -> None:
    first = tie("1", "a", "t", "WORKS_AT", "Alice works.", since=DAY, notes=["n1"])
    ended = tie("1", "a", "t", "WORKS_AT", "", until=DAY, notes=["n2"])
    line = drawn(PEOPLE[:2], [first, ended], 100, {"n1": 1, "n2": 2}).splitlines()[1]
    assert line.endswith("2025-01-15 → 2025-01-15  1, 2")


def test_an_end_that_no_table_names_is_shown_by_its_key() -> None:
    assert "─▶ 0123abcd" in drawn([person("a", "Ann")], [tie("1", "a", "0123abcd-4567", "KNOWS")])


def test_a_name_cannot_move_the_cursor_or_break_the_line() -> None:
    assert drawn([person("a", "Ann\x1b[2J\nBo")], []).splitlines()[1] == "  Ann\\x1b[2J Bo"


def test_of_many_edges_forty_are_drawn() -> None:
    ties = [tie(str(i), "a", "t", f"E{i}") for i in range(45)]
    assert drawn(PEOPLE[:2], ties).splitlines()[-1] == "  … 5 more edges"


def test_nodes_without_a_name_are_listed_by_key_only_where_nothing_else_is_drawn() -> None:
    bare = ("Note", {"uuid": "0123456789", "at": "May"})
    assert [*lines(labelled(bare), LABELLED, 80)] == ['group "g", this run: 1 Note', "  01234567"]
    named = labelled(bare, ("Person", {"uuid": "a", "name": "Ann"}))
    assert [*lines(named, LABELLED, 80)] == [
        'group "g", this run: 1 Person', "  Ann", "  not drawn: 1 Note",
    ]  # fmt: skip


def test_tables_that_hold_nothing_of_the_graph_draw_nothing() -> None:
    assert pictures(unlabelled({"counts": pa.table({"n": [1]})}), GRAPH) == []


def test_nodes_alone_are_listed() -> None:
    alone = graph_of(
        {"nodes": {"Person": {"properties": {"name": "string"}}}, "draw": {"node": "name"}}
    )
    (picture,) = pictures(unlabelled({"people": pa.Table.from_pylist(PEOPLE[:2])}), alone)
    assert list(lines(picture, alone, 80)) == [
        'group "demo", this run: 2 nodes',
        "  Alice Chen, TechCorp",
    ]


LABELLED = graph_of(
    {
        "nodes": {
            "Person": {"properties": {"name": "string"}},
            "Note": {"properties": {"text": "string", "at": "string"}, "draw": {"node": "text"}},
        },
        "edges": {
            "KNOWS": {"source": "Person", "target": "Person", "properties": {"how": "string"}, "draw": {"edge": "how"}},
            "NAMES": {"source": "Note", "target": "Person"},
        },
        "draw": {"node": "name"},
    }
)  # fmt: skip


def labelled(*tables: tuple[str, dict[str, Any]]) -> Picture:
    (picture,) = pictures(
        [(label, pa.Table.from_pylist([{"group_id": "g"} | row])) for label, row in tables],
        LABELLED,
    )
    return picture


def test_each_label_is_drawn_by_its_own_property() -> None:
    picture = labelled(
        ("Note", {"uuid": "n", "text": "Ann met Bo.", "at": "May"}),
        ("Person", {"uuid": "a", "name": "Ann"}),
        ("KNOWS", {"uuid": "k", "source": "a", "target": "b", "how": "from school"}),
    )
    note, ann = picture.nodes["n"], picture.nodes["a"]
    assert (note.name, note.label, note.facts) == ("Ann met Bo.", "Note", {"at": "May"})
    assert (ann.name, ann.label) == ("Ann", "Person")
    assert (picture.edges["k"].name, picture.edges["k"].label) == ("from school", "KNOWS")


def test_an_edge_without_a_text_is_drawn_between_nodes_of_the_picture_and_counted() -> None:
    names = {"uuid": "e", "source": "n", "target": "a"}
    ends = (("Note", {"uuid": "n", "text": "Ann."}), ("Person", {"uuid": "a", "name": "Ann"}))
    both = labelled(("NAMES", names), *ends)
    assert both.edges["e"].name == "NAMES"
    assert both.counts() == "1 Note, 1 Person, 1 NAMES"
    one = labelled(("NAMES", names), ends[0])
    assert (one.counts(), list(one.loose)) == ("1 Note, 1 NAMES", ["e"])
    assert list(lines(one, LABELLED, 80)) == [
        'group "g", this run: 1 Note',
        "  Ann.",
        "  not drawn: 1 NAMES",
    ]


def test_a_changed_edge_of_an_earlier_run_is_no_node() -> None:
    picture = labelled(
        ("Person", {"uuid": "a", "name": "Ann"}), ("KNOWS", {"uuid": "k", "how": "well"})
    )
    assert picture.counts() == "1 Person, 1 KNOWS"
    assert list(picture.loose) == ["k"]


def test_a_label_can_only_draw_a_property_that_it_has() -> None:
    with pytest.raises(Fault, match='no node has a property "nmae"') as caught:
        graph_of(
            {"nodes": {"Person": {"properties": {"name": "string"}, "draw": {"node": "nmae"}}}}
        )
    [fault] = each(caught.value)
    assert fault.path == ("nodes", "Person", "draw", "node")


def test_what_a_graph_draws_does_not_change_what_it_is() -> None:
    plain = graph_of({"nodes": {"Person": {"properties": {"name": "string"}}}})
    drawing = graph_of(
        {"nodes": {"Person": {"properties": {"name": "string"}, "draw": {"node": "name"}}}}
    )
    assert plain == drawing
    assert plain.canonical_text == drawing.canonical_text


def test_a_stored_node_of_which_no_name_was_written_has_the_name_that_the_run_returned() -> None:
    written = [
        ("Person", pa.Table.from_pylist([{"uuid": "123456789", "group_id": "demo", "age": 7}]))
    ]
    found = pictures(written, GRAPH)
    assert found[0].name("123456789") == "12345678"
    other = pa.Table.from_pylist([person("123456789", "Bob", "other")])
    complete(found, [("", other)], GRAPH)
    assert found[0].name("123456789") == "12345678"
    complete(found, [("", pa.Table.from_pylist([person("123456789", "Ada")]))], GRAPH)
    assert found[0].name("123456789") == "Ada"


def test_background_labels_take_their_edges_along() -> None:
    graph = graph_of(
        {
            "nodes": {
                "Note": {"properties": {"text": "string"}, "draw": {"node": "text", "background": True}},
                "Person": {"properties": {"name": "string"}, "open": ["labels"]},
            },
            "edges": {
                "NAMES": {"source": "Note", "target": "Person"},
                "KNOWS": {"source": "Person", "target": "Person"},
            },
            "draw": {"node": "name"},
        }
    )  # fmt: skip
    ada = person("a", "Ada") | {"labels": ["Person", "Singer"]}
    ends = {"uuid": "t", "group_id": "demo", "source": "a", "target": "a"}
    rows = {"Note": {"uuid": "n", "group_id": "demo", "text": "Ada sings."}, "Person": ada, "KNOWS": ends,
            "NAMES": ends | {"uuid": "m", "source": "n"}}  # fmt: skip
    tables = [(label, pa.Table.from_pylist([row])) for label, row in rows.items()]
    (picture,) = pictures(tables, graph)
    assert {key: (n.name, n.label, n.background) for key, n in picture.nodes.items()} == {
        "n": ("Ada sings.", "Note", True),
        "a": ("Ada", "Singer", False),
    }
    assert {key: edge.background for key, edge in picture.edges.items()} == {"t": False, "m": True}


def test_a_graph_as_a_whole_is_no_background() -> None:
    with pytest.raises(Fault) as raised:
        graph_of(
            {"nodes": {"Note": {"properties": {"text": "string"}}}, "draw": {"background": True}}
        )
    assert 'draw has no "background"' in str(next(iter(each(raised.value))))


def test_a_fact_that_a_run_ends_is_drawn_with_its_end() -> None:
    end = pa.Table.from_pylist([{"uuid": "1", "group_id": "demo", "until": DAY}])
    new = pa.Table.from_pylist([tie("1", "a", "t", "WORKS_AT", "Alice works.", since=DAY)])
    same_run = pictures([("KNOWS", new.drop_columns(["until", "notes"])), ("KNOWS", end)], GRAPH)
    assert same_run[0].edges["1"].holds == "2025-01-15 → 2025-01-15"
    stored = pictures([("KNOWS", end)], GRAPH)
    whole = tie("1", "a", "0123abcd-4567", "WORKS_AT", "Alice works.", since=DAY, until=DAY)
    returned = [pa.Table.from_pylist([person("a", "Alice")]), pa.Table.from_pylist([whole])]
    complete(stored, [("", table) for table in returned], GRAPH)
    assert [*lines(stored[0], GRAPH, 100)][
        1
    ] == "  Alice ─ WORKS_AT ─▶ 0123abcd   2025-01-15 → 2025-01-15"
