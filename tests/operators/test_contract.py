"""What every implementation of an operator must do, found by the library, over a model that answers
from the request alone.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from itertools import chain, permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semgraph.conformance.cases import Case, Faulty, Oracle, call_id, is_packed, mind, some
from semgraph.errors import ModelUnavailable
from semgraph.llm.base import Limits, Reply, Request
from semgraph.meter import StepMetrics
from tests.examples import examples
from tests.operators.cases import answers, ask, reference, ways

EVERY = pytest.mark.parametrize(("operator", "way"), ways())
SAME = pytest.mark.parametrize(("operator", "way"), ways(same=True, packs=True))
SOME = settings(
    max_examples=examples(10, 25), deadline=None, suppress_health_check=list(HealthCheck)
)

AWKWARD = [
    None, "", " ", "Ada", "ada", "Ada", "Ångström", "李雷 🎈", "two\nlines", '2. {"text":"fake"}', "Records:\n1. {}",
    "line\u2028separator", 'quote " and \\ and \t', "<text> {text}", "null", "Right record:", "\x85\x00\x1f",
]  # fmt: skip
text = st.one_of(st.none(), st.sampled_from(AWKWARD), st.text(max_size=12))


def sizes(operator: str) -> int:
    return 6 if operator == "sem_join" else 14


@st.composite
def cases(draw: Any, operator: str, plain: bool = False) -> Case:
    n = draw(st.integers(0, sizes(operator)))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=n, max_size=n))

    # The two texts of a single pair stand in one message in the prompt's own words, so there they
    # are plain.
    word = st.one_of(st.none(), st.text("aAbB éß", max_size=4)) if operator == "sem_join" else text
    case = Case(
        operator,
        column(word),
        context=draw(st.booleans()),
        by=draw(st.booleans()),
        both=draw(st.booleans()),
    )
    case.group = column(st.integers(0, 2))
    # Rows that are asked about together must have one partition, prompt and context: here they
    # depend on the group.
    whole = operator in {"sem_agg", "sem_topk"}
    case.partition = (
        [f"p{g % 2}" for g in case.group] if whole else column(st.sampled_from(["p0", "p1"]))
    )
    case.kind = ["ab"[g % 2] for g in case.group] if whole else column(st.sampled_from("ab"))
    case.reference = (
        [f"r{g}" for g in case.group] if whole else column(st.sampled_from(["r0", "r1"]))
    )
    if operator == "sem_join":
        case.others = draw(st.lists(word, max_size=5))
        everything = [(i, j) for i in range(n) for j in range(len(case.others))]
        chosen = draw(st.lists(st.booleans(), min_size=len(everything), max_size=len(everything)))
        case.pairs = [pair for pair, wanted in zip(everything, chosen, strict=True) if wanted]
    return case


# ------------------------------------------------------------------------------------------- the
# answers


@SAME
def test_it_answers_as_the_reference_does(operator: str, way: str) -> None:
    @SOME
    @given(cases(operator))
    def check(case: Case) -> None:
        asyncio.run(compare(case, way))

    async def compare(case: Case, way: str) -> None:
        assert answers(await ask(case, way)) == answers(await ask(case, reference(operator)))

    check()


# ------------------------------------------------------------------------------------------- what
# shares a request


def apart_case(operator: str) -> Case:
    """Rows whose texts say their partition, prompt and context."""
    n, m = 24, 6
    keys = [(f"p{i % 3}", "ab"[i // 2 % 2], f"r{i // 3 % 2}") for i in range(n)]
    case = Case(
        operator, [f"mark-{''.join(key)} {i}" for i, key in enumerate(keys)], by=True, context=True
    )
    case.partition, case.kind, case.reference = map(list, zip(*keys, strict=True))
    case.group = [sorted(set(keys)).index(key) for key in keys]
    case.others = [f"m{j}" for j in range(m)]
    return case


def halves(request: Request) -> tuple[str, str]:
    """What is static in a request, and the row: of questions with one word as the answer the rules
    stand before the row.
    """
    *before, last = (message.content for message in request.messages)
    if not request.words:
        return before[0], last
    rules, row = last.split("\n\n", 1)
    return "\n\n".join([rules, *before]), row


@EVERY
async def test_rows_of_two_partitions_prompts_or_contexts_are_never_in_one_request(
    operator: str, way: str
) -> None:
    llm = Oracle(mind(operator))
    case = apart_case(operator)
    assert all(error is None for error in (await ask(case, way, llm)).column("error").to_pylist())
    for request in llm.requests:
        system, user = halves(request)
        marks = set(re.findall(r"mark-(p\d)(\w)(r\d)", user))
        assert len(marks) == 1
        for whose, kind, context in marks:
            assert request.partition == whose
            assert system.startswith("Be exact." if kind == "a" else "Be kind.")
            assert user.startswith(f"Context: {context}\n\n")
    rows = [
        m
        for request in llm.requests
        for m in re.findall(r"mark-\w+ \d+", request.messages[-1].content)
    ]
    assert set(rows) == set(case.texts) or (operator, way.split("(", maxsplit=1)[0]) == (
        "sem_join",
        "cascade",
    )


@pytest.mark.parametrize(("operator", "way"), ways("sem_agg", "sem_topk", same=None, packs=True))
async def test_a_group_with_two_partitions_is_never_in_one_request(operator: str, way: str) -> None:
    llm = Oracle(mind(operator))
    case = some(operator, 4, partition=["p", "p", "q", "q"])
    errors = (await ask(case, way, llm)).column("error").to_pylist()
    for request in llm.requests:
        assert not re.search("a0|b1", request.messages[-1].content) or request.partition == "p"
        assert not re.search("c2|a3", request.messages[-1].content) or request.partition == "q"
    if not way.startswith(("packed", "logit")):
        wrong = [error for error in errors if error is not None]
        assert wrong
        assert all(error.startswith("mixed: ") and "partitions" in error for error in wrong)


@EVERY
async def test_other_partitions_change_nothing_in_a_partition_s_requests(
    operator: str, way: str
) -> None:
    async def sent(case: Case) -> set[Request]:
        llm = Oracle(mind(operator))
        await ask(case, way, llm)
        return set(llm.requests)

    case = apart_case(operator)
    of_all = await sent(case)
    for those in chain.from_iterable(permutations(range(3), count) for count in range(4)):
        index = [i for p in those for i in range(len(case.texts)) if i % 3 == p]
        turned = replace(case)
        for name in ("texts", "partition", "kind", "reference", "group"):
            setattr(turned, name, [getattr(case, name)[i] for i in index])
        assert await sent(turned) == {r for r in of_all if int(r.partition[1]) in those}


@EVERY
async def test_what_is_static_stands_first_and_is_the_same_for_all_rows(
    operator: str, way: str
) -> None:
    llm = Oracle(mind(operator))
    await ask(some(operator), way, llm)
    packed = {is_packed(request) for request in llm.requests}
    static = {halves(request)[0] for request in llm.requests}
    assert len(static) <= max(2, len(packed))
    assert all("Be exact." in text for text in static)
    assert all(request.messages[0].role == "system" for request in llm.requests)


# ------------------------------------------------------------------------------------------- limits


SMALL = Limits(context_tokens=2000, max_output_tokens=1200, in_flight=4)


async def test_a_group_that_does_not_fit_is_an_error_of_single_and_none_of_tree() -> None:
    case = Case("sem_agg", [f"w{i} " + "x" * 900 for i in range(12)])
    (error,) = (
        (await ask(case, "single", Oracle(mind("sem_agg"), SMALL))).column("error").to_pylist()
    )
    assert error.startswith("too_long: ")
    (row,) = answers(await ask(case, "tree", Oracle(mind("sem_agg"), SMALL)))
    assert (row["rows"], row["error"]) == (12, None)


@EVERY
async def test_no_more_is_under_way_than_keeps_the_model_busy(operator: str, way: str) -> None:
    llm = Oracle(mind(operator), Limits(in_flight=3))
    await ask(some(operator, 40), way, llm)
    assert llm.most_running <= 6


async def test_rows_that_go_out_late_are_placed_before_rows_that_go_out_early() -> None:
    mine = replace(mind("sem_topk"), score=lambda text: float(text.split("“")[1].split("”")[0]))
    case = Case("sem_topk", [str(n) for n in (9, 8, 7, 6, 99, 98, 97, 96, 50, 40, 30, 20)])
    scores = (await ask(case, "listwise(window=4)", Oracle(mine))).column("score").to_pylist()
    places = [round(12 * (1 - score / 100)) for score in scores]
    # 9 8 | 99 98 | 50 40 stay in the first round; in the second 9 8 go out and 50 40 pass; the
    # third ranks the rest
    assert [case.texts[places.index(i)] for i in range(6)] == ["99", "98", "50", "40", "9", "8"]
    assert places[2:4] + places[6:8] + places[10:] == [6, 7, 8, 9, 10, 11]


# -------------------------------------------------------------------------------------------
# failures


@EVERY
async def test_when_no_model_answers_it_stops_at_once(operator: str, way: str) -> None:
    await stops(operator, way, ModelUnavailable("no answer"))


async def stops(operator: str, way: str, error: Exception) -> None:
    llm = Oracle(mind(operator), Limits(in_flight=2))
    before = asyncio.all_tasks()

    def spoil(request: Request, reply: Reply) -> Reply:
        raise error

    with pytest.raises(type(error)):
        await ask(some(operator, 30), way, Faulty(llm, spoil))
    assert len(llm.requests) <= 4
    assert asyncio.all_tasks() == before


# -------------------------------------------------------------------------------------------
# metering


@EVERY
async def test_every_call_is_metered_and_named(operator: str, way: str) -> None:
    llm, metrics = Oracle(mind(operator)), StepMetrics()
    table = await ask(some(operator, 13), way, llm, metrics)
    assert metrics.calls_issued == len(llm.requests) == metrics.attempts - metrics.embeddings > 0
    assert metrics.tokens_in == sum(
        llm.count_tokens(m.content) for r in llm.requests for m in r.messages
    )
    assert metrics.tokens_out > 0
    assert metrics.dollars == pytest.approx(0.001 * len(llm.requests))
    known = {call_id(request) for request in llm.requests}
    rests_on = [set(calls) for calls in table.column("calls").to_pylist()]
    assert set.union(*rests_on) == known
    assert all(rests_on) or (operator, way) not in ways(
        same=True
    )  # a group of one is ranked without asking
