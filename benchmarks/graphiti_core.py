"""The setup of graphiti-core for benchmarks; imported in its own environment only, without
semgraph.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


def memory_at(bolt: Sequence[str], url: str, dimensions: int) -> Any:
    """A Graphiti with default settings.

    Args:
        bolt: Address, user, password of Neo4j.
        url: The address of the model server, which also embeds.
        dimensions: The length of the vectors.
    """
    from graphiti_core import Graphiti
    from graphiti_core.cross_encoder.openai_reranker_client import OpenAIRerankerClient
    from graphiti_core.embedder.openai import OpenAIEmbedder, OpenAIEmbedderConfig
    from graphiti_core.llm_client.config import LLMConfig
    from graphiti_core.llm_client.openai_generic_client import OpenAIGenericClient

    model = "gpt-4.1-mini"
    config = LLMConfig(api_key="none", model=model, small_model=model, base_url=url)
    vectors = OpenAIEmbedderConfig(
        api_key="none", base_url=url, embedding_model="stand-in", embedding_dim=dimensions
    )
    return Graphiti(
        *bolt,
        llm_client=OpenAIGenericClient(config=config),
        embedder=OpenAIEmbedder(config=vectors),
        cross_encoder=OpenAIRerankerClient(config=config),
    )


@dataclass
class Statements:
    """The number of statements that the driver has sent."""

    count: int = 0

    def counted(self, run: Any) -> Any:
        """A function that sends a statement and counts it."""

        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return await run(*args, **kwargs)

        return counted


@contextmanager
def counting() -> Iterator[Statements]:
    """Count all statements that the driver sends in this context."""
    from neo4j import AsyncManagedTransaction, AsyncSession, AsyncTransaction

    statements = Statements()
    whole = [(kind, kind.run) for kind in (AsyncSession, AsyncManagedTransaction, AsyncTransaction)]
    try:
        for kind, run in whole:
            kind.run = statements.counted(run)  # type: ignore[method-assign]
        yield statements
    finally:
        for kind, run in whole:
            kind.run = run  # type: ignore[method-assign]


def asked(url: str, path: str) -> Any:
    """What the model server says: `reset` its counters, or its `counters`."""
    method = "POST" if path == "reset" else "GET"
    request = urllib.request.Request(f"{url.removesuffix('/v1')}/{path}", method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)
