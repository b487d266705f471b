"""The truth of a compared step: which of its columns name a row, and which say what is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.errors import Fault, PlanError, Problem, did_you_mean
from semgraph.execution.comparison_rows import Said, said
from semgraph.expr.types import Type, type_of_arrow
from semgraph.frontend.rows import check_rows, columns_of
from semgraph.logical.plan import InputSpec
from semgraph.logical.semantic import SemAgg, Semantic, SemJoin, SemMap

VERDICTS = {"sem_filter": "keep", "sem_join": "match"}


@dataclass(frozen=True)
class Columns:
    """What is compared: paths of the columns that name a row, and of those that are its answer."""

    key: tuple[str, ...]
    compare: tuple[str, ...]


@dataclass(frozen=True)
class Truth:
    """True rows, by the paths of the step's columns; `closed`: a row that the truth does not have should have no answer."""

    columns: Columns
    rows: pa.Table
    closed: bool
    source: str = "truth"
    notes: tuple[str, ...] = ()

    def answers(self) -> Said:
        """What is true of each row."""
        return said(self.rows, self.columns.key, self.columns.compare)


def whole_rows(node: Semantic) -> Columns:
    """How rows are compared where there is no truth: named by all that they were before, answered by all that is new."""
    if isinstance(node, SemAgg):
        return Columns(node.by, tuple(name for name, _ in node.answers))
    own = {f.name for f in node.inputs[0].schema}
    vectors = {f.name for f in node.schema if pa.types.is_fixed_size_list(f.type)}
    key = tuple(f.name for f in node.inputs[0].schema if f.name not in vectors)
    new = tuple(f.name for f in node.schema if f.name not in own and f.name not in vectors and f.name != "score")
    return Columns(key, new)


def read_truth(node: Semantic, given: Any) -> Truth:
    """The truth as the step's columns have it; nothing of the rows needs to be known.

    Args:
        node: The step.
        given: A file, an Arrow table, a pandas frame, or mappings.

    Raises:
        PlanError: It has no column that names a row, or none to compare.
        InputError: Its values are not of the columns' types.
    """
    source = str(given) if isinstance(given, (str, Path)) else "truth"
    rows = _rows(given)
    try:
        columns, _ = columns_of(rows)
    except Fault as fault:
        raise PlanError(Problem(f"the truth {fault.what}", hint=fault.hint)) from None
    kinds = dict(_paths(node.schema))
    verdict = VERDICTS.get(node.keyword, "")
    found = {name: path for name in columns if (path := _path(name, kinds, node)) is not None}
    before = set(node.by) if isinstance(node, SemAgg) else {f.name for f in node.inputs[0].schema}
    key = tuple(path for path in found.values() if path.split(".")[0] in before)
    compare = tuple(path for path in found.values() if path not in key)
    says = verdict in columns and verdict not in found
    _check(node, list(columns), key, compare, source, says=says)
    spec = [(name, replace(kinds[path], nullable=True)) for name, path in found.items()]
    table = check_rows(
        InputSpec("truth", (*spec, *([(verdict, Type("boolean"))] if says else []))), rows, source=source
    )
    if says:
        table = table.filter(table.column(verdict)).drop_columns([verdict])
    table = table.rename_columns([found[name] for name in table.column_names])
    nested = pa.Table.from_pylist([_nested(row) for row in table.to_pylist()]) if table.num_rows else table
    return Truth(Columns(key, compare), nested, not isinstance(node, (SemMap, SemAgg)), source)


def about(truth: Truth, node: Semantic, asked: pa.Table) -> Truth:
    """The truth with notes of how much it has to do with the frozen rows. Raises PlanError: nothing."""
    key, source = truth.columns.key, truth.source
    units = set(said(asked, key, ()))
    told = set(said(truth.rows, key, ()) if truth.rows.num_rows else {})
    if not units & told and (told or not truth.closed):
        example = next(iter(told), None)
        there = f"the truth has {_shown(key, example)}" if example else f"{source} is empty"
        theirs = f"; the rows have {_shown(key, next(iter(units)))}" if units else ""
        hint = f"it must name rows of step {node.step} by {', '.join(key)}"
        raise PlanError(Problem(f"{source} is about none of the {len(units):,} rows", there=there + theirs, hint=hint))
    notes = []
    if told - units:
        notes.append(f"{len(told - units):,} of {len(told):,} rows of the truth were not asked about: left out")
    if not truth.closed and units - told:
        notes.append(f"the truth says nothing of {len(units - told):,} of {len(units):,} rows: they are not scored")
    return replace(truth, notes=tuple(notes))


def _shown(key: Sequence[str], unit: Any) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in zip(key, unit, strict=True))


def _check(
    node: Semantic, names: Sequence[str], key: Sequence[str], compare: Sequence[str], source: str, *, says: bool
) -> None:
    has = "it has: " + (", ".join(names) or "no columns")
    before = list(node.by) if isinstance(node, SemAgg) else [f.name for f in node.inputs[0].schema]
    if not key:
        near = next((hint for name in names if (hint := did_you_mean(name, before))), None)
        what = f"{source} has no column that names a row of step {node.step}"
        raise PlanError(Problem(what, there=f"{has}; rows have: {', '.join(before)}", hint=near))
    presence = node.keyword in {"sem_filter", "sem_topk"} or (
        isinstance(node, SemJoin) and node.how in {"semi", "anti"}
    )
    if not compare and not presence and not says:
        new = [path for path, _ in _paths(node.schema) if path.split(".")[0] not in before]
        what = f"{source} has no column to compare with the answers of step {node.step}"
        raise PlanError(Problem(what, there=f"{has}; answers: {', '.join(new)}", hint="name one of them so"))


def _rows(given: Any) -> Any:
    if not isinstance(given, (str, Path)):
        return given
    from semgraph.frontend.files import rows_of

    return rows_of(Path(given))


def _paths(schema: pa.Schema, prefix: str = "") -> Iterator[tuple[str, Type]]:
    """All columns and fields of struct columns, by path."""
    for f in schema:
        if not pa.types.is_fixed_size_list(f.type):
            yield f"{prefix}{f.name}", type_of_arrow(f.type)
        if pa.types.is_struct(f.type):
            yield from _paths(pa.schema(list(f.type)), f"{prefix}{f.name}.")


def _path(name: str, kinds: Mapping[str, Type], node: Semantic) -> str | None:
    """The column that a column of the truth means: of that name, else the one field of that name in what is new."""
    if name in kinds:
        return name
    before = {f.name for f in node.inputs[0].schema}
    fields = [path for path in kinds if path.split(".")[0] not in before and path.rsplit(".", 1)[-1] == name]
    return fields[0] if len(fields) == 1 else None


def _nested(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, value in row.items():
        *outer, last = path.split(".")
        inner = found
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return found
