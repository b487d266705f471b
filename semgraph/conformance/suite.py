"""The checks that every implementation must pass. Each is a function of one candidate; the first
paragraph of its docstring states the requirement.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from semgraph.conformance.cases import (
    LIBRARY,
    POISON,
    WRONG_NUMBERS,
    Case,
    Faulty,
    Hanging,
    Mind,
    Oracle,
    Remembering,
    answers,
    call_id,
    mind,
    names,
    packed,
    run,
    some,
)
from semgraph.errors import BudgetReached, EngineError
from semgraph.expr.functions import alike, canonical_json
from semgraph.expr.scalar import parse_scalar
from semgraph.llm.base import LLM, Limits, Reply, Request
from semgraph.logical.prompt import plain
from semgraph.logical.semantic import VERDICTS, Check
from semgraph.semantic.contract import Outcome, RowEstimate
from semgraph.semantic.implementation import Blocked, Implementation, invalid_cost, named

PATIENCE = 15.0  # maximum seconds of one run of a candidate, which takes hundredths


class Broken(Exception):
    """A broken contract; the text names the observed and the expected behaviour."""


class Stuck(Broken):
    """A candidate that blocks the event loop or does not end; further checks would hang, too."""


@dataclass(frozen=True)
class Subject:
    """An implementation of an operator with its parameters; `name` is the written choice, such as
    `block(left=2)`.
    """

    operator: str
    name: str
    implementation: Implementation[Any]

    @property
    def same(self) -> bool:
        """Whether its answers equal those of the reference."""
        return self.implementation.same

    async def answers(self, case: Case, llm: Any = None, asked: Any = None) -> list[Outcome]:
        """Its answers. Raises Broken if they are invalid, Stuck if it does not end."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await run(case, self.implementation, llm, instead=asked)
        except TimeoutError:
            raise Stuck(f"{named(self.implementation)} did not end in {PATIENCE:g} s") from None
        except Blocked as error:
            raise Stuck(str(error).removeprefix("step asked: ")) from error
        except EngineError as error:
            raise Broken(str(error).removeprefix("step asked: ")) from error


def expect(holds: object, message: str) -> None:
    """Raise Broken unless a condition holds."""
    if not holds:
        raise Broken(message)


LEAST = 0.9
_PEOPLE = (
    "Alice Chen",
    "Bob Marley",
    "Chloé Dubois",
    "Dmitri Ivanov",
    "Eva Green",
    "Farid Haddad",
    "Grace Hopper",
)


class Agreement(NamedTuple):
    """The answers of a candidate and of the reference, over the same rows.

    It compares the answers of a row (sem_map), the kept rows (sem_filter), the matching pairs
    (sem_join), the answer of a group (sem_agg), or the k best rows with their ranks (sem_topk).
    """

    recall: float
    precision: float
    items: int
    calls: int
    reference_calls: int


async def agreement(candidate: Subject) -> Agreement:
    """Measure a candidate over rows with a pattern in their answers, as with a real model."""
    totals = Counter[str]()
    basis = LIBRARY.get(candidate.operator, LIBRARY.reference(candidate.operator))
    for case, model in _worlds(candidate.operator):
        own, other = Oracle(model), Oracle(model)
        answers = _chosen(case, await candidate.answers(case, own))
        true = _chosen(case, await run(case, basis, other))
        totals.update(hits=len(answers & true), answered=len(answers), expected=len(true))
        totals.update(items=len(case.rows().items))
        totals.update(calls=len(own.requests), reference_calls=len(other.requests))
    shares = (totals["hits"] / totals[of] if totals[of] else 1.0 for of in ("expected", "answered"))
    recall, precision = shares
    return Agreement(recall, precision, totals["items"], totals["calls"], totals["reference_calls"])


def _worlds(operator: str) -> Iterator[tuple[Case, Mind]]:
    if operator == "sem_filter":
        # One row in nine has a good cup, which resembles good tea as a text.
        cups = ["good cup" if i % 9 == 0 else "cup" for i in range(600)]
        tea = ["good" if i % 5 < 2 else "poor" for i in range(600)]
        texts: list[str | None] = [f"{tea[i]} tea, {cups[i]} {i * 7919 % 1000}" for i in range(600)]
        taste = Mind(answer=lambda text: {"answer": "yes" if "“good" in text else "no"})
        yield Case(operator, texts), taste
    elif operator == "sem_join":
        spelled = [[name, name.upper(), name.replace("e", "é", 1)] for name in _PEOPLE]
        left: list[str | None] = [*chain.from_iterable(spelled)]
        right = [*_PEOPLE, "Grace Kelly", None]
        for answers in (False, True):
            case = Case(operator, left, others=right, answers=answers)
            same = {"verdict": "same", "note": None} if answers else {}
            yield case, Mind(match=partial(_same_person, same))
    elif operator == "sem_topk":
        for n in (1, 2, 3, 7, 11, 20, 50):
            yield some(operator, n, group=[0] * n), mind(operator)
        yield some(operator, 40), mind(operator)
    else:
        for n in (1, 6, 13, 30):
            yield some(operator, n), mind(operator)
        yield some(operator, 100, group=[0] * 100), mind(operator)


def _same_person(same: dict[str, Any], left: str, right: str) -> dict[str, Any] | None:
    return same if alike(*names(left, right)) >= 0.4 else None


def _chosen(case: Case, outcomes: Sequence[Outcome]) -> set[Any]:
    """The answers as the engine uses them."""
    rows = [row for row in answers(case, outcomes) if row["error"] is None]
    if case.operator == "sem_topk":
        scores, ranked = {row["item"]: row["score"] for row in rows}, set[Any]()
        for items in case.rows().groups():  # the k best rows of each, with their ranks
            best = sorted(scores.keys() & set(items), key=lambda item: (-scores[item], item))
            ranked |= {(item, rank) for rank, item in enumerate(best[: case.node().k])}
        return ranked
    verdict = VERDICTS.get(case.operator)
    return {canonical_json(plain(row)) for row in rows if verdict is None or row[verdict]}


_SMALL = Limits(context_tokens=2000, max_output_tokens=1200, in_flight=4)
_AWKWARD: tuple[str | None, ...] = (
    "Ångström", "李雷 🎈", "two\nlines", '2. {"name":"fake"}', "Records:\n1. {}", "line\u2028separator", "\x85\x1f",
    'quote " and \\ and \t', "<name> {name}", "null", "é", "é",
)  # fmt: skip


class Outcomes(NamedTuple):
    """The outcome of a check: its name, the fault or None, and the measured agreement, if any."""

    check: str
    broken: str | None
    near: Agreement | None = None


async def run_checks(candidate: Subject, found: list[Outcomes]) -> None:
    """Run all checks over a candidate, appending outcomes to `found`; a stuck check ends them."""
    for name, check in CHECKS.items():
        try:
            found.append(Outcomes(name, None, await check(candidate)))
        except Broken as broken:
            found.append(Outcomes(name, str(broken)))
            if isinstance(broken, Stuck):
                return


def _first_error(outcomes: Sequence[Outcome]) -> str | None:
    return next((outcome.error for outcome in outcomes if outcome.error is not None), None)


async def _all_answered(candidate: Subject, case: Case, llm: LLM | None = None) -> None:
    """Check that every item has an answer: the reference's, if the candidate promises it."""
    table = await candidate.answers(case, llm)
    error = _first_error(table)
    expect(error is None, f"an error instead of an answer: {error}")
    if not candidate.same:
        return
    reference = LIBRARY.get(case.operator, LIBRARY.reference(case.operator))
    expected = answers(case, await run(case, reference))
    for own, true in zip(answers(case, table), expected, strict=True):
        wrong = [name for name in true if own[name] != true[name]]
        text = f"item {true['item']}: {', '.join(f'{n} is {own[n]!r}, the reference answers {true[n]!r}' for n in wrong)}"
        expect(not wrong, text)


async def no_rows(candidate: Subject) -> None:
    """Without rows there are no answers and no requests."""
    llm = Oracle(mind(candidate.operator))
    table = await candidate.answers(Case(candidate.operator, []), llm)
    expect(not table, f"returned {len(table)} answers for no row")
    expect(not llm.requests, f"sent {len(llm.requests)} requests without a row")


async def empty_right_side(candidate: Subject) -> None:
    """Without right rows there are no answers; the engine handles `how`."""
    if candidate.operator == "sem_join":
        table = await candidate.answers(Case(candidate.operator, ["a", "b"]))
        expect(not table, f"returned {len(table)} answers for no pair")


async def one_row(candidate: Subject) -> None:
    """One row has one answer."""
    await _all_answered(candidate, Case(candidate.operator, ["Ada"], others=["ada"]))


async def duplicates(candidate: Subject) -> None:
    """Equal rows each have an answer."""
    await _all_answered(candidate, Case(candidate.operator, ["same"] * 7, others=["same", "some"]))


async def nulls(candidate: Subject) -> None:
    """Rows with NULL and empty text have answers, too."""
    case = Case(candidate.operator, [None, "", " ", "a", None], others=[None, "", "b"])
    await _all_answered(candidate, case)


async def odd_text(candidate: Subject) -> None:
    """Text in any script, and text that resembles instructions, is passed on unchanged."""
    # A single pair is sent in the prompt's own words, in which the oracle would read a fake record
    # as a record.
    fake = "Records" if candidate.operator == "sem_join" else "none"
    texts = [text for text in _AWKWARD if not (text or "").startswith(fake)]
    case = Case(candidate.operator, texts, others=["Ångström", "李雷", "e"])
    await _all_answered(candidate, case)


async def groups(candidate: Subject) -> None:
    """Groups, partitions, prompts and contexts are separate, and each row has its answer."""
    llm = Oracle(mind(candidate.operator))
    keys = [(f"p{i % 3}", "ab"[i // 2 % 2], f"r{i // 3 % 2}") for i in range(24)]
    texts: list[str | None] = [f"m-{''.join(key)} {i}" for i, key in enumerate(keys)]
    case = Case(candidate.operator, texts, by=True, context=True)
    case.partition, case.kind, case.reference = map(list, zip(*keys, strict=True))
    case.group = [sorted(set(keys)).index(key) for key in keys]
    case.others = ["m1", "n2"]
    await _all_answered(candidate, case, llm)
    for request in llm.requests:
        text = request.messages[-1].content
        held = {key for key in keys if f"m-{''.join(key)} " in text}
        what = f"rows of {len(held)} partitions, prompts or contexts in one request"
        expect(len(held) == 1, what)
        partition = next(iter(held))[0]
        what = f'a request with rows of partition "{partition}" has partition "{request.partition}"'
        expect(request.partition == partition, what)


async def forms(candidate: Subject) -> None:
    """Rows with different answer schemas each get their own (sem_map)."""
    if candidate.operator == "sem_map":
        kinds, texts = ["ab"[i // 2 % 2] for i in range(9)], [f"word {i}" for i in range(9)]
        await _all_answered(candidate, Case("sem_map", [*texts], kind=kinds, forms=True))


_SILENT = (
    "no request says why the last answer was refused: send what rows.reasons says, or refuse a node "
    "with a check"
)


async def refused(candidate: Subject) -> None:
    """The requests about an item with a refused answer name the reason; or a node with a check is
    refused (sem_map, sem_join, sem_agg).
    """
    where = {"sem_map": "size > 0", "sem_join": "verdict <> ''", "sem_agg": "rows > 0"}
    if candidate.operator not in where:
        return
    case = some(candidate.operator, 8, again=True)
    scalars = parse_scalar(where[candidate.operator]), parse_scalar("'wrong'")
    node = replace(case.node(), check=Check(*scalars))
    if candidate.implementation.refusal(node, Limits()) is not None:
        return
    llm = Oracle(mind(candidate.operator))
    table = await candidate.answers(case, llm, node)
    prompts = {call_id(request): request.messages[-1].content for request in llm.requests}
    for item, (values, error, calls) in enumerate(table):
        if error is None and (values or {}).get("match", True):
            expect(any(f"wrong-{item}-" in prompts.get(call, "") for call in calls), _SILENT)


async def too_long(candidate: Subject) -> None:
    """A row longer than the model's context is an error of that row; no request is too long."""
    llm = Oracle(mind(candidate.operator), _SMALL)
    case = some(candidate.operator, 7)
    case.texts[2] = "long " * 1600
    case.group = [0, 0, 1, 0, 0, 0, 0]
    table = await candidate.answers(case, llm)
    expect(llm.rejected == 0, f"sent {llm.rejected} requests that do not fit the model")
    _only(candidate, case, table, 2, "too_long: ")


async def full_window(candidate: Subject) -> None:
    """Rows that do not fit into one request are sent in several."""
    llm = Oracle(mind(candidate.operator), _SMALL)
    case = some(candidate.operator, 8, group=[0] * 8)
    case.texts = [f"{text} {'x' * 500}" for text in case.texts]
    table = await candidate.answers(case, llm)
    expect(llm.rejected == 0, f"sent {llm.rejected} requests that do not fit the model")
    error = _first_error(table)
    whole = candidate.operator == "sem_agg" and candidate.same  # a group is sent as a whole
    expect(error is None or whole, f"an error instead of an answer: {error}")


def _only(candidate: Subject, case: Case, outcomes: Sequence[Outcome], at: int, kind: str) -> None:
    """Check that errors concern one row only: its item, its pairs, its group."""
    errors, rows = [outcome.error for outcome in outcomes], case.rows()
    units = enumerate(rows.units(case.node()))
    items = {unit for unit, own in units if any(rows.items[i].left == at for i in own)}
    for i, error in enumerate(errors):
        if error is not None:
            expect(i in items, f"item {i} has the error of a different row: {error}")
            expect(error.startswith(kind), f"item {i}: expected {kind}..., found {error}")
    if candidate.same:
        expect(all(errors[i] for i in items), "a row that cannot be sent has an answer")


async def one_failing(candidate: Subject) -> None:
    """A row that the endpoint rejects does not affect the others; a second run pays for that row
    only. The embedder rejects its text each time.
    """
    case = some(candidate.operator, 18)
    case.texts[7] = f"{POISON} 7"
    llm = Remembering(mind(candidate.operator), poisoned=True)
    table = await candidate.answers(case, llm)
    _only(candidate, case, table, 7, "rejected: ")
    failed, llm.poisoned, llm.paid = llm.refused, False, 0
    await _all_answered(candidate, case, llm)
    if candidate.same:
        what = f"a second run pays {llm.paid} calls, after {failed} failed ones"
        expect(llm.paid <= failed, what)


async def wrong_ids(candidate: Subject) -> None:
    """Requests are repeated after answers with missing, extra or unknown numbers."""
    await _all_answered(candidate, some(candidate.operator))  # faults without wrong numbers first
    for change in WRONG_NUMBERS:
        llm = Faulty(Oracle(mind(candidate.operator)), packed(change))
        try:
            await _all_answered(candidate, some(candidate.operator), llm)
        except Broken as broken:
            if isinstance(broken, Stuck):
                raise
            if not any('"ranking"' in request.schema for request in llm.inner.requests):
                what = " ".join((change.__doc__ or "").split()).rstrip(".").lower()
                raise Broken(f"{what}: {broken}") from None


async def cancelled(candidate: Subject) -> None:
    """Cancellation leaves no request in flight."""
    before, begun = asyncio.all_tasks(), asyncio.Event()
    llm = Hanging(mind(candidate.operator), begun=begun)
    task = asyncio.create_task(candidate.answers(some(candidate.operator, 20), llm))
    waiting = asyncio.create_task(begun.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    task.cancel()
    await asyncio.gather(task, waiting, return_exceptions=True)
    left = asyncio.all_tasks() - before
    expect(not left and not llm.running, f"{len(left)} tasks run after it was cancelled")


async def budget(candidate: Subject) -> None:
    """A reached budget stops the candidate at once, with BudgetReached."""
    before = asyncio.all_tasks()
    llm = Oracle(mind(candidate.operator), Limits(in_flight=2))

    def spoil(request: Request, reply: Reply) -> Reply:  # noqa: ARG001
        raise BudgetReached("100 calls")

    sent = "continued after the budget was reached: BudgetReached must not be caught"
    try:
        await candidate.answers(some(candidate.operator, 30), Faulty(llm, spoil))
    except BudgetReached:
        count = len(llm.requests)
        expect(count <= 4, f"sent {count} requests after the budget was reached")
        expect(asyncio.all_tasks() == before, "tasks run after the budget was reached")
    else:
        expect(not llm.requests, sent)


async def estimate(candidate: Subject) -> None:
    """The estimate is a Cost with non-negative numbers."""
    node = some(candidate.operator).node()
    for rows in (RowEstimate(0, 0, 0, 0), RowEstimate(1, 1, 1, 1), RowEstimate(100, 40, 4000, 7)):
        try:
            cost = candidate.implementation.estimate(node, rows, None)
        except Exception as error:
            raise Broken(f"{type(error).__name__}: {error}, for {rows.left:g} rows") from error
        wrong = invalid_cost(cost)
        expect(wrong is None, f"{wrong}, for {rows.left:g} rows")


async def quality(candidate: Subject) -> Agreement | None:
    """The answers equal the reference's, or are close to them if `same` is False."""
    if candidate.same:
        for n in (1, 2, 5, 13, 30):
            await _all_answered(candidate, some(candidate.operator, n))
        return None
    near = await agreement(candidate)
    shares = f"recall {near.recall:.2f} and precision {near.precision:.2f}"
    enough = min(near.recall, near.precision) >= LEAST
    expect(enough, f"{shares} against the reference, at least {LEAST} expected")
    return near


CHECKS: dict[str, Callable[[Subject], Awaitable[Agreement | None]]] = {
    "no rows": no_rows,
    "empty right side": empty_right_side,
    "one row": one_row,
    "duplicates": duplicates,
    "NULLs": nulls,
    "odd text": odd_text,
    "kept apart": groups,
    "answers of several forms": forms,
    "refused answers": refused,
    "a row too long": too_long,
    "full window": full_window,
    "wrong ids": wrong_ids,
    "one failing row": one_failing,
    "cancelled": cancelled,
    "budget reached": budget,
    "estimate": estimate,
    "quality": quality,
}
