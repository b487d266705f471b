"""Random SQL scalars over columns of known types, as text."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

# "int64", "double", "string", "boolean", "timestamp", ("list", kind), ("struct", ((name, kind),
# ...))
Kind = Any
Schema = Mapping[str, Kind]
STRINGS = ("list", "string")
NUMBERS = ("list", "int64")
DOUBLES = ("list", "double")
TEXTS = (
    "a",
    "b",
    "B",
    "Ann",
    "ann",
    " Ann  Lee",
    "",
    "3",
    "1.5",
    "nan",
    "-7",
    "é",
    "日本",
    "🙂 x",
    "it's",
    'say "x"',
    "a\\b",
    "%",
)
INTS = (0, 1, 2, 3, 7, -1)
FRACTIONS = ("0.5", "1.5", "2.0", "0.25")
TIMES = (
    "2020-01-01 00:00:00+00",
    "2021-06-30 12:30:00+00",
    "2021-06-30 12:30:00.5+00",
    "2024-02-29 23:59:59+00",
)
SQL_KIND = {
    "int64": "BIGINT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMPTZ",
}


def sql_kind(kind: Kind) -> str:
    """A type as a CAST names it."""
    return f"{SQL_KIND[kind[1]]}[]" if isinstance(kind, tuple) else SQL_KIND[kind]


def yaml_kind(kind: Kind) -> str:
    """A type as a plan names it."""
    if not isinstance(kind, tuple):
        return str(kind)
    if kind[0] == "list":
        return f"list<{yaml_kind(kind[1])} null>"
    return (
        "struct<" + ", ".join(f"{name}: {yaml_kind(inner)} null" for name, inner in kind[1]) + ">"
    )


def paths(schema: Schema) -> Iterator[tuple[str, Kind]]:
    """Columns and fields of structs, with their types."""
    for name, kind in schema.items():
        yield name, kind
        if isinstance(kind, tuple) and kind[0] == "struct":
            yield from ((f"{name}.{inner}", of) for inner, of in paths(dict(kind[1])))


class Expressions:
    """Draws expressions.

    Args:
        rng: Where chance comes from.
        params: Names of the plan's parameters, with their values.
        python: Whether functions of Python are called, which DuckDB alone does not have.
        lambdas: Whether lambdas and comprehensions over ranges are drawn, which `scalar` does not
            evaluate.
    """

    def __init__(
        self,
        rng: random.Random,
        params: Mapping[str, Any],
        *,
        python: bool = False,
        lambdas: bool = False,
    ) -> None:
        self.rng, self.params, self.python, self.lambdas = rng, params, python, lambdas

    def pick(self, *choices: Any) -> Any:
        """One of some things."""
        return self.rng.choice(choices)

    def chance(self, share: float) -> bool:
        """True so often."""
        return self.rng.random() < share

    def columns(self, schema: Schema, *kinds: Kind) -> list[str]:
        """Paths of some types."""
        return [
            path for path, kind in paths(schema) if kind in kinds and not path.endswith("canary")
        ]

    def constant(self, kind: Kind) -> str:
        """A literal, or a parameter."""
        named = [
            f"(${name})" if isinstance(value, str) else f"${name}"
            for name, value in self.params.items()
            if _kind_of(value) == kind
        ]
        if named and self.chance(0.3):
            return self.pick(*named)
        if kind == "string":
            return "'" + self.pick(*TEXTS).replace("'", "''") + "'"
        if kind == "timestamp":
            return f"TIMESTAMPTZ '{self.pick(*TIMES)}'"
        if isinstance(kind, tuple) and kind[0] == "list":
            return (
                "[" + ", ".join(self.constant(kind[1]) for _ in range(self.rng.randint(1, 3))) + "]"
            )
        return {
            "int64": str(self.pick(*INTS)),
            "double": self.pick(*FRACTIONS),
            "boolean": self.pick("TRUE", "FALSE"),
        }[kind]

    def leaf(self, schema: Schema, kind: Kind) -> str:
        """A column where there is one, sometimes a constant or NULL."""
        there = self.columns(schema, kind)
        if there and self.chance(0.8):
            return self.pick(*there)
        if self.chance(0.1):
            return f"CAST(NULL AS {sql_kind(kind)})"
        return self.constant(kind)

    def draw(self, schema: Schema, kind: Kind, depth: int = 2) -> str:
        """An expression of a type."""
        if depth <= 0 or self.chance(0.3):
            return self.leaf(schema, kind)
        if self.chance(0.2):
            return self._any_kind(schema, kind, depth - 1)
        name = kind if isinstance(kind, str) else kind[0]
        return getattr(self, f"_{name}")(schema, kind, depth - 1)

    def touching(self, schema: Schema, kind: Kind, depth: int = 2) -> str:
        """An expression of a type that often reads a number that may be NaN."""
        doubles = self.columns(schema, "double")
        if not doubles or self.chance(0.7):
            return self.draw(schema, kind, depth)
        test = f"({self.pick(*doubles)} {self.pick('=', '<>', '<', '<=', '>', '>=')} {self.leaf(schema, 'double')})"
        return (
            test
            if kind == "boolean"
            else f"CASE WHEN {test} THEN {self.draw(schema, kind, depth - 1)} END"
        )

    def plain(self, schema: Schema, kind: Kind = "boolean") -> str:
        """What the engine may compute without a database: columns and constants compared, and what
        stands in for NULL.
        """
        if kind != "boolean":
            return f"coalesce({self.leaf(schema, kind)}, {self._day() if kind == 'timestamp' else self.leaf(schema, kind)})"
        kind = self.pick("double", "double", "int64", "timestamp")
        sides = [self.leaf(schema, kind) for _ in range(2)]
        if kind == "timestamp" and self.chance(0.4):
            sides[1] = self._day()
        return f"{sides[0]} {self.pick('=', '<>', '<', '<=', '>', '>=')} {sides[1]}"

    def _day(self) -> str:
        return f"'{self.pick(*TIMES)[:10]}'"

    def _any_kind(self, schema: Schema, kind: Kind, depth: int) -> str:
        one, other = self.draw(schema, kind, depth), self.draw(schema, kind, depth)
        forms = [
            "coalesce({0}, {1})",
            "CASE WHEN {2} THEN {0} ELSE {1} END",
            "CASE WHEN {2} THEN {0} END",
        ]
        if isinstance(kind, str):
            forms += ["nullif({0}, {1})"]
        if kind in {"int64", "double", "string"}:
            forms += ["greatest({0}, {1})", "least({0}, {1})"]
        return self.pick(*forms).format(one, other, self.draw(schema, "boolean", depth))

    def _int64(self, schema: Schema, _kind: Kind, depth: int) -> str:
        def inner(kind: Kind = "int64") -> str:
            return self.draw(schema, kind, depth)

        if self.python and self.chance(0.1):
            size = self.pick(1, 2, 3, inner() if self.chance(0.2) else 1)
            return f"len(chunk({inner('string')}, {size}, 0, 'words'))"
        form = self.rng.randrange(11)
        if form == 10:
            return f"len({self._range(schema, depth)})"
        if form < 3:
            return f"({inner()} {self.pick('+', '-', '*')} {inner()})"
        if form == 3:
            return f"({inner()} {self.pick('//', '%')} {self.pick(2, 3, 7)})"
        if form == 4:
            return (
                f"({inner()} {self.pick('//', '%')} {inner()})"
                if self.chance(0.1)
                else f"(- {inner()})"
            )
        if form == 5:
            return f"length({inner('string')})"
        if form == 6:
            return f"len({inner(self.pick(STRINGS, NUMBERS))})"
        if form == 7:
            return f"TRY_CAST({inner('string')} AS BIGINT)"
        if form == 8:
            return f"({inner(NUMBERS)})[{self.pick(1, 2, -1)}]"
        return (
            f"CAST({inner('boolean')} AS BIGINT)"
            if self.chance(0.5)
            else f"year({inner('timestamp')})"
        )

    def _range(self, schema: Schema, depth: int) -> str:
        """A list whose length is a value of the row: the engine guards it."""
        made = f"range({self.pick(0, 1)}, {self.leaf(schema, 'int64')})"
        if not self.lambdas:
            return made
        inner = {**schema, "i": "int64"}
        test = self.draw(inner, "boolean", min(depth, 1))
        return self.pick(
            made,
            f"list_filter({made}, lambda i: {test})",
            f"list_transform({made}, lambda i: {self.draw(inner, 'int64', min(depth, 1))})",
            f"[i FOR i IN {made} IF {test}]",
        )

    def _double(self, schema: Schema, _kind: Kind, depth: int) -> str:
        def inner(kind: Kind = "double") -> str:
            return self.draw(schema, kind, depth)

        form = self.rng.randrange(7)
        if form < 2:
            return f"({inner()} {self.pick('+', '-', '*')} {inner(self.pick('int64', 'double'))})"
        if form == 2:
            return f"({inner('int64')} / {self.pick(2, 4, 0, inner('int64'))})"
        if form < 5:
            return f"TRY_CAST({inner('string')} AS DOUBLE)"
        return self.pick(
            f"CAST({inner('int64')} AS DOUBLE)",
            f"abs({inner()})",
            f"(0 - {inner()})",  # DuckDB 2.0 compares (- x) with a constant NaN as if it were x
            f"round({inner()})",
        )

    def _string(self, schema: Schema, _kind: Kind, depth: int) -> str:
        def inner(kind: Kind = "string") -> str:
            return self.draw(schema, kind, depth)

        form = self.rng.randrange(8)
        if form == 7:
            return f"repeat({inner()}, {self.pick(0, 1, 2)})"
        if form < 2:
            return f"({inner()} || {inner()})"
        if form == 2:
            return f"{self.pick('upper', 'lower', 'key', 'reverse')}({inner()})"
        if form == 3:
            return f"CAST({inner(self.pick('int64', 'boolean'))} AS VARCHAR)"
        if form == 4:
            return f"concat({inner()}, '-', {inner()})"
        if form == 5:
            return f"({inner(STRINGS)})[{self.pick(1, 2, -1)}]"
        return f"replace({inner()}, 'a', 'oo')"

    def _boolean(self, schema: Schema, _kind: Kind, depth: int) -> str:
        def inner(kind: Kind = "boolean") -> str:
            return self.draw(schema, kind, depth)

        form = self.rng.randrange(14)
        kind = self.pick("int64", "int64", "double", "double", "string", "timestamp")
        if form < 5:
            return f"({inner(kind)} {self.pick('=', '<>', '<', '<=', '>', '>=')} {inner(kind)})"
        if form == 5:
            return f"({inner('int64')} {self.pick('=', '<', '>=')} {inner('double')})"
        if form == 6:
            return f"({inner()} {self.pick('AND', 'OR')} {inner()})"
        if form == 7:
            return f"(NOT {inner()})"
        if form == 8:
            return f"({inner(kind)} IS {self.pick('', 'NOT ')}NULL)"
        if form == 9:
            return f"({inner(kind)} IS {self.pick('', 'NOT ')}DISTINCT FROM {inner(kind)})"
        if form == 10:
            items = [self.leaf(schema, kind) for _ in range(self.rng.randint(1, 3))]
            if self.chance(0.5):  # a list, in which NULL counts for nothing
                items[0] = self.pick("NULL", items[0])
                return f"({inner(kind)} {self.pick('', 'NOT ')}IN [{', '.join(items)}])"
            return f"({inner(kind)} {self.pick('', 'NOT ')}IN ({', '.join(items)}))"
        if form == 11:
            return f"({inner(kind)} {self.pick('', 'NOT ')}BETWEEN {inner(kind)} AND {inner(kind)})"
        if form == 12:
            return self.pick(
                f"contains({inner('string')}, 'a')",
                f"starts_with({inner('string')}, 'A')",
                f"isnan({inner('double')})",
            )
        return f"list_contains({inner(NUMBERS)}, {inner('int64')})"

    def _timestamp(self, schema: Schema, kind: Kind, depth: int) -> str:
        one = self.draw(schema, kind, depth)
        return self.pick(
            f"coalesce({one}, {self._day()})", f"greatest({one}, {self.constant(kind)})"
        )

    def _list(self, schema: Schema, kind: Kind, depth: int) -> str:
        items = [self.draw(schema, kind[1], depth) for _ in range(self.rng.randint(1, 3))]
        made = f"[{', '.join(items)}]"
        if self.chance(0.3):
            return f"list_sort({self.draw(schema, kind, depth)})"
        return made

    def _struct(self, schema: Schema, kind: Kind, depth: int) -> str:
        return (
            "{"
            + ", ".join(f"'{name}': {self.draw(schema, inner, depth)}" for name, inner in kind[1])
            + "}"
        )

    def window(self, schema: Schema, kind: Kind) -> str:
        """A window function: an integer, or a value of the type."""
        by = (
            f"PARTITION BY {self.leaf(schema, self.pick('int64', 'string', 'boolean'))}"
            if self.chance(0.5)
            else ""
        )
        key = self.leaf(schema, self.pick("int64", "double", "string"))
        order = f"ORDER BY {key}{self.pick('', ' DESC')}" if self.chance(0.7) else ""
        value = self.leaf(schema, kind)
        forms = [f"lag({value})", f"lead({value})", f"first_value({value})"]
        if kind == "int64":
            forms += [
                "row_number()",
                "row_number()",
                "count(*)",
                f"count({value})",
                f"sum({value})",
                f"max({value})",
            ]
            forms += ["rank()"] if order else []
        return f"{self.pick(*forms)} OVER ({' '.join(part for part in (by, order) if part)})"

    def term(self, schema: Schema) -> str:
        """A term of an order, constants and parameters among them."""
        kind = self.pick("int64", "int64", "double", "double", "string", "boolean", "timestamp")
        text = (
            self.constant(kind)
            if self.chance(0.12)
            else self.touching(schema, kind, self.pick(0, 0, 1))
        )
        return text + self.pick("", "", " desc")

    def aggregate(self, schema: Schema) -> tuple[str, Kind]:
        """An aggregate, with its type."""
        where = f" FILTER (WHERE {self.draw(schema, 'boolean', 1)})" if self.chance(0.25) else ""
        kind = self.pick("int64", "int64", "double", "double", "string", "timestamp", "boolean")
        value = self.draw(schema, kind, self.pick(0, 0, 1))
        order = f" ORDER BY {self.leaf(schema, self.pick('int64', 'double', 'string'))}{self.pick('', ' DESC')}"
        order = order if self.chance(0.5) else ""
        name = self.pick(
            "count(*)",
            "count",
            "distinct",
            "min",
            "max",
            "sum",
            "list",
            "list",
            "first",
            "any_value",
            "own",
        )
        if name == "count(*)":
            return f"count(*){where}", "int64"
        if name in {"count", "distinct"}:
            return f"count({'DISTINCT ' if name == 'distinct' else ''}{value}){where}", "int64"
        if name == "own":
            return self._typed_aggregate(schema, order, where)
        if name == "sum":
            kind = kind if kind in {"int64", "double"} else "int64"
            return f"sum({self.draw(schema, kind, 0)}){where}", kind
        if name == "list":
            if kind in {"int64", "string"} and self.chance(0.2):
                return f"list(DISTINCT {value}){where}", ("list", kind)
            return f"list({value}{order}){where}", ("list", kind)
        return f"{name}({value}{order if name in {'first', 'any_value'} else ''}){where}", kind

    def _typed_aggregate(self, schema: Schema, order: str, where: str) -> tuple[str, Kind]:
        form = self.rng.randrange(4)
        if form == 0:
            return f"string_agg({self.leaf(schema, 'string')}, '+'{order}){where}", "string"
        if form == 1:
            return (
                f"{self.pick('bool_and', 'bool_or')}({self.draw(schema, 'boolean', 1)}){where}",
                "boolean",
            )
        if form == 2:
            return f"avg({self.leaf(schema, self.pick('int64', 'double'))}){where}", "double"
        return f"last({self.leaf(schema, 'string')}{order}){where}", "string"


def _kind_of(value: Any) -> Kind:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, list):
        return ("list", _kind_of(value[0]))
    return {int: "int64", float: "double", str: "string"}.get(type(value))
