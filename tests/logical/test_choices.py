"""How a way of doing a step is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semgraph.errors import Fault
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
        ({"block": {"left": 10}}, "block", {"left": 10}),
        ({"block": None}, "block", {}),
    ],
)
def test_a_choice_is_a_name_and_parameters(written: Any, name: str, params: dict[str, Any]) -> None:
    assert Choice.parse(written) == Choice(name, tuple(sorted(params.items())))


@given(names, st.dictionaries(names, values, max_size=4))
def test_a_choice_is_read_as_it_is_printed(name: str, params: dict[str, Any]) -> None:
    choice = Choice.parse({name: params})
    assert Choice.parse(str(choice)) == choice


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "names no way"),
        ("a b", "names no way"),
        ("block(left=1", "names no way"),
        (3, "names no way"),
        ("block(left)", "sets no parameter"),
        ("block(10)", "sets no parameter"),
        ("block(left=1, left=2)", "set twice"),
        ({"block": {"left": [1]}}, "is text, a number"),
        ({"block": {}, "nested_loop": {}}, "done in one way, not 2"),
        ({"block": [10]}, "are a mapping"),
    ],
)
def test_what_is_no_choice_is_refused(written: Any, said: str) -> None:
    with pytest.raises(Fault, match=said):
        Choice.parse(written)
