"""What a run works with: its plan, models, store and counters, shared by all that is evaluated."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import pyarrow as pa

from semgraph.execution.windows import Confinement
from semgraph.expr.scalar import Scalar
from semgraph.llm.base import LLM, Embedder, Vectors
from semgraph.logical.node import Node, walk
from semgraph.logical.semantic import Embed, Semantic, SemTopk
from semgraph.meter import Meter, OperatorMetrics, StepMetrics
from semgraph.physical.plan import PhysicalPlan
from semgraph.physical.retrieval import Partition
from semgraph.private import create_private
from semgraph.relational.batch import Batch
from semgraph.semantic.ask import Answered
from semgraph.semantic.context import count_embeddings
from semgraph.stores.base import MatchQuery, SearchQuery, Store, count_round_trips

T = TypeVar("T")


class MeteredReads:
    """The reads of a store, counted and timed towards one step."""

    def __init__(self, store: Store, metrics: StepMetrics) -> None:
        self.store, self.metrics = store, metrics
        self.takes = store.takes

    async def _count(self, call: Coroutine[Any, Any, T]) -> T:
        started = time.perf_counter()
        with count_round_trips() as trips:
            try:
                return await call
            finally:
                self.metrics.round_trips += trips.number
                self.metrics.seconds += time.perf_counter() - started

    async def search(self, queries: Sequence[SearchQuery], rows: pa.Table) -> list[pa.Table]:
        """As `Store.search`."""
        return await self._count(self.store.search(queries, rows))

    async def match(self, query: MatchQuery, rows: pa.Table) -> pa.Table:
        """As `Store.match`."""
        return await self._count(self.store.match(query, rows))

    async def scan(
        self,
        label: str,
        properties: Sequence[str],
        partitions: Sequence[str] | None,
        where: Sequence[Scalar],
        limit: int | None = None,
    ) -> pa.Table:
        """As `Store.scan`."""
        return await self._count(self.store.scan(label, properties, partitions, where, limit))


_LOCK_SECONDS = 1.0  # the event loop waits for these statistics: better without them than late


@dataclass
class Seen:
    """Sums over runs, of which older ones count less.

    Args:
        runs: How many.
        rows_in: Rows of the first input.
        rows_out: Rows that it gave.
        items: Rows, pairs or groups that a model was asked about.
        calls: What a run without a journal would issue: equal questions of one run count once.
        issued: Those that were issued, which `seconds` is about.
        tokens_in: Tokens sent for `calls`.
        tokens_out: Tokens answered.
        dollars: What they cost; NaN once a price was not known.
        seconds: How long it took.
    """

    runs: float = 0
    rows_in: float = 0
    rows_out: float = 0
    items: float = 0
    calls: float = 0
    issued: float = 0
    tokens_in: float = 0
    tokens_out: float = 0
    dollars: float = 0
    seconds: float = 0

    def add(self, other: Seen, weight: float = 1.0) -> Seen:
        """The sum of this, weighted, and another."""
        names = [f.name for f in fields_of(self)]
        return Seen(*(getattr(self, name) * weight + getattr(other, name) for name in names))


def key_of(plan: PhysicalPlan, node: Node) -> str:
    """The key of a materialised node: what it does, not over which rows; its implementation; and
    the window that cuts its rows.
    """
    parts = plan.nodes[node].content()
    order = plan.logical.order
    if order is not None and node.partitioned:
        parts.append(f"window {order.window}, ahead {order.ahead}")
    return hashlib.blake2b(
        "\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=16
    ).hexdigest()


@dataclass
class Observations:
    """What one run sees; of a sample, nothing of operators over groups, which are smaller there."""

    plan: PhysicalPlan
    sample: bool = False
    seen: dict[str, Seen] = field(default_factory=dict)
    _keys: dict[Node, str] = field(default_factory=dict)

    def rows(self, node: Node, rows_in: int, rows_out: int) -> None:
        """An operator was computed."""
        self._add(node, Seen(1, rows_in, rows_out))

    def asked(self, node: Node, items: int, did: StepMetrics, replayed: StepMetrics) -> None:
        """An operator asked about some items; `replayed` had been paid by earlier runs."""
        paid = StepMetrics()
        paid.add(did)
        paid.add(replayed)
        dollars = float("nan") if paid.dollars is None else paid.dollars
        calls, issued = paid.calls_issued, did.calls_issued
        seconds = did.seconds if issued else 0.0
        self._add(
            node,
            Seen(0, 0, 0, items, calls, issued, paid.tokens_in, paid.tokens_out, dollars, seconds),
        )

    def _add(self, node: Node, seen: Seen) -> None:
        if self.sample and (node.rows == "collapse" or isinstance(node, SemTopk)):
            return
        key = self._keys.get(node)  # a window computes the same nodes as the one before
        if key is None:
            key = self._keys[node] = key_of(self.plan, node)
        self.seen[key] = self.seen.get(key, Seen()).add(seen)


class ObservationFile:
    """The file that keeps what runs saw. Opened for each reading and writing; several processes may
    use it.

    Only estimates depend on it, so no error of the file reaches the caller: `note` says what was
    wrong, "" if nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.note = ""

    @classmethod
    def beside(cls, journal: Path | None) -> ObservationFile | None:
        """The one that belongs to a journal; None where none is kept."""
        return None if journal is None else cls(journal.with_name(f"{journal.stem}.observed.db"))

    def read(self) -> Mapping[str, Seen]:
        """All that is known, by `key_of`; nothing if the file cannot be read."""
        try:
            return self._read()
        except (sqlite3.Error, _DamagedRow, OSError) as error:
            hint = (
                "the next run replaces it"
                if _is_damage(error)
                else "check who holds it, and its rights"
            )
            self.note = (
                f"{self.path} cannot be read ({error}): estimates do not use earlier runs; {hint}"
            )
            return {}

    def add(self, seen: Mapping[str, Seen]) -> None:
        """Take in what a run saw. A damaged file is set aside and a new one begun."""
        if not seen:
            return
        try:
            try:
                self._add(seen)
            except (sqlite3.Error, _DamagedRow) as error:
                if not _is_damage(error):
                    raise
                aside = self._set_aside()
                self._add(seen)
                self.note = f"{self.path} was damaged ({error}): moved to {aside.name} and replaced; only estimates use it"
        except (sqlite3.Error, OSError) as error:
            self.note = (
                f"{self.path} cannot be written ({error}): later estimates will not know this run"
            )

    def _read(self) -> dict[str, Seen]:
        if not self.path.is_file():
            return {}
        with closing(self._open()) as database:
            rows = database.execute(f"SELECT key, {', '.join(_COLUMNS)} FROM observed").fetchall()
        return {key: Seen(*map(_number, rest)) for key, *rest in rows}

    def _add(self, seen: Mapping[str, Seen]) -> None:
        known = self._read()
        rows = [(key, *_values(known.get(key, Seen()).add(new, 0.5))) for key, new in seen.items()]
        with closing(self._open()) as database, database:
            marks = ", ".join("?" * (len(_COLUMNS) + 1))
            database.executemany(
                f"INSERT OR REPLACE INTO observed (key, {', '.join(_COLUMNS)}) VALUES ({marks})",
                rows,
            )

    def _open(self) -> sqlite3.Connection:
        create_private(self.path)
        database = sqlite3.connect(self.path, timeout=_LOCK_SECONDS)
        try:
            database.execute(
                "PRAGMA synchronous = OFF"
            )  # a file that a power failure damages is replaced
            columns = ", ".join(f"{name} REAL" for name in _COLUMNS)
            database.execute(
                f"CREATE TABLE IF NOT EXISTS observed (key TEXT PRIMARY KEY, {columns})"
            )
        except BaseException:
            database.close()
            raise
        return database

    def _set_aside(self) -> Path:
        aside = self.path.with_name(f"{self.path.name}.damaged")
        self.path.replace(aside)
        self.path.with_name(f"{self.path.name}-journal").unlink(missing_ok=True)
        return aside


class _DamagedRow(Exception):
    """A row holds what no run wrote."""


def _is_damage(error: Exception) -> bool:
    """Whether the file is no database of ours, rather than locked or unreadable."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, _DamagedRow) or code in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,
    )


_COLUMNS = tuple(f.name for f in fields_of(Seen))


def _number(value: object) -> float:
    if value is None:
        return float("nan")
    if not isinstance(value, (int, float)):
        raise _DamagedRow(f"a {type(value).__name__} where a number belongs")
    return float(value)


def _values(seen: Seen) -> tuple[float, ...]:
    return tuple(getattr(seen, name) for name in _COLUMNS)


Observer = Callable[[Node, Batch], None]


class RowRecorder(Protocol):
    """A run record, as far as windows need it: rows are in it before their window is committed."""

    def begin(self) -> None:
        """From now on, rows can be taken back."""
        ...

    def take_back(self) -> None:
        """Forget the rows since `begin`."""
        ...

    def keep(self) -> None:
        """Write all rows so far, so that they outlast the process."""
        ...

    def end(self) -> None:
        """Rows are not taken back any more."""
        ...


class Lineage(Protocol):
    """The lineage of a run's rows: their ids, and the rows that each is made of."""

    def ids(self, count: int) -> range:
        """Ids for new rows."""
        ...

    def ids_of(self, name: str, places: Sequence[int]) -> Sequence[int]:
        """The ids of rows of an input."""
        ...

    def add(self, rows: Batch) -> None:
        """Record what rows with ids are made of."""
        ...


class NoRecord:
    """Keeps nothing."""

    def begin(self) -> None:
        """Do nothing."""

    take_back = keep = end = begin


@dataclass
class Runtime:
    """What a run works with, shared by all its evaluations.

    Args:
        plan: The physical plan.
        llm: The model stack; answers by role.
        embedder: The embedder stack.
        store: The store.
        meter: Counters by step.
        partitions: Partition values by `_p`, which is the number of an input row.
        confinement: What `_p` stands for; None without windows.
        observe: Called with the rows of each node, for the run record.
        recorder: Keeps the rows that `observe` takes.
        lineage: Keeps what rows are made of; None where nothing is recorded.
        answered: Called with the evidence of each semantic node, for the run record.
        asking: Called with the number of further rows that a semantic node asks about; with a
            negative number when they are answered.
        note: Takes what implementations have to say to the user.
        remembers: Whether answers are kept in memory while their windows run, as nothing else keeps
            them.
        observations: Told rows in and out of each node and what it asked, for later estimates.
        trial: Which independent repetition this is: part of every request.
    """

    plan: PhysicalPlan
    llm: LLM
    embedder: Embedder
    store: Store
    meter: Meter
    partitions: list[str] = field(default_factory=list)
    confinement: Confinement | None = None
    observe: Observer = lambda _node, _rows: None
    recorder: RowRecorder = field(default_factory=NoRecord)
    lineage: Lineage | None = None
    answered: Callable[[Node, Answered], None] = lambda _node, _answered: None
    asking: Callable[[Node, int], None] = lambda _node, _rows: None
    note: Callable[[str], None] = lambda _text: None
    remembers: bool = False
    observations: Observations | None = None
    trial: int = 0

    def begins(self, node: Node) -> bool:
        """Whether the rows of a step that asks no model come in at this operator; of others, rows
        in are those asked about.
        """
        return (
            bool(node.inputs)
            and node.inputs[0].step != node.step
            and node.step not in self._asking_steps
        )

    def ends(self, node: Node) -> bool:
        """Whether the rows of this operator are those that its step gives."""
        return self._last.get(node.step) is node

    @cached_property
    def _last(self) -> dict[str, Node]:
        return self.plan.named()

    @cached_property
    def _asking_steps(self) -> frozenset[str]:
        return frozenset(
            node.step for node in walk(*self.plan.roots) if isinstance(node, (Semantic, Embed))
        )

    async def embed(self, step: str, texts: Sequence[str], partition: Partition) -> Vectors:
        """Embed distinct texts of one partition, metered to a step."""
        name = self.partitions[partition] if isinstance(partition, int) else partition
        embeddings = await self.embedder.embed(texts, name)
        count_embeddings(self.meter.step(step), embeddings)
        return embeddings.vectors


InputRowSet = Collection[int] | None
"""Numbers of input rows; None: all."""


@dataclass(frozen=True)
class StepFlow:
    """Rows that come into a step or leave it; None where they are not known, inside a statement
    that does several steps.
    """

    step: StepMetrics
    counter: Literal["rows_in", "rows_out"]
    batch: Batch | None

    def count(self, rows: InputRowSet) -> None:
        """Count those of some input rows. A number that is not known in one window is not known for
        the run.
        """
        before: int | None = getattr(self.step, self.counter)
        if self.batch is None or before is None:
            setattr(self.step, self.counter, None)
        else:
            own = self.batch.of_rows(rows, shared=True).num_rows
            setattr(self.step, self.counter, before + own)


@dataclass(frozen=True)
class RowsReport:
    """The rows of an operator, and what came into steps and left them with it."""

    batch: Batch
    flows: Sequence[StepFlow]
    observe: Callable[[Batch], None]

    def record(self, rows: InputRowSet) -> None:
        """Record those of some input rows."""
        self.observe(self.batch.of_rows(rows, shared=True))

    def count(self, rows: InputRowSet) -> None:
        """Count those of some input rows."""
        for flow in self.flows:
            flow.count(rows)


@dataclass(frozen=True)
class LineageReport:
    """Rows with ids, and what they are made of."""

    rows: Batch
    lineage: Lineage

    def record(self, rows: InputRowSet) -> None:
        """Record those of some input rows."""
        self.lineage.add(self.rows.of_rows(rows, shared=True))

    def count(self, rows: InputRowSet) -> None:
        """Count nothing."""


@dataclass(frozen=True)
class AnswersReport:
    """What an operator asked, and the answers."""

    answered: Answered
    observe: Callable[[Answered], None]
    part: OperatorMetrics

    def record(self, rows: InputRowSet) -> None:
        """Record what was asked for some input rows."""
        evidence = self.answered.evidence
        if evidence is not None:
            evidence = Batch.of_table(evidence).of_rows(rows, shared=True).table
        self.observe(replace(self.answered, evidence=evidence))

    def count(self, rows: InputRowSet) -> None:
        """Count what was asked for some input rows."""
        self.part.rows_in = (self.part.rows_in or 0) + self.answered.asked_of(rows)
        self.part.gave(Batch.of_table(self.answered.table).of_rows(rows, shared=True).num_rows)
