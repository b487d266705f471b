"""The rows that ask as temporary tables, and conjuncts in SQL over them.

Rows go through a temporary table rather than through JSON: SQLite's JSON cuts texts at the character NUL.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from semgraph.errors import EngineError
from semgraph.expr import Scalar, Type
from semgraph.expr.types import type_of_arrow
from semgraph.stores.base import Alias
from semgraph.stores.conjunct import Prop, Term, Test, Value, cast_values, constant, evaluate, read, values_of
from semgraph.stores.rows import column, partitions_of
from semgraph.stores.sqlite_schema import quote
from semgraph.stores.sqlite_values import encode

_INFIX = {"and": "AND", "or": "OR", "=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "same": "IS"}
_CALLS = {"coalesce": "coalesce", "contains": "list_holds", "overlaps": "lists_meet"}


class Asking:
    """The rows of one round trip. What queries say of them is collected first and loaded once.

    In SQL the rows are `r`, with their ordinal `r.q`.
    """

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.ordinals: list[Any] = column(rows, "_q").to_pylist()
        self._columns: list[list[Any]] = []
        self._names: dict[object, str] = {}
        self._partitions: dict[str, list[tuple[str, ...]]] = {}

    @property
    def table(self) -> str:
        """The temporary table with the rows; named by its width, so that statements stay prepared."""
        return quote(f"#rows{len(self._columns)}")

    def column(self, name: object, array: pa.Array[Any], kind: Type | None = None) -> str:
        """A column of the rows in SQL. `name` makes it one column however often it is asked for."""
        if name not in self._names:
            self._names[name] = f"r.c{len(self._columns)}"
            self._columns.append(encode(array, kind or type_of_arrow(array.type), f'column "{name}" of the rows'))
        return self._names[name]

    def path(self, path: str, kind: Type) -> str:
        """A column by its path, of the type that it is compared with."""
        return self.column((path, kind), column(self.rows, path), kind)

    def conjuncts(self, scalars: Sequence[Scalar], alias: Alias, term: Callable[[Prop], tuple[str, Type]]) -> list[str]:
        """Conjuncts in SQL.

        Args:
            scalars: What the store takes.
            alias: As in `conjunct.read`.
            term: Text and type of a property.
        """
        terms = []
        for scalar in scalars:
            found = read(scalar, alias)
            if found is None:
                raise EngineError(f'SQLite was given "{scalar.text}", which it does not take')
            terms.append(cast_values(found, lambda prop: term(prop)[1]))
        values = values_of(terms)
        of_rows = [value for value in values if value.columns]
        for value, array in zip(of_rows, evaluate(of_rows, self.rows), strict=True):
            self.column(value, array)
        for value in values:
            if not value.columns:
                self.column(value, constant(value).take(pa.array([0] * self.rows.num_rows, pa.int64())))
        return [self._text(one, term) for one in terms]

    def _text(self, term: Term, prop: Callable[[Prop], tuple[str, Type]]) -> str:
        if isinstance(term, Prop):
            return prop(term)[0]
        if isinstance(term, Value):
            return self._names[term]
        return _test(term, [self._text(arg, prop) for arg in term.args])

    def partitions(self, path: str) -> list[tuple[str, ...]]:
        """For each row, the partitions that it may see."""
        if path not in self._partitions:
            self._partitions[path] = partitions_of(self.rows, path)
        return self._partitions[path]

    def parts(self, path: str) -> str:
        """The temporary table with rows and partitions, `(q, part)`."""
        self.partitions(path)
        return quote(f"#parts{list(self._partitions).index(path)}")

    def load(self, con: sqlite3.Connection) -> None:
        """Fill the temporary tables, within a transaction."""
        names = "".join(f", c{i}" for i in range(len(self._columns)))
        marks = ", ".join("?" * (len(self._columns) + 1))
        con.execute(f"CREATE TEMP TABLE IF NOT EXISTS {self.table} (q INTEGER PRIMARY KEY{names})")
        con.execute(f"DELETE FROM temp.{self.table}")
        con.executemany(
            f"INSERT INTO temp.{self.table} VALUES ({marks})", zip(self.ordinals, *self._columns, strict=True)
        )
        for path, listed in self._partitions.items():
            parts = self.parts(path)
            con.execute(
                f"CREATE TEMP TABLE IF NOT EXISTS {parts} (q INTEGER, part TEXT, PRIMARY KEY (q, part)) WITHOUT ROWID"
            )
            con.execute(f"DELETE FROM temp.{parts}")
            pairs = ((q, part) for q, row in zip(self.ordinals, listed, strict=True) for part in row)
            con.executemany(f"INSERT INTO temp.{parts} VALUES (?, ?)", pairs)


def _test(test: Test, args: list[str]) -> str:
    if test.op in _INFIX:
        return f"({args[0]} {_INFIX[test.op]} {args[1]})"
    if test.op in _CALLS:
        return f"{_CALLS[test.op]}({', '.join(args)})" if len(args) > 1 else args[0]
    if test.op == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    if test.op == "pair":
        a, b, c, d = args
        return f"(({a} IS {c} AND {b} IS {d}) OR ({a} IS {d} AND {b} IS {c}))"
    return f"(NOT {args[0]})" if test.op == "not" else f"({args[0]} IS NULL)"


def pinned(term: Term, names: Iterable[str]) -> bool:
    """Whether a conjunct leaves only hits whose value of one of the properties is among a few known ones."""
    if not isinstance(term, Test):
        return False
    if term.op in ("and", "or"):
        sides = [pinned(arg, names) for arg in term.args]
        return any(sides) if term.op == "and" else all(sides)
    found = [isinstance(arg, Prop) and arg.name in names for arg in term.args]
    known = all(mine or isinstance(arg, Value) for mine, arg in zip(found, term.args, strict=True))
    if term.op == "pair":
        return known
    return term.op in ("=", "in") and known and sum(found) == 1 and (term.op == "=" or found[0])


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[Any, ...]:
    return tuple(json.loads(text))


def list_holds(listed: str | None, item: Any) -> bool | None:
    """Whether a list, as it is stored, has an item. NULL if either is NULL."""
    return None if listed is None or item is None else item in _parsed(listed)


def lists_meet(left: str | None, right: str | None) -> bool | None:
    """Whether two lists, as they are stored, have an item in common that is not NULL."""
    if left is None or right is None:
        return None
    return not {v for v in _parsed(left) if v is not None}.isdisjoint(_parsed(right))
