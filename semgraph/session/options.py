"""Options of runs and comparisons as text: parameters, implementations, variants."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from semgraph.errors import PlanError, Problem

_COMMA = re.compile(r",(?![^()]*\))")  # outside of parentheses


def named_values(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    """The values of an option that is given once for each name. Raises PlanError.

    >>> named_values("--use", ["linked=block(left=10)", "told=packed"])
    {'linked': 'block(left=10)', 'told': 'packed'}
    """
    values: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise PlanError(
                Problem(f'{option} "{text}" sets nothing', hint=f"Write {option} NAME=VALUE")
            )
        if name in values:
            raise PlanError(Problem(f"{option} {name}= is given twice"))
        values[name] = value
    return values


def parameters(texts: Sequence[str] | None) -> dict[str, Any]:
    """The values of `--set`: JSON where it is JSON, else text. Raises PlanError."""
    values: dict[str, Any] = {}
    for name, text in named_values("--set", texts).items():
        try:
            values[name] = json.loads(text)
        except json.JSONDecodeError:
            values[name] = text
    return values


def read_variants(
    step: str | None, implementations: str | None, variants: Sequence[str]
) -> list[str] | dict[str, dict[str, str]]:
    """The implementations of a step, or the implementations of each whole plan.

    Args:
        step: The step that `implementations` are for.
        implementations: `A,B`.
        variants: `NAME:STEP=IMPLEMENTATION,...` for each plan.

    Raises:
        PlanError: With everything that is wrong.

    >>> read_variants("linked", "nested_loop, block(left=10,right=5)", [])
    ['nested_loop', 'block(left=10,right=5)']
    >>> read_variants(None, None, ["cheap:linked=block,told=packed", "exact:linked=nested_loop"])
    {'cheap': {'linked': 'block', 'told': 'packed'}, 'exact': {'linked': 'nested_loop'}}
    """
    if implementations is not None and variants:
        what = "--implementations compares a step and --variant whole plans"
        raise PlanError(Problem(what, hint="give one of them"))
    if implementations is not None:
        if step is None:
            what = "--implementations needs the step that they are for"
            raise PlanError(Problem(what, hint="--step STEP"))
        return _parts(implementations)
    if not variants:
        hint = (
            "--step STEP --implementations A,B; or whole plans: "
            "--variant NAME:STEP=IMPLEMENTATION --variant NAME:STEP=IMPLEMENTATION"
        )
        raise PlanError(Problem("there is nothing to compare", hint=hint))
    if step is not None:
        hint = "leave --step out, or write --implementations A,B"
        raise PlanError(Problem("--variant names the steps itself", hint=hint))
    uses: dict[str, dict[str, str]] = {}
    problems: list[Problem] = []
    for text in variants:
        name, colon, rest = text.partition(":")
        if not colon or not name:
            hint = "Write --variant NAME:STEP=IMPLEMENTATION,STEP=IMPLEMENTATION"
            problems.append(Problem(f'--variant "{text}" has no name', hint=hint))
        elif name in uses:
            problems.append(Problem(f"--variant {name}: is given twice"))
        else:
            try:
                uses[name] = named_values("--variant", _parts(rest))
            except PlanError as error:
                problems += error.problems
    if problems:
        raise PlanError(*problems)
    return uses


def _parts(text: str) -> list[str]:
    return [part.strip() for part in _COMMA.split(text) if part.strip()]
