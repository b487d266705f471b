"""Every shipped plan that asks a model, run for three groups at once whose texts carry canaries: no
request holds two.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.world import StandIn
from benchmarks.world.canaries import CANARIES, MixedPartitions, canary
from semgraph.folders import operators_folder
from semgraph.logical.node import walk
from semgraph.logical.semantic import Semantic
from semgraph.semantic import ask
from tests.conftest import READS_ALL
from tests.partial import maybe_partial
from tests.plans.conftest import PLANS, Memory, at, loaded

GROUPS = ("a1", "b2", "c3")
SAID = (
    "Ann Weber{c}(user): I work at Luma{c}.",
    "Bob{c}(user): I live in Rome{c}.",
    "Ann Weber{c}(user): I lead Project Kite{c}.",
    "Anne Weber{c}(user): I work at Lumen{c}.",
    "Ann Weber{c}(user): I work at Acme{c}.",
)
WAYS = {
    "sem_map": ("packed", "per_row", "reflexion", "vote"),
    "sem_filter": ("packed", "per_row", "cascade", "vote"),
    "sem_join": ("block", "nested_loop", "cascade(jaccard=null)"),
    "sem_agg": ("tree", "fold", "single"),
}
ELSEWHERE = (
    "lotus",
    "logit",
)  # need packages or log-probabilities; they ask in the blocks that the engine makes

Case = Callable[[Memory, dict[str, str], dict[str, str]], Awaitable[Any]]


def rows(*made: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows for each group: `{c}` in a text is its canary, `{g}` its name."""

    def of(group: str, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("{c}", canary(group)).replace("{g}", group)
        if isinstance(value, dict):
            return {key: of(group, each) for key, each in value.items()}
        return [of(group, each) for each in value] if isinstance(value, list) else value

    return [
        {"group_id": g} | {key: of(g, value) for key, value in row.items()}
        for g in GROUPS
        for row in made
    ]


def episodes(minute: int = 0) -> list[dict[str, Any]]:
    """What is said in each group, minute by minute."""
    told = [
        {
            "uuid": f"{{g}}e{minute + i}",
            "content": text,
            "valid_at": at(minute + i),
            "saga": "tour of {g}",
        }
        for i, text in enumerate(SAID)
    ]
    return rows(*told)


def name(key: str, words: str) -> dict[str, Any]:
    """A mention of a name."""
    said = {"content": words + "{c} is here.", "history": ["I know " + words + "{c}."]}
    known = {"name": words + "{c}", "name_key": words.lower() + "qz{g}zq"}
    return {"uuid": "{g}" + key, "episode": "{g}x", "turn": 9, "nth": int(key[1:])} | known | said


def fact(key: int, text: str) -> dict[str, Any]:
    """A fact between two entities of a group."""
    ends = {"source": "{g}s", "target": "{g}t", "name": "WORKS_AT", "fact": text}
    return {
        "uuid": f"{{g}}f{key}",
        "episode": "{g}x",
        "turn": key,
        "nth": 1,
        "said_at": at(20 + key),
    } | ends


async def _ask_known(memory: Memory, label: str) -> dict[str, str]:
    """For each group the uuid of Ann, or of its saga."""
    if label == "saga":
        return {s["group_id"]: s["uuid"] for s in (await memory.around())["sagas"]}
    return {
        e["group_id"]: e["uuid"]
        for e in (await memory.graph()).entities
        if e["name"].startswith("Ann Weber")
    }


def _of(known: dict[str, str], **more: Any) -> list[dict[str, Any]]:
    return [row | {"uuid": known[row["group_id"]]} for row in rows(more)]


MENTIONS = rows(name("m1", "Ann Weber"), name("m2", "Anna Weber"), name("m3", "Anne Webber"))
NAMES = [{**mention, "type": "Entity"} for mention in MENTIONS]
HEARD = rows(
    {"uuid": "{g}x", "turn": 9, "source": "message", "valid_at": at(30), "history": []}
    | {"content": "Ann Weber{c}(user): I work at Lumen{c}."}
)
FACTS = rows(fact(1, "Ann Weber{c} works at Luma{c}."), fact(2, "Ann Weber{c} works at Lumen{c}."))
PAIRS = rows(
    {"uuid": "{g}f1", "known": "{g}k", "pool": "same", "rank": 1}
    | {"old": {"fact": "Ann Weber{c} has a job at Luma{c}."}}
)


def _describe(
    plan: str, memory: Memory, _: dict[str, str], use: dict[str, str], **more: Any
) -> Awaitable[Any]:
    """New entities of each group, with facts."""
    inputs = {
        "named": [{**row, "entity": f"{row['uuid']} {plan}", "new": True, **more} for row in NAMES],
        "fresh": FACTS if more else [],
        "types": [{"name": "Person", "fields": '{"employer": "string null"}'}],
    }
    return memory.run(plan, inputs=inputs, use=use)


async def _merge(memory: Memory, use: dict[str, str]) -> Any:
    """Two entities of each group become one, with a summary from both."""
    people = [
        {"uuid": f"{{g}}p{n}", "name": "Ann{c}", "summary": f"Ann{{c}} says {n}."} for n in (1, 2)
    ]
    await memory.run("save_nodes", entities=rows(*people))
    clusters = rows({"keep": "{g}p1", "drop": "{g}p2"})
    params = {"summary_chars": 1}
    return await memory.run("merge_entities", clusters=clusters, params=params, use=use)


CASES: dict[str, Case] = {
    "add_episode": lambda m, _, use: m.run("add_episode", episodes=episodes(), use=use),
    "add_episode_lean": lambda m, _, use: m.run("add_episode_lean", episodes=episodes(10), use=use),
    "add_triplet": lambda m, _, use: m.run(
        "add_triplet",
        triplets=rows({"source": "Anne Webber{c}", "name": "WORKS_AT", "target": "Luma{c}", "fact": "Anne Webber{c} works at Luma{c}."}),
        use=use,
    ),
    "resolve_entities": lambda m, _, use: m.run("resolve_entities", of=MENTIONS, use=use),
    "settle_facts": lambda m, _, use: m.run("settle_facts", facts=FACTS, use=use),
    "ask_apart": lambda m, _, use: m.run("ask_apart", facts=FACTS, pairs=PAIRS, use=use),
    "ask_seed": lambda m, _, use: m.run("ask_seed", facts=FACTS, pairs=PAIRS, use=use),
    "ask_seed_fused": lambda m, _, use: m.run("ask_seed_fused", facts=FACTS, pairs=PAIRS, use=use),
    "ask_together": lambda m, _, use: m.run("ask_together", facts=FACTS, pairs=PAIRS, use=use),
    "resolve_apart": lambda m, _, use: m.run("resolve_apart", names=NAMES, use=use),
    "resolve_together": lambda m, _, use: m.run("resolve_together", names=NAMES, use=use),
    "read_separate": lambda m, _, use: m.run("read_separate", episodes=HEARD, use=use),
    "read_combined": lambda m, _, use: m.run("read_combined", episodes=HEARD, use=use),
    "read_documents": lambda m, _, use: m.run(
        "read_documents", episodes=[{**row, "content": f"{row['content']} " * 9} for row in HEARD], params={"piece_tokens": 60, "overlap_tokens": 20}, use=use
    ),
    "read_lean": lambda m, _, use: m.run("read_lean", episodes=HEARD, use=use),
    **{plan: partial(_describe, plan) for plan in ("describe_entities", "describe_by_model", "describe_gated")},
    "entities_of": lambda m, known, use: _describe("entities_of", m, known, use, type="Person"),
    "describe_facts": lambda m, _, use: m.run(
        "describe_facts",
        inputs={
            "fresh": FACTS,
            "relations": [{"name": "WORKS_AT", "fields": '{"since": "date null"}'}],
        },
        use=use,
    ),
    "judge_episode": lambda m, _, use: m.run(
        "judge_episode",
        episodes=HEARD,
        names=NAMES,
        claims=rows(
            {"episode": "{g}x", "turn": 9, "nth": 1, "said_at": at(30), "source": "Ann Weber{c}", "target": "Anna Weber{c}"}
            | {"name": "KNOWS", "fact": "Ann Weber{c} knows Anna Weber{c}."}
        ),
        use=use,
    ),
    "mention_graph": lambda m, _, use: m.run(
        "mention_graph",
        turns=[
            {"session": row["group_id"], "number": n, "actor": f"Ann{canary(row['group_id'])}", "valid_at": at(n)}
            | {"content": row["content"]}
            for n, row in enumerate(episodes())
        ],
        use=use,
    ),
    "build_communities": lambda m, _, use: m.run("build_communities", groups=[{"group_id": g} for g in GROUPS], use=use),
    "update_communities": lambda m, ann, use: m.run(
        "update_communities", entities=_of(ann, name="Ann Weber{c}", summary="Ann Weber{c} is new."), use=use
    ),
    "find_duplicates": lambda m, _, use: m.run("find_duplicates", groups="all", params={"similar": 0.0}, use=use),
    "remove_episode": lambda m, _, use: m.run(
        "remove_episode", episodes=[{"uuid": f"{g}e0"} for g in GROUPS], params={"retell": "all"}, use=use
    ),
    "summarize_saga": lambda m, saga, use: m.run("summarize_saga", sagas=[{"uuid": uuid} for uuid in saga.values()], use=use),
    "merge_entities": lambda m, _, use: _merge(m, use),
}  # fmt: skip


@cache
def asking() -> dict[str, list[Semantic]]:
    """The shipped plans that ask a model, and the operators that do."""
    found: dict[str, list[Semantic]] = {}
    for file in sorted(PLANS.glob("*.yaml")):
        if file.stem != "graph":
            plan = loaded(file.stem)
            nodes = [node for node in walk(*plan.roots) if isinstance(node, Semantic)]
            found |= {plan.name: nodes} if nodes else {}
    return found


@pytest.fixture
async def memory(model: StandIn, tmp_path: Path) -> AsyncIterator[Memory]:
    made = Memory("memory", model, tmp_path)
    yield made
    await made.session.aclose()


def shown(model: StandIn) -> set[str]:
    """The groups whose texts were shown to the model."""
    return set().union(*map(CANARIES.shown, model.requests))


@pytest.mark.parametrize(
    "nth", [0, *(pytest.param(nth, marks=pytest.mark.nightly) for nth in (1, 2))]
)
async def test_no_request_of_a_shipped_plan_shows_rows_of_two_groups(
    memory: Memory, model: StandIn, nth: int
) -> None:
    """Every plan that asks a model, for three groups in one run, with the implementations of its
    operators in turn; nightly with each of them.
    """
    plans = asking()
    assert set(plans) == set(CASES), "a plan that asks a model needs a case"
    for place, (plan, case) in enumerate(CASES.items(), start=nth):
        use = {node.step: WAYS[node.keyword][place % 3] for node in plans[plan]}
        label = "saga" if plan == "summarize_saga" else "ann"
        known = {} if plan == "add_episode" else await _ask_known(memory, label)
        model.requests.clear()
        result = await case(memory, known, use)
        assert not model.watch.mixed, (plan, use)
        assert not result.failed, plan
        assert shown(model) == set(GROUPS), f"{plan} asked nothing of some group"


def test_every_implementation_has_its_turn() -> None:
    for operator, ways in WAYS.items():
        files = {file.stem for file in (operators_folder() / operator).glob("*.py")}
        assert {way.partition("(")[0] for way in ways} == files - set(ELSEWHERE), operator


def test_plans_that_may_show_several_groups_say_so() -> None:
    """Who is exempt reads all partitions, or those that a query names."""
    for plan in READS_ALL:
        assert (
            "partition: " in (PLANS / f"{plan}.yaml").read_text(encoding="utf-8")
            or plan == "search"
        )


JOINED = """plan: joined
inputs:
  notes: {uuid: string, group_id: string, at: timestamp, text: string}
  facts: {group_id: string, fact: string}
windows: {input: notes, partition: group_id, order: [at], key: uuid}
steps:
  found: [{from: notes}, {sem_join: {prompt: "Does {text} say {f.fact}?", other: facts, alias: f}}]
returns: [found]
"""


@pytest.mark.parametrize("fact", ["It is so, says {c}.", "It is true in {g}, they say."])
@pytest.mark.parametrize("broken", [False, True])
async def test_a_join_across_partitions_fails_the_test_that_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool, fact: str
) -> None:
    """The check of the checker: with the comparison of partitions taken out, the server fails at
    its end, by tokens and by texts.
    """
    if broken:
        monkeypatch.setattr(ask, "known_partitions", lambda _table, _context: None)
    (tmp_path / "joined.yaml").write_text(JOINED, encoding="utf-8")
    server = StandIn()
    await server.__aenter__()
    session = Memory("memory", server, tmp_path).session
    texts = fact.replace("It", "Somebody says that it")
    await maybe_partial(
        session.arun(
            "joined",
            notes=rows({"uuid": "{g}n", "at": at(1), "text": texts}),
            facts=rows({"fact": fact}),
        )
    )
    await session.aclose()
    assert server.requests
    if broken:
        with pytest.raises(MixedPartitions, match="rows of a1, b2 in one request"):
            await server.__aexit__(None, None, None)
    else:
        await server.__aexit__(None, None, None)
