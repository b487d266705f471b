"""Which plans can be run in shards, and the rows of each shard as files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from semgraph.errors import InputError, PlanError, Problem
from semgraph.execution.record import INPUT_ROW
from semgraph.formats import plural
from semgraph.logical.graph import StoreRead
from semgraph.logical.node import walk
from semgraph.logical.plan import ALL, LogicalPlan, Windowing
from semgraph.private import open_private, private_folder
from semgraph.relational.batch import values
from semgraph.shards import shard_of

GROUPS = 50
"""Groups of a shard, at least, where there are so many: a wave of many groups costs less CPU."""
_PER_WORKER = 4


def shards_for(groups: int, workers: int) -> int:
    """How many shards a run has, unless it is told.

    >>> [shards_for(groups, 4) for groups in (2, 30, 500, 100_000)]
    [2, 4, 10, 16]
    """
    return max(1, min(groups, workers), min(_PER_WORKER * workers, groups // GROUPS))


def windowing_of(plan: LogicalPlan) -> Windowing:
    """How a plan cuts its rows, if it can be run in shards. Raises PlanError."""
    problems = list(_problems(plan))
    if problems:
        raise PlanError(*problems)
    assert plan.windows is not None
    return plan.windows


_ALONE = "run it without --engine: in one process"


def _problems(plan: LogicalPlan) -> Iterable[Problem]:
    cut = plan.windows
    if cut is None:
        what = f"plan {plan.name} cuts no input into windows, so its rows belong to no groups that shards could have"
        yield Problem(what, hint=_ALONE)
        return
    yield from _foreign_reads(plan, cut)
    for sink in plan.writes:
        if not sink.input.partitioned:
            what = f"it writes rows that derive from no row of {cut.input}: every shard would write them"
            yield Problem(what, sink.step or None, sink.origin, hint=_ALONE)
    if not cut.key and cut.partition not in cut.key_of:
        what = f"key_of lacks {cut.partition}, so that equal rows of two shards would have one name"
        yield Problem(what, hint=f"write key_of: [{', '.join((cut.partition, *cut.key_of))}]")


def _foreign_reads(plan: LogicalPlan, cut: Windowing) -> Iterable[Problem]:
    written = frozenset[tuple[str, str]]().union(*(sink.label_writes for sink in plan.writes))
    for node in walk(*plan.roots):
        read = getattr(node, "partition", "") if isinstance(node, StoreRead) else ""
        others = read not in {"", cut.partition, plan.graph.partition}
        if read == ALL or (others and node.label_reads & written):
            what = f"partition: {read} reads groups of other shards, which are written meanwhile"
            yield Problem(what, node.step or None, node.origin, hint=_ALONE)


@dataclass(frozen=True)
class Shards:
    """How the groups of an input are divided among shards.

    Args:
        count: How many shards there are.
        workers: How many run at one time.
        groups: How many groups there are.
        least: Groups of the smallest shard with any.
        most: Groups of the largest one.
        rows: Rows of the input.
        longest: The group with the most windows, which follow each other.
        longest_rows: Its rows.
        longest_windows: Its windows.
    """

    count: int
    workers: int
    groups: int
    least: int
    most: int
    rows: int
    longest: str
    longest_rows: int
    longest_windows: int

    @classmethod
    def of(cls, windowing: Windowing, rows: pa.Table, count: int, workers: int) -> Shards:
        """The shards of some rows."""
        groups = _sizes(rows.column(windowing.partition))
        sizes = Counter(shard_of(group, count) for group in groups).values()
        windows = {
            group: math.ceil(own / windowing.window_size(own)) for group, own in groups.items()
        }
        longest = max(windows, key=lambda group: windows[group], default="")
        return cls(
            count, workers, len(groups), min(sizes, default=0), max(sizes, default=0), rows.num_rows,
            longest, groups[longest], windows.get(longest, 0),
        )  # fmt: skip

    def text(self) -> str:
        """The shards in a line."""
        groups = f"{self.least} to {self.most}" if self.least < self.most else str(self.most)
        return (
            f"{plural(self.count, 'shard')}, {plural(self.workers, 'worker')} · "
            f"{plural(self.groups, 'group')}, {groups} a shard"
            f' · longest chain: {plural(self.longest_windows, "window")} of "{self.longest}"'
        )


def _sizes(partition: pa.ChunkedArray[Any]) -> Counter[str]:
    """The number of rows of each group."""
    sizes = Counter[str]()
    for group in partition.value_counts().to_pylist():
        sizes[group["values"] or ""] += group["counts"]
    return sizes


@dataclass
class ShardRows:
    """The rows of a shard.

    Args:
        number: Of the shard, from 0.
        file: They are here, with their places in the whole input as an additional column.
        rows: How many there are.
        groups: Rows by group.
    """

    number: int
    file: Path
    rows: int = 0
    groups: Counter[str] = field(default_factory=Counter)

    def read(self) -> tuple[pa.Table, list[int]]:
        """The rows, and their places."""
        import pyarrow.parquet as pq

        table = pq.read_table(self.file)
        return table.drop_columns(INPUT_ROW), values(table.column(INPUT_ROW))


class ShardLayout:
    """The rows of all shards of an input, written as they come.

    Args:
        folder: Where the files are.
        windowing: How the input is cut.
        shards: How many shards there are.
    """

    def __init__(self, folder: Path, windowing: Windowing, shards: int) -> None:
        self.folder, self.windowing, self.count = folder, windowing, shards
        self.shards: dict[int, ShardRows] = {}
        self.rows = 0
        self._writers: dict[int, tuple[object, object]] = {}
        self._shard_of: dict[str, int] = {}

    def add(self, table: pa.Table) -> None:
        """Write the next rows of the input."""
        import pyarrow.parquet as pq

        self._check_keys(table)
        groups = [group or "" for group in table.column(self.windowing.partition).to_pylist()]
        rows_of: dict[int, list[int]] = {}
        for row, group in enumerate(groups):
            rows_of.setdefault(self._number(group), []).append(row)
        places = pa.array(range(self.rows, self.rows + table.num_rows), pa.int64())
        table = table.append_column(INPUT_ROW, places)
        for number, own in rows_of.items():
            shard = self._shard(number)
            shard.rows += len(own)
            shard.groups.update(groups[row] for row in own)
            rows = table.take(pa.array(own, pa.int64()))
            if number not in self._writers:
                private_folder(self.folder)
                out = open_private(shard.file, "wb")
                self._writers[number] = (out, pq.ParquetWriter(out, rows.schema))
            self._writers[number][1].write_table(rows)  # type: ignore[attr-defined]
        self.rows += table.num_rows

    def __enter__(self) -> Self:
        """Closes its files at the end, also after an error."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close files that an error has left open."""
        for out, writer in self._writers.values():
            with suppress(OSError):
                writer.close()  # type: ignore[attr-defined]
            with suppress(OSError):
                out.close()  # type: ignore[attr-defined]

    def close(self) -> list[ShardRows]:
        """All shards with rows, the largest first: the last one to end should be small."""
        for out, writer in self._writers.values():
            writer.close()  # type: ignore[attr-defined]
            out.close()  # type: ignore[attr-defined]
        self._writers = {}
        return sorted(self.shards.values(), key=lambda shard: (-shard.rows, shard.number))

    def _shard(self, number: int) -> ShardRows:
        if number not in self.shards:
            self.shards[number] = ShardRows(number, self.folder / f"{number:05}.parquet")
        return self.shards[number]

    def _number(self, group: str) -> int:
        if group not in self._shard_of:
            self._shard_of[group] = shard_of(group, self.count)
        return self._shard_of[group]

    def _check_keys(self, table: pa.Table) -> None:
        cut = self.windowing
        if not cut.key or not cut.key_of or cut.partition in cut.key_of:
            return
        if table.column(cut.key).null_count:
            names = ", ".join(cut.key_of)
            what = f"input {cut.input}: {names} name rows without {cut.key}, and two shards may share them"
            raise InputError(Problem(what, hint=f"give each row its {cut.key}, or {_ALONE}"))
