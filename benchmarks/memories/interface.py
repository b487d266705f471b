"""Checks of what a memory returns against the interface of docs/memories.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.memories.conversations import Conversation
from benchmarks.world import StandIn
from semgraph.errors import PlanError, Problem
from semgraph.execution.result import Result

_PAGE = "docs/memories.md"
_KINDS = 3
"""Reasons of failed rows that are reported, the most frequent first."""
_LEAST, _SHARE = 3, 0.9
"""Calls of one question, and the share of empty answers to them, from which these are reported."""
Columns = Mapping[str, Sequence[str]]
"""The columns of each table that a plan returns."""


def require_answers(plan: str, columns: Columns) -> None:
    """Refuse a read plan without answers that can be scored. Raises PlanError."""
    if "answers" not in columns:
        what = f"{plan} returns no `answers`"
        returned = f"it returns {', '.join(columns) or 'nothing'}"
        raise PlanError(
            Problem(what, there=returned, hint=f"returns: {{answers: STEP}}; see {_PAGE}")
        )
    if missing := [name for name in ("id", "answer") if name not in columns["answers"]]:
        what = f"{plan}: `answers` has no column {' and no column '.join(missing)}"
        has = f"it has {', '.join(columns['answers'])}"
        raise PlanError(Problem(what, there=has, hint=f"its columns are in {_PAGE}"))


def breaches(
    plan: str, columns: Columns, answers: Sequence[Mapping[str, Any]], told: Conversation
) -> Iterator[str]:
    """What else the interface asks for and a read plan does not return.

    Args:
        plan: The read plan.
        columns: Of its tables.
        answers: Rows of `answers`.
        told: The conversation that they are about.
    """
    if "shown" not in columns:
        yield f"{plan} returns no `shown`, the records that answers are made from; --show cannot print them. See {_PAGE}"
    if "evidence" not in columns["answers"]:
        yield f"{plan}: `answers` has no column evidence, so `cited` is 0. Return the ids of turns; see {_PAGE}"
    turns, questions = {turn["id"] for turn in told.turns}, {one.id for one in told.asked}
    for what, known, ids in (
        ("evidence", turns, {each for row in answers for each in row.get("evidence") or ()}),
        ("id", questions, {row["id"] for row in answers}),
    ):
        if unknown := sorted(map(str, ids - known)):
            named = "turns" if what == "evidence" else "questions"
            yield (
                f'{plan}: {len(unknown)} of {len(ids)} values in {what} are no ids of {named}, such as "{unknown[0]}". '
                f"Carry the ids of `{named}` along; see {_PAGE}"
            )


def failures(results: Sequence[Result]) -> Iterator[str]:
    """Why rows of a memory's runs failed: the most frequent reasons."""
    kinds = Counter((f.step, " ".join(f.error.split())) for r in results for f in r.failed)
    for (step, error), number in kinds.most_common(_KINDS):
        yield f"{f'{number} rows' if number > 1 else 'a row'} failed at {step}: {error}"
    if len(kinds) > _KINDS:
        yield f"rows failed for {len(kinds) - _KINDS} more reasons"


def unread(server: StandIn) -> Iterator[str]:
    """Questions that the simulated model answers with nothing, nearly every time: mostly it reads no
    sentence in their prompts.
    """
    for question, calls in server.counters.by_question.items():
        empty = server.counters.empty[question]
        if calls >= _LEAST and empty >= _SHARE * calls:
            yield (
                f"{empty} of {calls} answers to the question for `{question}` are empty: the simulated model reads nothing in "
                f"its prompt. Put each turn on a line of its own that begins with its speaker; see {_PAGE}"
            )
