"""The comments of a plan file, which say what its inputs, parameters, presets and steps mean."""

from __future__ import annotations

import re
from pathlib import Path

from semgraph.frontend.document import Document, Trail

SCHEMA_LINE = re.compile(r"# yaml-language-server: \$schema=(?P<schema>\S+)\Z")
"""The comment by which an editor finds the schema of a file."""
SCHEMAS = "schemas"
"""The folder of the schemas, beside plans."""


def schema_line(schema: Path, file: Path) -> str:
    """The first line of a file, naming its schema.

    >>> schema_line(Path("schemas/plan.json"), Path("memories/raptor/read.yaml"))
    '# yaml-language-server: $schema=../../schemas/plan.json'
    """
    ups = [".."] * (len(file.parts) - 1)
    return f"# yaml-language-server: $schema={'/'.join([*ups, schema.as_posix()])}"


class Notes:
    """The comments of a plan file: those at its head, and those of keys: on the line of the key or on
    lines of their own above it.
    """

    def __init__(self, text: str, document: Document) -> None:
        self._lines = text.splitlines()
        self._document = document
        head = [line for line in self._lines[: self._top()] if not SCHEMA_LINE.match(line)]
        self.head = [line.lstrip("# ") for line in head]

    def _top(self) -> int:
        return next((i for i, line in enumerate(self._lines) if not line.startswith("#")), 0)

    @property
    def params(self) -> dict[str, str]:
        """What each parameter means; "" where the plan does not say."""
        return {name: self.at("params", name) for name in self._document.data.get("params") or ()}

    @property
    def presets(self) -> dict[str, str]:
        """What each preset means: its `doc`, or its comment."""
        presets = self._document.data.get("presets") or {}
        return {
            name: " ".join(body.get("doc", "").split()) or self.at("presets", name)
            for name, body in presets.items()
        }

    def at(self, *path: str | int) -> str:
        """The comment of a key; "" if it has none, or is not the first on its line."""
        key_path: Trail = path
        position = self._document.keys.get(key_path)
        if position is None:
            return ""
        row = position[0] - 1
        line = self._lines[row]
        if line[: position[1] - 1].strip(" \"'"):
            return ""
        above: list[str] = []
        while row > self._top() and (text := self._lines[row - 1].strip()).startswith("#"):
            above.insert(0, text.lstrip("# "))
            row -= 1
        return _comment(line) or " ".join(above)


def _comment(line: str) -> str:
    quote = ""
    for i, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and line[i - 1 : i].isspace():
            return line[i + 1 :].strip()
    return ""
