"""What runs paid whose process died, from their journal and their records."""

from __future__ import annotations

import time
from pathlib import Path

from semgraph.execution.record import CallLog, RunRecord, timestamp
from semgraph.llm.base import Message, Reply, Request, Usage
from semgraph.llm.journal import Journal
from semgraph.session.sharded import paid_by


def request(text: str, step: str = "read") -> Request:
    return Request(role="", messages=(Message("user", text),), schema="{}", step=step)


def reply(call: str, **more) -> Reply:
    return Reply("{}", Usage(100, 40, 10), call_id=call, dollars=0.5, attempts=2, **more)


def log_of(folder: Path) -> CallLog:
    """The calls of a run that begins now."""
    record = RunRecord(folder)
    record.describe(started=timestamp())
    return CallLog(record, texts=False)


async def test_each_answer_of_lost_runs_is_counted_once(tmp_path: Path):
    journal = Journal(tmp_path / "journal.db")
    await journal.record(request("before"), reply("call0"), "model")
    first = log_of(tmp_path / "run-1")
    await journal.record(request("a"), reply("call1"), "model")
    first.add(request("a"), reply("call1"), time.time(), None)
    first.add(request("a"), reply("call1", origin="coalesced"), time.time(), None)
    first.add(request("b"), reply("call2"), time.time(), "refused")  # no journal keeps it
    first.flush()
    second = log_of(tmp_path / "run-2")
    second.add(request("a"), reply("call1", origin="journal"), time.time(), None)
    second.flush()
    await journal.record(request("c", "link"), reply("call3"), "model")  # not in its record yet
    journal.close()
    records = [tmp_path / "run-1", tmp_path / "run-2"]
    meter = paid_by(records, tmp_path / "journal.db")
    assert {name: step.calls_issued for name, step in meter.steps.items()} == {"read": 2, "link": 1}
    total = meter.total()
    assert (total.tokens_in, total.tokens_cached, total.tokens_out) == (300, 120, 30)
    assert (total.dollars, total.attempts) == (1.5, 5)  # a record has no attempts
    assert (total.calls_journal, total.calls_coalesced) == (0, 0)


def test_without_a_journal_the_records_count(tmp_path: Path):
    log = log_of(tmp_path / "run-1")
    log.add(request("a"), reply("call1"), time.time(), None)
    log.flush()
    assert paid_by([tmp_path / "run-1"], None).total().calls_issued == 1


def test_no_run_was_lost_or_none_began(tmp_path: Path):
    assert paid_by([], tmp_path / "journal.db").steps == {}
    assert paid_by([tmp_path / "run-1"], tmp_path / "journal.db").steps == {}
    assert not (tmp_path / "journal.db").exists()
