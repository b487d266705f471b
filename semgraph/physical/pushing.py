"""Which conditions a store decides: those that it takes, and that mean there what they mean in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from semgraph.expr import Type
from semgraph.expr.scalar import Scalar
from semgraph.logical.schema import Label
from semgraph.stores.base import Alias
from semgraph.stores.conjunct import Prop, compares_alike


class Taking(Protocol):
    """The part of a store that says what it takes."""

    def takes(self, expr: Scalar, alias: Alias) -> bool:
        """As `Store.takes`."""
        ...


def is_pushed(
    store: Taking, part: Scalar, alias: Alias, labels: Mapping[str, Label], rows: pa.Schema | None = None
) -> bool:
    """Whether a store decides a conjunct.

    Args:
        store: The store.
        part: The conjunct.
        alias: What it calls the hit, as in `Store.takes`.
        labels: Whose properties the names in it have.
        rows: The rows that ask.
    """

    def type_of(prop: Prop) -> Type | None:
        label = labels[prop.var]
        return None if prop.name in label.vectors.values() else label.columns[prop.name]

    if part.asks_now or not store.takes(part, alias):
        return False
    return compares_alike(part, alias, type_of, {} if rows is None else {f.name: f.type for f in rows})
