"""Heads and marks of partitions, in Cypher."""

from __future__ import annotations

from semgraph.logical.schema import Graph
from semgraph.stores.cypher.hits import Indexes
from semgraph.stores.cypher.terms import HEAD, MARK, quoted, string


def compile_states(graph: Graph, indexes: Indexes) -> str:
    """The head of each of `$partitions`, and its marks of `$plan` whose witness is still there."""
    key = quoted(graph.key)
    witnesses = " OR ".join(
        f"(m.witness = {string(label.name)} AND EXISTS {{ (:{quoted(label.name)} {{{key}: m.row}}) }})"
        for label in graph.nodes
    )
    hint = f" USING INDEX SEEK m:{MARK}(plan, partition, row)" if (MARK, "row") in indexes.ranges else ""
    return (
        "UNWIND $partitions AS p\n"
        f"CALL (p) {{ MATCH (m:{MARK} {{plan: $plan, partition: p}}){hint}\n"
        f"WHERE m.row IS NOT NULL AND (m.witness IS NULL OR {witnesses})\n"
        "RETURN collect([m.row, m.fingerprint, m.now, m.run]) AS marks }\n"
        f"OPTIONAL MATCH (h:{HEAD} {{partition: p}})\nRETURN p, h.head, marks"
    )
