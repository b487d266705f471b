"""The specification of a search: the part of the store (ranking, filters, returned properties) and
the part of the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from sqlglot import exp

from semgraph.expr.duckdb import always
from semgraph.expr.scalar import Scalar, from_ast
from semgraph.logical.schema import Label
from semgraph.logical.search import RANKING, Search
from semgraph.physical.reads import is_pushed
from semgraph.relational.batch import Batch
from semgraph.relational.sql import quote
from semgraph.stores.base import Method, SearchQuery, Store

NAMES = tuple(name for name, _ in RANKING)


def conjuncts_for_store(
    node: Search, store: Store
) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
    """The conjuncts that the store takes, as it sees them, and the others, as written."""
    names = tuple(name for name in (node.alias, node.source, node.target) if name)
    if node not in _SEEN:
        _SEEN[node] = tuple(_seen_by_store(node))
    pushed = [
        (part, seen, is_pushed(store, seen, names, _labels(node), node.input.schema))
        for part, seen in _SEEN[node]
    ]
    taken = tuple(seen for _, seen, is_taken in pushed if is_taken)
    return taken, tuple(part for part, _, is_taken in pushed if not is_taken)


_SEEN: WeakKeyDictionary[Search, tuple[tuple[Scalar, Scalar], ...]] = WeakKeyDictionary()


def _seen_by_store(node: Search) -> Iterator[tuple[Scalar, Scalar]]:
    """The conjuncts that stored rows may fail: as written, and as the store sees them."""
    stored = set(node.graph.label(node.label).columns) if node.label else set()
    for part in node.where.conjuncts() if node.where is not None else ():
        if always(part):
            continue
        seen = _without_step_columns(part, node.alias, stored)
        if seen.ast != exp.true():  # such as "only earlier rows": all stored rows are earlier
            yield part, seen


def _labels(node: Search) -> dict[str, Label]:
    """The labels of the hit and of the nodes at its ends, by their names in conditions."""
    if not node.label:
        return {}
    label = node.graph.label(node.label)
    return {node.alias: label} | {
        getattr(node, end): node.graph.label(getattr(label, end)) for end in node.ends
    }


def _without_step_columns(scalar: Scalar, alias: str, stored: set[str]) -> Scalar:
    """A condition with NULL for the columns that only a step's rows have."""

    def change(tree: exp.Expr) -> exp.Expr:
        if isinstance(tree, exp.Column) and tree.table == alias and tree.name not in stored:
            return exp.Null()
        return tree

    changed = scalar.ast.transform(change)
    return from_ast(changed if changed == scalar.ast else _folded(changed), scalar.text)


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def _folded(tree: exp.Expr) -> exp.Expr:
    """A folded expression. A comparison with NULL becomes NULL. A COALESCE whose first non-NULL
    term is a truth value becomes that value.
    """
    for name, value in list(tree.args.items()):
        if isinstance(value, exp.Expr):
            tree.set(name, _folded(value))
        elif isinstance(value, list):
            tree.set(name, [_folded(one) if isinstance(one, exp.Expr) else one for one in value])
    if isinstance(tree, exp.Paren) and isinstance(tree.this, (exp.Null, exp.Boolean)):
        return tree.this
    if isinstance(tree, _COMPARISONS) and (
        isinstance(tree.this, exp.Null) or isinstance(tree.expression, exp.Null)
    ):
        return exp.Null()
    if isinstance(tree, exp.Coalesce):
        terms = [term for term in (tree.this, *tree.expressions) if not isinstance(term, exp.Null)]
        return terms[0] if terms and isinstance(terms[0], exp.Boolean) else tree
    return tree


@dataclass(frozen=True)
class SearchSpec:
    """A search, compiled for a store, which evaluates the conjuncts `taken`. The engine evaluates
    the `residual` ones on its hits, which are then fetched without a limit, as they are if `order` has
    terms that are no properties.

    `more` are further properties that the store returns because an equal search of the plan reads
    them.
    """

    node: Search
    taken: tuple[Scalar, ...]
    residual: tuple[Scalar, ...]
    nearest: str = "exact"
    more: frozenset[str] = frozenset()

    @classmethod
    def compile(cls, node: Search, store: Store) -> SearchSpec:
        """Split `where` between store and engine."""
        taken, residual = conjuncts_for_store(node, store)
        return cls(node, taken, residual, nearest=store.nearest if node.label else "exact")

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields of a hit, without the fields of its ranking."""
        return tuple(f.name for f in self.node.hit_type if f.name not in NAMES)

    @cached_property
    def ranking(self) -> tuple[str, ...]:
        """The fields of a hit that describe its ranking."""
        return tuple(f.name for f in self.node.hit_type if f.name in NAMES)

    @cached_property
    def step_vectors(self) -> dict[str, str]:
        """The vectors of a step's rows that hits return, with the columns of their texts."""
        within = self.node.within.schema.names if self.node.within is not None else ()
        label = self.node.graph.label(self.node.label) if self.node.label else None
        of = {} if label is None else {v: k for k, v in label.vectors.items()}
        return {
            name: of[name]
            for name in self.node.vectors
            if name not in within and of[name] in within
        }

    @cached_property
    def properties(self) -> tuple[str, ...]:
        """What the store must return for readers of a hit, ranking and residual filters."""
        label = self.node.graph.label(self.node.label)
        extra = set(self.node.ranked_by)
        extra |= {
            path.split(".")[1]
            for s in self.residual
            for path in s.columns
            if path.startswith(f"{self.node.alias}.")
        }
        wanted = [*self.fields, *sorted((extra | self.more) - set(self.fields))]
        known = {*label.columns, *label.vectors.values()} - {self.node.graph.key, *label.ends}
        names = (name for name in wanted if name in known)
        return tuple(sorted(names) if self.more else names)

    def query(self, k: int, prefix: str) -> SearchQuery:
        """The store's part, for the `k` best hits of each method, of columns with a prefix."""
        node = self.node
        limit = None if self.unlimited else k
        methods = tuple(
            Method(by.via, by.prop, f"{prefix}{i}", by.above, limit, by.rank)
            for i, by in enumerate(node.methods)
        )
        stored = node.graph.label(node.label).columns
        # Columns that only the step has are NULL in stored rows.
        order = tuple(term for term in self.terms if term[0] in stored)
        partition = None if node.partition == "all" else node.partition or node.graph.partition
        return SearchQuery(
            node.label,
            methods or (Method("order", k=limit),),
            self.properties,
            node.alias,
            self.taken,
            partition,
            order,
            tuple((end, getattr(node, end), self.end_properties[end]) for end in node.ends),
        )

    @cached_property
    def end_properties(self) -> dict[str, tuple[str, ...]]:
        """What the store must return for the nodes at a hit's ends, besides their keys."""
        scalars = [*self.residual, *(t.by for t in self.node.order)]
        properties = {}
        for end, kind in self.node.ends.items():
            prefix = f"{getattr(self.node, end)}."
            read = {
                path.split(".")[1] for s in scalars for path in s.columns if path.startswith(prefix)
            }
            names = dict.fromkeys([*(f.name for f in kind), *sorted(read)])
            properties[end] = tuple(name for name in names if name != self.node.graph.key)
        return properties

    @cached_property
    def unlimited(self) -> bool:
        """Whether the store must return all hits, because the engine filters or orders them."""
        return bool(self.residual) or not all(
            _plain_term(term.by, self.node) for term in self.node.order
        )

    @property
    def terms(self) -> tuple[tuple[str, bool], ...]:
        """The properties that order hits, and whether each descends; none if `unlimited`."""
        order = () if self.unlimited else self.node.order
        return tuple((term.by.columns[0].split(".")[1], term.descending) for term in order)

    @property
    def row_columns(self) -> frozenset[str]:
        """The columns of the rows that the store's part reads, besides the methods' values."""
        own = {path.split(".")[0] for s in self.taken for path in s.columns}
        own -= self.node.output_columns
        if self.node.partition != "all":
            own.add(self.node.partition or self.node.graph.partition)
        return frozenset(own)


def _plain_term(scalar: Scalar, node: Search) -> bool:
    path = scalar.columns[0] if len(scalar.columns) == 1 else ""
    return path.startswith(f"{node.alias}.") and scalar.sql == ".".join(
        quote(p) for p in path.split(".")[:2]
    )


@dataclass(frozen=True)
class SearchInput:
    """A search and its rows: those that search, those of the searched step (None: no step is
    searched), and the values that each method compares with hits: for each row a value, words or a
    vector.
    """

    spec: SearchSpec
    left: Batch
    within: Batch | None
    values: Sequence[pa.Array[Any]]


def step_texts(spec: SearchSpec, method: int) -> list[str]:
    """The columns of a step's rows that a method by full text compares."""
    within = spec.node.within
    names = within.schema.names if within is not None else ()
    return [name for name in spec.node.texts[method] if name in names]


def joined_texts(columns: Sequence[Sequence[str | None]], count: int) -> list[str]:
    """The texts of `count` rows; each joins the texts of several columns."""
    rows = zip(*columns, strict=True) if columns else [()] * count
    return [" ".join(text for text in row if text is not None) for row in rows]
