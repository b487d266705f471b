"""What every wrapper around a model does alike."""

from __future__ import annotations

from semgraph.llm.base import LLM, Limits, Reply, Request, Usage


class Wrapper:
    """A model around a model: answers as `inner` does. Wrappers override `complete`."""

    def __init__(self, inner: LLM) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self.inner.name

    @property
    def limits(self) -> Limits:
        """What the inner model takes."""
        return self.inner.limits

    @property
    def exact_tokens(self) -> bool:
        """Whether the inner model counts tokens exactly."""
        return self.inner.exact_tokens

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, as the inner model counts them."""
        return self.inner.count_tokens(text)

    def dollars(self, usage: Usage) -> float | None:
        """What tokens of the inner model cost."""
        return self.inner.dollars(usage)

    async def complete(self, request: Request) -> Reply:
        """Answer one request."""
        return await self.inner.complete(request)

    async def aclose(self) -> None:
        """Close the inner model."""
        await self.inner.aclose()


class Borrowed(Wrapper):
    """A model that belongs to somebody else, who closes it."""

    async def aclose(self) -> None:
        """Leave the model open."""
