"""Slices: waves that run ahead together, and the rows that are computed ahead for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import takewhile

from semgraph.execution.evaluation import InputRowSet
from semgraph.execution.windows import Wave, Window
from semgraph.llm.stack import Replies
from semgraph.logical.plan import Windowing
from semgraph.physical.plan import PhysicalNode
from semgraph.relational.batch import Batch

_AHEAD_IN_BATCHES = 10_000


def for_batches(windowing: Windowing) -> Windowing:
    """The windowing with more windows ahead, for requests in batches; not where that would make
    larger windows.
    """
    if windowing.by_readiness:
        return windowing
    return replace(windowing, ahead=max(windowing.ahead, _AHEAD_IN_BATCHES))


def slices(
    windowing: Windowing, waves: Sequence[Wave], *, in_batches: bool = False
) -> Iterator[tuple[Wave, ...]]:
    """Waves that run ahead together: one window first, so that something is committed soon, then
    half of `ahead`, so that one slice can be computed while another is committed. Where a failed
    row stops its partition they grow slowly, so that little is asked in vain; and where windows are
    formed of what is ready, so that few rows wait for others; but not where they are asked about in
    batches, which take as long for few rows as for many.
    """
    slowly = (windowing.on_error == "stop" or windowing.by_readiness) and not in_batches
    most = max(windowing.ahead // (4 if windowing.by_readiness else 2), 1)
    size, current = 1, list[Wave]()
    count = 0
    for wave in waves:
        current.append(wave)
        count += len(wave)
        if count >= size:
            yield tuple(current)
            current, count = [], 0
            size = min(size * 2, most) if slowly else most
    if current:
        yield tuple(current)


@dataclass
class Slice:
    """Waves, and the rows that were computed ahead for them.

    Args:
        waves: The waves.
        now: The value of `$now` of what runs ahead.
        rows: For each input row, the rows of the window that it was computed in.
        replies: Replies about its windows, by request; None if they are not remembered.
        batches: The rows of the plan's exchange.
        flush: Records and counts what some input rows took, where that waits until their windows are
            formed.
        uncounted: Input rows that were computed in other windows than now and are counted when they
            are computed again.
    """

    waves: tuple[Wave, ...]
    now: datetime
    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)
    replies: Replies | None = None
    batches: dict[PhysicalNode, Batch] = field(default_factory=dict)
    flush: Callable[[InputRowSet], None] = lambda _rows: None
    uncounted: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, computed: Sequence[Slice], waves: tuple[Wave, ...]) -> Slice:
        """Several slices as one, with their rows in other waves."""
        whole = cls(waves, computed[0].now)
        for slice_ in computed:
            whole.rows |= slice_.rows
            if slice_.replies is not None:
                whole.replies = (whole.replies or {}) | slice_.replies
            for node, batch in slice_.batches.items():
                before = whole.batches.get(node)
                whole.batches[node] = batch if before is None else _concatenated(before, batch)
        return whole


@dataclass(frozen=True)
class Turn:
    """The turn of a slice to write the sinks with `first: true`: once, after the previous slice.

    Args:
        before: Set when the turn of the previous slice is over.
        over: Set when this turn is over.
    """

    before: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, _: object = None) -> None:
        """End the turn: the slice has written, or its task has ended."""
        self.over.set()

    def again(self) -> Turn:
        """The turn for a single window of the slice that is computed alone."""
        return self if self.over.is_set() else Turn(self.before)


RunningSlice = tuple[asyncio.Task[list[Slice]], int]
"""The task that computes a slice, and the number of its windows."""


def computed_slices(running: Iterable[RunningSlice]) -> list[asyncio.Task[list[Slice]]]:
    """The tasks of the first slices, as far as they are computed."""

    def ended(task: asyncio.Task[list[Slice]]) -> bool:
        return task.done() and not task.cancelled() and task.exception() is None

    return list(takewhile(ended, (task for task, _ in running)))


def is_room(
    windowing: Windowing,
    running: Sequence[RunningSlice],
    waves: Sequence[Wave],
    *,
    in_batches: bool = False,
) -> bool:
    """Whether another slice may start before the running ones are committed. A second one always
    may; more may while all together have at most `ahead` windows, unless `on_error` is `stop` and
    they are not asked about in batches.
    """
    if len(running) < 2:
        return True
    windows = sum(count for _, count in running) + sum(map(len, waves))
    return (windowing.on_error != "stop" or in_batches) and windows <= windowing.ahead


def replaced(batch: Batch, new: Batch, rows: Collection[int]) -> Batch:
    """A relation with the rows of some input rows replaced by new ones."""
    if not batch.has_input_rows:
        return batch
    return _concatenated(batch.without_rows(rows), new.of_rows(rows))


def _concatenated(first: Batch, last: Batch) -> Batch:
    """Rows of two slices; the first ones, if they derive from no input row."""
    return Batch.concatenated([first, last]) if first.has_input_rows else first


def one_by_one(windowing: Windowing, windows: Sequence[Window]) -> list[Window]:
    """The windows one by one; of a single one that was formed of what was ready, its rows."""
    if len(windows) > 1 or not windowing.by_readiness:
        return list(windows)
    return [Window(window.partition, (row,)) for window in windows for row in window.rows]
