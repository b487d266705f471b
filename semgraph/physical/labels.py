"""Labelled rows of a file, as the rows that an operator asks about: what calibration learns from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.logical.semantic import Semantic, SemJoin
from semgraph.physical.contract import Rows, verdict_field


class Labelled(NamedTuple):
    """Rows, and for each item whether the right answer is yes."""

    rows: Rows
    labels: list[bool]


def read_labels(node: Semantic, rows: Rows, path: str) -> Labelled:
    """The labelled rows of a CSV, JSON lines or Parquet file.

    Its columns are those that the prompt reads (of the other side of a join with the alias before them, as `c.name`), the one
    that picks the prompt where there are several, and the label: `keep` for a sem_filter, `match` for a sem_join.

    Args:
        node: Whose rows they are.
        rows: What the node asks about, for the types of its columns.
        path: The file.

    Raises:
        PlanError: The file cannot be read, lacks a column, or has a value of another type.
    """
    file = _File(node, path)
    verdict = verdict_field(node)
    assert verdict is not None
    labels: list[Any] = file.column(verdict.name, verdict).to_pylist()
    if not labels:
        raise file.wrong("it has no rows")
    if None in labels:
        raise file.wrong(f'a row has no "{verdict.name}"')
    numbers = pa.array(range(len(labels)), pa.int64())
    sides = ["left"] if rows.right is None else ["left", "right"]
    right = None
    if rows.right is not None:
        assert isinstance(node, SemJoin)
        right = file.side(rows.right, node.prompt.other_fields, f"{node.alias}.")
    items = pa.table(dict.fromkeys(sides, numbers))
    left = file.side(rows.left, node.prompt.fields)
    return Labelled(Rows(left, right, items, [""] * len(labels), file.prompts()), labels)


class _File:
    """A file of labels; what is wrong with it is an error that names it, and the step."""

    def __init__(self, node: Semantic, path: str) -> None:
        self._node, self._path = node, path
        try:
            self._table = _read(Path(path).expanduser())
        except (OSError, pa.ArrowException) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise self.wrong(f"it cannot be read: {first}") from error

    def wrong(self, what: str, hint: str | None = None) -> PlanError:
        """The error to raise."""
        return PlanError(
            Problem(f"the labels {self._path}: {what}", self._node.step or None, self._node.origin, hint=hint)
        )

    def side(self, like: pa.Table, names: Sequence[str], prefix: str = "") -> pa.Table:
        """The columns of one side that the prompts read, with its types."""
        return pa.table({name: self.column(prefix + name, like.schema.field(name)) for name in names})

    def column(self, name: str, field: pa.Field[Any]) -> pa.ChunkedArray[Any]:
        """A column with the type of a field."""
        names = self._table.column_names
        if name not in names:
            hint = did_you_mean(name, names) or f'add the column "{name}"'
            raise self.wrong(f'it has no column "{name}" (it has: {", ".join(names)})', hint)
        try:
            return self._table.column(name).cast(field.type)
        except pa.ArrowException as error:
            raise self.wrong(f'column "{name}": {str(error).splitlines()[0]}') from error

    def prompts(self) -> Sequence[int]:
        """For each row the index of its prompt."""
        prompts = self._node.prompt
        if not prompts.by:
            return [0] * self._table.num_rows
        found = []
        for value in self.column(prompts.by, pa.field(prompts.by, pa.string())).to_pylist():
            prompt = prompts.pick(value)
            if prompt is None:
                raise self.wrong(f'there is no prompt for {prompts.by} "{value}"')
            found.append(next(i for i, one in enumerate(prompts.all) if one is prompt))
        return found


def _read(file: Path) -> pa.Table:
    match file.suffix.lower():
        case ".csv":
            from pyarrow import csv

            return csv.read_csv(file)
        case ".jsonl" | ".ndjson":
            from pyarrow import json

            return json.read_json(file).flatten()
        case ".parquet":
            from pyarrow import parquet

            return parquet.read_table(file).flatten()
    raise pa.ArrowInvalid("it must be a .csv, .jsonl or .parquet file")
