"""Columns of a truth: which columns, fields and elements of the step they mean."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.execution.comparison.rows import EACH
from semgraph.expr.types import Type, type_of_arrow
from semgraph.logical.semantic import Semantic

_FLAGS = {"yes": True, "no": False}


@dataclass(frozen=True)
class Columns:
    """What is compared: paths of the columns that name a row, and of those that are its answer."""

    key: tuple[str, ...]
    compare: tuple[str, ...]


def root(path: str) -> str:
    """The column that a path begins with.

    >>> root("people[].name"), root("match.uuid")
    ('people', 'match')
    """
    return path.split(".", maxsplit=1)[0].removesuffix(EACH)


def paths(schema: pa.Schema, prefix: str = "") -> Iterator[tuple[str, Type]]:
    """All columns, fields of struct columns, and fields of the elements of lists, by path."""
    for f in schema:
        if not pa.types.is_fixed_size_list(f.type):
            yield f"{prefix}{f.name}", type_of_arrow(f.type)
        if pa.types.is_struct(f.type):
            yield from paths(pa.schema(list(f.type)), f"{prefix}{f.name}.")
        if pa.types.is_list(f.type) and pa.types.is_struct(f.type.value_type) and EACH not in prefix:
            yield from paths(pa.schema(list(f.type.value_type)), f"{prefix}{f.name}{EACH}.")


def path_of(name: str, kinds: Mapping[str, Type], node: Semantic) -> str | None:
    """The column that a column of the truth means: of that name, else the one field of that name in what is new."""
    if name in kinds:
        return name
    before = {f.name for f in node.inputs[0].schema}
    new = [path for path in kinds if root(path) not in before]
    fields = [path for path in new if path.replace(EACH, "") == name] or [
        p for p in new if p.rsplit(".", 1)[-1] == name
    ]
    return fields[0] if len(fields) == 1 else None


def elements(path: str, kind: Type, values: Iterable[Any], source: str) -> tuple[Type, list[str]]:
    """How a column of answers is read and compared: a list by its elements, and these by the fields that the truth has.

    Raises:
        PlanError: Its elements have a field that the step does not give.
    """
    if kind.item is None or kind.item.name != "struct":
        return replace(kind, nullable=True), [path + EACH] if kind.item is not None else [path]
    known = dict(kind.item.fields)
    said = dict.fromkeys(
        str(name) for value in values for row in _listed(value) if isinstance(row, Mapping) for name in row
    )
    if unknown := [name for name in said if name not in known]:
        what = f'{source}: elements of {path} have no field "{unknown[0]}"'
        raise PlanError(Problem(what, there="fields: " + ", ".join(known), hint=did_you_mean(unknown[0], known)))
    names = [name for name in known if name in said] or list(known)
    fields = tuple((name, replace(known[name], nullable=True)) for name in names)
    return Type("list", nullable=True, item=replace(kind.item, fields=fields)), [
        f"{path}{EACH}.{name}" for name in names
    ]


def are_flags(values: Any) -> bool:
    """Whether values are yes and no, as data or as text."""
    return all(value is None or str(value).lower() in {*_FLAGS, "true", "false"} for value in _plain(values))


def with_flags(rows: Any, columns: Mapping[str, Any], flags: Iterable[str]) -> Any:
    """Rows with yes and no as true and false.

    Args:
        rows: As they are given.
        columns: The same by column.
        flags: The columns that are true or false.
    """
    named = {name: _plain(columns[name]) for name in flags}
    if not any(_flag(value) is not value for values in named.values() for value in values):
        return rows
    found = {name: _plain(values) for name, values in columns.items()}
    found |= {name: [_flag(value) for value in values] for name, values in named.items()}
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def _flag(value: Any) -> Any:
    return _FLAGS.get(value.strip().lower(), value) if isinstance(value, str) else value


def _plain(values: Any) -> list[Any]:
    found: list[Any] = values.to_pylist() if isinstance(values, (pa.Array, pa.ChunkedArray)) else list(values)
    return found


def _listed(value: Any) -> list[Any]:
    """The elements of a value as given: a list, or JSON of one."""
    found = value.as_py() if isinstance(value, pa.Scalar) else value
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            return []  # what is wrong with it is told with its row
    return list(found) if isinstance(found, (list, tuple)) else []


def nested(row: Mapping[str, Any]) -> dict[str, Any]:
    """Values by path as columns: fields in structs, fields of elements in a list of one; of none, if all are NULL."""
    found: dict[str, Any] = {}
    for path, value in row.items():
        column, each, inner = path.partition(EACH)
        *outer, last = column.split(".")
        at = found
        for name in outer:
            at = at.setdefault(name, {})
        if not each:
            at[last] = value
            continue
        several = at.setdefault(last, [])
        if value is not None:
            if not several:
                several.append({})
            several[0] |= nested({inner.removeprefix("."): value})
    return found
