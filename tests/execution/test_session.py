"""The ways to start a run, what it can be told, and what it leaves behind."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import (
    BudgetReached,
    EngineError,
    InputError,
    ModelUnavailable,
    PlanError,
    SemgraphError,
)
from semgraph.execution.result import Progress
from semgraph.llm.base import Reply, Request
from semgraph.llm.catalogue import CatalogueModel
from semgraph.llm.journal import Journal, OwnText
from semgraph.stores.sqlite.store import SqliteStore
from tests.execution.conftest import PLAN, ROOT, STORY, Work, said
from tests.partial import maybe_partial
from tests.patience import HANGS

TICKETS = [
    {"id": 1, "body": "The kettle leaks."},
    {"id": 2, "body": "Thanks, all is well."},
    {"id": 3, "body": "The tap leaks."},
]
COMPLAINTS = """
plan: complaints
inputs: {tickets: {id: int64, body: string}}
params: {least: 0}
steps:
  many:
    - from: tickets
    - filter: id > $least
  complaints:
    - from: many
    - sem_filter: {prompt: "Does it leak: {body}"}
  words:
    - from: complaints
    - add: {n: word_count(body)}
    - project: [id, n]
returns: [complaints, words]
example: {inputs: {tickets: [{id: 9, body: "It leaks."}]}}
"""


class Numbered(Oracle):
    """An oracle whose answers are told apart, as those of a provider are."""

    async def complete(self, request: Request) -> Reply:
        return replace(await super().complete(request), call_id=uuid4().hex)


@pytest.fixture
def oracle() -> Oracle:
    return Numbered(Mind(answer=lambda text: {"answer": "yes" if "leaks" in text else "no"}))


@pytest.fixture
def plain(tmp_path: Path, oracle: Oracle) -> semgraph.Session:
    """A session with a plan without order, answered in this process."""
    (tmp_path / "complaints.yaml").write_text(COMPLAINTS, encoding="utf-8")
    return semgraph.Session(llm=oracle, store="memory", folder=tmp_path)


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.to_pylist()


# -- from where it is started
# -------------------------------------------------------------------------------------------


def test_run_waits_in_a_script(plain: semgraph.Session) -> None:
    with plain:
        result = plain.run("complaints", tickets=TICKETS)
    assert [row["id"] for row in rows(result.tables["complaints"])] == [1, 3]
    assert rows(result.tables["words"]) == [{"id": 1, "n": 3}, {"id": 3, "n": 3}]


async def test_run_waits_also_where_a_loop_runs_already(plain: semgraph.Session) -> None:
    assert plain.run("complaints", tickets=TICKETS).tables["words"].num_rows == 2
    assert (await plain.arun("complaints", tickets=TICKETS)).tables["words"].num_rows == 2
    with pytest.raises(InputError, match="column"):
        plain.run("complaints", tickets=[{"id": 1}])
    plain.close()


async def test_a_call_that_waits_is_refused_in_the_event_loop_of_a_run_that_goes_on(
    plain: semgraph.Session, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on, answer = asyncio.Event(), asyncio.Event(), oracle.complete

    async def held(request: Request) -> Reply:
        asked.set()
        await go_on.wait()
        return await answer(request)

    monkeypatch.setattr(oracle, "complete", held)
    async with plain:
        running = asyncio.create_task(plain.arun("complaints", tickets=TICKETS))
        await asked.wait()
        with pytest.raises(
            SemgraphError, match="would stand still while this call waits. Await that run first"
        ):
            plain.run("complaints", tickets=TICKETS)
        assert "complaints" in plain.explain("complaints", tickets=TICKETS)
        go_on.set()
        assert (await running).tables["words"].num_rows == 2
        monkeypatch.setattr(oracle, "complete", answer)
        assert plain.run("complaints", tickets=TICKETS).tables["words"].num_rows == 2


async def test_sessions_with_one_store_run_over_graphs_of_their_own_at_once(
    tmp_path: Path, oracle: Oracle
) -> None:
    """A store that the user made; each session has it open for the graph of its own plan."""
    store, labels = SqliteStore(":memory:"), {"taps": "Tap", "pots": "Pot"}
    for name, label in labels.items():
        (tmp_path / f"{name}.graph.yaml").write_text(
            f"graph: {name}\nnodes: {{{label}: {{properties: {{text: string}}}}}}\n"
        )
        (tmp_path / f"{name}.yaml").write_text(f"""
plan: {name}
graph: {name}.graph.yaml
inputs: {{rows: {{id: string, text: string, group_id: string}}}}
windows: {{input: rows, partition: group_id, key: id, size: 1}}
steps: {{told: [{{from: rows}}, {{sem_filter: {{prompt: "Does it leak: {{text}}"}}}}]}}
writes: [{{merge: {{from: told, node: {label}, key: id}}}}]
""")
    sessions = [
        semgraph.Session(llm=oracle, store=store, folder=tmp_path, journal=False) for _ in labels
    ]
    runs = [
        session.arun(
            name,
            inputs={
                "rows": [{"id": f"{name}{n}", "text": "leaks", "group_id": name} for n in range(4)]
            },
        )
        for session, name in zip(sessions, labels, strict=True)
    ]
    try:
        results = await asyncio.gather(*runs)
    finally:
        for session in sessions:
            await session.aclose()
        await store.aclose()
    assert [dict(result.written) for result in results] == [{"Tap": 4}, {"Pot": 4}]


async def test_runs_of_one_session_can_be_side_by_side(plain: semgraph.Session) -> None:
    async with plain:
        both = await asyncio.gather(
            *(plain.arun("complaints", params={"least": n}, tickets=TICKETS) for n in range(3))
        )
    assert [result.tables["complaints"].num_rows for result in both] == [2, 1, 1]
    assert len({result.run for result in both}) == 3


KERNEL = """
import semgraph
from tests.partial import maybe_partial
session = semgraph.Session(llm="openai:gpt-4.1-mini@{url}", embedder="openai:stand-in@{url}?dimensions=256", store="memory", folder={folder!r})
"""


async def test_a_notebook_runs_and_awaits_and_interrupts(simple: Work) -> None:
    from jupyter_client.manager import AsyncKernelManager

    manager = AsyncKernelManager(kernel_name="python3")
    manager.kernel_cmd = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    await manager.start_kernel(env=env, cwd=str(simple.folder))
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=HANGS)

        async def cell(code: str) -> tuple[str, str]:
            """Run a cell: what it printed, and the name of the error it ended with."""
            printed: list[str] = []

            def hook(message: dict[str, Any]) -> None:
                if message["msg_type"] == "stream":
                    printed.append(message["content"]["text"])

            reply = await client.execute_interactive(
                code, output_hook=hook, timeout=HANGS, store_history=False
            )
            return "".join(printed), reply["content"].get("ename", "")

        assert await cell(KERNEL.format(url=simple.model.base_url, folder=str(simple.folder))) == (
            "",
            "",
        )
        assert (await cell(f"print(session.run({str(PLAN)!r}).committed)")) == ("3\n", "")
        assert (await cell(f"print((await session.arun({str(PLAN)!r})).skipped)")) == ("3\n", "")
        simple.model.gate.clear()
        waiting = asyncio.create_task(cell(f"session.run({str(PLAN)!r}, again=True, fresh=True)"))
        before = len(simple.model.arrived)
        await simple.model.until(lambda: len(simple.model.arrived) > before)
        await manager.interrupt_kernel()
        assert (await asyncio.wait_for(waiting, HANGS))[1] == "KeyboardInterrupt"
        simple.model.gate.set()
        assert (await cell(f"print(session.run({str(PLAN)!r}).skipped)")) == ("3\n", ""), (
            "the session goes on"
        )
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)
    assert [record["status"] for record in simple.records] == [
        "done",
        "done",
        "interrupted",
        "done",
    ]


def test_importing_a_session_runs_nothing(tmp_path: Path) -> None:
    code = "import semgraph; semgraph.Session(); import os; print(os.listdir('.'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


# -- what it can be told
# ------------------------------------------------------------------------------------------------


async def test_without_inputs_the_example_runs(plain: semgraph.Session) -> None:
    result = await plain.arun("complaints")
    assert rows(result.tables["complaints"]) == [{"id": 9, "body": "It leaks."}]


async def test_until_gives_the_rows_of_a_step_and_asks_no_more_than_that_needs(
    plain: semgraph.Session, oracle: Oracle
) -> None:
    result = await plain.arun("complaints", tickets=TICKETS, until="many", params={"least": 1})
    assert [row["id"] for row in rows(result.tables["many"])] == [2, 3]
    assert list(result.tables) == ["many"]
    assert oracle.requests == []
    with pytest.raises(PlanError, match='Did you mean "words"'):
        await plain.arun("complaints", tickets=TICKETS, until="wards")


async def test_until_in_a_plan_that_writes_writes_nothing(work: Work) -> None:
    async with work.session() as session:
        result = await session.arun(PLAN, episodes=said(STORY[:3]), until="read/facts", rows=2)
    assert result.tables["read/facts"].num_rows == 2
    assert (result.committed, dict(result.written)) == (0, {})
    assert await work.place.dump() == {}


async def test_rows_takes_the_first(plain: semgraph.Session, simple: Work) -> None:
    result = await plain.arun("complaints", tickets=TICKETS, rows=1)
    assert [row["id"] for row in rows(result.tables["complaints"])] == [1]
    async with simple.session() as session:
        assert (await session.arun(PLAN, episodes=said(STORY), rows=2)).committed == 2
        assert (await session.arun(PLAN, episodes=said(STORY), rows=3)).skipped == 2


async def test_without_writing_nothing_is_written_and_the_result_is_there(work: Work) -> None:
    async with work.session() as session:
        tried = await session.arun(PLAN, episodes=said(STORY[:1]), write=False)
        assert await work.place.dump() == {}
        meant = await session.arun(PLAN, episodes=said(STORY[:1]))
    assert (tried.committed, dict(tried.written), tried.exit_code) == (0, {}, 0)
    assert tried.tables["edges"].equals(meant.tables["edges"])
    assert meant.meter.total().calls_issued == 0, "what the trial asked was paid for"


async def test_an_empty_input_is_an_empty_result(plain: semgraph.Session, simple: Work) -> None:
    result = await plain.arun("complaints", tickets=[])
    assert [t.num_rows for t in result.tables.values()] == [0, 0]
    async with simple.session() as session:
        ordered = await session.arun(PLAN, episodes=[])
    assert (ordered.members, ordered.committed, ordered.exit_code) == (0, 0, 0)
    assert ordered.tables["edges"].schema.names[:2] == ["uuid", "group_id"]


async def test_fresh_asks_anew_and_the_journal_else_saves(
    plain: semgraph.Session, oracle: Oracle
) -> None:
    for origin in ("issued", "journal"):
        total = (await plain.arun("complaints", tickets=TICKETS)).meter.total()
        assert {"issued": total.calls_issued, "journal": total.calls_journal}[origin] == 3
    assert (
        await plain.arun("complaints", tickets=TICKETS, fresh=True)
    ).meter.total().calls_issued == 3
    assert len(oracle.requests) == 6


async def test_tables_of_all_kinds_are_taken(plain: semgraph.Session) -> None:
    import pandas as pd
    import polars as pl

    frames = (pd.DataFrame(TICKETS), pl.DataFrame(TICKETS), semgraph.table(TICKETS))
    for given in (TICKETS, pa.Table.from_pylist(TICKETS), *frames):
        assert (await plain.arun("complaints", tickets=given)).tables["words"].num_rows == 2
    computed = semgraph.table(TICKETS).filter("id > 1")
    with pytest.raises(PlanError, match="tickets is a relation that is not computed yet"):
        await plain.arun("complaints", tickets=computed)


async def test_a_wrong_input_is_told_before_anything_is_opened(
    plain: semgraph.Session, tmp_path: Path
) -> None:
    with pytest.raises(PlanError, match='has no input "ticket".*Did you mean "tickets"'):
        await plain.arun("complaints", ticket=TICKETS)
    assert not (tmp_path / ".semgraph").exists()


# -- frames
# -------------------------------------------------------------------------------------------------------------


async def test_a_frame_runs_over_its_own_rows(plain: semgraph.Session, oracle: Oracle) -> None:
    frame = (
        semgraph.table(TICKETS, name="tickets")
        .sem_filter("Does it leak: {body}")
        .project({"id": None})
    )
    result = await plain.arun(frame)
    assert rows(result.tables[next(iter(result.tables))]) == [{"id": 1}, {"id": 3}]
    assert len(oracle.requests) == 3


async def test_a_plan_of_frames_runs_with_rows_of_its_own_or_others(
    plain: semgraph.Session,
) -> None:
    tickets = semgraph.table(TICKETS, name="tickets")
    plan = semgraph.plan(
        "leaks", {"bad": tickets.sem_filter("Does it leak: {body}"), "all": tickets}
    )
    result = await plain.arun(plan, tickets=TICKETS[:2])
    assert {name: t.num_rows for name, t in result.tables.items()} == {"bad": 1, "all": 2}


async def test_a_frame_says_the_same_as_the_file_that_it_saves(
    plain: semgraph.Session, tmp_path: Path
) -> None:
    frame = (
        semgraph.table(TICKETS, name="tickets")
        .sem_filter("Does it leak: {body}")
        .add({"n": "length(body)"})
    )
    framed = await plain.arun(frame)
    saved = await plain.arun(frame.save(tmp_path / "saved.yaml"), tickets=TICKETS)
    assert [t.to_pylist() for t in framed.tables.values()] == [
        t.to_pylist() for t in saved.tables.values()
    ]


# -- what it leaves
# -----------------------------------------------------------------------------------------------------


async def test_the_record_holds_what_was_run_with_what_and_what_came_of_it(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    result = await work.run(
        said(STORY[:3]), params={"candidates": 9}, use={"matches": "nested_loop"}
    )
    folder = result.record
    assert folder is not None
    assert folder.name == result.run
    (facts,) = work.records
    assert (facts["plan"], facts["status"], facts["params"]["candidates"]) == (
        "add_episode",
        "done",
        9,
    )
    assert (facts["use"]["resolve/mentioned/matches"], facts["use"]["describe/summaries"]) == (
        "nested_loop",
        "packed(rows=30)",
    )
    assert facts["members"] == {"given": 3, "skipped": 0, "committed": 3}
    assert facts["written"] == dict(result.written)
    assert facts["settings"]["store"] == {
        "value": work.place.spec,
        "origin": facts["settings"]["store"]["origin"],
    }
    assert facts["journal"] == str(work.folder / ".semgraph" / "journal.db")
    assert facts["started"] < facts["ended"]
    written = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert not any(b"sk-of-the-test" in content for content in written)
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["total"] == result.meter.total().as_dict()
    assert metrics["steps"]["read/mentions"]["calls_issued"] == 3
    assert (folder / "plan.yaml").read_text().startswith("plan: add_episode")
    assert pq.read_table(folder / "inputs" / "episodes.parquet").num_rows == 3
    assert not (folder / "failed.jsonl").exists()


async def test_the_record_holds_the_rows_of_each_step_and_the_evidence_of_each_answer(
    simple: Work,
) -> None:
    result = await simple.run(said(STORY[:5]))
    assert result.record is not None
    mentions = pa.concat_tables(
        [
            pq.read_table(p)
            for p in sorted((result.record / "steps" / "read" / "mentions").glob("*.parquet"))
        ]
    )
    assert sorted(set(mentions["_m"].to_pylist())) == [0, 1, 2, 3, 4]
    assert mentions.num_rows == result.meter.step("read/mentions").rows_out
    inner = list((result.record / "steps" / "settle" / "find" / "pairs").glob("*.parquet"))
    assert inner, "steps of a called plan have folders of their own"
    answers = pa.concat_tables(
        [
            pq.read_table(p)
            for p in sorted((result.record / "answers" / "read" / "mentions").glob("*.parquet"))
        ]
    )
    assert answers.num_rows == 5
    assert answers["error"].null_count == 5
    first = answers.to_pylist()[0]
    assert json.loads(first["left"])["content"] in STORY
    journal = Journal(simple.folder / ".semgraph" / "journal.db")
    exchange = journal.exchange(first["calls"][0])
    journal.close()
    assert exchange is not None
    assert json.loads(first["left"])["content"] in exchange.request.messages[-1].content


def test_why_leads_from_a_row_to_its_prompt(plain: semgraph.Session) -> None:
    with plain:
        result = plain.run("complaints", tickets=TICKETS)
        why = plain.why("The tap leaks.", result, messages=True)
        assert why.startswith("complaints ")
        assert "Does it leak: The tap leaks." in why
        shown = plain.why("The tap leaks.", result)._repr_html_()  # type: ignore[attr-defined]
        folded = shown.partition("<details>")[2]
        assert "Does it leak: The tap leaks." in folded.partition("</details>")[0]
        assert "<script" not in shown
        named = plain.why("The tap leaks.")
        assert named == f"run {result.run}\n" + plain.why("The tap leaks.", result.run[:3])
        assert f"run {result.run}" in named._repr_html_()  # type: ignore[attr-defined]
        with pytest.raises(PlanError, match="no row of run"):
            plain.why("The roof leaks.", result)


def test_history_lists_the_records_of_which_each_is_loaded(
    plain: semgraph.Session, tmp_path: Path
) -> None:
    assert (len(plain.history()), str(plain.history())) == (0, "no runs")
    with plain:
        result = plain.run("complaints", tickets=TICKETS)
        compared = plain.compare(
            "complaints",
            variants=["per_row", "packed(rows=2)"],
            step="complaints",
            say=None,
            tickets=TICKETS,
        )
    history = plain.history()
    assert [(row["run"], row["kind"]) for row in history] == [
        (compared.id, "comparison"),
        (result.run, "run"),
    ]
    assert [line.split()[0] for line in str(history).splitlines()[1:]] == [compared.id, result.run]
    assert history._repr_html_().count("<tr>") == 3
    frame = history.to_pandas()
    assert frame["started"].is_monotonic_decreasing
    assert list(frame["calls"]) == [row["calls"] for row in history]
    loaded = plain.load(result.run[:4])
    assert isinstance(loaded, semgraph.Result)
    assert loaded.rows("complaints") == result.rows("complaints")
    assert loaded.rows("words") == result.rows("words")
    assert loaded.costs() == result.costs()
    assert plain.load("last") == compared
    with pytest.raises(PlanError, match='there is no run "zz"'):
        plain.load("zz")
    with pytest.raises(PlanError, match="keeps no records"):
        semgraph.Session(folder=tmp_path, runs="").history()


def test_why_needs_records(tmp_path: Path, oracle: Oracle) -> None:
    session = semgraph.Session(llm=oracle, store="memory", folder=tmp_path, runs="")
    with pytest.raises(PlanError, match="keeps no records"):
        session.why("The tap leaks.")


async def test_records_can_be_turned_off(simple: Work) -> None:
    result = await simple.run(said(STORY[:1]), session={"runs": ""})
    assert result.record is None
    assert simple.records == []


async def test_progress_tells_of_answers_and_commits_until_all_are_done(simple: Work) -> None:
    seen: list[tuple[str, int, int]] = []
    await simple.run(said(STORY[:3]), progress=lambda p: seen.append((p.step, p.done, p.total)))
    assert [s for s in seen if s[0] == ""] == [("", 0, 3), ("", 1, 3), ("", 2, 3), ("", 3, 3)]
    last = {step: (done, total) for step, done, total in seen}
    assert all(done == total for done, total in last.values())
    assert last["read/mentions"] == (3, 3)


def test_progress_tells_of_the_rows_of_a_step_as_they_are_answered(
    plain: semgraph.Session,
) -> None:
    leaks = semgraph.table(TICKETS).sem_filter("Does it leak: {body}", step="leaks")
    seen: list[tuple[str, int, int]] = []
    plain.run(leaks, progress=lambda p: seen.append((p.step, p.done, p.total)))
    assert seen == [("leaks", done, 3) for done in range(4)]


def test_progress_counts_the_rows_of_each_reply(plain: semgraph.Session) -> None:
    tickets = [{"id": n, "body": f"Tap {n} leaks."} for n in range(8)]
    leaks = semgraph.table(tickets).sem_filter("Does it leak: {body}", step="leaks")
    said = semgraph.table(tickets).sem_agg("Sum up {body}", returns={"sum": str}, step="said")
    for plan, use in ((leaks, {"leaks": "packed(rows=2)"}), (said, {"said": "fold(rows=2)"})):
        seen: list[int] = []
        plain.run(plan, use=use, progress=lambda p, seen=seen: seen.append(p.done))
        assert (seen[:2], seen[-1]) == ([0, 2], 8)
        assert seen == sorted(set(seen))


def test_an_error_of_the_progress_callback_ends_the_run_as_it_is(plain: semgraph.Session) -> None:
    leaks = semgraph.table(TICKETS).sem_filter("Does it leak: {body}")

    def enough(progress: Progress) -> None:
        if progress.done == 1:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        plain.run(leaks, progress=enough)
    with pytest.raises(EngineError, match=r"the progress callback called sys.exit\(3\)"):
        plain.run(leaks, fresh=True, progress=lambda _: sys.exit(3))
    assert plain.run(leaks).to_arrow().num_rows == 2, "the session goes on"


def test_a_download_of_a_local_model_is_told_when_a_request_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pull(model: CatalogueModel, progress: Any, **_: Any) -> None:
        progress(0, model.size, "a source")
        raise ModelUnavailable(f"no source has {model.name}")

    monkeypatch.setenv("SEMGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SEMGRAPH_OFFLINE", raising=False)
    monkeypatch.setattr("semgraph.llm.catalogue.pull", pull)
    tickets = semgraph.table(TICKETS)
    with semgraph.Session(llm="local", store="memory", folder=tmp_path) as session:
        session.run(tickets.filter("id > 1"))
        session.run(tickets.filter("id > 9").sem_filter("Does it leak: {body}"))
        assert "downloading" not in capsys.readouterr().err
        with pytest.raises(ModelUnavailable, match="no source has"):
            session.run(tickets.limit(1).sem_filter("Does it leak: {body}"))
    told = capsys.readouterr().err
    assert told.startswith("  downloading Qwen2.5-Coder-1.5B (1.12 GB, Apache-2.0) to ")


@pytest.mark.parametrize(
    ("own", "during"), [(700, 50_000), (2_000, 50_000), (90_000, 90_000), (0, 0)]
)
async def test_a_run_collects_less_often_unless_the_program_sets_a_higher_threshold(
    simple: Work, own: int, during: int
) -> None:
    before, thresholds = gc.get_threshold(), list[int]()
    gc.set_threshold(own, 8, 9)
    try:
        await simple.run(
            said(STORY[:1]), progress=lambda _: thresholds.append(gc.get_threshold()[0])
        )
        assert set(thresholds) == {during}
        assert gc.get_threshold() == (own, 8, 9)
    finally:
        gc.set_threshold(*before)


async def test_an_input_may_be_named_like_an_argument(tmp_path: Path) -> None:
    path = tmp_path / "named.yaml"
    text = "plan: named\ninputs: {rows: {id: string}, use: {id: string}}\nsteps: {both: [{union: [rows, use]}]}\nreturns: [both]\n"
    path.write_text(text, encoding="utf-8")
    async with semgraph.Session(
        llm=Oracle(Mind()), store="memory", folder=tmp_path, journal=False, runs=""
    ) as session:
        result = await session.arun(path, inputs={"rows": [{"id": "a"}], "use": [{"id": "b"}]})
        assert result.tables["both"].column("id").to_pylist() == ["a", "b"]
        with pytest.raises(
            PlanError, match=r'named\.yaml:2:\d+  input "rows": rows= is an option of this call'
        ) as caught:
            await session.arun(path, rows=[{"id": "a"}])
    assert caught.value.problems[0].hint == 'write inputs={"rows": rows}'


@pytest.mark.parametrize(
    ("name", "options"),
    [("resume", {}), ("write", {"write": False}), ("until", {"until": "kept"}), ("again", {"again": True}),
     ("on_error", {"on_error": "null"})],
)  # fmt: skip
async def test_a_run_of_an_input_that_is_named_like_an_argument_is_resumed(
    tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    path = tmp_path / "named.yaml"
    text = "plan: named\ninputs: {NAME: {id: string}}\nsteps: {kept: [{from: NAME}, {filter: id > ''}]}\nreturns: [kept]\n"
    path.write_text(text.replace("NAME", name), encoding="utf-8")
    async with semgraph.Session(
        llm=Oracle(Mind()), store="memory", folder=tmp_path, journal=False
    ) as session:
        first = await session.arun(path, inputs={name: [{"id": "a"}]}, **options)
        again = await session.arun(path, resume=first.run, **options)
    assert again.tables["kept"].to_pylist() == [{"id": "a"}]


# -- what the journal and the budget are for
# ----------------------------------------------------------------------------


async def test_what_the_journal_holds_of_a_group_is_forgotten(simple: Work) -> None:
    path = simple.folder / "kept.db"
    async with simple.session(store="memory", journal=path) as session:
        await session.arun("add_episode", episodes=said(STORY[:2], "g") + said(STORY[2:4], "h"))

        def held(group: str) -> list[int]:
            tables = ("answers", "vectors")
            with closing(sqlite3.connect(path)) as file:
                sql = "SELECT count(*) FROM {} WHERE partition = ?"
                return [file.execute(sql.format(name), (group,)).fetchone()[0] for name in tables]

        before, others = held("g"), held("h")
        assert all(before)
        assert all(others)
        assert session.forget("g") == sum(before)
        assert (held("g"), held("h")) == ([0, 0], others)
        assert session.forget(["g", "none"]) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda session: session.forget(5),
        lambda session: session.forget(None),
        lambda session: session.forget(["g", 5]),
        lambda session: session.prune(90),
        lambda session: session.prune("90d"),
        lambda session: session.prune(None),
        lambda session: session.prune(timedelta(days=-1)),
        lambda session: session.prune(timedelta(0), 5),
        lambda session: session.prune(timedelta(0), [b"g"]),
    ],
)
def test_wrong_arguments_delete_nothing_of_the_journal(tmp_path: Path, wrong) -> None:
    with closing(Journal(tmp_path / "kept.db")) as journal:
        vectors = {OwnText("g", "text"): np.ones(3, np.float32)}
        asyncio.run(journal.record_vectors(vectors, "m"))
    with semgraph.Session(store="memory", folder=tmp_path, journal=journal.path) as session:
        with pytest.raises(PlanError):
            wrong(session)
        assert session.prune(timedelta(0)) == (0, 1)


def test_nothing_is_forgotten_where_there_is_no_journal(
    plain: semgraph.Session, tmp_path: Path
) -> None:
    assert plain.forget(["g"]) == 0
    assert not (tmp_path / ".semgraph").exists()


@pytest.mark.parametrize(("most", "stopped"), [(1, True), (2, False)])
async def test_an_example_and_the_plans_before_it_share_one_budget(
    tmp_path: Path, oracle: Oracle, most: int, stopped: bool
) -> None:
    (tmp_path / "complaints.yaml").write_text(COMPLAINTS, encoding="utf-8")
    later = COMPLAINTS.replace("plan: complaints", "plan: later").replace(
        '"It leaks."}]}', '"It leaks too."}]}, after: [complaints]'
    )
    (tmp_path / "later.yaml").write_text(later, encoding="utf-8")
    async with semgraph.Session(
        llm=oracle, store="memory", folder=tmp_path, max_calls=most
    ) as session:
        result = await maybe_partial(session.arun("later"))
    assert len(oracle.requests) == most
    assert bool(result.stopped) is stopped


def test_a_limit_is_an_error_that_carries_the_result_and_says_how_to_resume(
    tmp_path: Path, oracle: Oracle
) -> None:
    (tmp_path / "complaints.yaml").write_text(COMPLAINTS, encoding="utf-8")
    limited = {"llm": oracle, "store": "memory", "folder": tmp_path}
    with (
        semgraph.Session(**limited, max_calls=1) as session,
        pytest.raises(BudgetReached, match="stopped before call 2") as caught,
    ):
        session.run("complaints", tickets=TICKETS)
    result = caught.value.result
    assert (result.exit_code, result.meter.total().calls_issued) == (4, 1)
    assert f'session.run("complaints", resume="{result.run}")' in str(caught.value)
    with semgraph.Session(**limited) as session:
        whole = session.run("complaints", resume=result.run)
    assert whole.stopped is None
    assert len(oracle.requests) == len({request.fingerprint for request in oracle.requests})


def test_a_session_without_records_explains_no_run_of_the_working_directory(
    plain: semgraph.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with plain:
        plain.run("complaints", tickets=TICKETS)
    monkeypatch.chdir(tmp_path)  # whose .semgraph/runs has that run
    other = semgraph.Session(llm="recorded", store="memory", runs="", folder=tmp_path)
    with other, pytest.raises(PlanError, match='there is no run "last".*No records are kept'):
        other.explain("complaints", run="last")
