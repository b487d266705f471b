"""The check of what an implementation returns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from semgraph.conformance.cases import LIBRARY, Case
from semgraph.errors import EngineError
from semgraph.logical.plan import Choice
from semgraph.semantic.answers import answer_table
from semgraph.semantic.contract import Outcome, answer_schema
from semgraph.semantic.implementation import check_answer


def table(operator: str, items: list[Any]) -> tuple[Any, Any, pa.Table]:
    case = Case(operator, ["a", "b", "c"], group=[0, 0, 1], others=["x"])
    node = case.node()
    values = {"keep": True, "match": False, "score": 1.0, "words": [], "rows": 1}
    found = answer_table(node, [Outcome(values, None, ("c1",))] * len(items))
    return node, case.rows(), found.set_column(0, "item", pa.array(items, pa.int64()))


@pytest.mark.parametrize(
    ("operator", "count"), [("sem_filter", 3), ("sem_join", 3), ("sem_agg", 2), ("sem_topk", 3)]
)
def test_each_item_must_come_once(operator: str, count: int) -> None:
    check_answer(*table(operator, list(range(count))))
    check_answer(*table(operator, list(reversed(range(count)))))
    for items, said in [
        (list(range(count - 1)), f"missing: {count - 1}"),
        ([*range(count), 0], "twice or unknown: 0"),
        ([*range(count - 1), count], f"missing: {count - 1}; twice or unknown: {count}"),
        ([*range(count - 1), None], f"missing: {count - 1}; twice or unknown: None"),
    ]:
        with pytest.raises(EngineError, match=f"each of the {count} items must come once; {said}"):
            check_answer(*table(operator, items))


def test_an_item_needs_a_verdict_or_an_error() -> None:
    node = Case("sem_filter", ["a", "b"]).node()
    rows = Case("sem_filter", ["a", "b"]).rows()
    check_answer(
        node, rows, answer_table(node, [Outcome({"keep": True}), Outcome(None, "refused: no")])
    )
    with pytest.raises(EngineError, match='item 1 has neither "keep" nor an error'):
        check_answer(node, rows, answer_table(node, [Outcome({"keep": True}), Outcome({})]))


def test_the_schema_must_be_the_one_of_the_operator() -> None:
    node, rows, found = table("sem_filter", [0, 1, 2])
    way = LIBRARY.get("sem_filter", Choice("per_row"))
    with pytest.raises(EngineError) as error:
        check_answer(node, rows, found.drop_columns("calls"), way)
    assert str(error.value).startswith("step asked: PerRow in ")
    assert str(error.value).endswith(
        "operators/sem_filter/per_row.py broke its contract: it returned columns (item: int64, keep: bool, error: string), "
        "expected (item: int64, keep: bool, error: string, calls: list<item: string>). Correct its `answer`"
    )
    with pytest.raises(EngineError, match=r"it returned a dict, not a pyarrow\.Table"):
        check_answer(node, rows, {"item": []})  # type: ignore[arg-type]


def test_a_table_of_answers_has_nulls_where_there_are_none() -> None:
    node = Case("sem_join", ["a"], others=["x"]).node()
    found = answer_table(
        node,
        [
            Outcome({"match": True, "verdict": "same", "note": None}, None, ("c1",)),
            Outcome({"match": False}),
            Outcome(None, "x: y"),
        ],
    )
    assert found.schema.equals(answer_schema(node))
    assert found.to_pylist() == [
        {"item": 0, "match": True, "verdict": "same", "note": None, "error": None, "calls": ["c1"]},
        {"item": 1, "match": False, "verdict": None, "note": None, "error": None, "calls": []},
        {"item": 2, "match": None, "verdict": None, "note": None, "error": "x: y", "calls": []},
    ]


@pytest.mark.parametrize(
    ("said", "yes"),
    [
        ("yes", True), ("No.", False), (" Yes\n", True), ("**No**, because it is late.", False), ('"Yes"', True), ("no\nIt is not.", False), ("Yes, it does.", True),
        ("Not sure", None), ("yesterday", None), ("None", None), ("nothing", None), ("No idea", None), ("no-one", None), ("Yes/No", None), ("No doubt it is", None),
        ("I think yes", None), ("nope", None), ("", None), ("不", None),
    ],
)  # fmt: skip
def test_a_verdict_is_a_word_that_stands_alone(said: str, yes: bool | None) -> None:
    from types import SimpleNamespace

    from semgraph.llm.base import Reply
    from semgraph.semantic.answers import DIGITS, YES_NO, Invalid, read_word

    node: Any = SimpleNamespace(keyword="sem_filter")
    if yes is None:
        with pytest.raises(Invalid):
            read_word(node, YES_NO, Reply(said), 0.0)
    else:
        assert read_word(node, YES_NO, Reply(said), 0.0)["keep"] is yes
    score: Any = SimpleNamespace(keyword="sem_topk")
    for text in ("10", "7/10", "3.5", "-5", "7th"):
        with pytest.raises(Invalid):
            read_word(score, DIGITS, Reply(text), 0.0)
    assert read_word(score, DIGITS, Reply("9."), 0.0)["score"] == 100
