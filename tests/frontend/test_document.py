"""YAML as plain data: 1.2, positions, and the text that is written back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from semgraph.errors import Position
from semgraph.frontend.document import parse
from semgraph.frontend.dump import write_yaml
from semgraph.frontend.kinds import holds
from semgraph.logical.plan import match_steps
from tests.examples import examples


def test_words_are_words_and_dates_are_text():
    text = "on: yes\noff: 'no'\nday: 2025-01-15\ntime: 12:30\noctal: 012\nhex: 0x1F\nn: -1_000\nx: 1e-3\nt: True\nnothing:\n1: one"
    assert parse(text, "x").data == {
        "on": "yes",
        "off": "no",
        "day": "2025-01-15",
        "time": "12:30",
        "octal": 12,
        "hex": 31,
        "n": -1000,
        "x": 0.001,
        "t": True,
        "nothing": None,
        "1": "one",
    }


def test_columns_without_expression_are_keys_without_value():
    assert parse("{uuid, name: m.name, at}", "x").data == {
        "uuid": None,
        "name": "m.name",
        "at": None,
    }


def test_every_key_and_value_has_its_place():
    document = parse("a: 1\nsteps:\n  one:\n    - filter: x > 1\n    - limit: {n: 3}\n", "p.yaml")
    assert document.position("steps", "one", 1, "limit", "n") == Position("p.yaml", 5, 18)
    assert document.position("steps", "one", 1, "limit", "n", key=True) == Position("p.yaml", 5, 15)
    assert document.position("steps", "one", 0, "filter", "inside", 3) == Position("p.yaml", 4, 15)
    assert document.position() == Position("p.yaml", 1, 1)


def test_a_byte_order_mark_is_no_text(tmp_path):
    from semgraph.frontend.document import read_file

    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfplan: x\n")
    assert read_file(tmp_path / "bom.yaml").data == {"plan": "x"}


WORDS = st.sampled_from(
    [
        *(
            "null",
            "true",
            "1",
            "1e3",
            "~",
            "0x1f",
            "012",
            "2025-01-01",
            "=",
            "<<",
            "yes",
            "{a}",
            "[",
            ".inf",
        ),
        *("&a", "*a", "%", "@", "`", "$x", "(a)", "'", '"'),
        *(
            "",
            " ",
            "  a ",
            "a: b",
            "a #b",
            "- x",
            "? x",
            "! x",
            "a, b",
            "a\n",
            "\n",
            "a\nb",
            "\u2028",
            "\x7f",
        ),
    ]
)
TEXTS = WORDS | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=150
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=15,
)


@settings(max_examples=examples(100, 300), deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["plan", "steps", "inputs", "writes", "example", "x"]), PLAIN, min_size=1
    )
)
def test_every_sentence_is_parsed_back(data):
    assert parse(write_yaml(data), "x").data == data


def test_plans_are_written_as_people_write_them():
    data = {
        "plan": "x",
        "inputs": {"t": {"id": "string", "at": "timestamp null"}},
        "steps": {
            "a": [{"from": "t"}, {"project": {"id": None, "n": "length(id)"}}],
            "b": {"if": "$flag", "do": [{"from": "a"}]},
        },
        "writes": [{"merge": {"from": "a", "node": "Book"}}],
        "returns": ["a"],
    }
    assert write_yaml(data) == (
        "plan: x\n"
        "inputs:\n"
        "  t: {id: string, at: timestamp null}\n"
        "steps:\n"
        "  a:\n"
        "    - from: t\n"
        "    - project: {id, n: length(id)}\n"
        "  b:\n"
        "    if: $flag\n"
        "    do:\n"
        "      - from: a\n"
        "writes:\n"
        "  - merge: {from: a, node: Book}\n"
        "returns: [a]\n"
    )


def test_conditions():
    params = {"flag": True, "none": None, "way": "short", "empty": []}
    assert holds("$flag", params)
    assert not holds("$none", params)
    assert not holds("$empty", params)
    assert holds({"$way": "short", "$flag": True}, params)
    assert holds({"$way": ["long", "short"]}, params)
    assert not holds({"$way": "long"}, params)


def test_steps_named_in_use():
    assert match_steps("told", ["told", "a/told"]) == ["told"]
    assert match_steps("told", ["a/told", "b/c/told", "retold"]) == ["a/told", "b/c/told"]
    assert match_steps("a/told", ["a/told", "b/told"]) == ["a/told"]
