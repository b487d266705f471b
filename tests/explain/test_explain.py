"""EXPLAIN: what the rules change, the first prompts, a sample, and a tree that fits its
terminal.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError
from semgraph.explain.requests import segment_queries
from semgraph.explain.steps import steps_of
from semgraph.folders import plans_folder
from semgraph.frontend.load import load_plan
from semgraph.physical.planner import compile_plan
from semgraph.render.explained import Outline
from semgraph.semantic.library import Library
from semgraph.stores.sqlite.store import SqliteStore
from tests.optimizer.bench import answered, matched

PLAN = """
plan: shown
inputs: {notes: {id: int64, text: string}}
steps:
  kept: [{from: notes}, {sem_filter: {prompt: "Is {text} nice?"}}, {filter: id < 6}]
  coded: [{from: kept}, {sem_map: {prompt: "Code: {text}", returns: {code: string}}}]
  marked: [{from: coded}, {sem_map: {prompt: "Mark: {code}", returns: {mark: string}}}]
returns: [marked]
allow: ALLOW
"""
NOTES = [{"id": i, "text": f"text {i}"} for i in range(8)]


@pytest.fixture
def oracle() -> Oracle:
    return Oracle(Mind(answer=answered, match=matched))


@pytest.fixture
async def session(tmp_path: Path, oracle: Oracle) -> AsyncIterator[semgraph.Session]:
    async with semgraph.Session(
        llm=oracle, store="memory", journal=False, runs="", folder=tmp_path
    ) as made:
        yield made


def plan(folder: Path, allow: str = "[]") -> Path:
    path = folder / "shown.yaml"
    path.write_text(PLAN.replace("ALLOW", allow), encoding="utf-8")
    return path


async def said(session: semgraph.Session, path: Path, **options: Any) -> str:
    return await asyncio.to_thread(
        lambda: session.explain(path, **{"inputs": {"notes": NOTES}, **options})
    )


async def test_the_tree_names_the_rules_that_acted(
    session: semgraph.Session, tmp_path: Path
) -> None:
    assert "rewrites: filter_first" in (await said(session, plan(tmp_path))).splitlines()


async def test_prompts_are_real_where_rows_are_known_and_say_where_they_are_not(
    session: semgraph.Session, oracle: Oracle, tmp_path: Path
) -> None:
    parts = (await said(session, plan(tmp_path), format="prompts")).split("\n\n── ")
    assert oracle.requests == []
    kept, coded, marked = parts
    assert kept.startswith("── kept · sem_filter · ")
    assert "\nIs text 0 nice?" in kept
    assert (
        "tokens · its rows depend on answers: <column> stands for a value" in coded.splitlines()[0]
    )
    assert coded.splitlines()[-1] == "Code: <text>"
    assert marked.splitlines()[-1] == "Mark: <code>"


DEPENDENT = """
plan: dependent
inputs: {notes: {id: int64, text: string}}
steps:
  coded: [{from: notes}, {sem_map: {prompt: "Code: {text}", returns: {code: string}}}]
  kept: [{from: coded}, {sem_filter: {prompt: "Is {code} nice?"}}]
  paired: [{from: coded}, {sem_join: {prompt: "Is {code} like {o.code}?", other: kept, alias: o}}]
  told: [{from: coded}, {sem_agg: {prompt: "Tell {code}", returns: {story: string}}}]
  best: [{from: kept}, {sem_topk: {prompt: "Fit: {code}", k: 1}}]
  drawn: [{from: coded}, {sem_join: {prompt: "Is {code} near {o.code}?", other: kept, alias: o}}]
returns: [paired, told, best, drawn]
use: {kept: packed(rows=4), paired: "block(left=2, right=2)", best: listwise(window=4), drawn: "cascade(jaccard=null)"}
"""


async def test_prompts_about_rows_that_depend_on_answers_are_whole_and_in_the_form_of_their_way(
    session: semgraph.Session, oracle: Oracle, tmp_path: Path
) -> None:
    path = tmp_path / "dependent.yaml"
    path.write_text(DEPENDENT, encoding="utf-8")
    text = await said(session, path, format="prompts")
    assert oracle.requests == []
    shown = {part.split(" ")[0]: part for part in text.removeprefix("── ").split("\n\n── ")}
    row = '{"code":"<code>"}'
    assert shown["kept"].endswith(f"Records:\n1. {row}\n2. {row}")
    assert '{"answers": [{"id": ' in shown["kept"]
    assert (
        f"Left records:\n1. {row} compare with: all\n2. {row} compare with: all" in shown["paired"]
    )
    assert 'Right records:\n101. {"o.code":"<o.code>"}' in shown["paired"]
    assert shown["told"].count(row) == 2
    assert "ranking" in shown["best"]
    assert shown["best"].endswith(f"Records:\n1. {row}\n2. {row}")
    assert shown["drawn"].endswith("Is <code> near <o.code>?")
    for step in ("kept", "paired", "told", "best", "drawn"):
        assert "\n[system]\n" in shown[step]
        assert "its rows depend on answers" in shown[step].splitlines()[0]


async def test_the_tokens_of_a_prompt_are_those_that_are_sent(
    session: semgraph.Session, oracle: Oracle, tmp_path: Path
) -> None:
    text = await said(session, plan(tmp_path), format="prompts")
    tokens = int(text.splitlines()[0].split(" · ")[2].split()[0])
    await session.arun(plan(tmp_path), notes=NOTES)
    first = next(r for r in oracle.requests if r.step == "kept")
    assert tokens == sum(oracle.count_tokens(message.content) for message in first.messages)


async def test_a_sample_is_run_for_real_and_all_rows_are_reckoned_from_it(
    session: semgraph.Session, oracle: Oracle, tmp_path: Path
) -> None:
    data = json.loads(await said(session, plan(tmp_path), format="json", sample=4))
    calls = len(oracle.requests)
    assert calls > 0
    sample = data["sample"]
    assert (sample["rows"], sample["of"], sample["calls"]) == (4, 8, calls)
    assert sample["all"]["calls"]["likely"] == 2 * calls
    assert sample["all"]["calls"]["least"] < 2 * calls < sample["all"]["calls"]["most"]
    assert "sample: 4 of 8 rows of notes" in await said(session, plan(tmp_path), sample=4)


async def test_a_sample_that_the_journal_answers_tells_the_same_amounts(
    oracle: Oracle, tmp_path: Path
) -> None:
    async with semgraph.Session(llm=oracle, store="memory", runs="", folder=tmp_path) as session:
        first = json.loads(await said(session, plan(tmp_path), format="json", sample=4))["sample"]
        asked = len(oracle.requests)
        again = json.loads(await said(session, plan(tmp_path), format="json", sample=4))["sample"]
        text = await said(session, plan(tmp_path), sample=4)
    assert asked == len(oracle.requests) == first["calls"]
    assert again == first
    assert first["all"]["tokens in"]["likely"] > 0
    assert f"{asked} calls ({asked} of them from the journal)" in text


async def test_a_sample_teaches_nothing_about_groups(oracle: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "best.yaml"
    path.write_text(
        "plan: best\ninputs: {notes: {id: int64, text: string}}\n"
        'steps:\n  nice: [{from: notes}, {sem_filter: {prompt: "Is {text} nice?"}}]\n'
        '  best: [{from: notes}, {sem_topk: {prompt: "How loud is {text}?", k: 3}}]\nreturns: [nice, best]\n',
        encoding="utf-8",
    )
    async with semgraph.Session(llm=oracle, store="memory", runs="", folder=tmp_path) as session:
        await said(session, path, sample=3)
        steps = {
            s["step"]: s["estimate"]
            for s in json.loads(await said(session, path, format="json"))["steps"]
        }
        assert steps["nice"]["calls"] == {"value": 8, "known": "seen"}
        assert steps["best"]["rows"] == {"value": 3, "known": "most"}
        assert steps["best"]["calls"] == {"value": 8, "known": "most"}
        await session.arun(path, notes=NOTES[:3])
        after = {
            s["step"]: s["estimate"]
            for s in json.loads(await said(session, path, format="json"))["steps"]
        }
    assert after["best"]["rows"] == {"value": 3, "known": "seen"}


async def test_a_sample_of_all_rows_has_no_range(session: semgraph.Session, tmp_path: Path) -> None:
    data = json.loads(await said(session, plan(tmp_path), format="json", sample=99))
    found = data["sample"]["all"]["calls"]
    assert found["likely"] == found["least"] == found["most"] == data["sample"]["calls"]


async def test_a_sample_writes_nothing(session: semgraph.Session, tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text(
        "graph: g\nkey: uuid\npartition: group_id\nnodes: {Note: {properties: {text: string}}}\n",
        encoding="utf-8",
    )
    path = tmp_path / "keeping.yaml"
    path.write_text(
        "plan: keeping\ngraph: graph.yaml\ninputs: {notes: {uuid: string, group_id: string, text: string}}\n"
        'steps:\n  nice: [{from: notes}, {sem_filter: {prompt: "Is {text} nice?"}}]\n'
        "writes: [{merge: {from: nice, node: Note}}]\nreturns: [nice]\n",
        encoding="utf-8",
    )
    rows = [{"uuid": f"n{i}", "group_id": "g", "text": f"text {i}"} for i in range(6)]
    assert "nothing written" in await said(session, path, inputs={"notes": rows}, sample=3)
    assert (await session.astatistics(tmp_path / "graph.yaml")).counts == {"Note": 0}


async def test_there_must_be_something_to_sample(session: semgraph.Session, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"nothing to sample.*sample=20"):
        await said(session, plan(tmp_path), inputs={}, sample=4)


@pytest.mark.parametrize("width", [40, 60, 100, 240])
async def test_an_outline_fits_its_terminal_and_says_what_it_leaves_out(
    session: semgraph.Session, tmp_path: Path, width: int
) -> None:
    *lines, last = (await said(session, plan(tmp_path), width=width)).splitlines()
    table = [
        line for line in lines if line.startswith(("step", "notes", "kept", "coded", "marked"))
    ]
    assert len(table) == 5
    assert max(map(len, table)) <= max(width, 60)
    assert last.startswith("not shown, for lack of space: ") == (width < 100)


async def test_a_run_stands_beside_the_estimates(tmp_path: Path, oracle: Oracle) -> None:
    async with semgraph.Session(llm=oracle, store="memory", folder=tmp_path) as session:
        result = await session.arun(plan(tmp_path), notes=NOTES)
        text = await said(session, plan(tmp_path), run="last")
    calls = result.meter.steps["kept"].calls_issued
    (line,) = (line for line in text.splitlines() if line.startswith("kept"))
    assert f"≈ {calls} / {calls}" in line
    assert f"was: {result.meter.total().calls_issued} calls" in text


RELATIONAL = """
plan: summed
inputs: {notes: {id: int64, text: string}}
steps:
  few: [{from: notes}, {filter: id < 6}]
  kept: [{from: few}, {sem_filter: {prompt: "Is {text} nice?"}}]
  ends: [{from: kept}, {aggregate: {by: [], add: {n: count(*)}}}]
returns: [few, ends]
"""


@pytest.mark.parametrize(("llm", "cost"), [("local", "free"), ("openai:odd@http://x/v1", "$ ?")])
async def test_a_local_model_is_free_and_an_unknown_price_is_not(
    tmp_path: Path, llm: str, cost: str
) -> None:
    path = tmp_path / "summed.yaml"
    path.write_text(RELATIONAL, encoding="utf-8")
    async with semgraph.Session(llm=llm, store="memory", folder=tmp_path) as session:
        estimated = await said(session, path, notes=NOTES)
    assert estimated.split("estimated: ")[1].splitlines()[0].endswith(f" tokens · {cost}")


async def test_the_tree_shows_the_cpu_of_relational_steps_of_a_run(
    tmp_path: Path, oracle: Oracle
) -> None:
    path = tmp_path / "summed.yaml"
    path.write_text(RELATIONAL, encoding="utf-8")
    async with semgraph.Session(llm=oracle, store="memory", folder=tmp_path) as session:
        await session.arun(path, notes=NOTES)
        beside = (await said(session, path, run="last", width=240)).splitlines()
        estimated = await said(session, path, width=240)
    of_run = re.compile(r"(\w+) .* \d+\.\d m?s\b")
    assert {match[1] for line in beside if (match := of_run.match(line))} == {"few", "ends"}
    assert " CPU" in beside[1]
    assert " CPU" not in estimated


async def test_of_a_run_of_another_version_of_the_plan_that_is_said(
    tmp_path: Path, oracle: Oracle
) -> None:
    async with semgraph.Session(llm=oracle, store="memory", folder=tmp_path) as session:
        result = await session.arun(plan(tmp_path), notes=NOTES)
        assert "another version" not in await said(session, plan(tmp_path), run="last")
        changed = plan(tmp_path)
        changed.write_text(
            changed.read_text(encoding="utf-8").replace("nice", "kind"), encoding="utf-8"
        )
        note = (
            f"run {result.run} was of another version of shown (steps, parameters or implementations differ): "
            "its counts may be of other work"
        )
        assert f"! {note}" in (await said(session, changed, run="last")).splitlines()
        assert json.loads(await said(session, changed, run="last", format="json"))["note"] == note


async def test_what_a_plan_allows_is_told_from_what_is_exact(
    session: semgraph.Session, tmp_path: Path
) -> None:
    path = plan(tmp_path, "[fuse_maps]")
    path.write_text(
        path.read_text(encoding="utf-8").replace("Mark: {code}", "Mark: {text}"), encoding="utf-8"
    )
    assert "fuse_maps (approximate)" in (await said(session, path)).splitlines()[-1]


def test_steps_that_duckdb_computes_over_few_rows_too_are_marked_with_the_reason() -> None:
    plan = load_plan(plans_folder() / "describe_gated.yaml")
    physical = compile_plan(plan, SqliteStore(":memory:"), Library(()), {})
    steps = [step for step in steps_of(physical) if any(one["why"] for one in step["segments"])]
    assert steps
    lines = str(Outline(physical, full=True).drawn(width=200)).splitlines()
    marked = {line.split()[0] for line in lines if "DuckDB" in line}
    assert marked >= {step["step"].rpartition("/")[2] for step in steps}
    reasons = [one["why"] for step in steps for one in step["segments"] if one["why"]]
    assert all(f"-- {reason}" in segment_queries(physical) for reason in reasons)
