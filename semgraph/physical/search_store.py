"""What searches ask of the store: the rows with what each method looks for, and one query or two over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.physical.search_fuse import Asked
from semgraph.stores.base import SearchQuery


class Searching(Protocol):
    """The part of a store that searches."""

    async def search(self, queries: Sequence[SearchQuery], rows: pa.Table) -> list[pa.Table]:
        """As `Store.search`."""
        ...


class Asking:
    """The searches of one round trip, over the same rows and label.

    Where a search sees all partitions for some rows and those of a list for others, it is two queries: in each the rows of
    the other look for nothing.

    Args:
        searches: By number; those without a label ask nothing of the store.
        left: The rows.
    """

    def __init__(self, searches: Sequence[Asked], left: pa.Table) -> None:
        self.searches = {n: asked for n, asked in enumerate(searches) if asked.spec.node.label}
        rows = pa.table({"_q": pa.array(range(left.num_rows), pa.int64())})
        for name in sorted(frozenset().union(*(a.spec.row_columns for a in self.searches.values()))):
            rows = rows.append_column(name, left.column(name))
        self.free: dict[int, Any] = {}  # for each row whether it sees all partitions
        for n, asked in self.searches.items():
            node = asked.spec.node
            if node.or_all:
                self.free[n] = pc.is_null(left.column(node.partition))
            for i, column in enumerate(asked.values):
                rows = rows.append_column(f"_x{n}_{i}", column)
                if self._mixed(n):
                    freed = pc.if_else(self.free[n].combine_chunks(), column, pa.scalar(None, column.type))
                    rows = rows.append_column(f"_y{n}_{i}", freed)
        self.rows = rows

    def _mixed(self, n: int) -> bool:
        return n in self.free and len(set(self.free[n].to_pylist())) > 1

    def _queries(self, n: int, k: int) -> list[SearchQuery]:
        spec = self.searches[n].spec
        confined = spec.query(k, f"_x{n}_")
        if n not in self.free or not pc.any(self.free[n]).as_py():
            return [confined]
        everyone = replace(spec.query(k, f"_y{n}_" if self._mixed(n) else f"_x{n}_"), partition=None)
        return [confined, everyone] if self._mixed(n) else [everyone]

    async def hits(self, store: Searching, wanted: Mapping[int, int]) -> dict[int, pa.Table]:
        """The hits of searches by number, `wanted` says how many of each method; one round trip."""
        queries = {n: self._queries(n, k) for n, k in wanted.items()}
        flat = [query for parts in queries.values() for query in parts]
        tables = iter(await store.search(flat, self.rows) if flat else [])
        found = {}
        for n, parts in queries.items():
            first, *rest = (next(tables) for _ in parts)
            found[n] = self._together(n, first, rest[0]) if rest else first
        return found

    def _together(self, n: int, confined: pa.Table, everyone: pa.Table) -> pa.Table:
        """The hits of both queries; of one that has no values to look for, those of its own rows alone."""
        free = pc.indices_nonzero(self.free[n].combine_chunks())
        own = everyone.filter(pc.is_in(everyone.column("_q"), value_set=free.cast(pa.int64())))
        both = pa.concat_tables([confined, own])
        return both.sort_by([("_q", "ascending"), ("method", "ascending"), ("rank", "ascending")])
