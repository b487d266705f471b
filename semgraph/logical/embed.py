"""Embedding: the sixth operator that a model answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from semgraph.expr.places import expect_type
from semgraph.logical.checks import Columns, fresh
from semgraph.logical.node import Node, RowsTrait, argument, owner_column

VECTOR = pa.list_(pa.float32())


@dataclass(frozen=True, eq=False, kw_only=True)
class Embed(Node):
    """Each row with columns of vectors: the embeddings of texts. A NULL stays NULL and is not embedded.

    A text is embedded once a run, whatever else of the run embeds it: this operator, a search, a write.
    """

    keyword: ClassVar[str] = "embed"
    sole: ClassVar[str] = "add"
    rows: ClassVar[RowsTrait] = "1:1"
    carries: ClassVar[bool] = True
    by_row: ClassVar[bool] = True
    input: Node = argument("input")
    add: Columns = argument("columns")
    owner: str = ""  # the column that names the partition of a row, where it is not that of a window

    def infer(self) -> pa.Schema:
        found = self.input.schema
        for name, scalar in self.add:
            with self.check("add", name):
                expect_type(scalar, self.input.schema, pa.string())
            with self.check("add"):
                fresh(found, name, "the vector")
            found = found.append(pa.field(name, VECTOR))
        return found

    @property
    def embeds(self) -> bool:
        return True

    @property
    def adds(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.add)

    @property
    def reads(self) -> frozenset[str]:
        return owner_column(self.input, self.owner).union(*(scalar.roots for _, scalar in self.add))

    @property
    def is_identity(self) -> bool:
        return not self.add

    def narrowed(self, needed: frozenset[str]) -> Node:
        roots = {path.split(".")[0] for path in needed}
        kept = tuple((name, scalar) for name, scalar in self.add if name in roots)
        return replace(self, add=kept)
