"""Conjuncts as stores read them: what is taken, what the rows alone decide, and which ends of an
edge are known.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from semgraph.expr import parse_scalar, parse_type
from semgraph.stores import conditions as conjunct
from semgraph.stores import conditions as pins
from semgraph.stores.conditions import Prop, Value, cast_values, evaluate, read, values_of
from semgraph.stores.neo4j.search import MOST_CLAUSES, lucene_queries


def term(text, alias="hit"):
    return read(parse_scalar(text), alias)


@pytest.mark.parametrize(
    "text",
    [
        "hit.at > $now",
        "lower(hit.name) = name",
        "hit.at::date = day",
        "hit.a.b = 1",
        "len(hit.tags) > 1",
        "hit.name LIKE 'a%'",
        "hit.weight + 1 > 2",
        "count(*) > 1",
        "row_number() OVER () = 1",
    ],
)
def test_conditions_beyond_comparisons_are_not_pushed_down(text):
    assert term(text) is None


def test_an_expression_without_properties_is_one_value():
    name = Prop("hit", "name")
    assert term("hit.name = key(cand.name || '!')") == conjunct.Test(
        "=", (name, Value('key("cand"."name" || \'!\')', ("cand.name",)))
    )
    assert term("everything OR hit.name = 'x'").args[0] == Value('"everything"', ("everything",))
    assert term("len([x.n FOR x IN items IF x.n > y]) > 3").columns == ("items", "y")
    assert term("TRUE") == Value("TRUE", ())


def test_names_refer_to_the_hit_or_to_the_rows():
    assert term("name = 'x'", "") == conjunct.Test("=", (Prop("", "name"), Value("'x'", ())))
    assert term("a.name = b.name", None) == conjunct.Test(
        "=", (Prop("a", "name"), Prop("b", "name"))
    )
    assert term("a.name = hit.name") == conjunct.Test(
        "=", (Value('"a"."name"', ("a.name",)), Prop("hit", "name"))
    )


def test_equivalent_conditions_read_alike():
    assert term("hit.n BETWEEN 1 AND 2") == term("hit.n >= 1 AND hit.n <= 2")
    assert term("hit.n IS NOT NULL") == conjunct.Test(
        "not", (conjunct.Test("is null", (Prop("hit", "n"),)),)
    )
    assert term("hit.n IS DISTINCT FROM m") == conjunct.Test(
        "not", (term("hit.n IS NOT DISTINCT FROM m"),)
    )
    assert term("hit.name IN names") == term("list_contains(names, hit.name)")
    either = term("list_sort([hit.target, hit.source]) = list_sort([a, b])")
    assert either.op == "pair"
    assert term("list_sort([hit.x, hit.y]) = list_sort([a, b])") is None


def test_values_are_what_duckdb_says():
    rows = pa.table({"c": pa.array([{"n": " A  b"}, None]), "n": [1, 2]})
    values = [
        Value('key("c"."n")', ("c.n",)),
        Value("0.6", ()),
        Value('"n" + 1', ("n",)),
        Value('"c"."n"', ("c.n",)),
    ]
    found = [array.to_pylist() for array in evaluate(values, rows)]
    assert found == [["a b", None], [0.6, 0.6], [2, 3], [" A  b", None]]
    assert evaluate(values[3:], rows)[0].to_pylist() == found[3]
    assert evaluate([], rows) == []


def test_text_compared_with_a_time_is_cast_to_one():
    kinds = {"at": parse_type("timestamp"), "name": parse_type("string")}
    cast, _ = cast_values(
        term("hit.at <= '2025-01-31' AND hit.name <= '2025-01-31'"), lambda prop: kinds[prop.name]
    )
    assert [value.sql for value in values_of([cast])] == [
        "CAST('2025-01-31' AS TIMESTAMPTZ)",
        "'2025-01-31'",
    ]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("hit.source = a", [("a", None)]),
        ("a = hit.source AND hit.target IN (b, c)", [("a", "b"), ("a", "c")]),
        ("list_sort([hit.source, hit.target]) = list_sort([a, b])", [("a", "b"), ("b", "a")]),
        (
            "(hit.source = a AND hit.target = b) OR (hit.target = a AND hit.source = b)",
            [("a", "b"), ("b", "a")],
        ),
        ("hit.source = a OR hit.target = a", [("a", None), (None, "a")]),
        ("hit.source = a OR hit.fact = b", []),
        ("hit.source <> a", []),
        ("NOT hit.source = a", []),
        ("hit.source = hit.target", []),
    ],
)
def test_which_ends_are_known(text, known):
    found = pins.ends([term(text)])
    assert [tuple(end and end.columns[0] for end in pair) for pair in found] == known


def test_known_keys():
    assert pins.by_key([term("hit.uuid = a"), term("hit.fact = b")], "uuid")
    assert pins.by_key([term("hit.uuid IN ('x', a)")], "uuid")
    assert not pins.by_key([term("hit.uuid = a OR hit.fact = b")], "uuid")
    assert not pins.by_key([term("hit.uuid > a")], "uuid")


def test_many_words_become_several_queries_none_of_which_is_too_large():
    words = " ".join(f"w{i}" for i in range(2500))
    found = lucene_queries(words, ["name", "summary"], "group_id", ["g-1"])
    assert len(found) == 5
    assert all(query.startswith('+(group_id:"g-1"^0) +(') for query in found)
    assert all(query.count('"w') <= MOST_CLAUSES for query in found)
    assert sum(query.count('"w') for query in found) == 5000


@pytest.mark.parametrize(
    "values", [None, [], ["", "g"], ["g h"], ["ärger"], [f"g{i}" for i in range(50)]]
)
def test_partitions_that_do_not_go_into_a_query_are_left_to_the_test_after_it(values):
    [query] = lucene_queries("heron", ["name"], "group_id", values)
    assert query.startswith('+(name:"heron" name:')


def test_a_text_cannot_leave_its_quotes():
    text = 'a" OR uuid:* OR "b\\" c\\\\" name:x~2 *:* [a TO z] (d) AND NOT /e/ f* ?g ^9 {h}'
    [query] = lucene_queries(text, ["name"], "", None)
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "Q", query)
    assert set(bare.removeprefix("+(").removesuffix(")").split()) == {"name:Q"}
