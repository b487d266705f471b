"""What must hold of the rows, beyond their types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from semgraph.expr.constants import always
from semgraph.expr.places import expect_type
from semgraph.expr.scalar import Scalar
from semgraph.logical.node import Node, RowsTrait, argument


@dataclass(frozen=True, eq=False, kw_only=True)
class Require(Node):
    """The rows for which `where` is true; of any other `says` is the error.

    Such a row fails as one does whose answer could not be had: its member is set aside. A row that belongs to no member, of a
    plan that cuts windows, ends the run: it is wrong for all.
    """

    keyword: ClassVar[str] = "require"
    rows: ClassVar[RowsTrait] = "subset"
    carries: ClassVar[bool] = True
    input: Node = argument("input")
    where: Scalar = argument("scalar")
    says: Scalar = argument("scalar")

    def infer(self) -> pa.Schema:
        for name, scalar, kind in (("where", self.where, pa.bool_()), ("says", self.says, pa.string())):
            with self.check(name):
                expect_type(scalar, self.input.schema, kind, windows=name == "where")
        return self.input.schema

    @property
    def is_identity(self) -> bool:
        return always(self.where)

    @property
    def adds(self) -> frozenset[str]:
        return frozenset()

    @property
    def reads(self) -> frozenset[str]:
        return self.where.roots | self.says.roots
