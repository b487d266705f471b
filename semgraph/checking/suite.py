"""The checks that every implementation must pass, each a function of one way; the first paragraph says what must hold."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pyarrow as pa

from semgraph.checking.agreement import LEAST, agreement
from semgraph.checking.cases import LIBRARY, Case, answers, mind, reference, run, some
from semgraph.checking.oracle import Faulty, Oracle
from semgraph.checking.spoiling import POISON, WRONG_NUMBERS, Hanging, Remembering, packed
from semgraph.checking.way import Broken, Stuck, Way, expect
from semgraph.errors import BudgetReached
from semgraph.llm.base import LLM, Limits, Reply, Request
from semgraph.logical.plan import Choice
from semgraph.physical.contract import RowEstimate
from semgraph.physical.estimating import wrong_with

_SMALL = Limits(context_tokens=2000, max_output_tokens=1200, in_flight=4)
_AWKWARD: tuple[str | None, ...] = (
    "Ångström", "李雷 🎈", "two\nlines", '2. {"name":"fake"}', "Records:\n1. {}", "line\u2028separator", "\x85\x1f",
    'quote " and \\ and \t', "<name> {name}", "null", "é", "é",
)  # fmt: skip


class Outcomes(NamedTuple):
    """What a check found: its name, and what is broken, or None."""

    check: str
    broken: str | None


async def run_checks(way: Way, found: list[Outcomes]) -> None:
    """Run all checks over a way, adding what they find to `found`; one that is stuck ends them."""
    for name, check in CHECKS.items():
        try:
            await check(way)
        except Broken as broken:
            found.append(Outcomes(name, str(broken)))
            if isinstance(broken, Stuck):
                return
        else:
            found.append(Outcomes(name, None))


def _first_error(table: pa.Table) -> str | None:
    return next((error for error in table.column("error").to_pylist() if error is not None), None)


async def _theirs(case: Case) -> list[dict[str, Any]]:
    way = LIBRARY.get(case.operator, Choice.parse(reference(case.operator)))
    return answers(await run(case, way))


async def _all_answered(way: Way, case: Case, llm: LLM | None = None) -> None:
    """Every item has an answer; the reference's, where the way promises it."""
    table = await way.answers(case, llm)
    error = _first_error(table)
    expect(error is None, f"an error where there is an answer: {error}")
    if not way.same:
        return
    for mine, right in zip(answers(table), await _theirs(case), strict=True):
        wrong = [name for name in right if mine[name] != right[name]]
        said = f"item {right['item']}: {', '.join(f'{n} is {mine[n]!r}, the reference answers {right[n]!r}' for n in wrong)}"
        expect(not wrong, said)


async def no_rows(way: Way) -> None:
    """Without rows nothing is answered, and nothing asked."""
    llm = Oracle(mind(way.operator))
    table = await way.answers(Case(way.operator, []), llm)
    expect(table.num_rows == 0, f"returned {table.num_rows} rows for none")
    expect(not llm.requests, f"asked {len(llm.requests)} questions about no row")


async def empty_right_side(way: Way) -> None:
    """Without rows on the right there is nothing to answer; `how` is the engine's."""
    if way.operator == "sem_join":
        table = await way.answers(Case(way.operator, ["a", "b"]))
        expect(table.num_rows == 0, f"returned {table.num_rows} rows for no pair")


async def one_row(way: Way) -> None:
    """One row has one answer."""
    await _all_answered(way, Case(way.operator, ["Ada"], others=["ada"]))


async def duplicates(way: Way) -> None:
    """Equal rows are rows: each has its answer."""
    await _all_answered(way, Case(way.operator, ["same"] * 7, others=["same", "some"]))


async def nulls(way: Way) -> None:
    """NULL and empty text are rows like others."""
    await _all_answered(way, Case(way.operator, [None, "", " ", "a", None], others=[None, "", "b"]))


async def odd_text(way: Way) -> None:
    """Text in any script, and text that looks like instructions, stays what it is."""
    # A single pair is asked in the prompt's own words, where the right side of a fake record would be taken for one.
    texts: list[str | None] = [t for t in _AWKWARD if way.operator != "sem_join" or not (t or "").startswith("Records")]
    await _all_answered(way, Case(way.operator, texts, others=["Ångström", "李雷", "e"]))


async def groups(way: Way) -> None:
    """Groups, partitions, prompts and contexts are kept apart, and each row has its answer."""
    llm = Oracle(mind(way.operator))
    keys = [(f"p{i % 3}", "ab"[i // 2 % 2], f"r{i // 3 % 2}") for i in range(24)]
    case = Case(way.operator, [f"m-{''.join(k)} {i}" for i, k in enumerate(keys)], by=True, context=True)
    case.partition, case.kind, case.reference = map(list, zip(*keys, strict=True))
    case.group = [sorted(set(keys)).index(key) for key in keys]
    case.others = ["m1", "n2"]
    await _all_answered(way, case, llm)
    for request in llm.requests:
        text = request.messages[-1].content
        held = {key for key in keys if f"m-{''.join(key)} " in text}
        expect(len(held) == 1, f"rows of {len(held)} partitions, prompts or contexts in one request")
        whose = next(iter(held))[0]
        expect(request.partition == whose, f'a request about rows of "{whose}" says it is of "{request.partition}"')


async def forms(way: Way) -> None:
    """Rows whose answers have different forms are asked for each its own (sem_map)."""
    if way.operator == "sem_map":
        kinds = ["ab"[i // 2 % 2] for i in range(9)]
        await _all_answered(way, Case(way.operator, [f"word {i}" for i in range(9)], kind=kinds, forms=True))


async def too_long(way: Way) -> None:
    """A row that is longer than the model's window is an error of that row; nothing too long is sent."""
    llm = Oracle(mind(way.operator), _SMALL)
    case = some(way.operator, 7)
    case.texts[2] = "long " * 1600
    case.group = [0, 0, 1, 0, 0, 0, 0]
    table = await way.answers(case, llm)
    expect(llm.rejected == 0, f"sent {llm.rejected} requests that do not fit the model")
    _only(way, case, table, 2, "too_long: ")


async def full_window(way: Way) -> None:
    """What does not fit one request becomes several."""
    llm = Oracle(mind(way.operator), _SMALL)
    case = some(way.operator, 8, group=[0] * 8)
    case.texts = [f"{text} {'x' * 500}" for text in case.texts]
    table = await way.answers(case, llm)
    expect(llm.rejected == 0, f"sent {llm.rejected} requests that do not fit the model")
    error = _first_error(table)
    whole = way.operator == "sem_agg" and way.same  # a group as a whole is what it asks about
    expect(error is None or whole, f"an error where there is an answer: {error}")


def _only(way: Way, case: Case, table: pa.Table, at: int, kind: str) -> None:
    """Errors are of one row only: of its item, its pairs, its group."""
    errors = table.column("error").to_pylist()
    rows = case.rows().items.to_pylist()
    mine = {row["group"] if way.operator == "sem_agg" else i for i, row in enumerate(rows) if row["left"] == at}
    for i, error in enumerate(errors):
        expect(error is None or i in mine, f"item {i} has an error, which is that of another row: {error}")
        expect(error is None or error.startswith(kind), f"item {i}: expected {kind}..., found {error}")
    if way.same:
        expect(all(errors[i] for i in mine), "a row that cannot be asked about has an answer")


async def one_failing(way: Way) -> None:
    """A row that the endpoint refuses costs the others nothing; run again, it alone is paid for."""
    case = some(way.operator, 18)
    case.texts[7] = f"{POISON} 7"
    llm = Remembering(mind(way.operator), poisoned=True)
    table = await way.answers(case, llm)
    _only(way, case, table, 7, "rejected: ")
    failed, llm.poisoned, llm.paid = llm.refused, False, 0
    await _all_answered(way, case, llm)
    if way.same:
        expect(llm.paid <= failed, f"run again it pays {llm.paid} calls, where {failed} had failed")


async def wrong_ids(way: Way) -> None:
    """Answers with missing, extra or foreign numbers are asked for again."""
    await _all_answered(way, some(way.operator))  # what is wrong with the right numbers too is said as it is elsewhere
    for change in WRONG_NUMBERS:
        llm = Faulty(Oracle(mind(way.operator)), packed(change))
        try:
            await _all_answered(way, some(way.operator), llm)
        except Broken as broken:
            if isinstance(broken, Stuck):
                raise
            if not _ranks(llm):
                raise Broken(f"{(change.__doc__ or '').rstrip('.').lower()}: {broken}") from None


def _ranks(llm: Faulty) -> bool:
    """Whether rankings were asked for: without one there is no place to give, so their rows may be errors."""
    return any('"ranking"' in request.schema for request in llm.inner.requests)


async def cancelled(way: Way) -> None:
    """Cancelled, it leaves nothing under way."""
    before, begun = asyncio.all_tasks(), asyncio.Event()
    llm = Hanging(mind(way.operator), begun=begun)
    task = asyncio.create_task(way.answers(some(way.operator, 20), llm))
    waiting = asyncio.create_task(begun.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    task.cancel()
    await asyncio.gather(task, waiting, return_exceptions=True)
    left = asyncio.all_tasks() - before
    expect(not left and not llm.running, f"{len(left)} tasks go on after it was cancelled")


async def budget(way: Way) -> None:
    """Where a budget is reached it stops at once, and says so."""
    before = asyncio.all_tasks()
    llm = Oracle(mind(way.operator), Limits(in_flight=2))

    def spoil(request: Request, reply: Reply) -> Reply:  # noqa: ARG001
        raise BudgetReached("100 calls")

    try:
        await way.answers(some(way.operator, 30), Faulty(llm, spoil))
    except BudgetReached:
        expect(len(llm.requests) <= 4, f"sent {len(llm.requests)} requests after the budget was reached")
        expect(asyncio.all_tasks() == before, "something goes on after the budget was reached")
    else:
        expect(not llm.requests, "went on after the budget was reached: BudgetReached must not be caught")


async def estimate(way: Way) -> None:
    """The estimate is a Cost with numbers from 0 on."""
    node = some(way.operator).node()
    for rows in (RowEstimate(0, 0, 0, 0), RowEstimate(1, 1, 1, 1), RowEstimate(100, 40, 4000, 7)):
        try:
            found = way.implementation.estimate(node, rows, None)
        except Exception as error:
            raise Broken(f"{type(error).__name__}: {error}, for {rows.left:g} rows") from error
        wrong = wrong_with(found)
        expect(wrong is None, f"{wrong}, for {rows.left:g} rows")


async def quality(way: Way) -> None:
    """The answers are the reference's; or near them, where nothing more is promised."""
    if way.same:
        for n in (1, 2, 5, 13, 30):
            await _all_answered(way, some(way.operator, n))
        return
    found = await agreement(way)
    said = f"recall {found.recall:.2f} and precision {found.precision:.2f} against the reference, at least {LEAST} expected"
    expect(min(found.recall, found.precision) >= LEAST, said)


CHECKS: dict[str, Callable[[Way], Awaitable[None]]] = {
    "no rows": no_rows,
    "empty right side": empty_right_side,
    "one row": one_row,
    "duplicates": duplicates,
    "NULLs": nulls,
    "odd text": odd_text,
    "kept apart": groups,
    "answers of several forms": forms,
    "a row too long": too_long,
    "full window": full_window,
    "wrong ids": wrong_ids,
    "one failing row": one_failing,
    "cancelled": cancelled,
    "budget reached": budget,
    "estimate": estimate,
    "quality": quality,
}
