"""The check of what an implementation returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from semgraph.conformance.cases import LIBRARY, Case
from semgraph.errors import EngineError
from semgraph.logical.plan import Choice
from semgraph.semantic.answers import answer_table
from semgraph.semantic.contract import Outcome
from semgraph.semantic.implementation import check_answer

WAY = LIBRARY.get("sem_filter", Choice("per_row"))
VALUES = {"keep": True, "match": False, "score": 1.0, "words": [], "rows": 1}


def check(operator: str, found: Any) -> None:
    case = Case(operator, ["a", "b", "c"], group=[0, 0, 1], others=["x"])
    check_answer(case.node(), case.rows(), found, WAY)


@pytest.mark.parametrize(
    ("operator", "count"), [("sem_filter", 3), ("sem_join", 3), ("sem_agg", 2), ("sem_topk", 3)]
)
def test_each_item_must_come_once(operator: str, count: int) -> None:
    check(operator, [Outcome(VALUES, None, ("c1",))] * count)
    for wrong in (count - 1, count + 1):
        with pytest.raises(EngineError, match=f"returned {wrong} outcomes for {count} items"):
            check(operator, [Outcome(VALUES)] * wrong)


def test_an_item_needs_a_verdict_or_an_error() -> None:
    kept, failed = Outcome({"keep": True}), Outcome(None, "refused: no")
    check("sem_filter", [kept, failed, kept])
    for wrong in (Outcome({}), Outcome({"keep": None}), Outcome(None)):
        with pytest.raises(EngineError, match='item 1 has neither "keep" nor an error'):
            check("sem_filter", [kept, wrong, kept])
    with pytest.raises(EngineError, match='item 0 has neither "rows" nor an error'):
        check("sem_agg", [Outcome({"words": []}), failed])


def test_values_must_have_the_types_of_the_operator() -> None:
    with pytest.raises(EngineError) as error:
        check("sem_filter", [Outcome({"keep": "yes"})] * 3)
    assert str(error.value).startswith("step asked: PerRow in ")
    assert "per_row.py broke its contract: a value has a wrong type: " in str(error.value)
    with pytest.raises(EngineError, match=r"it returned a dict, not a list of Outcome"):
        check("sem_filter", {"item": []})
    with pytest.raises(EngineError, match=r"it returned a list of bool, not of Outcome"):
        check("sem_filter", [True, False, True])


def test_values_of_numpy_become_plain_ones_of_the_declared_types() -> None:
    def plain(operator: str, values: dict[str, Any]) -> Any:
        case = Case(operator, ["a"], others=["x"])
        [found] = check_answer(case.node(), case.rows(), [Outcome(values, None, ("c1",))], WAY)
        assert found.calls == ("c1",)
        return {name: (type(value), value) for name, value in (found.values or {}).items()}

    none = (type(None), None)
    assert plain("sem_join", {"match": np.False_})["match"] == (bool, False)
    assert plain("sem_join", {"match": np.False_})["verdict"] == none
    assert plain("sem_topk", {"score": np.float32(3)}) == {"score": (float, 3.0)}
    agg = plain("sem_agg", {"words": ("a", "b"), "rows": np.int64(2)})
    assert agg == {"words": (list, ["a", "b"]), "rows": (int, 2)}


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
    assert found.to_pylist() == [
        {"match": True, "verdict": "same", "note": None, "error": None, "calls": ["c1"]},
        {"match": False, "verdict": None, "note": None, "error": None, "calls": []},
        {"match": None, "verdict": None, "note": None, "error": "x: y", "calls": []},
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
