"""`calls`: how many calls of a model a plan takes, as a formula over quantities that it names, for people to read."""

from __future__ import annotations

from functools import partial
from typing import Any

from semgraph.errors import Fault, did_you_mean
from semgraph.expr.scalar import parse_scalar
from semgraph.frontend.faults import Faults, KeyFault
from semgraph.frontend.reading import at
from semgraph.frontend.scope import wrong
from semgraph.frontend.settings import known_keys, mapping

CALL_KEYS = ("formula", "per", "where")


def check_calls(value: Any) -> None:
    """Check the key `calls`. Raises Faults.

    >>> check_calls({"formula": "2 * turns + told", "where": {"turns": "those with text", "told": "1 if ..."}})
    """
    found = mapping(value, "a mapping with formula and where")
    if not found:
        return
    faults = known_keys(found, CALL_KEYS, "calls")
    faults += [
        wrong("a text", found[key]).under(key) for key in ("formula", "per") if not isinstance(found.get(key, ""), str)
    ]
    names = at("where", mapping, found.get("where"), "a mapping of what the formula names")
    faults += [wrong("a text", text).under("where", name) for name, text in names.items() if not isinstance(text, str)]
    if "formula" not in found:
        faults.append(Fault("calls needs a formula", hint="calls: {formula: 2 * rows, where: {rows: those with text}}"))
    if faults:
        raise Faults(faults)
    formula = at("formula", partial(parse_scalar, params=None), found["formula"])
    for name in sorted(formula.roots - set(names)):
        faults.append(Fault(f'"{name}" is not said in where', "formula", hint=did_you_mean(name, names)))
    for name in names:
        if name not in formula.roots:
            faults.append(KeyFault(f'the formula has no "{name}"', "where", name))
    if faults:
        raise Faults(faults)
