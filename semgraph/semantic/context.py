"""The `Context` of implementations: questions about items, sent by `NodeCalls`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from semgraph.errors import RowError, SemgraphError
from semgraph.llm.base import Reply, Request, Vectors
from semgraph.logical.semantic import Semantic
from semgraph.semantic.answers import words_of
from semgraph.semantic.calls import NodeCalls
from semgraph.semantic.contract import Block, Outcome, Part, Ranking, Rows, Words
from semgraph.semantic.prompt import items
from semgraph.semantic.prompt.builder import UNASKED, PromptBuilder, Work


class Context(NodeCalls):
    """The services of an implementation. All requests are journalled, limited, budgeted and metered."""

    async def _run(self, builder: PromptBuilder, works: Iterable[Work]) -> list[Outcome]:
        """Send requests until each item of a builder has an outcome."""
        builder.on_answer = self._progress
        await builder.send_all(works)
        return builder.results()

    def _builder(
        self, node: Semantic, rows: Rows, words: Words | None = None
    ) -> items.RowPrompts | items.PairPrompts:
        return (items.RowPrompts if rows.right is None else items.PairPrompts)(
            self, node, rows, words
        )

    async def ask_packed(
        self, node: Semantic, rows: Rows, blocks: Iterable[Block]
    ) -> list[Outcome]:
        """Ask about the items of each block in one call (sem_map, sem_filter, sem_join, and
        sem_topk with a score per item).

        A single item is sent in the prompt's words, several items as numbered records. A block that
        mixes partitions, prompts or contexts, or exceeds the model's context, becomes several
        calls. Ids and types are checked, and missing or invalid answers are requested again. Items
        with `reasons` are sent alone. Returns an outcome for each item, in order. An item in no
        block is an EngineError.
        """
        builder = self._builder(node, rows)
        if rows.reasons:
            blocks = ([item] for block in blocks for item in block)
        outcomes = await self._run(builder, builder.works(blocks))
        self._metrics.unusable += builder.unusable
        return outcomes

    async def ask_samples(
        self, node: Semantic, rows: Rows, count: int, temperature: float
    ) -> list[list[Outcome]]:
        """Ask about each item alone `count` times (sem_map, sem_filter), with answers sampled at a
        temperature.

        Each sample is a separate request. It is journalled and replayed by its number, and has a
        seed if the endpoint supports seeds. Returns the outcomes of each item, in order.
        """
        builder = items.SamplePrompts(self, node, rows, temperature)
        outcomes = await self._run(builder, builder.all_works(count))
        return [builder.samples_of(item) for item in range(len(outcomes))]

    async def ask_words(
        self, node: Semantic, rows: Rows, words: Words | None = None, *, role: str = ""
    ) -> list[Outcome]:
        """Ask for one word about each item: yes or no (sem_filter, sem_join), a digit (sem_topk).

        Returns an outcome for each item, in order: the verdict, and under `logprobs` the
        log-probability of each word; see `log_odds`. One item is sent first if the endpoint may
        lack log-probabilities.

        Args:
            node: The node. Further answers of a sem_join are not requested.
            rows: The items.
            words: Words to use instead of the operator's default.
            role: The role of the model; "": the role of each prompt.

        Raises:
            ModelUnavailable: The endpoint has no log-probabilities.
        """
        rows = rows._replace(reasons=())  # the check refused an answer, not this word
        if role:  # both contexts share calls, counters and notes
            other, node = copy(self.of(role)), replace(node, prompt=node.prompt.of_role(role))
            other._progress = None  # noqa: SLF001
            return await other.ask_words(node, rows, words)
        builder = self._builder(node, rows, words or words_of(node))
        builder.needs_logprobs, builder.on_answer = True, self._progress
        works = builder.works([item] for item in range(len(rows.items)))
        if self.limits.logprobs is None:
            await builder.send_all(islice(works, 1))
        return await self._run(builder, works)

    async def ask_groups(self, node: Semantic, rows: Rows, parts: Iterable[Part]) -> list[Outcome]:
        """Aggregate each part in one call (sem_agg). Returns an outcome for each part, in order.

        A part that exceeds the model's context is not sent; its error is of kind `too_long`.
        """
        builder = items.GroupPrompts(self, node, rows, list(parts))
        return await self._run(builder, builder.all_works())

    async def ask_rankings(
        self, node: Semantic, rows: Rows, windows: Iterable[Block]
    ) -> list[Ranking]:
        """Rank the items of each window in one call (sem_topk). Returns a ranking for each window,
        in order.

        If the endpoint rejects a window, or the window exceeds the model's context, each of its
        rows is sent alone, so that one bad row does not fail the others. Rows that fail alone are
        `faulty`. A window of one row is also sent.
        """
        builder = items.WindowPrompts(self, node, rows, list(windows))
        return await builder.rankings(await self._run(builder, builder.all_works()))

    async def ask_reviews(
        self, node: Semantic, rows: Rows, answers: Mapping[int, Outcome]
    ) -> dict[int, Outcome]:
        """Ask the model to review earlier answers of some items (sem_map), one call per item.

        The question is the prompt's section `# reflexion`, or a general one. An outcome has all
        answers: for a list the additions, otherwise the corrected value. An item without an earlier
        answer keeps its error.
        """
        builder = items.ReviewPrompts(self, node, rows, answers)
        await builder.send_all(builder.all_works())
        return builder.outcomes


_SAMPLE = 200  # the number of requests whose tokens are counted


class DryRunEnded(SemgraphError):
    """The end of a dry run: it needs vectors, an answer or the store, or has enough requests."""


@dataclass
class PlannedRequests:
    """The requests to the model of one role: their number, the token limit of their answers, and
    the first request.
    """

    calls: int = 0
    tokens_out: int = 0
    first: list[Request] = field(default_factory=list)

    def add(self, request: Request) -> None:
        """Count a request."""
        self.calls += 1
        self.tokens_out += request.max_tokens
        if len(self.first) < _SAMPLE:
            self.first.append(request)


class DryRun(Context):
    """A context that counts requests and sends none. No item gets an answer, so implementations end
    after their first round.

    It raises DryRunEnded after `most` requests, and where vectors are needed, unless it `embeds`
    texts. `batches` are the counted requests, by role. Other arguments as `Context`.
    """

    def __init__(
        self, *arguments: Any, embeds: bool = False, most: int | None = None, **more: Any
    ) -> None:
        super().__init__(*arguments, **more)
        self.batches: dict[str, PlannedRequests] = {}
        self.embeds, self._most = embeds, most

    @property
    def first(self) -> Request | None:
        """The first request, if any."""
        return next((batch.first[0] for batch in self.batches.values()), None)

    async def ask(
        self, requests: Iterable[Request]
    ) -> AsyncGenerator[tuple[int, Reply | RowError], None]:
        """Count the requests. Raises DryRunEnded after the last one."""
        for index, request in enumerate(requests):
            self.batches.setdefault(request.role, PlannedRequests()).add(request)
            if sum(batch.calls for batch in self.batches.values()) == self._most:
                raise DryRunEnded
            yield index, RowError(UNASKED, "only planned")

    async def embed(self, texts: Sequence[str], partition: str = "") -> Vectors:
        """Vectors of texts, if texts are embedded. Raises DryRunEnded."""
        if not self.embeds:
            raise DryRunEnded
        return await super().embed(texts, partition)
