"""Regular expressions that Python's `re` matches in time linear in the text.

`re` backtracks: it tries every way in which a pattern may match. RE2, which DuckDB has, does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, pairwise, product
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Items = Sequence[tuple[Any, Any]]
"""A sequence of a parsed pattern: operators with their arguments."""
_WAYS = 32  # in which the bounded parts of a pattern may match at one place
_LENGTH = 1_000  # characters of a pattern
_TEXTS = 200  # of a part that are listed
_LONG = 3  # characters of a prefix that is looked for in what is repeated
_OTHER = 128  # stands for every character outside ASCII


def is_linear(pattern: str, flags: int, *, whole: bool = False) -> bool:
    """Whether Python matches a pattern in time linear in the text.

    Without lookarounds and backreferences there is one part that repeats without bound, or several,
    where no character ends one and begins the next. A repeated part has one way to match a text. A
    pattern that is searched for does not begin inside of what it repeats: from each of these places
    Python would read the same text to its end.

    Args:
        pattern: The pattern.
        flags: Its flags.
        whole: Whether it is matched against whole texts, not searched for in them.

    >>> is_linear("#[a-z]+[0-9]*", 0), is_linear("x[a-z]*[a-z ]*!", 0), is_linear("(a?){30}", 0)
    (True, False, False)
    """
    fold = bool(flags & re.IGNORECASE)
    return len(pattern) <= _LENGTH and all(
        _is_linear(list(branch), whole=whole, fold=fold)
        for branch in _alternatives(parser.parse(pattern, flags))
    )


def _alternatives(items: Items) -> Iterable[Items]:
    """The branches of a pattern that is nothing else."""
    if len(items) == 1 and str(items[0][0]) == "BRANCH":
        return items[0][1][1]  # type: ignore[no-any-return]
    return [items]


def _is_linear(items: Items, *, whole: bool, fold: bool) -> bool:
    unbounded = [n for n, item in enumerate(items) if _is_unbounded(item)]
    bounded = [item for n, item in enumerate(items) if n not in unbounded]
    if _ways(bounded) > _WAYS or not all(_one_way(items[n][1][2]) for n in unbounded):
        return False
    for n, following in combinations(unbounded, 2):
        if _characters([items[n]], fold) & _characters(items[n + 1 : following + 1], fold):
            return False
    if whole:
        return True
    last = len(items) - 1
    return all(n == last or _begins_outside(items[:n], items[n], fold) for n in unbounded)


def _is_unbounded(item: tuple[Any, Any]) -> bool:
    return str(item[0]) == "MAX_REPEAT" and item[1][1] == parser.MAXREPEAT


def _one_way(items: Items) -> bool:
    """Whether a repeated part is one character, or one of some texts of which none begins another."""
    texts = _texts(items)
    return (len(items) == 1 and _is_character(items[0])) or (texts is not None and _differ(texts))


def _is_character(item: tuple[Any, Any]) -> bool:
    return str(item[0]) in {"LITERAL", "NOT_LITERAL", "IN"}


def _differ(texts: Sequence[str]) -> bool:
    """Whether no text begins another, whatever their case."""
    ordered = sorted(text.lower() for text in texts)
    return "" not in ordered and not any(b.startswith(a) for a, b in pairwise(ordered))


def _ways(items: Items) -> float:
    """In how many ways a sequence may match at one place, at most. What repeats without bound inside of
    it has no bound.
    """
    texts = _texts(items)
    if texts is not None and _differ(texts):
        return 1
    ways = 1.0
    for kind, argument in items:
        match str(kind):
            case "SUBPATTERN":
                ways *= _ways(argument[-1])
            case "BRANCH":
                ways *= sum(_ways(branch) for branch in argument[1])
            case "MAX_REPEAT":
                least, most, inner = argument
                each = _ways(inner) if most != parser.MAXREPEAT else float("inf")
                ways *= sum(each**count for count in range(least, min(most, _TEXTS) + 1))
            case "LITERAL" | "NOT_LITERAL" | "IN" | "AT":
                pass
            case _:
                return float("inf")
    return ways


def _texts(items: Items) -> list[str] | None:
    """The texts that a sequence matches; None if they are many."""
    parts: list[Sequence[str]] = []
    for kind, argument in items:
        match str(kind):
            case "LITERAL":
                parts.append([chr(argument)])
            case "IN":
                parts.append([chr(code) for code in sorted(_of_class(argument))])
            case "AT":
                pass
            case "SUBPATTERN" | "BRANCH":
                inner = [argument[-1]] if str(kind) == "SUBPATTERN" else argument[1]
                listed = [_texts(branch) for branch in inner]
                if None in listed:
                    return None
                parts.append([text for branch in listed for text in branch or ()])
            case "MAX_REPEAT" if argument[1] <= _LONG:
                once = _texts(argument[2])
                if once is None:
                    return None
                counts = range(argument[0], argument[1] + 1)
                parts.append([text for n in counts for text in _joined([once] * n)])
            case _:
                return None
    texts = list(islice(_joined(parts), _TEXTS + 1))
    return texts if len(texts) <= _TEXTS else None


def _joined(parts: Sequence[Sequence[str]]) -> Iterator[str]:
    return islice(map("".join, product(*parts)), _TEXTS + 1)


def _begins_outside(prefix: Items, repeated: tuple[Any, Any], fold: bool) -> bool:
    """Whether a pattern has to begin outside of what it repeats after a prefix."""
    inside = _characters([repeated], fold)
    if any(_is_character(item) and not _characters([item], fold) & inside for item in prefix):
        return True
    texts, begins = _texts(repeated[1][2]), _texts(prefix)
    if texts is None or begins is None or not all(0 < len(text) <= _LONG for text in begins):
        return False
    return not any(
        begin.lower() in "".join(run).lower()
        for run in product(texts, repeat=2)
        for begin in begins
    )


def _characters(items: Items, fold: bool) -> set[int]:
    """The characters that a sequence may read."""
    found = set[int]()
    for kind, argument in items:
        match str(kind):
            case "LITERAL":
                found.add(min(argument, _OTHER))
            case "NOT_LITERAL":
                found |= set(range(_OTHER + 1)) - {argument}
            case "IN":
                found |= _of_class(argument)
            case "SUBPATTERN" | "MAX_REPEAT":
                found |= _characters(argument[-1], fold)
            case "BRANCH":
                found = found.union(*(_characters(branch, fold) for branch in argument[1]))
    if fold:
        found |= {ord(each) for code in found for each in chr(code).swapcase() if code < _OTHER}
    return found


def _of_class(items: Items) -> set[int]:
    """The characters of a class."""
    found = set[int]()
    for kind, argument in items:
        match str(kind):
            case "LITERAL":
                found.add(min(argument, _OTHER))
            case "RANGE":
                found |= {min(code, _OTHER) for code in range(argument[0], argument[1] + 1)}
            case "CATEGORY":
                sign = {"CATEGORY_DIGIT": str.isdigit, "CATEGORY_WORD": _is_word}[str(argument)]
                found |= {code for code in range(_OTHER) if sign(chr(code))}
    return set(range(_OTHER + 1)) - found if str(items[0][0]) == "NEGATE" else found


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_"
