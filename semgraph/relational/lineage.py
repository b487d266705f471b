"""Segments that also compute the lineage of their rows: the rows of their inputs that each is made
of.

The lineage of a row is a hidden column, which both executors compute beside the others: joins put
the lists of both rows together, groups those of all their rows. An operator that makes one row of
many ends a piece of the segment, and its rows get ids of their own: what reads them names one id
in place of many, so that lineage takes no more room than the rows do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from semgraph.relational.batch import Batch
from semgraph.relational.fragments import Segment, run_segment

Number = Callable[[Batch], Batch]
"""Gives the rows of a batch ids, and records their sources."""


async def run_traced(
    segment: Segment, inputs: Sequence[Batch], now: datetime | None, number: Number
) -> Batch:
    """The rows of a segment with their sources, as `run_segment` computes them.

    Args:
        segment: The segment, not traced.
        inputs: The rows of its inputs, with ids.
        now: The value of `$now`.
        number: Called with the rows of each piece but the last; gives them ids.

    Raises:
        DataError: A row has no value.
        EngineError: The executors differ.
    """
    batches = {node: batch for (_, node), batch in zip(segment.inputs, inputs, strict=True)}
    *inner, last = segment.pieces
    for piece in inner:
        own = [batches[node] for _, node in piece.inputs]
        batches[piece.root] = number(await run_segment(piece, own, now))
    return await run_segment(last, [batches[node] for _, node in last.inputs], now)
