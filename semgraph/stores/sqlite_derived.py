"""Properties that derive from others, of rows that were stored before their graph had them, or without vectors."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from semgraph.expr.functions import TEXT_FUNCTIONS
from semgraph.stores.sqlite_schema import Table, quote


def fill_derived(con: sqlite3.Connection, tables: Mapping[str, Table]) -> dict[tuple[str, str], int]:
    """Store what rows lack, within a transaction that writes; how many rows, by label and property."""
    found: dict[tuple[str, str], int] = {}
    for table in tables.values():
        for derived in table.label.derived.values():
            if derived.by == "embed":
                continue
            con.create_function("derive", 1, TEXT_FUNCTIONS[derived.by].python, deterministic=True)
            name, of = quote(derived.name), quote(derived.of)
            sql = f"UPDATE {table.name} SET {name} = derive({of}) WHERE {name} IS NULL AND {of} IS NOT NULL"
            if number := con.execute(sql).rowcount:
                found[table.label.name, derived.name] = number
    return found


def count_unembedded(con: sqlite3.Connection, tables: Mapping[str, Table]) -> dict[tuple[str, str], int]:
    """How many rows have a text and no vector of it, by label and vector property."""
    found: dict[tuple[str, str], int] = {}
    for table in tables.values():
        for derived in table.label.derived.values():
            if derived.by == "embed":
                lacks = f"t.{quote(derived.of)} IS NOT NULL AND {table.stored(derived.name)} IS NULL"
                sql = f"SELECT count(*) FROM {table.name} t WHERE {lacks}"
                [found[table.label.name, derived.name]] = con.execute(sql).fetchone()
    return found
