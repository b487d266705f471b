"""Random lambdas over ranges, joins of thousands of rows and patterns with neighbouring repeats: what
Python computes of them takes a bounded number of steps, and what makes too much is refused. With a
limit taken away, they find it.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from semgraph.errors import Fault
from semgraph.expr import row_functions, row_scalars, scalar
from semgraph.expr.row_functions import FallBack
from semgraph.expr.scalar import MOST, parse_scalar
from semgraph.logical.node import Node
from semgraph.logical.relational import Input, Join, Project
from semgraph.relational.rows import RowFunction
from tests.relational.executors import of_node

COLUMNS = pa.schema([("n", pa.int64()), ("s", pa.string())])
ROWS, OTHERS = (Input(name=name, columns=COLUMNS) for name in ("t", "u"))
STEPS = 400_000
"""Calls that the Python of one segment makes: 20,000 items of a few each, and a call for each row."""
COUNTS = [2, 9, 50, 700, 3_000, 40_000, 900_000]


def lambdas(rng: random.Random) -> tuple[str, int]:
    """A nested list over ranges, and how many items or characters it makes."""
    a, b = rng.choice(COUNTS), rng.choice(COUNTS)
    forms = [
        (f"[x + n FOR x IN range({a})]", a),
        (f"list_filter(range({a}), lambda x: x > n)", a),
        (f"[[x + y FOR y IN range({b})] FOR x IN range({a})]", a * b),
        (f"list_transform(range({a}), lambda x: repeat('k', {b}))", a * b),
        (f"[rpad(s, {b}, '.') FOR x IN range({a})]", a * b),
        (f"list_transform(list_resize([n], {a}), lambda x: len(range({b})))", a * b),
    ]
    return rng.choice(forms)


def joins(rng: random.Random) -> Node:
    """A join by a column of few or of many values, or by a condition alone."""
    where = rng.choice([None, "n < other.n", "n + other.n = 7 AND s <> other.s"])
    using = rng.choice([(), (("s", "s"),), (("n", "n"),)]) if where else (("s", "s"),)
    how = rng.choice(["inner", "left", "semi", "anti"])
    condition = None if where is None else parse_scalar(where)
    return Join(input=ROWS, other=OTHERS, alias="other", using=using, where=condition, how=how)


def rows(count: int) -> list[tuple[Any, ...]]:
    return [(n, f"s{n % 3}") for n in range(count)]


def steps(node: Node, count: int) -> int:
    """How many calls the Python of a segment makes over so many rows of each input."""
    segment = of_node(node)
    if not isinstance(segment.function, RowFunction):
        return 0
    calls = 0

    def count_call(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"
        if calls > STEPS:
            raise OverflowError

    sys.setprofile(count_call)
    try:
        segment.function([rows(count) for _ in segment.inputs], None)
    except (FallBack, OverflowError):
        pass
    finally:
        sys.setprofile(None)
    return calls


def too_much(seed: int) -> Iterator[str]:
    """What a draw finds."""
    rng = random.Random(seed)
    text, items = lambdas(rng)
    try:
        node: Node = Project(input=ROWS, columns=(("x", parse_scalar(text)),))
    except Fault as fault:
        if "at most 1,000,000" not in fault.what:
            yield f"{text}: {fault}"
    else:
        if items > MOST:
            yield f"{text} is not refused"
        elif steps(node, rng.choice([1, 30])) > STEPS:
            yield text
    node = joins(rng)
    if steps(node, rng.choice([40, 2_000])) > STEPS:
        yield f"a join where {node.where} of other"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, 6))]
)
def test_no_expression_and_no_join_takes_too_many_steps(part: int) -> None:
    assert [found for seed in range(part * 20, part * 20 + 20) for found in too_much(seed)] == []


def test_a_limit_that_is_taken_away_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_functions, "MOST_ITEMS", 10**9)
    for words in (("FOR", "lambda"), ("other",)):
        drawn = (each for seed in range(40) for each in too_much(seed))
        assert any(word in each for each in drawn for word in words)
    monkeypatch.undo()
    monkeypatch.setattr(scalar, "_refuse_product", lambda _call, _name: None)
    assert any("is not refused" in each for seed in range(40) for each in too_much(seed))


def test_the_drawn_patterns_find_one_that_is_not_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.relational.test_patterns import admitted, drawn

    known = {seed for seed in range(300) if admitted(drawn(seed)) is not None}
    monkeypatch.setattr(row_scalars, "is_linear", lambda *_args, **_more: True)
    more = {seed for seed in range(300) if admitted(drawn(seed)) is not None} - known
    repeats = re.compile(r"[*+].*[*+]")
    assert sum(repeats.search(drawn(seed)) is not None for seed in more) > 20
