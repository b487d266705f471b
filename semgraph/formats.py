"""Numbers and short texts for display: counts, dollars, times, bytes, single lines.

Every layer may import this module. An unknown number is a dash, never a zero.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

UNKNOWN = "—"
GOOD, NOTE, BAD = "✓", "!", "✗"  # the signs of a fact: works, worth knowing, broken


def models_by_role(names: Mapping[str, str]) -> str:
    """The name of the model of all roles; if there are several, their names by role."""
    listed = [f"{role} {name}" for role, name in names.items()]
    return ", ".join(listed if len({*names.values()}) > 1 else [*names.values()][:1])


_KEPT = "\n\t\u00ad\u200c\u200d\u200e\u200f\u2060"  # lines, and joiners and marks within words
_HARMLESS = ("Zs", "Cn", "Co")  # spaces, and characters unknown to this Python


def escaped(text: str, *, in_json: bool = False) -> str:
    r"""A text with Python or JSON escapes instead of control characters, which could command a
    terminal or change the order of the following text.

    >>> print(escaped("red \x1b[31mfox"))
    red \x1b[31mfox
    """
    if text.isprintable():
        return text
    escape = json.dumps if in_json else repr
    lines = text.replace("\r\n", "\n")
    return "".join(c if _is_harmless(c) else escape(c)[1:-1] for c in lines)


def _is_harmless(sign: str) -> bool:
    tag = "\U000e0020" <= sign <= "\U000e007f"  # in flag emoji
    known = sign.isprintable() or sign in _KEPT or tag
    return known or unicodedata.category(sign) in _HARMLESS


def plain_line(text: str) -> str:
    r"""A text on one line, with escaped control characters.

    >>> print(plain_line("red \x1b[31mfox\n jumps "))
    red \x1b[31mfox jumps
    """
    return escaped(" ".join(text.split()))


def shortened(text: str, longest: int) -> str:
    """A text of at most `longest` characters; a longer one ends in `…`.

    >>> shortened("Alice", 5), shortened("Alice Chen", 5)
    ('Alice', 'Alic…')
    """
    return text if len(text) <= longest else text[: longest - 1] + "…"


def stopped(why: str) -> str:
    """A sentence that a run stopped, and why, without repeating "stopped".

    >>> stopped("the time is up"), stopped("stopped before call 4")
    ('stopped: the time is up', 'stopped before call 4')
    """
    return why if why.startswith("stopped ") else f"stopped: {why}"


def known(number: int | None) -> str:
    """A count, or a dash if it is unknown."""
    return UNKNOWN if number is None else count(number)


def count(number: int) -> str:
    """A count, in full.

    >>> count(2310)
    '2,310'
    """
    return f"{number:,}"


def short(number: int) -> str:
    """A count in three digits.

    >>> [short(n) for n in (987, 6134, 999_999, 1_740_000)]
    ['987', '6.1 k', '1 M', '1.74 M']
    """
    if number < 1000:
        return str(number)
    if number < 999_950:
        return f"{round(number / 1000, 1):g} k"
    return f"{round(number / 1e6, 2):,g} M"


def dollars(amount: float | None, *, exact: bool = False) -> str:
    """Dollars; a dash if no price is known. `exact`: with about three digits, for comparing costs.

    >>> [dollars(x) for x in (None, 0, 0.0000001, 0.00004, 0.0021, 0.744, 31.2, 1234.5)]
    ['—', '$0', '<$0.00001', '$0.00004', '$0.002', '$0.74', '$31.20', '$1,234']
    >>> [dollars(x, exact=True) for x in (0.0000001, 0.00004321, 0.0021, 0.1234, 1234.5)]
    ['<$0.000001', '$0.000043', '$0.0021', '$0.123', '$1,234.50']
    """
    if amount is None:
        return UNKNOWN
    least = 0.000001 if exact else 0.00001
    if amount < least / 2:
        return f"<${least:f}".rstrip("0") if amount else "$0"
    if exact and amount < 1:
        return f"${amount:.3f}" if amount >= 0.01 else f"${amount:.6f}".rstrip("0")
    if exact:
        return f"${amount:,.2f}"
    if amount < 0.01:
        return f"${amount:.5f}".rstrip("0") if amount < 0.001 else f"${amount:.3f}"
    return f"${amount:,.2f}" if amount < 1000 else f"${amount:,.0f}"


def duration(seconds: float) -> str:
    """A duration.

    >>> [duration(s) for s in (0.004, 0.14, 4.63, 65.4, 160, 3900)]
    ['4 ms', '0.1 s', '4.6 s', '65 s', '2 min 40 s', '1 h 05 min']
    """
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def about(seconds: float) -> str:
    """An estimated duration, in about two digits.

    >>> [about(s) for s in (0.312, 4.5, 22.4, 912, 6700)]
    ['0.31 s', '4.5 s', '22 s', '15 min', '1 h 52 min']
    """
    if seconds < 99.5:
        return f"{seconds:.2g} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


def clock(seconds: float) -> str:
    """A running time.

    >>> clock(41), clock(3725)
    ('0:41', '1:02:05')
    """
    minutes, rest = divmod(int(seconds), 60)
    return (
        f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
    )


def size(number: float) -> str:
    """Bytes in decimal units.

    >>> size(1_117_320_768), size(22_928_619), size(512)
    ('1.12 GB', '22.9 MB', '512 B')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number:.0f} B"


def plural(number: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> plural(1, "call"), plural(8, "call"), plural(2, "query", "queries")
    ('1 call', '8 calls', '2 queries')
    """
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def day(value: Any) -> str:
    """The day of a time; "" for none.

    >>> day(datetime(2025, 1, 15, 9, tzinfo=UTC)), day(None)
    ('2025-01-15', '')
    """
    if value is None:
        return ""
    return value.astimezone(UTC).date().isoformat() if isinstance(value, datetime) else str(value)
