"""Implementations of semantic operators: the base class, and those that send items alone or packed.

The engine selects the rows and pairs, and handles `how`, `keep`, errors and assembly; an
implementation only answers items, by their numbers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import pyarrow as pa

from semgraph.extras import lacking
from semgraph.llm.base import Limits
from semgraph.logical.semantic import Semantic
from semgraph.semantic.context import Context
from semgraph.semantic.contract import Cost, Observed, RowEstimate, Rows

N = TypeVar("N", bound=Semantic)


@dataclass(frozen=True)
class Implementation(ABC, Generic[N]):
    """An implementation of a semantic operator. Subclasses are frozen dataclasses; their fields are
    the parameters that users set.

    `same`: whether it answers as the reference does, provided that the model is a function of the
    row. It selects the contract suite. `extra`: the extra of semgraph whose packages it needs; "" if
    none. The first line of the module's docstring is its description.
    """

    same: ClassVar[bool] = False
    extra: ClassVar[str] = ""

    def refuses(self, node: N, limits: Limits) -> str | None:  # noqa: ARG002
        """The reason why it cannot answer this node, or None."""
        return None

    def lacks(self) -> str | None:
        """The reason why `extra` cannot be used, with the command that installs it, or None."""
        return lacking(self.extra) if self.extra else None

    def refusal(self, node: N, limits: Limits) -> str | None:
        """The reason why it cannot be used for this node, or None: what `refuses` says, then what
        is not installed.
        """
        return self.refuses(node, limits) or self.lacks()

    @abstractmethod
    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:
        """The estimated cost."""

    @abstractmethod
    async def answer(self, node: N, rows: Rows, ctx: Context) -> pa.Table:
        """Answer every item once.

        Returns a table with `item` int64 (index into `rows.items`; for sem_agg: the group), the
        answers, `error` string (NULL: answered) and `calls` list<string> (ids of the calls that the
        answer is based on). Answers by operator: sem_map and sem_agg `node.answers`; sem_filter
        `keep` boolean and `node.answers`; sem_join `match` boolean and `node.answers` (NULL without
        a match); sem_topk
        `score` double, higher is better, ties in row order (every row needs a score). sem_filter
        and sem_join may have a last column `score` double, the evidence for the verdict; it is
        stored with the answers.
        """


@dataclass(frozen=True)
class PerItem(Implementation[N]):
    """Sends each item alone, in the prompt's words."""

    same = True

    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each item, in one round."""
        return Cost.of_items(rows.items, rows.items, seen)

    async def answer(self, node: N, rows: Rows, ctx: Context) -> pa.Table:
        """Send each item alone."""
        return await ctx.ask_packed(node, rows, ([item] for item in range(rows.items.num_rows)))


@dataclass(frozen=True)
class Packed(Implementation[N]):
    """Sends at most `rows` rows in a call, as numbered records; fewer, if they do not fit the model
    or may not share a request.
    """

    same = True
    rows: int = 20

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError("rows must be at least 1")

    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each block, in one round."""
        return Cost.of_items(math.ceil(rows.items / self.rows), rows.items, seen)

    async def answer(self, node: N, rows: Rows, ctx: Context) -> pa.Table:
        """Send the rows in blocks."""
        return await ctx.ask_packed(node, rows, rows.blocks(node, left=self.rows))
