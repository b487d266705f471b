"""What goes wrong with one row, one group, one model or one purse stays there, and is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.world import Fault, Faults
from semgraph.errors import ModelUnavailable
from semgraph.llm.stack import RetryPolicy
from tests.execution.conftest import STORY, Poison, Watched, Work, said, variant

BAD = "Mallory(user): I work at Nox."


def with_bad(count: int, place: int, group: str = "g") -> list[dict[str, Any]]:
    """Messages of a group, one of which the model does not answer."""
    texts = STORY[:count]
    texts.insert(place, BAD)
    return said(texts, group)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other at once."""
    monkeypatch.setattr(RetryPolicy, "wait", lambda self, attempt: 0.0)


async def texts_of(work: Work) -> list[str]:
    return sorted(row["content"] for row in (await work.place.dump())["Episodic"].values())


@pytest.mark.parametrize("kind", ["refusal", "prose", "truncated", "500", "drop"])
async def test_a_row_that_gets_no_answer_is_set_aside_and_the_others_are_committed(
    simple: Work, kind: str
) -> None:
    simple.model.poison(kind, BAD)
    episodes = with_bad(4, 2)
    result = await simple.run(episodes)
    assert (result.committed, result.exit_code) == (4, 3)
    assert {(f.input_row, f.row["content"]) for f in result.failed} == {(2, BAD)}
    assert {f.step for f in result.failed} <= {"read/mentions", "read/facts"}
    names = {row["name"] for row in (await simple.place.dump())["Entity"].values()}
    assert names == {"Ann", "Luma", "Rome", "Ben"}
    assert await texts_of(simple) == sorted(row["content"] for row in episodes), (
        "the text of a failed row is stored"
    )


async def test_failed_rows_are_kept_as_they_were_given_and_can_be_given_again(simple: Work) -> None:
    simple.model.poison("refusal", BAD)
    episodes = with_bad(3, 1)
    episodes[1] |= {"name": "one", "source": "message", "uuid": None}
    first = await simple.run(episodes)
    assert first.record is not None
    lines = (first.record / "failed.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    ((row, step, error),) = [(r, r.pop("_step"), r.pop("_error")) for r in rows]
    assert row == {
        "group_id": "g", "content": BAD, "valid_at": "2025-01-15T09:01:00Z", "name": "one", "source": "message",
        "source_description": None, "uuid": None, "previous": None, "saga": None, "follows": None,
    }  # fmt: skip
    assert step in {"read/mentions", "read/facts"}
    assert "refused" in error
    simple.model.poison("refusal", "nothing like it")
    second = await simple.run([row])
    assert (second.committed, second.exit_code, second.keys) == (1, 0, first.keys[1:2])
    assert "Mallory" in {row["name"] for row in (await simple.place.dump())["Entity"].values()}
    assert (await simple.run(episodes)).skipped == 4


async def test_a_row_that_fails_where_windows_meet_the_graph_is_set_aside_too(work: Work) -> None:
    """A verdict that is refused, not an extraction: other windows of the wave are not lost."""
    episodes = [*said(STORY[:3], "a"), *said(STORY[:3], "b")]
    bad = STORY[2].replace("Luma", "Nox")
    episodes[2]["content"] = bad
    episodes[1]["content"] = "Ann(user): I know Nox."
    work.model.faults = _verdicts_about(work.model, "Nox")
    result = await work.run(episodes)
    failed = {f.row.get("content") or f.row.get("fact") for f in result.failed}
    assert failed
    assert result.exit_code == 3
    assert result.committed == 6 - len({f.input_row for f in result.failed})
    graph = await work.place.dump(group="b")
    assert len(graph["RELATES_TO"]) == 3


def _verdicts_about(model: Watched, text: str) -> Any:
    return Poison(
        model=model,
        kind="refusal",
        hits=lambda body: (
            "verdict" in str(body["response_format"]) and text in body["messages"][-1]["content"]
        ),
    )


async def test_on_error_stop_ends_its_group_alone(simple: Work, tmp_path: Path) -> None:
    simple.model.poison("refusal", BAD)
    plan = variant(tmp_path, ("size: $window", "size: $window, on_error: stop"))
    episodes = [*with_bad(3, 1, "a"), *said(STORY[:3], "b")]
    result = await simple.run(episodes, plan=plan)
    assert result.exit_code == 1
    assert result.notes == ('group "a" stopped: a row of it failed',)
    graph = await simple.place.dump()
    written = {
        group: sum(m["group_id"] == group for m in graph["MENTIONS"].values())
        for group in ("a", "b")
    }
    assert result.committed == 4
    assert written["a"] < written["b"]
    simple.model.poison("refusal", "nothing like it")
    again = await simple.run(episodes, plan=plan)
    assert (again.skipped, again.committed, again.exit_code) == (4, 3, 0)
    assert len((await simple.place.dump(group="a"))["Episodic"]) == 4


async def test_a_model_that_is_not_there_costs_no_text(simple: Work) -> None:
    episodes = said(STORY[:3])
    with pytest.raises(ModelUnavailable) as raised:
        await simple.run(episodes, session={"llm": "openai:gpt-4.1-mini@http://127.0.0.1:9/v1"})
    assert raised.value.exit_code == 5
    assert STORY[0] in await texts_of(simple)
    (record,) = simple.records
    assert (record["status"], record["members"]["committed"]) == ("failed", 0)
    assert "127.0.0.1:9" in record["why"]
    result = await simple.run(episodes)
    assert (result.committed, result.exit_code) == (3, 0)


async def test_a_purse_that_is_empty_ends_a_run_which_another_takes_up(simple: Work) -> None:
    episodes = said(STORY[:6])
    first = await simple.run(episodes, session={"max_calls": 8})
    assert first.exit_code == 4
    assert first.stopped is not None
    assert "max_calls 8" in first.stopped
    assert len(simple.model.requests) == first.meter.total().calls_issued == 8
    graph = await simple.place.dump()
    complete = [
        e
        for e in graph["Episodic"].values()
        if any(m["source"] == e["uuid"] for m in graph["MENTIONS"].values())
    ]
    assert len(complete) == first.committed > 0
    assert simple.records[0]["status"] == "budget"
    second = await simple.run(episodes)
    assert (second.skipped, second.committed, second.exit_code) == (
        first.committed,
        6 - first.committed,
        0,
    )
    total = len(simple.model.requests)
    async with Watched() as whole:
        await Work(whole, simple.place, simple.folder / "again").run(said(STORY[:6], "h"))
    assert total == len(whole.requests), "what was paid before the stop was not paid again"


async def test_on_error_null_keeps_rows_without_answers(simple: Work) -> None:
    simple.model.poison("refusal", BAD)
    result = await simple.run(with_bad(2, 1), on_error="null")
    assert (result.committed, result.failed, result.exit_code) == (3, (), 0)
    assert result.meter.step("read/mentions").rows_failed == 1


async def test_faults_that_pass_change_nothing_but_the_attempts(simple: Work) -> None:
    await simple.run(said(STORY[:4], "plain"))
    plain = await simple.place.dump(group="plain")
    simple.model.reset()
    simple.model.faults = Faults(
        (
            Fault("429", 0.2, retry_after=0.0),
            Fault("500", 0.1),
            Fault("drop", 0.1),
            Fault("prose", on=(2,)),
        ),
        seed=3,
    )
    result = await simple.run(said(STORY[:4], "plagued"), session={"journal": False})
    assert (result.committed, result.failed) == (4, ())
    assert result.meter.total().attempts > result.meter.total().calls_issued
    plagued = await simple.place.dump(group="plagued")
    assert {k: len(v) for k, v in plagued.items()} == {k: len(v) for k, v in plain.items()}
