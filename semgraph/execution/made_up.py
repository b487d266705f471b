"""A first request about rows that are not there yet: the names of columns stand for their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from semgraph.logical.semantic import Semantic
from semgraph.physical.context import NodeContext
from semgraph.physical.contract import Implementation, Part, Rows

_TWO = 2  # rows: enough to show what several of them in one call look like


async def ask_of_names(node: Semantic, way: Implementation[Any], ctx: NodeContext) -> None:
    """Ask about two made-up rows (pairs of them, a group of them) as a way does."""
    await way.answer(node, _rows(node), ctx)


async def ask_of_one(node: Semantic, ctx: NodeContext) -> None:
    """Ask about one made-up row, pair or group in the prompt's own words, whatever the way."""
    rows = _rows(node)
    if node.keyword == "sem_agg":
        await ctx.ask_groups(node, rows, [Part(0, range(_TWO))])
    else:
        await ctx.ask_packed(node, rows, [[item] for item in range(rows.items.num_rows)])


def _rows(node: Semantic) -> Rows:
    numbers = list(range(_TWO))
    right = None
    columns: dict[str, list[int]] = {"left": numbers}
    if node.keyword == "sem_join":
        right = _named(node.prompt.other_fields, f"{getattr(node, 'alias', '')}.")
        columns = {"left": [left for left in numbers for _ in numbers], "right": numbers * _TWO}
    elif node.keyword in {"sem_agg", "sem_topk"}:
        columns = {"group": [0] * _TWO, "left": numbers}
    items = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    return Rows(_named(node.prompt.fields), right, items, [""] * _TWO, [0] * _TWO)


def _named(paths: Sequence[str], prefix: str = "") -> pa.Table:
    if not paths:
        return pa.table({"_": pa.array([None] * _TWO, pa.null())}).select([])
    return pa.table({path: pa.array([f"<{prefix}{path}>"] * _TWO, pa.string()) for path in paths})
