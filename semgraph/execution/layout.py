"""Columns of text in a terminal: how wide they are, and which of them fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

GAP = 2
WIDEST = 60


@dataclass(frozen=True)
class Column:
    """One column: its title, its cells as text, and whether they stand at the right, as numbers do."""

    title: str
    cells: Sequence[str]
    right: bool = False

    def width(self, widest: int = WIDEST) -> int:
        """Places that it takes, at most `widest`."""
        from rich.cells import cell_len

        return min(widest, max(map(cell_len, (self.title, *self.cells))))


def fitting(columns: Sequence[Column], width: int) -> tuple[Sequence[Column], list[int]]:
    """The columns that fit, and how wide they are; the last of them may be cut to at least half its width."""
    natural = [column.width() for column in columns]
    for n in range(len(columns), 0, -1):
        over = sum(natural[:n]) + GAP * (n - 1) - width
        longest = max(range(n), key=lambda i: natural[i])
        if over <= 0 or n == 1 or (not columns[longest].right and natural[longest] - over >= natural[longest] // 2):
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
    """A line as lines of at most `width` places, cut at ` · `, else between words; what follows the first is indented.

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
    r"""A text on one line, without the control characters by which it could move a terminal's cursor.

    >>> plain_line("red \x1b[31mfox\n jumps ")
    'red [31mfox jumps'
    """
    return " ".join("".join(c if c.isprintable() else " " if c.isspace() else "" for c in text).split())
