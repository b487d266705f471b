"""The rows with right answers that requests show: which ones, and their text.

An example is a request of the same form about a row of the examples, followed by the reply that
would be right. Rows that share a request show one block of examples. Nearest examples are those
with the nearest text by the embedder, on equal distance the earlier ones, in the order of the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from semgraph.expr.functions import canonical_json
from semgraph.expr.types import python_values
from semgraph.llm.base import Vectors
from semgraph.logical.prompt import Examples, Prompt, PromptSet
from semgraph.logical.semantic import Semantic, SemJoin
from semgraph.relational.batch import dense
from semgraph.semantic.calls import NodeCalls
from semgraph.semantic.contract import Rows


class Shown:
    """The examples of one prompt of a node, and a node with this prompt alone and without examples,
    whose rows they are.
    """

    def __init__(self, node: Semantic, own: Prompt, examples: Examples) -> None:
        self.examples = examples
        self.values: list[dict[str, Any]] = [json.loads(row) for row in examples.rows]
        self.node = replace(node, prompt=PromptSet((("", replace(own, shown=None)),)))
        count = len(self.values)
        items: dict[str, list[int]] = {"group": [0] * count} if node.keyword == "sem_topk" else {}
        left, items["left"] = self._side(own.fields)
        right = None
        if isinstance(node, SemJoin):
            right, items["right"] = self._side(own.other_fields, f"{node.alias}.")
        self.rows = Rows(left, right, pa.table(items), [""] * count, [0] * count)

    def _side(self, paths: Sequence[str], prefix: str = "") -> tuple[pa.Table, list[int]]:
        """The distinct rows of one side, and the number of the row of each example."""
        rows = [[row[prefix + path] for path in paths] for row in self.values]
        numbers, first = dense(list(map(canonical_json, rows)))
        columns = {path: pa.array([rows[n][i] for n in first]) for i, path in enumerate(paths)}
        table = pa.table(columns) if columns else pa.table({"_": pa.nulls(len(first))}).select([])
        return table, numbers

    @property
    def texts(self) -> list[str]:
        """The texts by which they are near."""
        return [row[self.examples.by] or "" for row in self.values]


@lru_cache(maxsize=64)
def shown_of(node: Semantic) -> Mapping[int, Shown]:
    """The examples of a node, by the number of their prompt."""
    prompts = enumerate(node.prompt.all)
    return {n: Shown(node, each, each.shown) for n, each in prompts if each.shown is not None}


async def nearest(
    ctx: NodeCalls, rows: Rows, lefts: Iterable[int], shown: Shown
) -> dict[int, list[int]]:
    """The nearest examples of left rows; without an embedder the first ones, which cost as much.
    Texts are embedded partition by partition.
    """
    if not ctx.embeds:
        return dict.fromkeys(lefts, list(range(len(shown.values)))[: shown.examples.nearest])
    of: dict[str, list[int]] = {}
    for left in lefts:
        of.setdefault(rows.partition[left], []).append(left)
    texts, examples = python_values(rows.left.column(shown.examples.by)), shown.texts
    found: dict[int, list[int]] = {}
    for partition, own in of.items():
        vectors = await ctx.embed([texts[left] or "" for left in own], partition)
        order = _by_distance(vectors, await ctx.embed(examples))
        found |= zip(own, order[:, : shown.examples.nearest].tolist(), strict=True)
    return found


def _by_distance(vectors: Vectors, examples: Vectors) -> Any:
    """For each vector the examples, nearest first; those without a vector come last."""
    if vectors.shape[1] != examples.shape[1]:  # no text of one side has a vector
        return np.tile(np.arange(len(examples)), (len(vectors), 1))
    one, other = (
        each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-12)
        for each in (vectors, examples)
    )
    cosines = np.nan_to_num(one @ other.T, nan=-2.0)
    return np.argsort(-cosines.round(6), axis=1, kind="stable")
