"""From the rows of sinks to the writes of a transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semgraph.errors import DataError, EngineError
from semgraph.logical.sinks import Delete as DeleteSink
from semgraph.logical.sinks import Merge, Sink
from semgraph.physical.planner import SinkSpec
from semgraph.physical.search_vectors import Embed, vectors_of, whose
from semgraph.physical.sql import MEMBER, PARTITION
from semgraph.stores.base import Batch, Delete, EdgeWrite, NodeWrite, Write

_LONG = 120


@dataclass(frozen=True)
class Writes:
    """A batch, and the sink that each of its writes is of."""

    batch: Batch
    sinks: tuple[Sink, ...]

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Rows that the store refuses are told with the place of their sink."""
        try:
            yield
        except DataError as error:
            for write, sink in zip(self.batch.writes, self.sinks, strict=True):
                if write is error.write or len(self.sinks) == 1:
                    raise error.at(sink.step, sink.origin) from error
            raise


async def writes_of(specs: Sequence[tuple[SinkSpec, pa.Table]], embed: Embed) -> Writes:
    """The writes of some sinks, deletes first, then nodes, then edges; sinks without rows write nothing. Raises DataError."""
    found: list[tuple[Write, Sink]] = []
    for spec, table in specs:
        if not table.num_rows:
            continue
        try:
            found.append((await _write(spec, table, embed), spec.sink))
        except DataError as error:
            raise error.at(spec.sink.step, spec.sink.origin) from None
    found.sort(key=lambda pair: 0 if isinstance(pair[0], Delete) else 1 if isinstance(pair[0], NodeWrite) else 2)
    return Writes(Batch(tuple(write for write, _ in found)), tuple(sink for _, sink in found))


async def _write(spec: SinkSpec, table: pa.Table, embed: Embed) -> Write:
    sink = spec.sink
    rows = table.drop_columns([n for n in (PARTITION, MEMBER) if n in table.column_names])
    key = sink.graph.key
    unite = frozenset(sink.unite) if isinstance(sink, Merge) else frozenset[str]()
    made_of = sink.key if isinstance(sink, Merge | DeleteSink) else ""
    rows = _one_row_a_key(rows, key, unite, made_of)
    if isinstance(sink, DeleteSink):
        return Delete(sink.label.name, rows, sink.detach)
    if not isinstance(sink, Merge):
        raise EngineError(f"step {sink.step}: {sink.keyword} does not write")
    for derived in sink.label.derived.values():
        if derived.by == "embed" and derived.of in rows.column_names:
            texts = rows.column(derived.of).combine_chunks()
            vectors = await vectors_of(texts, embed, whose(rows, sink.graph.partition))
            rows = rows.append_column(derived.name, vectors)
    create = frozenset(name for name, _ in sink.create)
    kind = NodeWrite if sink.label.kind == "node" else EdgeWrite
    return kind(sink.label.name, rows, create, unite, bool(sink.only))


def _one_row_a_key(rows: pa.Table, key: str, unite: frozenset[str], made_of: str = "") -> pa.Table:
    """Rows with one key become one: they must agree in every column outside `unite`; NULL agrees with all."""
    keys = rows.column(key).to_pylist()
    if None in keys:
        rest = f"filter: {made_of or key} IS NOT NULL"
        hint = f"make a key of what tells rows apart, id(...), or leave such rows out before: {rest}"
        raise DataError(f'the key "{key}" of a row to write is NULL: {_shown(rows, keys.index(None))}', hint=hint)
    if len(set(keys)) == len(keys):
        return rows
    merged: dict[Any, dict[str, Any]] = {}
    for row in rows.to_pylist():
        before = merged.setdefault(row[key], row)
        if before is row:
            continue
        for name, value in row.items():
            if name in unite:
                old = before[name] or []
                before[name] = [*old, *(v for v in value or [] if v not in old)]
            elif before[name] is None:
                before[name] = value
            elif value is not None and value != before[name]:
                two = f"{_cut(_json(before[name]))} and {_cut(_json(value))}"
                hint = (
                    f"make one row of them before: {{distinct: [{key}]}} keeps the first, aggregate puts them together"
                )
                if pa.types.is_list(rows.schema.field(name).type):
                    hint += f"; unite: [{name}] unites lists"
                raise DataError(f'two rows with {key} "{row[key]}" differ in "{name}": {two}', hint=hint)
    return pa.Table.from_pylist(list(merged.values()), schema=rows.schema)


def _shown(rows: pa.Table, place: int) -> str:
    """A row in a line, without what is NULL."""
    row = rows.drop_columns([f.name for f in rows.schema if pa.types.is_fixed_size_list(f.type)]).slice(place, 1)
    values = {name: value for name, value in row.to_pylist()[0].items() if value is not None}
    return _cut(", ".join(f"{name} {_json(value)}" for name, value in values.items())) or "all of it is NULL"


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"


def _json(value: object) -> str:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)
