"""Communities of greatest modularity, found by moving nodes and merging communities in turn.

`resolution` above 1 makes more and smaller communities. Weights must not be negative.

Source: Blondel, Guillaume, Lambiotte, Lefebvre: Fast unfolding of communities in large networks
(Journal of Statistical Mechanics, 2008), the function of networkx.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from semgraph.operator import Edges


def refuses(resolution: float) -> str | None:
    """Refuse a resolution that is not positive."""
    return None if resolution > 0 else "resolution must be above 0"


def cluster(
    keys: Sequence[Any],
    edges: Edges,
    vectors: None,
    seed: int,
    resolution: float = 1.0,
) -> list[int]:
    """The communities of networkx."""
    import networkx as nx

    if any(weight < 0 for *_, weight in edges):
        raise ValueError("a weight is negative")
    graph = nx.Graph()
    graph.add_nodes_from(range(len(keys)))
    graph.add_weighted_edges_from(edges)
    groups = nx.community.louvain_communities(graph, resolution=resolution, seed=seed)
    label = {member: i for i, group in enumerate(groups) for member in group}
    return [label[i] for i in range(len(keys))]
