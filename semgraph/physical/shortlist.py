"""The shortlist of a search over many pairs of row and step row: those that can be among the k best,
found by DuckDB and numpy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semgraph.expr.duckdb import ORDINAL
from semgraph.expr.functions import distinct_words
from semgraph.expr.row_functions import frozen
from semgraph.expr.scalar import LEFT, RIGHT, STEP
from semgraph.expr.types import sql_type
from semgraph.logical.search import SearchMethod
from semgraph.physical.search_spec import NAMES, SearchInput, SearchSpec, joined_texts, step_texts
from semgraph.physical.vectors import of_one_size
from semgraph.relational.batch import PARTITION, dense, values
from semgraph.relational.segments import execute
from semgraph.relational.sql import order_sql, quote, scalar_sql

_BLOCK = 8_000_000  # pairs in one block
# Cosines that differ by less may have another order in exact arithmetic.
_CLOSE = 1e-3
_EQUAL = 1e-6
_SCHEMA = pa.schema([("q", pa.int64()), ("s", pa.int64())])
Numbers = npt.NDArray[Any]
Pair = tuple[int, int]  # the indices of a row and of a row of the step


@lru_cache(maxsize=256)
def _allowed(spec: SearchSpec) -> str:
    """The statement of all pairs for which `where` holds; by order, of the k best of each row."""
    node, names = spec.node, spec.node.within.schema.names if spec.node.within is not None else ()
    parts = (
        f"{quote(f.name)} := CAST({quote(f.name) if f.name in names else 'NULL'} AS {sql_type(f.type)})"
        for f in node.hit_type
        if f.name not in NAMES
    )
    alias, owner = quote(node.alias), quote(node.graph.partition)
    terms = [f"({scalar_sql(node.where, windowed=False)})"] if node.where is not None else []
    columns = [f"struct_pack({', '.join(parts)}) AS {alias}", f'{ORDINAL} AS "#s"']
    if node.by_window:
        columns.append(f'{PARTITION} AS "#scope"')
        terms.append(f'{LEFT}.{PARTITION} = {RIGHT}."#scope"')
    elif node.by_owner:
        columns.append(f"coalesce({owner}, '') AS \"#scope\"")
        terms.append(f"coalesce({LEFT}.{owner}, '') = {RIGHT}.\"#scope\"")
    best = ""
    if not node.methods:
        order = order_sql(node.order, node, f"{alias}.{quote(node.hit_key)}")
        over = f"PARTITION BY {LEFT}.{ORDINAL} ORDER BY {order}"
        best = f" QUALIFY row_number() OVER ({over}) <= {node.k}"
    rows = f"(SELECT {', '.join(columns)} FROM {STEP}) AS {RIGHT}"
    joined = f"{LEFT} JOIN {rows} ON {' AND '.join(terms) or 'TRUE'}"
    return f'SELECT {LEFT}.{ORDINAL} AS q, {RIGHT}."#s" AS s FROM {joined}{best}'


async def shortlist(
    search: SearchInput, vectors: Mapping[int, Any], now: datetime | None
) -> list[list[Pair]]:
    """For each method, or for the order, pairs that include the k best of each row among the rows of
    the step, whose vectors are given by method.
    """
    assert search.within is not None
    node, left, step = search.spec.node, search.left.table, search.within.table
    place = np.empty(step.num_rows, np.int64)  # the rank of each key; it breaks ties
    place[pc.sort_indices(step.column(node.hit_key)).to_numpy()] = np.arange(step.num_rows)
    methods = [_compared(search, by, n, vectors) for n, by in enumerate(node.methods)]
    pairs: list[list[Pair]] = [[] for _ in methods or (None,)]
    size = max(1, _BLOCK // step.num_rows)
    for first in range(0, left.num_rows, size):
        rows = left.slice(first, size)
        found = await execute(_allowed(search.spec), {LEFT: rows, STEP: step}, _SCHEMA, now)
        q, s = found.column(0).to_numpy(), found.column(1).to_numpy()
        if not methods:
            pairs[0] += zip((q + first).tolist(), s.tolist(), strict=True)
            continue
        may = np.zeros((rows.num_rows, step.num_rows), bool)
        may[q, s] = True
        for method, own in zip(methods, pairs, strict=True):
            for row, best in method.best(first, may, place, node.k):
                own += [(first + row, n) for n in best.tolist()]
    return pairs


@dataclass(frozen=True)
class _Compared:
    """The values that a method compares: for each row, and each row of the step, the number of its
    value (-1: none). `scores` gives, for some numbers of `left`, the scores with each distinct
    value of the step; none up to `floor` is a hit, and those that differ by less than `close` may
    have another order.
    """

    left: Numbers
    step: Numbers
    scores: Callable[[Numbers], Numbers]
    floor: float
    close: float

    def best(
        self, first: int, may: Numbers, place: Numbers, k: int
    ) -> Iterator[tuple[int, Numbers]]:
        """For each row with hits, of a block from `first` on: its index in the block, and the step
        rows that can be among its k best.
        """
        own = self.left[first : first + len(may)]
        sought, which = np.unique(own, return_inverse=True)
        if not len(self.step) or self.step.max() < 0:
            return
        table = self.scores(sought[sought >= 0])
        nothing = np.full((len(table), 1), -np.inf, table.dtype)  # for step rows of number -1
        table = np.concatenate([table, nothing], axis=1)
        which -= int((sought < 0).any())
        for q, row in enumerate(which):
            if own[q] < 0:
                continue
            rows = np.flatnonzero(may[q])
            scores = table[row, self.step[rows]]
            above = scores > self.floor
            rows, scores = rows[above], scores[above]
            if len(rows) > k:
                worst = np.partition(scores, len(scores) - k)[len(scores) - k]
                rows = rows[scores >= worst - self.close]
            if len(rows) > k:
                rows = _first_of_each(rows, self.step[rows], place[rows], k)
            if len(rows):
                yield q, rows


def _first_of_each(rows: Numbers, kinds: Numbers, place: Numbers, k: int) -> Numbers:
    """At most k rows of each distinct value, by key: rows with equal values have equal scores."""
    order = np.lexsort((place, kinds))
    sorted_kinds = kinds[order]
    starts = np.flatnonzero(np.r_[True, sorted_kinds[1:] != sorted_kinds[:-1]])
    nth = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    first: Numbers = rows[order[nth < k]]
    return first


def _compared(
    search: SearchInput, by: SearchMethod, method: int, vectors: Mapping[int, Any]
) -> _Compared:
    sought, within = search.values[method], search.within
    assert within is not None
    if by.via == "nearest":
        return _vectors(*of_one_size(sought, vectors[method]), by.above)
    if by.via == "equal":
        return _equals(*equal_values(search, method))
    columns = [within.column(name) for name in step_texts(search.spec, method)]
    return _texts(values(sought), joined_texts(columns, within.num_rows))


def equal_values(search: SearchInput, method: int) -> tuple[list[Any], list[Any]]:
    """What a method `equal` compares, of the rows and of the step's rows, so that NaN equals NaN."""
    assert search.within is not None
    theirs = search.within.column(search.spec.node.methods[method].prop)
    return [*map(frozen, values(search.values[method]))], [*map(frozen, theirs)]


def _numbered(things: Sequence[Hashable | None]) -> tuple[Numbers, list[Any]]:
    """For each value a number, equal for equal values, -1 for None; and the distinct values."""
    numbers, firsts = dense(things)
    kinds = [things[first] for first in firsts]
    number_of = np.array(numbers, np.int64)
    if None not in kinds:
        return number_of, kinds
    none = kinds.index(None)
    number_of = np.where(number_of == none, -1, number_of - (number_of > none))
    return number_of, [kind for kind in kinds if kind is not None]


def _equals(sought: Sequence[Any], things: Sequence[Any]) -> _Compared:
    left, mine = _numbered(sought)
    step, others = _numbered(things)
    number = {thing: n for n, thing in enumerate(others)}
    same = np.array([number.get(one, -1) for one in mine], np.int64)

    def scores(which: Numbers) -> Numbers:
        equal: Numbers = (same[which][:, None] == np.arange(len(others))).astype(np.float32)
        return equal

    return _Compared(left, step, scores, 0.0, _EQUAL)


def _texts(sought: Sequence[str | None], texts: Sequence[str]) -> _Compared:
    """Texts compared by `overlap`: the shared words over the geometric mean of the numbers of words."""
    left, mine = _numbered(sought)
    step, others = _numbered(texts)
    words = [distinct_words(text) for text in mine]
    holders: dict[str, list[int]] = defaultdict(list)
    for n, text in enumerate(others):
        for word in distinct_words(text):
            holders[word].append(n)
    holding = {word: np.array(numbers, np.int64) for word, numbers in holders.items()}
    sizes = np.sqrt([max(1, len(distinct_words(text))) for text in others]).astype(np.float32)

    def scores(which: Numbers) -> Numbers:
        table = np.zeros((len(which), len(others)), np.float32)
        for row, n in enumerate(which):
            for word in words[n]:
                if word in holding:
                    table[row, holding[word]] += 1
            table[row] /= sizes * max(1.0, len(words[n]) ** 0.5)
        return table

    return _Compared(left, step, scores, 0.0, _EQUAL)


def _vectors(sought: Any, vectors: Any, above: float) -> _Compared:
    left, mine = _directions(sought)
    step, others = _directions(vectors)

    def scores(which: Numbers) -> Numbers:
        cosines = mine[which] @ others.T
        # Of a vector without a direction DuckDB's cosine decides.
        return np.where(np.isnan(cosines), np.inf, cosines)

    return _Compared(left, step, scores, above - _CLOSE, _CLOSE)


def _directions(array: Any) -> tuple[Numbers, Numbers]:
    """For each vector the number of its value, -1 for NULL; and the distinct ones, of length 1."""
    size = array.type.list_size
    valid = np.asarray(pc.is_valid(array))
    flat = (
        array.filter(pa.array(valid))
        .flatten()
        .to_numpy(zero_copy_only=False)
        .reshape(-1, size)
        .astype(np.float32)
    )
    numbers, firsts = dense([vector.tobytes() for vector in flat])
    number_of = np.full(len(array), -1, np.int64)
    number_of[valid] = numbers
    kinds = flat[firsts]
    with np.errstate(divide="ignore", invalid="ignore"):
        return number_of, kinds / np.linalg.norm(kinds, axis=1, keepdims=True)
