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

from semgraph.expr.types import Type
from semgraph.logical.prompt import Examples
from semgraph.logical.semantic import VERDICTS, Semantic
from semgraph.semantic.answers import Own, as_json, free_name
from semgraph.semantic.calls import NodeCalls
from semgraph.semantic.contract import cosines

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
    verdict = next((row[name] for name in VERDICTS.get(node.keyword, ())), None)
    if word:
        return ("No", "Yes")[verdict] if isinstance(verdict, bool) else f"{verdict * 9 / 100:.0f}"
    values = {name: as_json(kind, row[name]) for name, kind in node.answers}
    if node.keyword == "sem_join":
        values = {"match": verdict, **(values if verdict else dict.fromkeys(values))}
    for name, kind, _ in verdict_of(node, [*values]):
        values[name] = kind.values[not verdict] if kind.values else verdict
    return json.dumps(values, ensure_ascii=False)


async def nearest(
    ctx: NodeCalls, texts: Sequence[str], partition: str, examples: Examples
) -> list[list[int]]:
    """The nearest examples of each text; without an embedder the first ones, which cost as much."""
    if not ctx.embeds:
        return [[*range(len(examples.rows))][: examples.nearest]] * len(texts)
    known = await ctx.embed([json.loads(row)[examples.by] or "" for row in examples.rows])
    found = []
    for vector in await ctx.embed(texts, partition):
        same = known.shape[1] == len(vector)  # otherwise no text of one side has a vector
        near = np.nan_to_num(cosines(known, vector) if same else np.zeros(len(known)), nan=-2.0)
        found.append(np.argsort(-near.round(6), kind="stable")[: examples.nearest].tolist())
    return found
