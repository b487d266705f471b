"""Early stop: operators below a limit answer rows in chunks, until enough of them pass."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from semgraph.logical.semantic import SemFilter, SemMap
from semgraph.logical.typecheck import Stop
from semgraph.relational.batch import Batch
from semgraph.semantic.contract import Implementation, RowEstimate
from semgraph.semantic.groups import row_groups
from semgraph.semantic.library import estimated

Through = Callable[[Batch], Awaitable[tuple[Batch, Sequence[int]]]]


@dataclass
class RowQueue:
    """The rows of one group in the limit's order, how many were processed, and how many of these
    stay in the result.
    """

    rows: list[int]
    next: int = 0
    stayed: int = 0
    taken: list[int] = field(default_factory=list)

    def take(
        self, at_once: int, n: int, questions: Sequence[object], known: Collection[object]
    ) -> list[int]:
        """The rows to process next, in full calls: as many as are likely to be enough, but at most
        double the number processed so far.

        A call is full with `at_once` distinct questions that are not `known`; a row without a
        question has None.
        """
        missing = n - self.stayed
        self.taken = []
        if missing > 0 and self.next < len(self.rows):
            likely = math.ceil(missing * self.next / self.stayed) if self.stayed else self.next
            count = max(missing, min(likely, self.next))
            new: set[object] = set()
            while self.next < len(self.rows) and (len(self.taken) < count or len(new) % at_once):
                row = self.rows[self.next]
                if questions[row] is not None and questions[row] not in known:
                    new.add(questions[row])
                self.taken.append(row)
                self.next += 1
        return self.taken

    def count(self, stays: dict[int, bool]) -> None:
        """Count the rows of the last `take` that stay."""
        self.stayed += sum(stays.values())
        self.taken = []


async def row_queues(
    node: SemMap | SemFilter, stop: Stop, table: pa.Table, now: datetime | None
) -> list[RowQueue]:
    """A queue for each group of a limit."""
    groups = await row_groups(node.input, stop.by, stop.order, table, now)
    return [RowQueue(rows) for rows in groups]


async def in_chunks(
    node: SemMap | SemFilter,
    stop: Stop,
    rows: Batch,
    at_once: int,
    now: datetime | None,
    through: Through,
) -> Batch:
    """Pass the rows of a relation through stacked operators, in chunks, until enough come out.

    Args:
        node: The lowest operator, which reads the relation.
        stop: The limit.
        rows: The relation.
        at_once: How many rows fill a call.
        now: `$now`.
        through: Applies the operators to some rows: the result, and the rows that are in it.

    Returns:
        The result, in the order of the relation.
    """
    queues = await row_queues(node, stop, rows.table, now)
    pieces, places = [(await through(rows.slice(0, 0)))[0]], list[int]()
    while chunk := sorted(
        row for queue in queues for row in queue.take(at_once, stop.n, range(rows.num_rows), ())
    ):
        piece, stays = await through(rows.take(chunk))
        passed = {chunk[i] for i in stays}
        pieces.append(piece)
        places += sorted(passed)
        for queue in queues:
            queue.count({row: row in passed for row in queue.taken})
    order = np.argsort(places).tolist()
    table = pa.concat_tables([piece.table for piece in pieces]).take(pa.array(order, pa.int64()))
    sources = [source for piece in pieces for source in piece.sources or ()]
    return Batch.of_table(table).with_sources([sources[i] for i in order] if sources else None)


def rows_a_call(node: SemMap | SemFilter, rows: int, implementation: Implementation[Any]) -> int:
    """How many rows share a call, by the implementation's estimate: chunks of full calls need no
    additional call.
    """
    cost = estimated(implementation, node, RowEstimate(rows, 0, rows, 0), None)
    return max(1, math.ceil(rows / cost.calls)) if cost.calls else 1
