"""Answers by row, and the truth of a compared step: the columns that identify a row, and the
correct answers. Also the graph that a plan wrote, prepared for scoring: nodes by their sources,
edges by content and time.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import Fault, InputError, PlanError, among, did_you_mean
from semgraph.expr.functions import canonical_json
from semgraph.expr.functions import key as folded
from semgraph.expr.types import Type, python_values, type_of_arrow
from semgraph.frontend.rows import check_rows, columns_of, convert
from semgraph.logical.node import walk
from semgraph.logical.plan import InputSpec, LogicalPlan
from semgraph.logical.prompt import plain
from semgraph.logical.semantic import SemAgg, Semantic, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.logical.sinks import Merge
from semgraph.provenance import at
from semgraph.scores import Edge, ScoredGraph, ScoredNode, lookup
from semgraph.stores.base import ScanQuery, Store

RowAnswers = Mapping[Hashable, Counter[Hashable]]
EACH = "[]"
TRUE = "_true"  # the boolean label column of a truth


def answers_of(
    table: pa.Table, key: Sequence[str], compare: Sequence[str], units: pa.Table | None = None
) -> dict[Hashable, Counter[Hashable]]:
    """Answers by row key; `units` are all rows, answered or not.

    `people[].name` compares a field of each element of a list, and `tags[]` compares each whole
    element: every element is an answer, in any order. All other compared columns of a row are one
    answer. Without compared columns the existence of the row is the answer.
    """
    fields = {"": [path for path in compare if EACH not in path]}
    for column, each, field in (path.partition(EACH) for path in compare):
        if each:
            fields.setdefault(column, []).append(field.removeprefix("."))
    if len(fields) > 1 and not fields[""]:
        del fields[""]
    result = {unit: Counter[Hashable]() for unit in ([] if units is None else names_of(units, key))}
    for row in map(plain, table.to_pylist()):
        own = result.setdefault(_name(row, key), Counter())
        for column, paths in fields.items():
            for element in (at(row, column) or ()) if column else (row,):
                answer = tuple(lookup(at(element, p) if p else element) for p in paths)
                if not paths or any(value is not None for value in answer):
                    own[(column, answer) if column and len(fields) > 1 else answer] += 1
    return result


def names_of(table: pa.Table, key: Sequence[str]) -> list[Hashable]:
    """The key of each row."""
    return [_name(plain(row), key) for row in table.to_pylist()]


def _name(row: Mapping[str, Any], key: Sequence[str]) -> Hashable:
    return tuple(lookup(at(row, path)) for path in key)


def correct(truth: pa.Table) -> pa.Table:
    """The rows of a truth that are not labelled as wrong."""
    return truth.filter(truth.column(TRUE)) if TRUE in truth.column_names else truth


_FLAGS = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}


class Columns(NamedTuple):
    """Paths of the columns that identify a row, and of the columns that are its answer."""

    key: tuple[str, ...]
    compare: tuple[str, ...]


def root(path: str) -> str:
    """The first column of a path.

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
        inner = f.type.value_type if pa.types.is_list(f.type) and EACH not in prefix else None
        if inner is not None and pa.types.is_struct(inner):
            yield from paths(pa.schema(list(inner)), f"{prefix}{f.name}{EACH}.")


def before(node: Semantic) -> list[str]:
    """The columns that exist before a step, which identify a row; for groups, the grouped ones."""
    return list(node.by) if isinstance(node, SemAgg) else node.inputs[0].schema.names


def path_of(name: str, kinds: Mapping[str, Type], node: Semantic) -> str | None:
    """The column that a column of the truth refers to: the one of the same name, else the only new
    field of this name.
    """
    if name in kinds:
        return name
    new = [path for path in kinds if root(path) not in node.inputs[0].schema.names]
    fields = [path for path in new if path.replace(EACH, "") == name] or [
        p for p in new if p.rsplit(".", 1)[-1] == name
    ]
    return fields[0] if len(fields) == 1 else None


def elements(path: str, kind: Type, values: Iterable[Any], source: str) -> tuple[Type, list[str]]:
    """The type and the compared paths of a column of answers. A list is compared by its elements,
    and these by the fields in the truth.

    Raises:
        PlanError: Its elements have a field that the step lacks.
    """
    if kind.item is None or kind.item.name != "struct":
        return replace(kind, nullable=True), [path + EACH] if kind.item is not None else [path]
    known = dict(kind.item.fields)
    rows = (row for value in python_values(values) for row in _listed(value))
    named = dict.fromkeys(str(name) for row in rows if isinstance(row, Mapping) for name in row)
    if unknown := [name for name in named if name not in known]:
        what = f'{source}: elements of {path} have no field "{unknown[0]}"'
        raise PlanError(what, **among(unknown[0], known, "fields"))
    names = [name for name in known if name in named] or list(known)
    fields = tuple((name, replace(known[name], nullable=True)) for name in names)
    listed = Type("list", nullable=True, item=replace(kind.item, fields=fields))
    return listed, [f"{path}{EACH}.{name}" for name in names]


def are_flags(values: Any) -> bool:
    """Whether all values are booleans, `yes` and `no`, or 1 and 0."""
    return all(value is None or isinstance(_flag(value), bool) for value in python_values(values))


def with_flags(rows: Any, columns: Mapping[str, Any], flags: Iterable[str]) -> Any:
    """Rows, also given by column, with `yes` and `no`, and 1 and 0, of boolean columns converted."""
    by_column = {name: python_values(values) for name, values in columns.items()}
    read = {name: [_flag(value) for value in by_column[name]] for name in flags}
    pairs = (pair for name in read for pair in zip(read[name], by_column[name], strict=True))
    if all(one is other for one, other in pairs):
        return rows
    each = zip(*(by_column | read).values(), strict=True)
    return [dict(zip(by_column, values, strict=True)) for values in each]


def _flag(value: Any) -> Any:
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return _FLAGS.get(str(whole).strip().lower(), value)


def _listed(value: Any) -> list[Any]:
    """The elements of a list, or of a JSON list."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return []  # the row check reports this
    return list(value) if isinstance(value, (list, tuple)) else []


def nested(row: Mapping[str, Any]) -> dict[str, Any]:
    """Values by path as columns: fields in structs; fields of elements in a list of one element,
    which is empty if all are NULL.
    """
    result: dict[str, Any] = {}
    for path, value in row.items():
        column, each, inner = path.partition(EACH)
        *outer, last = column.split(".")
        at = result
        for name in outer:
            at = at.setdefault(name, {})
        if not each:
            at[last] = value
            continue
        items = at.setdefault(last, [])
        if value is not None:
            if not items:
                items.append({})
            items[0] |= nested({inner.removeprefix("."): value})
    return result


VERDICTS = {"sem_filter": "keep", "sem_join": "match"}


@dataclass(frozen=True)
class Truth:
    """True rows, by the paths of the step's columns."""

    node: Semantic
    columns: Columns
    rows: pa.Table  # for labelled rows, the boolean column `_true` is the label
    source: str = "truth"  # its name in messages
    notes: tuple[str, ...] = ()  # on its coverage of the rows

    @property
    def labelled(self) -> bool:
        """Whether it has a boolean label for each row or pair."""
        return TRUE in self.rows.column_names

    @property
    def closed(self) -> bool:
        """Whether a row missing from the truth should have no answer; otherwise it is not scored."""
        return not self.labelled and not self.once

    @property
    def once(self) -> bool:
        """Whether each row of the step has one answer."""
        return isinstance(self.node, (SemMap, SemAgg))

    @property
    def listed(self) -> bool:
        """Whether elements of lists are compared."""
        return any(EACH in path for path in self.columns.compare)

    @property
    def scored(self) -> Columns:
        """The scored columns: a row and its answers; for labelled pairs, the existence of the pair."""
        key, compare = self.columns
        return Columns((*key, *compare), ()) if self.labelled else self.columns

    def answered(self, rows: pa.Table, frozen: pa.Table) -> RowAnswers:
        """The answers of a variant to the rows that the truth covers."""
        units = frozen if self.scored.key == self.columns.key else None
        return answers_of(rows, *self.scored, units)

    def wanted(self, frozen: pa.Table) -> RowAnswers:
        """The true answers to the frozen rows that the truth covers. What is true of a key is true
        of all rows with that key.
        """
        width, times = len(self.columns.key), self.times(frozen)
        result = {}
        units = self.rows if self.labelled else None
        for unit, own in answers_of(correct(self.rows), *self.scored, units).items():
            key = unit[:width] if isinstance(unit, tuple) else unit
            if key in times:
                rows = 1 if self.once and len(own) > 1 else times[key]
                # Only elements of lists keep their count.
                counts = {a: (n if self.listed else 1) * rows for a, n in own.items()}
                result[unit] = Counter(counts)
        return result

    def times(self, frozen: pa.Table) -> Mapping[Hashable, int]:
        """The number of answers that each unit can have: one for each row with that key."""
        counts = Counter(names_of(frozen, self.columns.key))
        return dict.fromkeys(counts, 1) if isinstance(self.node, SemAgg) else counts


def whole_rows(node: Semantic) -> Columns:
    """The columns of a comparison without a truth: all input columns identify a row, all new
    columns are its answer.
    """
    if isinstance(node, SemAgg):
        listed = {name: kind.item is not None for name, kind in node.answers}
        key = node.by
    else:
        fields = [f for f in node.schema if not pa.types.is_fixed_size_list(f.type)]
        own = node.inputs[0].schema.names
        key = tuple(f.name for f in fields if f.name in own)
        listed = {f.name: pa.types.is_list(f.type) for f in fields if f.name not in {*own, "score"}}
    return Columns(key, tuple(name + EACH * each for name, each in listed.items()))


def read_truth(node: Semantic, value: Any) -> Truth:
    """Read a truth in the columns of a step, without the step's rows.

    Args:
        node: The step.
        value: A file, an Arrow table, a pandas frame, or mappings.

    Raises:
        PlanError: It lacks a column that identifies a row, a column to compare, or rows.
        InputError: A value has the wrong type.
    """
    source = str(value) if isinstance(value, (str, Path)) else "the truth"
    rows, columns = read_columns(value, "the truth")
    kinds = dict(paths(node.schema))
    verdict = VERDICTS.get(node.keyword, "")
    named = {name: path for name in columns if (path := path_of(name, kinds, node)) is not None}
    labelled = verdict in columns and (verdict not in named or are_flags(columns[verdict]))
    if labelled:
        named.pop(verdict, None)  # a column of a join may have the same name
    key = tuple(path for path in named.values() if root(path) in before(node))
    types, compare = {name: replace(kinds[path], nullable=True) for name, path in named.items()}, []
    for name, path in named.items():
        if path not in key:
            types[name], own = elements(path, kinds[path], columns[name], source)
            compare += own
    _check(node, columns, Columns(key, tuple(compare)), source, labelled=labelled)
    unknown = [name for name in columns if name not in {*named, verdict}]
    if not labelled and not compare:
        _refuse_labels(node, {name: columns[name] for name in unknown}, source)
    types |= {verdict: Type("boolean")} if labelled else {}
    flags = [name for name, kind in types.items() if kind.name == "boolean"]
    spec = InputSpec("truth", tuple(types.items()))
    table = check_rows(spec, with_flags(rows, columns, flags), source=source)
    if not table.num_rows:
        what, there = f"{source} has no rows", "columns: " + ", ".join(columns)
        raise PlanError(what, there=there, hint=_by(node, key))
    true = [
        nested({named.get(name, TRUE): value for name, value in row.items()})
        for row in table.to_pylist()
    ]
    if labelled and getattr(node, "how", "") == "anti":
        true = [row | {TRUE: not row[TRUE]} for row in true]  # matches are dropped
    ignored = f"columns of the truth that step {node.step} does not have are ignored: "
    notes = (ignored + ", ".join(unknown),) if unknown else ()
    columns_of_truth = Columns(key, tuple(compare))
    return _consistent(Truth(node, columns_of_truth, pa.Table.from_pylist(true), source, notes))


def _by(node: Semantic, key: Sequence[str]) -> str:
    return f"it must name rows of step {node.step} by {', '.join(key)}"


def _refuse_labels(node: Semantic, unknown: Mapping[str, Any], source: str) -> None:
    """Refuse a column of labels with an unknown name: without it, rows labelled false would count
    as rows to keep. Raises PlanError.
    """
    verdict = VERDICTS.get(node.keyword)
    for name, values in unknown.items() if verdict is not None else ():
        known = [value for value in python_values(values) if value is not None]
        if known and are_flags(known):
            what = f'{source} has a column "{name}" of true and false, which step {node.step} does not have'
            there = f'the label of a row is called "{verdict}"'
            hint = f'rename the column to "{verdict}", or leave it out: then all rows of the truth are right'
            raise PlanError(what, there=there, hint=hint)


def _consistent(truth: Truth) -> Truth:
    """The truth with a note on duplicate rows. Raises PlanError if a row has contradictory labels."""
    key, rows = truth.scored.key, truth.rows
    if truth.labelled:
        wrong = rows.filter(pc.invert(rows.column(TRUE)))
        if both := set(names_of(correct(rows), key)) & set(names_of(wrong, key)):
            described = _described(key, next(iter(both)))
            raise PlanError(f"{truth.source} has contradictory labels for {described}")
    twice = rows.num_rows - len({canonical_json(plain(row)) for row in rows.to_pylist()})
    if not twice or any(EACH in path for path in truth.scored.compare):
        return truth
    note = f"{twice:,} duplicate rows of the truth are ignored"
    return replace(truth, notes=(*truth.notes, note))


def about(truth: Truth, frozen: pa.Table) -> Truth:
    """The truth with notes on its coverage of the frozen rows.

    Raises:
        PlanError: It covers no row, or has more answers to a row than the row can have.
    """
    key, source, times = truth.columns.key, truth.source, truth.times(frozen)
    units, rows_of_truth = set(times), set(names_of(truth.rows, key))
    if not units & rows_of_truth:
        what = f"{source} covers none of the {len(units):,} rows"
        there = f"the truth has {_described(key, next(iter(rows_of_truth)))}"
        theirs = f"; the rows have {_described(key, next(iter(units)))}" if units else ""
        raise PlanError(what, there=there + theirs, hint=_by(truth.node, key))
    single = truth.once and not truth.listed
    for unit, own in answers_of(truth.rows, *truth.columns).items() if single else ():
        if len(own) > max(1, times.get(unit, 1)):
            what = f"{source} has {len(own)} answers to {_described(key, unit)}"
            there = " and ".join(_described(truth.columns.compare, one) for one in list(own)[:2])
            raise PlanError(what, there=there)
    outside, uncovered = len(rows_of_truth - units), len(units - rows_of_truth)
    several = sum(n for n in times.values() if n > 1)
    of_rows = f"{uncovered:,} of {len(units):,} rows"
    notes = {
        f"{outside:,} of {len(rows_of_truth):,} rows of the truth are not among the rows: ignored": outside,
        f"the truth does not cover {of_rows}: they are not scored": uncovered and not truth.closed,
        "the truth labels pairs: pairs without a label are not scored": truth.labelled and truth.columns.compare,
        f"{of_rows} are not in the truth, so no answer to them is right": uncovered and truth.closed,
        f"{several:,} rows share their {', '.join(key)}: the truth applies to each of them": several,
    }  # fmt: skip
    return replace(truth, notes=(*truth.notes, *(note for note, holds in notes.items() if holds)))


def _described(key: Sequence[str], unit: Any) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in zip(key, unit, strict=True))


def _check(
    node: Semantic, names: Iterable[str], columns: Columns, source: str, *, labelled: bool
) -> None:
    """Refuse a truth that lacks columns. Raises PlanError."""
    key, compare = columns
    has, own = "it has: " + (", ".join(names) or "no columns"), before(node)
    if not key:
        near = next((hint for name in names if (hint := did_you_mean(name, own))), None)
        what = f"{source} has no column that identifies a row of step {node.step}"
        raise PlanError(what, there=f"{has}; rows have: {', '.join(own)}", hint=near)
    pairs = isinstance(node, SemJoin) and node.how not in {"semi", "anti"}
    presence = isinstance(node, SemJoin | SemFilter | SemTopk) and not pairs
    if not compare and not presence and not labelled:
        new = [path for path, _ in paths(node.schema) if root(path) not in own]
        what = f"{source} has no column to compare with the answers of step {node.step}"
        there = f"{has} ({', '.join(key)}: of the rows before the step); answers: {', '.join(new)}"
        raise PlanError(what, there=there, hint="rename a column to one of the answers")
    if labelled and not compare and pairs:
        what = f"{source} labels pairs, but has no column of the other side"
        raise PlanError(what, there=has, hint="add a column of the other side")


def read_columns(value: Any, source: str) -> tuple[Any, Mapping[str, Any]]:
    """Rows, or those of a file, and their columns. Raises PlanError or InputError."""
    from semgraph.frontend.row_files import rows_of

    rows = rows_of(Path(value)) if isinstance(value, (str, Path)) else value
    try:
        read = columns_of(rows)
    except Fault as fault:
        raise PlanError(f"{source} {fault.what}", hint=fault.hint) from None
    if read.unreadable:
        raise InputError(*(row.problem for row in read.unreadable.values()))
    return rows, read.values


_NODE = {"key", "label", "members", "name"}
_EDGE = {"source", "target", "label", "properties", "start", "end"}


def written_labels(plan: LogicalPlan) -> tuple[set[str], set[str], set[str]]:
    """Labels of nodes written unchanged from the input, of nodes that depend on a model, and of
    edges.

    Edges that depend on no model (such as the order of messages) are the same in every graph. They
    count only if all edges are of this kind.
    """
    merges = [sink for sink in plan.writes if isinstance(sink, Merge) and not sink.only]
    asking = [m for m in merges if any(node.calls_model for node in walk(m.input))]
    unchanged = {m.node for m in merges if m.node and m not in asking}
    edges = {m.edge for m in asking if m.edge} or {m.edge for m in merges if m.edge}
    return unchanged, {m.node for m in merges if m.node} - unchanged, edges


async def graph_of(store: Store, plan: LogicalPlan) -> ScoredGraph:
    """The rows of a store as a graph, for the labels that a plan writes.

    Nodes written unchanged have the same keys in every graph, so they identify the nodes derived
    from them: the members of a derived node are the unchanged nodes that an edge connects to it.
    Its name is the property that `draw: node` names. All other edges are facts.
    """
    graph, draw = plan.graph, plan.graph.draw
    unchanged, derived, edges = written_labels(plan)
    ends = {name: {graph.labels[name].source, graph.labels[name].target} for name in edges}
    ties = {name for name in edges if len(ends[name] & unchanged) == 1}
    named = {end for name in edges - ties for end in ends[name]}
    labels = derived | (unchanged & named) or unchanged

    async def rows(label: str, *shown: str) -> list[dict[str, Any]]:
        """The rows of a label with some properties; None for one that the label lacks."""
        known = [name for name in shown if name in graph.labels[label].properties]
        lacking = dict.fromkeys(name for name in shown if name not in known)
        table = await store.scan(ScanQuery(label, known))
        return [row | lacking for row in table.to_pylist()]

    members: defaultdict[str, set[str]] = defaultdict(set)
    for name in ties:
        from_source = graph.labels[name].source in unchanged
        of, member = ("target", "source") if from_source else ("source", "target")
        for row in await rows(name):
            members[row[of]].add(row[member])
    nodes = [
        ScoredNode(
            key := row[graph.key], frozenset(members[key]) if key in members else None,
            name if len(labels) > 1 else "", folded(row[draw.node]) if row[draw.node] else None,
        )
        for name in sorted(labels)
        for row in await rows(name, draw.node)
    ]  # fmt: skip
    facts = [
        Edge(
            row["source"], row["target"], folded(row[draw.edge] or name),
            start=row[draw.start], end=row[draw.end],
        )
        for name in sorted(edges - ties)
        for row in await rows(name, draw.edge, draw.start, draw.end)
    ]  # fmt: skip
    return ScoredGraph(tuple(nodes), tuple(facts))


def read_graph_truth(value: Any) -> ScoredGraph:
    """Read a true graph: a `ScoredGraph`, `{nodes: [...], edges: [...]}`, or a JSON file with that.

    A node has `key` and `members` (keys of the nodes that it was derived from) or `name`, and may
    have `label`; an edge has `source`, `target`, `label`, and may have `start` and `end`. Raises
    PlanError.
    """
    if isinstance(value, ScoredGraph):
        return value
    source = str(value) if isinstance(value, (str, Path)) else "the truth"
    data = _json(Path(value)) if isinstance(value, (str, Path)) else value
    if not isinstance(data, Mapping) or "nodes" not in data:
        what = f"{source} is not a graph: a whole plan is compared with nodes and edges"
        hint = '{"nodes": [{"key", "name", "members"}], "edges": [{"source", "target", "label", "start", "end"}]}'
        raise PlanError(what, hint=hint)
    nodes = [_node(row, f"{source}, node {i}") for i, row in enumerate(data["nodes"], 1)]
    keys = {node.key for node in nodes}
    listed = enumerate(data.get("edges") or (), 1)
    edges = [_edge(row, f"{source}, edge {i}", keys) for i, row in listed]
    if not nodes:
        raise PlanError(f"{source} has no nodes")
    return ScoredGraph(tuple(nodes), tuple(edges))


def comparable(graph: ScoredGraph, truth: ScoredGraph) -> ScoredGraph:
    """A graph reduced to the scope of the truth: without node labels if the truth has none."""
    if any(node.label for node in truth.nodes):
        return graph
    return replace(graph, nodes=tuple(replace(node, label="") for node in graph.nodes))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise PlanError(f"{path}: invalid JSON: {error}") from None


def _node(row: Any, where: str) -> ScoredNode:
    _check_keys(row, _NODE, ("key",), where)
    members = None if row.get("members") is None else frozenset(map(str, row["members"]))
    name = folded(str(row["name"])) if row.get("name") else None
    return ScoredNode(str(row["key"]), members, str(row.get("label") or ""), name)


def _edge(row: Any, where: str, keys: set[Any]) -> Edge:
    _check_keys(row, _EDGE, ("source", "target"), where)
    for end in ("source", "target"):
        if str(row[end]) not in keys:
            raise PlanError(f'{where}: no node has the key "{row[end]}" ({end})')
    source, target = str(row["source"]), str(row["target"])
    label, properties = folded(str(row.get("label") or "")), dict(row.get("properties") or {})
    times = (_time(row.get(name), f"{where}: {name}") for name in ("start", "end"))
    return Edge(source, target, label, properties, *times)


def _check_keys(row: Any, allowed: set[str], required: tuple[str, ...], where: str) -> None:
    there = f"it may have: {', '.join(sorted(allowed))}"
    if not isinstance(row, Mapping) or any(name not in row for name in required):
        raise PlanError(f"{where} lacks {' or '.join(required)}", there=there)
    if unknown := sorted(set(row) - allowed):
        raise PlanError(f'{where}: unknown key "{unknown[0]}"', there=there)


def _time(value: Any, where: str) -> datetime | None:
    try:
        time: datetime | None = convert(value, Type("timestamp"))
    except Fault as fault:
        raise PlanError(f"{where} {fault.what}") from None
    return time
