"""A plan as relational algebra, a few lines per step."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch

from semgraph.formats import plural
from semgraph.logical import relational as rel
from semgraph.logical.cluster import Cluster
from semgraph.logical.graph import Match, Scan
from semgraph.logical.iterate import Iterate, Round
from semgraph.logical.node import Columns, Node, Sort, Stop, Using, walk
from semgraph.logical.plan import LogicalPlan, PlanCall
from semgraph.logical.search import Search
from semgraph.logical.semantic import Answering, Embed, SemAgg, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.logical.sinks import Merge, Sink

_WIDTH = 118
_JOINS = {"inner": "⋈", "left": "⟕", "semi": "⋉", "anti": "▷"}
Name = Callable[[Node], str]


def algebra(plan: LogicalPlan, *, expand: bool = False) -> str:
    """The plan as equations over σ π ⋈ γ μ and the semantic operators, one per step, followed by
    the writes as ←. A called plan is one term or, with `expand`, equations of its own.

    The operators of an equation are applied from the bottom line upwards, as in f(g(x)).
    """
    name = _Names(plan, expand=expand)
    equations = {
        step: _equation(f"{step} =", _chain(node, name, name.named))
        for node, step in name.own.items()
    }
    equations |= {s: _equation(f"{s} =", [_term(call, name)]) for s, call in name.calls.items()}
    if name.calls:
        written = [step for step in plan.document.get("steps") or () if step in equations]
        equations = {step: equations[step] for step in dict.fromkeys([*written, *equations])}
    schema = f"schema ← {plan.graph.name}{' (anew)' if plan.schema_write and plan.schema_write.drop else ''}"
    sinks = [sink for sink in plan.writes if _caller(sink, name.calls) is None]
    writes = [_equation(f"{s.label.name} ← {symbol(s, name)}", [name(s.input)]) for s in sinks]
    lines = [*equations.values(), *_written_by_calls(plan, name.calls), *writes]
    return "\n".join([*([schema] if plan.schema_write is not None else []), *lines])


class _Names:
    """The names of nodes in equations: of steps, results of calls, inputs; or the equation."""

    def __init__(self, plan: LogicalPlan, *, expand: bool) -> None:
        empty = {root for root in plan.roots if root.is_empty}
        operators = [
            n for n in walk(*plan.roots) if not isinstance(n, (Sink, rel.Input)) or n in empty
        ]
        last = {node.step: node for node in operators if node.step}
        called = {} if expand else plan.called
        calls = self.calls = {s: call for s, call in called.items() if _is_call(plan, s)}
        self.own = {
            node: node.step
            for node in operators
            if node is last.get(node.step) and node.step not in calls
            if _caller(node, calls) is None
        }
        self.named = self.own | {
            node: f"{step}.{result}" if len(call.results) > 1 else step
            for step, call in calls.items()
            for result, node in call.results.items()
            if _caller(node, calls) == step
        }

    def __call__(self, node: Node) -> str:
        if node in self.named:
            return self.named[node]
        if _caller(node, self.calls) is not None and isinstance(node, rel.Project):
            return self(node.input)  # the columns of a plan that another one replaces
        if isinstance(node, rel.Input):
            return symbol(node, self)
        lines = _chain(node, self, self.named)
        return lines[0] if len(lines) == 1 else "(" + " ".join(lines) + ")"


def _is_call(plan: LogicalPlan, step: str) -> bool:
    body = plan.document.get("steps", {}).get(step)
    body = body.get("do") if isinstance(body, Mapping) else body
    return isinstance(body, list) and [*map(list, body)] == [["call"]]


def _caller(node: Node, calls: Mapping[str, PlanCall]) -> str | None:
    """The call that contains a node."""
    step, slash, _ = node.step.partition("/")
    return step if slash and step in calls else None


def _term(call: PlanCall, name: Name) -> str:
    inputs = dict.fromkeys(name(node) for node in call.inputs.values() if not node.is_empty)
    return f"{call.by or call.plan}({', '.join(inputs)})"


def _written_by_calls(plan: LogicalPlan, calls: Mapping[str, PlanCall]) -> list[str]:
    """The writes of the called plans: `MENTIONS, RELATES_TO ← store`."""
    writers: dict[str, dict[str, None]] = {}
    for sink in plan.writes:
        if caller := _caller(sink, calls):
            writers.setdefault(sink.label.name, {})[caller] = None
    labels: dict[str, list[str]] = {}
    for label, steps in writers.items():
        labels.setdefault(", ".join(steps), []).append(label)
    return [f"{', '.join(names)} ← {steps}" for steps, names in labels.items()]


def _chain(node: Node, name: Name, named: Mapping[Node, str]) -> list[str]:
    """The operators of a step, outermost first, and their input."""
    lines = [symbol(node, name)]
    while node.inputs and not isinstance(node, (rel.OfAlike, Cluster)):
        node = node.inputs[0]
        if node in named or isinstance(node, rel.Input):
            return [*lines, name(node)]
        lines.append(symbol(node, name))
    if lines[1:] and isinstance(node, rel.Intersect):
        lines[-1] = f"({lines[-1]})"
    return lines


def _equation(head: str, lines: list[str]) -> str:
    short = f"{head} {' '.join(lines)}"
    if len(short) <= _WIDTH and len(lines) <= 3:
        return short
    filled = textwrap.TextWrapper(_WIDTH, initial_indent="  ", subsequent_indent="      ")
    return "\n".join([head, *map(filled.fill, lines)])


_PLAIN = re.compile(r'"([A-Za-z_][A-Za-z0-9_]*)"')
_SIGNS = ((" AND ", " ∧ "), (" OR ", " ∨ "))
# A negation, as opposed to the NOT in `IS NOT NULL`, `NOT IN` and the like.
_NOT = re.compile(r"(?<!\bIS )\bNOT (?!NULL\b|DISTINCT\b|IN\b|LIKE\b|BETWEEN\b)")


def _text(scalar: object) -> str:
    text = " ".join(str(scalar).split())
    for word, sign in _SIGNS:
        text = text.replace(word, sign)
    return _PLAIN.sub(r"\1", _NOT.sub("¬", text))


def _cols(columns: Columns) -> str:
    return ", ".join(n if _text(s) == n else f"{_text(s)}→{n}" for n, s in columns)


def _sort(order: tuple[Sort, ...]) -> str:
    return ", ".join(f"{_text(t.by)}{'↓' if t.descending else '↑'}" for t in order)


def _using(using: Using, where: object) -> str:
    pairs = [a if a == b else f"{a}={b}" for a, b in using]
    return " ∧ ".join(filter(None, [*pairs, _given("", where)]))


def _given(before: str, scalar: object) -> str:
    return "" if scalar is None else f"{before}{_text(scalar)}"


def _per(by: Sequence[str]) -> str:
    return f" per {', '.join(by)}" if by else ""


@singledispatch
def symbol(node: Node, name: Name) -> str:
    """One operator in the notation of the algebra, over the names of its inputs."""
    return f"{node.keyword}({', '.join(name(child) for child in node.inputs)})"


symbol.register(rel.Input, lambda node, _: "∅" if node.is_empty else node.name)
symbol.register(Round, lambda node, _: node.name)
symbol.register(rel.Filter, lambda node, _: f"σ_{{{_text(node.where)}}}")
symbol.register(rel.Project, lambda node, _: f"π_{{{_cols(node.columns)}}}")
symbol.register(rel.Add, lambda node, _: f"π_{{*, {_cols(node.columns)}}}")
symbol.register(rel.Distinct, lambda node, _: f"δ_{{{', '.join(node.by)}}}" if node.by else "δ")
symbol.register(rel.Ordered, lambda node, _: f"τ_{{{_sort(node.by)}}}")
symbol.register(rel.Union, lambda node, name: " ∪ ".join(name(branch) for branch in node.relations))
symbol.register(rel.Unnest, lambda node, _: f"μ_{{{node.column}→{node.alias}}}")
symbol.register(Match, lambda node, _: f"⋈ {node.pattern}{_given(' ∧ ', node.where)}")
symbol.register(Embed, lambda node, _: f"embed_{{{_cols(node.add)}}}")


@symbol.register
def _(node: Iterate, name: Name) -> str:
    parts = [f"{node.name} ≤ {node.times:,} rounds"]
    parts += [f"by {', '.join(node.by)}"] if node.by else []
    parts += [_given("until ", node.until)] if node.until is not None else []
    parts += [f"δ {', '.join(node.distinct)}"] if node.distinct else []
    every = "all " if node.keep == "all" else ""
    return f"iterate_{{{every}{'; '.join(parts)}}} {name(node.body)} from"


@symbol.register
def _(node: rel.Require, name: Name) -> str:
    return f"{'require' if node.fails else 'count'}_{{{_text(node.where if node.fails else node.says)}}}"


@symbol.register
def _(node: rel.Join, name: Name) -> str:
    alias = f" as {node.alias}" if node.alias else ""
    return f"{_JOINS[node.how]}_{{{_using(node.using, node.where)}}} {name(node.other)}{alias}"


@symbol.register
def _(node: rel.GroupJoin, name: Name) -> str:
    order = f"; τ_{{{_sort(node.order)}}}" if node.order else ""
    limit = f" [LIMIT {node.limit}]" if node.limit is not None else ""
    on = _using(node.using, node.where)
    return f"⟕γ_{{{on}{order}{limit}; {_cols(node.add)}}} {name(node.other)} as {node.alias}"


@symbol.register
def _(node: rel.Limit, name: Name) -> str:
    order = f"τ_{{{_sort(node.order)}}} " if node.order else ""
    return f"{order}[LIMIT {node.n}{_per(node.by)}]"


@symbol.register
def _(node: rel.Aggregate, name: Name) -> str:
    having = f"σ_{{{_text(node.having)}}}" if node.having is not None else ""
    return f"{having}γ_{{{_cols(node.by)}; {_cols(node.add)}}}"


@symbol.register
def _(node: rel.Intersect, name: Name) -> str:
    names = [name(relation) for relation in node.relations]
    return (" ∩ " if node.present else " − ").join(names) if names[1:] else f"δ {names[0]}"


@symbol.register
def _(node: Cluster, name: Name) -> str:
    edges = f"{node.source}→{node.target}" if node.source else ""
    vectors = f"{node.key} by {node.vector}" if node.vector else ""
    relations = ", ".join(map(name, reversed(node.inputs)))
    reads = ", ".join(filter(None, (edges, vectors)))
    return f"{node.algorithm}_{{{reads} as {node.alias}}}({relations})"


@symbol.register
def _(node: Scan, name: Name) -> str:
    where = " ∧ ".join(_text(s) for s in node.where)
    first = f" [first {node.limit}]" if node.limit is not None else ""
    return (f"σ_{{{where}}}({node.label})" if where else node.label) + first


@symbol.register
def _(node: Search, name: Name) -> str:
    within = name(node.within) if node.within is not None else ""
    over = " ∪ ".join(filter(None, (node.label, within)))
    methods = []
    for by in node.methods:
        text = {"equal": f"{by.prop}={_text(by.to)}", "fulltext": f"FTS({by.prop}, {_text(by.to)})"}
        sought = _text(by.to) if node.given_as_vector(by) else f"embed({_text(by.to)})"
        methods.append(text.get(by.via) or f"cosine({by.prop}, {sought})>{by.above:g}")
    ranked = ", ".join(methods) or f"τ_{{{_sort(node.order)}}}"
    ranked = f"RRF({ranked})" if node.fused else ranked
    where = f"σ_{{{_text(node.where)}}}" if node.where is not None else ""
    brought = ", ".join(filter(None, (node.alias, node.source, node.target)))
    return f"⊗_{{{ranked}}} {where}({over}) as {brought} [LIMIT {node.k}]"


def _stop(stop: Stop | None, *, pulled: bool) -> str:
    if stop is None:
        return "; as far as it is needed above" if pulled else ""
    order = f" by {_sort(stop.order)}" if stop.order else ""
    return f"; until there are {stop.n}{_per(stop.by)}{order}"


def _check(node: Answering) -> str:
    if node.check is None:
        return ""
    return f"; check {node.check.where}, {plural(node.check.retries, 'retry', 'retries')}"


@symbol.register(SemMap)
@symbol.register(SemFilter)
def _(node: SemMap | SemFilter, name: Name) -> str:
    when = f" when {node.when}" if node.when is not None else ""
    when += f" else {node.otherwise}" if when and isinstance(node, SemFilter) else ""
    stop = _stop(node.stop, pulled=node.pulled)
    return f"{node.keyword}[{node.prompt.first.name}{when}{_check(node)}{stop}]"


@symbol.register
def _(node: SemJoin, name: Name) -> str:
    on = _using(node.using, node.where)
    keep = f", one by {_sort(node.order) or 'order'}" if node.keep == "one" else ""
    join = f"sem_join[{node.prompt.first.name}{_check(node)}{keep}]"
    return f"{join} {_JOINS[node.how]}_{{{on or 'all pairs'}}} {name(node.other)} as {node.alias}"


@symbol.register
def _(node: SemAgg, name: Name) -> str:
    when = f" when {node.when}" if node.when is not None else ""
    add = f"; {_cols(node.add)}" if node.add else ""
    return f"sem_agg[{node.prompt.first.name}{when}{_check(node)}; γ_{{{', '.join(node.by)}{add}}}]"


@symbol.register
def _(node: SemTopk, name: Name) -> str:
    return f"sem_topk[{node.prompt.first.name}; k={node.k}{_per(node.by)}]"


@symbol.register
def _(node: Merge, name: Name) -> str:
    only = ", only existing" if node.only else ""
    first = ", before the model is called" if node.first else ""
    return f"merge{{{node.key or node.graph.key}{only}{first}}}"
