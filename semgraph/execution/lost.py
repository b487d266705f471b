"""Counts what runs paid that ended without a result, because their process died."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from semgraph.execution.record import Run, read_calls
from semgraph.llm.base import Reply, Usage
from semgraph.llm.journal import Journal
from semgraph.meter import Meter
from semgraph.semantic.contract import count_reply


def paid_by(records: Sequence[Path], journal: Path | None) -> Meter:
    """The calls that lost runs issued, by step.

    The journal has each answer as it came. Their records have the answers that no journal keeps, as far
    as they were written: with each commit.

    Args:
        records: The records of the lost runs, the first one first.
        journal: Their journal, which no other run has used since the first one began; None: none was
            kept.

    Raises:
        SemgraphError: The journal cannot be read.
    """
    meter = Meter()
    began = min((run.started for run in map(Run, records) if run.started), default=None)
    if began is None:  # none of them sent a request
        return meter
    if journal is not None and journal.exists():
        opened = Journal(journal, keep_days=None)
        try:
            _count(meter, opened.issued_since(datetime.fromisoformat(began).timestamp()))
        finally:
            opened.close()
    lines = (line for folder in records for line in read_calls(folder))
    _count(meter, ((line["step"], _as_reply(line)) for line in lines if line["origin"] == "issued"))
    return meter


def _count(meter: Meter, replies: Iterable[tuple[str, Reply]]) -> None:
    """Count replies of steps that are not counted yet; ids of models may repeat among them."""
    counted = set(meter.paid)
    for step, reply in replies:
        if reply.call_id not in counted:
            count_reply(meter.step(step), reply)
            meter.paid.add(reply.call_id)


def _as_reply(line: dict[str, Any]) -> Reply:
    usage = Usage(line["tokens_in"], line["tokens_cached"], line["tokens_out"])
    return Reply("", usage, call_id=line["call"] or "", dollars=line["dollars"])
