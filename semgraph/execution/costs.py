"""The cost of a run, and its division among steps, models and input rows by the run's record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import isnan
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from semgraph.errors import PlanError
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
    """The cost of a run. `calls` are the answers that models issued, also unusable ones, and none of
    the journal; `embeddings` the requests to the embedder. `tokens_in` are those of prompts and of
    embedded texts, with the cached ones. `dollars` are None if a price is unknown.
    """

    calls: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    embeddings: int
    dollars: float | None

    @classmethod
    def of(cls, step: StepMetrics) -> RunCost:
        """The cost in the counters of a step, or of all steps."""
        return cls(step.calls_issued, *(getattr(step, name) for name in cls._fields[1:]))


def costs(meter: Meter, record: Path | None, keys: Sequence[str], by: By) -> list[dict[str, Any]]:
    """The cost of a run in parts; see `Result.costs`. Record and keys are those of the run."""
    steps = {name: RunCost.of(step) for name, step in meter.steps.items()}
    if by == "step":
        return [{"step": name} | cost._asdict() for name, cost in steps.items() if any(cost)]
    if by not in {"row", "model"}:
        raise PlanError(f'a run has no costs by "{by}"', hint="use row, step or model")
    if record is None or not record.exists():
        what = f"costs by {by} are read from the record of the run"
        raise PlanError(what, there="this run has none", hint='leave runs="" out')
    run, rests = Run(record), {name: np.array(cost, float) for name, cost in steps.items()}
    payers = _payers(run) if by == "row" else {}
    nothing = np.zeros(len(RunCost._fields))  # as all costs below; unknown dollars are NaN
    parts = defaultdict[Any, Any](nothing.copy)
    for call in read_calls(record):
        if call["origin"] in {"issued", "recording"}:
            tokens = call["tokens_in"], call["tokens_cached"], call["tokens_out"]
            cost = np.array([1, *tokens, 0, call["dollars"]], float)
            asked = call["step"], call["call"]
            parts[call["model"] if by == "model" else asked if asked in payers else None] += cost
            rests[call["step"]] -= cost
    for part in reversed(payers):
        if part in parts:
            cost = parts.pop(part) / len(payers[part])
            for payer in payers[part]:
                parts[payer] += cost
    known = (rest if rest[:-1].any() else np.nan_to_num(rest) for rest in rests.values())
    others = sum(known, nothing)  # embeddings, and calls that the record lacks
    if others[:-1].any():
        parts[None] += others
    return [
        (_place(run, part, keys) if by == "row" else {"model": part}) | _numbers(parts[part])
        for part in sorted(parts, key=lambda part: (part is None, part))
    ]


def _numbers(cost: Any) -> dict[str, float | None]:
    numbers = zip(RunCost._fields, cost.round(_DIGITS).tolist(), strict=True)
    return {name: None if isnan(number) else number + 0.0 for name, number in numbers}


def _payers(run: Run) -> dict[Any, list[Any]]:
    """What pays, in equal shares, for each call (the items that it is about), for each item (the
    rows that it is made of; of a pair, those of the left row) and for each row that is made of
    others, by ids of the record: first those that derive from the windowed input. What pays is
    before what it pays for.
    """
    rank: dict[int, int] = {}  # 2: of the windowed input, 1: of another one, 0: of none
    for name, first in run.facts["ids"].items():
        rows = range(first, first + run.facts["sizes"][name])
        rank |= dict.fromkeys(rows, 2 if name == run.facts["order"] else 1)

    def ranked(rows: Iterable[int]) -> tuple[int, list[int]]:
        highest = max((rank.get(row, 0) for row in rows), default=0)
        return highest, [row for row in rows if rank.get(row, 0) == highest > 0]

    made, payers = dict[int, list[int]](), dict[Any, list[Any]]()
    for table in recorded_parts(run.folder, LINEAGE):
        made.update(zip(values(table[ROW_ID]), values(table[SOURCES]), strict=True))
    for row in sorted(made):  # a row has a larger id than its sources
        rank[row], payers[row] = ranked(made[row])
    calls = defaultdict[tuple[str, str], list[int]](list)
    for step in recorded_steps(run.folder, "answers"):
        for table in recorded_parts(run.folder, "answers", step, [ROW_ID, "calls"]):
            for sides, own in zip(values(table[ROW_ID]), values(table["calls"]), strict=True):
                item = -1 - len(payers)
                payers[item] = max(map(ranked, sides), key=itemgetter(0))[1] or [None]
                for call in dict.fromkeys(own or ()):
                    calls[step, call].append(item)
    return payers | calls


def _place(run: Run, row: int | None, keys: Sequence[str]) -> dict[str, Any]:
    """The input of a row, its position there and, in the windowed input, its key."""
    if row is None:
        return {"input": None, "row": None, "key": None}
    name, first = [each for each in run.facts["ids"].items() if each[1] <= row][-1]
    key = keys[row - first] if keys and name == run.facts["order"] else None
    return {"input": name, "row": row - first, "key": key}
