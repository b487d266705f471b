"""Export of a group of the stored graph: a networkx graph, or a GraphML, JSON or Parquet file; and of
the results of a plan as a JSON file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

import networkx as nx
import pyarrow as pa
import pyarrow.parquet as pq

from semgraph.display import option
from semgraph.errors import PlanError, among, did_you_mean
from semgraph.execution.result import Result
from semgraph.expr.types import Type, python_rows
from semgraph.logical.prompt import plain
from semgraph.logical.schema import Graph, Label
from semgraph.privacy import private_folder
from semgraph.session.resources import Resources
from semgraph.stores.base import ScanQuery, Store

LABEL = "label"  # the attribute with the label of a node, or the type of an edge
_TAKEN = {"node": {LABEL, "id"}, "edge": {LABEL, "id", "key"}}
_FOLDER = ".parquet"
_SOME = 1_000  # rows of a label that are searched for the names of other groups
_NAMED = 10  # most groups that a message names
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Exported:
    """A written group.

    Args:
        path: The file, or the folder.
        nodes: The number of nodes.
        edges: The number of edges.
        notes: Which stored rows were left out.
    """

    path: Path
    nodes: int
    edges: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class GroupTables:
    """The rows of a group, read label by label: nodes before edges."""

    store: Store
    graph: Graph
    group: str

    async def __aiter__(self) -> AsyncIterator[tuple[Label, pa.Table]]:
        for label in (*self.graph.nodes, *self.graph.edges):
            own = (self.graph.key, self.graph.partition, *label.ends, *properties(label))
            names = list(dict.fromkeys(own))
            rows = await self.store.scan(ScanQuery(label.name, names, [self.group]))
            yield label, rows.select(names)

    @property
    def notes(self) -> tuple[str, ...]:
        """Which rows the store left out."""
        return tuple(note for note in self.store.notes if "left out " in note)


def told_apart(
    tables: Sequence[tuple[Label, pa.Table]], key: str
) -> Iterator[tuple[Label, pa.Table]]:
    """Tables in which a key that nodes of several labels have is followed by its label: `ann (Person)`."""
    nodes = (rows[key].to_pylist() for label, rows in tables if label.kind == "node")
    shared = {each for each, number in Counter(chain.from_iterable(nodes)).items() if number > 1}
    for label, rows in tables:
        own = {"source": label.source, "target": label.target} if label.ends else {key: label.name}
        for name, of in own.items() if shared else ():
            keys = [f"{k} ({of})" if k in shared else k for k in rows[name].to_pylist()]
            column, place = pa.array(keys, rows[name].type), rows.schema.get_field_index(name)
            rows = rows.set_column(place, name, column)  # noqa: PLW2901
        yield label, rows


def properties(label: Label) -> dict[str, Type]:
    """The exported properties: all except vectors and derived texts."""
    return {name: kind for name, kind in label.columns.items() if name not in label.derived}


@asynccontextmanager
async def group_rows(resources: Resources, graph: Graph, group: str) -> AsyncIterator[GroupTables]:
    """The rows of a group of the store. Raises PlanError if it holds none; StoreUnavailable."""
    resources.need_graph()
    async with resources.opened_store(graph) as store:
        await store.attach(graph)
        for label in graph.labels:
            if (await store.scan(ScanQuery(label, [], [group], (), 1))).num_rows:
                break
        else:
            raise await _nothing_of(store, graph, group)
        yield GroupTables(store, graph, group)


async def groups(resources: Resources, graph: Graph) -> dict[str, dict[str, int]]:
    """The groups of the store with the number of rows by label. Raises StoreUnavailable."""
    resources.need_graph()
    async with resources.opened_store(graph) as store:
        await store.attach(graph)
        return await _groups(store, graph)


async def _groups(
    store: Store, graph: Graph, limit: int | None = None
) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for label in (*graph.nodes, *graph.edges):
        rows = await store.scan(ScanQuery(label.name, [], None, (), limit))
        for name, number in Counter(rows.column(graph.partition).to_pylist()).items():
            found.setdefault(str(name), {})[label.name] = number
    return dict(sorted(found.items()))


async def _nothing_of(store: Store, graph: Graph, group: str) -> PlanError:
    groups = await _groups(store, graph, _SOME)
    names = ", ".join(name or '""' for name in islice(groups, _NAMED))
    names += ", ..." if len(groups) > _NAMED else ""
    labels = ", ".join(list(graph.labels)[:_NAMED])
    there = f"groups: {names}" if groups else f"it has no rows of {labels}"
    other = (
        None if groups else "for rows of another graph, name its file: " + option("graph", "FILE")
    )
    hint = did_you_mean(str(group), groups) or other
    return PlanError(f'{store.name} holds nothing of group "{group}"', there=there, hint=hint)


async def export(resources: Resources, graph: Graph, group: str, to: Path) -> Exported:
    """Write a group into a file; see `Session.export`."""
    ending = to.suffix.lower()
    if ending not in {*_WRITERS, _FOLDER}:
        what = f'{to}: "{to.suffix}" is no format of graphs'
        raise PlanError(what, **among(ending, (*_WRITERS, _FOLDER), "endings"))
    async with group_rows(resources, graph, group) as tables:
        if ending == _FOLDER:
            return await _write_parquet(graph, tables, to)
        made = await networkx_graph(graph, tables)
    with _replacing(to) as file:
        _WRITERS[ending](made, file)
    return Exported(
        to, made.number_of_nodes(), made.number_of_edges(), tuple(made.graph.get("notes", ()))
    )


# -- networkx


async def networkx_graph(graph: Graph, tables: GroupTables) -> nx.MultiDiGraph:
    """Convert a group to a networkx graph; see `Session.agraph`."""
    made, loose = nx.MultiDiGraph(group=tables.group), list[str]()
    for label, table in told_apart([each async for each in tables], graph.key):
        kinds = label.columns
        for row in table.to_pylist():
            key = row[graph.key]
            values = {LABEL: label.name, **_attributes(row, label, kinds)}
            if label.kind == "node":
                made.add_node(key, **values)
            elif row["source"] in made and row["target"] in made:
                made.add_edge(row["source"], row["target"], key, **values)
            else:
                loose.append(f"{label.name} {key}")
    notes = list(tables.notes)
    if loose:
        notes.append(f"left out {len(loose):,} edges without both nodes. First: {loose[0]}")
    if notes:
        made.graph["notes"] = notes
    return made


def _attributes(row: Mapping[str, Any], label: Label, types: Mapping[str, Type]) -> dict[str, Any]:
    """The properties of a row that have a value. A name that networkx or `label` reserves gets the
    suffix "_".
    """
    return {
        f"{name}_" if name in _TAKEN[label.kind] else name: _value(value, types[name])
        for name, value in row.items()
        if value is not None and name not in label.ends
    }


def _value(value: Any, kind: Type) -> Any:
    if kind.name == "json":
        return json.loads(value)
    # A time gets a zone that pickles and compares anywhere.
    return datetime.fromisoformat(value.isoformat()) if isinstance(value, datetime) else value


# -- files


def check_document(to: Path) -> None:
    """Refuse a file for results that does not end in .json. Raises PlanError."""
    if to.suffix.lower() != ".json":
        what = f'{to}: the results of a plan are written as JSON, not as "{to.suffix}"'
        raise PlanError(what, hint=f"-o {to.stem}.json")


def write_results(result: Result, to: Path) -> None:
    """Write the results of a run as one JSON object, a list of rows by name. Raises OSError."""
    with _replacing(to) as file:
        _dump({name: python_rows(table) for name, table in result.tables.items()}, file)


def _dump(data: Any, file: Path) -> None:
    with file.open("w", encoding="utf-8") as out:
        json.dump(data, out, ensure_ascii=False, indent=1, default=plain)
        out.write("\n")


def _write_graphml(made: nx.MultiDiGraph, file: Path) -> None:
    """Write GraphML. It has numbers, booleans and text: every other value is written as text, lists
    and objects as JSON.
    """
    copy = nx.MultiDiGraph(**_in_xml(made.graph))
    copy.add_nodes_from((_text(node), _in_xml(values)) for node, values in made.nodes(data=True))
    copy.add_edges_from(
        (_text(source), _text(target), _text(key), _in_xml(values))
        for source, target, key, values in made.edges(keys=True, data=True)
    )
    nx.write_graphml_xml(copy, file)


def _in_xml(values: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: plain(value) for name, value in values.items()}
    return {
        name: value
        if isinstance(value, (bool, int, float))
        else _text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in texts.items()
    }


def _text(text: str) -> str:
    """A text without the control characters that XML forbids; each becomes U+FFFD."""
    return _NO_XML.sub("\ufffd", text)


async def _write_parquet(graph: Graph, tables: GroupTables, folder: Path) -> Exported:
    """Write `nodes.parquet` and `edges.parquet`, label by label."""
    counts = {"node": 0, "edge": 0}
    with (
        _replacing(folder / "nodes.parquet") as nodes,
        _replacing(folder / "edges.parquet") as edges,
        _LabelWriter(graph, graph.nodes, nodes) as node_writer,
        _LabelWriter(graph, graph.edges, edges) as edge_writer,
    ):
        async for label, table in tables:
            (node_writer if label.kind == "node" else edge_writer).write(label, table)
            counts[label.kind] += table.num_rows
    return Exported(folder, counts["node"], counts["edge"], tables.notes)


class _LabelWriter:
    """A Parquet file with the rows of several labels and the union of their columns. A property
    with different types in two labels has one column for each: `Book.year`.
    """

    def __init__(self, graph: Graph, labels: tuple[Label, ...], file: Path) -> None:
        kinds: dict[str, set[pa.DataType]] = {}
        for label in labels:
            for name, kind in properties(label).items():
                kinds.setdefault(name, set()).add(kind.arrow)
        self._several = {n for n, types in kinds.items() if len(types) > 1 or n == LABEL}
        texts = (LABEL, graph.key, graph.partition, *(labels[0].ends if labels else ()))
        fields: dict[str, pa.DataType] = dict.fromkeys(texts, pa.string())
        for label in labels:
            for name, kind in properties(label).items():
                fields[self._column(label, name)] = kind.arrow
        self.schema = pa.schema(list(fields.items()))
        self._writer = pq.ParquetWriter(file, self.schema)

    def _column(self, label: Label, name: str) -> str:
        return f"{label.name}.{name}" if name in self._several else name

    def write(self, label: Label, table: pa.Table) -> None:
        """Append the rows of a label."""
        own = table.rename_columns([self._column(label, name) for name in table.column_names])
        own = own.append_column(LABEL, pa.array([label.name] * table.num_rows, pa.string()))
        for field in self.schema:
            if field.name not in own.column_names:
                own = own.append_column(field, pa.nulls(table.num_rows, field.type))
        self._writer.write_table(own.select(self.schema.names).cast(self.schema))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()


@contextmanager
def _replacing(file: Path) -> Iterator[Path]:
    """A new file that replaces `file` when it is complete."""
    private_folder(file.parent)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    os.close(handle)
    try:
        yield Path(name)
        if file.exists():
            shutil.copymode(file, name)
        Path(name).replace(file)
    finally:
        Path(name).unlink(missing_ok=True)


_WRITERS: dict[str, Callable[[nx.MultiDiGraph, Path], None]] = {
    ".graphml": _write_graphml,
    ".json": lambda made, file: _dump(nx.node_link_data(made, edges="edges"), file),
}
