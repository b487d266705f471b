"""The preparation of batches to write, and the schemas of results, common to all stores.

A batch is prepared once (`prepare_batch`): columns, keys, types, JSON, vectors, and refused rows. A
store only converts the prepared values to its types and writes them.

Other programs may store values of types that the graph does not declare. Such rows are left out of
results: `LeftOut.notes` names them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import DataError, EngineError, PlanError, Problem, StoreUnavailable
from semgraph.expr import Type
from semgraph.expr.functions import canonical_json
from semgraph.formats import plain_line, shortened
from semgraph.logical.graph import elements_of, step_type
from semgraph.logical.schema import Graph, Label
from semgraph.stores import base

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
Merging = base.NodeWrite | base.EdgeWrite

RESERVED = "_Semgraph"  # labels with this prefix belong to semgraph
KEEPS_ENDS = "make its key of its ends, id(source, target, ...), or delete it before"


# Refused rows.


@contextmanager
def writing(write: base.Write) -> Iterator[None]:
    """Refused rows belong to this write; its batch is not written."""
    try:
        yield
    except DataError as error:
        if error.write is not None:
            raise
        refused = DataError(f"{error.problem.what}; nothing was written", hint=error.problem.hint)
        refused.write = write
        raise refused from error.__cause__


@dataclass(frozen=True)
class RefusedRow:
    """A row of a batch that a store cannot write: its write, its key, and the reason."""

    write: object
    key: str
    problem: Problem


class RowsRefused(DataError):
    """Rows of a batch that a store cannot write, each once; the batch was not written."""

    def __init__(self, rows: Iterable[RefusedRow]) -> None:
        self.rows = tuple(rows)
        first = self.rows[0]
        super().__init__(f"{first.problem.what}; nothing was written", hint=first.problem.hint)
        self.write = first.write


class Refusals:
    """The rows of a batch that a store refuses, each with the first reason."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, str], RefusedRow] = {}

    def add(self, write: base.Write, key: str, error: DataError) -> None:
        """Record a refused row of a write."""
        self._rows.setdefault((id(write), key), RefusedRow(write, key, error.problem))

    def holds(self, write: base.Write, key: str) -> bool:
        """Whether a row of a write is refused."""
        return (id(write), key) in self._rows

    def check(self) -> None:
        """Raise RowsRefused if any row is refused."""
        if self._rows:
            raise RowsRefused(self._rows.values())

    def attempt(self, write: Merging, key: str, prepare: Callable[[Merging], T]) -> T | None:
        """Prepare a write. If `prepare` refuses rows of it, record these and return None."""
        with writing(write):
            try:
                return prepare(write)
            except DataError:
                errors = dict(_faulty(write, prepare)) or dict(_conflicting(write, prepare))
        for place, error in errors.items():
            self.add(write, write.rows.column(key)[place].as_py(), error)
        return None


Prepare = Callable[[Merging], object]


def _faulty(write: Merging, prepare: Prepare, start: int = 0) -> Iterator[tuple[int, DataError]]:
    """The positions of rows that are refused by themselves, found by bisection."""
    try:
        prepare(write)
    except DataError as error:
        count = write.rows.num_rows
        if count == 1:
            yield start, error
        for first, last in ((0, count // 2), (count // 2, count)) if count > 1 else ():
            half = replace(write, rows=write.rows.slice(first, last - first))
            yield from _faulty(half, prepare, start + first)


def _conflicting(write: Merging, prepare: Prepare) -> Iterator[tuple[int, DataError]]:
    """The positions of rows that conflict with their predecessors, found by bisection."""
    places = list(range(write.rows.num_rows))

    def error(count: int) -> DataError | None:
        try:
            prepare(replace(write, rows=write.rows.take(places[:count])))
        except DataError as refused:
            return refused
        return None

    while (refused := error(len(places))) is not None:
        good, bad = 0, len(places)
        while bad - good > 1:
            middle = (good + bad) // 2
            if (failed := error(middle)) is None:
                good = middle
            else:
                bad, refused = middle, failed
        yield places.pop(bad - 1), refused


def taken(row: str) -> DataError:
    """The error for a key (`Person p1`) that another partition has, which is not named."""
    one = "a key is one for all partitions"
    hint = f"{one}: compute it from the partition too, by id(PARTITION, ...)"
    return DataError(f"the key of {row} is taken", hint=hint)


def no_end(edge: str, end: str, key: str | None, label: str) -> DataError:
    """The error for a new edge (`KNOWS e1`) without an end in its partition. It is the same if
    another partition has the node, so it reveals nothing about others.
    """
    hint = "leave such rows out in a step before"
    if key is None:
        return DataError(f"{edge} has no {end}: its key is NULL", hint=hint)
    hint = f"merge the {label} in the same plan (nodes are written before edges), or {hint}"
    return DataError(f'{edge} has the {end} "{key}", which is no {label} of its group', hint=hint)


def other_end(edge: str, end: str, stored: str, new: str) -> DataError:
    """The error for an edge that is stored with other ends."""
    what = f'{edge} has the {end} "{stored}" and was to get "{new}": an edge keeps its ends'
    return DataError(what, hint=KEEPS_ENDS)


def still_has_edges(node: str, edges: str) -> DataError:
    """The error for a node that cannot be deleted."""
    hint = "delete its edges before, or say detach: true"
    return DataError(f"{node} cannot be deleted: {edges}", hint=hint)


# The default embedders by the length of their vectors.
_EMBEDDERS = {384: "local", 1024: "'openai:text-embedding-3-small?dimensions=1024'"}


def check_length(
    store: str, label: str, index: str, stored: int | None, length: int | None
) -> None:
    """Refuse vectors of another length than the stored ones. Raises StoreUnavailable."""
    if stored is None or length in (None, stored):
        return
    likely = _EMBEDDERS.get(stored)
    made = f"--embedder {likely}, if that is the one" if likely else "--embedder MODEL"
    raise StoreUnavailable(
        f"{store}  {label} here has {stored:,}-dimensional vectors (index {index}); your embedder gives {length:,}. "
        f"Nothing was written. Use the embedder that made them ({made}), or start another store (--store STORE)."
    )


def check_partition(store: str, graph: Graph, label: str, partition: str, key: str) -> None:
    """Refuse a graph with another partition or key than the stored rows of a label: it would read
    and write rows of all groups. Raises PlanError.
    """
    if (partition, key) != (graph.partition, graph.key):
        own = f"partition: {partition}, key: {key}"
        other = f"partition: {graph.partition}, key: {graph.key}"
        what = f'{store}  stores {label} with {own}, and the graph "{graph.name}" has {other}'
        hint = "Nothing was read or written. Change the graph file, or name another store: --store"
        raise PlanError(what, hint=hint)


# Rows that a store reads, and tables that it returns.

# Lengths of the stored vectors, by label and vector property.
Dimensions = Mapping[tuple[str, str], int]


def column(rows: pa.Table, path: str) -> pa.Array[Any]:
    """A column of rows, or a field of a struct column (`cand.name`). Raises EngineError."""
    root, *fields = path.split(".")
    if root not in rows.column_names:
        known = ", ".join(rows.column_names)
        raise EngineError(f'a store has no column "{path}" in its rows, which have {known}')
    chunks: Any = rows.column(root)
    array: pa.Array[Any] = chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()
    for name in fields:
        array = pc.struct_field(array, name)
    return array


def partitions_of(rows: pa.Table, path: str) -> list[tuple[str, ...]]:
    """The distinct partitions that each row may see. A NULL or an empty list: none."""
    values = column(rows, path).to_pylist()
    listed = [value if isinstance(value, list) else [value] for value in values]
    return [tuple(dict.fromkeys(v for v in row if v is not None)) for row in listed]


def all_partitions(rows: pa.Table, path: str | None) -> set[str] | None:
    """The partitions that any of the rows may see; None: all."""
    return None if path is None else {part for seen in partitions_of(rows, path) for part in seen}


def returned(
    graph: Graph, label: Label, properties: Iterable[str], *, partition: bool = False
) -> dict[str, None]:
    """The returned columns: key, partition if wanted, ends of an edge, properties."""
    first = [graph.key, *([graph.partition] if partition else [])]
    declared = {*label.columns, *label.vectors.values()}
    names = dict.fromkeys([*first, *label.ends, *properties])
    for name in names.keys() - declared:
        what = f'a store was asked for "{name}" of {label.name}'
        raise EngineError(f'{what}, which graph "{graph.name}" does not declare')
    return names


def type_of(label: Label, name: str, dimensions: Dimensions) -> pa.DataType:
    """The Arrow type of a returned column. A vector of unknown length has length 1."""
    if name in label.columns:
        return label.columns[name].arrow
    return pa.list_(pa.float32(), dimensions.get((label.name, name), 1))


def _fields(label: Label, names: Iterable[str], dimensions: Dimensions) -> list[pa.Field[Any]]:
    return [pa.field(name, type_of(label, name, dimensions)) for name in names]


def end_column(end: str) -> str:
    """The column of a hit with the node at an end."""
    return f"#{end}"


def aliases(query: base.SearchQuery) -> tuple[str, ...]:
    """The names of the hit and of the nodes at its ends in the conditions of a search."""
    return (query.alias, *(name for _, name, _ in query.ends))


def end_nodes(graph: Graph, query: base.SearchQuery) -> dict[str, tuple[Label, tuple[str, ...]]]:
    """Label and properties of the nodes that a search returns, by `source` and `target`."""
    nodes = {}
    for end, _, properties in query.ends:
        node = graph.label(getattr(graph.label(query.label), end))
        nodes[end] = node, tuple(returned(graph, node, properties))
    return nodes


def search_schema(graph: Graph, query: base.SearchQuery, dimensions: Dimensions) -> pa.Schema:
    """Schema of the result of a search."""
    ranking = {"_q": pa.int64(), "via": pa.string(), "method": pa.int32(), "rank": pa.int64()}
    ranked = [pa.field(name, kind) for name, kind in (ranking | {"score": pa.float64()}).items()]
    names = returned(graph, graph.label(query.label), query.properties)
    fields = [*ranked, *_fields(graph.label(query.label), names, dimensions)]
    for end, (node, listed) in end_nodes(graph, query).items():
        fields.append(pa.field(end_column(end), pa.struct(_fields(node, listed, dimensions))))
    return pa.schema(fields)


def match_schema(graph: Graph, query: base.MatchQuery, dimensions: Dimensions) -> pa.Schema:
    """Schema of the result of a match: structs; for a variable-length path a list of them."""
    fields: list[Any] = [("_q", pa.int64())]
    for element, label in (pair for pair in elements_of(graph, query.pattern) if pair[0].var):
        kind: pa.DataType = pa.list_(step_type(graph))
        if label is not None:
            names = returned(graph, label, query.properties.get(element.var, ()))
            kind = pa.struct(_fields(label, names, dimensions))
        fields.append((element.var, kind))
    return pa.schema(fields)


def match_table(
    graph: Graph,
    query: base.MatchQuery,
    schema: pa.Schema,
    left_out: LeftOut,
    records: Iterable[Sequence[Any]],
    columns: Callable[[Label, list[pa.Field[Any]], Sequence[Any]], list[pa.Array[Any]]],
) -> pa.Table:
    """The result of a match, sorted by row and by the keys of the variables; variable-length paths
    first by length. A record has the ordinal, then for each variable its properties, key first, or
    the edges of its path. `columns` converts the properties of a label.
    """
    named = [pair for pair in elements_of(graph, query.pattern) if pair[0].var]

    def order(record: Sequence[Any]) -> tuple[Any, ...]:
        keys = [
            (len(value), [str(step[0]) for step in value]) if label is None else str(value[0])
            for value, (_, label) in zip(record[1:], named, strict=True)
        ]
        return (record[0], *keys)

    records = sorted(records, key=order)
    arrays: list[pa.Array[Any]] = [pa.array([record[0] for record in records], pa.int64())]
    for i, (element, label) in enumerate(named, 1):
        kind: Any = schema.field(element.var).type
        found = [record[i] for record in records]
        if label is None:
            arrays += left_out.paths(graph, element.var, found, kind)
        else:
            arrays.append(struct_array(columns(label, list(kind), found), kind))
    return without_left_out(pa.Table.from_arrays(arrays, schema=schema), schema.names[1:])


def steps_of(paths: Iterable[Iterable[Sequence[str]]], kind: pa.DataType) -> pa.Array[Any]:
    """Variable-length paths as a column: each a list of edges, with key, label, source and target.
    Raises TypeError for an edge that lacks one of them.
    """
    fields = [field.name for field in kind.value_type]  # type: ignore[attr-defined]
    listed = [path and [dict(zip(fields, step, strict=True)) for step in path] for path in paths]  # type: ignore[misc]
    if any(None in step.values() for path in listed for step in path or ()):  # type: ignore[attr-defined]
        raise TypeError
    return pa.array(listed, kind)


def scan_schema(graph: Graph, query: base.ScanQuery, dimensions: Dimensions) -> pa.Schema:
    """Schema of the result of a scan."""
    label = graph.label(query.label)
    names = returned(graph, label, query.properties, partition=True)
    return pa.schema(_fields(label, names, dimensions))


# Rows to write.


class Vectors(NamedTuple):
    """The vectors of a column that are not NULL, one per line, and which rows have one."""

    numbers: NDArray[np.float32]
    present: list[bool]

    @property
    def size(self) -> int | None:
        """The length of the vectors; None if all are NULL."""
        return self.numbers.shape[1] if len(self.numbers) else None

    def spread(self, values: Iterable[T]) -> list[T | None]:
        """Spread one value per vector to one value per row, with None for a NULL vector."""
        each = iter(values)
        return [next(each) if present else None for present in self.present]


def vectors_of(array: pa.Array[Any], what: str) -> Vectors:
    """A column as vectors. Raises DataError if they differ in length or contain an invalid number."""
    import numpy as np

    present: list[bool] = array.is_valid().to_pylist()  # type: ignore[assignment]  # no NULL
    vectors: Any = array.drop_null()
    if not len(vectors):
        return Vectors(np.empty((0, 0), np.float32), present)
    lengths = pc.unique(pc.list_value_length(vectors)).to_pylist()
    if len(lengths) != 1:
        listed = ", ".join(map(str, sorted(lengths)))
        raise DataError(f"{what} has vectors of different lengths: {listed}")
    flat = vectors.flatten()
    numbers = flat.cast(pa.float32()).to_numpy(zero_copy_only=False).reshape(len(vectors), -1)
    if flat.null_count or not np.isfinite(numbers).all():
        raise DataError(f"{what} has a vector with NULL, NaN or infinity in it")
    return Vectors(numbers + np.float32(0), present)  # no -0.0: a vector of zeros is zero bytes


def typed(array: pa.Array[Any], kind: Type, what: str, keys: Sequence[str] = ()) -> pa.Array[Any]:
    """A column in a declared type, JSON in canonical form. Raises DataError."""
    try:
        array = array if array.type == kind.arrow else array.cast(kind.arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{what} cannot be stored as {kind}: {reason}") from None
    if kind.name != "json":
        return array
    names = [f"{what} {key}" for key in keys] or [what] * len(array)
    pairs = zip(array.to_pylist(), names, strict=True)
    texts = [None if text is None else json_form(text, name) for text, name in pairs]
    return pa.array(texts, kind.arrow)


@dataclass(frozen=True)
class PreparedMerge:
    """The rows of a merge, checked and in declared types. `columns` include the key and an edge's
    ends; further `labels` and open `attributes` are empty if the rows do not set them.
    """

    graph: Graph
    write: Merging
    keys: Sequence[str]
    partitions: Sequence[str | None]
    columns: Mapping[str, pa.Array[Any]] = field(default_factory=dict)
    vectors: Mapping[str, Vectors] = field(default_factory=dict)
    labels: Sequence[list[str] | None] = ()
    attributes: Sequence[dict[str, Any] | None] = ()

    @property
    def label(self) -> Label:
        """The label of the rows."""
        return self.graph.label(self.write.label)


def prepare_batch(
    graph: Graph, batch: base.WriteBatch, convert: Callable[[PreparedMerge], T]
) -> list[T | None]:
    """Prepare the rows that a batch merges, before any write. Returns for each write the result of
    `convert`, which raises DataError for rows that the store cannot keep; None for deletes and
    writes without rows. Raises EngineError for rows without a key or with unknown columns,
    RowsRefused for rows that cannot be written.
    """
    refusals = Refusals()
    converted: list[T | None] = [None] * len(batch.writes)
    for i, write in enumerate(batch.writes):
        if write.rows.num_rows:
            check_columns(graph, write)
            if not isinstance(write, base.Deletion):
                converted[i] = refusals.attempt(
                    write, graph.key, lambda each: convert(prepare_merge(graph, each))
                )
    check_partitions(graph, batch, refusals)
    refusals.check()
    return converted


def prepare_merge(graph: Graph, write: Merging) -> PreparedMerge:
    """The rows of a merge in declared types. Raises DataError."""
    label = graph.label(write.label)
    keys, partitions = keys_of(graph, write)
    columns: dict[str, pa.Array[Any]] = {}
    vectors: dict[str, Vectors] = {}
    for name in write.rows.column_names:
        array, what = column(write.rows, name), f"{name} of {label.name}"
        if name in label.columns:
            columns[name] = typed(array, label.columns[name], what, keys)
        else:
            vectors[name] = vectors_of(array, what)
    opened = {name: columns.pop(name).to_pylist() for name in label.open & set(columns)}
    # none if the rows do not set them
    further, texts = (zip(keys, opened.get(n, ()), strict=False) for n in ("labels", "attributes"))
    labels = [None if n is None else labels_form(graph, n, label, key) for key, n in further]
    attributes = [None if t is None else attributes_form(t, label, key) for key, t in texts]
    return PreparedMerge(graph, write, keys, partitions, columns, vectors, labels, attributes)


def keys_of(graph: Graph, write: base.Write) -> tuple[list[str], list[str | None]]:
    """Key and partition of each row; the partition is None if the rows have none."""
    keys: list[Any] = write.rows.column(graph.key).cast(pa.string()).to_pylist()
    if graph.partition not in write.rows.column_names:
        return keys, [None] * len(keys)
    return keys, write.rows.column(graph.partition).cast(pa.string()).to_pylist()


def check_columns(graph: Graph, write: base.Write) -> None:
    """Refuse rows without the key, or with columns that the label lacks. Raises EngineError."""
    label, names = graph.label(write.label), write.rows.column_names
    if graph.key not in names:
        raise EngineError(f'rows to write to {label.name} have no column "{graph.key}"')
    if write.rows.column(graph.key).null_count:
        raise EngineError(f"a row to write to {label.name} has no {graph.key}")
    unknown = ", ".join(sorted({*names} - {*label.columns, *label.vectors.values()}))
    if unknown and not isinstance(write, base.Deletion):
        raise EngineError(f"rows to write to {label.name} have columns that it does not: {unknown}")


def check_partitions(graph: Graph, batch: base.WriteBatch, refusals: Refusals) -> None:
    """Refuse rows that merge one key under two partitions, whether or not it is stored: all but
    those of the first. A store finds conflicts within one write itself.
    """
    seen: dict[tuple[str, str | None], str] = {}
    times = Counter(write.label for write in batch.writes)
    for write in batch.writes:
        if isinstance(write, base.Deletion) or times[write.label] < 2:
            continue
        for key, part in zip(*keys_of(graph, write), strict=True):
            if part is not None and seen.setdefault((write.label, key), part) != part:
                refusals.add(write, key, taken(f"{write.label} {key}"))


def json_form(text: str, what: str) -> str:
    """JSON text in canonical form. `what` is its name in errors. Raises DataError."""
    try:
        canonical = canonical_json(json.loads(text, parse_constant=_no_number))
        canonical.encode()
    except UnicodeEncodeError:
        raise DataError(f"{what} holds half of a surrogate pair, which is no character") from None
    except ValueError as error:
        hint = "json text is made of values by to_json(...)"
        raise DataError(f"{what} is not JSON: {error}", hint=hint) from None
    return canonical


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")


def attributes_form(text: str, label: Label, key: str) -> dict[str, Any]:
    """Open attributes in stored form: by name, without null ones. Raises DataError."""
    what = f"{label.name} {key}"
    attributes = json.loads(text)
    if not isinstance(attributes, dict):
        hint = 'write {"name": value, ...}'
        raise DataError(f"attributes of {what} are no JSON object", hint=hint)
    own = {"", *label.columns, *label.derived, *label.ignore}
    for name in attributes:
        if name in own or name.startswith(RESERVED):
            why = "is a property of its own" if name else "is no name"
            hint = "give it another name in a step before"
            raise DataError(f'attribute "{name}" of {what} {why}', hint=hint)
    return {name: value for name, value in attributes.items() if value is not None}


def labels_form(graph: Graph, names: Iterable[str | None], label: Label, key: str) -> list[str]:
    """Further labels in stored form: sorted, distinct, without the label itself. Raises DataError."""
    labels = {name for name in names if name is not None} - {label.name}
    for name in sorted(labels.difference(further_labels(graph, labels))):
        reason = "it has a meaning of its own" if name else "it is empty"
        what = f'"{name}" cannot be a further label of {label.name} {key}: {reason}'
        raise DataError(what, hint="give it another name")
    return sorted(labels)


def further_labels(graph: Graph, names: Iterable[str]) -> list[str]:
    """The labels without a meaning of their own, sorted."""
    return sorted(n for n in names if n and n not in graph.labels and not n.startswith(RESERVED))


# The exceptions of a conversion for a value that does not fit.
_ODD = (ValueError, TypeError, ArithmeticError, LookupError, RecursionError, AttributeError)
UNFIT = (*_ODD, pa.ArrowException, DataError)


@dataclass(frozen=True)
class LeftOut:
    """The rows that the reads of one store left out. For each label and property: the first value
    that does not fit, and the rows, by the columns that were read.
    """

    rows: dict[tuple[str, str], tuple[str, dict[tuple[str, ...], set[str]]]] = field(
        default_factory=dict
    )

    def columns(
        self,
        graph: Graph,
        label: str,
        names: Sequence[str],
        rows: Sequence[Sequence[Any]],
        convert: Callable[[str, Sequence[Any]], pa.Array[Any]],
    ) -> list[pa.Array[Any]]:
        """Rows of a label (or "path", whose rows are lists of edges) as columns. A row that does
        not fit is recorded, and NULL in every column: one without its key or an end, or with a
        value for which `convert` raises one of `UNFIT`.
        """
        required = (graph.key, *(graph.labels[label].ends if label in graph.labels else ()))

        def checked(name: str, values: Sequence[Any]) -> pa.Array[Any]:
            if name in required and None in values:
                raise ValueError(name)
            return convert(name, values)

        def fitting(row: Sequence[Any]) -> Sequence[Any]:
            for name, value in zip(names, row, strict=True):
                try:
                    checked(name, [value])
                except UNFIT:
                    self.note(graph, label, name, value, dict(zip(names, row, strict=True)))
                    return [None] * len(names)
            return row

        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        try:
            return [checked(*column) for column in zip(names, columns, strict=True)]
        except UNFIT:
            columns = list(zip(*map(fitting, rows), strict=True))
            return [convert(*column) for column in zip(names, columns, strict=True)]

    def paths(
        self, graph: Graph, var: str, rows: Sequence[Any], kind: pa.DataType
    ) -> list[pa.Array[Any]]:
        """Variable-length paths as a column; NULL if an edge lacks its key or ends."""
        of = [(row,) for row in rows]
        return self.columns(graph, "path", [var], of, lambda _, paths: steps_of(paths, kind))

    def note(self, graph: Graph, label: str, name: str, value: Any, row: dict[str, Any]) -> None:
        """Record that a row is left out because of one of its values."""
        own = graph.labels.get(label.partition("|")[0])  # of several possible labels the first
        declared = own.columns.get(name, "a usable vector") if own is not None else "whole"
        key, shown = row.get(graph.key), "missing" if value is None else repr(value)
        of = key if isinstance(key, str) else repr(row)
        first = f"{name} is {shortened(shown, 60)}, not {declared}. First: {shortened(of, 100)}"
        by = self.rows.setdefault((label, name), (plain_line(first), {}))[1]
        by.setdefault(tuple(row), set()).add(of)

    @property
    def notes(self) -> tuple[str, ...]:
        """One line for each label and property."""
        return tuple(
            f"left out {max(map(len, by.values())):,} {label} that another program wrote: {first}"
            for (label, _), (first, by) in self.rows.items()
        )


def struct_array(columns: Sequence[pa.Array[Any]], kind: Any) -> pa.StructArray:
    """Columns as one struct column, key first; NULL for rows without a key."""
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=columns[0].is_null())


def without_left_out(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows of a result that have a value in each of some columns: keys, or variables."""
    for name in columns:
        table = table.filter(table[name].is_valid()) if table[name].null_count else table
    return table
