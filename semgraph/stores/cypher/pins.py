"""Which ends of an edge a search knows beforehand, so that its hits are found from there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from semgraph.logical.schema import Graph, Label
from semgraph.stores.conjunct import Prop, Term, Test, Value
from semgraph.stores.cypher.terms import quoted

Ends = tuple[Value | None, Value | None]
_MOST = 8


def by_key(terms: Sequence[Term], key: str) -> bool:
    """Whether a conjunct says which keys hits may have."""
    return any(isinstance(t, Test) and _known(t, key) is not None for t in terms)


def ends(terms: Sequence[Term]) -> tuple[Ends, ...]:
    """The pairs of ends (None: any) between which all hits lie; empty if the conjuncts do not say."""
    return _all_of(terms) or ()


def _ends(term: Term) -> tuple[Ends, ...] | None:
    if not isinstance(term, Test):
        return None
    match term:
        case Test("and", args):
            return _all_of(args)
        case Test("or", args):
            return _one_of(args)
        case Test("pair", (Prop(), Prop(), Value() as one, Value() as other)):
            return (one, other), (other, one)
    sources, targets = _known(term, "source"), _known(term, "target")
    if sources is not None:
        return tuple((value, None) for value in sources)
    return None if targets is None else tuple((None, value) for value in targets)


def _known(term: Test, name: str) -> tuple[Value, ...] | None:
    """The values among which a term wants a property to be."""
    if term.op not in ("=", "in"):
        return None
    first, *others = term.args
    if term.op == "=" and isinstance(first, Value):
        first, others = others[0], [first]
    values = tuple(other for other in others if isinstance(other, Value))
    return values if isinstance(first, Prop) and first.name == name and len(values) == len(others) else None


def _all_of(terms: Sequence[Term]) -> tuple[Ends, ...] | None:
    found: tuple[Ends, ...] | None = None
    for term in terms:
        more = _ends(term)
        if more is not None and found is not None:
            more = tuple((s or source, t or target) for s, t in found for source, target in more)
        if more is not None and len(more) <= _MOST:
            found = more
    return found


def _one_of(terms: Sequence[Term]) -> tuple[Ends, ...] | None:
    found: tuple[Ends, ...] = ()
    for term in terms:
        more = _ends(term)
        if more is None:
            return None
        found += more
    return found


def match(
    graph: Graph, label: Label, pairs: Sequence[Ends], value: Callable[[Value], str], hint: Callable[[str, str], str]
) -> str:
    """The clauses that bind `h` to the edges between the pairs, or to more, to each once; a `WHERE` may follow.

    Args:
        graph: Says what the key is.
        label: Of the edges.
        pairs: Ends that are known; not empty.
        value: What stands for a value.
        hint: Names the index with which to find a variable of a label.
    """
    edge, key = f"[h:{quoted(label.name)}]", quoted(graph.key)
    hints = []

    def node(var: str, end: str, pinned: Value | None) -> str:
        if pinned is None:
            return "()"
        hints.append(hint(var, end))
        return f"({var}:{quoted(end)} {{{key}: {value(pinned)}}})"

    either_way = (
        len(pairs) == 2 and pairs[0] == pairs[1][::-1] and label.source == label.target and None not in pairs[0]
    )
    if len(pairs) == 1 or either_way:
        arrow = "-" if either_way else "->"
        path = f"{node('a', label.source, pairs[0][0])}-{edge}{arrow}{node('b', label.target, pairs[0][1])}"
        return f"MATCH {path}{''.join(hints)}"
    sources, targets = ([pair[i] for pair in pairs if pair[i] is not None] for i in (0, 1))
    path, ends, pinned = f"({{}})-{edge}-()", tuple(dict.fromkeys((label.source, label.target))), [*sources, *targets]
    if len(sources) == len(pairs):
        path, ends, pinned = f"({{}})-{edge}->()", (label.source,), sources
    elif len(targets) == len(pairs):
        path, ends, pinned = f"()-{edge}->({{}})", (label.target,), targets
    known = ", ".join(value(v) for v in dict.fromkeys(pinned) if v is not None)
    begun = path.format("a:" + "|".join(quoted(end) for end in ends))
    return f"MATCH {begun}{hint('a', ends[0]) if len(ends) == 1 else ''} WHERE a.{key} IN [{known}] WITH DISTINCT h"
