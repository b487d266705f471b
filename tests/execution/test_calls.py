"""The calls of a run in its record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from semgraph.errors import RowError
from semgraph.execution.record import CallLog, RunRecord, as_exchange, noted, read_calls
from semgraph.llm.base import LLM, Limits, Message, Reply, Request, Usage, Wrapper
from semgraph.llm.stack import Roles


class Answers(Wrapper):
    """A model that gives one answer, or one error."""

    def __init__(self, reply: Reply | RowError) -> None:
        self.reply = reply

    limits = Limits()  # type: ignore[assignment]

    async def complete(self, request: Request) -> Reply:
        if isinstance(self.reply, RowError):
            raise self.reply
        return self.reply


def asked(step: str = "told", role: str = "default") -> Request:
    return Request(
        role, (Message("system", "rules"), Message("user", "who? \ud83d")), "{}", step=step
    )


ISSUED = Reply('{"a": 1}', Usage(10, 2, 3), seconds=1.5, call_id="c1", model="m", dollars=0.5)


async def logged(
    folder: Path, llm: LLM, *requests: Request, texts: bool = True
) -> list[dict[str, object]]:
    log = CallLog(RunRecord(folder), texts)
    model = noted(llm, log.add)
    for request in requests:
        await model.complete(request)
    log.flush()
    return read_calls(folder)


async def test_a_call_is_entered_with_its_time_its_step_and_what_it_took(tmp_path: Path) -> None:
    (line,) = await logged(tmp_path, Answers(ISSUED), asked())
    assert line["call"] == "c1"
    assert (line["step"], line["origin"], line["model"], line["error"]) == (
        "told",
        "issued",
        "m",
        None,
    )
    assert (line["tokens_in"], line["tokens_cached"], line["tokens_out"], line["dollars"]) == (
        10,
        2,
        3,
        0.5,
    )
    assert line["seconds"] == 1.5
    assert 0 <= line["took"] < 60  # type: ignore[operator]


async def test_text_that_the_journal_has_is_not_kept_twice(tmp_path: Path) -> None:
    (line,) = await logged(tmp_path, Answers(ISSUED), asked())
    assert "messages" not in line
    assert as_exchange(line) is None


async def test_what_is_replayed_is_kept_with_its_text(tmp_path: Path) -> None:
    replayed = Reply('{"a": 1}', call_id="c2", model="m", attempts=0)
    (line,) = await logged(tmp_path, Answers(replayed), asked())
    assert line["origin"] == "recording"
    found = as_exchange(line)
    assert found is not None
    assert [m.content for m in found.request.messages] == ["rules", "who? \ud83d"]
    assert found.reply.text == '{"a": 1}'


async def test_without_a_journal_no_text_is_kept(tmp_path: Path) -> None:
    replayed = Reply("secret", call_id="c2", attempts=0)
    (line,) = await logged(tmp_path, Answers(replayed), asked(), texts=False)
    assert "secret" not in json.dumps(line)
    assert "who?" not in json.dumps(line)


async def test_a_call_that_fails_is_entered_and_the_error_goes_on(tmp_path: Path) -> None:
    log = CallLog(RunRecord(tmp_path), texts=True)
    with pytest.raises(RowError):
        await noted(Answers(RowError("refused", "I would rather not say")), log.add).complete(
            asked()
        )
    log.flush()
    (line,) = read_calls(tmp_path)
    assert line["origin"] is None
    assert "rather not" in line["error"]
    assert line["messages"][1] == ["user", "who? \ud83d"]


async def test_models_stay_bound_to_their_roles(tmp_path: Path) -> None:
    small = Reply("{}", call_id="small", model="s")
    roles = Roles(Answers(ISSUED), small=Answers(small))
    lines = await logged(tmp_path, roles, asked(), asked(role="small"))
    assert [line["call"] for line in lines] == ["c1", "small"]


def test_a_run_of_before_has_no_calls(tmp_path: Path) -> None:
    assert read_calls(tmp_path) == []
