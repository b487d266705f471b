"""The formula with which each plan says how many calls of a model it takes, against what runs
take.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.world import StandIn
from semgraph.execution.result import Result
from semgraph.expr.duckdb import connection
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.semantic import Semantic
from tests.plans.conftest import PLANS, Memory, at, loaded
from tests.plans.test_add_triplet import triplet
from tests.plans.test_communities import cliques
from tests.plans.test_mention_graph import ORWELL, turns

NAMES = sorted(path.stem for path in PLANS.glob("*.yaml") if path.stem != "graph")
Numbers = dict[str, int]
Case = Callable[[Memory], Awaitable[tuple[Result, list[Numbers]]]]


def asks(plan: LogicalPlan) -> bool:
    return any(isinstance(node, Semantic) for node in walk(*plan.roots))


def worth(formula: str, numbers: Numbers) -> int:
    """A formula with its numbers in place."""
    columns = ", ".join(f"{value} AS {name}" for name, value in numbers.items())
    ((found,),) = connection().cursor().sql(f"SELECT {formula} FROM (SELECT {columns})").fetchall()
    return int(found)


def episode(
    undated: int = 0, verdicts: int = 0, matches: int = 0, rewritten: int = 0, **more: int
) -> Numbers:
    """What the formula of add_episode names, of one episode."""
    return {
        "matches": matches, "undated": undated, "verdicts": verdicts, "typed_entities": 0, "typed_facts": 0, "rewritten": rewritten,
        "communities": 0,
    } | more  # fmt: skip


async def add_episode(memory: Memory) -> tuple[Result, list[Numbers]]:
    result = await memory.run("add_episode")
    return result, [episode(), episode(verdicts=1), episode(verdicts=1)]


async def add_lean(memory: Memory) -> tuple[Result, list[Numbers]]:
    return await memory.run("add_episode_lean"), [{"doubt": 0, "undated": 0, "rewritten": 0}] * 3


async def add_a_silent_one(memory: Memory) -> tuple[Result, list[Numbers]]:
    return await memory.hear("Bob is here. Carl is too."), [episode(rewritten=3)]


async def resolve(memory: Memory) -> tuple[Result, list[Numbers]]:
    result = await memory.run("resolve_entities")
    return result, [{"matches": 0}]


async def settle(memory: Memory) -> tuple[Result, list[Numbers]]:
    row = {
        "group_id": "g",
        "episode": "e",
        "nth": 1,
        "said_at": at(0),
        "source": "a",
        "target": "b",
        "name": "WORKS_AT",
    }
    facts = [
        row | {"uuid": "1", "turn": 1, "fact": "Ann works at Luma.", "valid_at": at(0)},
        row | {"uuid": "2", "turn": 2, "fact": "Ann is employed by Luma."},
    ]
    return await memory.run("settle_facts", facts=facts), [{"undated": 1, "verdicts": 1}]


async def judge(memory: Memory) -> tuple[Result, list[Numbers]]:
    return await memory.run("judge_episode"), [{"judged_episodes": 0}]


async def judge_an_undated_one(memory: Memory) -> tuple[Result, list[Numbers]]:
    given = loaded("judge_episode").document["example"]["inputs"]
    claims = [{**claim, "valid_at": None} for claim in given["claims"]]
    return await memory.run("judge_episode", **given | {"claims": claims}), [{"judged_episodes": 1}]


async def add_triplet(memory: Memory) -> tuple[Result, list[Numbers]]:
    await memory.hear("I work at Luma.")
    rows = [
        triplet("Ann", "WORKS_AT", "Acme", valid_at=at(9)),
        triplet("Ann", "LIVES_IN", "Rome", valid_at=None),
    ]
    return await memory.run("add_triplet", triplets=rows), [
        {"matches": 0, "undated": 1, "verdicts": 1}
    ]


async def build(memory: Memory) -> tuple[Result, list[Numbers]]:
    sizes = [1, 2, 8, 9, 20, 33]
    await cliques(memory, sizes)
    return await memory.run("build_communities", groups="all"), [{"n": n} for n in sizes]


async def update(memory: Memory) -> tuple[Result, list[Numbers]]:
    sizes = [3, 7, 12]
    await cliques(memory, [*sizes, 2])
    await memory.run("build_communities", groups="all")
    news = [
        {
            "uuid": f"g{c:02}-{i:03}",
            "group_id": "g",
            "name": f"P{c}{i}",
            "summary": f"P{c}{i} is new.",
        }
        for c, size in enumerate(sizes)
        for i in range(size)
    ]
    return await memory.run("update_communities", entities=news), [{"n": n} for n in [*sizes, 0]]


async def remove(memory: Memory) -> tuple[Result, list[Numbers]]:
    await memory.hear(
        *(memory.episode("Ann(user): I work at Luma.", at(m), uuid=f"e{m}") for m in range(13))
    )
    result = await memory.run("remove_episode", episodes=[{"uuid": "e0"}], params={"retell": "all"})
    return result, [{"episodes": 12}, {"episodes": 12}]


async def saga(memory: Memory) -> tuple[Result, list[Numbers]]:
    await memory.session.arun(
        memory.here("heard.yaml"),
        episodes=[memory.episode(f"Minute {m}.", at(m), uuid=f"e{m}") for m in range(31)],
    )
    rows = [
        {
            "uuid": f"e{m}",
            "group_id": "g",
            "valid_at": at(m),
            "turn": m,
            "saga": "long" if m < 23 else "short",
        }
        for m in range(31)
    ]
    joined = await memory.run("join_saga", episodes=rows)
    sagas = [{"uuid": row["uuid"]} for row in joined.tables["sagas"].to_pylist()]
    return await memory.run("summarize_saga", sagas=sagas), [{"unread": 23}, {"unread": 8}]


async def describe_many(memory: Memory, plan: str, **numbers: int) -> tuple[Result, list[Numbers]]:
    """Forty stored entities, of which thirty-five have a new fact."""
    row = {
        "episode": "e",
        "group_id": "g",
        "turn": 1,
        "content": "",
        "history": [],
        "type": "Entity",
    }
    people = [
        row | {"uuid": f"p{i}", "nth": i, "name": f"P{i}", "entity": f"p{i}", "new": False, "summary": "P."}
        for i in range(40)
    ]  # fmt: skip
    known = [
        {"group_id": "g", "summary": "P.", "name": p["name"], "uuid": p["uuid"]} for p in people
    ]
    await memory.run(memory.here("planted.yaml"), entities=known, facts=[])
    told = [
        {"turn": 1, "nth": i, "fact": f"P{i} is new.", "source": f"p{i}", "target": "x"}
        for i in range(35)
    ]
    inputs = {"named": people, "fresh": told}
    return await memory.run(plan, inputs=inputs), [{"typed": 0} | numbers]


async def fill_in(memory: Memory) -> tuple[Result, list[Numbers]]:
    example = loaded("entities_of").document["example"]["inputs"]
    named = [{**row, "type": "Person"} for row in example["named"]]
    types = [{"name": "Person", "fields": '{"employer": "string null"}'}]
    return await memory.run("entities_of", inputs={"named": named, "types": types}), [{"typed": 1}]


async def mention(memory: Memory) -> tuple[Result, list[Numbers]]:
    said = turns(*ORWELL, "", "it rains.")
    return await memory.run("mention_graph", turns=said), [{"turns": 3, "related": 3}]


async def mention_nothing(memory: Memory) -> tuple[Result, list[Numbers]]:
    return await memory.run("mention_graph", turns=turns("it rains.", "Orwell.")), [
        {"turns": 2, "related": 0}
    ]


def example_of(name: str, **numbers: int) -> Case:
    """The example of a part of add_episode."""

    async def case(memory: Memory) -> tuple[Result, list[Numbers]]:
        given = loaded(name).document["example"]["inputs"]
        return await memory.run(name, inputs=given), [numbers]

    return case


async def describe_one_without_facts(memory: Memory) -> tuple[Result, list[Numbers]]:
    given = {**loaded("describe_entities").document["example"]["inputs"], "fresh": []}
    result = await memory.run("describe_entities", inputs=given)
    return result, [{"typed": 0, "rewritten": 1}]


async def describe_a_typed_fact(memory: Memory) -> tuple[Result, list[Numbers]]:
    given = {
        **loaded("describe_facts").document["example"]["inputs"],
        "relations": [{"name": "WORKS_AT", "fields": '{"since": "date null"}'}],
    }
    return await memory.run("describe_facts", inputs=given), [{"typed": 1}]


async def resolve_one_in_doubt(
    memory: Memory, name: str, **numbers: int
) -> tuple[Result, list[Numbers]]:
    await memory.hear("I work at Luma.")
    given = loaded(name).document["example"]["inputs"]
    row = {
        **given["names"][0],
        "group_id": "g",
        "name": "Luma Incorporated",
        "name_key": "luma incorporated",
    }
    return await memory.run(name, inputs={"names": [row]}), [numbers]


async def find_and_merge(memory: Memory, name: str) -> tuple[Result, list[Numbers]]:
    people = [
        {"uuid": f"p{n}", "group_id": "g", "name": f"Ann Webe{end}", "summary": f"Fact {n}. " * 20}
        for n, end in enumerate(("r", "rs", "rr"))
    ]
    await memory.run(memory.here("planted.yaml"), entities=people, facts=[])
    if name == "find_duplicates":
        return await memory.run(name, groups="all"), [{"pairs": 3}]
    rows = [{"group_id": "g", "keep": "p0", "drop": f"p{n}"} for n in (1, 2)]
    result = await memory.run(name, clusters=rows, params={"summary_chars": 100})
    return result, [{"long": 1, "texts": 3}]


CASES: dict[str, list[Case]] = {
    "ask_apart": [example_of("ask_apart", undated=1, compared=1)],
    "ask_seed": [example_of("ask_seed", related_facts=1, pairs=1)],
    "ask_seed_fused": [example_of("ask_seed_fused", open_facts=1)],
    "ask_together": [example_of("ask_together", open_facts=1)],
    "describe_entities": [
        example_of("describe_entities", typed=0, rewritten=0),
        describe_one_without_facts,
    ],
    "describe_by_model": [partial(describe_many, plan="describe_by_model", entities=40)],
    "describe_gated": [partial(describe_many, plan="describe_gated", refreshed=35)],
    "entities_of": [example_of("entities_of", typed=0), fill_in],
    "describe_facts": [example_of("describe_facts", typed=0), describe_a_typed_fact],
    "find_duplicates": [partial(find_and_merge, name="find_duplicates")],
    "merge_entities": [partial(find_and_merge, name="merge_entities")],
    "read_combined": [example_of("read_combined", episodes=1)],
    "read_documents": [example_of("read_documents", pieces=1)],
    "read_lean": [example_of("read_lean", episodes=1)],
    "read_separate": [example_of("read_separate", episodes=1)],
    "resolve_apart": [partial(resolve_one_in_doubt, name="resolve_apart", mentioned=1, strayed=0)],
    "resolve_together": [partial(resolve_one_in_doubt, name="resolve_together", resolved=1)],
    "add_episode": [add_episode, add_a_silent_one],
    "add_episode_lean": [add_lean],
    "add_triplet": [add_triplet],
    "build_communities": [build],
    "judge_episode": [judge, judge_an_undated_one],
    "mention_graph": [mention, mention_nothing],
    "remove_episode": [remove],
    "resolve_entities": [resolve],
    "settle_facts": [settle],
    "summarize_saga": [saga],
    "update_communities": [update],
}


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name, cases in CASES.items() for case in cases]
)
async def test_a_run_takes_as_many_calls_as_the_formula_says(
    model: StandIn, tmp_path: Path, name: str, case: Case
) -> None:
    memory = Memory("memory", model, tmp_path)
    try:
        result, numbers = await case(memory)
    finally:
        await memory.session.aclose()
    calls: dict[str, Any] = loaded(name).document["calls"]
    assert result.meter.total().calls_issued == sum(
        worth(calls["formula"], each) for each in numbers
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_that_asks_a_model_has_a_formula_that_is_checked_here(name: str) -> None:
    plan = loaded(name)
    assert asks(plan) == ("calls" in plan.document) == (name in CASES)
