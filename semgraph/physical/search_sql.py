"""A search as one DuckDB statement, which defines its result: hits of the store and of a step's rows,
ranked by each method, fused and cut to k.

It computes searches over many rows; `search_rows` computes the same result over few rows.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from semgraph.expr.duckdb import ORDINAL
from semgraph.expr.scalar import INNER, LEFT, PAIRS, RIGHT, STEP, STORED
from semgraph.expr.types import sql_type
from semgraph.logical.node import Node
from semgraph.logical.search import Search, SearchMethod
from semgraph.physical.search_spec import NAMES, SearchSpec, step_texts
from semgraph.relational.batch import PARTITION, hidden
from semgraph.relational.sql import quote, scalar_sql
from semgraph.stores.prepare import end_column

_RANKED, _FUSED, _BEST = '"#ranked"', '"#fused"', '"#best"'  # relations
_Q, _METHOD, _KEY, _SCORE, _VIA = '"#q"', '"#method"', '"#key"', '"#score"', '"#via"'  # columns
_PLACE, _FIRST, _RANK, _PARTITION_OF = '"#place"', '"#first"', '"#rank"', '"#partition"'
_NUMBER = '"#number"'  # the number of a row of the step
# Columns of a pair: the row, the method, the row of the step.
PAIR = ('"#for"', '"#by"', '"#step_row"')
_RANKINGS = dict(zip(NAMES, (_RANK, _SCORE, _VIA), strict=True))


RESULT_OF = "#of"  # the row to which a result row belongs


def sought_column(method: int) -> str:
    """The column of the rows with the values that a method compares."""
    return f"#x{method}"


def vector_column(method: int) -> str:
    """The column of a step's rows with their vectors for a method."""
    return f"#v{method}"


@lru_cache(maxsize=256)
def statement(spec: SearchSpec) -> str:
    """The statement of a search over `LEFT` (with `sought_column`s), `STORED` and `STEP`."""
    node = spec.node
    alias = quote(node.alias)
    branches = []
    if node.label:
        branches.append(_stored_hits(spec))
    if node.within is not None and spec.with_step:
        branches += _step_hits(spec, node.within)
    ways = ["DESC" if term.descending else "ASC" for term in node.order]
    terms = [f'"#term{i}" {way} NULLS LAST' for i, way in enumerate(ways)]
    order = f"{_SCORE} DESC" if node.methods else ", ".join(terms)
    own = f"{_Q}, {_METHOD}, {_SCORE}, {alias}, {_KEY}"
    place = (
        f"row_number() OVER (PARTITION BY {_Q}, {_METHOD} ORDER BY {order}, {_KEY}) - 1 AS {_PLACE}"
    )
    ranked = f"SELECT {own}, {place} FROM ({' UNION ALL '.join(branches)}) AS {INNER} QUALIFY {_PLACE} < {node.k}"
    fused, best = _fusion(spec, alias)
    ranking = {name: f"{INNER}.{column}" for name, column in _RANKINGS.items()}
    fields = ((f, ranking.get(f.name) or f"{alias}.{quote(f.name)}") for f in node.hit_type)
    packed = ", ".join(
        f"{quote(f.name)} := CAST({column} AS {sql_type(f.type)})" for f, column in fields
    )
    rest = [name for name in hidden(node) if name != ORDINAL]
    columns = [f"{LEFT}.{quote(n)}" for n in node.input.schema.names]
    ends = [_end(alias, end, kind, getattr(node, end)) for end, kind in node.ends.items()]
    columns += [
        f"CASE WHEN {INNER}.{_Q} IS NULL THEN NULL ELSE struct_pack({packed}) END AS {alias}",
        *ends,
        *(f"{LEFT}.{n}" for n in rest),
        f"{LEFT}.{ORDINAL} AS {quote(RESULT_OF)}",
    ]
    join = "LEFT JOIN" if node.how == "left" else "JOIN"
    return (
        f"WITH {_RANKED} AS ({ranked}), {_FUSED} AS ({fused}), {_BEST} AS ({best}) "
        f"SELECT {', '.join(columns)} FROM {LEFT} {join} {_BEST} AS {INNER} ON {LEFT}.{ORDINAL} = {INNER}.{_Q} "
        f"ORDER BY {LEFT}.{ORDINAL}, {_RANK}, {_FIRST}, {_KEY}"
    )


def _fusion(spec: SearchSpec, alias: str) -> tuple[str, str]:
    """The relations of the fused hits of all methods, and of the best of them."""
    node = spec.node
    cases = " ".join(f"WHEN {i} THEN '{by.via}'" for i, by in enumerate(node.methods))
    via = f"CASE {_METHOD} {cases} END" if node.methods else "'order'"
    if node.fuse == "none" or not node.methods:
        own = f"{_Q}, {_KEY}, {_SCORE}, {_METHOD} AS {_FIRST}, {alias}, {via} AS {_VIA}, {_PLACE} AS {_RANK}"
        return f"SELECT {own} FROM {_RANKED}", f"SELECT * FROM {_FUSED}"
    first = f"{_PLACE} * 100 + {_METHOD}"
    score = f"round(sum(1.0 / ({_PLACE} + 1)), 12)" if node.fused else f"max({_SCORE})"
    fused = (
        f"SELECT {_Q}, {_KEY}, {score} AS {_SCORE}, min({first}) AS {_FIRST}, "
        f"any_value({alias}) AS {alias}, arg_min({via}, {first}) AS {_VIA} FROM {_RANKED} GROUP BY {_Q}, {_KEY}"
    )
    over = f"PARTITION BY {_Q} ORDER BY {_SCORE} DESC, {_FIRST}, {_KEY}"
    best = f"SELECT *, row_number() OVER ({over}) - 1 AS {_RANK} FROM {_FUSED} QUALIFY {_RANK} < {node.k}"
    return fused, best


def _term_columns(spec: SearchSpec) -> str:
    """The columns of the terms of `order`, which may read the row and the hit."""
    terms = [scalar_sql(term.by, windowed=False) for term in spec.node.order]
    return "".join(f', {term} AS "#term{i}"' for i, term in enumerate(terms))


def _end(alias: str, end: str, kind: pa.StructType, name: str) -> str:
    node = f"{alias}.{quote(end_column(end))}"
    packed = ", ".join(
        f"{quote(f.name)} := CAST({node}.{quote(f.name)} AS {sql_type(f.type)})" for f in kind
    )
    return f"CASE WHEN {node} IS NULL THEN NULL ELSE struct_pack({packed}) END AS {quote(name)}"


def _base_struct(spec: SearchSpec, present: set[str]) -> str:
    """A hit with all fields that are read; those that this side lacks are NULL."""
    kinds = {f.name: f.type for f in spec.node.hit_type}
    if spec.node.label:
        columns = spec.node.graph.label(spec.node.label).columns
        kinds |= {name: columns[name].arrow for name in spec.properties if name in columns}
    if spec.node.within is not None:
        kinds |= {f.name: f.type for f in spec.node.within.schema if f.name in spec.node.ranked_by}

    def value(name: str, kind: pa.DataType) -> str:
        column = quote(name) if name in present else "NULL"
        if name in present and name not in spec.node.vectors:
            return column
        return f"CAST({column} AS {sql_type(kind)})"

    fields = [f"{quote(n)} := {value(n, t)}" for n, t in kinds.items() if n not in NAMES]
    fields += [f"{quote(end_column(end))} := {quote(end_column(end))}" for end in spec.node.ends]
    return f"struct_pack({', '.join(fields)})"


def _sought(method: int) -> str:
    return f"{LEFT}.{quote(sought_column(method))}"


def _stored_hits(spec: SearchSpec) -> str:
    node = spec.node
    alias, key = quote(node.alias), quote(node.graph.key)
    present = {node.graph.key, *node.graph.label(node.label).ends, *spec.properties}
    struct = f"{_base_struct(spec, present)} AS {alias}"
    named = {quote(getattr(node, end)): quote(end_column(end)) for end in node.ends}
    ends = "".join(f", {column} AS {name}" for name, column in named.items())
    inner = f"SELECT _q AS {_Q}, method AS {_METHOD}, score AS {_SCORE}, {key} AS {_KEY}, {struct}{ends} FROM {STORED}"
    terms = [f"({scalar_sql(c, windowed=False)})" for c in spec.residual]
    if any(by.rank == "overlap" for by in node.methods):
        terms.append(f"{_SCORE} > 0")
    if node.within is not None and spec.with_step:
        same = "".join(f" AND {left} = {step}" for left, step in _same_partition(node, STEP))
        terms.append(f"NOT EXISTS (SELECT 1 FROM {STEP} WHERE {STEP}.{key} = {_KEY}{same})")
    where = f" WHERE {' AND '.join(terms)}" if terms else ""
    own = f"{INNER}.{_Q}, {INNER}.{_METHOD}, {INNER}.{_SCORE}, {INNER}.{_KEY}, {INNER}.{alias}"
    own += "".join(f", {INNER}.{name}" for name in named)
    hits = f"SELECT {LEFT}.*, {own} FROM ({inner}) AS {INNER} JOIN {LEFT} ON {LEFT}.{ORDINAL} = {INNER}.{_Q}"
    columns = f"{_Q}, {_METHOD}, {_SCORE}, {alias}, {_KEY}{_term_columns(spec)}"
    return f"SELECT {columns} FROM ({hits}) AS {LEFT}{where}"


def _same_partition(node: Search, step: str) -> list[tuple[str, str]]:
    """What must be equal, in SQL, for a row and a step row that it finds: one pair or none."""
    if node.by_window:
        return [(f"{LEFT}.{PARTITION}", f"{step}.{PARTITION}")]
    name = quote(node.graph.partition)
    return (
        [(f"coalesce({LEFT}.{name}, '')", f"coalesce({step}.{name}, '')")] if node.by_owner else []
    )


def _step_rows(spec: SearchSpec, within: Node) -> str:
    """The rows of the step as hits, with their numbers and vectors."""
    node = spec.node
    vectors = "".join(
        f", {quote(vector_column(i))}" for i, by in enumerate(node.methods) if by.via == "nearest"
    )
    partition = "".join(f", {step} AS {_PARTITION_OF}" for _, step in _same_partition(node, STEP))
    struct = _base_struct(spec, {*within.schema.names, *spec.step_vectors})
    return f"(SELECT {struct} AS {quote(node.alias)}, {ORDINAL} AS {_NUMBER}{vectors}{partition} FROM {STEP}) AS {RIGHT}"


def _pairs(spec: SearchSpec, within: Node) -> str:
    """The pairs of each row with every row of the step that it may find."""
    node = spec.node
    terms = [f"({scalar_sql(node.where, windowed=False)})"] if node.where is not None else []
    terms += [f"{left} = {RIGHT}.{_PARTITION_OF}" for left, _ in _same_partition(node, STEP)]
    return f"FROM {LEFT} JOIN {_step_rows(spec, within)} ON {' AND '.join(terms) or 'TRUE'}"


@lru_cache(maxsize=256)
def allowed(spec: SearchSpec) -> str:
    """The statement of all pairs for which `where` holds; their method is 0."""
    within = spec.node.within
    assert within is not None
    q, method, s = PAIR
    return f"SELECT {LEFT}.{ORDINAL} AS {q}, 0 AS {method}, {RIGHT}.{_NUMBER} AS {s} {_pairs(spec, within)}"


def _listed(spec: SearchSpec, within: Node, method: int) -> str:
    q, by, s = (f"{PAIRS}.{name}" for name in PAIR)
    rows = f"JOIN {_step_rows(spec, within)} ON {RIGHT}.{_NUMBER} = {s}"
    return f"FROM {PAIRS} JOIN {LEFT} ON {LEFT}.{ORDINAL} = {q} AND {by} = {method} {rows}"


def _step_hits(spec: SearchSpec, within: Node) -> list[str]:
    node = spec.node
    alias, key = quote(node.alias), quote(node.hit_key)

    def hits(method: int, score: str) -> str:
        own = f"{LEFT}.{ORDINAL} AS {_Q}, {method} AS {_METHOD}, {score} AS {_SCORE}, {alias}, {alias}.{key} AS {_KEY}"
        pairs = _listed(spec, within, method) if spec.listed else _pairs(spec, within)
        return f"SELECT {own}{_term_columns(spec)} {pairs}"

    if not node.methods:
        return [hits(0, "1.0")]
    branches = []
    for i, by in enumerate(node.methods):
        score, test = _step_score(spec, by, i, alias)
        branches.append(f"{hits(i, score)} WHERE {test}")
    return branches


def _step_score(spec: SearchSpec, by: SearchMethod, i: int, alias: str) -> tuple[str, str]:
    if by.via == "equal":
        return "1.0", f"{_sought(i)} = {alias}.{quote(by.prop)}"
    if by.via == "fulltext":
        texts = ", ".join(f"{alias}.{quote(name)}" for name in step_texts(spec, i))
        score = f"overlap({_sought(i)}, concat_ws(' ', {texts}))"
        return score, f"{score} > 0"
    score = f"array_cosine_similarity({_sought(i)}, {quote(vector_column(i))})"
    return f"CAST({score} AS DOUBLE)", f"{score} > {by.above} AND NOT isnan({score})"
