"""A run in which every row failed raises; one of which an answer or a filter left nothing does not."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import semgraph as sg
from semgraph.errors import RowError
from tests.llm.server import Fault, ModelServer, error

ROWS = [{"id": i, "text": f"text {i}"} for i in range(10)]
FIRST, SECOND = "Is {text} long?", "Is {text} kind?"


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


async def run(server: ModelServer, plan: sg.Frame, answer: Callable[[str, int], Any]) -> sg.Result:
    """Run a plan with a model that answers by the question's adjective and the number of the text."""

    async def answered(body: dict[str, Any]) -> str | Fault:
        question = re.search(r"text (\d+) (\w+)\?", body["messages"][-1]["content"])
        assert question is not None
        said = answer(question[2], int(question[1]))
        return error(400, "no") if said is None else f'{{"answer": "{"yes" if said else "no"}"}}'

    server.answer = answered
    given = {"llm": f"openai:m@{server.base_url}", "store": "memory"}
    async with sg.Session(**given, journal=False, runs="") as session:
        return await session.arun(plan)


def table() -> sg.Frame:
    return sg.table(ROWS)


async def test_a_step_that_fails_on_every_row(server: ModelServer) -> None:
    plan = table().sem_filter(FIRST).sem_filter(SECOND)
    with pytest.raises(RowError, match=r"every row failed \(10\), the first: ") as caught:
        await run(server, plan, lambda *_: None)
    assert len(caught.value.result.failed) == 10


@pytest.mark.parametrize("named", [True, False])
async def test_answers_left_one_row_and_that_failed(server: ModelServer, named: bool) -> None:
    plan = table().sem_filter(FIRST)
    plan = (plan.step("long") if named else plan).sem_filter(SECOND)
    result = await run(server, plan, lambda about, n: (n == 3) if about == "long" else None)
    assert (len(result.rows()), len(result.failed)) == (0, 1)


async def test_one_branch_failed_and_the_answers_of_the_other_left_nothing(
    server: ModelServer,
) -> None:
    rows = table()
    plan = sg.union([rows.sem_filter(FIRST), rows.sem_filter(SECOND)])
    result = await run(server, plan, lambda about, _: None if about == "long" else False)
    assert (len(result.rows()), len(result.failed)) == (0, 10)


@pytest.mark.parametrize("odd", ["\ud800", "\0"])
async def test_a_filter_left_no_row_of_those_that_could_be_read(odd: str) -> None:
    with sg.Session(store="memory", journal=False, runs="") as session:
        rows = sg.table([{"id": odd, "n": 1}, {"id": "b", "n": 2}])
        result = session.run(rows.filter("n > 5"))
        assert (result.rows(), len(result.failed)) == ([], 1)


GRAPH = """
graph: notes
nodes: {Note: {properties: {text: string}}}
"""
WINDOWED = """
plan: notes
graph: graph.yaml
inputs: {notes: {uuid: string, group_id: string, text: string}}
windows: {input: notes, partition: group_id, order: [uuid], key: uuid}
steps:
  kept:
    - from: notes
    - sem_filter: {prompt: "Is {text} long?"}
writes: [{merge: {from: kept, node: Note}}]
"""


async def test_rows_that_are_there_already_have_not_failed(
    server: ModelServer, tmp_path: Any
) -> None:
    (tmp_path / "graph.yaml").write_text(GRAPH)
    (tmp_path / "notes.yaml").write_text(WINDOWED)
    fails: set[str] = set()

    async def answered(body: dict[str, Any]) -> str | Fault:
        content = body["messages"][-1]["content"]
        return error(400, "no") if any(n in content for n in fails) else '{"answer": "yes"}'

    server.answer = answered
    given = {"llm": f"openai:m@{server.base_url}", "store": "memory", "folder": tmp_path}
    async with sg.Session(**given, journal=False, runs="") as session:
        rows = [{"uuid": str(i), "group_id": "g", "text": f"text {i}"} for i in range(4)]
        await session.arun("notes.yaml", notes=rows[:2])
        fails.update(("text 2", "text 3"))
        assert len((await session.arun("notes.yaml", notes=rows)).failed) == 2
        with pytest.raises(RowError, match=r"every row failed \(2\)"):
            await session.arun("notes.yaml", notes=rows[2:])
