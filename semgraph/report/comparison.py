"""A comparison in a terminal: the table with the best of each column bold, what stands below it, the chart."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from semgraph.execution.comparison import Comparison
from semgraph.execution.comparison_cells import columns, footer
from semgraph.execution.comparison_chart import text
from semgraph.report.tables import GAP, Column, fit, fitting


def lines(comparison: Comparison, width: int) -> Iterator[Text]:
    """The whole, a line at a time; columns that do not fit fall away from the right, and a line says which."""
    yield from table(comparison, width)
    for line in footer(comparison):
        yield Text(line)
    drawn = text(comparison, width)
    if drawn:
        yield Text("")
        yield from (Text(line) for line in drawn.splitlines())


def table(comparison: Comparison, width: int) -> Iterator[Text]:
    """The table alone."""
    cells = columns(comparison)
    kept, widths = fitting([Column(c.title, c.texts, c.right) for c in cells], width)
    shown = list(zip(cells, widths, strict=False))
    yield _line([Text(fit(c.title, w, right=c.right)) for c, w in shown])
    for i in range(len(comparison)):
        yield _line([Text(fit(c.texts[i], w, right=c.right), "bold" if i in c.best else "") for c, w in shown])
    if gone := cells[len(kept) :]:
        yield Text(f"… {len(gone)} more column{'s' * (len(gone) > 1)}: {', '.join(c.title for c in gone)}")


def _line(parts: list[Text]) -> Text:
    found = Text(" " * GAP).join(parts)
    found.rstrip()
    return found
