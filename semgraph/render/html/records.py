"""What a page tells of a run, read from its record and its journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from semgraph.execution.record import Run, read_answers, read_calls, read_lines
from semgraph.logical.schema import Draw, Graph
from semgraph.meter import StepMetrics
from semgraph.provenance import MEMBER, Lookup, Row, parsed
from semgraph.render.picture import Picture, pictures
from semgraph.render.runs import metrics_of

_FIXED = {MEMBER, "left", "right", "error", "calls"}


@dataclass(frozen=True)
class Call:
    """One call. What it took is unknown where the record has only its id.

    Args:
        id: Its id; "" for one without an answer.
        step: Who asked.
        line: Its line of `calls.jsonl`; {} where there is none.
        items: What the step read from it: rows of `answers`.
    """

    id: str
    step: str
    line: Mapping[str, Any]
    items: tuple[Row, ...] = ()


class RunPage:
    """What the page of a run shows.

    Args:
        run: Its record.
        lookup: The journal: a call by its id.
    """

    def __init__(self, run: Run, lookup: Lookup) -> None:
        self.run, self.lookup = run, lookup

    @cached_property
    def began(self) -> float | None:
        """When the run began, in seconds of the epoch."""
        return datetime.fromisoformat(self.run.started).timestamp() if self.run.started else None

    @cached_property
    def steps(self) -> dict[str, StepMetrics]:
        """The counters of each step that has a name."""
        found = self.run.metrics.get("steps") or {}
        return {name: metrics_of(counters) for name, counters in found.items() if name}

    @cached_property
    def operators(self) -> dict[str, list[StepMetrics]]:
        """The counters of each operator, of the steps that have several that ask a model."""
        found = self.run.metrics.get("operators") or {}
        return {name: [metrics_of(counters) for counters in parts] for name, parts in found.items()}

    @cached_property
    def items(self) -> dict[str, list[Row]]:
        """What was asked about and answered, by step."""
        return {step: list(rows) for step, rows in read_answers(self.run.folder).items()}

    @cached_property
    def calls(self) -> list[Call]:
        """All calls, as they began."""
        items: dict[str, list[Row]] = {}
        steps: dict[str, str] = {}
        for step, rows in self.items.items():
            for row in rows:
                for call in row.get("calls") or ():
                    items.setdefault(call, []).append(row)
                    steps.setdefault(call, step)
        lines = sorted(read_calls(self.run.folder), key=lambda line: line["at"])
        known = [
            Call(line["call"] or "", line["step"], line, tuple(items.get(line["call"], ())))
            for line in lines
        ]
        rest = set(items) - {call.id for call in known}
        return [
            *known,
            *(Call(call, steps[call], {}, tuple(items[call])) for call in items if call in rest),
        ]

    @cached_property
    def pictures(self) -> list[Picture]:
        """The graph that was written, or would have been, a picture for each partition."""
        said = self.run.facts.get("graph")
        if not said:
            return []
        graph = Graph(
            "", str(self.run.facts.get("key")), str(said["partition"]), {}, Draw(**said["draw"])
        )
        returns: Mapping[str, str] = self.run.facts.get("returns") or {}
        tables = {
            name: rows for name, step in returns.items() if (rows := self._table(step)) is not None
        }
        return pictures(tables, graph)

    def _table(self, step: str) -> Any:
        import pyarrow as pa

        from semgraph.execution.record import step_tables

        parts = step_tables(self.run.folder, "steps", step)
        return pa.concat_tables(parts, promote_options="default") if parts else None

    @cached_property
    def failed(self) -> list[dict[str, Any]]:
        """The rows that were set aside, as they were given, with `_step` and `_error`."""
        return read_lines(self.run.folder, "failed.jsonl")

    @cached_property
    def without_answer(self) -> list[tuple[str, Row]]:
        """The items that no answer came for, by step."""
        return [
            (step, row) for step, rows in self.items.items() for row in rows if row.get("error")
        ]


def measured(call: Call, lookup: Lookup) -> Call:
    """The call with what it took then, from the journal, where its record has no line of it."""
    found = lookup(call.id) if call.id and not call.line else None
    if found is None:
        return call
    reply, usage = found.reply, found.reply.usage
    line = {
        "model": reply.model or found.model, "seconds": reply.seconds, "took": reply.seconds, "dollars": reply.dollars,
        "tokens_in": usage.prompt, "tokens_cached": usage.cached, "tokens_out": usage.completion,
    }  # fmt: skip
    return replace(call, line=line)


def answered(item: Row) -> dict[str, Any]:
    """The answers in an item."""
    return {name: value for name, value in item.items() if name not in _FIXED}


def sides(item: Row) -> tuple[Any, Any]:
    """What an item was asked about, read."""
    return parsed(item.get("left")), parsed(item.get("right"))


def models(calls: Sequence[Call]) -> list[str]:
    """Who answered, each once."""
    return list(dict.fromkeys(str(call.line["model"]) for call in calls if call.line.get("model")))


def is_comparison(folder: Path) -> bool:
    """Whether a record is that of a comparison."""
    from semgraph.compare.record import FILE

    return (folder / FILE).exists()
