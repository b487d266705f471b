"""Clustering: parts of a graph that a relation describes, or groups of rows with close vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from semgraph.errors import Fault, faults_at
from semgraph.expr.types import type_of_arrow
from semgraph.logical.node import Needs, Node, argument, check_names, fresh
from semgraph.logical.plan import Choice

# Algorithms with exactly one answer. The engine computes them; `use` does not replace them.
EXACT = ("forest", "components")


@dataclass(frozen=True, eq=False, kw_only=True)
class Cluster(Node, keyword="cluster", rows="any"):
    """The rows of `nodes`, each with its cluster in the column `alias`. The input holds the edges
    `source` → `target`. Without `nodes`, the input's rows are the nodes; if `source` and `target`
    are set too, they are also the edges. `vector` names a column of the nodes, for algorithms that
    compare vectors.

    `algorithm: forest` follows the edges to the end, which need not be in `nodes`; each node has at
    most one outgoing edge. All other algorithms name a cluster by its smallest key: `components`,
    and the files `cluster/NAME.py`, such as `louvain(resolution=1.2)`. A node without edges is a
    cluster of its own. A node with a NULL key has no cluster.
    """

    input: Node = argument("input")
    nodes: Node | None = argument("relation", default=None)
    key: str = argument("name")
    source: str = argument("name", default="")
    target: str = argument("name", default="")
    alias: str = argument("name", default="cluster")
    weight: str = argument("name", default="")
    vector: str = argument("name", default="", added=True)
    by: tuple[str, ...] = argument("names", tag="per", default=())
    algorithm: str = argument("algorithm", default="components")

    def infer(self) -> pa.Schema:
        edges, nodes = self.input.schema, self.inputs[-1].schema
        for arg, schema in (
            ("source", edges),
            ("target", edges),
            ("key", nodes),
            ("weight", edges),
            ("vector", nodes),
        ):
            name = getattr(self, arg)
            if name or arg == "key":
                check_names((name,), schema, arg)
        check_names(self.by, nodes, "by")
        check_names(self.by, edges, "by")
        self._check_ends()
        self._check_types(edges, nodes)
        with faults_at("algorithm"):
            self._check_algorithm()
        fresh(nodes, self.alias, "alias", "alias")
        return nodes.append(pa.field(self.alias, nodes.field(self.key).type))

    def _check_ends(self) -> None:
        ends = [name for name in ("source", "target") if getattr(self, name)]
        if len(ends) == 1:
            other = "target" if ends == ["source"] else "source"
            raise Fault(f"cluster has {ends[0]}, but no {other}", hint="edges need both")
        if ends:
            return
        if self.nodes is not None:
            hint = "or leave out nodes: then the rows above are the nodes"
            raise Fault("the rows above are edges: name source and target", hint=hint)
        if not self.vector:
            hint = "source and target of edges, or vector: a column of vectors"
            raise Fault("cluster needs edges or vectors", hint=hint)
        if self.weight:
            raise Fault("weight is that of edges: name source and target", "weight")

    def _check_types(self, edges: pa.Schema, nodes: pa.Schema) -> None:
        kind = nodes.field(self.key).type
        if pa.types.is_nested(kind):
            raise Fault(f'"{self.key}" is {type_of_arrow(kind)}: a key is one value', "key")
        for name, arg in ((self.source, "source"), (self.target, "target")):
            if name:
                _check_equal(edges, name, nodes, self.key, (arg,))
        for i, name in enumerate(self.by):
            _check_equal(edges, name, nodes, name, ("by", i))
        if self.weight:
            kind = edges.field(self.weight).type
            number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
            if not (number or pa.types.is_decimal(kind)):
                msg = f'weight "{self.weight}" is {type_of_arrow(kind)}, not a number'
                raise Fault(msg, "weight")
        if self.vector:
            kind = nodes.field(self.vector).type
            lists = pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)
            if not (lists and pa.types.is_floating(kind.value_type)):
                msg = f'"{self.vector}" is {type_of_arrow(kind)}, not a vector'
                hint = f"embed: {{{self.vector}_vector: {self.vector}}} makes vectors of texts"
                raise Fault(msg, "vector", hint=hint)

    def _check_algorithm(self) -> None:
        choice = self.choice
        if choice.name in EXACT and choice.params:
            raise Fault(f"{choice.name} has no parameters", hint=f"write {choice.name}")
        if choice.name in EXACT and not self.source:
            raise Fault(f"{choice.name} reads edges: name source and target")

    @cached_property
    def choice(self) -> Choice:
        """The algorithm and its parameters. Raises Fault."""
        return Choice.parse(self.algorithm)

    @property
    def swappable(self) -> bool:
        """Whether `use` may replace the algorithm, which has several answers."""
        return self.choice.name not in EXACT

    @property
    def reads(self) -> frozenset[str]:
        of_edges = {self.source, self.target, self.weight, *self.by}
        of_nodes = {self.key, self.vector} if self.nodes is None else set()
        return frozenset((of_edges | of_nodes) - {""})

    def first_needs(self, needed: Needs) -> Needs:
        """As the base class; without `nodes`, also the paths that are read of the input's rows."""
        if self.nodes is not None:
            return self.read_paths
        return None if needed is None else self.read_paths | (needed - {self.alias})

    def is_empty_over(self, empty: Sequence[bool]) -> bool:
        """Without nodes there is nothing to cluster."""
        return empty[-1]


def _check_equal(
    edges: pa.Schema, name: str, nodes: pa.Schema, other: str, path: tuple[str | int, ...]
) -> None:
    one, two = edges.field(name).type, nodes.field(other).type
    if one != two:
        msg = (
            f'"{name}" of an edge is {type_of_arrow(one)}, "{other}" of a node {type_of_arrow(two)}'
        )
        raise Fault(msg, *path, hint="cast one of them in a step before")
