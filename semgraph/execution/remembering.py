"""Answers that are kept in memory while their windows run: a window that is run again does not pay for them twice."""

from __future__ import annotations

from dataclasses import replace

from semgraph.llm.base import LLM, Reply, Request
from semgraph.llm.roles import Roles
from semgraph.llm.wrapper import Wrapper

Replies = dict[str, Reply]


def remembering(llm: LLM, replies: Replies) -> LLM:
    """The model with answers that it gives again. Answers to equal requests count as shared."""
    if isinstance(llm, Roles):
        return Roles(**{role: _Remembering(model, replies) for role, model in llm.models.items()})
    return _Remembering(llm, replies)


class _Remembering(Wrapper):
    def __init__(self, inner: LLM, replies: Replies) -> None:
        super().__init__(inner)
        self._replies = replies

    async def complete(self, request: Request) -> Reply:
        """Answer one request, from memory where an equal one was answered."""
        key = f"{request.partition}\0{request.fingerprint}"
        if key in self._replies:
            return replace(self._replies[key], origin="coalesced", attempts=0)
        reply = await self.inner.complete(request)
        self._replies[key] = reply
        return reply
