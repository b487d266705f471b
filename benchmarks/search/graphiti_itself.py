"""graphiti-core's search, as its users call it; run in its own environment, with nothing of semgraph's.

A process that is kept: for each line of standard input (see `Told`) it asks the questions, and prints a line.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from functools import cache
from typing import Any, TypedDict

from benchmarks.suite.peers import answering

_SCOPES = {"edges": "facts", "nodes": "entities", "episodes": "episodes", "communities": "communities"}


class Told(TypedDict):
    """What is to be done.

    Attributes:
        url: Of the model server.
        bolt: Address, user, password of Neo4j.
        dimensions: Of the vectors.
        recipe: One of graphiti-core's search configurations, by name.
        group: Whose memory is searched.
        alone: How many of the questions are asked one by one, before all are asked at once.
        questions: Each with its text and the uuid of its center.
    """

    url: str
    bolt: list[str]
    dimensions: int
    recipe: str
    group: str
    alone: int
    questions: list[dict[str, str]]


async def ask(told: Told) -> dict[str, Any]:
    """Ask, and tell what it took and what was found."""
    memory = _memory(told)
    questions = told["questions"]
    try:
        await memory.build_indices_and_constraints()
        await _found(memory, told, questions[-1])
        _asked(told["url"], "reset", "POST")
        statements, wall, cpu = _statements(), [], []
        statements.count = 0
        for question in questions[: told["alone"]]:
            started = time.perf_counter(), time.process_time()
            await _found(memory, told, question)
            wall.append(time.perf_counter() - started[0])
            cpu.append(time.process_time() - started[1])
        count, calls = statements.count, _asked(told["url"], "counters", "GET")["calls"]
        began = time.perf_counter()
        found = await asyncio.gather(*(_found(memory, told, question) for question in questions))
        all_at_once = time.perf_counter() - began
    finally:
        await memory.close()
    hits = {scope: [one[scope] for one in found] for scope in found[0]}
    return {
        "wall": wall, "cpu": cpu, "statements": count / len(wall), "calls": calls / len(wall),
        "all_at_once": all_at_once, "hits": hits,
    }  # fmt: skip


def _memory(told: Told) -> Any:
    from graphiti_core import Graphiti
    from graphiti_core.cross_encoder.openai_reranker_client import OpenAIRerankerClient
    from graphiti_core.embedder.openai import OpenAIEmbedder, OpenAIEmbedderConfig
    from graphiti_core.llm_client.config import LLMConfig
    from graphiti_core.llm_client.openai_generic_client import OpenAIGenericClient

    config = LLMConfig(api_key="none", model="gpt-4.1-mini", small_model="gpt-4.1-mini", base_url=told["url"])
    vectors = OpenAIEmbedderConfig(
        api_key="none", base_url=told["url"], embedding_model="stand-in", embedding_dim=told["dimensions"]
    )
    return Graphiti(
        *told["bolt"],
        llm_client=OpenAIGenericClient(config=config),
        embedder=OpenAIEmbedder(config=vectors),
        cross_encoder=OpenAIRerankerClient(config=config),
    )


async def _found(memory: Any, told: Told, question: dict[str, str]) -> dict[str, list[str]]:
    """Uuids by scope. The two recipes that `search` stands for are asked by it, all others by `search_`."""
    from graphiti_core.search import search_config_recipes as recipes

    center = question["center"] if "DISTANCE" in told["recipe"] else None
    if told["recipe"] in {"EDGE_HYBRID_SEARCH_RRF", "EDGE_HYBRID_SEARCH_NODE_DISTANCE"}:
        edges = await memory.search(question["text"], center_node_uuid=center, group_ids=[told["group"]])
        return {"facts": [edge.uuid for edge in edges]}
    config = getattr(recipes, told["recipe"])
    result = await memory.search_(question["text"], config, group_ids=[told["group"]], center_node_uuid=center)
    searched = {"edges": config.edge_config, "nodes": config.node_config, "episodes": config.episode_config}
    searched["communities"] = config.community_config
    return {scope: [one.uuid for one in getattr(result, name)] for name, scope in _SCOPES.items() if searched[name]}


class _Statements:
    """Counts statements that the driver sends, however they are sent."""

    def __init__(self) -> None:
        from neo4j import AsyncManagedTransaction, AsyncSession, AsyncTransaction

        self.count = 0
        for kind in (AsyncSession, AsyncManagedTransaction, AsyncTransaction):
            kind.run = self._counted(kind.run)  # type: ignore[method-assign]

    def _counted(self, run: Any) -> Any:
        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return await run(*args, **kwargs)

        return counted


@cache
def _statements() -> _Statements:
    return _Statements()


def _asked(url: str, path: str, method: str) -> Any:
    request = urllib.request.Request(f"{url.removesuffix('/v1')}/{path}", method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


if __name__ == "__main__":
    answering(lambda told: asyncio.run(ask(told)))
