"""Segments over few rows as generated Python: one function of lists of tuples for each segment.

DuckDB takes milliseconds for a statement over a handful of rows, a generated function microseconds.
A row is a tuple in the order of `runtime_schema`; the ordinal is its position. `sql` defines the
semantics of operators. A whole segment is `Unsupported` if any part of it may give another result
than DuckDB.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import singledispatchmethod

import pyarrow as pa
from sqlglot import exp

from semgraph.expr import row_scalars as py
from semgraph.expr.row_functions import Rows
from semgraph.expr.row_scalars import Code, NameScope, Unsupported
from semgraph.expr.scalar import Scalar
from semgraph.logical import relational as rel
from semgraph.logical.node import Columns, Node, Sort
from semgraph.relational.batch import INPUT_ROW, PARTITION, runtime_schema
from semgraph.relational.sql import LINEAGE

_RIGHT = "_right"  # the other row of a semi or anti join
_TOO_DEEP = "an expression of hundreds of operands"


class RowFunction:
    """The rows of a segment, as a function of the rows of its inputs; its source is generated."""

    def __init__(self, source: str) -> None:
        self.source = source
        names = dict(py.NAMESPACE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # such as of `1 is None`
            code = compile(source, "<segment>", "exec")
        exec(code, names)  # noqa: S102 - generated here from admitted expressions
        self._run: Callable[..., Rows] = names["rows"]

    def __call__(self, inputs: Sequence[Rows], now: datetime | None) -> Rows:
        """The rows in order. On an exception DuckDB must compute the segment: it defines errors."""
        return self._run(now and now.astimezone(UTC), *inputs)


def compile_rows(
    root: Node, inputs: Sequence[Node], *, traced: bool = False
) -> RowFunction | Unsupported:
    """The function of a segment that computes `root`, with one argument for each of `inputs`; or
    why there is none. If traced, each row ends with a tuple: the ids of its source rows.
    """
    try:
        return RowFunction(_Generator(inputs, traced).function(root))
    except Unsupported as reason:
        return reason
    except (RecursionError, MemoryError):  # of the generator, or of Python's compiler
        return Unsupported(_TOO_DEEP)
    except SyntaxError as error:
        if "nested" not in error.msg:  # Python parses at most 200 nested brackets
            raise
        return Unsupported(_TOO_DEEP)


def _tuple(parts: Iterable[str]) -> str:
    listed = list(parts)
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def _path(path: str, columns: dict[str, Code]) -> Code:
    root, *fields = path.split(".")
    code = columns[root]
    for name in fields:
        code = py.field(code, name)
    return code


class _Generator:
    """Writes the lines of a function, one assignment for each operator."""

    def __init__(self, inputs: Sequence[Node], traced: bool) -> None:
        self._traced = traced
        self._names = {node: f"in{i}" for i, node in enumerate(inputs)}
        self._arguments = ", ".join(["now", *self._names.values()])
        self._lines: list[str] = []
        self._made = 0

    def function(self, root: Node) -> str:
        """The source of the function that computes a node."""
        result = self.rows(root)
        counted = any(re.search(r"\b(each|series)\(", line) for line in self._lines)
        prelude = ["each, series = counted()"] if counted else []
        lines = [f"def rows({self._arguments}):", *prelude, *self._lines, f"return {result}"]
        return "\n    ".join(lines) + "\n"

    def _columns(self, node: Node, row: str = "r") -> dict[str, Code]:
        return {f.name: Code(f"{row}[{i}]", f.type) for i, f in enumerate(self._schema(node))}

    def _schema(self, node: Node) -> pa.Schema:
        schema = runtime_schema(node)
        return schema.append(pa.field(LINEAGE, pa.list_(pa.int64()))) if self._traced else schema

    def rows(self, node: Node) -> str:
        """The variable that holds the rows of a node."""
        if node not in self._names:
            try:
                self._names[node] = self._operator(node)
            except Unsupported as reason:
                if reason.args[0].startswith("["):
                    raise
                raise Unsupported(f"[{node.keyword} of {node.step or 'a sink'}] {reason}") from None
        return self._names[node]

    def _assigned(self, node: Node, rows: str) -> str:
        name = f"t{self._made}"
        self._made += 1
        self._lines.append(f"{name} = {rows}  # {node.keyword}")
        return name

    @singledispatchmethod
    def _operator(self, node: Node) -> str:
        raise Unsupported(f"the operator {node.keyword}")

    # Operators over the rows of one relation -------------------------------------------------------

    @_operator.register
    def _(self, node: rel.Filter) -> str:
        rows, scope = self._windowed(node.input, self.rows(node.input), [node.where])
        where = py.test(node.where.ast, scope)
        return self._assigned(node, f"[r for {rows} if {where}]")

    @_operator.register(rel.Project)
    @_operator.register(rel.Add)
    def _(self, node: rel.Project | rel.Add) -> str:
        source, columns = node.input, self._columns(node.input)
        rows, scope = self._windowed(source, self.rows(source), [s for _, s in node.columns])
        texts = {name: code.text for name, code in columns.items()}
        texts |= self._computed(node.columns, scope, columns, node)
        made = _tuple(texts[name] for name in self._schema(node).names)
        return self._assigned(node, f"[{made} for {rows}]")

    def _computed(
        self, computed: Columns, scope: NameScope, columns: dict[str, Code], node: Node
    ) -> dict[str, str]:
        kinds = {f.name: f.type for f in node.schema}
        return {name: self._converted(s, scope, columns, kinds[name]) for name, s in computed}

    def _converted(
        self, scalar: Scalar, scope: NameScope, columns: dict[str, Code], kind: pa.DataType
    ) -> str:
        """A computed column, converted to its type in the schema."""
        if len(scalar.columns) == 1 and scalar.sql == f'"{scalar.columns[0]}"':
            return columns[scalar.columns[0]].text
        try:
            return py.as_kind(py.value(scalar.ast, scope), kind)
        except Unsupported as reason:
            raise Unsupported(f"{reason}: {scalar.text}") from None

    def _windowed(
        self, node: Node, rows: str, scalars: Iterable[Scalar]
    ) -> tuple[object, NameScope]:
        """The loop over rows and the values of window functions, and the scope of its body."""
        columns = self._columns(node)
        values: list[str] = []

        def window(tree: exp.Window) -> Code:
            code = self._window(tree, node, rows)
            values.append(code.text)
            return Code(f"w{len(values)}", code.kind)

        if not any(scalar.has_window for scalar in scalars):
            return f"r in {rows}", NameScope(columns)
        return _Loop(rows, values), NameScope(columns, window=window)

    def _window(self, tree: exp.Window, node: Node, rows: str) -> Code:
        """A list with the value of a window function for each row."""
        scope, call = NameScope(self._columns(node)), tree.this
        parts = [py.value(part, scope) for part in tree.args.get("partition_by") or []]
        parts += [scope.columns[PARTITION]] if node.windowed else []
        per = f"lambda r: {_tuple(py.key(part) for part in parts)}"
        order = tree.args.get("order")
        terms = self._terms([py.term(one, scope) for one in (order.expressions if order else [])])
        if tree.args.get("spec") is not None:
            raise Unsupported("a frame of a window function")
        if isinstance(call, exp.RowNumber):
            return self._over(Code(f"row_numbers({rows}, {per}{terms})", py.INT))
        if isinstance(call, exp.Rank) and terms:
            return self._over(Code(f"ranks({rows}, {per}{terms})", py.INT))
        if isinstance(call, exp.Lag) and not call.args.get("offset"):
            code = py.value(call.this, scope)
            text = f"lagged({rows}, lambda r: {code.text}, {per}{terms})"
            return self._over(Code(text, code.kind))
        special = call.args.get("count") or isinstance(call.this, (exp.Order, exp.Distinct))
        if type(call) not in py.AGGREGATES or special:
            raise Unsupported(f"the window function {type(call).__name__.lower()}")
        if isinstance(call, (exp.ArrayAgg, exp.First, exp.Last, exp.GroupConcat)):
            raise Unsupported("a list over a window")
        code = Code("1", py.INT) if isinstance(call.this, exp.Star) else py.value(call.this, scope)
        own = py.aggregation(call, code.kind)
        text = f"over_peers({rows}, lambda r: {code.text}, {own.python}, {per}{terms})"
        return self._over(Code(text, own.result(code.kind)))

    def _over(self, code: Code) -> Code:
        name = f"t{self._made}"
        self._made += 1
        self._lines.append(f"{name} = {code.text}")
        return Code(name, code.kind)

    def _terms(self, terms: Iterable[tuple[str, bool, bool]], row: str = "r") -> str:
        """The arguments of sort functions."""
        return "".join(
            f", (lambda {row}: {text}, {descending}, {nulls_first})"
            for text, descending, nulls_first in terms
        )

    def _sorted_by(self, order: Sequence[Sort], scope: NameScope, row: str = "r") -> str:
        """The terms of an operator's order: NULLs last, without constants."""
        terms = (
            (py.sort_key(py.value(t.by.ast, scope)), t.descending, False)
            for t in order
            if t.by.columns
        )
        return self._terms(terms, row)

    def _per(self, node: Node, names: Iterable[str]) -> str:
        """The group of a row, within its partition."""
        columns = self._columns(node)
        parts = [*names, *([PARTITION] if node.windowed else [])]
        return f"lambda r: {_tuple(py.key(columns[name]) for name in parts)}"

    @_operator.register
    def _(self, node: rel.Limit) -> str:
        terms = self._sorted_by(node.order, NameScope(self._columns(node.input)))
        rows = self.rows(node.input)
        return self._assigned(
            node, f"first_of({rows}, {self._per(node, node.by)}, {node.n}{terms})"
        )

    @_operator.register
    def _(self, node: rel.Distinct) -> str:
        per = self._per(node, node.by or node.schema.names)
        return self._assigned(node, f"first_of({self.rows(node.input)}, {per}, 1)")

    @_operator.register
    def _(self, node: rel.Ordered) -> str:
        terms = self._sorted_by(node.by, NameScope(self._columns(node.input)))
        return self._assigned(node, f"sort({self.rows(node.input)}{terms})")

    @_operator.register
    def _(self, node: rel.Aggregate) -> str:
        source = node.input
        columns = self._columns(source)
        first = self._columns(source, "rows[0]")
        kinds = {f.name: f.type for f in node.schema}
        by = self._computed(node.by, NameScope(columns), columns, node)
        parts = [py.key(Code(text, kinds[name])) for name, text in by.items()]
        parts += [columns[PARTITION].text] if node.windowed else []
        texts = self._computed(node.by, NameScope(first), first, node)
        texts |= self._computed(node.add, NameScope(first, group=columns), first, node)
        if node.windowed:
            input_row = f"agg_min({columns[INPUT_ROW].text} for r in rows)"
            texts |= {PARTITION: first[PARTITION].text, INPUT_ROW: input_row}
        if self._traced:
            texts[LINEAGE] = f"all_sources({columns[LINEAGE].text} for r in rows)"
        whole = "" if parts else ", whole=True"
        grouped = f"groups({self.rows(source)}, lambda r: {_tuple(parts)}{whole})"
        made = _tuple(texts[name] for name in self._schema(node).names)
        result = self._assigned(node, f"[{made} for rows in {grouped}]")
        if node.having is None:
            return result
        return self._assigned(
            node,
            f"[r for r in {result} if {py.test(node.having.ast, NameScope(self._columns(node)))}]",
        )

    @_operator.register
    def _(self, node: rel.Union) -> str:
        parts = []
        names = self._schema(node).names
        for branch in node.relations:
            columns = self._columns(branch)
            texts = {name: code.text for name, code in columns.items()}
            texts |= {f.name: _narrowed(columns[f.name], f.type) for f in node.schema}
            same = list(columns) == names and all(
                texts[name] == columns[name].text for name in names
            )
            made = _tuple(texts.get(name, "None") for name in names)
            rows = self.rows(branch)
            parts.append(f"*{rows}" if same else f"*({made} for r in {rows})")
        return self._assigned(node, f"[{', '.join(parts)}]")

    @_operator.register
    def _(self, node: rel.Intersect) -> str:
        first, *others = node.relations
        tests = []
        for other in others:
            both = [PARTITION] if first.windowed and other.windowed else []
            names = [*node.schema.names, *both]
            own, theirs = (
                _tuple(py.key(columns[name]) for name in names)
                for columns in (self._columns(first), self._columns(other))
            )
            found = self._over(Code(f"{{{theirs} for r in {self.rows(other)}}}", py.NULL)).text
            tests.append(f"{own} {'in' if node.present else 'not in'} {found}")
        rows = f"[r for r in {self.rows(first)} if {' and '.join(tests) or True}]"
        per = self._per(first, node.schema.names)
        return self._assigned(node, f"first_of({rows}, {per}, 1)")

    @_operator.register
    def _(self, node: rel.Unnest) -> str:
        columns = self._columns(node.input)
        texts = {name: code.text for name, code in columns.items()}
        texts |= {node.alias: "x"} | ({node.position: "n"} if node.position else {})
        made = _tuple(texts[name] for name in self._schema(node).names)
        none = "()" if node.how == "inner" else "(None,)"
        items = f"enumerate({columns[node.column].text} or {none}, 1)"
        rows = self.rows(node.input)
        return self._assigned(node, f"[{made} for r in {rows} for n, x in {items}]")

    # Operators over two relations ------------------------------------------------------------------

    def _matches(
        self, node: rel.Join | rel.GroupJoin, alias: str, fields: Sequence[str] | None
    ) -> str:
        """The matches `q` of a row `r`, in order: a struct, and hidden columns."""
        left, right = node.input, node.other
        own, others = self._columns(left), self._columns(right)
        pairs = [(_path(a, own), _path(b, others)) for a, b in node.using]
        if left.windowed and right.windowed:
            pairs.append((own[PARTITION], others[PARTITION]))
        for _, code in pairs:
            if pa.types.is_nested(code.kind):
                raise Unsupported(f"a join by {code.kind}")
        names = [name for name in right.schema.names if fields is None or name in fields]
        struct = "{" + ", ".join(f"{name!r}: {others[name].text}" for name in names) + "}"
        hidden = [others[n].text for n in (PARTITION, INPUT_ROW, LINEAGE) if n in others]
        own_keys = _tuple(py.key(code) for code, _ in pairs)
        keys = _tuple(py.key(code) for _, code in pairs)
        made = f"lambda r: {keys}, lambda r: {_tuple([struct, *hidden])}"
        found = f"index({self.rows(right)}, {made}, {self.rows(left)}, lambda r: {own_keys})"
        matches = f"{self._over(Code(found, py.NULL)).text}.get({own_keys}, ())"
        if node.where is None:
            return matches
        kind = pa.struct([right.schema.field(name) for name in names])
        scope = NameScope({**own, alias: Code("q[0]", kind)})
        return f"[q for q in {matches} if {py.test(node.where.ast, scope)}]"

    @_operator.register
    def _(self, node: rel.Join) -> str:
        left, alias = node.input, node.alias or _RIGHT
        rows, matches = self.rows(left), self._matches(node, alias, node.fields)
        if node.how in {"semi", "anti"}:
            no = "not " if node.how == "anti" else ""
            return self._assigned(node, f"[r for r in {rows} if {no}{matches}]")
        texts = {name: code.text for name, code in self._columns(left).items()} | {alias: "q[0]"}
        if not left.windowed:
            texts |= {PARTITION: "q[1]", INPUT_ROW: "q[2]"}
        if self._traced:
            texts[LINEAGE] += " + q[-1]"
        made = _tuple(texts[name] for name in self._schema(node).names)
        if node.how == "left":
            none = "(None, None, None, ())" if self._traced else "(None, None, None)"
            matches = f"({matches} or ({none},))"
        return self._assigned(node, f"[{made} for r in {rows} for q in {matches}]")

    @_operator.register
    def _(self, node: rel.GroupJoin) -> str:
        left, alias = node.input, node.alias
        if node.windowed and not left.windowed:
            raise Unsupported("matches of windows for rows of none")
        own, match = self._columns(left), Code("q[0]", pa.struct(list(node.other.schema)))
        rows, matches = self.rows(left), self._matches(node, alias, None)
        terms = self._sorted_by(node.order, NameScope({**own, alias: match}), "q")
        matches = f"sort({matches}{terms})" if terms else matches
        matches += f"[:{node.limit}]" if node.limit is not None else ""
        of_left = self._columns(left, "one")
        group = {**of_left, alias: Code("r[0]", match.kind)}
        texts = {name: code.text for name, code in of_left.items()}
        texts |= self._computed(node.add, NameScope({}, group=group), of_left, node)
        if self._traced:
            texts[LINEAGE] += " + all_sources(q[-1] for q in rows)"
        made = _tuple(texts[name] for name in self._schema(node).names)
        pairs = f"[(r, {matches}) for r in {rows}]"
        return self._assigned(node, f"[{made} for one, rows in {pairs}]")


class _Loop:
    """The loop over rows. It is written when all window functions of its body are known."""

    def __init__(self, rows: str, values: list[str]) -> None:
        self._rows, self._values = rows, values

    def __str__(self) -> str:
        if not self._values:
            return f"r in {self._rows}"
        names = ", ".join(f"w{i}" for i in range(1, len(self._values) + 1))
        return f"r, {names} in zip({', '.join([self._rows, *self._values])}, strict=True)"


def _narrowed(code: Code, wanted: pa.DataType) -> str:
    """A column; for a struct, only the wanted fields. Raises Unsupported."""
    if code.kind == wanted:
        return code.text
    if not pa.types.is_struct(code.kind) or not pa.types.is_struct(wanted):
        raise Unsupported(f"a union of {code.kind} and {wanted}")
    parts = ", ".join(f"{f.name!r}: {_narrowed(py.field(code, f.name), f.type)}" for f in wanted)
    return f"(None if {code.text} is None else {{{parts}}})"
