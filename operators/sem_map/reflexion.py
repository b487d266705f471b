"""Answers each row, then reviews the answer and merges corrections.

A round is a second question about the current answer: the prompt's section `# reflexion`, or a
general one. The reply is added to lists (records that differ only in case or white space are one)
and replaces all other values. A row has up to `rounds` rounds, as long as each changes something;
most rows end after one.

Source: the reflexion loops of Graphiti (up to three rounds over extracted nodes and edges), which
repeat the whole question and name the missed entries; here the second reply has only new entries, so
that earlier ones are neither lost nor paid twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import semgraph.operator as op


@dataclass(frozen=True)
class Reflexion(op.Implementation[op.SemMap]):
    """One call for each row, and one for each round of a row. A row with a failed round is an
    error.
    """

    same = False
    rounds: int = op.tried(1, 2, default=1)

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= 3:
            raise ValueError("rounds must be from 1 to 3")

    def estimate(self, node: op.SemMap, rows: op.RowEstimate, seen: op.Observed | None) -> op.Cost:
        """At most a call for each row and round; rounds are sequential."""
        calls = rows.items * (1 + self.rounds)
        return op.Cost.of_items(calls, calls, seen)._replace(
            rounds=1 + self.rounds, least=rows.items
        )

    async def answer(self, node: op.SemMap, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """Send each row alone, then its answer."""
        answers = await ctx.ask_packed(node, rows, ([item] for item in range(len(rows.items))))
        open_items = [item for item, outcome in enumerate(answers) if outcome.error is None]
        for _ in range(self.rounds):
            reviews = await ctx.ask_reviews(
                node, rows, {item: answers[item] for item in open_items}
            )
            changed = []
            for item, review in reviews.items():
                before = answers[item]
                answers[item] = merged(node, before, review)
                if answers[item].error is None and answers[item].values != before.values:
                    changed.append(item)
            open_items = changed
        return answers


def merged(node: op.SemMap, answer: op.Outcome, review: op.Outcome) -> op.Outcome:
    """An answer merged with its review: lists are extended, all other values are replaced."""
    calls = (*answer.calls, *review.calls)
    if review.values is None or answer.values is None:
        return op.Outcome(None, review.error, calls)
    values = dict(answer.values)
    for name, kind in node.answers:
        change = review.values[name]
        values[name] = _united(answer.values[name], change) if kind.item is not None else change
    return op.Outcome(values, None, calls)


def _united(records: list[Any] | None, more: list[Any] | None) -> list[Any] | None:
    if records is None or more is None:
        return more if records is None else records
    known, new = set(map(op.normal, records)), dict[Any, Any]()
    for record in more:
        new.setdefault(op.normal(record), record)
    return [*records, *(record for name, record in new.items() if name not in known)]
