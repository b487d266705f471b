"""The sinks `merge` and `delete`. The sinks of a window are one transaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from semgraph.errors import Fault, Faults, did_you_mean, faults_at
from semgraph.expr.duckdb import stands_for
from semgraph.expr.scalar import Scalar
from semgraph.expr.types import sql_type, type_of_arrow
from semgraph.logical import node as core
from semgraph.logical.schema import Graph, Label, misspelt


@dataclass(frozen=True, eq=False, kw_only=True)
class Sink(core.Node, reads_store=True):
    """An operator that writes. `label_writes` are the (label, property) pairs that it changes. Only
    a merge can be `first`.
    """

    first = False
    graph: Graph = field(metadata={"kind": "graph"}, repr=False)
    input: core.Node = core.argument("input")
    node: str = core.argument("label", default="")
    edge: str = core.argument("label", default="")

    @cached_property
    def label(self) -> Label:
        """The label that it writes: either `node` or `edge`, and of that kind. Raises Fault."""
        if bool(self.node) == bool(self.edge):
            raise Fault("write node or edge, and its label")
        kind = "node" if self.node else "edge"
        with faults_at(kind):
            label = self.graph.label(self.node or self.edge)
            if label.kind != kind:
                raise Fault(f'"{label.name}" is declared as {label.kind}')
        return label

    @property
    def label_writes(self) -> frozenset[core.LabelRead]:
        """The (label, property) pairs that it changes."""
        return frozenset((self.label.name, name) for name in self.label.columns)


@dataclass(frozen=True, eq=False, kw_only=True)
class Merge(Sink, keyword="merge"):
    """Write nodes or edges by key: the columns that the label declares, and the values of `set`.
    The values of `create` are written only if the node or edge is new.

    NULL never overwrites a stored value. A list named in `unite` is appended to the stored list,
    without duplicates; any other list replaces the stored one. `first: true` writes rows of an
    input before any model call. `only: existing` updates stored nodes and edges and creates none.
    """

    key: str = core.argument("path", default="")
    source: str = core.argument("path", default="source")
    target: str = core.argument("path", default="target")
    create: core.Columns = core.argument("columns", default=())
    set: core.Columns = core.argument("columns", default=())
    unite: tuple[str, ...] = core.argument(
        "names",
        default=(),
        doc="Lists that add to the stored ones: those values first, then new ones, none twice.",
    )
    only: Literal["existing", ""] = core.argument("choice", choices=("existing",), default="")
    first: bool = core.argument("flag", default=False)

    @property
    def written(self) -> core.Columns:
        """What is written, as scalars over the input: key and ends first, `create` last."""
        label, schema = self.label, self.input.schema
        columns = {self.graph.key: core.column_scalar(self.key or self.graph.key)}
        if label.kind == "edge" and not (self.only and self.source not in schema.names):
            columns |= {
                "source": core.column_scalar(self.source),
                "target": core.column_scalar(self.target),
            }
        assigned = dict(self.set) | dict(self.create)
        others = {*columns, *label.ends, *assigned}
        names = [name for name in schema.names if name in label.columns and name not in others]
        columns |= {name: core.column_scalar(name) for name in names}
        columns |= {name: self._as_property(name, scalar) for name, scalar in assigned.items()}
        return tuple(columns.items())

    def _as_property(self, name: str, scalar: Scalar) -> Scalar:
        """The scalar, cast to the property's type if it is NULL for every row."""
        kind = self.label.columns[name].arrow
        if (
            "NULL" not in scalar.sql
            or scalar.sql.startswith("CAST(")
            or not stands_for(scalar, self.input.schema, kind)
        ):
            return scalar
        return Scalar(scalar.text, f"CAST({scalar.sql} AS {sql_type(kind)})", scalar.columns)

    def infer(self) -> pa.Schema:
        label, schema = self.label, self.input.schema
        for arg, columns in (("set", self.set), ("create", self.create)):
            for name, _ in columns:
                if name not in label.columns:
                    hint = did_you_mean(name, label.columns)
                    raise Fault(f'{label.name} has no property "{name}"', arg, name, hint=hint)
            core.typed(columns, schema, arg)
        self._check_ends()
        written = pa.schema(core.typed(self.written, schema, "set"))
        faults = [self._wrong_type(f) for f in written if f.type != label.columns[f.name].arrow]
        faults += misspelt(self.label, self.input.schema, dict(self.written))
        if faults:
            raise Faults(faults)
        core.check_names(self.unite, written, "unite")
        for name in self.unite:
            if not pa.types.is_list(written.field(name).type):
                raise Fault(f'"{name}" is not a list', "unite")
        if self.graph.partition not in written.names:
            raise Fault(f'rows to write need their partition, the column "{self.graph.partition}"')
        return written

    def _wrong_type(self, column: pa.Field[Any]) -> Fault:
        kind = self.label.columns[column.name]
        scalar = {**dict(self.set), **dict(self.create)}.get(column.name)
        is_there = "the relation has" if scalar is None else f'"{scalar}" is'
        what = f"{self.label.name}.{column.name} is {kind}, {is_there} {type_of_arrow(column.type)}"
        arg = "create" if column.name in dict(self.create) else "set"
        path = () if scalar is None else (arg, column.name)
        expression = scalar or column.name
        casts = {"json": f"to_json({expression})", "list": "EXPRESSION", "struct": "EXPRESSION"}
        cast = casts.get(kind.name, f"CAST({expression} AS {sql_type(kind.arrow)})")
        hint = f"write what has that type: {arg}: {{{column.name}: {cast}}}"
        return Fault(what, *path, hint=hint)

    def _check_ends(self) -> None:
        names = self.input.schema.names
        if self.label.kind != "edge" or (self.only and self.source not in names):
            return
        ends = (self.source, self.target)
        if lacking := [path for path in ends if path.split(".", maxsplit=1)[0] not in names]:
            which = " and no ".join(lacking)
            what = f"an edge needs its ends, the keys of two nodes: there is no column {which}"
            hint = "write source: COLUMN, target: COLUMN"
            raise Fault(what, there="columns here: " + ", ".join(names), hint=hint)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(s.roots for _, s in self.written))

    @property
    def label_writes(self) -> frozenset[core.LabelRead]:
        names: set[str] = set(self.schema.names)
        if self.only:
            names -= {self.graph.key, self.graph.partition}
        derived = {d.name for d in self.label.derived.values() if d.of in names}
        return frozenset((self.label.name, name) for name in names | derived)


@dataclass(frozen=True, eq=False, kw_only=True)
class Delete(Sink, keyword="delete"):
    """Delete nodes or edges by key. `detach` also deletes the edges of the nodes; without it, a
    node that has edges is an error.
    """

    key: str = core.argument("name", default="")
    detach: bool = core.argument("flag", default=False)

    def infer(self) -> pa.Schema:
        name = self.key or self.graph.key
        core.check_names((name, self.graph.partition), self.input.schema, "key")
        _ = self.label
        kinds: dict[str, Any] = {self.graph.key: pa.string(), self.graph.partition: pa.string()}
        return pa.schema(list(kinds.items()))

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.key or self.graph.key, self.graph.partition})
