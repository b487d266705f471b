"""SemBench's movies: reviews that a critic marked as positive or negative, filtered and joined by the
conditions of its queries.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa

from benchmarks.frame import Unmeasured
from benchmarks.quality.labelled import Verdicts, as_input, one_prompt
from benchmarks.quality.public import SOURCES
from semgraph.logical.semantic import SemFilter, SemJoin
from semgraph.semantic.contract import Item, Rows

FILTER, JOIN = "sem_filter, 100 reviews", "sem_join, 10 x 10 reviews"
WAYS = {FILTER: ("per_row", "packed(rows=10)", "logit"), JOIN: ("nested_loop", "block", "logit")}
"""Implementations by part."""
_REVIEWS, _SIDE = 100, 10
_JOINED = "ant_man_and_the_wasp_quantumania"
_POSITIVE = "The review is clearly positive: {reviewText}"
_OPPOSITE = (
    "These two movie reviews express opposite sentiments - one is positive and the other is negative. "
    "Review 1: {reviewText} Review 2: {r2.reviewText}"
)


def load(part: str, folder: Path | None) -> Verdicts:
    """The first reviews of the file (Q1 without its limit), or all pairs of the first reviews of a
    movie (Q7: both orders, no review with itself).

    Raises:
        Unmeasured: The file is missing, or not of this form.
    """
    source = SOURCES["reviews"]
    path = source.within(folder)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return _filtered(rows[:_REVIEWS]) if part == FILTER else _joined(rows)
    except (ValueError, LookupError, TypeError) as error:
        why = f"{path} is not {source.name} as published: {type(error).__name__} {error}"
        raise Unmeasured(f"{why}. Get it anew from {source.url}") from None


def _positive(row: dict[str, str]) -> bool:
    return {"POSITIVE": True, "NEGATIVE": False}[row["scoreSentiment"]]


def _texts(rows: list[dict[str, str]]) -> pa.Table:
    _positive(rows[0])  # raises where there is no review
    return pa.table({"reviewText": [row["reviewText"] for row in rows]})


def _filtered(rows: list[dict[str, str]]) -> Verdicts:
    texts = _texts(rows)
    items = Rows(
        texts, None, [Item(row) for row in range(len(rows))], [""] * len(rows), [0] * len(rows)
    )
    node = SemFilter(prompt=one_prompt(_POSITIVE), input=as_input("reviews", texts), step="reviews")
    return Verdicts(node, items, [_positive(row) for row in rows])


def _joined(rows: list[dict[str, str]]) -> Verdicts:
    own = [row for row in rows if row["id"] == _JOINED][:_SIDE]
    texts = _texts(own)
    pairs = [(a, b) for a in range(len(own)) for b in range(len(own)) if a != b]
    sides = [Item(*pair) for pair in pairs]
    items = Rows(texts, texts, sides, [""] * len(pairs), [0] * len(pairs))
    node = SemJoin(
        prompt=one_prompt(_OPPOSITE), alias="r2", step="reviews", input=as_input("reviews", texts),
        other=as_input("others", texts),
    )  # fmt: skip
    return Verdicts(node, items, [_positive(own[a]) != _positive(own[b]) for a, b in pairs])
