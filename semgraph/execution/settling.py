"""What an evaluation counted and would record, held back until it is known which members are run again without another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.execution.windows import rows_of
from semgraph.meter import Part, StepMetrics
from semgraph.physical.semantic.asking import Answered
from semgraph.physical.sql import MEMBER

Members = Collection[int] | None  # None: all


@dataclass(frozen=True)
class Flow:
    """Rows that come into a step or leave it; None where they are not known, inside a statement that does several steps."""

    step: StepMetrics
    counter: Literal["rows_in", "rows_out"]
    table: pa.Table | None

    def count(self, members: Members) -> None:
        """Count those of some members. A number that is not known in one window is not known for the run."""
        before: int | None = getattr(self.step, self.counter)
        known = self.table is not None and before is not None
        number = (before or 0) + of_members(self.table, members).num_rows if self.table is not None and known else None
        setattr(self.step, self.counter, number)


@dataclass(frozen=True)
class Rows:
    """Rows that an operator gave, and what came into steps and left them here."""

    given: pa.Table
    flows: Sequence[Flow]
    observe: Callable[[pa.Table], None]

    def record(self, members: Members) -> None:
        """Record those of some members."""
        self.observe(of_members(self.given, members))

    def count(self, members: Members) -> None:
        """Count those of some members."""
        for flow in self.flows:
            flow.count(members)


@dataclass(frozen=True)
class Asked:
    """What an operator asked, and was answered."""

    found: Answered
    observe: Callable[[Answered], None]
    part: Part

    def record(self, members: Members) -> None:
        """Record what was asked for some members."""
        evidence = None if self.found.evidence is None else of_members(self.found.evidence, members)
        self.observe(replace(self.found, evidence=evidence))

    def count(self, members: Members) -> None:
        """Count what was asked for some members."""
        self.part.rows_in = (self.part.rows_in or 0) + self.found.asked_of(members)
        self.part.gave(of_members(self.found.table, members).num_rows)


def of_members(table: pa.Table, members: Members) -> pa.Table:
    """The rows that derive from some members, and those that derive from none."""
    if members is None or MEMBER not in table.column_names:
        return table
    own = table.filter(pc.is_null(table.column(MEMBER)))
    return pa.concat_tables([own, rows_of(table, list(members))]) if own.num_rows else rows_of(table, list(members))
