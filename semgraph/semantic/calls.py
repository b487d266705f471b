"""The calls of one node to the model and the embedder, with their counters."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np

from semgraph.errors import BudgetReached, RowError
from semgraph.llm.base import LLM, Embedder, Embeddings, Limits, Message, Reply, Request, Vectors
from semgraph.llm.replies import repaired
from semgraph.llm.stack import bound, innermost
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.meter import CountedNotes, StepMetrics
from semgraph.semantic.contract import REFERENCES

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

    embeds = True  # whether texts are embedded; in a dry run they may not be

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

    def of(self, role: str) -> Self:
        """These calls, with the limits and the tokenizer of the model of a role."""
        if bound(self._llm, role) is self._model:
            return self
        other = copy(self)
        other._bind(role)  # noqa: SLF001
        return other

    def _bind(self, role: str) -> None:
        self._model = bound(self._llm, role)
        self._endpoint = innermost(self._model)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
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
        arrived = asyncio.Queue[_Task]()
        in_flight = dict[_Task, int]()
        most = max(1, self.batch or self.limits.in_flight * 2)
        try:
            more = True
            while more or in_flight:
                while more and len(in_flight) < most:
                    following = next(pending, None)
                    more = following is not None
                    if following is not None:
                        task = asyncio.create_task(self._complete(following[1]))
                        in_flight[task] = following[0]
                        self._running.add(task)
                        task.add_done_callback(arrived.put_nowait)
                if in_flight:
                    task = await arrived.get()
                    self._running.discard(task)
                    yield in_flight.pop(task), task.result()
        finally:
            self._running -= in_flight.keys()
            await _end(in_flight)

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


async def _end(tasks: Collection[_Task]) -> None:
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
    metrics.attempts += error.attempts
    if error.spent is not None:
        count_reply(metrics, error.spent)
        metrics.attempts -= error.spent.attempts


def count_embeddings(metrics: StepMetrics, embeddings: Embeddings) -> None:
    """Count embeddings for a step: calls, attempts, tokens and dollars."""
    metrics.embeddings += embeddings.calls
    metrics.attempts += embeddings.attempts
    metrics.tokens_in += embeddings.usage.prompt
    _add_dollars(metrics, embeddings.dollars)
