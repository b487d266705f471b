"""Entities that are one: found, merged, and taken apart again."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from semgraph.errors import SemgraphError
from tests.plans.conftest import Graph, Memory, at, both_stores
from tests.plans.test_remove_episode import plain

PEOPLE = {
    "a1": "Alice Chen works at Luma.",
    "a2": "Alice Chen works at Luma.\nAlice Chen lives in Rome.",
    "a3": "",
}
NAMES = {"a1": "Alice Chen", "a2": "Alice Chen", "a3": "Alice", "luma": "Luma", "rome": "Rome"}
FACTS = (
    ("f1", "a1", "WORKS_AT", "luma", "Alice Chen works at Luma.", 1, ["e1"]),
    ("f2", "a2", "WORKS_AT", "luma", "alice chen works at luma.", 1, ["e2", "e1"]),  # as f1
    ("f3", "a2", "WORKS_AT", "luma", "Alice Chen works at Luma.", 9, ["e2"]),  # another time
    ("f4", "luma", "PAYS", "a2", "Luma pays Alice Chen.", 2, ["e2"]),
    ("f5", "a1", "IS", "a2", "Alice Chen is Alice Chen.", 2, ["e2"]),  # would be a loop
    ("f6", "a2", "TRUSTS", "a2", "Alice Chen trusts herself.", 3, ["e3"]),  # is one
    ("f7", "a3", "LIVES_IN", "rome", "Alice lives in Rome.", None, ["e3"]),
    ("f8", "a2", "LIVES_IN", "rome", "Alice lives in Rome.", None, ["e1"]),  # as f7
    ("f9", "luma", "IS_IN", "rome", "Luma is in Rome.", 3, ["e3"]),
)
LISTED = {"e1": ["f1", "f2", "f8"], "e2": ["f2", "f3", "f4", "f5"], "e3": ["f6", "f7", "f9"]}
MENTIONS = [("e1", "a1"), ("e2", "a2"), ("e3", "a1"), ("e3", "a2"), ("e3", "a3"), ("e1", "luma")]
MEMBERS = [("c1", "a1"), ("c1", "a2"), ("c2", "a2"), ("c2", "rome"), ("c3", "a3")]
ATTRIBUTES = {
    "a1": {"title": "engineer", "town": ""},
    "a2": {"title": "pilot", "town": "Rome", "tags": ["x", "y"]},
    "a3": {"town": "Oslo", "age": 31, "_note": "{}"},
}
ALL = [{"group_id": "g", "keep": "a1", "drop": "a2"}, {"group_id": "g", "keep": "a2", "drop": "a3"}]


async def planted(memory: Memory, group: str = "g", mark: str = "") -> None:
    """Three entities that are one, with all that hangs on them; `mark` comes before each uuid."""

    def of(**row: Any) -> dict[str, Any]:
        return {"group_id": group, "created_at": at(0)} | row

    def edge(source: str, target: str) -> dict[str, Any]:
        return of(uuid=f"{mark}{source}-{target}", source=mark + source, target=mark + target)

    await memory.run(
        "save_nodes",
        entities=[
            of(uuid=mark + uuid, name=name, summary=PEOPLE.get(uuid, ""))
            | {"attributes": json.dumps(ATTRIBUTES.get(uuid, {})), "created_at": at(n)}
            | ({"labels": ["Person"]} if uuid in ("a1", "a3") else {})
            for n, (uuid, name) in enumerate(NAMES.items())
        ],
        episodes=[
            of(uuid=mark + uuid, content=f"Text {uuid}.", valid_at=at(n))
            | {"entity_edges": [mark + fact for fact in facts]}
            for n, (uuid, facts) in enumerate(LISTED.items())
        ],
        communities=[of(uuid=f"{mark}c{n}", name=f"C{n}", summary="") for n in (1, 2, 3)],
    )
    await memory.run(
        "save_edges",
        facts=[
            of(uuid=mark + uuid, source=mark + source, name=name, target=mark + target, fact=fact)
            | {"episodes": [mark + each for each in said], "created_at": at(int(uuid[1:]))}
            | ({"valid_at": at(minute)} if minute else {})
            | ({"invalid_at": at(40), "expired_at": at(41)} if uuid == "f4" else {})
            | ({"attributes": '{"since": 3}'} if uuid == "f7" else {})
            for uuid, source, name, target, fact, minute, said in FACTS
        ],
        mentions=[edge(*ends) for ends in MENTIONS],
        members=[edge(*ends) for ends in MEMBERS],
    )


async def everything(memory: Memory) -> dict[str, Any]:
    return plain(await memory.graph(), await memory.around())


def fact_of(graph: Graph, uuid: str) -> Any:
    (found,) = (f for f in graph.facts if f["uuid"] == uuid)
    return found


@both_stores
async def test_what_is_found_is_merged_and_a_merge_is_undone_exactly(memory: Memory) -> None:
    await planted(memory)
    await planted(memory, "h", "h")
    before = await everything(memory)
    found = await memory.run("find_duplicates", groups=[{"group_id": "g"}])
    assert await everything(memory) == before, "nothing is written"
    clusters = found.tables["clusters"].to_pylist()
    assert {(row["keep"], row["drop"]) for row in clusters} == {("a1", "a2"), ("a1", "a3")}

    merged = await memory.run("merge_entities", clusters=clusters)
    assert not merged.failed
    assert merged.meter.total().calls_issued == 0
    graph = await memory.graph()
    assert {e["uuid"] for e in graph.entities if e["group_id"] == "g"} == {"a1", "luma", "rome"}
    second = await memory.run("merge_entities", clusters=clusters)
    assert (second.failed, second.tables["moved"].num_rows) == ((), 0)

    undone = await memory.run("unmerge_entities", moved=merged.tables["moved"].to_pylist())
    assert not undone.failed
    assert await everything(memory) == before
    again = await memory.run("unmerge_entities", moved=merged.tables["moved"].to_pylist())
    assert (again.failed, again.tables["restored"].num_rows) == ((), 0)
    assert await everything(memory) == before


@both_stores
async def test_all_that_hangs_on_an_entity_moves_to_the_one_that_is_kept(memory: Memory) -> None:
    await planted(memory)
    await planted(memory, "h", "h")
    await memory.run("merge_entities", clusters=ALL)
    graph, around = await memory.graph(), await memory.around()
    alice = next(e for e in graph.entities if e["uuid"] == "a1")
    assert alice["summary"] == "Alice Chen works at Luma.\nAlice Chen lives in Rome."
    assert alice["labels"] == ["Person"]
    assert json.loads(alice["attributes"]) == {
        "title": "engineer", "town": "Rome", "tags": ["x", "y"], "age": 31, "_merged": ["a2", "a3"],
    }  # fmt: skip
    ends = {f["uuid"]: (f["source"], f["target"]) for f in graph.facts if f["group_id"] == "g"}
    assert ends == {
        "f1": ("a1", "luma"), "f3": ("a1", "luma"), "f4": ("luma", "a1"), "f6": ("a1", "a1"),
        "f7": ("a1", "rome"), "f9": ("luma", "rome"),
    }  # fmt: skip
    assert fact_of(graph, "f1")["episodes"] == ["e1", "e2"]
    assert fact_of(graph, "f7")["episodes"] == ["e3", "e1"]
    assert fact_of(graph, "f4")["invalid_at"] == at(40)
    listed = {e["uuid"]: e["entity_edges"] for e in graph.episodes if e["group_id"] == "g"}
    assert listed == {"e1": ["f1", "f7"], "e2": ["f1", "f3", "f4"], "e3": ["f6", "f7", "f9"]}
    mentions = [(m["source"], m["target"]) for m in graph.mentions if m["group_id"] == "g"]
    assert sorted(mentions) == [("e1", "a1"), ("e1", "luma"), ("e2", "a1"), ("e3", "a1")]
    members = [(m["source"], m["target"]) for m in around["members"] if m["group_id"] == "g"]
    assert sorted(members) == [("c1", "a1"), ("c2", "a1"), ("c2", "rome"), ("c3", "a1")]
    assert {e["uuid"] for e in graph.entities if e["group_id"] == "h"} == {"h" + u for u in NAMES}


async def test_what_changed_after_a_merge_stays_when_it_is_undone(memory: Memory) -> None:
    await planted(memory)
    merged = await memory.run("merge_entities", clusters=ALL)
    alice = next(e for e in (await memory.graph()).entities if e["uuid"] == "a1")
    news = {"uuid": "a1", "group_id": "g", "name": "Alice Chen"}
    await memory.run(
        "save_nodes", entities=[{**news, "summary": alice["summary"] + "\nAlice Chen sings."}]
    )
    ended = {
        key: value for key, value in fact_of(await memory.graph(), "f3").items()
        if key in ("uuid", "group_id", "source", "target", "name", "fact")
    }  # fmt: skip
    await memory.run("save_edges", facts=[{**ended, "invalid_at": at(50)}])
    await memory.run("delete_nodes", wanted=[{"uuid": "e3"}], params={"kind": "Episodic"})
    await memory.run("delete_nodes", wanted=[{"uuid": "c2"}], params={"kind": "Community"})
    undone = await memory.run("unmerge_entities", moved=merged.tables["moved"].to_pylist())
    graph = await memory.graph()
    assert not undone.failed
    assert {e["uuid"] for e in graph.entities} >= {"a1", "a2", "a3"}
    summary = next(e["summary"] for e in graph.entities if e["uuid"] == "a1")
    assert summary == "Alice Chen works at Luma.\nAlice Chen sings."
    assert fact_of(graph, "f3")["source"] == "a2"
    assert fact_of(graph, "f3")["invalid_at"] == at(50)
    assert not [m for m in graph.mentions if m["source"] == "e3"]


async def test_an_earlier_merge_is_undone_beside_a_later_one(memory: Memory) -> None:
    await planted(memory)
    runs = [await memory.run("merge_entities", clusters=[row]) for row in ALL]
    await memory.run("unmerge_entities", moved=runs[0].tables["moved"].to_pylist())
    graph = await memory.graph()
    entities = {e["uuid"]: e for e in graph.entities}
    assert set(entities) == {"a1", "a2", "luma", "rome"}
    assert json.loads(entities["a1"]["attributes"])["_merged"] == ["a3"]
    assert fact_of(graph, "f3")["source"] == "a2"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("a1", "a2"), ("a1", "a3")], "several merges into a1: undo them run by run"),
        ([("a2", "a3"), ("a1", "a2")], "there is no entity a2 .* undo that first"),
    ],
)
async def test_merges_that_cannot_be_undone_together_are_not_undone_in_part(
    memory: Memory, rows: list[tuple[str, str]], says: str
) -> None:
    await planted(memory)
    before = await everything(memory)
    moved = []
    for keep, drop in rows:
        row = {"group_id": "g", "keep": keep, "drop": drop}
        moved.append((await memory.run("merge_entities", clusters=[row])).rows("moved"))
    merged = await everything(memory)
    refused = await memory.run("unmerge_entities", moved=[*moved[0], *moved[1]])
    assert len(refused.failed) == len(moved[0]) + len(moved[1])
    assert all(re.search(says, failure.error) for failure in refused.failed)
    assert await everything(memory) == merged
    for one in reversed(moved):
        await memory.run("unmerge_entities", moved=one)
    assert await everything(memory) == before


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"keep": "nobody", "drop": "a2"}, 'keep: there is no entity nobody in the group "g"'),
        ({"keep": "a1", "drop": "ha2"}, 'drop: there is no entity ha2 in the group "g"'),
        ({"keep": "ha1", "drop": "a2"}, 'keep: there is no entity ha1 in the group "g"'),
    ],
)
async def test_an_unknown_entity_or_one_of_another_group_is_an_error_that_names_it(
    memory: Memory, row: dict[str, str], error: str
) -> None:
    await planted(memory)
    await planted(memory, "h", "h")
    before = await everything(memory)
    assert error in await refused(memory, row)
    assert await everything(memory) == before


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([("a1", "a2"), ("a3", "a2")], "a2 is to become several entities"),
        ([("a1", "a2"), ("a2", "a1")], "are to become each other"),
    ],
)
async def test_rows_that_contradict_each_other_are_errors(
    memory: Memory, rows: list[tuple[str, str]], error: str
) -> None:
    await planted(memory)
    before = await everything(memory)
    assert error in await refused(memory, *({"keep": k, "drop": d} for k, d in rows))
    assert await everything(memory) == before


async def test_an_entity_that_went_into_another_is_named_with_it(memory: Memory) -> None:
    await planted(memory)
    await memory.run("merge_entities", clusters=ALL[:1])
    assert "a2 was merged into a1 before" in await refused(memory, {"keep": "a3", "drop": "a2"})
    result = await memory.run("merge_entities", clusters=ALL)  # a2 is a1 now
    assert [row["keep"] for row in result.tables["merged"].to_pylist()] == ["a1"]


async def refused(memory: Memory, *rows: dict[str, str]) -> str:
    """The errors of a merge."""
    try:
        result = await memory.run("merge_entities", clusters=[{"group_id": "g", **r} for r in rows])
    except SemgraphError as error:
        return str(error)
    return " ".join(map(str, result.failed))


async def test_a_joined_summary_is_asked_for_only_if_it_is_too_long(memory: Memory) -> None:
    await planted(memory)
    result = await memory.run("merge_entities", clusters=ALL, params={"summary_chars": 20})
    assert result.meter.total().calls_issued == 1
    alice = next(e for e in (await memory.graph()).entities if e["uuid"] == "a1")
    assert len(alice["summary"]) <= 20


async def test_names_that_are_alike_are_told_apart_by_the_model(memory: Memory) -> None:
    people = [("Sam", "Sam works at Luma."), ("Sam", "Sam plays the cello."), ("Ann Weber", "")]
    people += [("Anna Schmidt", ""), ("Ann Webber", "")]
    rows = [
        {"uuid": f"u{n}", "group_id": "g", "name": name, "summary": summary}
        for n, (name, summary) in enumerate(people)
    ]
    await memory.run(memory.here("given.yaml"), entities=rows)
    found = await memory.run("find_duplicates", groups="all")
    pairs = [(p["uuid"], p["other"]) for p in found.tables["pairs"].to_pylist()]
    assert pairs == [("u2", "u4")]
    assert 0 < found.tables["pairs"].to_pylist()[0]["likeness"] < 1
    assert memory.model.calls["match"] == 1


async def test_of_duplicates_one_with_a_type_stays_then_the_most_mentioned(memory: Memory) -> None:
    await planted(memory)
    found = await memory.run("find_duplicates", groups="all")
    rows = found.tables["clusters"].to_pylist()
    assert [(r["keep"], r["keep_mentions"]) for r in rows] == [("a1", 2), ("a1", 2)]
    asked = memory.model.requests[-1]["messages"][-1]["content"]
    assert "age: 31" in asked
    assert "_note" not in asked
    same = await memory.run("find_duplicates", groups="all", params={"types": "same"})
    assert [(r["keep"], r["drop"]) for r in same.tables["clusters"].to_pylist()] == [("a1", "a3")]


async def test_the_examples_find_a_duplicate_merge_it_and_undo_that(memory: Memory) -> None:
    found = await memory.run("find_duplicates")
    assert [r["drop"] for r in found.tables["clusters"].to_pylist()] == ["alice"]
    merged = await memory.run("merge_entities")
    assert [r["drop"] for r in merged.tables["merged"].to_pylist()] == ["alice"]
    undone = await memory.run("unmerge_entities")
    assert [r["uuid"] for r in undone.tables["restored"].to_pylist()] == ["alice"]
