"""Values as SQL sees them: equality, order, three-valued logic, arithmetic and casts. It shares no
code with the engine.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any

from tests.fuzz.parsing import NotUnderstood

_LEAST, _MOST = -(2**63), 2**63 - 1
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z")


class Uncomputable(Exception):
    """The expression has no value: DuckDB raises an error as well."""


def is_nan(value: Any) -> bool:
    """Whether a value is NaN."""
    return isinstance(value, float) and math.isnan(value)


def holds_nan(value: Any) -> bool:
    """Whether a value is NaN or holds one."""
    if isinstance(value, list):
        return any(map(holds_nan, value))
    return any(map(holds_nan, value.values())) if isinstance(value, dict) else is_nan(value)


def same_key(value: Any) -> Any:
    """A hashable value, equal for values that are not distinct: NULL, NaN, 0.0 and -0.0
    included.
    """
    if is_nan(value):
        return "NaN", "NaN"
    if isinstance(value, list):
        return "list", tuple(map(same_key, value))
    if isinstance(value, dict):
        return "struct", tuple((name, same_key(inner)) for name, inner in value.items())
    if isinstance(value, bool):
        return "boolean", value
    return value


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1 for two values that are not NULL: NaN is equal to itself and greater than all
    else.
    """
    if isinstance(left, datetime) != isinstance(right, datetime):
        left, right = as_time(left), as_time(right)
    if isinstance(left, (list, dict)):
        return _compare_nested(left, right)
    if is_nan(left) or is_nan(right):
        return is_nan(left) - is_nan(right)
    return (left > right) - (left < right)


def _compare_nested(left: Any, right: Any) -> int:
    """Lists and structs, item by item; inside them NULL is a value, the greatest one."""
    one, other = ((list(v.values()) if isinstance(v, dict) else v) for v in (left, right))
    for a, b in zip(one, other, strict=False):
        found = (a is None) - (b is None) if a is None or b is None else compare(a, b)
        if found:
            return found
    return (len(one) > len(other)) - (len(one) < len(other))


def as_time(value: Any) -> Any:
    """A text as the time that it stands for, without a zone in UTC."""
    if not isinstance(value, str):
        return value
    found = datetime.fromisoformat(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def ordered(left: Any, right: Any, descending: bool) -> int:
    """How two values stand in an order: NULLs last in both directions."""
    if left is None or right is None:
        return (left is None) - (right is None)
    return -compare(left, right) if descending else compare(left, right)


def both(left: Any, right: Any) -> bool | None:
    """AND."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def whole(value: Any) -> Any:
    """An integer that fits 64 bits. Raises Uncomputable."""
    if isinstance(value, int) and not isinstance(value, bool) and not _LEAST <= value <= _MOST:
        raise Uncomputable(f"overflow: {value}")
    return value


def arithmetic(sign: str, left: Any, right: Any) -> Any:
    """+ - * / // % and || of two values that are not NULL."""
    if sign == "||":
        return left + right
    if sign == "/":
        return _divided(float(left), float(right))
    if sign in {"//", "%"}:
        return _whole_divided(sign, left, right)
    try:
        found = {"+": left.__add__, "-": left.__sub__, "*": left.__mul__}[sign](right)
        if found is NotImplemented:  # an integer with a double
            found = {"+": float.__add__, "-": float.__sub__, "*": float.__mul__}[sign](
                float(left), float(right)
            )
    except OverflowError:
        raise Uncomputable(f"{left} {sign} {right}") from None
    return whole(found)


def _divided(left: float, right: float) -> float:
    if right:
        return left / right
    if math.isnan(left) or left == 0:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _whole_divided(sign: str, left: Any, right: Any) -> Any:
    if isinstance(left, float) or isinstance(right, float):
        if sign != "%":
            raise NotUnderstood("// of doubles")
        return (
            math.nan
            if not right or math.isinf(left) or is_nan(left) or is_nan(right)
            else math.fmod(left, right)
        )
    if right == 0:
        raise Uncomputable("division by zero")
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return whole(quotient) if sign == "//" else left - right * quotient


def cast(value: Any, kind: str, attempt: bool) -> Any:
    """CAST and TRY_CAST. Raises Uncomputable where a CAST fails."""
    if value is None:
        return None
    try:
        found = _CASTS[kind](value)
    except (ValueError, OverflowError):
        found = None
    if found is None and not attempt:
        raise Uncomputable(f"cast of {value!r} to {kind}")
    return found


def _to_bigint(value: Any) -> int | None:
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.match(text):
            return None
        found = int(Decimal(text).to_integral_value(ROUND_HALF_UP))
    elif isinstance(value, float):
        found = int(Decimal(value).to_integral_value(ROUND_HALF_EVEN))
    else:
        found = int(value)
    return found if _LEAST <= found <= _MOST else None


def _to_double(value: Any) -> float | None:
    if not isinstance(value, str):
        return float(value)
    text = value.strip()
    named = {
        "nan": math.nan,
        "-nan": math.nan,
        "inf": math.inf,
        "infinity": math.inf,
        "-inf": -math.inf,
    }
    named["-infinity"] = -math.inf
    if text.lower() in named:
        return named[text.lower()]
    return float(text) if _NUMBER.match(text) else None


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if (
        isinstance(value, float)
        and value
        and not math.isinf(value)
        and not 1e-4 <= abs(value) < 1e15
    ):
        raise NotUnderstood(f"{value} as text")
    if isinstance(value, (date, list, dict)):
        raise NotUnderstood(f"{type(value).__name__} as text")
    return str(value)


def _to_boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(
            value.strip().lower()
        )
    return bool(value)


_CASTS = {
    "BIGINT": _to_bigint,
    "DOUBLE": _to_double,
    "VARCHAR": _to_text,
    "BOOLEAN": _to_boolean,
    "TIMESTAMPTZ": as_time,
    "BIGINT[]": lambda value: [cast(inner, "BIGINT", attempt=False) for inner in value],
    "VARCHAR[]": lambda value: [cast(inner, "VARCHAR", attempt=False) for inner in value],
    "DOUBLE[]": lambda value: [cast(inner, "DOUBLE", attempt=False) for inner in value],
}
