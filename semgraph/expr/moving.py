"""Functions whose result is another one each time, which plans must not call: a run taken up again would differ.

DuckDB says of each function whether it is consistent; of some that read a clock or the engine it says so wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import duckdb
from sqlglot import exp

from semgraph.errors import Fault
from semgraph.expr.scalar import Scalar

_WORD = re.compile(
    r"""'(?:[^']|'')*'|"(?P<quoted>(?:[^"]|"")*)"(?P<quoted_call>\s*\()?|(?P<word>[A-Za-z_]\w*)(?P<called>\s*\()?"""
)
_CALLED_CONSISTENT = {"version", "current_localtime", "current_localtimestamp", "session_user", "current_role"}
_BARE = frozenset({
    "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "current_catalog",
    "current_schema", "current_role", "current_user", "session_user", "user",
})  # fmt: skip
_CLOCK = ("now", "time", "today", "date", "age", "ago")


@lru_cache(maxsize=1)
def _moving(con: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Names of functions and macros whose result does not depend on their arguments alone."""
    sql = "SELECT DISTINCT function_name, stability, macro_definition FROM duckdb_functions() WHERE function_type IN "
    rows = con.cursor().sql(f"{sql}('scalar', 'aggregate', 'window', 'macro')").fetchall()
    found = _CALLED_CONSISTENT | _BARE
    found |= {name for name, stability, _ in rows if stability not in ("CONSISTENT", None)} - {"error"}
    macros = {name: set(_words(body)) for name, _, body in rows if body}
    while more := {name for name, body in macros.items() if name not in found and body & found}:
        found |= more
    return frozenset(found)


@lru_cache(maxsize=1)
def callable_names(con: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Names of functions and macros that plans may call, `id` included."""
    sql = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN "
    rows = con.cursor().sql(f"{sql}('scalar', 'aggregate', 'window', 'macro')").fetchall()
    named = {name for (name,) in rows if name[:1].isalpha() and not name.startswith("pg_")}
    return frozenset(named | {"id"}) - _moving(con)


def called(sql: str) -> Iterator[str]:
    """Names of the functions that SQL calls, in lower case."""
    return _words(sql, frozenset())


def _words(sql: str, bare: frozenset[str] = _BARE) -> Iterator[str]:
    """Functions called in SQL, and words that are calls without parentheses; identifiers are quoted there."""
    for match in _WORD.finditer(sql):
        word = (match["word"] or "").lower()
        if match["quoted_call"]:
            yield match["quoted"].lower()
        elif match["called"] or word in bare:
            yield word


@lru_cache(maxsize=8192)
def refuse_moving(scalar: Scalar, con: duckdb.DuckDBPyConnection) -> None:
    """Refuse a scalar that gives another result each time. Raises Fault."""
    if "(" not in scalar.sql and not any(word in scalar.sql.lower() for word in _BARE):
        return
    said = (*called(scalar.text), *_words(scalar.sql))
    name = next((word for word in said if word in _moving(con)), None)
    if name is None and any(_one_argument_age(call) for call in scalar.ast.find_all(exp.Anonymous)):
        raise Fault('"age" of one time depends on today\'s date', hint="the time of a window is $now: age($now, time)")
    if name is not None:
        hint = "the time of a window is $now" if any(part in name for part in _CLOCK) else None
        hint = "id(columns) makes ids" if "uuid" in name else hint
        raise Fault(f'"{name}" would make the plan give another result each time', hint=hint)


def _one_argument_age(call: exp.Anonymous) -> bool:
    return str(call.this).lower() == "age" and len(call.expressions) == 1
