"""Clustering: connected parts of a graph that a relation describes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa

from semgraph.logical.node import Node, RowsTrait, argument
from semgraph.logical.typecheck import check_names, fresh


@dataclass(frozen=True, eq=False, kw_only=True)
class Cluster(Node):
    """The rows of `nodes`, each with the cluster it falls in, by edges `source` → `target` of the
    input.

    `forest` follows the edges to the end (each node has at most one); the end need not be one of
    `nodes`. `components`, `label_propagation` and `louvain` name a cluster by its smallest member.
    A node without edges is its own cluster.
    """

    keyword: ClassVar[str] = "cluster"
    tag: ClassVar[str] = "Cluster"
    rows: ClassVar[RowsTrait] = "any"
    input: Node = argument("input")
    nodes: Node = argument("relation")
    key: str = argument("name")
    source: str = argument("name")
    target: str = argument("name")
    alias: str = argument("name", default="cluster")
    weight: str = argument("name", default="")
    by: tuple[str, ...] = argument("names", tag="per", default=())
    algorithm: Literal["forest", "components", "label_propagation", "louvain"] = argument(
        "choice",
        choices=("forest", "components", "label_propagation", "louvain"),
        default="components",
    )

    def infer(self) -> pa.Schema:
        edges, nodes = self.input.schema, self.nodes.schema
        for arg, schema in (
            ("source", edges),
            ("target", edges),
            ("key", nodes),
            ("weight", edges),
        ):
            name = getattr(self, arg)
            if name or arg != "weight":
                check_names((name,), schema, arg)
        check_names(self.by, nodes, "by")
        check_names(self.by, edges, "by")
        with self.faults_at("alias"):
            fresh(nodes, self.alias, "alias")
        return nodes.append(pa.field(self.alias, nodes.field(self.key).type))

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.source, self.target, self.weight, *self.by} - {""})
