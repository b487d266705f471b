"""Tables in a terminal. Columns fall away from the right until the rest fits, and the last line
says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from semgraph.render.formats import GAP, Column, cell, fit, fitting, plural

if TYPE_CHECKING:
    import pyarrow as pa


__all__ = ["GAP", "Column", "fit", "fitting", "lines", "of_arrow", "result_lines"]

_KEY = 8
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ROWS = 20


def lines(columns: Sequence[Column], width: int, *, indent: int = 2) -> Iterator[str]:
    """The table, a line at a time; a cell that is too long for its column ends in `…`.

    Args:
        columns: All of the same length.
        width: Of the terminal.
        indent: Blanks before each line.
    """
    kept, widths = fitting(columns, width - indent)
    for row in (tuple(c.title for c in kept), *zip(*(c.cells for c in kept), strict=True)):
        parts = [fit(text, w, right=c.right) for text, w, c in zip(row, widths, kept, strict=True)]
        yield (" " * indent + (" " * GAP).join(parts)).rstrip()
    if gone := columns[len(kept) :]:
        names = ", ".join(c.title for c in gone)
        note = f"… {plural(len(gone), 'more column')}: {names}"
        yield fit(" " * indent + note, width).rstrip()


def of_arrow(table: pa.Table, *, rows: int = _ROWS) -> list[Column]:
    """The first rows of a result as columns; keys by their beginning, which `semgraph why` takes
    too.
    """
    import pyarrow.types as kinds

    found = []
    for name in table.column_names:
        kind = table.schema.field(name).type
        number = kinds.is_integer(kind) or kinds.is_floating(kind)
        found.append(
            Column(
                name,
                [_cell(v) for v in table.column(name).slice(0, rows).to_pylist()],
                right=number,
            )
        )
    return found


def _cell(value: Any) -> str:
    text = cell(value)
    return text[:_KEY] if _UUID.fullmatch(text) else text


def result_lines(name: str, table: pa.Table, width: int, *, rows: int = _ROWS) -> Iterator[str]:
    """A result with its name and the number of its rows; at most `rows` of them are shown.

    A column without values is left out and named below; one that says the same in every row stands
    beside the name.
    """
    every = of_arrow(table, rows=rows)
    columns = [column for column in every if any(column.cells)]
    same = [c for c in columns if table.num_rows > 1 and len(set(c.cells)) == 1 and not c.right]
    said = (
        f"   ({', '.join(f'{c.title} {c.cells[0]}' for c in same)})"
        if same and len(same) < len(columns)
        else ""
    )
    yield fit(f"{name}: {plural(table.num_rows, 'row')}{said}", width).rstrip()
    if columns:
        yield from lines([c for c in columns if not said or c not in same], width)
    if table.num_rows and (bare := [column.title for column in every if not any(column.cells)]):
        where = " in these rows" if table.num_rows > rows else ""
        yield fit(
            f"  {plural(len(bare), 'column')} without a value{where}: {', '.join(bare)}", width
        ).rstrip()
    if table.num_rows > rows:
        yield f"  … {plural(table.num_rows - rows, 'more row')}"
