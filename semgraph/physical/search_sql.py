"""A search as one DuckDB statement: hits of the store and of a step's rows, ranked alike, fused, cut to k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from semgraph.expr.binder import ORDINAL
from semgraph.expr.types import sql_type
from semgraph.logical.graph import RANKING, By
from semgraph.logical.node import Node
from semgraph.physical.sql import PARTITION, hidden, quote, scalar_sql

if TYPE_CHECKING:
    from semgraph.physical.search import SearchSpec

NAMES = tuple(name for name, _ in RANKING)


def statement(spec: SearchSpec) -> str:
    """The statement of a search over `l` (rows), `s` (store hits) and `w` (a step's rows)."""
    node = spec.node
    alias = quote(node.alias)
    branches = []
    if node.label:
        branches.append(_stored_hits(spec))
    if node.within is not None and spec.with_step:
        branches += _step_hits(spec, node.within)
    order = "score DESC"
    if not node.by:
        terms = [
            f"{scalar_sql(t.by, partitioned=False)} {'DESC' if t.descending else 'ASC'} NULLS LAST" for t in node.order
        ]
        order = ", ".join(terms)
    own = f"_q, method, score, {alias}, _key"
    ranked = (
        f"SELECT {own}, row_number() OVER (PARTITION BY _q, method ORDER BY {order}, _key) - 1 AS _r "
        f"FROM ({' UNION ALL '.join(branches)}) AS _h QUALIFY _r < {node.k}"
    )
    via = "CASE method " + " ".join(f"WHEN {i} THEN '{by.via}'" for i, by in enumerate(node.by)) + " END"
    via = via if node.by else "'order'"
    if node.fuse == "rrf" and node.by:
        fused = (
            f"SELECT _q, _key, round(sum(1.0 / (_r + 1)), 12) AS score, min(_r * 100 + method) AS _first, "
            f"any_value({alias}) AS {alias}, arg_min({via}, _r * 100 + method) AS via FROM ranked GROUP BY _q, _key"
        )
        last = (
            "SELECT *, row_number() OVER (PARTITION BY _q ORDER BY score DESC, _first, _key) - 1 AS rank "
            f"FROM fused QUALIFY rank < {node.k}"
        )
    else:
        fused = f"SELECT _q, _key, score, method AS _first, {alias}, {via} AS via, _r AS rank FROM ranked"
        last = "SELECT * FROM fused"
    packed = ", ".join(f"{quote(f.name)} := CAST({_field(f.name, alias)} AS {sql_type(f.type)})" for f in node.hit_type)
    rest = [name for name in hidden(node) if name != ORDINAL]
    columns = [f"l.{quote(n)}" for n in node.input.schema.names]
    columns += [
        f"CASE WHEN _f._q IS NULL THEN NULL ELSE struct_pack({packed}) END AS {alias}",
        *(f"l.{n}" for n in rest),
    ]
    join = "LEFT JOIN" if node.how == "left" else "JOIN"
    return (
        f"WITH ranked AS ({ranked}), fused AS ({fused}), final AS ({last}) "
        f"SELECT {', '.join(columns)} FROM l {join} final AS _f ON l.{ORDINAL} = _f._q "
        f"ORDER BY l.{ORDINAL}, _f.rank, _f._first, _f._key"
    )


def _field(name: str, alias: str) -> str:
    return f"_f.{name}" if name in NAMES else f"{alias}.{quote(name)}"


def _base_struct(spec: SearchSpec, present: set[str]) -> str:
    """A hit with every field that ranking, filters and the plan read; what this side lacks is NULL."""
    kinds = {f.name: f.type for f in spec.node.hit_type}
    if spec.node.label:
        columns = spec.node.graph.label(spec.node.label).columns
        kinds |= {name: columns[name].arrow for name in spec.properties}
    if spec.node.within is not None:
        kinds |= {f.name: f.type for f in spec.node.within.schema}
    fields = [
        f"{quote(n)} := {quote(n) if n in present else f'CAST(NULL AS {sql_type(t)})'}"
        for n, t in kinds.items()
        if n not in NAMES
    ]
    return f"struct_pack({', '.join(fields)})"


def _text(names: Sequence[str], alias: str) -> str:
    return "concat_ws(' ', " + ", ".join(f"{alias}.{quote(n)}" for n in names) + ")"


def _stored_hits(spec: SearchSpec) -> str:
    node = spec.node
    alias, key = quote(node.alias), quote(node.graph.key)
    present = {node.graph.key, *spec.properties}
    present |= {"source", "target"} if node.graph.label(node.label).kind == "edge" else set()
    inner = f"SELECT _q, method, score AS _s, {key} AS _key, {_base_struct(spec, present)} AS {alias} FROM s"
    cases = [
        f"WHEN method = {i} THEN overlap(l._x{i}, {_text(spec.texts[i], alias)})"
        for i, by in enumerate(node.by)
        if by.rank == "overlap"
    ]
    score = f"CASE {' '.join(cases)} ELSE _s END" if cases else "_s"
    terms = [f"({scalar_sql(c, partitioned=False)})" for c in spec.residual]
    if cases:
        terms.append("score > 0")
    if node.within is not None and spec.with_step:
        same = f" AND w.{PARTITION} = l.{PARTITION}" if node.within.partitioned and node.input.partitioned else ""
        terms.append(f"NOT EXISTS (SELECT 1 FROM w WHERE w.{key} = _key{same})")
    where = f"WHERE {' AND '.join(terms)}" if terms else ""
    own = f"_i._q, _i.method, {score} AS score, _i._key, _i.{alias}"
    hits = f"SELECT l.*, {own} FROM ({inner}) AS _i JOIN l ON l.{ORDINAL} = _i._q"
    return f"SELECT _q, method, score, {alias}, _key FROM ({hits}) AS l {where}"


def _step_hits(spec: SearchSpec, within: Node) -> list[str]:
    node = spec.node
    alias, key = quote(node.alias), quote(node.graph.key)
    vectors = "".join(f", _v{i}" for i, by in enumerate(node.by) if by.via == "nearest")
    partition = f", {PARTITION} AS _wp" if within.partitioned else ""
    inner = f"SELECT {_base_struct(spec, set(within.schema.names))} AS {alias}{vectors}{partition} FROM w"
    terms = [f"({scalar_sql(node.where, partitioned=False)})"] if node.where is not None else []
    if within.partitioned and node.input.partitioned:
        terms.append(f"l.{PARTITION} = _w._wp")
    pairs = f"FROM l JOIN ({inner}) AS _w ON {' AND '.join(terms) or 'TRUE'}"
    own = f"l.{ORDINAL} AS _q, {{method}} AS method, {{score}} AS score, {alias}, {alias}.{key} AS _key"
    if not node.by:
        return ["SELECT " + own.format(method=0, score="1.0") + " " + pairs]
    found = []
    for i, by in enumerate(node.by):
        score, test = _step_score(spec, by, i, alias)
        found.append(f"SELECT {own.format(method=i, score=score)} {pairs} WHERE {test}")
    return found


def _step_score(spec: SearchSpec, by: By, i: int, alias: str) -> tuple[str, str]:
    if by.via == "equal":
        return "1.0", f"l._x{i} = {alias}.{quote(by.prop)}"
    if by.via == "fulltext":
        score = f"overlap(l._x{i}, {_text([t for t in spec.texts[i] if _has(spec, t)], alias)})"
        return score, f"{score} > 0"
    score = f"array_cosine_similarity(l._x{i}, _v{i})"
    return f"CAST({score} AS DOUBLE)", f"{score} > {by.above}"


def _has(spec: SearchSpec, name: str) -> bool:
    return spec.node.within is not None and name in spec.node.within.schema.names
