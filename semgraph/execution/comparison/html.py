"""A comparison as HTML, for notebooks: the table, the best of each column bold, and the chart. Everything is escaped."""

from __future__ import annotations

from html import escape
from io import StringIO

from semgraph.execution.comparison import Comparison
from semgraph.execution.comparison.cells import Cells, columns, footer
from semgraph.execution.comparison.chart import chart


def html(comparison: Comparison) -> str:
    """The whole as one piece of HTML."""
    cells = columns(comparison)
    head = "".join(f"<th>{escape(column.title)}</th>" for column in cells)
    rows = "".join(f"<tr>{''.join(_cell(column, i) for column in cells)}</tr>" for i in range(len(comparison)))
    below = "".join(f"<p>{escape(line)}</p>" for line in footer(comparison))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="semgraph">{table}{below}{_chart(comparison)}</div>'


def _cell(column: Cells, i: int) -> str:
    text = escape(column.texts[i])
    side = "right" if column.right else "left"
    return f'<td style="text-align:{side}">{f"<b>{text}</b>" if i in column.best else text}</td>'


def _chart(comparison: Comparison) -> str:
    found = chart(comparison)
    if isinstance(found, str):
        return f"<pre>{escape(found)}</pre>" if found else ""
    drawn = StringIO()
    found.savefig(drawn, format="svg")
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]
