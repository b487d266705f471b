"""Regular expressions that Python's `re` matches in time linear in the text.

`re` backtracks: it tries every way in which a pattern may match. RE2, which DuckDB has, does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Items = Sequence[tuple[Any, Any]]
"""A sequence of a parsed pattern: operators with their arguments."""
_STEPS = 1_000  # that a pattern may take at one place of a text


def is_linear(pattern: str, flags: int, *, whole: bool = False) -> bool:
    """Whether Python matches a pattern in time linear in the text.

    At each place it takes a bounded number of steps: there are few ways to match, each of a bounded
    length. One character or class may repeat without bound: at the end, where nothing can fail after
    it, or anywhere in what is matched against whole texts, which begin at one place.

    Args:
        pattern: The pattern.
        flags: Its flags.
        whole: Whether it is matched against whole texts, not searched for in them.

    >>> is_linear("#[a-z]+", 0), is_linear("x[a-z]*!", 0), is_linear("(a?){30}", 0)
    (True, False, False)
    """
    items = list(parser.parse(pattern, flags))
    unbounded = [n for n, item in enumerate(items) if _repeats_a_character(item)]
    if unbounded and (whole or unbounded == [len(items) - 1]):
        del items[unbounded[0]]
    longest = parser.SubPattern(parser.State(), items).getwidth()[1]
    return bool(_ways(items) * (longest + 1) <= _STEPS)


def _repeats_a_character(item: tuple[Any, Any]) -> bool:
    return (
        str(item[0]) == "MAX_REPEAT"
        and item[1][1] == parser.MAXREPEAT
        and [str(kind) for kind, _ in item[1][2]] in (["LITERAL"], ["NOT_LITERAL"], ["IN"])
    )


def _ways(items: Items) -> float:
    """In how many ways a sequence may match at one place, at most; what has no bound: infinite."""
    ways = 1.0
    for kind, argument in items:
        match str(kind):
            case "SUBPATTERN":
                ways *= _ways(argument[-1])
            case "BRANCH":
                texts = sorted(t for branch in argument[1] if (t := _text(branch)) is not None)
                others = sum(_ways(branch) for branch in argument[1] if _text(branch) is None)
                prefix = any(
                    b.startswith(a) for a, b in pairwise(texts)
                )  # else one at most matches
                ways *= others + (len(texts) if prefix else min(len(texts), 1))
            case "MAX_REPEAT":
                least, most, inner = argument
                if most == parser.MAXREPEAT:
                    return float("inf")
                ways *= sum(_ways(inner) ** count for count in range(least, most + 1))
            case "LITERAL" | "NOT_LITERAL" | "IN" | "AT":
                pass
            case _:
                return float("inf")
    return ways


def _text(items: Items) -> str | None:
    """The one text that a sequence matches, in lower case."""
    literal = all(str(kind) == "LITERAL" for kind, _ in items)
    return "".join(chr(code) for _, code in items).lower() if literal else None
