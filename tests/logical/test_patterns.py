"""The patterns that `match` reads."""

from __future__ import annotations

import pytest

from semgraph.errors import Fault
from semgraph.logical.graph import PatternPath, parse_pattern


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("(a:Person {uuid: uuid})-[r:KNOWS]-(b:Person)", None),
        (
            "( a {uuid: old.uuid} ) <-[ :KNOWS | NAMES * 1 .. 3 ]- ( )",
            "(a {uuid: old.uuid})<-[:KNOWS|NAMES*1..3]-()",
        ),
        ("(a)-[way:KNOWS*..2]->(b)", "(a)-[way:KNOWS*1..2]->(b)"),
        ("(a)-[way:KNOWS*2]-(b)", "(a)-[way:KNOWS*2..2]-(b)"),
        ("(a)-[way:KNOWS|KNOWS*2]-(b)", "(a)-[way:KNOWS*2..2]-(b)"),
        ("({uuid: who})-[way:KNOWS*0..1]->(b:Person)<-[r:KNOWS]-(c:Person {name: name})", None),
    ],
)
def test_a_pattern_is_written_as_it_was_read(written, read):
    assert str(parse_pattern(written)) == (read or written)
    assert parse_pattern(read or written) == parse_pattern(written)


def test_a_trail_is_between_two_nodes():
    pattern = parse_pattern("(a {uuid: who})-[way:KNOWS|NAMES*1..3]->(b:Person)")
    assert pattern.variable_path == PatternPath("way", ("KNOWS", "NAMES"), "out", 1, 3)
    assert [element.var for element in pattern.fixed] == ["a", "b"]
    assert pattern.columns == ("who",)


def test_a_path_goes_on_behind_a_trail():
    pattern = parse_pattern(
        "({uuid: who})-[way:KNOWS*0..1]->(b:Person)-[r:NAMES {uuid: edge}]-(c:Note)"
    )
    assert pattern.variable_path == PatternPath("way", ("KNOWS",), "out", 0, 1)
    assert [element.var for element in pattern.fixed] == ["", "b", "r", "c"]
    assert pattern.columns == ("who", "edge")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(a)-[w:KNOWS*]->(b)", '"*" is not a length'),
        ("(a)-[w:KNOWS*2..]->(b)", '"*2.." is not a length'),
        ("(a)-[w:KNOWS*0..-1]->(b)", '"*0..-1" is not a length'),
        ("(a)-[w:KNOWS*3..2]->(b)", '"*3..2" is not a length'),
        ("(a)-[w:KNOWS*2 {uuid: x}]->(b)", "a variable-length path has no properties"),
        (
            "(a:Person)-[:KNOWS]->(b:Person)-[w:KNOWS*2]->(c:Person)",
            "only the first edge may have a variable length",
        ),
        ("(a)-[w:KNOWS*2]->(b)-[:KNOWS]->(c:Person)", "cannot read"),
        ("(a)-[w:KNOWS*2]->(b:Person)-[:KNOWS]->(c)", "cannot read"),
        ("(a:Person)-[w:KNOWS|NAMES]->(b:Person)", "an edge has one type"),
        ("(a)-[w:KNOWS]->(b:Person)", "cannot read"),
        ("(a)-[a:KNOWS*2]->(b:Person)", "a variable is used twice"),
    ],
)
def test_what_is_no_pattern_is_refused(text, said):
    with pytest.raises(Fault) as caught:
        parse_pattern(text)
    assert said in caught.value.what
    assert caught.value.hint
