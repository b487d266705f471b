"""A line of a step: one operator, by its keyword."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semgraph.errors import Fault, did_you_mean
from semgraph.frontend import commas
from semgraph.frontend.build import OPERATORS, by_keyword
from semgraph.frontend.faults import KeyFault
from semgraph.frontend.scope import kind_of

OPERATOR_WORDS = by_keyword(OPERATORS)
SOURCE_WORDS = ("from", "union", "call", "switch")


def operator_on(item: Any, *, first: bool) -> tuple[str, Any]:
    """The keyword of a line and its arguments; `first`: of a step, where a source stands. Raises Fault."""
    if not isinstance(item, Mapping):
        hint = f"write {{from: {item}}}" if first and isinstance(item, str) else None
        raise Fault(f"expected an operator such as {{filter: EXPR}}, found {kind_of(item)}", hint=hint)
    if len(item) != 1:
        keys = ", ".join(str(key) for key in item) or "none"
        hint = commas.HINT if commas.rests(item) else "each operator has its own dash"
        raise Fault("one operator on a line", there=f"here: {keys}", hint=hint)
    ((keyword, value),) = item.items()
    if keyword in SOURCE_WORDS:
        if not first:
            raise KeyFault(f'"{keyword}" is a source and starts a step', keyword, hint="begin another step with it")
    elif keyword not in OPERATOR_WORDS:
        hint = did_you_mean(keyword, [*OPERATOR_WORDS, *SOURCE_WORDS])
        raise KeyFault(
            f'"{keyword}" is no operator', keyword, there="operators: " + ", ".join(OPERATOR_WORDS), hint=hint
        )
    elif first:
        hint = "the line before it: {from: NAME}"
        raise KeyFault(f'"{keyword}" needs a relation: a step starts with a source', keyword, hint=hint)
    return keyword, value
