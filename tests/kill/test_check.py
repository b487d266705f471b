"""Runs that are killed while answers are refused by a check: the next run has the same rows, and asks
for no answer that the journal has.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from semgraph.execution.record import all_runs, read_rows
from tests.kill.test_kill import Forks, Server

PLAN = """
plan: checks
inputs: {notes: {id: string, text: string, most: int64}}
steps:
  asked:
    - from: notes
    - sem_map:
        prompt: "Shorten {text}."
        returns: {short: string}
        check: {where: length(short) <= most, message: "'at most ' || most || ' letters'"}
returns: [asked]
use: {asked: packed(rows=3)}
"""
NOTES = [
    {"id": "a", "text": "apples", "most": 5},
    {"id": "b", "text": "bread", "most": 5},
    {"id": "c", "text": "cake", "most": 9},
    {"id": "d", "text": "bread", "most": 4},
]
POINTS = ("request arrives", "request answered", "before journal write", "inside journal write")


class Learner(Server):
    """A model that shortens a text by a letter for each time that its answer was refused."""

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.passed("request arrives")
        body = await request.json()
        self.requests.append(body)
        text = body["messages"][-1]["content"]
        records = re.findall(r'^(\d+)\. \{"text":"(\w+)"\}', text, re.MULTILINE)
        if records:
            answer: Any = {"answers": [{"id": int(n), "short": f"{word}!"} for n, word in records]}
        else:
            word = text.removeprefix("Shorten ").split(".")[0]
            answer = {"short": f"{word}!"[: len(word) + 1 - text.count("letters")]}
        message = {"role": "assistant", "content": json.dumps(answer)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        reply = web.json_response({"id": "1", "choices": [choice], "usage": usage})
        await reply.prepare(request)
        await reply.write_eof()
        self.passed("request answered")
        return reply


@dataclass
class Ended:
    """What came of a run that was not killed."""

    rows: list[Mapping[str, Any]]
    asked: list[str]
    passed: Counter[str]


async def run(
    folder: Path, server: Learner, forks: Forks, point: str = "", number: int = 0
) -> Ended | None:
    """Run the plan until its end; None if it was killed."""
    (folder / "checks.yaml").write_text(PLAN, encoding="utf-8")
    server.reset()
    task = {
        "point": point, "number": number, "plan": str(folder / "checks.yaml"), "inputs": {"notes": NOTES},
        "resume": None, "report": str(folder / "report.json"), "env": {}, "folder": str(folder),
        "llm": f"openai:gpt-4.1-mini@{server.base_url}", "embedder": None, "store": "memory",
    }  # fmt: skip
    killed = await forks.run(task, server)
    assert killed in (0, signal.SIGKILL)
    if killed:
        return None
    report = json.loads((folder / "report.json").read_text())
    assert "error" not in report, report["error"]
    rows = list(read_rows(all_runs(folder / ".semgraph" / "runs")[0].folder, "steps", "asked"))
    asked = [body["messages"][-1]["content"] for body in server.requests]
    rows = [{name: row[name] for name in ("id", "short")} for row in rows]
    return Ended(rows, asked, Counter(report["passed"]) + server.counts)


def empty(folder: Path) -> None:
    """An empty folder in the place of one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


def answered(folder: Path) -> set[str]:
    """The last message of each request with an answer in the journal."""
    journal = folder / ".semgraph" / "journal.db"
    if not journal.exists():
        return set()
    with closing(sqlite3.connect(journal)) as database:
        named = "SELECT count(*) FROM sqlite_master WHERE name = 'answers'"
        if not database.execute(named).fetchone()[0]:
            return set()
        requests = database.execute("SELECT request FROM answers").fetchall()
    return {json.loads(text)[-1][-1][1] for (text,) in requests}


@pytest.mark.parametrize("point", POINTS)
async def test_a_run_that_was_killed_among_refused_answers_asks_for_the_rest_alone(
    point: str, tmp_path: Path
) -> None:
    async with Learner() as server:
        forks = await Forks.start()
        try:
            await each_kill(point, tmp_path / "world", server, forks)
        finally:
            await forks.stop()


async def each_kill(point: str, folder: Path, server: Learner, forks: Forks) -> None:
    """Kill a run each time that it passes a point, and let the next one end."""
    empty(folder)
    truth = await run(folder, server, forks)
    assert truth is not None
    assert [row["short"] for row in truth.rows] == ["apple", "bread", "cake!", "brea"]
    assert truth.passed[point]
    for number in range(1, truth.passed[point] + 1):
        empty(folder)
        if await run(folder, server, forks, point, number) is not None:
            continue  # requests came together, and the point was passed less often
        before = answered(folder)
        ended = await run(folder, server, forks)
        assert ended is not None
        assert ended.rows == truth.rows, (point, number)
        assert Counter(ended.asked) + Counter(before) == Counter(truth.asked), (point, number)
