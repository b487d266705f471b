"""The interface between the engine and the implementations of semantic operators: items, outcomes,
and the calls of one node to the model and the embedder. Authors import it from `semgraph.operator`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import (
    AsyncGenerator,
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from semgraph.errors import BudgetReached, RowError
from semgraph.expr.types import python_values
from semgraph.llm.base import LLM, Embedder, Embeddings, Limits, Message, Reply, Request, Vectors
from semgraph.llm.replies import repaired
from semgraph.llm.stack import bound, innermost
from semgraph.logical.prompt import Prompt, PromptSet, show
from semgraph.logical.semantic import Semantic
from semgraph.meter import CountedNotes, StepMetrics

Block = Sequence[int]
# The implementation of each operator that defines its answers.
REFERENCES = {
    "sem_map": "per_row",
    "sem_filter": "per_row",
    "sem_join": "nested_loop",
    "sem_agg": "single",
    "sem_topk": "pointwise",
}
OPERATORS = tuple(REFERENCES)


class Rows(NamedTuple):
    """The items to answer, and the rows they refer to.

    Args:
        left: The left rows: the columns that the prompts read (dotted paths flattened to columns
            named by the path), in row order, without duplicates except for sem_agg.
        right: The right rows of a join, without duplicates; None for other operators.
        items: One row for each item, in order: `left` int64 for sem_map and sem_filter; `left`,
            `right` int64 for sem_join (the candidate pairs); `group`, `left` int64 for sem_agg and
            sem_topk (groups from 0, rows in their order). Groups with equal rows become one group.
            For sem_topk, equal rows of a group become one row, and a left row may be in several
            groups.
        partition: The partition of each left row: rows of two partitions never share a request.
        prompt: For each left row, the index of its prompt in `node.prompt.all`: rows of two prompts
            never share a request.
        times: For each left row, the number of rows of the relation that it represents because the
            prompt does not distinguish them (sem_map, sem_filter); () if each represents one.
        reasons: For each item why its earlier answers were refused; () in the first round. The
            context adds the reason to the request.
    """

    left: pa.Table
    right: pa.Table | None
    items: pa.Table
    partition: Sequence[str]
    prompt: Sequence[int]
    times: Sequence[int] = ()
    reasons: Sequence[tuple[str, ...]] = ()

    def blocks(
        self,
        node: Semantic,
        *,
        left: int | None = None,
        right: int | None = None,
        pairs: int | None = None,
        order: str | None = None,
    ) -> list[list[int]]:
        """Cut the items into blocks that may share a request, each item in one.

        Args:
            node: The node of the items.
            left: The maximum number of left rows in a block; None: as many as may share a request.
            right: For pairs: the maximum number of distinct right rows; None: each left row keeps
                its whole list.
            pairs: For pairs: the maximum number of pairs in a block; a left row with more pairs is
                a block of its own.
            order: A column of `left` to sort the items by before they are cut (NULL last); default:
                their order.

        Raises:
            ValueError: The prompts name no column `order`, or a size is below 1.
        """
        for name, size in (("left", left), ("right", right), ("pairs", pairs)):
            if size is not None and size < 1:
                raise ValueError(f"{name}={size}: a block holds at least 1")
        if order is not None and order not in self.left.column_names:
            known = ", ".join(self.left.column_names) or "none"
            what = f'order="{order}" is no column that the prompts name'
            raise ValueError(f"{what}; they name {known}")
        if self.right is None:
            right = pairs = None
        keys = Keys(node, self)
        values = None if order is None else python_values(self.left.column(order))
        cut: list[list[int]] = []
        for items in split_by_key(keys, range(self.items.num_rows)):
            if values is not None:
                items.sort(key=lambda item: _sortable(values[keys.left[item]]))
            cut += _blocks(self, items, left, right, pairs)
        return cut

    @property
    def lefts(self) -> list[int]:
        """The left row of each item."""
        return self._column("left")

    @property
    def rights(self) -> list[int]:
        """The right row of each item, for sem_join."""
        return self._column("right")

    def _column(self, name: str) -> list[int]:
        return self.items.column(name).to_pylist()  # type: ignore[return-value]

    def only(self, items: Sequence[int]) -> Rows:
        """The same rows with a selection of the items, renumbered in this order."""
        own = [self.reasons[item] for item in items] if self.reasons else ()
        return self._replace(items=self.items.take(pa.array(items, pa.int64())), reasons=own)

    def again(self, reasons: Mapping[int, str]) -> Rows:
        """The same rows with the items (for sem_agg: the groups) whose answers were refused,
        renumbered in this order. The reason is added to earlier reasons.
        """
        grouped = "group" in self.items.column_names
        units = self._column("group") if grouped else range(self.items.num_rows)
        items = [item for item, unit in enumerate(units) if unit in reasons]
        part = self.only(items)
        before = part.reasons or [()] * len(items)
        part = part._replace(
            reasons=[(*b, reasons[units[i]]) for b, i in zip(before, items, strict=True)]
        )
        if not grouped:
            return part
        place = {unit: number for number, unit in enumerate(reasons)}
        groups = pa.array([place[units[item]] for item in items], pa.int64())
        return part._replace(items=part.items.set_column(0, "group", groups))

    def groups(self) -> list[list[int]]:
        """The items of each group, in their order, for sem_agg and sem_topk."""
        numbers = self._column("group")
        groups: list[list[int]] = [[] for _ in range(max(numbers, default=-1) + 1)]
        for item, group in enumerate(numbers):
            groups[group].append(item)
        return groups


class RowEstimate(NamedTuple):
    """Estimated numbers of `left` rows, distinct `right` rows, `items` and `groups`."""

    left: float
    right: float
    items: float
    groups: float


class Observed(NamedTuple):
    """Tokens per item and selectivity of the same prompts, from an earlier run or from sample
    prompts.

    With sample prompts, `shared` is the number of tokens that every call has (rules, examples,
    answer schema), and `own` the number that one item adds.
    """

    tokens_in: float
    tokens_out: float
    selectivity: float
    shared: float = 0.0
    own: float | None = None


class Cost(NamedTuple):
    """An estimate: model calls, sequential rounds, and tokens if known.

    If `rounds` is above 1, later requests depend on answers. `calls` is then an expected value or,
    with `least`, the upper end of the range that begins at `least`.
    """

    calls: float
    rounds: float = 1
    tokens_in: float | None = None
    tokens_out: float | None = None
    least: float | None = None

    @classmethod
    def of_items(cls, calls: float, items: float, seen: Observed | None) -> Cost:
        """The cost of calls in one round, with the observed tokens of `items` items."""
        if seen is None:
            return cls(calls)
        sent = (
            items * seen.tokens_in if seen.own is None else calls * seen.shared + items * seen.own
        )
        return cls(calls, 1, sent, items * seen.tokens_out)


class Outcome(NamedTuple):
    """The outcome of an item: the answers by name (and `keep`, `match` or `score`), or an `error`.

    `error` is a kind in one word, a colon and a message. `calls` are the ids of the calls on which
    the outcome is based.
    """

    values: Mapping[str, Any] | None
    error: str | None = None
    calls: tuple[str, ...] = ()


class Words(NamedTuple):
    """The possible one-word answers, the instruction, and examples: pairs (question, answer)."""

    words: tuple[str, ...]
    instruction: str
    examples: tuple[tuple[str, str], ...] = ()


class Part(NamedTuple):
    """A part of a group that is aggregated in one call: items, or the outcomes of earlier parts."""

    group: int
    members: Sequence[int | Outcome]


class Ranking(NamedTuple):
    """The items of one window, best first; None with an `error`. `faulty` are the items that also
    failed when they were sent alone.
    """

    order: tuple[int, ...] | None
    error: str | None = None
    calls: tuple[str, ...] = ()
    faulty: Mapping[int, Outcome] = {}


def log_odds(outcome: Outcome) -> float:
    """The log-odds of yes against no in an outcome of `Context.ask_words`."""
    assert outcome.values is not None
    yes, no = outcome.values["logprobs"]
    return float(yes - no)


_VERDICTS: dict[str, pa.Field[Any]] = {
    "sem_filter": pa.field("keep", pa.bool_()),
    "sem_join": pa.field("match", pa.bool_()),
    "sem_topk": pa.field("score", pa.float64()),
}


def verdict_field(node: Semantic) -> pa.Field[Any] | None:
    """The field that the operator adds to the prompt's answers: `keep`, `match`, `score`, or None."""
    return _VERDICTS.get(node.keyword)


def refuse_answers(node: Semantic, because: str) -> str | None:
    """The reason why a sem_filter implementation that returns only verdicts cannot run a node: the
    node has answers. None without answers.
    """
    names = ", ".join(name for name, _ in node.answers)
    return f"{because}, and the prompt also returns {names}; use packed" if names else None


def refuse_check(node: Semantic, because: str) -> str | None:
    """The reason why an implementation cannot run a node with a check, or None.

    It applies to implementations whose requests omit the reason of a refused answer.
    """
    checked = getattr(node, "check", None) is not None
    return (
        f"{because}, and the step has a check; use {REFERENCES[node.keyword]}" if checked else None
    )


SCORE = "score"


def answer_schema(node: Semantic, *, scored: bool = False) -> pa.Schema:
    """The schema of the table that `answer` returns for a node. `scored` adds the verdict's score."""
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


def prompt_numbers(prompts: PromptSet, picked: Sequence[str | None]) -> list[int | None]:
    """The prompt number of each row, by its value of `on`; None if no prompt has that value."""
    first = {id(prompt): i for i, prompt in reversed([*enumerate(prompts.all)])}
    places = {value: first[id(prompt)] for value, prompt in prompts.prompts}
    rest = None if prompts.otherwise is None else first[id(prompts.otherwise)]
    return [places.get(value or "", rest) for value in picked]


def split_by_key(keys: Keys, items: Iterable[int]) -> list[list[int]]:
    """Items split by partition, prompt, context and group, in order of first appearance."""
    groups: dict[Hashable, list[int]] = {}
    for item in items:
        groups.setdefault(keys.of(item), []).append(item)
    return list(groups.values())


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is None, 0 if value is None else value)


class Keys:
    """The properties in which items of one request must be equal."""

    def __init__(self, node: Semantic, rows: Rows) -> None:
        self.left = rows.lefts
        self._rows = rows
        self._contexts = [prompt.context or None for prompt in node.prompt.all]
        paths = dict.fromkeys(
            path for context in self._contexts if context for path in context.fields
        )
        self._columns = {path: python_values(rows.left.column(path)) for path in paths}
        groups = rows.groups() if node.keyword == "sem_agg" else []
        self._groups = {item: number for number, items in enumerate(groups) for item in items}
        self._keys: dict[int, tuple[str, int, str, int]] = {}

    def of(self, item: int) -> tuple[str, int, str, int]:
        """Partition, prompt, rendered context, and for sem_agg the group."""
        key = self._of_left(self.left[item])
        return (*key[:3], self._groups[item]) if self._groups else key

    def context(self, left: int) -> str:
        """The rendered context of a left row."""
        return self._of_left(left)[2]

    def _of_left(self, left: int) -> tuple[str, int, str, int]:
        key = self._keys.get(left)
        if key is None:
            prompt, text = self._rows.prompt[left], ""
            if context := self._contexts[prompt]:
                values = {path: self._columns[path][left] for path in context.fields}
                text = context.render(values).strip()
            key = self._keys[left] = (self._rows.partition[left], prompt, text, 0)
        return key


def _blocks(
    rows: Rows, items: Sequence[int], left: int | None, right: int | None, pairs: int | None
) -> Iterator[list[int]]:
    lefts = rows.lefts
    lists = by_key(items, lefts)
    if right is None:
        yield from _cut(lists, left, pairs)
        return
    rights = rows.rights
    for block in _cut(lists, left, None):
        distinct = list(dict.fromkeys(rights[item] for item in block))
        for i in range(0, len(distinct), right):
            part = set(distinct[i : i + right])
            yield from _cut(
                by_key([item for item in block if rights[item] in part], lefts), None, pairs
            )


def by_key(items: Sequence[int], keys: Sequence[int]) -> list[list[int]]:
    """Items grouped by key, in order of first appearance."""
    groups: dict[int, list[int]] = {}
    for item in items:
        groups.setdefault(keys[item], []).append(item)
    return list(groups.values())


def _cut(lists: Sequence[list[int]], left: int | None, pairs: int | None) -> Iterator[list[int]]:
    """Join the item lists of left rows into blocks of at most `left` rows and `pairs` pairs."""
    block: list[int] = []
    lefts = 0
    for items in lists:
        full = left is not None and lefts == left
        if block and (full or (pairs is not None and len(block) + len(items) > pairs)):
            yield block
            block, lefts = [], 0
        block += items
        lefts += 1
    if block:
        yield block


def row_texts(node: Semantic, rows: Rows) -> list[str]:
    """For each left row the values that the prompt's item reads, one per line; "" if all are NULL."""
    names = [prompt.item_fields for prompt in node.prompt.all]
    columns = {name: python_values(rows.left.column(name)) for fields in names for name in fields}
    return [
        "\n".join(filter(None, (show(columns[f][i]) for f in names[p])))
        for i, p in enumerate(rows.prompt)
    ]


def column_texts(table: pa.Table, column: str) -> list[str]:
    """The values of a column as text; "" for NULL."""
    return [show(value) for value in python_values(table.column(column))]


def question_text(prompt: Prompt) -> str:
    """The question of a prompt without the rows: the words of its item, or else its rules."""
    words = " ".join(" ".join(text for text, _ in prompt.item.parts).split())
    return words if any(c.isalnum() for c in words) else prompt.rules.strip() or prompt.name


def queries(node: Semantic, rows: Rows) -> list[str]:
    """The query of each left row: its context if the prompt has one, otherwise the question."""
    keys = Keys(node, rows)
    own = [question_text(prompt) for prompt in node.prompt.all]
    return [keys.context(i) or own[p] for i, p in enumerate(rows.prompt)]


def cosines(vectors: Vectors, other: Vectors) -> list[float]:
    """The cosine of each vector, shape (n, dimensions), with `other`. It is 0 for zero vectors and
    NaN for NaN vectors, which stand for texts that the embedder rejected.
    """
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(other)
    result: list[float] = np.divide(
        vectors @ other, lengths, out=np.zeros(len(vectors)), where=lengths != 0
    ).tolist()
    return result


_Task = asyncio.Task[Reply | RowError]


class NodeCalls:
    """The model and the embedder on behalf of one node: requests, vectors, counters and notes. Each
    reply is counted for the node when it arrives, even if it is not used.

    The engine opens it as an async context manager: closing it ends all its requests.

    Args:
        llm: The model, or the models of all roles. Limits and token counts come from the role of
            the node's first prompt.
        embedder: The embedder.
        node: The node.
        metrics: The counters of its step.
        seed: A seed of `random`, in addition to the node and the key.
        trial: The number of the independent repetition.
        paid: Ids of the calls that the run has counted. Other calls are counted in `metrics` if
            they are issued now, otherwise in `replayed`.
        ahead: Whether its requests run ahead.
        progress: Called with the (left) rows of each reply.
    """

    def __init__(
        self,
        llm: LLM,
        embedder: Embedder,
        node: Semantic,
        metrics: StepMetrics,
        *,
        seed: str = "",
        trial: int = 0,
        paid: set[str] | None = None,
        ahead: bool = False,
        progress: Callable[[Iterable[int]], object] | None = None,
    ) -> None:
        self._llm, self._embedder, self._node, self._metrics = llm, embedder, node, metrics
        self._progress = progress
        self._bind(node.prompt.first.role)
        self._ahead = ahead
        self._seed, self._trial = seed, trial
        self._running: set[_Task] = set()
        self._schemas: dict[int, tuple[Mapping[str, Any], str]] = {}
        self.calls: list[str] = []
        self.counted = CountedNotes()
        self._paid = paid if paid is not None else set()
        self.replayed = StepMetrics()  # the cost of reused answers of earlier runs, each call once

    def _bind(self, role: str) -> None:
        self._model = bound(self._llm, role)
        self._endpoint = innermost(self._model)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel requests in flight and wait until they have ended."""
        await _end(self._running)

    @property
    def limits(self) -> Limits:
        """The limits of the model of the node's role."""
        return self._model.limits

    @property
    def batch(self) -> int:
        """The maximum number of requests in a batch; 0: requests are sent directly."""
        return self.limits.batch if self._ahead else 0

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text for that model."""
        return self._model.count_tokens(text)

    def random(self, partition: str, *key: str) -> random.Random:
        """A random generator. Its seed depends on step, partition and key only, so that runs are
        reproducible.
        """
        trial = [str(self._trial)] if self._trial else []
        text = json.dumps([self._seed, self._node.step, *trial, partition, *key])
        return random.Random(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())  # noqa: S311

    def request(
        self,
        prompt: Prompt,
        system: str,
        user: str,
        schema: Mapping[str, Any] | None,
        partition: str,
        max_tokens: int,
    ) -> Request:
        """A request of this node, for implementations with their own prompts.

        `schema` keeps the order of its properties: models answer in that order. None allows any
        text.
        """
        messages = [Message("system", system)] if system else []
        return Request(
            role=prompt.role,
            messages=(*messages, Message("user", user)),
            schema="" if schema is None else self._schema_text(schema),
            max_tokens=max_tokens,
            trial=self._trial,
            partition=partition,
            step=self._node.step,
            ahead=self._ahead,
        )

    def _schema_text(self, schema: Mapping[str, Any]) -> str:
        """JSON in the order of the schema's keys. Cached by object."""
        cached = self._schemas.get(id(schema))
        if cached is None:
            text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
            cached = self._schemas[id(schema)] = (schema, text)
        return cached[1]

    async def ask(
        self, requests: Iterable[Request]
    ) -> AsyncGenerator[tuple[int, Reply | RowError], None]:
        """Send requests, enough at a time to keep the model busy, and yield (index, reply or error)
        as they arrive.

        A caller that stops early closes the generator (`contextlib.aclosing`): this cancels
        requests in flight.

        Raises:
            ModelUnavailable: No request will be answered; those in flight are cancelled.
            BudgetReached: The next request would pass a limit; those in flight are cancelled.
        """
        pending = enumerate(requests)
        arrived: asyncio.Queue[tuple[int, _Task]] = asyncio.Queue()
        in_flight: set[_Task] = set()
        most = max(1, self.batch or self.limits.in_flight * 2)
        try:
            more = True
            while more or in_flight:
                while more and len(in_flight) < most:
                    following = next(pending, None)
                    more = following is not None
                    if following is not None:
                        self._start(*following, in_flight, arrived)
                if in_flight:
                    index, task = await arrived.get()
                    in_flight.discard(task)
                    self._running.discard(task)
                    yield index, task.result()
        finally:
            self._running -= in_flight
            await _end(in_flight)

    def _start(
        self,
        index: int,
        request: Request,
        in_flight: set[_Task],
        arrived: asyncio.Queue[tuple[int, _Task]],
    ) -> None:
        """Send a request. When its task ends, the task is put into `arrived`."""
        task = asyncio.create_task(self._complete(request))
        in_flight.add(task)
        self._running.add(task)
        task.add_done_callback(lambda task: arrived.put_nowait((index, task)))

    async def _complete(self, request: Request) -> Reply | RowError:
        try:
            reply = await self._llm.complete(request)
        except RowError as error:
            count_failure(self._metrics, error)
            self._remember(error.spent)
            return error
        except BudgetReached as error:
            cut, error.__cause__ = error.__cause__, None  # it is counted once
            if isinstance(cut, RowError):
                count_failure(self._metrics, cut)
            raise
        count_reply(self._metrics, reply)
        self._remember(reply)
        for learned in getattr(self._endpoint, "learned", ()):
            self.note(learned)
        if request.schema:
            text, what = repaired(reply.text)
            if what:
                self.note("repaired an answer", what)
                return replace(reply, text=text)
        return reply

    def _remember(self, reply: object) -> None:
        if not isinstance(reply, Reply) or not reply.call_id:
            return
        self.calls.append(reply.call_id)
        if reply.origin == "journal" and reply.call_id not in self._paid:
            count_reply(self.replayed, replace(reply, origin="issued"))
        self._paid.add(reply.call_id)

    async def embed(self, texts: Sequence[str], partition: str = "") -> Vectors:
        """Vectors of texts, shape (texts, dimensions), float32. Equal texts are sent once.

        The vector of a text that the embedder rejects is NaN, and a note names the text. The caller
        decides about the items of such a text without a vector.
        """
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return np.zeros((0, await self._embedder.dimensions()), np.float32)
        embeddings = await self._embedder.embed(distinct, partition)
        count_embeddings(self._metrics, embeddings)
        for i, error in embeddings.failed.items():
            self.note("texts without a vector", f"“{distinct[i][:60]}”: {error}")
        place = {text: i for i, text in enumerate(distinct)}
        return embeddings.vectors[[place[text] for text in texts]]

    def without_logprobs(self) -> str:
        """The message for an endpoint without log-probabilities: its name, and an alternative."""
        reference = REFERENCES[self._node.keyword]
        return (
            f"step {self._node.step}: {self._model.name} returns no log-probabilities, which logit needs. "
            f"Use an implementation that needs none: {self._node.step}={reference}"
        )

    def note(self, what: str, example: str = "") -> None:
        """Add a note to the run, printed once at its end. A note with an example also has the step,
        the number of occurrences and the first example.
        """
        self.counted.count(self._node.step if example else "", what, example)

    def refused(self, answers: int) -> None:
        """Count answers that failed the check of the node and are requested again."""
        self._metrics.refused += answers


async def _end(tasks: set[_Task]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)


def count_reply(metrics: StepMetrics, reply: Reply) -> None:
    """Count a reply for a step, by its origin; if it was issued now, also its tokens and dollars."""
    metrics.attempts += reply.attempts
    if reply.origin == "journal":
        metrics.calls_journal += 1
    elif reply.origin == "coalesced":
        metrics.calls_coalesced += 1
    else:
        metrics.calls_issued += 1
        metrics.tokens_in += reply.usage.prompt
        metrics.tokens_cached += reply.usage.cached
        metrics.tokens_out += reply.usage.completion
        _add_dollars(metrics, reply.dollars)


def _add_dollars(metrics: StepMetrics, dollars: float | None) -> None:
    """Add dollars to a step. The sum is unknown if one summand is unknown."""
    unknown = metrics.dollars is None or dollars is None
    metrics.dollars = None if unknown else (metrics.dollars or 0.0) + (dollars or 0.0)


def count_failure(metrics: StepMetrics, error: RowError) -> None:
    """Count a failed request for a step: its attempts and, if any, the paid answer."""
    spent = error.spent if isinstance(error.spent, Reply) else None
    metrics.attempts += error.attempts
    if spent is not None:
        count_reply(metrics, spent)
        metrics.attempts -= spent.attempts


def count_embeddings(metrics: StepMetrics, embeddings: Embeddings) -> None:
    """Count embeddings for a step: calls, attempts, tokens and dollars."""
    metrics.embeddings += embeddings.calls
    metrics.attempts += embeddings.attempts
    metrics.tokens_in += embeddings.usage.prompt
    _add_dollars(metrics, embeddings.dollars)
