"""How the implementation of a step is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semgraph.errors import Fault
from semgraph.frontend.load import load_plan
from semgraph.logical.plan import Choice

values = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
names = st.from_regex(r"[a-z_][a-z0-9_]*", fullmatch=True)


@pytest.mark.parametrize(
    ("written", "name", "params"),
    [
        ("block", "block", {}),
        (" block() ", "block", {}),
        ("block(left=10, right=null)", "block", {"left": 10, "right": None}),
        ("my_ops/sem_join/sorted.py(rows=12)", "my_ops/sem_join/sorted.py", {"rows": 12}),
        ('x(a="1, 2", b=c d, c=true, d=0.5)', "x", {"a": "1, 2", "b": "c d", "c": True, "d": 0.5}),
        ("x(a='1, 2', b=it's, c='true')", "x", {"a": "1, 2", "b": "it's", "c": "true"}),
        ({"block": {"left": 10}}, "block", {"left": 10}),
        ({"block": None}, "block", {}),
        ("x(a='b @ c')", "x", {"a": "b @ c"}),
    ],
)
def test_a_choice_is_a_name_and_parameters(written: Any, name: str, params: dict[str, Any]) -> None:
    assert Choice.parse(written) == Choice(name, tuple(sorted(params.items())))


@given(names, st.dictionaries(names, values, max_size=4))
def test_a_printed_choice_parses_to_itself(name: str, params: dict[str, Any]) -> None:
    choice = Choice.parse({name: params})
    assert Choice.parse(str(choice)) == choice


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "invalid implementation"),
        ("a b", "invalid implementation"),
        ("block(left=1", "invalid implementation"),
        (3, "invalid implementation"),
        ("block(left)", "invalid parameter"),
        ("block(10)", "invalid parameter"),
        ("block(left=1, left=2)", "set twice"),
        ({"block": {"left": [1]}}, "must be text, a number"),
        ({"block": {}, "nested_loop": {}}, "has one implementation, not 2"),
        ({"block": [10]}, "must be a mapping"),
        ({"@ small": {"left": 10}}, "is no implementation with parameters"),
        ("block @ openai:m@http://host/v1", "by its role or as PROVIDER:NAME"),
        ("block @ small @ judge", "invalid implementation"),
    ],
)
def test_invalid_choices_are_rejected(written: Any, message: str) -> None:
    with pytest.raises(Fault, match=message):
        Choice.parse(written)


PLAN = """
plan: chosen
inputs: {notes: {id: string, text: string}}
steps:
  near: [{from: notes}, {sem_join: {prompt: "Are {text} and {o.text} alike?", other: notes, alias: o}}]
returns: [near]
use: {near: CHOICE}
"""


@pytest.mark.parametrize(
    "written",
    ["block(left=2, right=3)", "block(right=3, left=2)", "{block: {right: 3, left: 2}}"],
)
def test_every_form_of_a_choice_in_a_plan_means_the_same(tmp_path: Path, written: str) -> None:
    path = tmp_path / "plan.yaml"
    choice = written if written.startswith("{") else f'"{written}"'
    path.write_text(PLAN.replace("CHOICE", choice), encoding="utf-8")
    first = tmp_path / "first.yaml"
    first.write_text(PLAN.replace("CHOICE", '"block(left=2, right=3)"'), encoding="utf-8")
    assert load_plan(path).use == {"near": Choice("block", (("left", 2), ("right", 3)))}
    assert load_plan(path).fingerprint == load_plan(first).fingerprint


@pytest.mark.parametrize("written", ["block(left=1) @ small", "block(left=1) @small"])
def test_a_choice_may_end_with_a_model(written: str) -> None:
    assert Choice.parse(written) == Choice("block", (("left", 1),), "small")


@pytest.mark.parametrize(
    ("written", "over", "result"),
    [
        ("@ small", "block(left=1)", "block(left=1) @ small"),
        ("block", "nested_loop @ small", "block @ small"),
        ("block @ judge", "nested_loop @ small", "block @ judge"),
        ("@ judge", "block @ small", "block @ judge"),
    ],
)
def test_a_choice_over_another_keeps_what_it_leaves_out(
    written: str, over: str, result: str
) -> None:
    assert str(Choice.parse(written).over(Choice.parse(over))) == result


@pytest.mark.parametrize("written", ["vote(samples=2", "vote(samples=2, "])
def test_a_choice_without_its_last_bracket_is_shown_with_it(written: str) -> None:
    """The bracket was left out, or a comma ended the value: `{good: vote(samples=2, votes=3)}`."""
    with pytest.raises(Fault, match="invalid implementation") as told:
        Choice.parse(written)
    assert told.value.hint == (
        'a ")" is missing: vote(samples=2). In YAML, a comma inside { } or [ ] ends a value: '
        'quote it, "block(left=10, right=5)"'
    )


@pytest.mark.parametrize("written", ["a b(left=1", "block((", "block(left=1))("])
def test_what_a_bracket_does_not_mend_is_answered_with_an_example(written: str) -> None:
    with pytest.raises(Fault, match="invalid implementation") as told:
        Choice.parse(written)
    assert told.value.hint == "write block, or block(left=10, right=5)"
