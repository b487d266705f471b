"""LOTUS's own operators keep the contract of implementations, over semgraph's models."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from semgraph.conformance import CHECKS
from semgraph.conformance.cases import LIBRARY, Case, Faulty, Oracle, mind, node, some
from semgraph.errors import ModelUnavailable
from semgraph.llm.base import Limits, Reply, Request
from semgraph.logical.plan import Choice
from semgraph.lotus import loaded
from semgraph.meter import StepMetrics
from semgraph.semantic.contract import OPERATORS
from tests.extras.reading import LotusWay, Reading
from tests.operators.cases import answers, reference, run, tabled

TOPK = ["lotus", "lotus(method=heap)", "lotus(method=naive)", 'lotus(method="quick-sem")']
WAYS = [
    (operator, way)
    for operator in OPERATORS
    for way in (TOPK if operator == "sem_topk" else ["lotus"])
]


@pytest.fixture(scope="session", autouse=True)
def imported() -> None:
    """LOTUS takes many seconds to import, which is not what is tested."""
    asyncio.run(loaded())


def way(operator: str, name: str) -> LotusWay:
    return LotusWay(operator, name, LIBRARY.get(operator, Choice.parse(name)))


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("operator", "name"), WAYS)
async def test_the_contract_holds(operator: str, name: str, check: str) -> None:
    await CHECKS[check](way(operator, name))


@pytest.mark.parametrize(
    ("method", "fewest", "most"),
    [("quick", 50, 200), ("quick-sem", 50, 200), ("naive", 1225, 1225)],
)
async def test_the_k_best_are_found_by_comparisons(method: str, fewest: int, most: int) -> None:
    llm = Oracle(mind("sem_topk"))
    case = some("sem_topk", 50, group=[0] * 50)
    found = await way("sem_topk", f'lotus(method="{method}")').answers(case, llm)
    theirs = await run(case, LIBRARY.get("sem_topk", Choice.parse(reference("sem_topk"))))
    best = [
        sorted(range(50), key=lambda i: -t.column("score").to_pylist()[i])[:2]
        for t in (tabled(case.node(), found), theirs)
    ]
    assert best[0] == best[1]
    assert fewest <= len(llm.requests) <= most


async def test_a_run_asks_what_the_run_before_it_asked() -> None:
    asked = []
    for _ in range(2):
        llm = Oracle(mind("sem_topk"))
        await way("sem_topk", "lotus").answers(some("sem_topk", 20, group=[0] * 20), llm)
        asked.append(sorted(request.fingerprint for request in llm.requests))
    assert asked[0] == asked[1]


@pytest.mark.parametrize("said", ["", "Certainly!", "Answer: True or False", "maybe"])
@pytest.mark.parametrize("operator", ["sem_filter", "sem_join"])
async def test_what_lotus_would_take_for_true_is_an_error(operator: str, said: str) -> None:
    rows = answers(
        await run(_plain(operator), LIBRARY.get(operator, Choice("lotus")), Saying(operator, said))
    )
    assert {row["error"] for row in rows} == {'invalid: expected "Answer: True" or "Answer: False"'}


async def test_what_lotus_would_take_for_the_first_document_is_an_error() -> None:
    rows = answers(
        await run(
            _plain("sem_topk"), LIBRARY.get("sem_topk", Choice("lotus")), Saying("sem_topk", "Both")
        )
    )
    assert {row["error"] for row in rows} == {'invalid: expected "Document 1" or "Document 2"'}


@pytest.mark.parametrize("operator", ["sem_map", "sem_agg"])
async def test_an_answer_of_another_form_is_an_error(operator: str) -> None:
    rows = answers(
        await run(_plain(operator), LIBRARY.get(operator, Choice("lotus")), Saying(operator, "[]"))
    )
    assert {row["error"] for row in rows} == {"invalid: the answer must be an object"}


@pytest.mark.parametrize("operator", OPERATORS)
async def test_a_model_that_is_gone_ends_the_step(operator: str) -> None:
    def gone(request: Request, reply: Reply) -> Reply:
        raise ModelUnavailable("no such host")

    with pytest.raises(ModelUnavailable, match="no such host"):
        await way(operator, "lotus").answers(some(operator), Faulty(Oracle(mind(operator)), gone))


@pytest.mark.parametrize("operator", OPERATORS)
async def test_every_call_is_metered_and_named(operator: str) -> None:
    llm, metrics = Oracle(mind(operator)), StepMetrics()
    found = await run(
        _plain(operator), LIBRARY.get(operator, Choice("lotus")), Reading(llm, operator), metrics
    )
    assert metrics.calls_issued == metrics.attempts == len(llm.requests) > 0
    assert metrics.tokens_in > 0
    assert all(found.column("calls").to_pylist())
    assert {request.step for request in llm.requests} == {"asked"}


async def test_a_tree_that_does_not_shrink_is_an_error_and_ends() -> None:
    llm = Oracle(mind("sem_agg"), Limits(context_tokens=2000, max_output_tokens=1200))
    case = Case("sem_agg", [f"{i} {'y' * 2400}" for i in range(4)])
    long = Saying("sem_agg", "z" * 2400, llm)
    (row,) = answers(await run(case, LIBRARY.get("sem_agg", Choice("lotus")), long))
    assert row["error"].startswith("too_long: ")
    assert len(long.requests) < 20


def test_a_join_with_answers_and_a_broken_cascade_are_refused() -> None:
    join = LIBRARY.get("sem_join", Choice("lotus"))
    assert "also returns verdict, note" in (join.refuses(node("sem_join"), Limits()) or "")
    assert join.refuses(node("sem_join", answers=False), Limits()) is None


async def test_a_question_about_both_rows_keeps_its_words() -> None:
    llm = Saying("sem_join", "Answer: False")
    case = Case("sem_join", ["Ada"], others=["ada"], both=True, answers=False)
    await run(case, LIBRARY.get("sem_join", Choice("lotus")), llm)
    (request,) = llm.requests
    assert request.messages[-1].content == (
        "Context:\n[Left]: «Ada»\n\n[Right]: «ada»\n\n\nClaim: Be exact.\n\nAre “{left}” and “{right}” alike?"
    )


def _plain(operator: str) -> Case:
    return some(operator, 3, answers=False)


class Saying(Oracle):
    """A model that says one thing, whatever it is asked."""

    def __init__(self, operator: str, said: str, like: Oracle | None = None) -> None:
        super().__init__(mind(operator), like.limits if like else Limits())
        self.said = said

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        return replace(Reply(self.said), call_id=f"call-{len(self.requests)}")


def test_all_that_is_tried_is_usable_here() -> None:
    kinds: list[Any] = [LIBRARY.get(operator, Choice.parse(name)) for operator, name in WAYS]
    assert [
        kind.refuses(node(op, answers=False), Limits())
        for kind, (op, _) in zip(kinds, WAYS, strict=True)
    ] == [None] * len(WAYS)
