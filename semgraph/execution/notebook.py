"""A result as HTML, for notebooks: one line of what it took, the first rows of each table, what was asked about each row.

Everything is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

from semgraph.execution.notebook_asked import folds
from semgraph.logical.prompt import show

if TYPE_CHECKING:
    import pyarrow as pa

    from semgraph.execution.result import Result

_ROWS = 10
_TEXT = 200


def html(result: Result) -> str:
    """The whole as one piece of HTML."""
    asked = folds(result.record) if result.record is not None else ()
    return "\n".join(['<div class="semgraph">', *_summary(result), *_tables(result), *asked, "</div>"])


class Drawing(str):
    """A drawing in characters, which a notebook shows as it stands."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def _summary(result: Result) -> Iterator[str]:
    total = result.meter.total()
    dollars = "price unknown" if total.dollars is None else f"${total.dollars:.4g}"
    parts = [
        f"<b>{escape(result.plan)}</b> · run {escape(result.run)}",
        f"{total.calls_issued:,} calls (+{total.calls_journal:,} from the journal)",
        f"{total.tokens_in:,} tokens in, {total.tokens_out:,} out",
        dollars,
    ]
    if result.members:
        parts.append(f"{result.committed:,} of {result.members:,} committed, {result.skipped:,} were there")
    if result.failed:
        parts.append(f"<b>{len(result.failed):,} failed</b>")
    yield f"<p>{' · '.join(parts)}</p>"
    for note in (*result.notes, *((result.stopped,) if result.stopped else ())):
        yield f"<p>! {escape(note)}</p>"


def _tables(result: Result) -> Iterator[str]:
    for name, table in result.tables.items():
        yield f"<p><b>{escape(name)}</b>: {table.num_rows:,} rows</p>"
        if table.num_rows:
            yield _table(table)


def _table(table: pa.Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.column_names)
    rows = (
        f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row.values())}</tr>"
        for row in table.slice(0, _ROWS).to_pylist()
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _cell(value: Any) -> str:
    text = show(value)
    return escape(text if len(text) <= _TEXT else text[: _TEXT - 1] + "…")
