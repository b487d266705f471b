"""Answers that do not meet the check of their operator."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.logical.relational import Input
from semgraph.logical.semantic import Answering, Check
from semgraph.relational.batch import Batch, values
from semgraph.relational.segments import column_of

_NO_MESSAGE = "it does not meet the check"


async def refused(
    node: Answering, check: Check, answers: pa.Table, beside: pa.Table, now: datetime | None
) -> dict[int, str]:
    """The answers that do not meet a check, by their places, each with its message.

    Errors are not judged, nor are pairs that do not match: they have no answers.

    Args:
        node: The operator.
        check: Its check.
        answers: The answers of an implementation.
        beside: What the check sees beside each of them.
        now: The value of `$now`.
    """
    places = _judged(node, answers)
    if not places:
        return {}
    source = _seen_by(node, check)
    columns = {
        name: (beside if name in beside.column_names else answers).column(name)
        for name in source.schema.names
    }
    rows = Batch.of_table(pa.table(columns).take(pa.array(places, pa.int64())))
    holds = (await column_of(check.where, source, rows, now, pa.bool_())).column("x")
    wrong = [i for i, value in enumerate(holds) if not value]
    if not wrong:
        return {}
    texts = (await column_of(check.message, source, rows.take(wrong), now, pa.string())).column("x")
    messages = [(text or "").strip().rstrip(".") or _NO_MESSAGE for text in texts]
    return {places[i]: message for i, message in zip(wrong, messages, strict=True)}


def _judged(node: Answering, answers: pa.Table) -> list[int]:
    """The places of the answers that a check judges."""
    errors = values(answers.column("error"))
    match = values(answers.column("match")) if node.keyword == "sem_join" else [True] * len(errors)
    return [i for i, error in enumerate(errors) if error is None and match[i]]


@lru_cache(maxsize=256)
def _seen_by(node: Answering, check: Check) -> Input:
    """The columns that a check reads, as a relation."""
    fields = [f for f in node.seen_by_check if f.name in check.roots]
    return Input(name="answers", columns=pa.schema(fields), step=node.step, origin=node.origin)


def with_refusals(answers: pa.Table, messages: dict[int, str]) -> pa.Table:
    """The answers, those at some places as errors."""
    refusals = pa.array([i in messages for i in range(answers.num_rows)])
    columns = {}
    for field in answers.schema:
        column = answers.column(field.name)
        if field.name == "error":
            texts = [
                f"check: {text}" if (text := messages.get(i)) else None for i in range(len(column))
            ]
            column = pc.coalesce(pa.chunked_array([texts], pa.string()), column)
        elif field.name not in {"item", "calls"}:
            column = pc.if_else(refusals, pa.scalar(None, field.type), column)
        columns[field.name] = column
    return pa.table(columns, schema=answers.schema)
