'''The only module that authors of implementations need for a file
`operators/<operator>/<name>.py`.

A complete file, `my_ops/sem_join/sorted_block.py`; its fields are its parameters,
`sorted_block(rows=20)`:

    """Rows sorted by name share a call, so that rivals for one name are judged side by side."""
    from semgraph.operator import Context, Cost, Implementation, Observed, RowEstimate
    from semgraph.operator import Outcome, Rows, SemJoin, dataclass

    @dataclass(frozen=True)
    class SortedBlock(Implementation[SemJoin]):
        same = True  # the reference's answers, if the model is consistent
        rows: int = 12

        def estimate(self, node: SemJoin, rows: RowEstimate, seen: Observed | None) -> Cost:
            return Cost(calls=-(-rows.left // self.rows))

        async def answer(self, node: SemJoin, rows: Rows, ctx: Context) -> list[Outcome]:
            return await ctx.ask_packed(node, rows, rows.blocks(node, left=self.rows, order="name"))

The file decides which items share a call. The context numbers the records, cuts calls that exceed
the model's context, checks ids and types, repeats questions with wrong answers, and meters. The
engine handles `how`, `keep`, errors and assembly.

A file with its own prompts uses `ctx.request` and `ctx.ask`; `rows.only` selects items. A file of `cluster/` holds a
function over `Edges` and `Vectors` instead. `semgraph operators new` writes a first file, `semgraph
operators check` tests it.
'''

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from semgraph.errors import ModelUnavailable, RowError
from semgraph.expr.functions import alike, grams, key
from semgraph.llm.base import Limits, Reply, Request
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import SemAgg, Semantic, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.semantic.context import Context
from semgraph.semantic.contract import (
    Block,
    Cost,
    Item,
    Observed,
    Outcome,
    Part,
    Ranking,
    RowEstimate,
    Rows,
    column_texts,
    cosines,
    log_odds,
    queries,
    question_text,
    refuse_answers,
    refuse_check,
    row_texts,
)
from semgraph.semantic.implementation import Implementation, Packed, PerItem, tried
from semgraph.semantic.library import Edges, Vectors
from semgraph.semantic.verdicts import ByLogOdds, RankedGroup, Vote, normal, ranked

__all__ = [
    "Block", "ByLogOdds", "Context", "Cost", "Edges", "Implementation", "Item", "Limits", "ModelUnavailable",
    "Observed", "Outcome", "Packed", "Part", "PerItem", "Prompt", "RankedGroup", "Ranking", "Reply", "Request",
    "RowError", "RowEstimate", "Rows", "SemAgg", "SemFilter", "SemJoin", "SemMap", "SemTopk",
    "Semantic", "Vectors", "Vote", "alike", "column_texts", "cosines", "dataclass",
    "field", "grams", "key", "log_odds", "normal", "pa", "queries", "question_text", "ranked",
    "refuse_answers", "refuse_check", "row_texts", "tried",
]  # fmt: skip
