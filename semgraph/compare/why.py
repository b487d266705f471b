"""A row of a comparison back to the exact prompt: row ← answer ← prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from semgraph.compare.comparison import Arm, trial_of
from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.execution.record import Run, exchanges
from semgraph.logical.prompt import show
from semgraph.provenance import MEMBER, Asked, Lookup, Row, as_text, at, parsed

_FIXED = {MEMBER, "left", "right", "error", "calls"}


@dataclass(frozen=True)
class Told:
    """What was asked about some frozen rows in one trial of a way, and answered."""

    way: str
    trial: int
    rows: tuple[Row, ...]
    asked: tuple[Asked, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """How notebooks show it."""
        return f"<pre>{escape(str(self))}</pre>"

    def lines(self) -> Iterator[str]:
        """For people, a line at a time: the rows, then each question with its answer and its exact
        prompt.
        """
        for row in self.rows:
            yield f"row {_pairs(row)}"
        if not self.asked:
            yield f"  {self.way} asked nothing about it"
        for asked in self.asked:
            beside = (
                f" beside {_pairs(asked.right)}"
                if isinstance(asked.right, Mapping) and asked.right
                else ""
            )
            yield f"← {self.way}, trial {self.trial}{beside}"
            yield f"  answer  {f'failed: {asked.error}' if asked.error else _pairs(asked.answers)}"
            if not asked.calls:
                yield "  decided without a call"
            for call, found in asked.calls:
                if found is None:
                    yield f"  ← call {call}: the journal does not have it (any more)"
                    continue
                usage = found.reply.usage
                yield f"  ← call {call} · {found.model} · {usage.prompt:,} → {usage.completion:,} tokens"
                for message in found.request.messages:
                    yield f"    ── {message.role}"
                    yield from (f"    {line}" for line in message.content.splitlines())
                yield "    ── answer"
                yield from (f"    {line}" for line in found.reply.text.splitlines())


def told(arm: Arm, number: int, where: Mapping[str, Any]) -> Told:
    """See `Arm.why`."""
    comparison = arm.comparison
    if comparison is None or comparison.rows is None:
        hint = "compare a step of the plan: step=..."
        raise PlanError(
            Problem("whole plans were compared: there is no frozen row to ask about", hint=hint)
        )
    trial = trial_of(arm, number)
    names = comparison.rows.column_names
    for path in where:
        if path.split(".")[0] not in names:
            there = "columns: " + ", ".join(names)
            raise PlanError(
                Problem(
                    f'the frozen rows have no column "{path}"',
                    there=there,
                    hint=did_you_mean(path, names),
                )
            )
    rows = comparison.rows.to_pylist()
    wanted = {
        i
        for i, row in enumerate(rows)
        if all(as_text(at(row, p)) == as_text(v) for p, v in where.items())
    }
    if not wanted:
        said = ", ".join(f"{name}={value}" for name, value in where.items())
        raise PlanError(Problem(f"no frozen row has {said}", there=f"there are {len(rows):,} rows"))
    items = [] if trial.answers is None else trial.answers.to_pylist()
    with exchanges(Run(comparison.record or Path()), comparison.journal) as lookup:
        asked = tuple(_asked(item, lookup) for item in items if item[MEMBER] in wanted)
    return Told(arm.name, number, tuple(rows[i] for i in sorted(wanted)), asked)


def _asked(item: Row, lookup: Lookup) -> Asked:
    calls = tuple((call, lookup(call)) for call in item.get("calls") or ())
    answers = {name: value for name, value in item.items() if name not in _FIXED}
    return Asked(
        parsed(item.get("left")), parsed(item.get("right")), answers, item.get("error"), calls
    )


def _pairs(row: Mapping[str, Any]) -> str:
    shown = {
        name: value for name, value in row.items() if value is not None and not name.startswith("_")
    }
    return " · ".join(f"{name} {show(value)}" for name, value in shown.items()) or "(nothing)"
