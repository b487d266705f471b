"""What a way would ask first: its requests are composed and counted, and not sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from semgraph.errors import RowError, SemgraphError
from semgraph.llm.base import Reply, Request, Vectors
from semgraph.logical.semantic import Semantic
from semgraph.physical.answers import answer_table
from semgraph.physical.context import NodeContext
from semgraph.physical.contract import Block, Outcome, Part, Ranking, Rows
from semgraph.physical.framing import Framing, Work
from semgraph.physical.group_framing import GroupFraming, WindowFraming
from semgraph.physical.pair_framing import PairFraming
from semgraph.physical.row_framing import RowFraming
from semgraph.physical.words import Words, words_of

_UNASKED = "unasked: only planned"
_SAMPLE = 200  # requests whose tokens are counted


class NeedsVectors(SemgraphError):
    """A way embeds texts before all that it would ask is known."""


@dataclass
class Batch:
    """Requests to the model of one role: how many, the tokens their answers may have, and the first of them."""

    calls: int = 0
    tokens_out: int = 0
    first: list[Request] = field(default_factory=list)

    def add(self, request: Request) -> None:
        """Count a request."""
        self.calls += 1
        self.tokens_out += request.max_tokens
        if len(self.first) < _SAMPLE:
            self.first.append(request)


class Planned(NodeContext):
    """A context in which nothing is asked: each question has no answer, so that a way ends after what it asks at once.

    `batches` are what it would have sent, by role. With `embeds` texts are embedded; without, a way that wants vectors ends
    in `NeedsVectors`.
    """

    def __init__(self, *given: Any, embeds: bool = False, **more: Any) -> None:
        super().__init__(*given, **more)
        self.batches: dict[str, Batch] = {}
        self._embeds = embeds

    def _keep(self, requests: Iterable[Request]) -> None:
        for request in requests:
            self.batches.setdefault(request.role, Batch()).add(request)

    async def ask(self, requests: Iterable[Request]) -> AsyncGenerator[tuple[int, Reply | RowError], None]:
        """Count the requests."""
        for index, request in enumerate(requests):
            self._keep([request])
            yield index, RowError("unasked", "only planned")

    async def embed(self, texts: Sequence[str], partition: str = "") -> Vectors:
        """Vectors of texts, if there are to be any. Raises NeedsVectors."""
        if not self._embeds:
            raise NeedsVectors
        return await super().embed(texts, partition)

    def _plan(self, framing: Framing, works: Iterable[Work]) -> None:
        self._keep(framing.requests(works, []))

    async def ask_packed(self, node: Semantic, rows: Rows, blocks: Iterable[Block]) -> Any:
        """Count the requests about the blocks."""
        framing = (RowFraming if rows.right is None else PairFraming)(self, node, rows)
        self._plan(framing, framing.works(blocks))
        return answer_table(node, [Outcome(None, _UNASKED)] * rows.items.num_rows)

    async def ask_words(
        self, node: Semantic, rows: Rows, words: Words | None = None, *, role: str = ""
    ) -> list[Outcome]:
        """Count the requests about the items."""
        node = replace(node, prompt=node.prompt.of_role(role)) if role else node
        framing = (RowFraming if rows.right is None else PairFraming)(self, node, rows, words or words_of(node))
        self._plan(framing, framing.works([item] for item in range(rows.items.num_rows)))
        return [Outcome(None, _UNASKED)] * rows.items.num_rows

    async def ask_groups(self, node: Semantic, rows: Rows, parts: Iterable[Part]) -> list[Outcome]:
        """Count the requests about the parts."""
        wanted = list(parts)
        framing = GroupFraming(self, node, rows, wanted)
        self._plan(framing, framing.all_works())
        return [Outcome(None, _UNASKED)] * len(wanted)

    async def ask_rankings(self, node: Semantic, rows: Rows, windows: Iterable[Block]) -> list[Ranking]:
        """Count the requests about the windows."""
        wanted = list(windows)
        framing = WindowFraming(self, node, rows, wanted)
        self._plan(framing, framing.all_works())
        return [Ranking(None, _UNASKED, (), dict.fromkeys(window, Outcome(None, _UNASKED))) for window in wanted]

    async def ask_reviews(
        self,
        node: Semantic,  # noqa: ARG002
        rows: Rows,  # noqa: ARG002
        given: Mapping[int, Outcome],
    ) -> dict[int, Outcome]:
        """Nothing was answered, so nothing is reviewed."""
        return dict.fromkeys(given, Outcome(None, _UNASKED))
