"""graphiti-core, as its users call it. It runs in its own environment, without semgraph, and answers
each job of standard input: `do` ("add" or "search"), the model's url, bolt (address, user, password),
dimensions, and the messages or the questions.
"""

from __future__ import annotations

import asyncio
import json
import resource
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from benchmarks.frame.processes import Watch, serve

Job = dict[str, Any]
_SCOPES = {
    "edges": ("facts", "edge_config"),
    "nodes": ("entities", "node_config"),
    "episodes": ("episodes", "episode_config"),
    "communities": ("communities", "community_config"),
}


async def run_job(job: Job) -> dict[str, Any]:
    """Do one job with a Graphiti of default settings."""
    from graphiti_core import Graphiti
    from graphiti_core.cross_encoder.openai_reranker_client import OpenAIRerankerClient
    from graphiti_core.embedder.openai import OpenAIEmbedder, OpenAIEmbedderConfig
    from graphiti_core.llm_client.config import LLMConfig
    from graphiti_core.llm_client.openai_generic_client import OpenAIGenericClient

    model, url = "gpt-4.1-mini", job["url"]
    config = LLMConfig(api_key="none", model=model, small_model=model, base_url=url)
    vectors = OpenAIEmbedderConfig(
        api_key="none", base_url=url, embedding_model="stand-in", embedding_dim=job["dimensions"]
    )
    memory = Graphiti(
        *job["bolt"],
        llm_client=OpenAIGenericClient(config=config),
        embedder=OpenAIEmbedder(config=vectors),
        cross_encoder=OpenAIRerankerClient(config=config),
    )
    try:
        await memory.build_indices_and_constraints()
        return await _DO[job["do"]](memory, job)
    finally:
        await memory.close()


@contextmanager
def _counting() -> Iterator[list[None]]:
    """A list that grows by one for each statement that the driver sends in this context."""
    from neo4j import AsyncManagedTransaction, AsyncSession, AsyncTransaction

    sent: list[None] = []

    def counted(run: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counting(*args: Any, **kwargs: Any) -> Any:
            sent.append(None)
            return await run(*args, **kwargs)

        return counting

    whole = [(kind, kind.run) for kind in (AsyncSession, AsyncManagedTransaction, AsyncTransaction)]
    try:
        for kind, run in whole:
            kind.run = counted(run)  # type: ignore[assignment,method-assign]
        yield sent
    finally:
        for kind, run in whole:
            kind.run = run  # type: ignore[method-assign]


def _server(url: str, path: str) -> Any:
    """What the model server answers: `reset` its counters, or its `counters`."""
    method = "POST" if path == "reset" else "GET"
    request = urllib.request.Request(f"{url.removesuffix('/v1')}/{path}", method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


async def add(memory: Any, job: Job) -> dict[str, float]:
    """Add the messages `rows` one after another, or in `bulk`; those of `before` are not measured."""
    await _add(memory, job["before"], bulk=False)
    _server(job["url"], "reset")
    with _counting() as statements, Watch() as watch:
        await _add(memory, job["rows"], bulk=job["bulk"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return {**watch.figures(), "queries": len(statements), "peak_mib": round(peak)}


async def _add(memory: Any, rows: list[dict[str, Any]], *, bulk: bool) -> None:
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
    both = zip(rows, made, strict=True)
    if bulk and rows:
        raw = [RawEpisode(content=row["content"], **one) for row, one in both]
        await memory.add_episode_bulk(raw, group_id=rows[0]["group_id"])
        return
    for row, one in both:
        await memory.add_episode(episode_body=row["content"], group_id=row["group_id"], **one)


async def search(memory: Any, job: Job) -> dict[str, Any]:
    """Search by a recipe in a group: the first questions `alone`, then all at once; cost and hits."""
    questions, watches = job["questions"], list[Watch]()
    await _found(memory, job, questions[-1])
    _server(job["url"], "reset")
    with _counting() as statements:
        for question in questions[: job["alone"]]:
            with Watch() as watch:
                await _found(memory, job, question)
            watches.append(watch)
    calls = _server(job["url"], "counters")["calls"]
    with Watch() as whole:
        found = await asyncio.gather(*(_found(memory, job, question) for question in questions))
    return {
        "wall": [watch.seconds for watch in watches],
        "cpu": [watch.cpu for watch in watches],
        "statements": len(statements) / len(watches),
        "calls": calls / len(watches),
        "all_at_once": whole.seconds,
        "hits": {scope: [one[scope] for one in found] for scope in found[0]},
    }


async def _found(memory: Any, job: Job, question: dict[str, str]) -> dict[str, list[str]]:
    """Uuids by scope. The two recipes of `search` use it, all others use `search_`."""
    from graphiti_core.search import search_config_recipes as recipes

    recipe, text = job["recipe"], question["text"]
    where: dict[str, Any] = {"group_ids": [job["group"]], "center_node_uuid": None}
    if "DISTANCE" in recipe:
        where["center_node_uuid"] = question["center"]
    if recipe in {"EDGE_HYBRID_SEARCH_RRF", "EDGE_HYBRID_SEARCH_NODE_DISTANCE"}:
        return {"facts": [edge.uuid for edge in await memory.search(text, **where)]}
    config = getattr(recipes, recipe)
    result = await memory.search_(text, config, **where)
    return {
        scope: [one.uuid for one in getattr(result, name)]
        for name, (scope, part) in _SCOPES.items()
        if getattr(config, part)
    }


_DO: dict[str, Callable[[Any, Job], Awaitable[dict[str, Any]]]] = {"add": add, "search": search}


if __name__ == "__main__":
    serve(lambda job: asyncio.run(run_job(job)))
