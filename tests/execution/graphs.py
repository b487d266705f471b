"""What a run leaves: the graph in a store, and its requests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from semgraph.logical.schema import Graph
from semgraph.stores.base import ScanQuery

Contents = dict[str, dict[str, dict[str, Any]]]
TIMES = {"created_at", "expired_at"}


async def contents(
    store: Any, graph: Graph, *, times: bool = False, groups: Sequence[str] | None = None
) -> Contents:
    """Everything that a graph holds, by label and key; times of writing only as whether there are
    any. Closes the store.
    """
    try:
        await store.attach(graph)
        found = {
            name: await store.scan(ScanQuery(name, list(label.columns), groups))
            for name, label in graph.labels.items()
        }
    finally:
        await store.aclose()
    keep = {
        name: {
            row["uuid"]: row
            if times
            else {k: v is not None if k in TIMES else v for k, v in row.items()}
            for row in table.to_pylist()
        }
        for name, table in found.items()
    }
    return {name: rows for name, rows in keep.items() if rows}


def wire(bodies: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Requests as they went over the wire, each with its number of times."""
    return Counter(json.dumps(body, sort_keys=True) for body in bodies)
