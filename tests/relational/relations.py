"""Small relations and the evaluation of one relational node over them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from semgraph.logical.node import Node
from semgraph.logical.relational import Input
from semgraph.relational.batch import runtime_schema
from semgraph.relational.segments import compile_segment, execute, plan_segments


def relation(name: str, columns: Mapping[str, pa.DataType], *, windowed: bool = False) -> Input:
    """An input to build nodes on."""
    return Input(name=name, columns=pa.schema(list(columns.items())), windowed=windowed)


def rows_of(node: Node, **tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a node over the given rows of its inputs, hidden columns left out."""
    segment = compile_segment(node, plan_segments([node]))
    given = {}
    for name, source in segment.inputs:
        assert isinstance(source, Input)
        given[name] = pa.Table.from_pylist(tables[source.name], schema=runtime_schema(source))
    table = asyncio.run(execute(segment.sql, given, runtime_schema(node)))
    return table.select(node.schema.names).to_pylist()
