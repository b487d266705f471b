"""Generated parts of written pages, between `<!-- made: NAME -->` and `<!-- /made -->`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence


def table_rows(rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells, the head and its line of dashes among them, as lines of a Markdown table."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows) + "\n"


_PART = re.compile(r"(<!-- made: (\S+) -->\n)(.*?)(<!-- /made -->)", re.DOTALL)


def filled(text: str, parts: Mapping[str, str], page: str) -> str:
    """A page with its parts generated again.

    Raises:
        ValueError: A tag names an unknown part, or is not closed.
    """
    opened, closed = len(re.findall(r"<!-- made: ", text)), text.count("<!-- /made -->")
    matches = _PART.findall(text)
    if not opened == closed == len(matches):
        msg = f"{page}: {opened} tags `<!-- made: NAME -->`, {closed} tags `<!-- /made -->`. Each part has one of each."
        raise ValueError(msg)
    for _, name, _, _ in matches:
        if name not in parts:
            msg = f'{page}: unknown part "{name}"; parts: {", ".join(parts)}'
            raise ValueError(msg)
    return _PART.sub(lambda part: f"{part[1]}{parts[part[2]].strip()}\n{part[4]}", text)
