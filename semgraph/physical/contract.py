"""The contract between the engine and the implementations of semantic operators. Authors import it from `semgraph.operator`.

The engine owns which rows and pairs are asked about, `how`, `keep`, errors and assembly; an implementation only answers about
the items it is given, by their numbers.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from semgraph.errors import RowError
from semgraph.llm.base import Limits, Reply, Request, Vectors
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic

N = TypeVar("N", bound=Semantic)
Block = Sequence[int]


class Rows(NamedTuple):
    """What is asked about.

    Args:
        left: One row for each left row: the columns that the prompts read (dotted paths flattened to columns named by the
            path), in row order.
        right: The same of the other side of a join, equal rows once; None for other operators.
        items: One row for each item, in order: `left` int64 for sem_map and sem_filter; `left`, `right` int64 for sem_join
            (the candidate pairs); `group`, `left` int64 for sem_agg and sem_topk (groups numbered from 0, rows in their order).
        partition: For each left row, whose it is: rows of two values never share a request.
        prompt: For each left row, the index of its prompt in `node.prompt.all`: rows of two prompts never share a request.
    """

    left: pa.Table
    right: pa.Table | None
    items: pa.Table
    partition: Sequence[str]
    prompt: Sequence[int]

    def blocks(self, *, left: int | None = None, right: int | None = None, order: str | None = None) -> list[list[int]]:
        """Items cut into blocks of at most `left` left rows and `right` distinct right rows; see `physical.framing.blocks`."""
        from semgraph.physical.framing import blocks

        return blocks(self, left=left, right=right, order=order)


class RowEstimate(NamedTuple):
    """How many rows an estimate is about: `left` rows, `right` distinct other rows, `items` pairs, `groups`."""

    left: float
    right: float
    items: float
    groups: float


class Observed(NamedTuple):
    """What earlier runs of the same prompts saw, per item."""

    tokens_in: float
    tokens_out: float
    selectivity: float


class Cost(NamedTuple):
    """An estimate: model calls, rounds that wait for each other, tokens where known."""

    calls: float
    rounds: float = 1
    tokens_in: float | None = None
    tokens_out: float | None = None


class Context(Protocol):
    """All that an implementation may touch. Everything asked through it is journalled, limited, budgeted and metered."""

    @property
    def limits(self) -> Limits:
        """What the model of the node's role takes."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text for that model."""
        ...

    def request(
        self, prompt: Prompt, system: str, user: str, schema: dict[str, Any], partition: str, max_tokens: int
    ) -> Request:
        """A request in this node's name, for implementations with a framing of their own."""
        ...

    def ask(self, requests: Iterable[Request]) -> AsyncIterator[tuple[int, Reply | RowError]]:
        """Send requests, lazily and bounded, and yield (index, reply or error) as they arrive."""
        ...

    async def ask_packed(self, node: Semantic, rows: Rows, blocks: Iterable[Block]) -> pa.Table:
        """Ask about the items of each block in one call (in several, where the token limit demands it).

        Frames and numbers the records, checks ids and types, asks again singly what came back missing or wrong, and returns
        what `answer` must return.
        """
        ...

    async def embed(self, texts: Sequence[str], partition: str = "") -> Vectors:
        """Vectors of texts, shape (texts, dimensions), float32."""
        ...

    def random(self, *key: str) -> random.Random:
        """A generator that depends on the node and the key alone, so that runs repeat."""
        ...


@dataclass(frozen=True)
class Implementation(ABC, Generic[N]):
    """One way of answering an operator. Subclasses are frozen dataclasses; their fields are the parameters users set.

    `same` says whether it answers as the reference does whenever the model is a function of the row; it picks the contract
    suite. The first line of the module's docstring says what it does.
    """

    same: ClassVar[bool] = False

    def refuses(self, node: N, limits: Limits) -> str | None:  # noqa: ARG002
        """Why it cannot do this node, or None."""
        return None

    @abstractmethod
    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:
        """What it would cost."""

    @abstractmethod
    async def answer(self, node: N, rows: Rows, ctx: Context) -> pa.Table:
        """Answer every item once.

        Returns a table with `item` int64 (index into `rows.items`; for sem_agg: the group), the answers, `error` string (NULL:
        answered) and `calls` list<string> (ids of the calls the answer rests on). Answers by operator: sem_map and sem_agg
        `node.answers`; sem_filter `keep` boolean; sem_join `match` boolean and `node.answers` (NULL without a match); sem_topk
        `score` double, higher is better, equal scores stay in row order (a row ruled out early still gets a score).
        """


def answer_schema(node: Semantic) -> pa.Schema:
    """The schema of the table that `answer` returns for a node."""
    verdict = {
        "sem_filter": ("keep", pa.bool_()),
        "sem_join": ("match", pa.bool_()),
        "sem_topk": ("score", pa.float64()),
    }
    own = [pa.field(*verdict[node.keyword])] if node.keyword in verdict else []
    return pa.schema(
        [
            pa.field("item", pa.int64()),
            *own,
            *node.answer_fields(),
            pa.field("error", pa.string()),
            pa.field("calls", pa.list_(pa.string())),
        ]
    )


__all__ = [
    "Block", "Context", "Cost", "Implementation", "Limits", "Observed", "Reply", "Request", "RowError", "RowEstimate",
    "Rows", "answer_schema", "np",
]  # fmt: skip
