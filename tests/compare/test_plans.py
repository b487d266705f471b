"""Whole plans, each in a copy of its own; and a step of a plan that reads what it wrote."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.compare.comparison import load_comparison
from semgraph.compare.plans import difference
from semgraph.compare.trial import snapshot
from semgraph.compare.truth import graph_of
from semgraph.diff import Change, Diff
from semgraph.errors import PlanError
from semgraph.execution.record import Run
from semgraph.logical.schema import Draw
from semgraph.render.html import page
from tests.compare.standin import StandIn
from tests.inside import resources

PLAN = Path(__file__).parents[2] / "plans" / "add_episode.yaml"
SAID = [
    "Ann(user): I work at Acme Labs.",
    "Ann(user): I moved to Luma. I work at Luma.",
    "Ben(user): I work at Luma.",
]
ARMS = {
    "blocks": {"verdicts": "block()"},
    "pairs": {"verdicts": "nested_loop", "matches": "nested_loop"},
}


def episodes(texts: list[str] = SAID) -> list[dict[str, Any]]:
    first = datetime(2025, 1, 15, 9, tzinfo=UTC)
    return [
        {"uuid": f"e{n}", "content": text, "valid_at": first + timedelta(days=n), "group_id": "g"}
        for n, text in enumerate(texts)
    ]


@pytest.fixture
async def model() -> AsyncIterator[StandIn]:
    async with StandIn() as server:
        yield server


def opened(
    model: StandIn, folder: Path, store: str = "sqlite:graph.db", **options: Any
) -> sg.Session:
    name = f"openai:gpt-4.1-mini@{model.base_url}"
    embedder = f"openai:stand-in@{model.base_url}?dimensions=64"
    return sg.Session(llm=name, embedder=embedder, store=store, folder=folder, **options)


async def whole(session: sg.Session, **options: Any) -> Any:
    return await session.acompare(
        PLAN, **{"variants": ARMS, "say": None, "episodes": episodes(), **options}
    )


async def test_plans_that_answer_alike_leave_the_same_graph(model, tmp_path):
    async with opened(model, tmp_path) as session:
        found = await whole(session)
    quality = found["pairs"].quality
    assert (found.kind, found.truth) == ("plan", False)
    assert (quality.f1, quality.pairs, quality.b_cubed, quality.ended) == (1.0, 1.0, 1.0, 1.0)
    assert found["pairs"].cold.calls >= found["blocks"].cold.calls > 0
    assert not (tmp_path / "graph.db").exists()
    assert len(found.diff("pairs")) == 0
    assert "pairs: the graph is equal to that of blocks" in str(found)
    with pytest.raises(PlanError, match="no graphs of blocks and another variant"):
        found.diff("blocks")


async def test_graphs_of_plans_are_compared_row_by_row(model, tmp_path):
    """As written, the algebra leaves the first job of Ann without an end."""
    async with opened(model, tmp_path) as session:
        seed = {"preset": "seed", "resolve": "resolve_apart"}
        found = await whole(session, variants={"shipped": {}, "seed": seed})
        again = load_comparison(found.id, session.runs)
    for each in (found, again):
        (job,) = [c for c in each.diff("seed").changes if c.label == "RELATES_TO"]
        assert (job.sign, job.row["fact"]) == ("~", "Ann works at Acme Labs.")
        assert job.before.keys() == {"invalid_at", "expired_at"}
        assert set(job.after.values()) == {None}
        counted = "seed: nodes: 3 with other properties · edges: 1 with other times"
        assert counted in str(each)
    assert again.to_json()["arms"][1]["graph"] == found.to_json()["arms"][1]["graph"]
    shown = str(found.diff("seed"))
    assert "+ only in seed, - only in shipped\n4 changed: 3 nodes, 1 edge\n" in shown
    assert "      invalid_at: 2025-01-16 09:00 → (none)" in shown
    report = page([Run(found.record)])
    assert "seed and shipped: graphs" in report
    assert "Ann ─ WORKS_AT ─▶ Acme Labs" in report


async def test_a_variant_may_be_a_preset_of_the_plan(model, tmp_path):
    """As written, the algebra does not ask whether a second job ends the first."""
    seed = {"preset": "seed", "resolve": "resolve_apart"}
    variants = {"shipped": {}, "seed": seed, "all": {**seed, "ask": "ask_seed(related=false)"}}
    async with opened(model, tmp_path, store="memory") as session:
        found = await whole(session, variants=variants)
    assert [arm.changes for arm in found.arms] == [*variants.values()]
    assert (found["all"].quality.f1, found["all"].quality.validity) == (1.0, 1.0)
    assert found["seed"].quality.validity < 1.0
    assert found["all"].cold.calls > found["seed"].cold.calls


@pytest.mark.parametrize(
    ("plan", "use", "said"),
    [
        (PLAN, {"preset": "sede"}, 'no preset "sede".*Did you mean "seed"'),
        (PLAN, {"preset": "seed", "contradicte": "packed()"}, 'no step "contradicte"'),
        ("names_of", {"preset": "seed"}, 'variant other: .*no preset "seed": this plan has none'),
        (
            sg.table([{"id": 1}]),
            {"preset": "seed"},
            "presets and prompts take effect when a plan is",
        ),
    ],
)
async def test_a_preset_that_the_plan_lacks_is_refused(model, tmp_path, plan, use, said):
    async with opened(model, tmp_path, store="memory") as session:
        with pytest.raises(PlanError, match=said):
            await session.acompare(plan, variants={"shipped": {}, "other": use}, say=None)
    assert model.requests == []


async def test_what_is_known_of_the_calls_is_said_before_the_first(model, tmp_path):
    """Three episodes; whatever comes after their extraction depends on what is found in them."""
    told: list[tuple[int, str]] = []
    async with opened(model, tmp_path, store="memory", journal=False) as session:
        await whole(session, say=lambda line: told.append((len(model.requests), line)))
    known = "≤ 6 calls for read/mentions, read/typed_mentions, read/facts; those of 7 more steps depend on the answers"
    assert told[:3] == [
        (0, "whole plans, one trial of each; no limit is set"),
        (0, f"  blocks  {known}"),
        (0, f"  pairs   {known}"),
    ]


async def test_graphs_are_scored_against_the_true_one(model, tmp_path):
    """The graph that the plan writes is the truth here; then the same with two of its nodes taken
    for one.
    """
    async with opened(model, tmp_path) as session:
        await session.arun(PLAN, episodes=episodes())
        truth = await written(session)
    async with opened(model, tmp_path, store="memory") as session:
        found = await whole(session, truth=truth)
        assert [(a.quality.f1, a.quality.b_cubed, a.quality.pairs) for a in found] == [
            (1.0, 1.0, 1.0)
        ] * 2
        one, other, *rest = truth["nodes"]
        merged = {**one, "members": sorted({*one["members"], *other["members"]})}
        ends = {other["key"]: one["key"]}
        edges = [{**e, "source": ends.get(e["source"], e["source"]), "target": ends.get(e["target"], e["target"])}
                 for e in truth["edges"]]  # fmt: skip
        wrong = await whole(session, truth={"nodes": [merged, *rest], "edges": edges})
    assert wrong.paid.calls == 0
    assert all(arm.quality.b_cubed < 1 for arm in wrong)


async def written(session: sg.Session) -> dict[str, Any]:
    """The graph of the session's store, as a truth in plain data."""
    plan = session.prepare(PLAN)
    async with resources(session).opened_store() as store:
        source = await snapshot(plan, store, None)
    async with source.copy() as store:
        graph = await graph_of(store, plan)
    return {
        "nodes": [{"key": n.key, "name": n.name, "members": sorted(n.members)} for n in graph.nodes],
        "edges": [
            {"source": e.source, "target": e.target, "label": e.label, "start": e.start and e.start.isoformat(),
             "end": e.end and e.end.isoformat()}
            for e in graph.edges
        ],
    }  # fmt: skip


async def test_nothing_of_the_store_is_touched_and_its_groups_are_read(model, tmp_path):
    async with opened(model, tmp_path) as session:
        await session.arun(PLAN, episodes=episodes()[:1])
        before = digest(tmp_path)
        found = await whole(session, episodes=episodes()[1:])
        assert digest(tmp_path) == before
        assert found.frozen["copied"] > 0
        step = await session.acompare(
            PLAN,
            step="verdicts",
            variants=["block()", "nested_loop"],
            say=None,
            episodes=episodes()[1:],
        )
        assert digest(tmp_path) == before
        assert step["block()"].quality.same == 1.0


async def test_rows_that_the_graph_knows_already_are_pointed_out(model, tmp_path):
    async with opened(model, tmp_path) as session:
        await session.arun(PLAN, episodes=episodes()[:2])
        found = await whole(session, variants={"blocks": ARMS["blocks"]})
    assert found.notes[0].startswith("2 of 3 rows of episodes are in the graph already")


def digest(folder: Path) -> dict[str, str]:
    """The graph's files, by content; what only says that somebody reads it has none."""
    return {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest()
        for p in folder.glob("graph.db")
        if p.stat().st_size
    }


async def test_a_step_that_reads_what_was_written_gets_the_rows_that_the_reference_made(
    model, tmp_path
):
    async with opened(model, tmp_path, store="memory") as session:
        await session.arun(PLAN, episodes=episodes(), again=True)
        model.reset()
        other = sg.Session(llm=f"openai:gpt-4.1-mini@{model.base_url}", store="memory", folder=tmp_path,
                           embedder=f"openai:stand-in@{model.base_url}?dimensions=64")  # fmt: skip
        async with other:
            found = await other.acompare(
                PLAN,
                step="verdicts",
                variants=["nested_loop", "block()"],
                say=None,
                episodes=episodes(),
            )
    assert sum(found.frozen["rows"].values()) > 0
    assert found["block()"].quality.same == 1.0
    assert found["nested_loop"].cold.calls >= found["block()"].cold.calls > 0


async def test_a_limit_stops_a_comparison_of_plans_and_it_goes_on_later(model, tmp_path):
    async with opened(model, tmp_path, store="memory") as session:
        free = await whole(session, variants={"blocks": ARMS["blocks"]})
    first = free["blocks"].cold.calls
    async with opened(model, tmp_path, store="memory", max_calls=2) as session:
        stopped = await whole(session)
        assert stopped.missing == {"pairs": 1}
        assert stopped.exit_code == 4
        assert stopped["blocks"].cold.calls == first
    async with opened(model, tmp_path, store="memory") as session:
        rest = await whole(session)
    assert rest["blocks"].trials[0].paid.calls == 0
    async with opened(model, tmp_path, store="memory", journal=False) as session:
        once = await whole(session)
    parts = [free, stopped, rest]
    assert sum(each.paid.calls for each in parts) == once.paid.calls, "nothing is paid twice"


PERSON, KNOWS = Draw(node="name"), Draw(edge="name", text="fact")


def knows(sign: Any, key: str, target: str, **more: Any) -> Change:
    row = {"source": "a", "target": target, "name": "KNOWS", "fact": "Ann knows Ben.", **more}
    return Change(sign, "TIE", key, "g", row)


def test_rows_that_say_the_same_under_other_keys_are_one_row() -> None:
    names = {"a": "Ann", "b1": "Ben", "b2": "Ben"}
    persons = [
        Change(s, "Person", key, "g", {"name": "Ben"}) for s, key in (("-", "b1"), ("+", "b2"))
    ]
    diff = Diff(
        (*persons, knows("-", "t1", "b1"), knows("+", "t2", "b2")),
        names=names, draws={"Person": PERSON, "TIE": KNOWS},
    )  # fmt: skip
    found = difference("fused", "shipped", diff)
    assert (found.diff.changes, found.counts) == ((), {})
    moved = replace(
        diff,
        changes=(replace(knows("~", "t", "b2"), before={"target": "b1"}, after={"target": "b2"}),),
    )
    assert difference("fused", "shipped", moved).counts == {}
    strangers = replace(diff, names={**names, "b2": "Bo"}, changes=diff.changes[2:])
    assert difference("fused", "shipped", strangers).counts == {
        "edges": {"only in shipped": 1, "only in fused": 1}
    }


def test_of_rows_that_say_the_same_other_times_and_properties_are_counted() -> None:
    day = datetime(2025, 1, 15, tzinfo=UTC)
    pairs = [
        (knows("-", "t1", "b", since=day), knows("+", "t2", "b", since=day + timedelta(days=1))),
        (knows("-", "u1", "c", notes=["n1"]), knows("+", "u2", "c", notes=["n2"])),
    ]
    changes = [change for pair in pairs for change in pair]
    found = difference(
        "fused", "shipped", Diff((*changes, knows("+", "v", "d")), draws={"TIE": KNOWS})
    )
    assert found.counts == {
        "edges": {"with other times": 1, "with other properties": 1, "only in fused": 1}
    }
    first = found.diff.changes[0]
    assert (first.key, first.before, first.after) == (
        "t2", {"since": day}, {"since": day + timedelta(days=1)},
    )  # fmt: skip


def test_the_stored_rows_of_a_difference_are_bounded_and_the_rest_counted() -> None:
    nobody = Change("+", "Person", "", "g", {})
    found = difference(
        "fused", "shipped", Diff(tuple(replace(nobody, key=f"p{i}") for i in range(201)))
    )
    assert (len(found.diff), found.left_out) == (200, 1)
    assert found.counts == {"nodes": {"only in fused": 201}}


@pytest.mark.parametrize(
    ("truth", "match"),
    [
        ([{"id": 1}], "is not a graph: a whole plan is compared with nodes and edges"),
        ({"nodes": []}, "has no nodes"),
        ({"nodes": [{"name": "x"}]}, "node 1 lacks key"),
        ({"nodes": [{"key": "x", "colour": 1}]}, 'unknown key "colour"'),
        (
            {"nodes": [{"key": "x"}], "edges": [{"source": "x", "target": "y"}]},
            'no node has the key "y"',
        ),
        (
            {"nodes": [{"key": "x"}], "edges": [{"source": "x", "target": "x", "start": "soon"}]},
            "not ISO 8601",
        ),
        ("nowhere.json", "nowhere.json: No such file"),
    ],
)
async def test_a_true_graph_that_is_none(model, tmp_path, truth, match):
    async with opened(model, tmp_path, store="memory") as session:
        with pytest.raises(PlanError, match=match):
            await whole(session, truth=truth)
    assert model.requests == []
