"""graphiti-core's search, as its users call it; it runs in its own environment, without semgraph, and
answers each job of standard input: url of the model, bolt (address, user, password), dimensions,
recipe, group, questions with a text and a center, and how many are asked alone before all at once.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from benchmarks.frame.processes import serve
from benchmarks.graphiti_core import asked, counting, memory_at

_SCOPES = {
    "edges": "facts",
    "nodes": "entities",
    "episodes": "episodes",
    "communities": "communities",
}
_CONFIGS = {"edges": "edge_config", "nodes": "node_config", "episodes": "episode_config"}
_CONFIGS |= {"communities": "community_config"}


async def ask(job: dict[str, Any]) -> dict[str, Any]:
    """Run the searches, and return their cost and hits."""
    memory = memory_at(job["bolt"], job["url"], job["dimensions"])
    questions = job["questions"]
    try:
        await memory.build_indices_and_constraints()
        await _found(memory, job, questions[-1])
        asked(job["url"], "reset")
        wall, cpu = [], []
        with counting() as statements:
            for question in questions[: job["alone"]]:
                started = time.perf_counter(), time.process_time()
                await _found(memory, job, question)
                wall.append(time.perf_counter() - started[0])
                cpu.append(time.process_time() - started[1])
        calls = asked(job["url"], "counters")["calls"]
        began = time.perf_counter()
        found = await asyncio.gather(*(_found(memory, job, question) for question in questions))
        all_at_once = time.perf_counter() - began
    finally:
        await memory.close()
    hits = {scope: [one[scope] for one in found] for scope in found[0]}
    return {
        "wall": wall, "cpu": cpu, "statements": statements.count / len(wall), "calls": calls / len(wall),
        "all_at_once": all_at_once, "hits": hits,
    }  # fmt: skip


async def _found(
    memory: Any, job: dict[str, Any], question: dict[str, str]
) -> dict[str, list[str]]:
    """Uuids by scope. The two recipes of `search` use it, all others use `search_`."""
    from graphiti_core.search import search_config_recipes as recipes

    recipe, groups = job["recipe"], [job["group"]]
    center = question["center"] if "DISTANCE" in recipe else None
    if recipe in {"EDGE_HYBRID_SEARCH_RRF", "EDGE_HYBRID_SEARCH_NODE_DISTANCE"}:
        edges = await memory.search(question["text"], center_node_uuid=center, group_ids=groups)
        return {"facts": [edge.uuid for edge in edges]}
    config = getattr(recipes, recipe)
    result = await memory.search_(
        question["text"], config, group_ids=groups, center_node_uuid=center
    )
    return {
        scope: [one.uuid for one in getattr(result, name)]
        for name, scope in _SCOPES.items()
        if getattr(config, _CONFIGS[name])
    }


if __name__ == "__main__":
    serve(lambda job: asyncio.run(ask(job)))
