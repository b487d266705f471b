"""What becomes of answers that are none: they are asked for again, and never guessed."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from semgraph.conformance.cases import Case, Faulty, Oracle, edited, is_packed, lines, mind, parts
from semgraph.errors import RowError
from semgraph.llm.base import Reply, Request
from semgraph.meter import StepMetrics
from semgraph.semantic.contract import OPERATORS
from tests.operators.cases import answers, ask, reference, ways

Spoil = Callable[[Request, Reply], Reply]
AGAIN = "Your last answer was not valid: "


def entries(change: Callable[[list[Any]], None]) -> Spoil:
    """Change the list of a packed answer."""

    def spoil(request: Request, reply: Reply) -> Reply:
        def edit(document: dict[str, Any]) -> dict[str, Any]:
            change(next(iter(document.values())))
            return document

        return edited(reply, edit)

    spoil.__name__ = change.__name__
    return spoil


def prose(request: Request, reply: Reply) -> Reply:
    return replace(reply, text=f"Certainly! Here you are:\n```json\n{reply.text}\n```")


def cut(request: Request, reply: Reply) -> Reply:
    return replace(reply, text=reply.text[: len(reply.text) // 2], finish="length")


def cut_error(request: Request, reply: Reply) -> Reply:
    raise RowError("truncated", "answer cut at 1,024 tokens", attempts=1, spent=cut(request, reply))


def refused(request: Request, reply: Reply) -> Reply:
    return replace(reply, text="I must not say.", finish="refusal")


def refused_error(request: Request, reply: Reply) -> Reply:
    raise RowError("refused", "the model refused", attempts=1, spent=reply)


def rejected(request: Request, reply: Reply) -> Reply:
    raise RowError("rejected", "maximum context length exceeded", attempts=1)


def bare(request: Request, reply: Reply) -> Reply:
    return edited(reply, lambda document: next(iter(document.values())))


def twice(request: Request, reply: Reply) -> Reply:
    return replace(reply, text=reply.text * 2)


def other_key(request: Request, reply: Reply) -> Reply:
    return edited(reply, lambda document: {"result": next(iter(document.values()))})


def more_keys(request: Request, reply: Reply) -> Reply:
    return edited(reply, lambda document: document | {"remark": "done"})


def drop(items: list[Any]) -> None:
    del items[:1]


def add_unknown(items: list[Any]) -> None:
    items.append({**items[0], "id": 99})


def count_from_zero(items: list[Any]) -> None:
    for item in items:
        item["id"] -= 1


def repeat_otherwise(items: list[Any]) -> None:
    items.append({**items[-1], "id": items[0]["id"]})


def text_for_number(items: list[Any]) -> None:
    items[0]["id"] = str(items[0]["id"])


def wrong_type(items: list[Any]) -> None:
    name = list(items[-1])[-1]
    items[-1][name] = {"no": "such"}


def extra_key(items: list[Any]) -> None:
    items[-1]["confidence"] = 0.9


def lost_key(items: list[Any]) -> None:
    items[-1].popitem()


def null_entry(items: list[Any]) -> None:
    items.append(None)


HARMLESS = [
    entries(add_unknown),
    entries(null_entry),
]  # entries of nobody, beside one for everybody
WHOLE = [prose, cut, cut_error, refused, refused_error, rejected, bare, twice, other_key, more_keys]
PARTIAL = [
    *map(entries, [drop, count_from_zero, repeat_otherwise, text_for_number, wrong_type, extra_key, lost_key]), *HARMLESS,
]  # fmt: skip
ROWS = [
    way
    for way in ways("sem_map", "sem_filter", "sem_topk", same=True, packs=True)
    if way[1] != "packed(rows=1)"
]
BLOCKS = ways("sem_join", same=True, packs=True)


def packed_only(spoil: Spoil) -> Spoil:
    return lambda request, reply: spoil(request, reply) if is_packed(request) else reply


def once(spoil: Spoil) -> Spoil:
    """Only where the model is asked for the first time."""
    return lambda request, reply: (
        reply if AGAIN in request.messages[-1].content else spoil(request, reply)
    )


def some(operator: str, n: int = 9) -> Case:
    return Case(operator, [f"{'abc'[i % 3]}{i}" for i in range(n)], others=["a7", "b8", "c9", "d1"])


# ------------------------------------------------------------------------------------------- packed
# rows


@pytest.mark.parametrize("spoil", [*WHOLE, *PARTIAL])
@pytest.mark.parametrize(("operator", "way"), ROWS)
async def test_whatever_comes_back_wrong_from_a_block_is_asked_again(
    operator: str, way: str, spoil: Spoil
) -> None:
    llm = Oracle(mind(operator))
    ours = await ask(some(operator), way, Faulty(llm, packed_only(spoil)))
    assert answers(ours) == answers(await ask(some(operator), reference(operator)))
    assert all(is_packed(request) for request in llm.requests) == (spoil in HARMLESS)


@pytest.mark.parametrize(
    ("change", "singly"),
    [
        (drop, 1),
        (wrong_type, 1),
        (extra_key, 1),
        (lost_key, 1),
        (repeat_otherwise, 1),
        (add_unknown, 0),
        (count_from_zero, 9),
    ],
)
async def test_what_is_good_in_a_block_is_kept(
    change: Callable[[list[Any]], None], singly: int
) -> None:
    llm, metrics = Oracle(mind("sem_filter")), StepMetrics()
    await ask(
        some("sem_filter"), "packed(rows=9)", Faulty(llm, packed_only(entries(change))), metrics
    )
    assert Counter(map(is_packed, llm.requests)) == Counter({True: 1, False: singly})
    assert metrics.unusable == (singly > 0)


@pytest.mark.parametrize("spoil", [cut, cut_error, refused, rejected])
async def test_a_block_without_an_answer_is_halved(spoil: Spoil) -> None:
    llm = Oracle(mind("sem_filter"))

    def large(request: Request, reply: Reply) -> Reply:
        return spoil(request, reply) if len(lines(parts(request)[1])) > 3 else reply

    ours = await ask(some("sem_filter", 8), "packed(rows=8)", Faulty(llm, large))
    assert answers(ours) == answers(await ask(some("sem_filter", 8), "per_row"))
    assert [len(lines(parts(request)[1])) for request in llm.requests] == [8, 4, 4, 2, 2, 2, 2]


async def test_one_poisonous_row_of_a_block_is_found_by_halving() -> None:
    llm, metrics = Oracle(mind("sem_filter")), StepMetrics()
    case = some("sem_filter", 16)
    case.texts[5] = "poison"

    def spoil(request: Request, reply: Reply) -> Reply:
        return rejected(request, reply) if "poison" in request.messages[1].content else reply

    errors = (
        (await ask(case, "packed(rows=16)", Faulty(llm, spoil), metrics))
        .column("error")
        .to_pylist()
    )
    assert [i for i, error in enumerate(errors) if error] == [5]
    assert len(llm.requests) == metrics.attempts == 9
    assert metrics.calls_issued == 4


# ------------------------------------------------------------------------------------------- blocks
# of pairs


def on_matches(change: Callable[[list[Any], int, int], None]) -> Spoil:
    """Change the matches of a block, given how many left and right records it has."""

    def spoil(request: Request, reply: Reply) -> Reply:
        left, _, right = parts(request)[1].partition("\n\nRight records:\n")
        counts = len(lines(left)), len(lines("Right records:\n" + right))

        def edit(document: dict[str, Any]) -> dict[str, Any]:
            if document["matches"]:
                change(document["matches"], *counts)
            return document

        return edited(reply, edit)

    spoil.__name__ = change.__name__
    return spoil


def unknown_left(found: list[Any], lefts: int, rights: int) -> None:
    found[0]["left"] = lefts + 1


def unknown_right(found: list[Any], lefts: int, rights: int) -> None:
    found[0]["right"] = 101 + rights


def sides_swapped(found: list[Any], lefts: int, rights: int) -> None:
    found[0]["left"], found[0]["right"] = found[0]["right"], found[0]["left"]


def rights_from_one(found: list[Any], lefts: int, rights: int) -> None:
    for entry in found:
        entry["right"] -= 100


def same_pair_twice(found: list[Any], lefts: int, rights: int) -> None:
    found.append({**found[0], "verdict": "alike", "note": "other"})


def no_verdict(found: list[Any], lefts: int, rights: int) -> None:
    found[0]["verdict"] = "perhaps"


def no_number(found: list[Any], lefts: int, rights: int) -> None:
    found[0]["right"] = None


PAIRS = [
    unknown_left,
    unknown_right,
    sides_swapped,
    rights_from_one,
    same_pair_twice,
    no_verdict,
    no_number,
]


@pytest.mark.parametrize("spoil", [*WHOLE, *map(on_matches, PAIRS)])
@pytest.mark.parametrize(("operator", "way"), BLOCKS)
async def test_whatever_comes_back_wrong_from_a_block_of_pairs_is_asked_again(
    operator: str, way: str, spoil: Spoil
) -> None:
    ours = await ask(some(operator), way, Faulty(Oracle(mind(operator)), packed_only(spoil)))
    assert answers(ours) == answers(await ask(some(operator), "nested_loop"))


async def test_a_match_that_was_not_asked_about_puts_only_its_left_row_in_doubt() -> None:
    case = Case(
        "sem_join", ["a1", "b2", "c3"], others=["a7", "b8"], pairs=[(0, 0), (1, 0), (1, 1), (2, 1)]
    )
    llm = Oracle(mind("sem_join"))

    def spoil(request: Request, reply: Reply) -> Reply:
        if len(llm.requests) > 1:
            return reply
        stray = {"left": 1, "right": 102, "verdict": "same", "note": None}
        return edited(reply, lambda document: {"matches": [stray, *document["matches"][1:]]})

    ours = await ask(case, "block", Faulty(llm, spoil))
    assert answers(ours) == answers(await ask(case, "nested_loop"))
    assert len(llm.requests) == 2
    assert "a1" in llm.requests[1].messages[1].content


# ------------------------------------------------------------------------------------------- single
# questions


def wrong_answer(request: Request, reply: Reply) -> Reply:
    """A value of a wrong type under the last key."""
    return edited(reply, lambda document: {**document, list(document)[-1]: {"no": "such"}})


WORDS = [way for way in ways() if way[1] == "logit"]
SINGLE = [prose, cut, cut_error, bare, twice, more_keys, wrong_answer]


@pytest.mark.parametrize("spoil", SINGLE)
@pytest.mark.parametrize("operator", OPERATORS)
async def test_a_wrong_answer_is_asked_for_once_more_with_what_was_wrong(
    operator: str, spoil: Spoil
) -> None:
    llm = Oracle(mind(operator))
    ours = await ask(some(operator, 3), reference(operator), Faulty(llm, once(spoil)))
    assert answers(ours) == answers(await ask(some(operator, 3), reference(operator)))
    first = [request for request in llm.requests if AGAIN not in request.messages[1].content]
    again = [request for request in llm.requests if AGAIN in request.messages[1].content]
    assert len(again) == len(first) == len(set(first))
    for request in again:
        asked = request.messages[1].content.split(f"\n\n{AGAIN}")[0]
        assert any(asked == other.messages[1].content for other in first)


@pytest.mark.parametrize("spoil", SINGLE)
@pytest.mark.parametrize(("operator", "way"), [way for way in ways() if way not in WORDS])
async def test_what_stays_wrong_becomes_the_row_s_error(
    operator: str, way: str, spoil: Spoil
) -> None:
    llm, metrics = Oracle(mind(operator)), StepMetrics()
    case = some(operator, 3)
    table = await ask(case, way, Faulty(llm, spoil), metrics)
    kind = "truncated" if spoil in {cut, cut_error} else "invalid"
    asked = [row for row in table.to_pylist() if row["calls"]]
    assert len(asked) == table.num_rows or (operator, way) not in ways(
        same=True
    )  # some need no model
    assert asked
    for row in asked:
        assert row["error"].startswith(f"{kind}: ")
        assert all(
            value is None for name, value in row.items() if name not in {"item", "error", "calls"}
        )
        assert row["calls"]
    assert metrics.calls_issued == len(llm.requests)


def another_word(request: Request, reply: Reply) -> Reply:
    return replace(reply, text="Perhaps", logprobs=(-math.inf,) * len(request.words))


@pytest.mark.parametrize(("operator", "way"), WORDS)
async def test_another_word_than_those_asked_for_is_asked_once_more_and_then_the_row_s_error(
    operator: str, way: str
) -> None:
    case, llm = some(operator, 3), Oracle(mind(operator))
    table = await ask(case, way, Faulty(llm, another_word))
    for row in table.to_pylist():
        assert row["error"].startswith("invalid: the answer must be one of the words ")
        assert all(
            value is None for name, value in row.items() if name not in {"item", "error", "calls"}
        )
    assert len(llm.requests) == 2 * table.num_rows
    ours = await ask(case, way, Faulty(Oracle(mind(operator)), once(another_word)))
    assert answers(ours) == answers(await ask(case, way))


@pytest.mark.parametrize("spoil", [refused, refused_error])
@pytest.mark.parametrize("operator", OPERATORS)
async def test_a_refusal_is_not_asked_again(operator: str, spoil: Spoil) -> None:
    llm = Oracle(mind(operator))
    table = await ask(some(operator, 3), reference(operator), Faulty(llm, spoil))
    assert all(error.startswith("refused: ") for error in table.column("error").to_pylist())
    assert len(llm.requests) == {"sem_join": 12, "sem_agg": 1}.get(operator, 3)


async def test_what_was_wrong_is_named_without_quoting_the_answer() -> None:
    llm = Oracle(mind("sem_map"))

    def spoil(request: Request, reply: Reply) -> Reply:
        return edited(reply, lambda document: document | {"size": "a secret, on Tuesday"})

    table = await ask(some("sem_map", 1), "per_row", Faulty(llm, spoil))
    assert table.column("error").to_pylist() == ["invalid: size must be integer"]
    assert (
        llm.requests[1]
        .messages[1]
        .content.endswith(
            "\n\nYour last answer was not valid: size must be integer. Answer again, in the form asked for."
        )
    )


@pytest.mark.parametrize(
    "value", ["2024-02-30T00:00:00Z", "yesterday", "", "02/03/2024", 20240229, "24:00"]
)
async def test_a_date_that_is_none_is_null_where_it_may_be(value: Any) -> None:
    def spoil(request: Request, reply: Reply) -> Reply:
        return edited(reply, lambda document: document | {"seen": value})

    llm = Oracle(mind("sem_map"))
    (row,) = answers(await ask(some("sem_map", 1), "per_row", Faulty(llm, spoil)))
    assert (row["error"], row["seen"]) == (None, None)
    assert len(llm.requests) == 1


@pytest.mark.parametrize("score", [-1, 100.5, "80", None, True, 1e400])
async def test_a_score_out_of_range_is_no_answer(score: Any) -> None:
    def spoil(request: Request, reply: Reply) -> Reply:
        return replace(reply, text=json.dumps({"score": score}))

    (row,) = answers(
        await ask(some("sem_topk", 1), "pointwise", Faulty(Oracle(mind("sem_topk")), spoil))
    )
    assert row["error"].startswith("invalid: ")


@pytest.mark.parametrize("ranking", [[1, 2], [1, 2, 2], [0, 1, 2], [1, 2, 4], ["1", "2", "3"], []])
async def test_a_ranking_must_have_each_row_once(ranking: list[Any]) -> None:
    llm = Oracle(mind("sem_topk"))
    always = Faulty(
        llm, lambda request, reply: replace(reply, text=json.dumps({"ranking": ranking}))
    )
    errors = (await ask(some("sem_topk", 3), "listwise", always)).column("error").to_pylist()
    assert errors == ["invalid: ranking must have each number from 1 to 3 once"] * 3
    assert len(llm.requests) == 2


async def test_a_pair_that_matches_must_have_its_answers() -> None:
    def spoil(request: Request, reply: Reply) -> Reply:
        return edited(reply, lambda document: document | {"verdict": None})

    rows = answers(
        await ask(some("sem_join", 1), "nested_loop", Faulty(Oracle(mind("sem_join")), spoil))
    )
    assert [row["error"] for row in rows] == [
        "invalid: verdict must not be null if match is true",
        None,
        None,
        None,
    ]


async def test_what_a_pair_without_a_match_says_besides_is_dropped() -> None:
    def spoil(request: Request, reply: Reply) -> Reply:
        return edited(reply, lambda document: {"match": False, "verdict": "same", "note": "x"})

    rows = answers(
        await ask(some("sem_join", 1), "nested_loop", Faulty(Oracle(mind("sem_join")), spoil))
    )
    assert all(
        (row["match"], row["verdict"], row["note"], row["error"]) == (False, None, None, None)
        for row in rows
    )
