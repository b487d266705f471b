"""The evaluator of scalars agrees with DuckDB itself: it is what the engine's results are compared
with.
"""

from __future__ import annotations

import random
import re
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.fuzz.expressions import Expressions, Kind, sql_kind
from tests.fuzz.parsing import parse
from tests.fuzz.rows import COLUMNS, rows
from tests.fuzz.scalar import Scope, evaluate, sort
from tests.fuzz.values import Uncomputable, same_key

KINDS: tuple[Kind, ...] = (
    "int64",
    "double",
    "string",
    "boolean",
    "timestamp",
    ("list", "int64"),
    ("list", "string"),
)
ARROW = {
    "int64": pa.int64(), "double": pa.float64(), "string": pa.string(), "boolean": pa.bool_(), "timestamp": pa.timestamp("us", tz="UTC"),
}  # fmt: skip
AT_ONCE = 20
SEEDS = pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, 20), marks=pytest.mark.nightly)], ids=["few", "more"]
)


def arrow(kind: Kind) -> pa.DataType:
    if not isinstance(kind, tuple):
        return ARROW[kind]
    return (
        pa.list_(arrow(kind[1]))
        if kind[0] == "list"
        else pa.struct([(name, arrow(inner)) for name, inner in kind[1]])
    )


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(config={"threads": 1})
    con.execute("SET TimeZone='UTC'")
    con.execute("CREATE MACRO key(t) AS lower(trim(regexp_replace(t, '\\s+', ' ', 'g')))")
    return con


def batches(seeds: range) -> list[tuple[Expressions, list[dict[str, Any]]]]:
    """Rows, and where expressions over them come from."""
    made = []
    for seed in seeds:
        rng = random.Random(seed)
        made.append(
            (
                Expressions(rng, {}),
                [with_doubles(row) for row in rows(rng, many=True, failing=False)[:12]],
            )
        )
    return made


def with_doubles(row: dict[str, Any]) -> dict[str, Any]:
    """A row of an input with the column `x` that plans make of its text."""
    return {**row, "x": None if row["x_text"] is None else float(row["x_text"])}


def of_duckdb(
    database: duckdb.DuckDBPyConnection,
    texts: list[str],
    listed: list[dict[str, Any]],
    rest: str = "",
) -> list[list[Any]]:
    """The values of expressions over rows, a list for each expression."""
    schema = pa.schema([(name, arrow(kind)) for name, kind in COLUMNS.items()])
    database.register(
        "input",
        pa.Table.from_pylist(listed, schema=schema).append_column(
            "_o", pa.array(range(len(listed)))
        ),
    )
    columns = ", ".join(f"{text} AS v{i}" for i, text in enumerate(texts))
    found = database.sql(f"SELECT {columns} FROM input {rest}").to_arrow_table()
    return [found.column(f"v{i}").to_pylist() for i in range(len(texts))]


def same(ours: list[Any], theirs: list[Any], text: str) -> None:
    assert list(map(same_key, ours)) == list(map(same_key, theirs)), text


def computed(text: str, scope: Scope, kind: Kind) -> Any:
    """A value of the type, NULL where there is none."""
    try:
        value = evaluate(parse(text), scope)
    except Uncomputable:
        return None
    return float(value) if kind == "double" and value is not None else value


@SEEDS
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_scalars_have_the_values_of_duckdb(
    database: duckdb.DuckDBPyConnection, kind: Kind, seeds: range
) -> None:
    for drawn, listed in batches(seeds):
        texts = [drawn.draw(COLUMNS, kind, 3) for _ in range(AT_ONCE)]
        theirs = of_duckdb(
            database,
            [f"TRY(CAST({text} AS {sql_kind(kind)}))" for text in texts],
            listed,
            "ORDER BY _o",
        )
        for text, values in zip(texts, theirs, strict=True):
            same([computed(text, Scope(row), kind) for row in listed], values, text)


@SEEDS
def test_window_functions_have_the_values_of_duckdb(
    database: duckdb.DuckDBPyConnection, seeds: range
) -> None:
    for drawn, listed in batches(seeds):
        kinds = [drawn.pick("int64", "string", "double") for _ in range(AT_ONCE)]
        texts = [drawn.window(COLUMNS, kind) for kind in kinds]
        theirs = of_duckdb(database, [_with_ties(text) for text in texts], listed, "ORDER BY _o")
        for text, values in zip(texts, theirs, strict=True):
            same(
                [evaluate(parse(text), Scope(row, listed, i)) for i, row in enumerate(listed)],
                values,
                text,
            )


def _with_ties(text: str) -> str:
    """A window function in which the order of the rows breaks ties, where its value depends on
    them; no constant is a place.
    """
    text = re.sub(r"ORDER BY (.*?)( DESC)?\)$", r"ORDER BY CASE WHEN TRUE THEN \1 END\2)", text)
    if parse(text)[1][1] not in {"row_number", "lag", "lead", "first_value"}:
        return text
    return text[:-1] + (", _o)" if "ORDER BY" in text else " ORDER BY _o)")


@SEEDS
def test_aggregates_have_the_values_of_duckdb(
    database: duckdb.DuckDBPyConnection, seeds: range
) -> None:
    for drawn, listed in batches(seeds):
        pairs = [drawn.aggregate(COLUMNS) for _ in range(AT_ONCE)]
        theirs = of_duckdb(
            database,
            [f"CAST({_of_rows(text)} AS {sql_kind(kind)})" for text, kind in pairs],
            listed,
        )
        for (text, kind), (value,) in zip(pairs, theirs, strict=True):
            found = (
                sorted(value, key=lambda v: (v is None, v))
                if "list(DISTINCT" in text and value
                else value
            )
            same([computed(text, Scope({}, group=listed), kind)], [found], text)


def _of_rows(text: str) -> str:
    """An aggregate in which the order of the rows breaks ties; no constant is a place."""
    if " ORDER BY " in text:
        return re.sub(
            r" ORDER BY (.*?)( DESC)?\)( FILTER|$)",
            r" ORDER BY CASE WHEN TRUE THEN \1 END\2, _o)\3",
            text,
        )
    if (
        text.startswith(("list(", "first(", "last(", "any_value(", "string_agg("))
        and "(DISTINCT" not in text
    ):
        inner, where, rest = text.partition(" FILTER (WHERE ")
        return f"{inner[:-1]} ORDER BY _o){where}{rest}"
    return text


def test_orders_are_those_of_duckdb(database: duckdb.DuckDBPyConnection) -> None:
    for drawn, listed in batches(range(20)):
        terms = [
            (
                drawn.leaf(
                    COLUMNS, drawn.pick("int64", "double", "string", "boolean", "timestamp")
                ),
                drawn.chance(0.5),
            )
            for _ in range(2)
        ]
        by = ", ".join(
            f"CASE WHEN TRUE THEN {text} END {'DESC' if down else ''} NULLS LAST"
            for text, down in terms
        )
        (theirs,) = of_duckdb(database, ["_o"], listed, f"ORDER BY {by}, _o")
        ours = sort(
            [Scope(row, place=i) for i, row in enumerate(listed)],
            [(parse(text), down) for text, down in terms],
        )
        same([each.place for each in ours], theirs, by)
