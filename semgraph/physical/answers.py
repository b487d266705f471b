"""Tables of answers: from outcomes to what an implementation returns, and the check of what it returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import EngineError
from semgraph.logical.semantic import Semantic
from semgraph.physical.contract import SCORE, Outcome, Rows, answer_schema, verdict_field
from semgraph.physical.watching import named


def answer_table(node: Semantic, outcomes: Sequence[Outcome], *, scored: bool = False) -> pa.Table:
    """The table that `answer` returns, from an outcome for each item (for sem_agg: for each group), in order.

    `scored`: what outcomes have under `score` is kept beside the verdicts, for sem_filter and sem_join.
    """
    schema = answer_schema(node)
    columns: list[pa.Array[Any]] = [pa.array(range(len(outcomes)), pa.int64())]
    for i in range(1, len(schema) - 2):
        field = schema.field(i)
        values = [None if o.values is None else o.values.get(field.name) for o in outcomes]
        columns.append(pa.array(values, field.type))
    columns.append(pa.array([o.error for o in outcomes], pa.string()))
    columns.append(pa.array([list(o.calls) for o in outcomes], pa.list_(pa.string())))
    table = pa.Table.from_arrays(columns, schema=schema)
    if not scored:
        return table
    scores = [None if o.values is None else o.values.get(SCORE) for o in outcomes]
    return table.append_column(pa.field(SCORE, pa.float64()), pa.array(scores, pa.float64()))


def outcomes(node: Semantic, table: pa.Table) -> list[Outcome]:
    """The outcomes in a table of answers, by item: the reverse of `answer_table`."""
    names = [f.name for f in answer_schema(node)][1:-2]
    return [
        Outcome(None if row["error"] else {name: row[name] for name in names}, row["error"], tuple(row["calls"]))
        for row in table.sort_by("item").to_pylist()
    ]


def check_answer(node: Semantic, rows: Rows, table: pa.Table, implementation: object = None) -> None:
    """Check what an implementation returned; `implementation` is named in the error, with its file.

    Raises:
        EngineError: Another schema, an item missing, foreign or twice, an item with neither verdict nor error.
    """
    wanted = answer_schema(node)
    wrong = None
    if not isinstance(table, pa.Table):
        wrong = f"it returned a {type(table).__name__}, not a pyarrow.Table"
    elif not table.schema.equals(wanted) and not _scored(node, table):
        wrong = f"it returned columns ({_columns(table.schema)}), expected ({_columns(wanted)})"
    else:
        wrong = _wrong_items(node, rows, table.column("item").to_pylist()) or _no_verdict(node, table)
    if wrong:
        who = "its implementation" if implementation is None else named(implementation)
        raise EngineError(f"step {node.step}: {who} broke its contract: {wrong}. Correct its `answer`")


def _scored(node: Semantic, table: pa.Table) -> bool:
    return node.keyword in {"sem_filter", "sem_join"} and table.schema.equals(answer_schema(node, scored=True))


def _wrong_items(node: Semantic, rows: Rows, items: Sequence[Any]) -> str | None:
    count = len(rows.groups()) if node.keyword == "sem_agg" else rows.items.num_rows
    seen = Counter(items)
    missing = [i for i in range(count) if i not in seen]
    odd = [i for i, n in seen.items() if n > 1 or i is None or not 0 <= i < count]
    if not missing and not odd:
        return None
    parts = [f"missing: {_some(missing)}"] * bool(missing) + [f"twice or unknown: {_some(odd)}"] * bool(odd)
    return f"each of the {count} items must come once; {'; '.join(parts)}"


def _no_verdict(node: Semantic, table: pa.Table) -> str | None:
    verdict = verdict_field(node)
    if verdict is None:
        return None
    bare = pc.and_(pc.is_null(table.column("error")), pc.is_null(table.column(verdict.name)))
    item = pc.index(bare, True).as_py()
    return None if item < 0 else f'item {table.column("item")[item].as_py()} has neither "{verdict.name}" nor an error'


def _some(items: Sequence[Any]) -> str:
    return ", ".join(map(str, items[:5])) + (", ..." if len(items) > 5 else "")


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{schema.field(i).name}: {schema.field(i).type}" for i in range(len(schema)))
