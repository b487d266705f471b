"""A comparison in characters: the table, what stands below it, the chart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from semgraph.execution.comparison import Comparison
from semgraph.execution.comparison.cells import columns, footer
from semgraph.execution.comparison.chart import text
from semgraph.execution.layout import GAP, Column, fit, fitting, folded


class Part(NamedTuple):
    """A part of a line, and whether it is the best of its column."""

    text: str
    best: bool = False


def table_parts(comparison: Comparison, width: int) -> Iterator[list[Part]]:
    """The whole, a line at a time; columns that do not fit fall away from the right, and a line says which."""
    yield from _table(comparison, width)
    for line in footer(comparison):
        yield from ([Part(part)] for part in folded(line, width))
    drawn = text(comparison, width)
    if drawn:
        yield []
        yield from ([Part(line)] for line in drawn.splitlines())


def plain(comparison: Comparison, width: int) -> str:
    """The whole as one text."""
    return "\n".join(joined(line).rstrip() for line in table_parts(comparison, width))


def joined(parts: list[Part]) -> str:
    """A line as text."""
    return (" " * GAP).join(part.text for part in parts)


def _table(comparison: Comparison, width: int) -> Iterator[list[Part]]:
    cells = columns(comparison)
    kept, widths = fitting([Column(c.title, c.texts, c.right) for c in cells], width)
    shown = list(zip(cells, widths, strict=False))
    yield [Part(fit(c.title, w, right=c.right)) for c, w in shown]
    for i in range(len(comparison)):
        yield [Part(fit(c.texts[i], w, right=c.right), i in c.best) for c, w in shown]
    if gone := cells[len(kept) :]:
        more = f"… {len(gone)} more column{'s' * (len(gone) > 1)}: {', '.join(c.title for c in gone)}"
        yield from ([Part(part)] for part in folded(more, width))
