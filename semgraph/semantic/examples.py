"""The rows with right answers that requests show: their right replies, and the nearest of them.

An example is a row in the words of a request about one item, followed by the reply that would be
right. Nearest examples are those with the nearest text by the embedder, on equal distance the
earlier ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from semgraph.expr.types import Type
from semgraph.logical.semantic import VERDICTS, Semantic
from semgraph.semantic.answers import Own, as_json, free_name
from semgraph.semantic.calls import NodeCalls
from semgraph.semantic.contract import Rows, by_key, column_texts, cosines

_REPLY_FIELDS = {
    # Small models understand yes and no, but misread a boolean called "keep" as advice about the
    # row.
    "sem_filter": ("answer", Type("enum", values=("yes", "no")), ""),
    "sem_topk": (
        "score",
        Type("double"),
        "how well it fits, from 0 (not at all) to 100 (perfectly)",
    ),
}


def verdict_of(node: Semantic, taken: Sequence[str]) -> list[Own]:
    """The verdict field of the operator. Answers precede it, so that a model reasons before it
    decides.
    """
    if node.keyword not in _REPLY_FIELDS:
        return []
    name, kind, meaning = _REPLY_FIELDS[node.keyword]
    return [(free_name(name, taken), kind, meaning)]


def right_reply(node: Semantic, row: Mapping[str, Any], *, word: bool) -> str:
    """The right reply about an example: one word, or JSON in the order of a sketch."""
    verdict: Any = row.get(VERDICTS.get(node.keyword, ""))
    if word:
        return ("No", "Yes")[verdict] if isinstance(verdict, bool) else f"{verdict * 9 / 100:.0f}"
    values = {name: as_json(kind, row[name]) for name, kind in node.answers}
    if node.keyword == "sem_join":
        values = {"match": verdict, **(values if verdict else dict.fromkeys(values))}
    for name, kind, _ in verdict_of(node, [*values]):
        values[name] = kind.values[not verdict] if kind.values else verdict
    return json.dumps(values, ensure_ascii=False)


async def nearest(ctx: NodeCalls, node: Semantic, rows: Rows) -> dict[int, list[int]]:
    """The nearest examples of left rows; without an embedder the first ones, which cost as much."""
    found: dict[int, list[int]] = {}
    places = dict.fromkeys(rows.lefts)
    for own in by_key(places, lambda left: (rows.partition[left], rows.prompt[left])):
        shown = node.prompt.all[rows.prompt[own[0]]].shown
        if shown is None or not shown.nearest:
            continue
        order = np.tile(np.arange(len(shown.rows)), (len(own), 1))
        if ctx.embeds:
            texts = column_texts(rows.left.take(pa.array(own, pa.int64())), shown.by)
            known = await ctx.embed([json.loads(row)[shown.by] or "" for row in shown.rows])
            vectors = await ctx.embed(texts, rows.partition[own[0]])
            if known.shape[1] == vectors.shape[1]:  # else no text of one side has a vector
                near = np.nan_to_num([cosines(known, vector) for vector in vectors], nan=-2.0)
                order = np.argsort(-near.round(6), axis=1, kind="stable")
        found |= zip(own, order[:, : shown.nearest].tolist(), strict=True)
    return found
