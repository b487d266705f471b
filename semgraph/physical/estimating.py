"""What an implementation estimates, and whose fault it is where that is no estimate."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from semgraph.errors import EngineError, SemgraphError
from semgraph.logical.semantic import Semantic
from semgraph.physical.contract import Cost, Implementation, Observed, RowEstimate
from semgraph.physical.watching import named


def estimated(way: Implementation[Any], node: Semantic, rows: RowEstimate, seen: Observed | None) -> Cost:
    """What answering would take.

    Raises:
        EngineError: The implementation raised, or gave something else than a `Cost` of numbers from 0 on; it is named, with
            its file.
    """
    step = f"step {node.step}: " if node.step else ""
    try:
        found = way.estimate(node, rows, seen)
    except SemgraphError:
        raise
    except Exception as error:
        raise EngineError(f"{step}{named(way, error)} raised {type(error).__name__}: {error}") from error
    wrong = wrong_with(found)
    if wrong is not None:
        raise EngineError(f"{step}{named(way)} broke its contract: {wrong}. Correct its `estimate`")
    return found


def wrong_with(found: object) -> str | None:
    """What is wrong with an estimate; None if nothing is."""
    if not isinstance(found, Cost):
        return f"it estimated {_shown(found)}, not a Cost"
    for name, value in found._asdict().items():
        optional = name in {"tokens_in", "tokens_out", "least"}
        if (value is None and optional) or (_is_number(value) and value >= 0):
            continue
        return f"it estimated {name} {_shown(value)}, not a number from 0 on"
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text}" if len(text) <= 40 else f"a {type(value).__name__}"
