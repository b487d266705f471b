"""Whether a search asked the store for too few hits: rows of a step took the place of some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.physical.columns import values
from semgraph.physical.search_fuse import Asked


def hidden_hits(asked: Asked, hits: pa.Table, found: pa.ChunkedArray, whom: Sequence[int], k: int) -> bool:  # type: ignore[type-arg]
    """Whether stored hits beyond the k-th might belong to the best.

    Args:
        asked: The search.
        hits: What the store found: `k` for each row and method, or all.
        found: The hits of the result.
        whom: For which row each of them is.
        k: How many were asked for.
    """
    node, within = asked.spec.node, asked.within
    if within is None or asked.spec.unlimited or not hits.num_rows:
        return False
    taken = pc.is_in(hits.column(node.graph.key), value_set=within.column(node.graph.key).combine_chunks())
    if not pc.any(taken).as_py():
        return False
    groups = hits.append_column("_taken", taken).group_by(["_q", "method"], use_threads=False)
    counted = groups.aggregate([("_taken", "sum"), ("rank", "count")])
    columns = (values(counted.column(name)) for name in ("_q", "rank_count", "_taken_sum"))
    cut = {q for q, count, gone in zip(*columns, strict=True) if count >= k and gone}
    return bool(cut) and (bool(node.by) or not _settled(asked, hits, (found, whom), cut))


def _settled(asked: Asked, hits: pa.Table, found: tuple[Any, Sequence[int]], cut: set[int]) -> bool:
    """Whether the hits by order of some rows are k each, none of which comes after what the store ranked last."""
    node = asked.spec.node
    key = node.graph.key
    names = [key, *(name for name, _ in asked.spec.terms if name in hits.column_names and name != key)]
    ranked: dict[int, dict[str, dict[str, Any]]] = {q: {} for q in cut}
    for q, hit in zip(values(hits.column("_q")), hits.select(names).to_pylist(), strict=True):
        if q in cut:
            ranked[q][hit[key]] = hit
    settled = dict.fromkeys(cut, 0)
    for q, hit in zip(found[1], values(found[0]), strict=True):
        original = ranked[q].get(hit[key]) if q in cut and hit is not None else None
        if original is not None and _no_later(hit, original, asked.spec.terms):
            settled[q] += 1
    return all(count == node.k for count in settled.values())


def _no_later(hit: dict[str, Any], original: dict[str, Any], terms: Sequence[tuple[str, bool]]) -> bool:
    """Whether a hit comes where the stored row of its key does, or before; NULLs come last."""
    for name, descending in terms:
        mine, stored = hit.get(name), original.get(name)
        if mine != stored:
            return mine is not None and (stored is None or (mine > stored) == descending)
    return True
