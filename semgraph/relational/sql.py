"""Scalars and relational operators as DuckDB SQL, over relations with hidden columns (`batch`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, singledispatch
from typing import Any

import pyarrow as pa
from sqlglot import exp

from semgraph.errors import EngineError
from semgraph.expr.duckdb import ORDINAL, called, is_aggregate, window_of
from semgraph.expr.scalar import LEFT, RIGHT, ROWS, Scalar, from_ast, to_sql, with_bound_fields
from semgraph.expr.types import sql_type
from semgraph.logical import relational as rel
from semgraph.logical.node import Columns, Node, Sort, Using
from semgraph.relational.batch import INPUT_ROW, PARTITION
from semgraph.relational.batch import hidden as hidden_columns

RIGHT_ORDINAL, _RIGHT_PARTITION, _RIGHT_INPUT_ROW, _BRANCH = '"#o"', '"#p"', '"#m"', '"#branch"'
LINEAGE, _RIGHT_LINEAGE = '"#from"', '"#right_from"'
_RANK = "#rank"
_RANKED_WINDOWS = (exp.RowNumber, exp.Lag, exp.Lead, exp.Ntile)  # each row has a distinct position
_FRAME_WINDOWS = (exp.FirstValue, exp.LastValue, exp.NthValue)  # one row of the frame
# Equal rows have equal positions.
_PEER_WINDOWS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
_UNORDERED = frozenset({  # aggregates whose result does not depend on the order of the rows
    "approx_count_distinct", "bit_and", "bit_or", "bit_xor", "bitstring_agg", "bool_and", "bool_or", "count", "count_if",
    "count_star", "countif", "entropy", "histogram", "histogram_exact", "mad", "max", "median", "min", "quantile",
    "quantile_cont", "quantile_disc", "regr_count",
})  # fmt: skip
_PICKING = frozenset({  # aggregates whose result depends on the order of the rows
    "any_value", "arbitrary", "arg_max", "arg_max_null", "arg_max_nulls_last", "arg_min", "arg_min_null",
    "arg_min_nulls_last", "argmax", "argmin", "array_agg", "first", "group_concat", "last", "list", "listagg", "max_by",
    "min_by", "mode", "string_agg",
})  # fmt: skip
Name = Callable[[Node], str]  # the name of the relation that holds the rows of a node


class InputRelations:
    """The names of relations, and hidden columns; if traced, `LINEAGE`: the ids of sources."""

    def __init__(self, names: Mapping[Node, str], traced: bool = False) -> None:
        self._names, self.traced = names, traced

    def __call__(self, node: Node) -> str:
        """The name of a node's relation."""
        return self._names[node]

    def hidden(self, node: Node) -> tuple[str, ...]:
        """The hidden columns of a node's relation."""
        return (*hidden_columns(node), LINEAGE) if self.traced else hidden_columns(node)


def quote(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


@lru_cache(maxsize=8192)
def scalar_sql(
    scalar: Scalar, windowed: bool, ordinal: str = ORDINAL, order: tuple[Sort, ...] = ()
) -> str:
    """SQL of a scalar. Aggregates read rows in their own order, otherwise in `order`, ties by the
    ordinal; those of distinct values read them sorted. Window functions stay within the partition.
    The distinct values of a list are sorted: DuckDB's own order is that of a hash table.
    """
    tree = with_bound_fields(scalar.ast)
    for distinct in list(tree.find_all(exp.ArrayDistinct)):
        tree = _sorted_list(distinct, tree)
    for window in list(tree.find_all(exp.Window)):
        if windowed:
            window.set(
                "partition_by",
                [exp.column(PARTITION, quoted=True), *(window.args.get("partition_by") or [])],
            )
        _order_window(window, ordinal)
    for aggregate in [call for call in tree.find_all(exp.Func) if is_aggregate(call)]:
        name = next(called(to_sql(aggregate)), "")
        own = window_of(aggregate)
        if own is None and name not in _UNORDERED:
            _order_call(aggregate, [*_ordered(order), *_by(ordinal)])
        elif own is not None and name in _PICKING:
            _order_call(aggregate, [*_terms(own), *_by(ordinal)])
    return to_sql(tree)


def _sorted_list(items: exp.Expr, tree: exp.Expr) -> exp.Expr:
    """A tree with one of its lists sorted."""
    if items is tree:
        return exp.ArraySort(this=items)
    items.replace(exp.ArraySort(this=items.copy()))
    return tree


def _by(ordinal: str) -> list[exp.Ordered]:
    return [exp.Ordered(this=exp.column(ordinal, quoted=True))]


def _ordered(order: tuple[Sort, ...]) -> list[exp.Ordered]:
    """The terms of an order, without constants, which DuckDB takes as positions of columns."""
    return [
        exp.Ordered(this=t.by.ast, desc=t.descending, nulls_first=False)
        for t in order
        if t.by.columns
    ]


def _terms(window: exp.Window) -> list[exp.Expr]:
    order = window.args.get("order")
    return [term.copy() for term in order.expressions] if order is not None else []


def _order_window(window: exp.Window, ordinal: str) -> None:
    """Break ties of a window function's order by the ordinal, without changing its frame."""
    terms = _terms(window)
    spec, call = window.args.get("spec"), window.this
    while isinstance(call, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        call = call.this
    in_rows = spec is not None and str(spec.args.get("kind")).upper() == "ROWS"
    if isinstance(call, _RANKED_WINDOWS) or (in_rows and not isinstance(call, _PEER_WINDOWS)):
        window.set("order", exp.Order(expressions=[*terms, *_by(ordinal)]))
    elif isinstance(call, _FRAME_WINDOWS):
        _order_call(call, [*terms, *_by(ordinal)])


def _order_call(call: exp.Func, rest: Sequence[exp.Expr]) -> None:
    """Complete the order in which a call reads rows: its own terms, then `rest`, which ends with
    the ordinal. Distinct values are ordered by themselves alone.
    """
    key, i = _last_argument(call)
    if key is None or isinstance(call.parent, exp.WithinGroup):
        return
    argument = call.args[key] if i is None else call.args[key][i]
    own = list(argument.expressions) if isinstance(argument, exp.Order) else []
    inner = argument.this if isinstance(argument, exp.Order) else argument
    distinct = call.find(exp.Distinct)
    if distinct is not None:
        rest = [exp.Ordered(this=value.copy()) for value in distinct.expressions]
    call.set(key, exp.Order(this=inner, expressions=[*own, *rest]), i)


def _last_argument(call: exp.Func) -> tuple[str | None, int | None]:
    """The position of the last argument of a call, which takes DuckDB's ORDER BY."""
    names = ["this"] if isinstance(call, exp.GroupConcat) else reversed(call.arg_types)
    for name in names:
        value = call.args.get(name)
        if isinstance(value, list) and value:
            return name, len(value) - 1
        if isinstance(value, exp.Expr):
            return name, None
    return None, None


def cast_columns(
    columns: Columns, node: Node, source: Node, ordinal: str = ORDINAL, order: tuple[Sort, ...] = ()
) -> list[str]:
    """Computed columns, each cast to its canonical type in the schema."""
    casts = []
    for name, scalar in columns:
        sql = scalar_sql(scalar, source.windowed, ordinal, order)
        plain = len(scalar.columns) == 1 and scalar.sql == quote(scalar.columns[0])
        if not plain:
            sql = f"CAST({sql} AS {sql_type(node.schema.field(name).type)})"
        casts.append(f"{sql} AS {quote(name)}")
    return casts


def order_sql(order: tuple[Sort, ...], node: Node, *last: str) -> str:
    """ORDER BY terms; NULLs last, ties by `last`."""
    terms = [
        f"{scalar_sql(t.by, node.windowed)} {'DESC' if t.descending else 'ASC'} NULLS LAST"
        for t in order
        # no constants: DuckDB would take a number as the position of a column
        if t.by.columns
    ]
    return ", ".join([*terms, *last])


def _select(columns: list[str], source: str, rest: str = "") -> str:
    return f"SELECT {', '.join(columns)} FROM {source} AS {ROWS}{' ' + rest if rest else ''}"


def _names(node: Node, prefix: str = "") -> list[str]:
    return [f"{prefix}{quote(name)}" for name in node.schema.names]


@singledispatch
def operator_sql(node: Node, source: InputRelations) -> str:  # noqa: ARG001
    """SQL of one operator over the named relations of its inputs."""
    raise EngineError(f"{node.keyword} is not relational")


@operator_sql.register
def _(node: rel.Filter, source: InputRelations) -> str:
    where = f"WHERE {scalar_sql(node.where, node.windowed)}"
    if node.where.ast.find(exp.Window):
        where = where.replace("WHERE", "QUALIFY", 1)
    return _select([*_names(node), *source.hidden(node)], source(node.input), where)


@operator_sql.register
def _(node: rel.Project, source: InputRelations) -> str:
    return _select(
        [*cast_columns(node.columns, node, node.input), *source.hidden(node)], source(node.input)
    )


@operator_sql.register
def _(node: rel.Add, source: InputRelations) -> str:
    computed = dict(
        zip((n for n, _ in node.columns), cast_columns(node.columns, node, node.input), strict=True)
    )
    columns = [computed.get(name, quote(name)) for name in node.schema.names]
    return _select([*columns, *source.hidden(node)], source(node.input))


@operator_sql.register
def _(node: rel.Limit, source: InputRelations) -> str:
    per = [quote(name) for name in node.by] + ([PARTITION] if node.windowed else [])
    over = f"{'PARTITION BY ' + ', '.join(per) if per else ''} ORDER BY {order_sql(node.order, node, ORDINAL)}"
    return _select(
        [*_names(node), *source.hidden(node)],
        source(node.input),
        f"QUALIFY row_number() OVER ({over}) <= {node.n}",
    )


@operator_sql.register
def _(node: rel.Ordered, source: InputRelations) -> str:
    ordinal = f"row_number() OVER (ORDER BY {order_sql(node.by, node, ORDINAL)}) AS {ORDINAL}"
    rest = [name for name in source.hidden(node) if name != ORDINAL]
    return _select([*_names(node), ordinal, *rest], source(node.input))


@operator_sql.register
def _(node: rel.Distinct, source: InputRelations) -> str:
    by = [quote(name) for name in node.by or node.schema.names] + (
        [PARTITION] if node.windowed else []
    )
    over = f"PARTITION BY {', '.join(by)} ORDER BY {ORDINAL}"
    return _select(
        [*_names(node), *source.hidden(node)],
        source(node.input),
        f"QUALIFY row_number() OVER ({over}) = 1",
    )


@operator_sql.register
def _(node: rel.Aggregate, source: InputRelations) -> str:
    partition = [PARTITION] if node.windowed else []
    groups = [str(i + 1) for i in range(len(node.by))] + partition
    columns = [*cast_columns(node.by, node, node.input), *cast_columns(node.add, node, node.input)]
    columns.append(f"coalesce(min({ORDINAL}), 0) AS {ORDINAL}")
    if node.windowed:
        columns += [PARTITION, f"min({INPUT_ROW}) AS {INPUT_ROW}"]
    if source.traced:
        columns.append(f"flatten(list({LINEAGE})) AS {LINEAGE}")
    sql = _select(columns, source(node.input), f"GROUP BY {', '.join(groups)}" if groups else "")
    if node.having is None:
        return sql
    return f"SELECT * FROM ({sql}) AS {ROWS} WHERE {scalar_sql(node.having, windowed=False)}"


@operator_sql.register
def _(node: rel.Union, source: InputRelations) -> str:
    branches = []
    for i, branch in enumerate(node.relations):
        lacking = [name for name in hidden_columns(node) if name not in hidden_columns(branch)]
        missing = [f"NULL AS {name}" for name in lacking]
        own = [_narrowed(f, branch.schema.field(f.name).type) for f in node.schema]
        columns = [*own, *source.hidden(branch), *missing, f"{i} AS {_BRANCH}"]
        branches.append(_select(columns, source(branch)))
    rest = [name for name in source.hidden(node) if name != ORDINAL]
    columns = [
        *_names(node),
        f"row_number() OVER (ORDER BY {_BRANCH}, {ORDINAL}) AS {ORDINAL}",
        *rest,
    ]
    return f"SELECT {', '.join(columns)} FROM ({' UNION ALL BY NAME '.join(branches)}) AS {ROWS}"


@operator_sql.register
def _(node: rel.Intersect, source: InputRelations) -> str:
    first, *others = node.relations
    own = [f"{LEFT}.{name}" for name in (*_names(node), *source.hidden(node))]
    tests = []
    for other in others:
        both = [PARTITION] if first.windowed and other.windowed else []
        same = (f"{LEFT}.{n} IS NOT DISTINCT FROM {RIGHT}.{n}" for n in (*_names(node), *both))
        exists = f"EXISTS (SELECT 1 FROM {source(other)} AS {RIGHT} WHERE {' AND '.join(same)})"
        tests.append(exists if node.present else f"NOT {exists}")
    equal = ", ".join([*_names(node), *([PARTITION] if node.windowed else [])])
    chosen = f"SELECT {', '.join(own)} FROM {source(first)} AS {LEFT} WHERE {' AND '.join(tests) or 'TRUE'}"
    first_of_equal = f"QUALIFY row_number() OVER (PARTITION BY {equal} ORDER BY {ORDINAL}) = 1"
    return f"SELECT * FROM ({chosen}) AS {ROWS} {first_of_equal}"


def _narrowed(wanted: pa.Field[Any], existing: pa.DataType) -> str:
    """A column; for a struct, only the wanted fields."""
    name = quote(wanted.name)
    return name if existing == wanted.type else f"{_part(name, existing, wanted.type)} AS {name}"


def _part(value: str, existing: pa.DataType, wanted: pa.DataType) -> str:
    if not pa.types.is_struct(existing) or not pa.types.is_struct(wanted) or existing == wanted:
        return value
    kinds = {f.name: f.type for f in existing}
    parts = (
        f"{quote(f.name)} := {_part(f'{value}.{quote(f.name)}', kinds[f.name], f.type)}"
        for f in wanted
    )
    return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({', '.join(parts)}) END"


@operator_sql.register
def _(node: rel.Unnest, source: InputRelations) -> str:
    column, position = quote(node.column), quote(node.position or "#i")
    kind = sql_type(node.input.schema.field(node.column).type)
    listed = column
    if node.how != "inner":
        listed = f"CASE WHEN len({column}) > 0 THEN {column} ELSE CAST([NULL] AS {kind}) END"
    rest_names = [quote(name) for name in node.input.schema.names if name != node.column]
    inner = _select(
        [
            *rest_names,
            *source.hidden(node),
            f"unnest({listed}) AS {quote(node.alias)}",
            f"CAST(generate_subscripts({listed}, 1) AS BIGINT) AS {position}",
        ],
        source(node.input),
    )
    rest = [name for name in source.hidden(node) if name != ORDINAL]
    ordinal = f"row_number() OVER (ORDER BY {ORDINAL}, {position}) AS {ORDINAL}"
    return f"SELECT {', '.join([*_names(node), ordinal, *rest])} FROM ({inner}) AS {ROWS}"


def right_side(
    other: Node,
    source: Name,
    alias: str,
    fields: Sequence[str] | None = None,
    *,
    traced: bool = False,
) -> str:
    """The other side of a join: rows as structs `alias`, hidden columns under other names."""
    packed = ", ".join(f"{quote(n)} := {quote(n)}" for n in fields or other.schema.names)
    columns = [f"struct_pack({packed}) AS {quote(alias)}", f"{ORDINAL} AS {RIGHT_ORDINAL}"]
    if other.windowed:
        columns += [f"{PARTITION} AS {_RIGHT_PARTITION}", f"{INPUT_ROW} AS {_RIGHT_INPUT_ROW}"]
    if traced:
        columns.append(f"{LINEAGE} AS {_RIGHT_LINEAGE}")
    return f"({_select(columns, source(other))})"


def join_condition(node: Node, other: Node, alias: str, using: Using, where: Scalar | None) -> str:
    """The condition of pairs: equal paths, `where`, and the same partition."""
    terms = [f"{LEFT}.{_path(a)} = {quote(alias)}.{_path(b)}" for a, b in using]
    if where is not None:
        terms.append(f"({scalar_sql(where, windowed=False)})")
    if node.windowed and other.windowed:
        terms.append(f"{LEFT}.{PARTITION} = {RIGHT}.{_RIGHT_PARTITION}")
    return " AND ".join(terms) or "TRUE"


def _path(path: str) -> str:
    return ".".join(quote(part) for part in path.split("."))


@operator_sql.register
def _(node: rel.Join, source: InputRelations) -> str:
    left, right, alias = node.input, node.other, node.alias or "_right"
    on = join_condition(left, right, alias, node.using, node.where)
    side = right_side(right, source, alias, node.fields, traced=source.traced)
    if node.how in {"semi", "anti"}:
        no = "NOT " if node.how == "anti" else ""
        columns = [*_names(left, f"{LEFT}."), *(f"{LEFT}.{name}" for name in source.hidden(left))]
        exists = f"WHERE {no}EXISTS (SELECT 1 FROM {side} AS {RIGHT} WHERE {on})"
        return f"SELECT {', '.join(columns)} FROM {source(left)} AS {LEFT} {exists}"
    columns = [*_names(left, f"{LEFT}."), f"{RIGHT}.{quote(alias)}"]
    columns.append(
        f"row_number() OVER (ORDER BY {LEFT}.{ORDINAL}, {RIGHT}.{RIGHT_ORDINAL}) AS {ORDINAL}"
    )
    if left.windowed:
        columns += [f"{LEFT}.{PARTITION}", f"{LEFT}.{INPUT_ROW}"]
    elif right.windowed:
        columns += [
            f"{RIGHT}.{_RIGHT_PARTITION} AS {PARTITION}",
            f"{RIGHT}.{_RIGHT_INPUT_ROW} AS {INPUT_ROW}",
        ]
    if source.traced:
        columns.append(f"list_concat({LEFT}.{LINEAGE}, {RIGHT}.{_RIGHT_LINEAGE}) AS {LINEAGE}")
    kind = "LEFT JOIN" if node.how == "left" else "JOIN"
    return f"SELECT {', '.join(columns)} FROM {source(left)} AS {LEFT} {kind} {side} AS {RIGHT} ON {on}"


@operator_sql.register
def _(node: rel.GroupJoin, source: InputRelations) -> str:
    left, alias = node.input, quote(node.alias)
    on = join_condition(left, node.other, node.alias, node.using, node.where)
    ordinal = f"{RIGHT}.{RIGHT_ORDINAL}"
    own = [
        *_names(left, f"{LEFT}."),
        *(f"{LEFT}.{name}" for name in source.hidden(left)),
        f"{RIGHT}.{alias}",
        ordinal,
        *([f"{RIGHT}.{_RIGHT_LINEAGE}"] if source.traced else []),
    ]
    order, by, within = node.order, RIGHT_ORDINAL.strip('"'), ""
    if node.limit is not None:
        over = f"PARTITION BY {LEFT}.{ORDINAL} ORDER BY {order_sql(node.order, left, ordinal)}"
        own.append(f"row_number() OVER ({over}) AS {quote(_RANK)}")
        order, by, within = (), _RANK, f"WHERE {quote(_RANK)} <= {node.limit}"
    right = right_side(node.other, source, node.alias, traced=source.traced)
    pairs = f"SELECT {', '.join(own)} FROM {source(left)} AS {LEFT} LEFT JOIN {right} AS {RIGHT} ON {on}"
    matches = tuple((name, _of_matches(scalar)) for name, scalar in node.add)
    computed = dict(
        zip((n for n, _ in node.add), cast_columns(matches, node, left, by, order), strict=True)
    )
    columns = [
        computed.get(name, f"any_value({quote(name)}) AS {quote(name)}")
        for name in node.schema.names
    ]
    rest = [f"any_value({name}) AS {name}" for name in hidden_columns(left) if name != ORDINAL]
    if source.traced:
        of_matches = f"flatten(list({_RIGHT_LINEAGE}) FILTER ({_RIGHT_LINEAGE} IS NOT NULL))"
        rest.append(f"list_concat(any_value({LINEAGE}), {of_matches}) AS {LINEAGE}")
    return f"SELECT {', '.join([*columns, ORDINAL, *rest])} FROM ({pairs}) AS {ROWS} {within} GROUP BY {ORDINAL}"


def _of_matches(scalar: Scalar) -> Scalar:
    """The scalar with aggregates of matches only: a left row may have none."""
    tree = scalar.ast
    matched = exp.column(RIGHT_ORDINAL.strip('"'), quoted=True).is_(exp.Null()).not_()
    for call in [node for node in tree.find_all(exp.Func) if is_aggregate(node)]:
        outer: exp.Expr = call
        while isinstance(outer.parent, (exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
            outer = outer.parent
        if isinstance(outer.parent, exp.Window):
            continue
        if isinstance(outer.parent, exp.Filter):
            where = outer.parent.expression
            where.set("this", exp.and_(matched.copy(), where.this))
        elif outer.parent is None:
            tree = exp.Filter(this=outer, expression=exp.Where(this=matched.copy()))
        else:
            outer.replace(exp.Filter(this=outer.copy(), expression=exp.Where(this=matched.copy())))
    return from_ast(tree, scalar.text)
