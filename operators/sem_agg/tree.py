"""A tree: each call combines at most `fan_in` rows or answers of a group, until one answer is left."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import semgraph.operator as op


@dataclass(frozen=True)
class Tree(op.Implementation[op.SemAgg]):
    """For groups of any size. Parts are of about equal size, and smaller if they do not fit the
    model.
    """

    same = False
    fan_in: int = op.tried(4, 8, 16, default=8)

    def __post_init__(self) -> None:
        if self.fan_in < 2:
            raise ValueError("fan_in must be at least 2")

    def estimate(self, node: op.SemAgg, rows: op.RowEstimate, seen: op.Observed | None) -> op.Cost:
        """The calls of all levels; levels are sequential."""
        size = math.ceil(rows.items / rows.groups) if rows.groups else 0
        calls, rounds = (1, 1) if size else (0, 0)
        while size > self.fan_in:
            size = math.ceil(size / self.fan_in)
            calls, rounds = calls + size, rounds + 1
        return op.Cost.of_items(calls * rows.groups, rows.items, seen)._replace(
            rounds=rounds, least=calls * rows.groups
        )

    async def answer(self, node: op.SemAgg, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """Combine level by level, all groups together."""
        groups = [
            _Group(number, list(items), self.fan_in) for number, items in enumerate(rows.groups())
        ]
        while open_groups := [group for group in groups if group.result is None]:
            parts = [
                op.Part(group.number, part) for group in open_groups for part in group.divide()
            ]
            outcomes = iter(await ctx.ask_groups(node, rows, parts))
            for group in open_groups:
                group.take(outcomes)
        return [group.result for group in groups if group.result is not None]


Members = list[int | op.Outcome]


class _Group:
    """The members of a group that are still to combine: rows, and answers for parts of the group."""

    def __init__(self, number: int, members: Members, fan_in: int) -> None:
        self.number, self.members, self.fan_in = number, members, fan_in
        self.result: op.Outcome | None = None
        self._parts: list[Members] = []
        self._calls: dict[str, None] = {}

    def divide(self) -> list[Members]:
        """Cut the members into parts of about equal size, and return those to send (a single member
        moves up a level unchanged).
        """
        size, count = len(self.members), math.ceil(len(self.members) / self.fan_in)
        cuts = [size * i // count for i in range(count + 1)]
        self._parts = [self.members[a:b] for a, b in pairwise(cuts)]
        return [part for part in self._parts if self._is_sent(part)]

    def _is_sent(self, part: Members) -> bool:
        return len(part) > 1 or len(self.members) == 1

    def take(self, outcomes: Iterator[op.Outcome]) -> None:
        """Replace parts by their answers. Parts that do not fit the model get smaller."""
        left: Members = []
        smaller = False
        for part in self._parts:
            outcome = next(outcomes) if self._is_sent(part) else None
            self._calls |= dict.fromkeys(outcome.calls if outcome else ())
            if outcome is None:
                left += part
            elif outcome.error is None:
                left.append(outcome)
            elif outcome.error.startswith("too_long:") and len(part) > 2:
                left += part
                smaller = True
            elif self.result is None:
                self.result = outcome
        self.members = left
        if smaller:
            self.fan_in = max(2, self.fan_in // 2)
        if self.result is None and len(left) == 1 and isinstance(left[0], op.Outcome):
            self.result = left[0]
        if self.result is not None:
            self.result = self.result._replace(calls=tuple(self._calls))
