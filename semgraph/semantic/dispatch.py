"""Every semantic operator by its class; `answer` runs one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from semgraph.logical.semantic import SemAgg, Semantic, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.relational.batch import empty_table, runtime_schema
from semgraph.semantic.ask import Answered, Asking
from semgraph.semantic.groups import sem_agg, sem_topk
from semgraph.semantic.pairs import sem_join
from semgraph.semantic.rows import sem_filter, sem_map

_Answer = Callable[[Any, Sequence[pa.Table], Asking], Awaitable[Answered]]
_OPERATORS: Mapping[type[Semantic], _Answer] = {
    SemMap: sem_map,
    SemFilter: sem_filter,
    SemJoin: sem_join,
    SemAgg: sem_agg,
    SemTopk: sem_topk,
}


async def answer(node: Semantic, inputs: Sequence[pa.Table], asking: Asking) -> Answered:
    """Run one semantic operator over its inputs."""
    if not inputs[0].num_rows:
        return Answered(empty_table(runtime_schema(node)))
    return await _OPERATORS[type(node)](node, inputs, asking)
