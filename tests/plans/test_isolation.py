"""Groups never see each other: what a plan does for one neither reads nor changes what is
another's, and no request holds both.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from semgraph.execution.result import Result
from tests.plans.conftest import Memory, at, both_stores
from tests.plans.test_add_triplet import triplet

Case = Callable[[Memory, dict[str, Any]], Awaitable[Any]]
SAID = (
    "Ann(user): I work at Luma.",
    "Bob(user): I live in Rome.",
    "Ann(user): I lead Project Kite.",
)


async def told_twice(memory: Memory) -> dict[str, Any]:
    """The same things told in two groups, in sagas of one name and with communities; the uuids of
    Ann and of the saga in g.
    """
    for group, firm in (("g", "Luma"), ("h", "Zeta Works")):
        said = [
            memory.episode(one.replace("Luma", firm), at(m), group, uuid=f"{group}{m}", saga="tour")
            for m, one in enumerate(SAID)
        ]
        await memory.hear(*said)
    await memory.run("build_communities", groups="all")
    graph, around = await memory.graph(), await memory.around()
    (ann,) = (e["uuid"] for e in graph.entities if (e["name"], e["group_id"]) == ("Ann", "g"))
    (saga,) = (s["uuid"] for s in around["sagas"] if s["group_id"] == "g")
    memory.model.requests.clear()
    return {"ann": ann, "saga": saga}


async def theirs(memory: Memory) -> dict[str, list[str]]:
    """All that is of group h."""
    graph, around = await memory.graph(), await memory.around()
    rows = {
        "episodes": graph.episodes,
        "entities": graph.entities,
        "facts": graph.facts,
        "mentions": graph.mentions,
    }
    return {
        name: sorted(str(r) for r in found if r["group_id"] == "h")
        for name, found in (rows | around).items()
    }


async def _describe(memory: Memory, of: dict[str, str], plan: str) -> Result:
    """News about Ann of group g; facts of both groups end."""
    named = {
        "uuid": "m", "episode": "g9", "group_id": "g", "turn": 9, "nth": 1, "name": "Ann", "content": "Ann is here.",
        "history": [], "type": "Entity", "entity": of["ann"], "new": False, "known_name": "Ann",
    }  # fmt: skip
    ends = {"source": of["ann"], "target": of["ann"]}
    facts = [
        {"turn": 9, "nth": 1, "group_id": group, "fact": f"{group} says.", **ends} for group in "gh"
    ]
    return await memory.run(plan, inputs={"named": [named], "fresh": facts, "ended": facts})


async def merge_and_undo(memory: Memory, of: dict[str, Any]) -> Any:
    """Two entities become one, and two again."""
    graph = await memory.graph()
    other = next(
        e["uuid"] for e in graph.entities if e["group_id"] == "g" and e["uuid"] != of["ann"]
    )
    rows = [{"group_id": "g", "keep": of["ann"], "drop": other}]
    merged = await memory.run("merge_entities", clusters=rows)
    await memory.run("unmerge_entities", moved=merged.tables["moved"].to_pylist())
    return merged


CASES: dict[str, Case] = {
    "get_nodes": lambda m, _: m.run("get_nodes", wanted=[{"group_id": "g"}]),
    "get_edges": lambda m, _: m.run("get_edges", wanted=[{"group_id": "g"}]),
    "retrieve_episodes": lambda m, _: m.run(
        "retrieve_episodes", queries=[{"group_ids": ["g"]}], params={"last_n": 9}
    ),
    **{plan: partial(_describe, plan=plan) for plan in ("describe_by_model", "describe_gated")},
    "build_communities": lambda m, _: m.run("build_communities", groups=[{"group_id": "g"}]),
    "update_communities": lambda m, of: m.run(
        "update_communities",
        entities=[{"uuid": of["ann"], "group_id": "g", "name": "Ann", "summary": "Ann is new."}],
    ),
    "summarize_saga": lambda m, of: m.run("summarize_saga", sagas=[{"uuid": of["saga"]}]),
    "join_saga": lambda m, _: m.run(
        "join_saga",
        episodes=[{"uuid": "g0", "group_id": "g", "valid_at": at(0), "turn": 0, "saga": "other"}],
    ),
    "add_triplet": lambda m, _: m.run(
        "add_triplet", triplets=[triplet("Ann", "WORKS_AT", "Acme", valid_at=at(9))]
    ),
    "remove_episode": lambda m, _: m.run(
        "remove_episode", episodes=[{"uuid": "g0"}], params={"retell": "all"}
    ),
    "find_duplicates": lambda m, _: m.run("find_duplicates", groups=[{"group_id": "g"}]),
    "merge_entities": merge_and_undo,
    "delete_edges": lambda m, _: m.run("delete_edges", wanted=[{"group_id": "g"}]),
    "delete_nodes": lambda m, _: m.run("delete_nodes", wanted=[{"group_id": "g"}]),
}


@both_stores
async def test_a_run_over_one_group_leaves_other_groups_unchanged(memory: Memory) -> None:
    """One after the other in one graph: what reads first, what deletes last."""
    of = await told_twice(memory)
    before = await theirs(memory)
    for name, case in CASES.items():
        result = await case(memory, of)
        assert not result.failed, name
        assert await theirs(memory) == before, name
        assert "Zeta" not in json.dumps(memory.model.requests), name
        assert "h says." not in json.dumps(memory.model.requests), name
        assert all(
            r.get("group_id", "g") == "g" for t in result.tables.values() for r in t.to_pylist()
        ), name
