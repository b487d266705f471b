"""The functions that generated row functions call: DuckDB's functions on Python values.

NULL is None. If a value is known to differ between Python and DuckDB (numbers out of range, letters
outside ASCII, control characters in JSON), a function raises `FallBack`, and DuckDB computes the
segment. Python's `re` backtracks over all possible matches, unlike RE2 in DuckDB: `is_linear`
determines the patterns that `re` matches in time linear in the text.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import accumulate, chain, groupby, pairwise
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from semgraph.expr.functions import TEXT_FUNCTIONS, VECTOR_FUNCTIONS

Row = tuple[Any, ...]
Rows = list[Row]
Key = Callable[[Any], Any]
# The sort key of a row, whether it descends, and whether NULLs come first.
Term = tuple[Key, bool, bool]

_INT64, _INT32 = 2**63, 2**31
# The limit of row pairs of a join, and of list items of a segment. Above it, DuckDB computes them.
MOST_ITEMS = 20_000
_BLANKS = "".join(map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)))
_FOLDED = re.compile("[\u017f\u212a]")  # letters outside ASCII that RE2 folds to ASCII letters
_ESCAPED = re.compile(r"[\x00-\x07\x0b\x0e-\x1f]")  # DuckDB writes their codes in capitals
_WHOLE = re.compile(r"-?[0-9]{1,18}")


class FallBack(Exception):
    """DuckDB must compute the segment: only its code has the value, or there is an error."""


class _NaN:
    """NaN as DuckDB orders it: equal to itself, greater than all other numbers."""

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return other is self

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __ge__(self, other: object) -> bool:
        return True


_NAN = _NaN()


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, extended to return NULL if any argument is NULL."""

    def of_values(*arguments: Any) -> Any:
        for argument in arguments:
            if argument is None:
                return None
        return function(*arguments)

    return of_values


def _of_two(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """As `strict`, for two arguments, which is faster."""

    def of_values(a: Any, b: Any) -> Any:
        return None if a is None or b is None else function(a, b)

    return of_values


# Comparisons and logic -----------------------------------------------------------------------------


eq, ne = _of_two(operator.eq), _of_two(operator.ne)
lt, le = _of_two(operator.lt), _of_two(operator.le)
gt, ge = _of_two(operator.gt), _of_two(operator.ge)


def ordered(x: Any) -> Any:
    """A double for comparing, sorting and grouping."""
    return x if x == x else _NAN  # noqa: PLR0124 - NaN differs from itself


def frozen(x: Any) -> Any:
    """A nested value for grouping: NULLs are equal, and so are NaNs."""
    if isinstance(x, Mapping):
        return tuple(frozen(part) for part in x.values())
    return tuple(frozen(part) for part in x) if isinstance(x, list) else ordered(x)


def and_(*parts: Any) -> Any:
    return False if False in parts else None if None in parts else True


def or_(*parts: Any) -> Any:
    return True if True in parts else None if None in parts else False


not_ = strict(operator.not_)


def among(x: Any, items: Sequence[Any]) -> Any:
    return None if x is None else True if x in items else None if None in items else False


def coalesce(*parts: Any) -> Any:
    return next((part for part in parts if part is not None), None)


def nullif(a: Any, b: Any) -> Any:
    return None if a is not None and b is not None and ordered(a) == ordered(b) else a


def greatest(*parts: Any) -> Any:
    return max((part for part in parts if part is not None), key=ordered, default=None)


def least(*parts: Any) -> Any:
    return min((part for part in parts if part is not None), key=ordered, default=None)


def field(struct: Any, name: str) -> Any:
    return None if struct is None else struct[name]


def fail(*_: Any) -> Any:
    """The function `error`."""
    raise FallBack


# Numbers and times ---------------------------------------------------------------------------------


add, subtract, multiply = map(_of_two, (operator.add, operator.sub, operator.mul))
negated, number = strict(operator.neg), strict(float)


@strict
def divide(a: Any, b: Any) -> Any:
    if not b:
        raise FallBack
    return a / b


def _within(bound: int) -> Callable[[Any], Any]:
    def checked(x: Any) -> Any:
        if x is not None and not -bound <= x < bound:
            raise FallBack
        return x

    return checked


int64, int32 = _within(_INT64), _within(_INT32)


@strict
def rounded_int(x: float) -> int:
    """A double as an int64."""
    if not abs(x) < _INT64 / 2:
        raise FallBack
    return round(x)


@strict
def rounded(x: float, digits: int) -> float:
    """`round`, unless the last bits of a sum or half a digit decide."""
    power = 10.0**digits
    y = x * power
    if not abs(y) < 2**43 or abs(abs(y - math.floor(y)) - 0.5) < 0.01:
        raise FallBack
    return math.copysign(float(round(y)) / power, x)


@strict
def int_of_text(x: str) -> int:
    if not _WHOLE.fullmatch(x):
        raise FallBack
    return int(x)


int_of_bool = strict(int)
text_of_int = strict(str)
text_of_bool = strict(lambda x: "true" if x else "false")


@strict
def text_of_time(x: datetime) -> str:
    text = x.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
    return (text.rstrip("0") if x.microsecond else text) + "+00"


# Texts ---------------------------------------------------------------------------------------------


length = strict(len)
trim = strict(lambda x: x.strip(_BLANKS))
upper = strict(lambda x: _ascii(x).upper())
lower = strict(lambda x: _ascii(x).lower())
contains = strict(lambda x, part: part in x)
starts_with = strict(str.startswith)
ends_with = strict(str.endswith)
replaced = strict(lambda x, old, new: x.replace(old, new) if old else x)


@strict
def left(x: str, n: int) -> str:
    if abs(n) >= _INT32:
        raise FallBack
    return x[:n]


def _ascii(x: str) -> str:
    if not x.isascii():
        raise FallBack
    return x


def concat(*parts: str | None) -> str:
    return "".join(part for part in parts if part is not None)


def concat_ws(separator: str | None, *parts: str | None) -> str | None:
    return None if separator is None else separator.join(p for p in parts if p is not None)


def split(x: str | None, separator: str | None) -> list[str] | None:
    if separator == "" or (x is not None and separator is None):
        raise FallBack
    return None if x is None else x.split(separator)


@strict
def joined_list(items: list[str | None], separator: str) -> str | None:
    """`array_to_string`."""
    known = _known(items)
    return separator.join(known) if known or not items else None


@lru_cache(maxsize=1024)
def _pattern(text: str, ignore_case: bool) -> re.Pattern[str]:
    return re.compile(text, re.ASCII | re.IGNORECASE if ignore_case else re.ASCII)


@strict
def matches(x: str, pattern: str, ignore_case: bool, whole: bool) -> bool:
    if ignore_case and _FOLDED.search(x):
        raise FallBack
    own = _pattern(pattern, ignore_case)
    return (own.fullmatch(x) if whole else own.search(x)) is not None


def json_array(*parts: Any) -> str:
    texts = [text for part in parts for text in (part if isinstance(part, list) else [part])]
    if any(isinstance(text, str) and _ESCAPED.search(text) for text in texts):
        raise FallBack
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


@strict
def checked_json(x: str) -> str:
    """A text as JSON. Only texts that this engine writes are known to equal DuckDB's JSON."""
    try:
        value = json.loads(x)
        same = json.dumps(value, ensure_ascii=False, separators=(",", ":")) == x
    except (ValueError, RecursionError):
        same = False
    if not same or _ESCAPED.search(x):
        raise FallBack
    return x


# Lists ---------------------------------------------------------------------------------------------


def list_contains(items: list[Any] | None, x: Any) -> bool | None:
    return None if items is None or (items and x is None) else x in items


has_any = strict(lambda items, others: any(x is not None and x in items for x in others))
has_all = strict(lambda items, others: all(x is None or x in items for x in others))
flatten = strict(lambda lists: [item for items in lists if items is not None for item in items])


@strict
def list_sort(items: list[Any]) -> list[Any]:
    values = [item for item in items if item is not None]
    return sorted(values, key=ordered) + [None] * (len(items) - len(values))


@strict
def list_distinct(items: list[Any]) -> list[Any]:
    """The distinct values, sorted."""
    return sorted({item for item in items if item is not None})


def list_concat(items: list[Any] | None, others: list[Any] | None) -> list[Any]:
    return [*(items or ()), *(others or ())]


def list_append(items: list[Any] | None, x: Any) -> list[Any]:
    return [*(items or ()), x]


@strict
def item(items: list[Any], place: int) -> Any:
    """An item by its index, from 1, or from -1 at the end."""
    if not 0 < abs(place) <= len(items):
        return None
    return items[place - 1 if place > 0 else place]


@strict
def list_slice(items: list[Any], first: int, last: int) -> list[Any]:
    if first < 0 or last < 0:
        raise FallBack
    return items[max(first, 1) - 1 : last]


def counted() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`each`, a list comprehension, and `series`, which is `range`, for one run of a segment. They
    count its list items.
    """
    left = MOST_ITEMS

    def each(items: list[Any] | None, make: Key, test: Key | None = None) -> list[Any] | None:
        nonlocal left
        if items is None:
            return None
        left -= len(items)
        if left < 0:
            raise FallBack
        return [make(item) for item in items if test is None or test(item)]

    def series(start: int | None, end: int | None) -> list[int] | None:
        nonlocal left
        if start is None or end is None:
            return None
        left -= max(end - start, 0)
        if left < 0:
            raise FallBack
        return list(range(start, end))

    return each, series


# Aggregates of a list of values --------------------------------------------------------------------


def _known(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def agg_list(values: list[Any]) -> list[Any] | None:
    return values or None


def agg_first(values: list[Any]) -> Any:
    return values[0] if values else None


def agg_last(values: list[Any]) -> Any:
    return values[-1] if values else None


def _of_known(compute: Callable[..., Any]) -> Callable[..., Any]:
    """The function of the values that are not NULL; NULL without any."""

    def of_values(values: Iterable[Any], *options: Any) -> Any:
        known = _known(values)
        return compute(known, *options) if known else None

    return of_values


agg_any_value = _of_known(lambda known: known[0])
agg_min = _of_known(partial(min, key=ordered))
agg_max = _of_known(partial(max, key=ordered))
agg_sum = _of_known(sum)
agg_bool_or = _of_known(any)
agg_bool_and = _of_known(all)
agg_string_agg = _of_known(lambda known, separator: separator.join(known))


def agg_sum_double(values: list[Any]) -> Any:
    """The sum by sequential additions, without the compensation of `sum`."""
    known, total = _known(values), 0.0
    for value in known:
        total += value
    return total if known else None


def agg_count(values: list[Any]) -> int:
    return len(_known(values))


def distinct(values: list[Any]) -> list[Any]:
    """The distinct values of an aggregate, sorted, NULL last."""
    return list_sort(list(dict.fromkeys(values)))  # type: ignore[no-any-return]


def in_order(values: list[Row], *terms: tuple[bool, bool]) -> list[Any]:
    """The values of an aggregate by its own order: tuples of a value and the value of each term."""
    places: list[Term] = [(lambda r, i=i: r[i], *term) for i, term in enumerate(terms, 1)]  # type: ignore[misc]
    return [row[0] for row in sort(values, *places)]


# Relations -----------------------------------------------------------------------------------------


def sort(rows: list[Any], *terms: Term) -> list[Any]:
    """Rows sorted by terms; the sort is stable."""
    for key, descending, nulls_first in reversed(terms):
        keyed = [(key(row), row) for row in rows]
        nulls = [row for value, row in keyed if value is None]
        rest = [pair for pair in keyed if pair[0] is not None]
        rest.sort(key=operator.itemgetter(0), reverse=descending)
        values = [row for _, row in rest]
        rows = nulls + values if nulls_first else values + nulls
    return rows


def first_of(rows: Rows, per: Key, n: int, *terms: Term) -> Rows:
    """The first `n` rows of each group by terms, in the order of the relation."""
    counts: dict[Any, int] = {}
    taken: list[bool] = [False] * len(rows)
    places = sort(list(range(len(rows))), *_of_places(rows, terms)) if terms else range(len(rows))
    for place in places:
        group = per(rows[place])
        count = counts.get(group, 0)
        if count < n:
            counts[group], taken[place] = count + 1, True
    return [row for row, stays in zip(rows, taken, strict=True) if stays]


def _of_places(rows: Rows, terms: Iterable[Term]) -> list[Term]:
    return [
        (lambda place, key=key: key(rows[place]), descending, nulls_first)  # type: ignore[misc]
        for key, descending, nulls_first in terms
    ]


def groups(rows: list[Any], key: Key, *, whole: bool = False) -> list[list[Any]]:
    """The groups of equal keys, in order of their first rows; with `whole` at least one, empty
    group.
    """
    by_key: dict[Any, list[Any]] = {}
    for row in rows:
        by_key.setdefault(key(row), []).append(row)
    return list(by_key.values()) or ([[]] if whole else [])


def index(
    rows: Rows,
    key: Callable[[Row], Row],
    make: Callable[[Row], Row],
    others: Rows,
    other_key: Callable[[Row], Row],
) -> dict[Row, Rows]:
    """The results of `make` for each row, by key, for the other rows of a join. A key with NULL
    matches nothing.
    """
    by_key: dict[Row, Rows] = {}
    for row in rows:
        own = key(row)
        if None not in own:
            by_key.setdefault(own, []).append(make(row))
    if len(rows) * len(others) > MOST_ITEMS:
        pairs = (len(by_key.get(other_key(row), ())) for row in others)
        if sum(pairs) > MOST_ITEMS:
            raise FallBack
    return by_key


def _each_partition(
    rows: Rows, per: Key, terms: Sequence[Term], compute: Callable[[list[int]], Iterable[Any]]
) -> list[Any]:
    """The value of a window function for each row; `compute` gives those of a partition, whose
    indices it gets in its order.
    """
    values: list[Any] = [None] * len(rows)
    ordered_places = sort(list(range(len(rows))), *_of_places(rows, terms))
    for places in groups(ordered_places, lambda place: per(rows[place])):
        for place, value in zip(places, compute(places), strict=True):
            values[place] = value
    return values


def row_numbers(rows: Rows, per: Key, *terms: Term) -> list[int]:
    return _each_partition(rows, per, terms, lambda places: range(1, len(places) + 1))


def lagged(rows: Rows, value: Key, per: Key, *terms: Term) -> list[Any]:
    def of_partition(places: list[int]) -> list[Any]:
        return [None, *(value(rows[place]) for place in places[:-1])]

    return _each_partition(rows, per, terms, of_partition)


def ranks(rows: Rows, per: Key, *terms: Term) -> list[int]:
    def of_partition(places: list[int]) -> Iterable[int]:
        for start, peers in _peers(rows, places, terms):
            yield from [start + 1] * len(peers)

    return _each_partition(rows, per, terms, of_partition)


def over_peers(rows: Rows, value: Key, compute: Key, per: Key, *terms: Term) -> list[Any]:
    """An aggregate of each row's partition, up to and including the row's peers; without terms all
    rows are peers.
    """

    def of_partition(places: list[int]) -> Iterable[Any]:
        listed = [value(rows[place]) for place in places]
        for start, peers in _peers(rows, places, terms):
            yield from [compute(listed[: start + len(peers)])] * len(peers)

    return _each_partition(rows, per, terms, of_partition)


def _peers(rows: Rows, places: list[int], terms: Iterable[Term]) -> list[tuple[int, list[int]]]:
    """The indices of peers (rows with equal terms), each with the number of rows before them."""
    keyed = groupby(places, lambda place: [key(rows[place]) for key, *_ in terms])
    peers = [list(group) for _, group in keyed]
    starts = accumulate(map(len, peers), initial=0)
    return list(zip(starts, peers, strict=False))


def all_sources(sources: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The ids of the sources of several rows."""
    return tuple(chain.from_iterable(sources))


# The engine's own functions ------------------------------------------------------------------------


# Functions of `expr.functions` by name, NULLs included; DuckDB rounds the result of mean_vector to 32
# bits.
OWN: Mapping[str, Callable[..., Any]] = {
    name: own for name, own in (TEXT_FUNCTIONS | VECTOR_FUNCTIONS).items() if name != "mean_vector"
}


Items = Sequence[tuple[Any, Any]]  # a sequence of a parsed pattern: operators with their arguments
_STEPS = 1_000  # the maximum steps of a pattern at one position of a text


def is_linear(pattern: str, flags: int, *, whole: bool = False) -> bool:
    """Whether Python matches a pattern in time linear in the text; `whole`: it is matched against
    whole texts, not searched for in them.

    At each position it takes a bounded number of steps: there are few possible matches, each of
    bounded length. One character or class may repeat without bound: at the end, where nothing after
    it can fail, or anywhere in a pattern for whole texts, which begins at one position.

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
    """The maximum number of matches of a sequence at one position; infinite if unbounded."""
    ways = 1.0
    for kind, argument in items:
        match str(kind):
            case "SUBPATTERN":
                ways *= _ways(argument[-1])
            case "BRANCH":
                texts = sorted(t for branch in argument[1] if (t := _text(branch)) is not None)
                others = sum(_ways(branch) for branch in argument[1] if _text(branch) is None)
                # Of texts without a common beginning at most one matches.
                prefix = any(b.startswith(a) for a, b in pairwise(texts))
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
    """The only text that a sequence matches, in lower case, or None."""
    literal = all(str(kind) == "LITERAL" for kind, _ in items)
    return "".join(chr(code) for _, code in items).lower() if literal else None
