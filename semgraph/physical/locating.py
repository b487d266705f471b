"""Which operator of a segment cannot compute with its rows: a statement is of many, and DuckDB does not say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import duckdb
import pyarrow as pa

from semgraph.errors import DataError
from semgraph.logical.node import Node
from semgraph.physical.relational import Segment, compile_segment, execute, runtime_schema

Rows = Callable[[Sequence[Node]], Awaitable[list[pa.Table]]]
_HINTS: dict[type[duckdb.Error], str] = {
    duckdb.ConversionException: "where x is not of that form, try_cast(x AS TYPE) gives NULL",
    duckdb.OutOfRangeException: "compute with larger numbers: CAST(x AS DOUBLE)",
}
_HINT = "leave such rows out in a step before, or say what they give: CASE WHEN ... THEN ... END"


async def placed(
    error: DataError, node: Node, segments: Mapping[int, Segment], rows: Rows, now: datetime | None
) -> DataError:
    """The error with its place: the node's, or that of the operator of its segment that fails first.

    Args:
        error: What was raised.
        node: What was computed.
        segments: The statements of nodes, by `id`.
        rows: Gives the rows of nodes that are computed.
        now: The value of `$now`.
    """
    if error.problem.position is not None or not isinstance(error.__cause__, duckdb.Error):
        return error.at(node.step, node.origin)
    segment = segments.get(id(node))
    if segment is not None:
        names = {id(source): name for name, source in segment.inputs}
        tables = await rows([source for _, source in segment.inputs])
        named = dict(zip(names.values(), tables, strict=True))
        node, error = await _first_to_fail(_operators(node, names), names, named, now) or (node, error)
    cause = error.__cause__
    hint = next((hint for kind, hint in _HINTS.items() if isinstance(cause, kind)), _HINT)
    what = f"{node.keyword} cannot compute with its rows" if node.step else "what is to be written cannot be computed"
    return DataError(f"{what}: {str(cause).splitlines()[0]}", step=node.step, position=node.origin, hint=hint)


def _operators(node: Node, given: Mapping[int, str]) -> Iterator[Node]:
    """What the statement computes, inputs before what reads them."""
    for child in node.inputs:
        if id(child) not in given:
            yield from _operators(child, given)
    if node.inputs:
        yield node


async def _first_to_fail(
    parts: Iterable[Node], names: Mapping[int, str], tables: Mapping[str, pa.Table], now: datetime | None
) -> tuple[Node, DataError] | None:
    for part in parts:
        own = compile_segment(part, names)
        try:
            await execute(own.sql, {name: tables[name] for name, _ in own.inputs}, runtime_schema(part), now)
        except DataError as error:
            return part, error
    return None
