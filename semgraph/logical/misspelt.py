"""Columns of a merge that would be left out because one letter of their name is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from semgraph.errors import Fault
from semgraph.expr.scalar import Scalar
from semgraph.logical.schema import Label

_TELLING = 4  # letters from which a name is hardly another one by chance


def misspelt(label: Label, schema: pa.Schema, written: Mapping[str, Scalar]) -> Iterator[Fault]:
    """Columns that nothing reads, nearly named like a property that is not written, and of its type.

    A merge leaves out what its label does not have, which is often meant (`position`, a column of a join): only what looks
    like a slip is refused.

    Args:
        label: What is merged.
        schema: Of its rows.
        written: What is written, by property.
    """
    read = frozenset().union(*(scalar.roots for scalar in written.values()))
    ends = {"source", "target"} if label.kind == "edge" else set[str]()
    lacking = {name: kind for name, kind in label.columns.items() if name not in {*written, *label.derived, *ends}}
    for column in schema:
        if column.name in read or column.name in written:
            continue
        for name, kind in lacking.items():
            if kind.arrow == column.type and nearly(column.name, name):
                yield Fault(
                    f'"{column.name}" is no property of {label.name}, and nothing writes its "{name}"',
                    hint=f'name the column {name}, write set: {{{name}: {column.name}}}, or leave "{column.name}" out of '
                    "the rows, if it is another thing",
                )


def nearly(a: str, b: str) -> bool:
    """Whether two names differ in one letter (lacking, added, another, or two that changed places), or in case and "_".

    Digits are meant.

    >>> [nearly(*pair) for pair in (("sumary", "summary"), ("nmae", "name"), ("validAt", "valid_at"))]
    [True, True, True]
    >>> [nearly(*pair) for pair in (("fact2", "fact"), ("said_at", "valid_at"), ("to", "at"))]
    [False, False, False]
    """
    a, b = (name.casefold().replace("_", "") for name in (a, b))
    if max(len(a), len(b)) < _TELLING:
        return False
    while a and b and a[0] == b[0]:
        a, b = a[1:], b[1:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    if any(c.isdecimal() for c in a + b):
        return False
    return max(len(a), len(b)) <= 1 or (len(a) == len(b) == 2 and a == b[::-1])
