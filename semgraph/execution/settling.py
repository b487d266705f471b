"""What an evaluation counted and would record, held back until it is known which members are run again without another."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.execution.windows import rows_of
from semgraph.meter import Part, StepMetrics
from semgraph.physical.semantic import Answered
from semgraph.physical.sql import MEMBER

Members = Collection[int] | None  # None: all


@dataclass(frozen=True)
class Rows:
    """Rows that an operator gave, and those that came into a step, if they did here."""

    given: pa.Table
    incoming: pa.Table | None
    observe: Callable[[pa.Table], None]
    step: StepMetrics

    def settle(self, members: Members) -> None:
        """Count and record those of some members."""
        self.observe(of_members(self.given, members))
        if self.incoming is not None:
            self.step.rows_in += of_members(self.incoming, members).num_rows


@dataclass(frozen=True)
class Asked:
    """What an operator asked, and was answered."""

    found: Answered
    observe: Callable[[Answered], None]
    part: Part

    def settle(self, members: Members) -> None:
        """Count and record what was asked for some members."""
        evidence = None if self.found.evidence is None else of_members(self.found.evidence, members)
        share = 1.0 if evidence is None else _share(evidence, self.found.evidence)
        self.part.rows_in += round(self.found.rows_in * share)
        self.part.gave(of_members(self.found.table, members).num_rows)
        self.observe(replace(self.found, evidence=evidence))


def of_members(table: pa.Table, members: Members) -> pa.Table:
    """The rows that derive from some members, and those that derive from none."""
    if members is None or MEMBER not in table.column_names:
        return table
    own = table.filter(pc.is_null(table.column(MEMBER)))
    return pa.concat_tables([own, rows_of(table, list(members))]) if own.num_rows else rows_of(table, list(members))


def _share(some: pa.Table, everything: pa.Table | None) -> float:
    """How much of what was asked is about some members."""
    return some.num_rows / everything.num_rows if everything is not None and everything.num_rows else 1.0
