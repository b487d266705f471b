"""Numbers as people read them: counts, tokens, money, time, bytes. What is not known is a dash,
never a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any

GAP = 2
WIDEST = 60


@dataclass(frozen=True)
class Column:
    """One column: its title, its cells as text, and whether they stand at the right, as numbers
    do.
    """

    title: str
    cells: Sequence[str]
    right: bool = False

    def width(self, widest: int = WIDEST) -> int:
        """Places that it takes, at most `widest`."""
        from rich.cells import cell_len

        return min(widest, max(map(cell_len, (self.title, *self.cells))))


def fitting(columns: Sequence[Column], width: int) -> tuple[Sequence[Column], list[int]]:
    """The columns that fit, and how wide they are; the last of them may be cut to at least half its
    width.
    """
    natural = [column.width() for column in columns]
    for n in range(len(columns), 0, -1):
        over = sum(natural[:n]) + GAP * (n - 1) - width
        longest = max(range(n), key=lambda i: natural[i])
        if (
            over <= 0
            or n == 1
            or (not columns[longest].right and natural[longest] - over >= natural[longest] // 2)
        ):
            widths = natural[:n]
            widths[longest] = max(4, widths[longest] - max(0, over))
            return columns[:n], widths
    return (), []


def fit(text: str, width: int, *, right: bool = False) -> str:
    """A text in exactly `width` places of the terminal.

    >>> fit("Alice", 7), fit("Alice", 7, right=True), fit("Alice Chen", 7)
    ('Alice  ', '  Alice', 'Alice …')
    """
    from rich.cells import cell_len, set_cell_size

    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    return " " * (width - length) + text if right else text + " " * (width - length)


def folded(line: str, width: int) -> list[str]:
    """A line as lines of at most `width` places, cut at ` · `, else between words; what follows the
    first is indented.

    >>> folded("3 trials of each · paid now 8 calls · nothing written", 36)
    ['3 trials of each · paid now 8 calls', '  nothing written']
    """
    from rich.cells import cell_len

    found: list[str] = []
    for part in line.split(" · "):
        if found and cell_len(f"{found[-1]} · {part}") <= width:
            found[-1] += f" · {part}"
        else:
            first = "  " if found else ""
            found += wrap(part, max(width, 20), initial_indent=first, subsequent_indent="  ", break_long_words=False,
                          break_on_hyphens=False)  # fmt: skip
    return found


def plain_line(text: str) -> str:
    r"""A text on one line, without the control characters by which it could move a terminal's
    cursor.

    >>> plain_line("red \x1b[31mfox\n jumps ")
    'red [31mfox jumps'
    """
    return " ".join(
        "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text).split()
    )


UNKNOWN = "—"


def known(number: int | None) -> str:
    """A count, or a dash where it is not known."""
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


def dollars(amount: float | None) -> str:
    """Money; a dash where no price is known.

    >>> [dollars(x) for x in (None, 0, 0.00004, 0.0021, 0.744, 31.2, 1234.5)]
    ['—', '$0', '$0.00004', '$0.002', '$0.74', '$31.20', '$1,234']
    """
    if amount is None:
        return UNKNOWN
    if amount == 0:
        return "$0"
    if amount < 0.01:
        return f"${amount:.5f}".rstrip("0") if amount < 0.001 else f"${amount:.3f}"
    return f"${amount:,.2f}" if amount < 1000 else f"${amount:,.0f}"


def duration(seconds: float) -> str:
    """How long something took.

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
    """Bytes, as disks are sold.

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


def cell(value: Any) -> str:
    r"""A value of a result, on one line: times without the seconds that say nothing, lists and
    structs as JSON.

    >>> (
    ...     cell(0.63512),
    ...     cell(None),
    ...     cell(["a", 1]),
    ...     cell("two\nlines"),
    ...     cell(datetime(2025, 1, 15, 9, tzinfo=UTC)),
    ... )
    ('0.635', '', '["a",1]', 'two lines', '2025-01-15 09:00')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, datetime):
        at = value.astimezone(UTC)
        form = "%Y-%m-%d" if (at.hour, at.minute, at.second) == (0, 0, 0) else "%Y-%m-%d %H:%M"
        return at.strftime(form if at.second == 0 else "%Y-%m-%d %H:%M:%S")
    if isinstance(value, (list, dict, tuple)):
        import json

        from semgraph.logical.prompt import plain

        return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    return plain_line(str(value))
