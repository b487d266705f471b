"""The code that rules share: the facts of a plan, predicates of the operators that may be moved,
the wording of combined questions, and the scalars that never fail. Only these may be computed over
rows that the plan would have filtered out before.

Scalars that never fail are listed explicitly. All others may fail: integers overflow, texts are no
numbers, divisors are 0, and DuckDB casts one of two different types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import duckdb
import pyarrow as pa
from sqlglot import exp

from semgraph.expr.duckdb import kind_of_value, type_of, type_of_path
from semgraph.expr.functions import TEXT_FUNCTIONS
from semgraph.expr.own_functions import calls_own
from semgraph.expr.row_scalars import kind_of
from semgraph.expr.scalar import Scalar, conjunction, from_ast, to_sql
from semgraph.expr.types import sql_type
from semgraph.logical.node import Node, nodes_of, rebuilt, scalars_of, walk
from semgraph.logical.plan import Choice
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Filter
from semgraph.logical.semantic import Semantic

Roots = tuple[Node, ...]


@dataclass(frozen=True)
class PlanFacts:
    """The facts of a plan that rules use in addition to its operators: its choices by step."""

    choice_of_step: Callable[[str], Choice | None] = lambda _: None

    def choice(self, node: Node) -> Choice | None:
        """The implementation that the plan chooses for the step of an operator."""
        return self.choice_of_step(node.step)


NO_FACTS = PlanFacts()


def outline(*roots: Node) -> str:
    """The operators of a plan, inputs first, as text for examples."""
    return " → ".join(node.keyword for node in walk(*roots))


Alone = Callable[[Node], bool]
Change = Callable[[Node, Alone], Node]


def rewrite_alone(roots: tuple[Node, ...], change: Change) -> tuple[Node, ...]:
    """Apply `change` to every node below the roots, bottom up; shared nodes stay shared.

    The second argument of `change` tells whether a node has one reader. Equal nodes that call the
    model count as one node: they will be shared, so that none may be moved away from the others.
    """
    nodes = nodes_of(roots)
    children = (child for node in nodes for child in node.inputs)
    readers: Counter[object] = Counter(map(_name, (*roots, *children)))
    counts: dict[Node, int] = {}

    def alone(node: Node) -> bool:
        return counts.get(node, 1) < 2

    def counted(node: Node, same: Node) -> Node:
        counts[same] = readers[_name(node)]
        changed = change(same, alone)
        counts[changed] = counts[same]
        return changed

    return rebuilt(roots, counted)


def _name(node: Node) -> object:
    return node.fingerprint if node.calls_model else node


def without_conjuncts(node: Node, take: Callable[[Scalar, Node], Node | None]) -> Node:
    """A filter without the conjuncts that the operator below it takes; other nodes unchanged.

    `take` returns the operator including a conjunct, or None. A filter with window functions is
    unchanged, because these read the rows before any conjunct is applied.
    """
    if not isinstance(node, Filter) or node.where.has_window:
        return node
    below, rest = node.input, []
    for part in node.where.conjuncts():
        taken = take(part, below)
        if taken is None:
            rest.append(part)
        else:
            below = taken
    if below is node.input:
        return node
    return below if not rest else replace(node, input=below, where=conjunction(rest))


def may_move(scalar: Scalar, node: Node) -> bool:
    """Whether a condition may be computed elsewhere: it never fails, on no other row or time."""
    return not scalar.asks_now and not scalar.has_window and never_fails(scalar, node.schema)


def may_see_more(node: Node) -> bool:
    """Whether an operator may read additional rows, because its scalars never fail."""
    scalars = list(scalars_of(node))
    schema = _readable(node) if scalars else node.schema
    return all(never_fails(scalar, schema) for scalar in scalars)


def _readable(node: Node) -> pa.Schema:
    """The columns that the scalars of a relational operator may read."""
    columns = {field.name: field for field in node.schema} | {
        field.name: field for field in node.inputs[0].schema
    }
    for other in node.inputs[1:]:
        alias = getattr(node, "alias", "") or "_right"
        columns[alias] = pa.field(alias, pa.struct(list(other.schema)))
    return pa.schema(list(columns.values()))


def text(literal: str) -> Template:
    """Text without placeholders."""
    return Template(((literal, ""),))


def joined(*templates: Template) -> Template:
    """Templates, concatenated."""
    return Template(tuple(part for template in templates for part in template.parts))


def can_share(first: Semantic, second: Semantic, facts: PlanFacts) -> bool:
    """Whether two questions may be one: single prompts, the same model, choice and `on_error`."""
    if first.prompt.on or second.prompt.on:
        return False
    one, other = first.prompt.first, second.prompt.first
    plain = not any(part.reflexion or part.validators or part.shown for part in (one, other))
    same = one.role == other.role and first.on_error == second.on_error
    return same and plain and facts.choice(first) == facts.choice(second)


def together(prompts: Sequence[Prompt], heads: Sequence[str], before: str = "") -> PromptSet:
    """Several questions as one, each after its heading; static parts first, equal contexts once."""
    items = [joined(text(head), prompt.item) for head, prompt in zip(heads, prompts, strict=True)]
    item = items[0]
    for more in items[1:]:
        item = joined(item, text("\n\n"), more)
    contexts = list(dict.fromkeys(prompt.context for prompt in prompts if prompt.context))
    context = contexts[0] if contexts else Template()
    for other in contexts[1:]:
        context = joined(context, text("\n\n"), other)
    fused = replace(
        prompts[0],
        name=" + ".join(prompt.name for prompt in prompts),
        returns=tuple(answer for prompt in prompts for answer in prompt.returns),
        describe=tuple(pair for prompt in prompts for pair in prompt.describe),
        max_tokens=sum(prompt.max_tokens for prompt in prompts),
        rules=_sections(
            before, *(_headed(h, p.rules) for h, p in zip(heads, prompts, strict=True))
        ),
        examples=_sections(
            "", *(_headed(h, p.examples) for h, p in zip(heads, prompts, strict=True))
        ),
        context=context,
        item=item,
        file="",
    )
    return PromptSet((("", fused),))


def _headed(head: str, section: str) -> str:
    return f"{head.strip()}\n{section.strip()}" if section.strip() else ""


def _sections(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


_Kind = pa.DataType
_DIGITS = 17  # digits of a decimal constant: with more, no decimal of DuckDB also holds every int64
_COMPARED = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ,
    exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif, exp.Between, exp.Array, exp.ArrayOverlaps,
)  # fmt: skip
_LOGICAL = (exp.And, exp.Or, exp.Not)
_MATCHES = (exp.Like, exp.ILike, exp.StartsWith, exp.EndsWith, exp.Contains)
_OF_TEXTS = (*_MATCHES, exp.Lower, exp.Upper, exp.Trim)
_OF_ATOMS = (exp.Concat, exp.DPipe)
_OF_ANYTHING = (
    exp.Paren, exp.Struct, exp.JSONArray, exp.ArraySort, exp.Count, exp.Min, exp.Max, exp.ArrayAgg,
    exp.Filter, exp.Where, exp.Order, exp.Ordered, exp.Distinct,
)  # fmt: skip
_NAMED = (exp.Column, exp.Parameter, exp.Placeholder, exp.Star)
_LEAVES = (*_NAMED, exp.Boolean, exp.Null, exp.Identifier)
_REFUSED = (exp.Lambda, exp.Comprehension, exp.Window)  # names inside them are no columns
_NOT_CONSTANT = (*_NAMED, exp.AggFunc, exp.Window, exp.Lambda)


_known: dict[tuple[Scalar, tuple[_Kind | None, ...]], bool] = {}
_MOST_KNOWN = 4096


def never_fails(scalar: Scalar, schema: pa.Schema) -> bool:
    """Whether a scalar over a relation can be computed for every possible row."""
    names = schema.names
    paths = [path for path in scalar.columns if path.split(".")[0] in names]
    key = (scalar, tuple(type_of_path(path, schema) for path in paths))
    if key not in _known:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = _tree_never_fails(scalar.shared_ast, schema)
    return _known[key]


def _tree_never_fails(tree: exp.Expr, schema: pa.Schema) -> bool:  # noqa: PLR0911 - a return for each form
    if isinstance(tree, _LEAVES) or _is_plain(tree):
        return True
    if isinstance(tree, _REFUSED):
        return False
    if tree.find(*_NOT_CONSTANT) is None and not isinstance(tree, (exp.Where, exp.Order)):
        sql = to_sql(tree)
        return not calls_own(sql) and _is_constant(sql)
    parts = list(tree.flatten() if isinstance(tree, (exp.And, exp.Or)) else tree.iter_expressions())
    if isinstance(tree, exp.PropertyEQ):
        parts = [tree.expression]
    if isinstance(tree, (exp.If, exp.Case)):
        return _total_case(tree, schema)
    if isinstance(tree, exp.Is):
        return isinstance(tree.expression, (exp.Null, exp.Boolean)) and _same(
            [tree.this, tree.expression], schema
        )
    if isinstance(tree, exp.In):
        field, listed = tree.args.get("field"), [tree.this, *tree.expressions]
        return _same(listed, schema) if field is None else _holds(field, tree.this, schema)
    if isinstance(tree, exp.ArrayContains):
        return _holds(tree.this, tree.expression, schema)
    if isinstance(tree, exp.Cast):
        return _tree_never_fails(tree.this, schema) and (
            isinstance(tree, exp.TryCast) or _widens(tree, schema)
        )
    if isinstance(tree, exp.Mod):
        return (
            isinstance(tree.expression, exp.Literal)
            and tree.expression.is_int
            and int(tree.expression.this) > 0
            and _tree_never_fails(tree.this, schema)
            and _is_of(pa.types.is_integer, tree.this, schema)
        )
    if isinstance(tree, _COMPARED):
        return _same(parts, schema)
    return all(_tree_never_fails(part, schema) for part in parts) and _takes(tree, parts, schema)


def _is_plain(tree: exp.Expr) -> bool:
    """Whether a literal is known to be a constant: asking DuckDB about each is too slow."""
    return isinstance(tree, exp.Literal) and (
        tree.is_string or (tree.is_int and len(tree.this) <= _DIGITS)
    )


def _takes(tree: exp.Expr, parts: Sequence[exp.Expr], schema: pa.Schema) -> bool:
    """Whether an operator or a function never fails on values of its operands' types."""
    if isinstance(tree, (*_OF_ANYTHING, exp.PropertyEQ)):
        return True
    if isinstance(tree, exp.Anonymous):
        return _is_text_function(tree, schema)
    test: Callable[[_Kind], bool] | None = None
    if isinstance(tree, _LOGICAL):
        test = pa.types.is_boolean
    elif isinstance(tree, _OF_TEXTS):
        test = pa.types.is_string
    elif isinstance(tree, _OF_ATOMS):
        test = _is_atom
    elif isinstance(tree, (exp.Length, exp.ArraySize)):
        test = _has_length
    return test is not None and all(_is_of(test, part, schema) for part in parts)


def _is_text_function(tree: exp.Anonymous, schema: pa.Schema) -> bool:
    name = str(tree.this).lower()
    if name not in TEXT_FUNCTIONS:
        return False
    tests: dict[str, Callable[[_Kind], bool]] = {"VARCHAR": _is_atom, "BIGINT": pa.types.is_integer}
    wanted = zip(TEXT_FUNCTIONS[name].parameters, tree.expressions, strict=True)
    return all(_is_of(tests[kind], part, schema) for kind, part in wanted)


def _total_case(tree: exp.Case | exp.If, schema: pa.Schema) -> bool:
    """Whether a CASE never fails: its tests fit each other or are booleans, and so its values."""
    is_case = isinstance(tree, exp.Case)
    branches = tree.args["ifs"] if is_case else [tree]
    last = tree.args.get("default" if is_case else "false")
    tests = [branch.this for branch in branches]
    values = [*(branch.args["true"] for branch in branches), *([] if last is None else [last])]
    if is_case and tree.this is not None:
        return _same([tree.this, *tests], schema) and _same(values, schema)
    flags = all(
        _tree_never_fails(test, schema) and _is_of(pa.types.is_boolean, test, schema)
        for test in tests
    )
    return flags and _same(values, schema)


def _same(parts: Sequence[exp.Expr], schema: pa.Schema) -> bool:
    """Whether operands combine without a cast that may fail: equal types, numbers, fitting text."""
    if not all(_tree_never_fails(part, schema) for part in parts):
        return False
    said = [part for part in parts if isinstance(part, exp.Literal) and part.is_string]
    kinds = {
        _kind(part, schema) for part in parts if part not in said and not isinstance(part, exp.Null)
    }
    if len(kinds) > 1 and not all(map(_is_number, kinds)):
        return False
    return all(
        _is_constant(f"CAST({to_sql(part)} AS {sql_type(kind)})") for part in said for kind in kinds
    )


def _holds(listed: exp.Expr, item: exp.Expr, schema: pa.Schema) -> bool:
    if not _tree_never_fails(listed, schema) or not _tree_never_fails(item, schema):
        return False
    kind, wanted = _kind(listed, schema), _kind(item, schema)
    return pa.types.is_list(kind) and (
        kind.value_type == wanted or (_is_number(kind.value_type) and _is_number(wanted))
    )


def _widens(tree: exp.Cast, schema: pa.Schema) -> bool:
    """Whether a cast is to text, to the type of the value, or from an integer to DOUBLE."""
    kind, to = _kind(tree.this, schema), _kind(tree, schema)
    plain = to == pa.string() and tree.to.this in (exp.DType.VARCHAR, exp.DType.TEXT)
    whole = pa.types.is_integer(kind) and tree.to.this == exp.DType.DOUBLE
    return plain or whole or (kind == to and to_sql(tree.to) == sql_type(kind))


def _kind(tree: exp.Expr, schema: pa.Schema) -> _Kind:
    if _is_plain(tree):
        return pa.string() if tree.is_string else pa.int64()
    kind = kind_of(tree, dict(zip(schema.names, schema.types, strict=True)))
    return type_of(from_ast(tree), schema) if kind is None else kind


def _is_of(test: Callable[[_Kind], bool], tree: exp.Expr, schema: pa.Schema) -> bool:
    return isinstance(tree, exp.Null) or test(_kind(tree, schema))


def _is_number(kind: _Kind) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _is_atom(kind: _Kind) -> bool:
    return not pa.types.is_nested(kind)


def _has_length(kind: _Kind) -> bool:
    return pa.types.is_string(kind) or pa.types.is_list(kind)


@lru_cache(maxsize=4096)
def _is_constant(sql: str) -> bool:
    """Whether an expression without columns has a value, of a type that combines with all numbers."""
    try:
        kind = kind_of_value(sql)
    except duckdb.Error:
        return False
    return not pa.types.is_decimal(kind) or kind.precision <= _DIGITS
