"""The contract between the engine and the implementations of semantic operators. Authors import it
from `semgraph.operator`.

The engine owns which rows and pairs are asked about, `how`, `keep`, errors and assembly; an
implementation only answers about the items it is given, by their numbers.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from semgraph.errors import RowError
from semgraph.llm.base import Limits, Reply, Request, Vectors
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic

N = TypeVar("N", bound=Semantic)
Block = Sequence[int]
REFERENCES = {
    "sem_map": "per_row",
    "sem_filter": "per_row",
    "sem_join": "nested_loop",
    "sem_agg": "single",
    "sem_topk": "pointwise",
}
"""The implementation of each operator that defines its answers."""


class Rows(NamedTuple):
    """What is asked about.

    Args:
        left: One row for each left row: the columns that the prompts read (dotted paths flattened
            to columns named by the path), in row order; equal rows once, but for sem_agg.
        right: The same of the other side of a join, equal rows once; None for other operators.
        items: One row for each item, in order: `left` int64 for sem_map and sem_filter; `left`,
            `right` int64 for sem_join (the candidate pairs); `group`, `left` int64 for sem_agg and
            sem_topk (groups from 0, rows in their order). Groups of equal rows are one group; for
            sem_topk equal rows of a group are one, and a left row may be in several groups.
        partition: The partition of each left row: rows of two partitions never share a request.
        prompt: For each left row, the index of its prompt in `node.prompt.all`: rows of two prompts
            never share a request.
        times: For each left row, for how many rows of the relation it stands, which the prompt
            cannot tell apart (sem_map, sem_filter); () where each is one.
    """

    left: pa.Table
    right: pa.Table | None
    items: pa.Table
    partition: Sequence[str]
    prompt: Sequence[int]
    times: Sequence[int] = ()

    def blocks(
        self,
        node: Semantic,
        *,
        left: int | None = None,
        right: int | None = None,
        pairs: int | None = None,
        order: str | None = None,
    ) -> list[list[int]]:
        """Items cut into blocks that may share a request; see
        `semgraph.semantic.contract.blocks`.
        """
        return blocks(node, self, left=left, right=right, pairs=pairs, order=order)

    def only(self, items: Sequence[int]) -> Rows:
        """The same rows with some of the items, which are then numbered in this order."""
        return self._replace(items=self.items.take(pa.array(items, pa.int64())))

    def groups(self) -> list[list[int]]:
        """The items of each group, in their order, for sem_agg and sem_topk."""
        numbers: list[int] = self.items.column("group").to_pylist()  # type: ignore[assignment]
        groups: list[list[int]] = [[] for _ in range(max(numbers, default=-1) + 1)]
        for item, group in enumerate(numbers):
            groups[group].append(item)
        return groups


class RowEstimate(NamedTuple):
    """How many rows an estimate is about: `left` rows, `right` distinct other rows, `items` pairs,
    `groups`.
    """

    left: float
    right: float
    items: float
    groups: float


class Observed(NamedTuple):
    """What the same prompts take, per item; after a run, EXPLAIN scales what that saw, and asks for
    no tokens.

    Where the prompts themselves were looked at, `shared` are the tokens that each call has whatever
    it is about (rules, examples, the form of the answer), and `own` those of an item alone.
    """

    tokens_in: float
    tokens_out: float
    selectivity: float
    shared: float = 0.0
    own: float | None = None


class Cost(NamedTuple):
    """An estimate: model calls, rounds that wait for each other, tokens where known.

    `rounds` above 1 says that what is asked depends on answers: the calls are then an expectation,
        or, with `least`, the
    most of a range that begins there. With one round all is asked at once.
    """

    calls: float
    rounds: float = 1
    tokens_in: float | None = None
    tokens_out: float | None = None
    least: float | None = None

    @classmethod
    def of_items(cls, calls: float, items: float, seen: Observed | None) -> Cost:
        """Calls in one round, and the tokens that so many items took before, where that is
        known.
        """
        if seen is None:
            return cls(calls)
        sent = (
            items * seen.tokens_in if seen.own is None else calls * seen.shared + items * seen.own
        )
        return cls(calls, 1, sent, items * seen.tokens_out)


class Outcome(NamedTuple):
    """What became of a question: the answers by name (and `keep`, `match` or `score`), or `error`,
    why there are none.

    `error` is a kind in one word, a colon and what happened. `calls` are the ids of the calls this
    rests on.
    """

    values: Mapping[str, Any] | None
    error: str | None = None
    calls: tuple[str, ...] = ()


class Words(NamedTuple):
    """The words that may be the answer, how they are asked for, and examples: pairs (question,
    answer).
    """

    words: tuple[str, ...]
    instruction: str
    examples: tuple[tuple[str, str], ...] = ()


class Part(NamedTuple):
    """Some rows of a group that are aggregated in one call: items, or the outcomes of earlier
    parts.
    """

    group: int
    members: Sequence[int | Outcome]


class Ranking(NamedTuple):
    """The items of one window, best first; None with an `error`. `faulty` are those that have no
    answer alone either.
    """

    order: tuple[int, ...] | None
    error: str | None = None
    calls: tuple[str, ...] = ()
    faulty: Mapping[int, Outcome] = {}


def log_odds(outcome: Outcome) -> float:
    """How much more probable yes is than no, as a natural logarithm, in an outcome of
    `Context.ask_words`.
    """
    assert outcome.values is not None
    yes, no = outcome.values["logprobs"]
    return float(yes - no)


class Context(Protocol):
    """All that an implementation may touch. Everything asked through it is journalled, limited,
    budgeted and metered.
    """

    @property
    def limits(self) -> Limits:
        """What the model of the node's role takes."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text for that model."""
        ...

    def request(
        self,
        prompt: Prompt,
        system: str,
        user: str,
        schema: Mapping[str, Any] | None,
        partition: str,
        max_tokens: int,
    ) -> Request:
        """A request in this node's name, for implementations with prompts of their own.

        `schema` keeps the order of its properties: models answer in that order. With None any text
            is an answer.
        """
        ...

    def ask(
        self, requests: Iterable[Request]
    ) -> AsyncGenerator[tuple[int, Reply | RowError], None]:
        """Send requests, lazily and bounded, and yield (index, reply or error) as they arrive.

        Close it (`contextlib.aclosing`) if you leave it early, so that what is under way is
        cancelled.

        Raises:
            ModelUnavailable: No request will be answered; the others are cancelled.
            BudgetReached: The next request would pass a limit; the others are cancelled.
        """
        ...

    async def ask_packed(self, node: Semantic, rows: Rows, blocks: Iterable[Block]) -> pa.Table:
        """Ask about the items of each block in one call; of sem_map, sem_filter, sem_join and
        sem_topk (a score for each).

        A block of one item is asked as the prompt stands; of more, as numbered records. A block
        that mixes partitions, prompts or contexts, or does not fit the model, becomes several
        calls. Checks ids and types, asks again what came back missing or wrong, and returns what
        `answer` must return. An item in no block is an EngineError.
        """
        ...

    async def ask_words(
        self, node: Semantic, rows: Rows, words: Words | None = None, *, role: str = ""
    ) -> list[Outcome]:
        """Ask about each item by itself for one word: yes or no (sem_filter, sem_join), a digit
        (sem_topk).

        An outcome for each item, in order: the verdict, and under `logprobs` the log-probability of
            each word; see
        `log_odds`. Where it is not known whether the endpoint gives these, one item is asked about
        first.

        Args:
            node: Whose question it is. What a sem_join returns besides is not asked for.
            rows: The items.
            words: Other words than the operator's own.
            role: Whose model is asked; "": that of each prompt.

        Raises:
            ModelUnavailable: The endpoint gives no log-probabilities.
        """
        ...

    def without_logprobs(self) -> str:
        """What to say where the endpoint gives no log-probabilities: which one, and what can be
        used instead.
        """
        ...

    def note(self, text: str) -> None:
        """Add to the notes of the run, which the user sees at its end; equal notes of a step are
        one.
        """
        ...

    async def ask_groups(self, node: Semantic, rows: Rows, parts: Iterable[Part]) -> list[Outcome]:
        """Aggregate each part in one call (sem_agg); an outcome for each part, in order.

        A part that does not fit the model is not sent; its error is of kind `too_long`.
        """
        ...

    async def ask_rankings(
        self, node: Semantic, rows: Rows, windows: Iterable[Block]
    ) -> list[Ranking]:
        """Rank the items of each window in one call (sem_topk); a ranking for each window, in
        order.

        Where the endpoint does not answer for a window, or it does not fit the model, each of its
        rows is tried alone, so that one row does not cost the others: those that fail alone are
        `faulty`. A window of one is asked about too.
        """
        ...

    async def ask_reviews(
        self, node: Semantic, rows: Rows, given: Mapping[int, Outcome]
    ) -> dict[int, Outcome]:
        """Ask what the answers given for some items missed or got wrong (sem_map), one call an
        item.

        The question is the prompt's section `# reflexion`, or a general one. An outcome has all
        answers: for a list what is to be added to it, for all else what it should be.
        """
        ...

    async def embed(self, texts: Sequence[str], partition: str = "") -> Vectors:
        """Vectors of texts, shape (texts, dimensions), float32."""
        ...

    def random(self, partition: str, *key: str) -> random.Random:
        """A generator that depends on step, partition and key alone, so that runs repeat."""
        ...


@dataclass(frozen=True)
class Implementation(ABC, Generic[N]):
    """An implementation of a semantic operator. Subclasses are frozen dataclasses; their fields are the
    parameters users set.

    `same` says whether it answers as the reference does whenever the model is a function of the
    row; it picks the contract suite. The first line of the module's docstring says what it does.
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

        Returns a table with `item` int64 (index into `rows.items`; for sem_agg: the group), the
        answers, `error` string (NULL: answered) and `calls` list<string> (ids of the calls the
        answer rests on). Answers by operator: sem_map and sem_agg `node.answers`; sem_filter `keep`
        boolean; sem_join `match` boolean and `node.answers` (NULL without a match); sem_topk
        `score` double, higher is better, equal scores stay in row order (a row ruled out early
        still gets a score). For sem_filter and sem_join a last column `score` double may say what a
        verdict rests on; it is kept with the answers.
        """


@dataclass(frozen=True)
class PerItem(Implementation[N]):
    """Asks about each item by itself, in the prompt's words."""

    same = True

    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each item, all at once."""
        return Cost.of_items(rows.items, rows.items, seen)

    async def answer(self, node: N, rows: Rows, ctx: Context) -> pa.Table:
        """Ask about each item by itself."""
        return await ctx.ask_packed(node, rows, ([item] for item in range(rows.items.num_rows)))


@dataclass(frozen=True)
class Packed(Implementation[N]):
    """At most `rows` rows share a call, as numbered records; fewer, if they do not fit the model or
    must be kept apart.
    """

    same = True
    rows: int = 20

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError("rows must be at least 1")

    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each full block, all at once."""
        return Cost.of_items(math.ceil(rows.items / self.rows), rows.items, seen)

    async def answer(self, node: N, rows: Rows, ctx: Context) -> pa.Table:
        """Ask about the rows in blocks."""
        return await ctx.ask_packed(node, rows, rows.blocks(node, left=self.rows))


_VERDICTS: dict[str, pa.Field[Any]] = {
    "sem_filter": pa.field("keep", pa.bool_()),
    "sem_join": pa.field("match", pa.bool_()),
    "sem_topk": pa.field("score", pa.float64()),
}


def verdict_field(node: Semantic) -> pa.Field[Any] | None:
    """What the operator itself asks, beside the prompt's answers: `keep`, `match`, `score`, or
    nothing.
    """
    return _VERDICTS.get(node.keyword)


SCORE = "score"


def answer_schema(node: Semantic, *, scored: bool = False) -> pa.Schema:
    """The schema of the table that `answer` returns for a node; `scored`: with the score that a
    verdict rests on.
    """
    verdict = verdict_field(node)
    own = [] if verdict is None else [verdict]
    return pa.schema(
        [
            pa.field("item", pa.int64()),
            *own,
            *node.answer_fields(),
            pa.field("error", pa.string()),
            pa.field("calls", pa.list_(pa.string())),
            *([pa.field(SCORE, pa.float64())] if scored else []),
        ]
    )


def blocks(
    node: Semantic,
    rows: Rows,
    *,
    left: int | None = None,
    right: int | None = None,
    pairs: int | None = None,
    order: str | None = None,
) -> list[list[int]]:
    """Cut the items into blocks, each item in one.

    Args:
        node: Whose items they are.
        rows: The items.
        left: At most so many left rows in a block; None: all that may be together.
        right: For pairs: at most so many distinct right rows; None: each left row keeps its whole
            list.
        pairs: For pairs: no further left row once a block would hold more pairs than this; one left
            row's own list may.
        order: A column of `rows.left` by which items are sorted before they are cut (NULL last);
            default: their order.

    Raises:
        ValueError: The prompts name no column `order`, or a size is below 1.
    """
    for name, size in (("left", left), ("right", right), ("pairs", pairs)):
        if size is not None and size < 1:
            raise ValueError(f"{name}={size}: a block holds at least 1")
    if order is not None and order not in rows.left.column_names:
        known = ", ".join(rows.left.column_names) or "none"
        raise ValueError(f'order="{order}" is no column that the prompts name; they name {known}')
    keys = Keys(node, rows)
    values = None if order is None else rows.left.column(order).to_pylist()
    cut: list[list[int]] = []
    for together in apart(keys, range(rows.items.num_rows)):
        if values is not None:
            together.sort(key=lambda item: _sortable(values[keys.left[item]]))
        if rows.right is None:
            cut += _cut(by_key(together, keys.left), left, None)
        else:
            cut += _pair_blocks(rows, together, left, right, pairs)
    return cut


def apart(keys: Keys, items: Iterable[int]) -> list[list[int]]:
    """Items split by partition, prompt, context and group, in order of first appearance."""
    groups: dict[Hashable, list[int]] = {}
    for item in items:
        groups.setdefault(keys.of(item), []).append(item)
    return list(groups.values())


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is None, 0 if value is None else value)


class Keys:
    """What must be equal for two items to share a request."""

    def __init__(self, node: Semantic, rows: Rows) -> None:
        self.left: list[int] = rows.items.column("left").to_pylist()  # type: ignore[assignment]
        self._rows = rows
        self._contexts = [prompt.context for prompt in node.prompt.all]
        paths = dict.fromkeys(path for context in self._contexts for path in context.fields)
        self._columns = {path: rows.left.column(path).to_pylist() for path in paths}
        own_groups = node.keyword == "sem_agg"
        self._groups: list[Any] | None = (
            rows.items.column("group").to_pylist() if own_groups else None
        )
        self._rendered: dict[int, str] = {}

    def of(self, item: int) -> tuple[str, int, str, int]:
        """Partition, prompt, rendered context, and for sem_agg the group."""
        left = self.left[item]
        group = self._groups[item] if self._groups is not None else 0
        return self._rows.partition[left], self._rows.prompt[left], self.context(left), group

    def context(self, left: int) -> str:
        """The rendered context of a left row."""
        rendered = self._rendered.get(left)
        if rendered is None:
            context = self._contexts[self._rows.prompt[left]]
            values = {path: self._columns[path][left] for path in context.fields}
            rendered = self._rendered[left] = context.render(values).strip()
        return rendered


def _pair_blocks(
    rows: Rows, together: Sequence[int], left: int | None, right: int | None, pairs: int | None
) -> Iterator[list[int]]:
    lefts: list[int] = rows.items.column("left").to_pylist()  # type: ignore[assignment]
    rights: list[int] = rows.items.column("right").to_pylist()  # type: ignore[assignment]
    lists = by_key(together, lefts)
    if right is None:
        yield from _cut(lists, left, pairs)
        return
    for wide in _cut(lists, left, None):
        near = list(dict.fromkeys(rights[item] for item in wide))
        for i in range(0, len(near), right):
            some = set(near[i : i + right])
            yield from _cut(
                by_key([item for item in wide if rights[item] in some], lefts), None, pairs
            )


def by_key(items: Sequence[int], keys: Sequence[int]) -> list[list[int]]:
    """Items with equal keys together, in order of first appearance."""
    groups: dict[int, list[int]] = {}
    for item in items:
        groups.setdefault(keys[item], []).append(item)
    return list(groups.values())


def _cut(lists: Sequence[list[int]], left: int | None, pairs: int | None) -> Iterator[list[int]]:
    """Join lists of pairs, a list for each left row, until `left` rows or `pairs` pairs are
    together.
    """
    block: list[int] = []
    lefts = 0
    for mine in lists:
        full = left is not None and lefts == left
        if block and (full or (pairs is not None and len(block) + len(mine) > pairs)):
            yield block
            block, lefts = [], 0
        block += mine
        lefts += 1
    if block:
        yield block
