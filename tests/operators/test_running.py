"""What a run says of an implementation that breaks its contract: the step, the implementation, the
file, what to do.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import LIBRARY, Grams, Mind, Oracle
from semgraph.errors import EngineError, PlanError
from semgraph.semantic import implementation as watching
from semgraph.semantic.contract import OPERATORS
from tests.conformance.test_checking import write

PLAN = """
plan: tickets
inputs: {tickets: {id: int64, name: string}}
steps:
  leaking:
    - from: tickets
    - sem_filter: {prompt: "Does it leak: {name}"}
returns: [leaking]
"""
TICKETS = [
    {"id": 1, "name": "The kettle leaks."},
    {"id": 2, "name": "All is well."},
    {"id": 3, "name": "The tap leaks."},
]
LEAKS = Mind(answer=lambda text: {"answer": "yes" if "leaks" in text else "no"})


async def run(tmp_path: Path, folder: Path, way: str) -> Any:
    plan = tmp_path / "tickets.yaml"
    plan.write_text(PLAN)
    given = {
        "llm": Oracle(LEAKS),
        "embedder": Grams(),
        "store": "memory",
        "operators": (str(folder),),
    }
    async with semgraph.Session(**given, folder=tmp_path / "kept") as session:
        return await session.arun(plan, tickets=TICKETS, use={"leaking": way})


async def test_an_own_implementation_runs_from_its_folder(tmp_path: Path) -> None:
    write(
        tmp_path / "mine",
        "good",
        "return await ctx.ask_packed(node, rows, rows.blocks(node, left=2, order='name'))",
    )
    result = await run(tmp_path, tmp_path / "mine", "good")
    assert [row["id"] for row in result.tables["leaking"].to_pylist()] == [1, 3]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "return rows.left",
            "broke its contract: it returned a Table, not a list of Outcome. Correct its `answer`",
        ),
        (
            "return [Outcome({'keep': True})] * 2",
            "broke its contract: it returned 2 outcomes for 3 items. Correct its `answer`",
        ),
        (
            "t = await ctx.ask_packed(node, rows, rows.blocks(node)); return [*t, t[0]]",
            "broke its contract: it returned 4 outcomes for 3 items. Correct its `answer`",
        ),
        (
            "return rows.left.column('gone')",
            "raised KeyError: 'Field \"gone\" does not exist in schema'",
        ),
        ("raise ValueError", "raised ValueError"),
        (
            "return await ctx.ask_packed(node, rows, [[0, 1]])",
            "item 2 is in no block: put each item in one",
        ),
    ],
)
async def test_step_implementation_and_file_are_named(tmp_path: Path, body: str, said: str) -> None:
    file = write(tmp_path / "mine", "bad", body)
    with pytest.raises(EngineError) as error:
        await run(tmp_path, tmp_path / "mine", "bad")
    assert str(error.value).startswith(f"step leaking: Mine in {file}")
    assert said in str(error.value)


async def test_an_answer_that_is_no_coroutine_is_told(tmp_path: Path) -> None:
    file = write(tmp_path / "mine", "bad", "return rows.left")
    file.write_text(file.read_text().replace("async def answer", "def answer"))
    with pytest.raises(EngineError) as error:
        await run(tmp_path, tmp_path / "mine", "bad")
    assert (
        str(error.value) == f"step leaking: Mine in {file}: answer must be written with async def"
    )


async def test_a_blocked_event_loop_is_told_with_file_and_seconds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, busy = [0.0], [0.0, 0.0, 1.5]  # seconds; those that other processes had the processor
    monkeypatch.setattr(watching, "seconds_without_processor", lambda: busy.pop(0))
    monkeypatch.setattr(watching, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.append(clock.pop() + seconds))
    ask = "return await ctx.ask_packed(node, rows, rows.blocks(node))"
    file = write(tmp_path / "mine", "slow", f"time.sleep(7.5); {ask}")
    write(tmp_path / "mine", "good", f"await asyncio.sleep(0.01); {ask}")
    with caplog.at_level(logging.WARNING, "semgraph"):
        await run(tmp_path, tmp_path / "mine", "good")
        assert caplog.messages == []
        await run(tmp_path, tmp_path / "mine", "slow")
    (said,) = caplog.messages
    assert said.startswith(f"step leaking: Mine in {file} blocked the event loop for 6.0 s")
    assert said.endswith("compute in a thread: await asyncio.to_thread(...)")


async def test_what_there_is_is_said_of_an_unknown_implementation(tmp_path: Path) -> None:
    write(tmp_path / "mine", "good", "return None")
    with pytest.raises(PlanError) as error:
        await run(tmp_path, tmp_path / "mine", "cascde")
    assert "step leaking: " in str(error.value)
    assert (
        'unknown implementation "cascde" of sem_filter. Implementations: per_row, cascade(recall, precision, delta, sample, rows, proxy, role), good, '
        'logit(threshold, labels, split), lotus(reasoning), packed(rows), vote(samples, temperature). Did you mean "cascade"?'
        in str(error.value)
    )


async def test_a_file_that_fails_to_import_is_named_with_its_line(tmp_path: Path) -> None:
    file = write(tmp_path / "mine", "bad", "return None")
    file.write_text('"""No."""\n\nimport nothing_of_this_name\n')
    with pytest.raises(PlanError) as error:
        await run(tmp_path, tmp_path / "mine", "bad")
    assert (
        f"{file}:3: ModuleNotFoundError: No module named 'nothing_of_this_name'. Correct the file"
        in str(error.value)
    )


def test_shipped_implementations_import_what_authors_import() -> None:
    files = [
        one.file for operator in OPERATORS for one in LIBRARY.list(operator) if one.name != "lotus"
    ]  # a bridge
    assert len(files) > 15
    for file in files:
        lines = [
            line
            for line in file.read_text().splitlines()
            if line.strip().startswith(("from semgraph", "import semgraph"))
        ]
        assert lines, file
        assert all(line.split()[1] == "semgraph.operator" for line in lines), file
