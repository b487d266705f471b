"""graphiti-core's search, as its users call it; it runs in its own environment, without semgraph.

A long-lived process: for each line of standard input (see `SearchJob`) it runs the searches and prints a
line.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypedDict

from benchmarks.graphiti_core import calls, counting, memory_at, reset
from benchmarks.suite.peers import serve

_SCOPES = {
    "edges": "facts",
    "nodes": "entities",
    "episodes": "episodes",
    "communities": "communities",
}


class SearchJob(TypedDict):
    """A line of input.

    Attributes:
        url: The model server.
        bolt: Address, user, password of Neo4j.
        dimensions: The length of vectors.
        recipe: One of graphiti-core's search configurations, by name.
        group: The group to search.
        alone: The number of searches that run one by one, before all run at once.
        questions: Each with its text and the uuid of its center.
    """

    url: str
    bolt: list[str]
    dimensions: int
    recipe: str
    group: str
    alone: int
    questions: list[dict[str, str]]


async def ask(job: SearchJob) -> dict[str, Any]:
    """Run the searches, and return their cost and hits."""
    memory = memory_at(job["bolt"], job["url"], job["dimensions"])
    questions = job["questions"]
    try:
        await memory.build_indices_and_constraints()
        await _found(memory, job, questions[-1])
        reset(job["url"])
        wall, cpu = [], []
        with counting() as statements:
            for question in questions[: job["alone"]]:
                started = time.perf_counter(), time.process_time()
                await _found(memory, job, question)
                wall.append(time.perf_counter() - started[0])
                cpu.append(time.process_time() - started[1])
        asked = calls(job["url"])
        began = time.perf_counter()
        found = await asyncio.gather(*(_found(memory, job, question) for question in questions))
        all_at_once = time.perf_counter() - began
    finally:
        await memory.close()
    hits = {scope: [one[scope] for one in found] for scope in found[0]}
    return {
        "wall": wall, "cpu": cpu, "statements": statements.count / len(wall), "calls": asked / len(wall),
        "all_at_once": all_at_once, "hits": hits,
    }  # fmt: skip


async def _found(memory: Any, job: SearchJob, question: dict[str, str]) -> dict[str, list[str]]:
    """Uuids by scope. The two recipes of `search` use it, all others use `search_`."""
    from graphiti_core.search import search_config_recipes as recipes

    center = question["center"] if "DISTANCE" in job["recipe"] else None
    if job["recipe"] in {"EDGE_HYBRID_SEARCH_RRF", "EDGE_HYBRID_SEARCH_NODE_DISTANCE"}:
        edges = await memory.search(
            question["text"], center_node_uuid=center, group_ids=[job["group"]]
        )
        return {"facts": [edge.uuid for edge in edges]}
    config = getattr(recipes, job["recipe"])
    result = await memory.search_(
        question["text"], config, group_ids=[job["group"]], center_node_uuid=center
    )
    searched = {
        "edges": config.edge_config,
        "nodes": config.node_config,
        "episodes": config.episode_config,
    }
    searched["communities"] = config.community_config
    return {
        scope: [one.uuid for one in getattr(result, name)]
        for name, scope in _SCOPES.items()
        if searched[name]
    }


if __name__ == "__main__":
    serve(lambda job: asyncio.run(ask(job)))
