"""A TOML file as data; an error names the line, and says how to write it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from semgraph.errors import PlanError, Position, Problem

_PLACE = re.compile(r"\s*\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)\Z")
_TEXT = 'write a text in quotes, "like this"'
_TABLE = "a line is NAME = VALUE, or the name of a table in brackets: [limits]"
_ERRORS = (  # what the parser says begins so: what is wrong, how to write it
    ("Invalid value", "no valid value", f'{_TEXT}; a number as 3 or 0.5; a list as ["a", "b"]'),
    ("Unescaped", "a backslash in a text", "write a path in single quotes: 'C:\\data'"),
    ("Invalid hex", "a backslash in a text", "write a path in single quotes: 'C:\\data'"),
    ("Unterminated string", "a text that does not end", "close its quotes"),
    ("Illegal character '\\n'", "a text that does not end on its line", "close its quotes"),
    ("Expected '\"'", "a text that does not end", "close its quotes"),
    ('Expected "\'"', "a text that does not end", "close its quotes"),
    ("Unclosed array", "a list that does not end, or lacks a comma", 'write ["a", "b"]'),
    ("Unclosed inline", "a { that does not end, or lacks a comma", "write { a = 1, b = 2 }"),
    ("Expected ']", "the name of a table lacks its bracket", "write [limits]"),
    ("Expected '='", "a name without a value", _TABLE),
    ("Expected newline", "text after a value", f"begin a new line; {_TEXT}"),
    ("Invalid statement", "a line that is neither a setting nor a table", _TABLE),
    ("Invalid initial character", "a name that is missing, or has a wrong character", _TABLE),
    ("Cannot overwrite", "a name is set twice", "leave one of them out"),
    ("Duplicate", "a name is set twice", "leave one of them out"),
    ("Cannot declare", "a table is written twice", "put its lines below one [heading]"),
)  # fmt: skip


def read_toml(path: Path, shown: str) -> dict[str, Any]:
    """The content of a file, which errors name as `shown`.

    Raises:
        OSError: The file cannot be read.
        UnicodeDecodeError: It is no text.
        PlanError: It is no TOML.
    """
    text = path.read_text(encoding="utf-8")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(_problem(str(error), text, shown)) from error


def _problem(message: str, text: str, shown: str) -> Problem:
    place = _PLACE.search(message)
    if place is None or place["line"] is None:
        lines = text.rstrip().splitlines() or [""]
        line, column = len(lines), len(lines[-1]) + 1
    else:
        line, column = int(place["line"]), int(place["column"])
    reason = _PLACE.sub("", message)
    what, hint = next(
        ((what, hint) for begins, what, hint in _ERRORS if reason.startswith(begins)),
        (reason[:1].lower() + reason[1:], _TABLE),
    )
    return Problem(f"invalid TOML: {what}", position=Position(shown, line, column), hint=hint)
