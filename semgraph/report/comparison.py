"""A comparison in a terminal: the table with the best of each column bold, what stands below it, the chart."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from semgraph.execution.comparison import Comparison
from semgraph.execution.comparison.text import table_parts
from semgraph.execution.layout import GAP


def lines(comparison: Comparison, width: int) -> Iterator[Text]:
    """The whole, a line at a time; columns that do not fit fall away from the right, and a line says which."""
    for parts in table_parts(comparison, width):
        found = Text(" " * GAP).join(Text(part.text, "bold" if part.best else "") for part in parts)
        found.rstrip()
        yield found
