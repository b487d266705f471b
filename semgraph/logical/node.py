"""The logical node: one operator of a plan, immutable, with its schema, its traits and a
fingerprint of its content; and the checks of arguments that all operators share.

Rules and planners use traits, never class names. The defaults of traits are conservative, so that
no rule moves an operator without declared traits.
"""

from __future__ import annotations

import dataclasses
import hashlib
import operator
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any, ClassVar, Literal, Self, cast

import pyarrow as pa

from semgraph.errors import Fault, Position, among, faults_at
from semgraph.expr import duckdb
from semgraph.expr.canonical import canonical, is_unset
from semgraph.expr.scalar import Scalar, paths_for, short
from semgraph.expr.types import sql_type, type_of_arrow
from semgraph.formats import shortened

RowsTrait = Literal["1:1", "subset", "expand", "collapse", "any"]
LabelRead = tuple[str, str]  # (label, property)
# The kinds of arguments that are relations.
_RELATIONS = {"input", "relation", "relations", "all_relations", "within", "body"}
Needs = frozenset[str] | None  # paths of columns; None: all


def argument(kind: str, **options: Any) -> Any:
    """A field of a node that plans set.

    Args:
        kind: The conversion of YAML and Python values (see `frontend.build`).
        options: `default` (a field without default is required); `choices`; `key`, its name in
            plans, if it differs; `tag`, its name in fingerprints, if the field was renamed;
            `added`, if the operator is older than the field, so that fingerprints omit its default;
            `doc` for the JSON Schema.
    """
    default = options.pop("default", dataclasses.MISSING)
    return field(default=default, metadata={"kind": kind, **options})


@dataclass(frozen=True, eq=False, kw_only=True)
class Node(ABC):
    """One operator over its inputs: immutable, compared by identity.

    The traits of a class are its keywords (`class Filter(Node, keyword="filter", rows="subset")`):

    - `keyword`: its name in plans; `sole`: the argument that may stand alone as the operator's
      value (`filter: "n > 1"` for `filter: {where: "n > 1"}`).
    - `tag`: its name in fingerprints: the name of the class, or the original name of a renamed
    class.
    - `relational`: DuckDB computes it. `calls_model`, `reads_store`: it calls a model, reads the
    store.
    - `rows`: how many rows of the result a row of the first input becomes.
    - `carries`: all columns that the operator does not add come unchanged from its first input.
    - `by_row`: the result of a row depends only on that row and on the other inputs, never on other
      rows of the first input.
    - `is_empty`: the result never has rows.
    """

    keyword: ClassVar[str] = ""
    tag: ClassVar[str] = ""
    sole: ClassVar[str] = ""
    relational: ClassVar[bool] = False
    calls_model: ClassVar[bool] = False
    reads_store: ClassVar[bool] = False
    rows: ClassVar[RowsTrait] = "any"
    carries: ClassVar[bool] = False
    by_row: ClassVar[bool] = False
    is_empty: ClassVar[bool] = False

    step: str = ""
    origin: Position | None = None

    def __init_subclass__(cls, **traits: Any) -> None:
        super().__init_subclass__()
        for name, trait in {"tag": cls.__name__, **traits}.items():
            if name not in vars(cls):
                setattr(cls, name, trait)
        cls.__repr__ = Node.__repr__  # type: ignore[method-assign]  # a dataclass writes its own

    def __post_init__(self) -> None:
        self.schema  # noqa: B018 - checks the arguments

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the result. A copy that a rule makes infers them on first use."""
        _known_below(self, "schema")
        return self.infer()

    @abstractmethod
    def infer(self) -> pa.Schema:
        """The schema of the result; checks all arguments. Raises Fault with the argument's path."""

    # Traits that depend on arguments and inputs

    @property
    def output_columns(self) -> frozenset[str]:
        """The columns of the result that the operator computes or replaces.

        Default: those that its input lacks, if it carries the columns of its input, otherwise all.
        """
        carried = self.inputs[0].schema.names if self.carries and self.inputs else ()
        return frozenset(self.schema.names).difference(carried)

    @property
    def reads(self) -> frozenset[str]:
        """The columns of the first input that the operator itself reads.

        Default: those that its arguments name.
        """
        columns = self.inputs[0].schema.names if self.inputs else ()
        return roots_of(self._named_paths).intersection(columns)

    @cached_property
    def passes(self) -> frozenset[str]:
        """The columns of the result that come unchanged from its first input."""
        if not self.carries or not self.inputs:
            return frozenset()
        return frozenset(self.schema.names) - self.output_columns

    @cached_property
    def row_local(self) -> bool:
        """Whether it is `by_row` without window functions."""
        return self.by_row and not any(scalar.has_window for scalar in scalars_of(self))

    @property
    def drops(self) -> bool:
        """Whether a row of its first input may be missing from the result."""
        return self.rows != "1:1"

    @property
    def swappable(self) -> bool:
        """Whether `use` can choose its implementation."""
        return self.calls_model

    @property
    def embeds(self) -> bool:
        """Whether it calls the embedder."""
        return False

    @property
    def label_reads(self) -> frozenset[LabelRead]:
        """The (label, property) pairs that it reads."""
        return frozenset()

    @cached_property
    def windowed(self) -> bool:
        """Whether its rows derive from windowed rows."""
        _known_below(self, "windowed")
        return any(node.windowed for node in self.inputs)

    @cached_property
    def rounds(self) -> frozenset[int]:
        """The loops on whose last round it depends; a loop is the number of loops around it."""
        _known_below(self, "rounds")
        return frozenset().union(*(node.rounds for node in self.inputs))

    # Projection pruning: the needed columns, and the operator without the other columns

    @cached_property
    def read_paths(self) -> frozenset[str]:
        """As `reads`, with fields of structs (`cand.name`). `cand.` means that the operator only
        checks whether the struct `cand` is NULL.
        """
        reads = self.reads
        own = frozenset(path for path in self._named_paths if path.split(".")[0] in reads)
        return own | (reads - roots_of(own))

    @cached_property
    def _named_paths(self) -> frozenset[str]:
        """The paths that its arguments name, of any relation."""
        values = ((getattr(self, f.name), f.metadata["kind"]) for f in self.arguments())
        return frozenset(path for value, kind in values for path in _named_by(value, kind))

    def paths_for(self, needed: Needs) -> frozenset[str]:  # noqa: ARG002
        """The paths of the first input that its arguments read for `needed` of its result."""
        return self.read_paths

    def first_needs(self, needed: Needs) -> Needs:
        """The paths of the first input that it needs if only `needed` is used of its result."""
        own = self.paths_for(needed)
        if not self.carries:
            return own
        if needed is None:
            return None
        return own | {path for path in needed if path.split(".")[0] not in self.output_columns}

    def other_needs(self, needed: Needs) -> tuple[Needs, ...]:  # noqa: ARG002
        """The paths of each further input that it needs if only `needed` is used of its result."""
        return (None,) * (len(self.inputs) - 1)

    def narrowed(self, needed: frozenset[str]) -> Node:  # noqa: ARG002
        """The same operator without unneeded columns and properties. Default: itself."""
        return self

    # Filter pushdown: a condition that the operator can apply itself

    def take_filter(self, where: Scalar) -> Node | None:  # noqa: ARG002
        """The same operator including a conjunct of a filter above it, or None."""
        return None

    # Empty inputs: simplification of the operator over inputs without rows

    def is_empty_over(self, empty: Sequence[bool]) -> bool:
        """Whether it has no rows if the inputs marked in `empty` have none.

        Default: whether the first input is marked, for operators that make rows from its rows.
        """
        makes_rows_of_rows = self.by_row or self.rows in {"1:1", "subset", "expand"}
        return empty[0] and (self.relational or makes_rows_of_rows)

    def without_empty(self, empty: Sequence[bool]) -> Node:  # noqa: ARG002
        """A simpler operator with the same rows if the inputs marked in `empty` have none."""
        return self

    # Structure

    @property
    def is_identity(self) -> bool:
        """Whether its rows are exactly the rows of its input."""
        return False

    @classmethod
    def arguments(cls) -> tuple[dataclasses.Field[Any], ...]:
        """The fields that plans set, including inputs."""
        return _arguments(cls)

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """The relations that it reads, the pipeline's relation first."""
        relations: list[Node] = []
        for name in relation_fields(type(self)):
            value = getattr(self, name)
            relations += value if isinstance(value, tuple) else [value] if value else []
        return tuple(relations)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the operator and everything below it, without step names and positions."""

        def of_node(value: object) -> str | None:
            return value.fingerprint if isinstance(value, Node) else None

        _known_below(self, "fingerprint")
        parts = [self.keyword, self.tag]
        for f in self.arguments():
            if is_unset(type(self), f.name, getattr(self, f.name)):
                continue
            text = self._texts.get(f.name) or canonical(getattr(self, f.name), of_node)
            parts.append(f"{f.metadata.get('tag', f.name)}={text}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @cached_property
    def content(self) -> str:
        """A hash of the operator alone: all fields except relations, step name and position."""
        text = "\n".join((self.tag, *(f"{name}={text}" for name, text in self._texts.items())))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def _texts(self) -> dict[str, str]:
        """The canonical texts of all fields except relations."""
        values = ((name, getattr(self, name)) for name in _content_fields(type(self)))
        return {
            name: canonical(value)
            for name, value in values
            if not is_unset(type(self), name, value)
        }

    def with_fields(self, **values: Any) -> Self:
        """The operator with other values of some fields, unchecked; itself if they are equal."""
        if all(getattr(self, name) == value for name, value in values.items()):
            return self
        return self._copy((), values)

    def with_inputs(self, *inputs: Node) -> Self:
        """The same operator over other relations, in the order of `inputs`."""
        if len(inputs) == len(self.inputs) and all(map(operator.is_, inputs, self.inputs)):
            return self
        rest = iter(inputs)
        changed: dict[str, Any] = {}
        for name in relation_fields(type(self)):
            value = getattr(self, name)
            if isinstance(value, Node):
                changed[name] = next(rest)
            elif isinstance(value, tuple):
                changed[name] = tuple(next(rest) for _ in value)
        same = len(inputs) == len(self.inputs) and all(map(same_columns, inputs, self.inputs))
        return self._copy((*_OF_CONTENT, *_OF_SCHEMAS) if same else _OF_CONTENT, changed)

    def _copy(self, known: tuple[str, ...], changed: dict[str, Any]) -> Self:
        """A copy with changed fields and the same cached properties `known`. Nothing is checked."""
        new, own = object.__new__(type(self)), vars(self)
        values = {name: own[name] for name in (*_fields(type(self)), *known) if name in own}
        vars(new).update(values | changed)
        return new

    def __repr__(self) -> str:
        """The operator, its own arguments and the kinds of its inputs. Inputs are shared, so that
        the full text may be exponential in the plan.

        `union() over filter, 2 add`
        """
        fields = {f.name: f for f in self.arguments() if f.repr}
        arguments = ", ".join(
            f"{name}={shortened(_brief(getattr(self, name)), 80)}"
            for name, f in fields.items()
            if name not in relation_fields(type(self)) and getattr(self, name) != f.default
        )
        kinds = Counter(node.keyword or type(node).__name__ for node in self.inputs)
        inputs = ", ".join(f"{n} {kind}" if n > 1 else kind for kind, n in kinds.items())
        text = f"{self.keyword or type(self).__name__}({arguments})"
        return f"{text} over {inputs}" if inputs else text


def _brief(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_brief, value))})"
    return " ".join(str(value).split())


def _known_below(node: Node, name: str) -> None:
    """Compute a cached property of all nodes below, deepest first: Python's stack is short."""
    done: set[Node] = set()  # needed because some classes do not cache this property

    def known(below: Node) -> bool:
        return name in vars(below) or below in done

    pending = list(node.inputs)
    while pending:
        top = pending[-1]
        missing = [] if known(top) else [child for child in top.inputs if not known(child)]
        if missing:
            pending += missing
            continue
        pending.pop()
        if not known(top):
            getattr(top, name)
            done.add(top)


def same_columns(one: Node, other: Node) -> bool:
    """Whether two relations have equal schemas."""
    return one.schema is other.schema or one.schema.equals(other.schema)


# Cached properties that remain valid over other relations, and over relations of equal schemas
_OF_CONTENT = ("_texts", "_named_paths", "content", "row_local")
_OF_SCHEMAS = ("schema", "passes", "read_paths")


@cache
def _fields(cls: type[Node]) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cls))


@cache
def _content_fields(cls: type[Node]) -> tuple[str, ...]:
    other = {"step", "origin", *relation_fields(cls)}
    return tuple(f.name for f in dataclasses.fields(cls) if f.name not in other)


@cache
def relation_fields(cls: type[Node]) -> tuple[str, ...]:
    """The fields that hold relations, in the order of `inputs`."""
    return tuple(f.name for f in _arguments(cls) if f.metadata["kind"] in _RELATIONS)


@cache
def _arguments(cls: type[Node]) -> tuple[dataclasses.Field[Any], ...]:
    return tuple(f for f in dataclasses.fields(cls) if "kind" in f.metadata)


def roots_of(paths: Iterable[str]) -> frozenset[str]:
    """The columns of paths: `cand` of `cand.name`."""
    return frozenset(path.split(".")[0] for path in paths)


def _scalars_in(value: Any) -> Iterator[Scalar]:
    if isinstance(value, Scalar):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _scalars_in(part)
    elif dataclasses.is_dataclass(value) and not isinstance(value, (type, Node)):
        for f in dataclasses.fields(value):
            yield from _scalars_in(getattr(value, f.name))


def _named_by(value: Any, kind: str) -> Iterable[str]:
    match kind:
        case "prompt":
            return cast("Iterable[str]", value.fields)
        case "pattern":
            return cast("Iterable[str]", value.columns)
        case "using":
            return (left for left, _ in value)
        case "name" | "names" | "path":
            return roots_of(filter(None, value if isinstance(value, tuple) else (value,)))
    return (path for scalar in _scalars_in(value) for path in scalar.fields)


def scalars_of(node: Node) -> Iterator[Scalar]:
    """Every SQL scalar among the arguments of an operator."""
    for f in node.arguments():
        yield from _scalars_in(getattr(node, f.name))


def under(paths: Needs, alias: str) -> Needs:
    """The needed fields of the struct `alias`. None: all; empty: only whether it is NULL."""
    if paths is None or alias in paths:
        return None
    return frozenset(path.split(".", 1)[1] for path in paths if path.startswith(f"{alias}.")) - {""}


def owner_column(rows: Node, owner: str) -> frozenset[str]:
    """The column with the partition of rows outside windows, if they have that column."""
    return frozenset({owner} if owner in rows.schema.names and not rows.windowed else ())


def walk(*roots: Node) -> Iterator[Node]:
    """Every node below the roots once, in topological order: inputs first."""
    seen: set[Node] = set()
    pending: list[Node | None] = [*reversed(roots)]  # after None: a node whose inputs are done
    while pending:
        node = pending.pop()
        if node is None:
            yield pending.pop()  # type: ignore[misc]
        elif node not in seen:
            seen.add(node)
            pending += (node, None, *reversed(node.inputs))


@lru_cache(maxsize=4)
def nodes_of(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """The result of `walk`, cached, because rules walk the same plan many times."""
    return tuple(walk(*roots))


def rebuilt(roots: tuple[Node, ...], change: Callable[[Node, Node], Node]) -> tuple[Node, ...]:
    """Replace every node below the roots, bottom up, by `change` of the node and of its copy over the
    replaced inputs; shared nodes stay shared.
    """
    done: dict[Node, Node] = {}
    for node in nodes_of(roots):
        changed = change(node, over(node, done))
        if changed is not node:
            done[node] = changed
    return tuple(done.get(root, root) for root in roots)


def rewrite(roots: tuple[Node, ...], change: Callable[[Node], Node]) -> tuple[Node, ...]:
    """Apply `change` to every node below the roots, bottom up; shared nodes stay shared."""
    return rebuilt(roots, lambda _, node: change(node))


def over(node: Node, changed: Mapping[Node, Node]) -> Node:
    """The node with each input replaced as in `changed`."""
    if not changed or changed.keys().isdisjoint(node.inputs):
        return node
    return node.with_inputs(*(changed.get(child, child) for child in node.inputs))


Columns = tuple[tuple[str, Scalar], ...]
Using = tuple[tuple[str, str], ...]  # pairs (left path, right path)


@dataclass(frozen=True)
class Sort:
    """One term of an order. NULLs come last, whatever the direction."""

    tag: ClassVar[str] = "Sort"
    by: Scalar
    descending: bool = False

    def __str__(self) -> str:
        return f"{self.by}{' desc' if self.descending else ''}"


@dataclass(frozen=True)
class Stop:
    """A limit on the rows to answer: the first `n` by `order`, of the whole relation or of each
    group of equal `by`.

    The optimizer sets it on an operator if a limit above needs no more rows.
    """

    tag: ClassVar[str] = "Stop"
    n: int
    by: tuple[str, ...] = ()
    order: tuple[Sort, ...] = ()


def merged(schema: pa.Schema, columns: list[pa.Field[Any]]) -> pa.Schema:
    """A schema with columns replaced by name; new columns are appended."""
    fields = {f.name: f for f in schema}
    fields |= {f.name: f for f in columns}
    return pa.schema(list(fields.values()))


def fresh(schema: pa.Schema, name: str, what: str, *path: str) -> None:
    """Refuse the name of an existing column. The fault is at `path`."""
    if name in schema.names:
        there, hint = "columns here: " + ", ".join(schema.names), "choose another name"
        raise Fault(f'{what} "{name}" is a column already', *path, there=there, hint=hint)


def check_condition(
    where: Scalar | None, schema: pa.Schema, key: str = "where", *, windows: bool = False
) -> None:
    """Refuse a condition over rows, the argument `key`, that is no truth value."""
    if where is not None:
        with faults_at(key):
            duckdb.expect_type(where, schema, pa.bool_(), windows=windows)


def free(name: str, taken: Iterable[str]) -> str:
    """A name like this that is none of these, even without case."""
    folded = {other.lower() for other in taken}
    while name.lower() in folded:
        name += "_"
    return name


def struct_of(schema: pa.Schema) -> pa.DataType:
    """The type of a row, as one struct column."""
    return pa.struct(list(schema))


def combined(
    left: pa.Schema, right: pa.Schema, alias: str, fields: tuple[str, ...] | None = None
) -> pa.Schema:
    """The schema of a join's condition: left columns, and the right row as a struct of `fields`."""
    columns = right if fields is None else pa.schema([f for f in right if f.name in fields])
    return left.append(pa.field(alias, struct_of(columns)))


def check_sort(order: tuple[Sort, ...], schema: pa.Schema, key: str = "order") -> None:
    """Type every term of an order, the argument `key`."""
    for i, term in enumerate(order):
        with faults_at(key, i):
            duckdb.type_of(term.by, schema)
            duckdb.check_over_rows(term.by, schema, windows=False)


def check_names(names: tuple[str, ...], schema: pa.Schema, key: str) -> None:
    """Refuse names of unknown columns."""
    for i, name in enumerate(names):
        if name not in schema.names:
            raise Fault(f'no column "{name}"', key, i, **among(name, schema.names, "columns here"))


def check_using(using: Using, left: pa.Schema, right: pa.Schema) -> None:
    """Refuse pairs with an unknown side or with different types."""
    for i, (a, b) in enumerate(using):
        sides = []
        for path, schema in ((a, left), (b, right)):
            scalar = column_scalar(path)
            with faults_at("using", i):
                duckdb.check_columns(scalar, schema)
                sides.append(duckdb.type_of(scalar, schema))
        if sides[0] != sides[1]:
            msg = f'"{a}" is {type_of_arrow(sides[0])}, "{b}" is {type_of_arrow(sides[1])}'
            raise Fault(msg, "using", i, hint="cast one of them in a step before")


def typed(
    columns: Columns, schema: pa.Schema, key: str, *, windows: bool = True
) -> list[pa.Field[Any]]:
    """The fields of columns that are computed from rows."""

    def kind(scalar: Scalar) -> pa.DataType:
        result = duckdb.type_of(scalar, schema)
        duckdb.check_over_rows(scalar, schema, windows=windows)
        return result

    return _all_typed(columns, key, kind)


def typed_of_groups(
    columns: Columns, schema: pa.Schema, groups: Sequence[str] = ()
) -> list[pa.Field[Any]]:
    """The fields of columns `add` computed from groups, in which the SQL of `groups` is equal."""
    return _all_typed(
        columns, "add", lambda scalar: duckdb.type_over_groups(scalar, schema, groups)
    )


def _all_typed(
    columns: Columns, key: str, kind: Callable[[Scalar], pa.DataType]
) -> list[pa.Field[Any]]:
    fields = []
    for name, scalar in columns:
        with faults_at(key, name):
            fields.append(pa.field(name, kind(scalar)))
    return fields


def check_standing_in(
    columns: Columns,
    schema: pa.Schema,
    answers: Iterable[pa.Field[Any]],
    groups: Sequence[str] | None = None,
) -> None:
    """Refuse columns `otherwise` that cannot replace the answers of rows without a call. NULL
    replaces an answer of any type. `groups`, the SQL of the values that are equal in a group, means
    answers about groups.
    """
    kinds, key = {f.name: f.type for f in answers}, "otherwise"
    for name, value in columns:
        with faults_at(key, name):
            if name not in kinds:
                what = f'{key}: "{name}" is not an answer of this prompt'
                raise Fault(what, **among(name, kinds, "its answers"))
            wanted, constant = kinds[name], groups is None or not value.columns
            own = (
                duckdb.type_of(value, schema)
                if groups is None
                else duckdb.type_over_groups(value, schema, groups)
            )
            if own != wanted and not (constant and duckdb.stands_for(value, schema, wanted)):
                types = f'{type_of_arrow(own)}, but the answer "{name}" is {type_of_arrow(wanted)}'
                raise Fault(f'{key}: "{value.text}" is {types}')
            if groups is None:
                duckdb.check_over_rows(value, schema)


def expect_type_of_groups(
    scalar: Scalar, schema: pa.Schema, wanted: pa.DataType, groups: Sequence[str]
) -> None:
    """Refuse a scalar over groups of rows with a type other than `wanted`. Raises Fault."""
    kind = duckdb.type_over_groups(scalar, schema, groups)
    if kind != wanted:
        types = f"{type_of_arrow(kind)}, expected {type_of_arrow(wanted)}"
        raise Fault(f'"{short(scalar.text)}" is {types}')


def computed_sql(scalar: Scalar, kind: pa.DataType) -> str:
    """SQL of a computed column, cast to its type in the schema."""
    plain = len(scalar.columns) == 1 and scalar.sql == f'"{scalar.columns[0]}"'
    return scalar.sql if plain else f"CAST({scalar.sql} AS {sql_type(kind)})"


def column_scalar(path: str) -> Scalar:
    """A column, or a field of a struct column, as a scalar."""
    return Scalar(path, ".".join(f'"{part}"' for part in path.split(".")), (path,))


def needed_columns(columns: Columns, needed: frozenset[str]) -> Columns:
    """The computed columns that needed paths refer to."""
    roots = roots_of(needed)
    return tuple((name, scalar) for name, scalar in columns if name in roots)


def read_through(columns: Columns, needed: frozenset[str]) -> frozenset[str]:
    """The paths that computed columns read if only `needed` is used of them."""
    paths: set[str] = set()
    for name, scalar in columns:
        fields = under(needed, name)
        paths |= scalar.fields if fields is None else paths_for(scalar, fields)
    return frozenset(paths)


def with_own(
    needed: frozenset[str] | None, alias: str, using: Using, scalars: Iterable[Scalar]
) -> frozenset[str] | None:
    """The paths that a join needs of its other side: of `alias`, and of its own conditions."""
    own = under(frozenset().union(*(s.fields for s in scalars)), alias)
    if needed is None or own is None:
        return None
    return needed | own | {right for _, right in using}


JoinHow = Literal["inner", "left", "semi", "anti"]


class Pairing(Node):
    """A join, by a model or without one."""

    other: Node
    alias: str
    using: Using
    how: JoinHow
    fields: tuple[str, ...] | None  # of the other row that it returns; None: all

    @property
    @abstractmethod
    def _scalars(self) -> list[Scalar]:
        """The expressions that read both rows."""

    @property
    def only_left(self) -> bool:
        """Whether it only keeps left rows."""
        return self.how in {"semi", "anti"}

    @cached_property
    def windowed(self) -> bool:
        """Whether the left side is windowed or, if the join adds columns, the right side."""
        return self.inputs[0].windowed or (not self.only_left and self.other.windowed)

    def is_empty_over(self, empty: Sequence[bool]) -> bool:
        return empty[0] or (empty[1] and self.how in {"inner", "semi"})

    def narrowed(self, needed: frozenset[str]) -> Node:
        own = under(frozenset().union(*(s.fields for s in self._scalars), needed), self.alias)
        if self.only_left or own is None:
            return self if self.only_left else self.with_fields(fields=None)
        wanted, right = roots_of((*own, *(path for _, path in self.using))), self.other.schema.names
        names = tuple(name for name in right if name in wanted)
        return self.with_fields(fields=names or tuple(right[:1]))

    def other_needs(self, needed: Needs) -> tuple[Needs, ...]:
        alias = self.alias or "_right"
        wanted = frozenset[str]() if self.only_left else under(needed, alias)
        return (with_own(wanted, alias, self.using, self._scalars),)
