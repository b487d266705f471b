"""Statements that DuckDB has parsed, bound and planned once, run again and again over other tables.

Of the milliseconds that a small statement takes, planning takes most; plans run the same statements for every window.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import duckdb
import pyarrow as pa

from semgraph.expr.binder import connection, with_now
from semgraph.expr.scalar import NOW

_EXECUTE = "EXECUTE statement"
_KEPT = 256  # statements; each has a cursor of its own, so that equal names of tables do not meet


class _Slot:
    """A table under a fixed name, which is another one each time: DuckDB asks it for its rows when a statement runs."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._empty = schema.empty_table()
        self.table = self._empty

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream: object = self.table.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]
        return stream

    def clear(self) -> None:
        """Let go of the rows."""
        self.table = self._empty


class Prepared:
    """One statement over tables of fixed names, as SQL has them, and schemas. Several threads take turns."""

    def __init__(self, sql: str, like: Mapping[str, pa.Table]) -> None:
        self._lock = threading.Lock()
        self._cursor = connection().cursor()
        self._slots = {name: _Slot(table.schema) for name, table in like.items()}
        timed = with_now(sql)
        self._timed = timed != sql
        for name, slot in self._slots.items():
            self._cursor.register(name.strip('"'), slot)
        self._cursor.execute("PREPARE statement AS " + timed)
        [self._parsed] = self._cursor.extract_statements(_EXECUTE)

    def run(self, tables: Mapping[str, pa.Table], now: datetime | None = None) -> pa.Table:
        """The rows over these tables. Raises duckdb.Error."""
        statement = f"{_EXECUTE}({NOW} := {_literal(now)})" if self._timed else self._parsed
        with self._lock:
            try:
                for name, table in tables.items():
                    self._slots[name].table = table
                found = _rows(self._cursor.execute(statement))
            finally:
                for slot in self._slots.values():
                    slot.clear()
        return found


def _rows(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
    """The rows of an executed statement. DuckDB warns that they are copied: it does the same for a relation of `sql`, after
    it has bound the statement a second time, which takes longer than a small statement itself.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)
        return cast("pa.Table", cursor.to_arrow_table())


def _literal(now: datetime | None) -> str:
    return "NULL::TIMESTAMPTZ" if now is None else f"TIMESTAMPTZ '{now.astimezone(UTC).isoformat(sep=' ')}'"


_statements: OrderedDict[tuple[Any, ...], Prepared] = OrderedDict()
_lock = threading.Lock()


def prepared(sql: str, tables: Mapping[str, pa.Table]) -> Prepared:
    """The statement over tables of these names and schemas; the least used of many are forgotten. Raises duckdb.Error."""
    key = (sql, *((name, table.schema) for name, table in tables.items()))
    with _lock:
        found = _statements.get(key)
        if found is not None:
            _statements.move_to_end(key)
            return found
    made = Prepared(sql, tables)
    with _lock:
        if len(_statements) >= _KEPT:
            _statements.popitem(last=False)
        return _statements.setdefault(key, made)
