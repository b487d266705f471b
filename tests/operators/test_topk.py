"""sem_topk: who is the best, for how many calls, in how many rounds that wait for each other."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from semgraph import extras
from semgraph.conformance.cases import LIBRARY, Case, Faulty, Grams, Oracle, mind, node
from semgraph.errors import PlanError, RowError
from semgraph.llm.base import Limits, Reply, Request
from semgraph.logical.plan import Choice
from semgraph.meter import StepMetrics
from semgraph.semantic.context import Context
from semgraph.semantic.contract import RowEstimate
from tests.operators.cases import tabled

LOUD = replace(mind("sem_topk"), score=lambda text: float(text.split("“")[1].split("”")[0]))


class Counting(Context):
    """Counts the rounds: questions that went out together."""

    rounds = 0

    async def ask_rankings(self, node: Any, rows: Any, windows: Any) -> Any:
        self.rounds += 1
        return await super().ask_rankings(node, rows, windows)


async def best(way: str, numbers: list[int], k: int, llm: Any = None) -> tuple[list[int], int, int]:
    """The best numbers in order, the calls, the rounds."""
    llm = llm or Oracle(LOUD)
    asked, case = replace(node("sem_topk"), k=k), Case("sem_topk", [str(n) for n in numbers])
    async with Counting(llm, Grams(), asked, StepMetrics()) as ctx:
        chosen = LIBRARY.get("sem_topk", Choice.parse(way))
        table = tabled(asked, await chosen.answer(asked, case.rows(), ctx))
    scores = table.column("score").to_pylist()
    order = sorted((i for i, s in enumerate(scores) if s is not None), key=lambda i: -scores[i])
    return [numbers[i] for i in order[:k]], len(llm.requests), ctx.rounds


@pytest.mark.parametrize(
    ("way", "calls", "rounds"),
    [
        ("pointwise", 50, 0),
        ("listwise", 9, 2),
        ("tournament", 80, 18),
        ("quickselect", 40, 12),
        ("quickselect(pivot=random)", 40, 12),
        ("quickselect(batch=1)", 220, 15),
    ],
)
@pytest.mark.parametrize("seed", range(8))
async def test_the_best_5_of_50_are_found_for_few_calls(
    way: str, calls: int, rounds: int, seed: int
) -> None:
    numbers = list(range(50))
    random.Random(seed).shuffle(numbers)
    found, asked, waited = await best(
        way, numbers, 5, Oracle(replace(LOUD, score=lambda t: LOUD.score(t) + 0.5))
    )
    assert found == [49, 48, 47, 46, 45]
    assert asked <= calls
    assert waited <= rounds
    if not way.startswith(
        "quickselect"
    ):  # whose worst case is rare, and far from what is to be expected
        estimate = LIBRARY.get("sem_topk", Choice.parse(way)).estimate(
            replace(node("sem_topk"), k=5), RowEstimate(50, 0, 50, 1), None
        )
        assert asked <= estimate.calls
        assert waited <= estimate.rounds


@pytest.mark.parametrize("order", [list(range(50)), list(range(49, -1, -1))])
@pytest.mark.parametrize("way", ["listwise", "tournament", "quickselect", "quickselect(batch=1)"])
async def test_sorted_rows_are_no_worse_than_others(way: str, order: list[int]) -> None:
    found, calls, rounds = await best(way, order, 5)
    assert found == [49, 48, 47, 46, 45]
    assert calls <= 220
    assert rounds <= 18


@pytest.mark.parametrize(
    "way", ["listwise(window=100)", "tournament", "quickselect", "quickselect(batch=1)"]
)
@pytest.mark.parametrize("k", [1, 3, 20])
async def test_k_may_be_one_and_more_than_there_are(way: str, k: int) -> None:
    found, _, _ = await best(way, [3, 1, 2, 9, 7], k)
    assert found == [9, 7, 3, 2, 1][:k]


async def test_a_tournament_never_asks_the_same_twice() -> None:
    llm = Oracle(LOUD)
    await best("tournament", [n * 7 % 31 for n in range(31)], 10, llm)
    assert len(set(llm.requests)) == len(llm.requests)
    assert all(2 <= r.messages[1].content.count("\n") <= 3 for r in llm.requests)


@pytest.mark.parametrize(
    "way", ["tournament", "quickselect", "quickselect(batch=1)", "quickselect(pivot=random)"]
)
async def test_a_model_that_contradicts_itself_is_asked_no_longer(way: str) -> None:
    def cyclic(request: Request, reply: Reply) -> Reply:
        count = request.messages[1].content.count("\n")
        return replace(
            reply, text='{"ranking": [' + ", ".join(str(n) for n in range(count, 0, -1)) + "]}"
        )

    numbers = list(range(20))
    llm = Faulty(Oracle(LOUD), cyclic)
    found, calls, _ = await best(way, numbers, 4, llm)
    assert len(set(found)) == 4
    assert calls <= 20 * 19 // 2


@pytest.mark.parametrize("way", ["listwise", "tournament", "quickselect", "quickselect(batch=1)"])
async def test_a_row_that_is_refused_alone_too_is_the_only_error(way: str) -> None:
    llm = Oracle(LOUD)

    def spoil(request: Request, reply: Reply) -> Reply:
        if '"17"' in request.messages[1].content:
            raise RowError("rejected", "no 17", attempts=1)
        return reply

    found, _, _ = await best(
        way, list(range(30)), 30 if way != "listwise" else 10, Faulty(llm, spoil)
    )
    right = [n for n in range(29, -1, -1) if n != 17]
    assert found == right[: len(found)]
    assert len(found) >= 10


async def test_windows_that_do_not_fit_are_made_smaller() -> None:
    llm = Oracle(LOUD, Limits(context_tokens=1500, max_output_tokens=1000))
    padded = Oracle(
        replace(LOUD, score=lambda text: float(text.split("“")[1].split()[0])), llm.limits
    )
    asked, case = node("sem_topk"), Case("sem_topk", [f"{n} {'x' * 200}" for n in range(12)])
    for way in ("listwise(window=12)", "quickselect(batch=11)"):
        async with Context(padded, Grams(), asked, StepMetrics()) as ctx:
            chosen = LIBRARY.get("sem_topk", Choice.parse(way))
            table = tabled(asked, await chosen.answer(asked, case.rows(), ctx))
        assert table.column("error").null_count == 12
        scores = table.column("score").to_pylist()
        assert sorted(range(12), key=lambda i: -scores[i])[:2] == [11, 10]
    assert padded.rejected == 0


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("quickselect(batch=0)", "batch must be at least 1"),
        (
            "quickselect(pivot=median)",
            'quickselect: pivot must be "embedding" or "random", not "median"',
        ),
        ("tournament(rounds=3)", 'tournament has no parameter "rounds". Its parameters: none'),
        ("cross_encoder(batch=0)", "batch must be at least 1"),
        ('cross_encoder(model="")', "model must be the name of a cross-encoder, or a folder"),
    ],
)
def test_what_is_wrong_with_parameters_is_said(way: str, said: str) -> None:
    with pytest.raises(PlanError) as error:
        LIBRARY.get("sem_topk", Choice.parse(way))
    assert said in str(error.value)


def test_without_its_package_a_cross_encoder_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    way = LIBRARY.get("sem_topk", Choice.parse("cross_encoder"))
    monkeypatch.setattr(extras, "is_installed", lambda _: False)
    said = 'it needs sentence-transformers: pip install "semgraph[cross-encoder]"'
    assert way.refusal(node("sem_topk"), Limits()) == said
