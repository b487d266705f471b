"""The shortlist of a search, computed by numpy: the pairs of row and step row that can be among the
k best. It serves searches with too many pairs for a statement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semgraph.expr.functions import distinct_words
from semgraph.expr.scalar import LEFT, STEP
from semgraph.logical.search import SearchMethod
from semgraph.physical.search_spec import SearchSpec, joined_texts, step_texts
from semgraph.physical.search_sql import PAIR, allowed, sought_column, vector_column
from semgraph.relational.batch import PARTITION, dense, values
from semgraph.relational.segments import execute

# The number of pairs of row and step row from which a shortlist is faster than a statement.
MANY = 20_000
_BLOCK = 8_000_000  # pairs in one block
# Cosines that differ by less may have another order in exact arithmetic.
_CLOSE = 1e-3
_EQUAL = 1e-6
_SCHEMA = pa.schema([pa.field(name.strip('"'), pa.int64()) for name in PAIR])
Numbers = npt.NDArray[Any]
Tables = dict[str, pa.Table]


def worth_it(spec: SearchSpec, tables: Tables) -> bool:
    """Whether there are enough pairs for a shortlist to be faster."""
    left, step = tables[LEFT], tables[STEP]
    if not spec.node.methods or left.num_rows * step.num_rows <= MANY:
        return False
    if PARTITION not in left.column_names or PARTITION not in step.column_names:
        return True
    own, others = (np.bincount(table.column(PARTITION).to_numpy()) for table in (left, step))
    common = min(len(own), len(others))
    return int(own[:common] @ others[:common]) > MANY


async def shortlist(spec: SearchSpec, tables: Tables, now: datetime | None) -> pa.Table:
    """Pairs that include the k best of each row and method among the rows of the step, from the
    tables of the statement: the rows with the values of each method, and the step's rows with their
    vectors.
    """
    left, step = tables[LEFT], tables[STEP]
    place = np.empty(step.num_rows, np.int64)  # the rank of each key; it breaks ties
    place[pc.sort_indices(step.column(spec.node.hit_key)).to_numpy()] = np.arange(step.num_rows)
    methods = [_compared(spec, by, n, left, step) for n, by in enumerate(spec.node.methods)]
    shortlisted: list[tuple[int, int, Numbers]] = []
    size = max(1, _BLOCK // step.num_rows)
    for first in range(0, left.num_rows, size):
        rows = left.slice(first, size)
        pairs = await execute(allowed(spec), {LEFT: rows, STEP: step}, _SCHEMA, now)
        may = np.zeros((rows.num_rows, step.num_rows), bool)
        may[pairs.column(0).to_numpy(), pairs.column(2).to_numpy()] = True
        for n, method in enumerate(methods):
            shortlisted += [
                (first + q, n, best) for q, best in method.best(first, may, place, spec.node.k)
            ]
    counts = [len(best) for _, _, best in shortlisted]
    columns = [
        np.repeat(np.array([one[i] for one in shortlisted], np.int64), counts) for i in (0, 1)
    ]
    columns.append(np.concatenate([np.zeros(0, np.int64), *(best for _, _, best in shortlisted)]))
    return pa.table([pa.array(column) for column in columns], schema=_SCHEMA)


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
    spec: SearchSpec, by: SearchMethod, method: int, left: pa.Table, step: pa.Table
) -> _Compared:
    sought = left.column(sought_column(method))
    if by.via == "nearest":
        return _vectors(sought, step.column(vector_column(method)), by.above)
    if by.via == "equal":
        return _equals(values(sought), values(step.column(by.prop)))
    columns = [values(step.column(name)) for name in step_texts(spec, method)]
    return _texts(values(sought), joined_texts(columns, step.num_rows))


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


def _vectors(
    sought: pa.ChunkedArray[Any], vectors: pa.ChunkedArray[Any], above: float
) -> _Compared:
    left, mine = _directions(sought)
    step, others = _directions(vectors)

    def scores(which: Numbers) -> Numbers:
        cosines = mine[which] @ others.T
        # Of a vector without a direction the statement decides.
        return np.where(np.isnan(cosines), np.inf, cosines)

    return _Compared(left, step, scores, above - _CLOSE, _CLOSE)


def _directions(column: pa.ChunkedArray[Any]) -> tuple[Numbers, Numbers]:
    """For each vector the number of its value, -1 for NULL; and the distinct ones, of length 1."""
    array: Any = column.combine_chunks()
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
