"""graphiti-core over a stream, as its users call it; run in its own environment, with nothing of semgraph's.

For each line of JSON from standard input (see `Told`) it tells the messages and prints one: seconds, CPU, queries, memory.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
import urllib.request
from datetime import datetime
from typing import Any, TypedDict

from benchmarks.suite.peers import answering


class Told(TypedDict):
    """What is to be done.

    Attributes:
        url: Of the model server.
        bolt: Address, user, password of Neo4j.
        dimensions: Of the vectors.
        before: Messages told before anything is measured.
        rows: The messages: group_id, valid_at, content.
        bulk: Whether all of them are told at once.
    """

    url: str
    bolt: list[str]
    dimensions: int
    before: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    bulk: bool


class Queries:
    """Counts statements that the driver sends, however they are sent."""

    def __init__(self) -> None:
        from neo4j import AsyncManagedTransaction, AsyncSession, AsyncTransaction

        self.count = 0
        self._whole = [(kind, kind.run) for kind in (AsyncSession, AsyncManagedTransaction, AsyncTransaction)]
        for kind in (AsyncSession, AsyncManagedTransaction, AsyncTransaction):
            kind.run = self._counted(kind.run)  # type: ignore[method-assign]

    def _counted(self, run: Any) -> Any:
        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return await run(*args, **kwargs)

        return counted

    def close(self) -> None:
        """Count no more."""
        for kind, run in self._whole:
            kind.run = run  # type: ignore[method-assign]


async def tell(told: Told) -> dict[str, float]:
    """Tell the messages one after another, or all at once."""
    from graphiti_core import Graphiti
    from graphiti_core.cross_encoder.openai_reranker_client import OpenAIRerankerClient
    from graphiti_core.embedder.openai import OpenAIEmbedder, OpenAIEmbedderConfig
    from graphiti_core.llm_client.config import LLMConfig
    from graphiti_core.llm_client.openai_generic_client import OpenAIGenericClient

    config = LLMConfig(api_key="none", model="gpt-4.1-mini", small_model="gpt-4.1-mini", base_url=told["url"])
    vectors = OpenAIEmbedderConfig(
        api_key="none", base_url=told["url"], embedding_model="stand-in", embedding_dim=told["dimensions"]
    )
    uri, user, password = told["bolt"]
    memory = Graphiti(
        uri, user, password,
        llm_client=OpenAIGenericClient(config=config),
        embedder=OpenAIEmbedder(config=vectors),
        cross_encoder=OpenAIRerankerClient(config=config),
    )  # fmt: skip
    try:
        await memory.build_indices_and_constraints()
        await _told(memory, told["before"], bulk=False)
        _reset(told["url"])
        queries = Queries()
        wall, cpu = time.perf_counter(), time.process_time()
        await _told(memory, told["rows"], bulk=told["bulk"])
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        queries.close()
    finally:
        await memory.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return {"seconds": round(wall, 3), "cpu_ms": round(1000 * cpu), "queries": queries.count, "peak_mib": round(peak)}


async def _told(memory: Any, rows: list[dict[str, Any]], *, bulk: bool) -> None:
    from graphiti_core.nodes import EpisodeType
    from graphiti_core.utils.bulk_utils import RawEpisode

    made = [
        {
            "name": row.get("name") or f"message {i}",
            "source_description": "",
            "reference_time": datetime.fromisoformat(row["valid_at"]),
            "source": EpisodeType.message,
        }
        for i, row in enumerate(rows)
    ]
    if bulk and rows:
        raw = [RawEpisode(content=row["content"], **one) for row, one in zip(rows, made, strict=True)]
        await memory.add_episode_bulk(raw, group_id=rows[0]["group_id"])
        return
    for row, one in zip(rows, made, strict=True):
        await memory.add_episode(episode_body=row["content"], group_id=row["group_id"], **one)


def _reset(url: str) -> None:
    request = urllib.request.Request(url.removesuffix("/v1") + "/reset", method="POST")
    urllib.request.urlopen(request).close()


if __name__ == "__main__":
    os.environ["GRAPHITI_TELEMETRY_ENABLED"] = "false"
    answering(lambda told: asyncio.run(tell(told)))
