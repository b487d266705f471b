"""At most how many calls a way of asking takes, however the rows turn out to be cut and grouped."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from semgraph.logical.semantic import SemAgg, Semantic, SemTopk
from semgraph.physical.contract import Cost, Implementation, RowEstimate
from semgraph.physical.estimating import estimated

_SIZES = 64  # that are looked at one by one; beyond, powers of two


class Calls(NamedTuple):
    """Calls; and whether that is a bound, or what is to be expected where answers decide what is asked next."""

    number: int
    bound: bool


def most_calls(way: Implementation[Semantic], node: Semantic, rows: RowEstimate, parts: int) -> Calls:
    """The calls about some rows, which come in at most `parts` parts that share no call, of sizes that are not known.

    Raises EngineError where the way breaks its contract.
    """
    most = max(1, min(parts, math.ceil(rows.items)))
    even = _costs(way, node, RowEstimate(rows.left / most, rows.right / most, rows.items / most, 0.0))
    if any(cost.rounds > 1 and cost.least is None for cost in even):
        return Calls(round(max(cost.calls for cost in even) * most), bound=False)
    if most == 1:
        return Calls(math.floor(max(cost.calls for cost in even)), bound=True)
    return Calls(_most(way, node, rows, most), bound=True)


def _most(way: Implementation[Semantic], node: Semantic, rows: RowEstimate, parts: int) -> int:
    """The most that so many parts can take together.

    For every price of an item, no part takes more than its items cost and what the dearest part takes beyond that; so all
    take at most the price of all items, and that surplus as often as there are parts. The least of these bounds is given.
    """
    size = math.ceil(rows.items)
    sizes = _sizes(size)
    taken = []
    for before, each in pairwise([0, *sizes]):
        part = RowEstimate(min(rows.left, each), min(rows.right, each), float(each), 0.0)
        taken.append(
            (before + 1, each, max(cost.calls for cost in _costs(way, node, part)))
        )  # as much for those between
    prices = {0.0, *(amount / each for _, each, amount in taken)}
    surplus = {price: max(0.0, *(amount - price * first for first, _, amount in taken)) for price in prices}
    return math.floor(min(price * size + extra * parts for price, extra in surplus.items()) + 1e-9)


def _costs(way: Implementation[Semantic], node: Semantic, rows: RowEstimate) -> list[Cost]:
    """What a part costs, for groups of every size that it can have."""
    grouped = [rows._replace(groups=groups) for groups in _groups(node, rows.items)]
    return [estimated(way, node, each, None) for each in grouped or [rows]]


def _groups(node: Semantic, items: float) -> Iterable[float]:
    """How many groups some items can be, for groups of one size each; none where an operator has no groups."""
    keys = node.by if isinstance(node, SemAgg) else node.per if isinstance(node, SemTopk) else None
    if keys is None or not items:
        return
    if not keys and not node.partitioned:
        yield 1.0
        return
    for each in _sizes(math.ceil(items)):
        groups = items / each
        yield groups if items / groups <= each else math.nextafter(groups, math.inf)


def _sizes(most: int) -> list[int]:
    """Sizes up to one. What a row takes hangs on the size, in no way that is known here; beyond some it hardly changes."""
    return sorted({*range(1, min(most, _SIZES) + 1), *(2**i for i in range(most.bit_length())), most})
