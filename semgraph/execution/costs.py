"""The cost of a run, and its division among steps, models and input rows by the run's record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from semgraph.errors import PlanError, Problem
from semgraph.execution.record import (
    LINEAGE,
    ROW_ID,
    SOURCES,
    Run,
    read_calls,
    recorded_parts,
    recorded_steps,
)
from semgraph.meter import Meter, StepMetrics
from semgraph.relational.batch import values

By = Literal["row", "step", "model"]
_DIGITS = 12  # shares are rounded, because ten tenths of a call are one


class RunCost(NamedTuple):
    """The cost of a run, or of a part of it; a share of a call is a fraction.

    Args:
        calls: Answers that models issued, also unusable ones; none are answers of the journal.
        tokens_in: Tokens of prompts and of embedded texts.
        tokens_cached: Those that the endpoint had cached.
        tokens_out: Tokens of answers.
        embeddings: Requests to the embedder.
        dollars: None: a price is unknown.
    """

    calls: float = 0
    tokens_in: float = 0
    tokens_cached: float = 0
    tokens_out: float = 0
    embeddings: float = 0
    dollars: float | None = 0.0

    @classmethod
    def of(cls, step: StepMetrics) -> RunCost:
        """The cost in the counters of a step, or of all steps."""
        tokens = step.tokens_in, step.tokens_cached, step.tokens_out
        return cls(step.calls_issued, *tokens, step.embeddings, step.dollars)

    def plus(self, other: RunCost, share: float = 1) -> RunCost:
        """The sum with a share of another cost."""
        added = (None if part is None else part * share for part in other)
        pairs = zip(self, added, strict=True)
        return RunCost(*(None if a is None or b is None else a + b for a, b in pairs))  # type: ignore[arg-type]


Parts = dict[Any, RunCost]


def costs(meter: Meter, record: Path | None, keys: Sequence[str], by: By) -> list[dict[str, Any]]:
    """The cost of a run in parts; see `Result.costs`. Record and keys are those of the run."""
    if by == "step":
        steps = {name: RunCost.of(step) for name, step in meter.steps.items()}
        return [{"step": name} | cost._asdict() for name, cost in steps.items() if any(cost)]
    if by not in {"row", "model"}:
        raise PlanError(Problem(f'a run has no costs by "{by}"', hint="use row, step or model"))
    if record is None:
        what, hint = f"costs by {by} are read from the record of the run", 'leave runs="" out'
        raise PlanError(Problem(what, there="this run has none", hint=hint))
    run, others, parts = Run(record), RunCost.of(meter.total()), Parts()
    calls = list(_calls(run))
    for call, cost in calls:
        others = others.plus(cost, -1)
        if by == "model":
            _add(parts, call["model"], cost)
    if by == "row":
        parts = _by_row(run, calls)
    if any(others[:-1]):  # embeddings, and calls that the record lacks
        _add(parts, None, others)
    return [
        (_place(run, part, keys) if by == "row" else {"model": part})
        | {name: value and (round(value, _DIGITS) or 0) for name, value in cost._asdict().items()}
        for part, cost in sorted(parts.items(), key=lambda item: (item[0] is None, item[0]))
    ]


def _add(parts: Parts, part: object, cost: RunCost, share: float = 1) -> None:
    parts[part] = parts.get(part, RunCost()).plus(cost, share)


def _calls(run: Run) -> Iterator[tuple[Mapping[str, Any], RunCost]]:
    """The issued calls of a run, as the record has them, each with its cost."""
    for call in read_calls(run.folder):
        if call["origin"] in {"issued", "recording"}:
            tokens = call["tokens_in"], call["tokens_cached"], call["tokens_out"]
            yield call, RunCost(1, *tokens, dollars=call["dollars"])


def _by_row(run: Run, calls: Iterable[tuple[Mapping[str, Any], RunCost]]) -> Parts:
    """The cost of each input row, by its id in the record: the cost of a call goes to the rows that
    it is about, and from these to the rows that they were made of.
    """
    made = dict[int, Sequence[int]]()
    for table in recorded_parts(run.folder, LINEAGE, ""):
        made.update(zip(values(table[ROW_ID]), values(table[SOURCES]), strict=True))
    rank = _ranks(run, made)
    items, parts = _items(run, rank), Parts()
    for call, cost in calls:
        asked = items.get((call["step"], call["call"]), [[]])
        for rows in asked:
            payers: Sequence[int | None] = rows or [None]
            for row in payers:
                _add(parts, row, cost, 1 / len(asked) / len(payers))
    for row in sorted(made, reverse=True):  # a row has a larger id than its sources
        if row in parts:
            cost, sources = parts.pop(row), _first(made[row], rank)
            for source in sources:
                _add(parts, source, cost, 1 / len(sources))
    return parts


def _ranks(run: Run, made: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """2 for rows of the windowed input and rows made of them, 1 for those of other inputs, 0 for
    rows that were made of no input row.
    """
    first, sizes, order = (run.facts[name] for name in ("ids", "sizes", "order"))
    rank = dict.fromkeys(range(sum(sizes.values())), 1)
    if order is not None:
        rank |= dict.fromkeys(range(first[order], first[order] + sizes[order]), 2)
    for row in sorted(made):
        rank[row] = max((rank.get(source, 0) for source in made[row]), default=0)
    return rank


def _first(rows: Iterable[int], rank: Mapping[int, int]) -> list[int]:
    """The rows of the highest rank; none if it is 0."""
    ranked = [(rank.get(row, 0), row) for row in rows]
    highest = max(ranked, default=(0, 0))[0]
    return [row for own, row in ranked if own == highest > 0]


def _items(run: Run, rank: Mapping[int, int]) -> dict[tuple[str, str], list[list[int]]]:
    """The rows of each item that a call is about, by step and call; of a pair, those of its left
    row.
    """
    items: dict[tuple[str, str], list[list[int]]] = {}
    for step in recorded_steps(run.folder, "answers"):
        for table in recorded_parts(run.folder, "answers", step, [ROW_ID, "calls"]):
            columns = values(table[ROW_ID]), values(table["calls"])
            for (left, right), calls in zip(*columns, strict=True):
                rows = _first(left, rank) or _first(right, rank)
                for call in dict.fromkeys(calls or ()):
                    items.setdefault((step, call), []).append(rows)
    return items


def _place(run: Run, row: int | None, keys: Sequence[str]) -> dict[str, Any]:
    """The input of a row, its position there and, in the windowed input, its key."""
    if row is None:
        return {"input": None, "row": None, "key": None}
    first: dict[str, int] = run.facts["ids"]
    name = [name for name, number in first.items() if number <= row][-1]
    place = row - first[name]
    key = keys[place] if keys and name == run.facts["order"] else None
    return {"input": name, "row": place, "key": key}
