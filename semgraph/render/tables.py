"""Tables and lines of fixed width, for a terminal.

Columns that do not fit are dropped, by their own order or from the right (`fitting`), and the last
line names them. Only `rows_of` sets the weight of a cell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from semgraph.expr.types import python_values
from semgraph.formats import escaped, plain_line, plural
from semgraph.logical.prompt import plain

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.text import Text

GAP = 2
WIDEST = 60
_KEY = 8
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ROWS = 20


@dataclass(frozen=True)
class Column:
    """A column.

    Args:
        title: Its title.
        cells: Its cells as text; on a page also links and buttons.
        right: Whether they are aligned right.
        best: The numbers of the rows that are best in it.
        drop: Which columns are dropped first where not all fit: those with the greatest number, of
            these the last one.
    """

    title: str
    cells: Sequence[Any]
    right: bool = False
    best: frozenset[int] = frozenset()
    drop: int = 0

    @property
    def width(self) -> int:
        """The width of the column."""
        from rich.cells import cell_len

        return max(map(cell_len, (self.title, *self.cells)))


def fitting(
    columns: Sequence[Column], width: int, *, whole: bool = False
) -> tuple[list[Column], list[int]]:
    """The columns that fit and their widths; the first column always stays. Unless columns are to
    stay `whole`, one has at most 60 places, and the longest may be cut to half its width; one that is
    dropped last is not cut to equal cells before others are dropped.
    """
    kept = list(columns)
    while True:
        widths = [column.width if whole else min(WIDEST, column.width) for column in kept]
        over = sum(widths) + GAP * (len(kept) - 1) - width
        longest = max(range(len(kept)), key=widths.__getitem__)
        cut = widths[longest] - max(0, over)
        stays = kept[longest].drop < 0 and any(column.drop >= 0 for column in kept[1:])
        cells = {*kept[longest].cells} if stays else set()
        fixed = whole or kept[longest].right or len({clipped(c, cut) for c in cells}) < len(cells)
        if over <= 0 or len(kept) == 1 or (not fixed and cut >= widths[longest] // 2):
            widths[longest] = max(4, cut)
            return kept, widths
        kept.remove(max(kept[:0:-1], key=lambda column: column.drop))


def fit(text: str, width: int, *, right: bool = False) -> str:
    """A text in exactly `width` columns of the terminal.

    >>> fit("Alice", 7), fit("Alice", 7, right=True), fit("Alice Chen", 7)
    ('Alice  ', '  Alice', 'Alice …')
    """
    from rich.cells import cell_len

    text = clipped(text, width)
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def clipped(text: str, width: int) -> str:
    """A text in at most `width` columns of the terminal; a longer one ends in `…`."""
    from rich.cells import cell_len, set_cell_size

    text = text.rstrip()
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def hanging(text: str, width: int, indent: int, *, whole_words: bool = False) -> list[str]:
    """A text on lines of `width` columns, broken between words; all but the first are indented, and
    the first keeps its own indent. A word longer than a line is broken unless words are to stay
    whole, as paths and commands are. No lines without words.

    >>> hanging("fits: settle_facts, settle_states", 24, 2)
    ['fits: settle_facts,', '  settle_states']
    """
    words = text.strip()
    return wrap(
        words,
        max(width, 20),
        initial_indent=text[: text.index(words)],
        subsequent_indent=" " * indent,
        break_long_words=not whole_words,
        break_on_hyphens=False,
    )


def folded(line: str, width: int) -> list[str]:
    """A line folded to `width` columns, at ` · ` or else between words; continuation lines are
    indented.

    >>> folded("3 trials of each · paid now 8 calls · nothing written", 36)
    ['3 trials of each · paid now 8 calls', '  nothing written']
    """
    from rich.cells import cell_len

    lines_: list[str] = []
    for part in line.split(" · "):
        if lines_ and cell_len(f"{lines_[-1]} · {part}") <= width:
            lines_[-1] += f" · {part}"
        else:
            lines_ += hanging(f"  {part}" if lines_ else part, width, 2, whole_words=True)
    return lines_


_COMMAND = re.compile(r"(?=\bsemgraph [a-z])")
_REMARK = "   ("


def wrapped(line: str, width: int) -> list[str]:
    """A line on lines of `width` columns; all but the first are indented. A command to copy stays on a
    line of its own, without its words before and a remark behind it if these do not fit.

    >>> wrapped("Next: semgraph search Ada   (finds rows, columns and paths)", 30)
    ['Next: semgraph search Ada', '  (finds rows, columns and', '  paths)']
    >>> wrapped("these rows of the run only: semgraph run add -i rows=failed.jsonl", 30)
    ['these rows of the run only:', '  semgraph run add -i rows=failed.jsonl']
    """
    from rich.cells import cell_len

    if cell_len(line) <= width:
        return [line]
    indent = len(line) - len(line.lstrip())
    words, *commands = _COMMAND.split(line, maxsplit=1)
    if not commands:
        text = hanging(line, width, indent + 2, whole_words=True)
        return text if indent else folded(line, width)
    command, mark, remark = commands[0].partition(_REMARK)
    parts = [words + command]
    if cell_len(parts[0]) > width and words.count(" ") > indent + 1:
        parts = [*wrapped(words.rstrip(), width), " " * (indent + 2) + command]
    if mark:
        parts += hanging(f"{' ' * (indent + 2)}({remark}", width, indent + 2, whole_words=True)
    return parts


def styled(columns: Sequence[Column], width: int, *, indent: int = 2) -> Iterator[Text]:
    """The table as indented lines, with the best cells in bold; a cell that is too long for its
    column ends in `…`.
    """
    from rich.text import Text

    fitted, widths = fitting(columns, width - indent)
    yield from rows_of(fitted, widths, indent)
    if dropped := [column.title for column in columns if column not in fitted]:
        note = f"… {plural(len(dropped), 'more column')}: {', '.join(dropped)}"
        yield from map(Text, folded(" " * indent + note, width))


def rows_of(columns: Sequence[Column], widths: Sequence[int], indent: int = 0) -> Iterator[Text]:
    """The titles and the rows of a table whose columns have these widths."""
    from rich.text import Text

    for i in range(-1, len(columns[0].cells)):
        line = Text(" " * indent)
        for n, (column, width) in enumerate(zip(columns, widths, strict=True)):
            text = fit(column.title if i < 0 else column.cells[i], width, right=column.right)
            line.append(" " * GAP * bool(n))
            line.append(escaped(text), "bold" if i in column.best else None)
        line.rstrip()
        yield line


def lines(columns: Sequence[Column], width: int, *, indent: int = 2) -> Iterator[str]:
    """The table as lines of plain text."""
    return (line.plain for line in styled(columns, width, indent=indent))


def page_table(columns: Sequence[Column], caption: str = "", cls: str = "") -> dict[str, Any]:
    """The table for a template; with a caption, the first cell of a row is its header."""
    cells = ([{"best": t} if i in c.best else t for i, t in enumerate(c.cells)] for c in columns)
    return {
        "caption": caption,
        "heads": [column.title for column in columns],
        "rows": [list(row) for row in zip(*cells, strict=True)],
        "numbers": {i for i, column in enumerate(columns) if column.right},
        "cls": cls,
    }


def of_arrow(table: pa.Table, text: Callable[[Any], str], *, rows: int = ROWS) -> list[Column]:
    """The first rows of a result as columns, with each value as `text` writes it."""
    import pyarrow.types as kinds

    columns = []
    for field in table.schema:
        number = kinds.is_integer(field.type) or kinds.is_floating(field.type)
        values = python_values(table.column(field.name).slice(0, rows))
        columns.append(Column(field.name, [text(value) for value in values], right=number))
    return columns


def cell(value: Any) -> str:
    r"""A value of a result, on one line: times without zero seconds, lists and structs as JSON.

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
        at = value.astimezone(UTC).isoformat(" ")[:19]  # strftime shortens years before 1000
        return at.removesuffix(":00").removesuffix(" 00:00")
    if isinstance(value, (list, dict, tuple)):
        return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    return plain_line(str(value))


def _short_cell(value: Any) -> str:
    """The cell, with a key shortened to a form that `semgraph why` accepts."""
    text = cell(value)
    return text[:_KEY] if _UUID.fullmatch(text) else text


def result_lines(
    name: str, table: pa.Table, width: int, *, rows: int = ROWS, total: int | None = None
) -> Iterator[str]:
    """A result with its name and its number of rows; at most `rows` of them are printed. `total` is
    the number if the table has only the first ones.

    A column without values is named below the table; a constant column is printed next to the name.
    """
    count = table.num_rows if total is None else total
    all_columns = of_arrow(table, _short_cell, rows=rows)
    columns = [column for column in all_columns if any(column.cells)]
    same = [c for c in columns if table.num_rows > 1 and len(set(c.cells)) == 1 and not c.right]
    constants = (
        f"   ({', '.join(f'{c.title} {c.cells[0]}' for c in same)})"
        if same and len(same) < len(columns)
        else ""
    )
    yield clipped(f"{name}: {plural(count, 'row')}{constants}", width)
    if columns:
        yield from lines([c for c in columns if not constants or c not in same], width)
    empty = [column.title for column in all_columns if not any(column.cells)]
    if table.num_rows and empty:
        where = " in these rows" if count > rows else ""
        note = f"  {plural(len(empty), 'column')} without a value{where}: {', '.join(empty)}"
        yield clipped(note, width)
    if count > rows:
        yield f"  … {plural(count - rows, 'more row')}"
