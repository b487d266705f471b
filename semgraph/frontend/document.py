"""YAML 1.2 as plain data with positions. Nothing but mappings, lists, text, numbers, true, false
and null comes out.

The text is composed to a tree and read from there, so no tag ever constructs anything and every
value keeps its place.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from semgraph.errors import Fault, PlanError, Position, Problem
from semgraph.frontend import scope as commas
from semgraph.frontend.scope import KeyFault

Stamp = tuple[int, int, int] | None
_noticed: ContextVar[dict[Path, Stamp] | None] = ContextVar("noticed", default=None)


def stamp(path: Path) -> Stamp:
    """What changes when a file does: its inode, size and time of writing (ns). None: it is not
    there.
    """
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def notice(path: Path) -> None:
    """Say that a file is about to be read, or is looked for: one that appears later would be found
    instead of another.
    """
    files = _noticed.get()
    if files is not None:
        files.setdefault(path.absolute(), stamp(path))


@contextmanager
def noticing() -> Iterator[dict[Path, Stamp]]:
    """Collect what is noticed, with its stamp from before it is read."""
    files: dict[Path, Stamp] = {}
    token = _noticed.set(files)
    try:
        yield files
    finally:
        _noticed.reset(token)


MAX_BYTES = 1_000_000
MAX_VALUES = 20_000  # keys and values of a file; YAML is read at about ten thousand a second
Trail = tuple[str | int, ...]
Place = tuple[int, int]
_TAG = "tag:yaml.org,2002:"
_DEEP = re.compile(r"(?:[\[{]\s*){100}")
_WORDS = {"true": True, "false": False}


@dataclass(frozen=True)
class Document:
    """Plain data of a YAML text, and where each key and value stands.

    Args:
        file: The file as the user named it.
        data: Mappings with text keys, lists, text, numbers, true, false, null. Shared between
            loads: never changed.
        values: Line and column (from 1) of the value at a path.
        keys: Line and column of the key at a path.
    """

    file: str
    data: Any
    values: dict[Trail, Place] = field(default_factory=dict)
    keys: dict[Trail, Place] = field(default_factory=dict)

    def position(self, *path: str | int, key: bool = False) -> Position:
        """Where a path stands; of a path that is not in the text (a parameter's inside), its
        nearest parent.
        """
        if key and path in self.keys:
            return Position(self.file, *self.keys[path])
        while path and path not in self.values:
            path = path[:-1]
        return Position(self.file, *self.values.get(path, (1, 1)))

    def problem(self, fault: Fault, *base: str | int, step: str | None = None) -> Problem:
        """A fault below `base`, with its position."""
        position = self.position(*base, *fault.path, key=isinstance(fault, KeyFault))
        hint = fault.hint or (commas.HINT if self._cut((*base, *fault.path)) else None)
        return Problem(fault.what, step, position, fault.there, hint)

    def _cut(self, path: Trail) -> bool:
        """Whether the text there was cut at a comma. Items of a list that stand below each other
        are no pieces of one text.
        """
        if path and isinstance(path[-1], int):
            places = [self.values.get((*path[:-1], i)) for i in (path[-1], path[-1] + 1)]
            if None in places or len({place[0] for place in places if place}) > 1:
                return False
        return commas.cut(self.data, path)


def shown(path: Path) -> str:
    """A path as messages show it: relative to the working directory where it is below it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def read_text(path: Path, what: str = "plan") -> str:
    """The text of a file that must be UTF-8 text of at most 1 MB. Raises PlanError."""
    file = shown(path)
    notice(path)
    if path.is_dir():
        raise PlanError(
            Problem(
                f"this is a folder, no {what}",
                position=Position(file, 1, 1),
                hint="name a file in it",
            )
        )
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            what_it_is = f"this is no regular file, but a {what} is read from one"
            raise PlanError(Problem(what_it_is, position=Position(file, 1, 1), hint="name a file"))
        size = status.st_size
        if size > MAX_BYTES:
            there = f"{size / 1e6:.1f} MB; a {what} has at most {MAX_BYTES / 1e6:.0f} MB"
            hint = "rows belong into an input file: -i NAME=FILE"
            raise PlanError(
                Problem(
                    f"this file is too large for a {what}", None, Position(file, 1, 1), there, hint
                )
            )
        raw = path.read_bytes()
    except OSError as error:
        msg = f"cannot read the {what}: {error.strerror or error}"
        raise PlanError(Problem(msg, position=Position(file, 1, 1))) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        msg = f"this is no {what}: byte {error.start} is not UTF-8"
        raise PlanError(
            Problem(msg, position=Position(file, line, column), hint=f"a {what} is a text file")
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        msg = f"this is no {what}: it holds binary data"
        raise PlanError(
            Problem(msg, position=Position(file, line, 1), hint=f"a {what} is a text file")
        )
    return text


def read_file(path: Path, what: str = "plan") -> Document:
    """A YAML file as plain data. Raises PlanError."""
    return parse(read_text(path, what), shown(path), what)


@lru_cache(maxsize=64)
def parse(text: str, file: str, what: str = "plan", first_line: int = 1) -> Document:
    """A YAML text as plain data. Raises PlanError with all problems of its form, or the first that
    stops the reader.

    >>> parse("on: [1, yes, 2025-01-15]", "x.yaml").data
    {'on': [1, 'yes', '2025-01-15']}
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if _DEEP.search(text):  # the reader would take minutes to find out
        raise PlanError(_syntax("nested too deeply", Position(file, first_line, 1)))
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _composer()
    try:
        tree = yaml.compose(text)
    except _TooManyError as error:
        there = f"line {error.line + first_line} has value number {MAX_VALUES + 1:,}"
        problem = f"this {what} has more than {MAX_VALUES:,} keys and values"
        hint = "rows belong into an input file: -i NAME=FILE"
        position = Position(file, error.line + first_line, error.column + 1)
        raise PlanError(Problem(problem, position=position, there=there, hint=hint)) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + first_line, mark.column + 1) if mark else (first_line, 1)
        problem = str(error.problem or error.context)
        raise PlanError(_syntax(problem, Position(file, *place), _before(mark))) from None
    except (YAMLError, RecursionError, ValueError) as error:
        what_happened = (
            "nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0]
        )
        raise PlanError(_syntax(what_happened, Position(file, first_line, 1))) from None
    if tree is None:
        msg = f"this {what} is empty"
        raise PlanError(Problem(msg, position=Position(file, first_line, 1)))
    reader = _Reader(file, first_line)
    try:
        data = reader.read(tree, ())
    except RecursionError:
        raise PlanError(_syntax("nested too deeply", Position(file, first_line, 1))) from None
    if reader.problems:
        raise PlanError(*reader.problems)
    return Document(file, data, reader.values, reader.keys)


class _TooManyError(Exception):
    def __init__(self, line: int, column: int) -> None:
        self.line, self.column = line, column
        super().__init__(f"too many values at {line}:{column}")


@cache
def _composer() -> type[Any]:
    """A composer that stops at the bound, before it has read the rest. ruamel.yaml is loaded when a
    file is read.
    """
    from ruamel.yaml.composer import Composer

    class Bounded(Composer):
        """Counts the nodes that it composes."""

        count = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.count += 1
            if self.count > MAX_VALUES:
                mark = self.parser.peek_event().start_mark
                raise _TooManyError(mark.line, mark.column)
            return super().compose_node(parent, index)

    return Bounded


def _before(mark: Any) -> str:
    """What stands before a mark in its line."""
    return str(mark.buffer)[: mark.pointer].rpartition("\n")[2] if mark and mark.buffer else ""


def _syntax(problem: str, position: Position, before: str = "") -> Problem:
    if "'\\t'" in problem:
        return Problem("a tab cannot indent YAML", position=position, hint="indent with blanks")
    hint = None
    if "undefined alias" in problem:
        name = problem.split("'")[1]
        return Problem(
            f'"*{name}": anchors and aliases have no place here',
            position=position,
            hint="name a step or a parameter",
        )
    if "mapping values are not allowed" in problem or "but got ':'" in problem:
        hint = 'a text with ": " in it needs quotes'
    if "cannot start any token" in problem:
        hint = "quote the text"
    if hint is None and problem.startswith("expected ','") and commas.inside_a_call(before):
        hint = commas.HINT
    return Problem(f"this is no YAML: {problem}", position=position, hint=hint)


class _Reader:
    """Reads a composed tree; keeps places and all problems."""

    def __init__(self, file: str, first_line: int) -> None:
        self.file, self.first_line = file, first_line
        self.values: dict[Trail, Place] = {}
        self.keys: dict[Trail, Place] = {}
        self.problems: list[Problem] = []

    def place(self, node: Any) -> Place:
        return node.start_mark.line + self.first_line, node.start_mark.column + 1

    def refuse(self, node: Any, what: str, hint: str | None = None) -> None:
        self.problems.append(
            Problem(what, position=Position(self.file, *self.place(node)), hint=hint)
        )

    def read(self, node: Any, path: Trail) -> Any:
        if node.anchor is not None:
            self.refuse(
                node,
                f'"&{node.anchor}": anchors and aliases have no place here',
                "name a step or a parameter",
            )
            return None
        self.values[path] = self.place(node)
        kind = str(node.tag).removeprefix(_TAG)
        readers = {"map": self.mapping, "seq": self.sequence}
        if kind in readers and isinstance(node.value, list):
            return readers[kind](node, path)
        if kind not in _SCALARS or not isinstance(node.value, str):
            self.refuse(node, f'the tag "{node.tag}" has no place here', "plain values only")
            return None
        return self.scalar(node, kind)

    def mapping(self, node: Any, path: Trail) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key.value, str):
                self.refuse(
                    key, "a key must be a name", 'quote a text that starts with [ or {: "{name}"'
                )
                continue
            name = key.value
            if key.anchor is not None or str(key.tag) == _TAG + "merge":
                self.refuse(key, f'"{name}": anchors and merge keys have no place here')
                continue
            if name in found:
                self.refuse(key, f'the key "{name}" stands here twice')
                continue
            self.keys[(*path, name)] = self.place(key)
            found[name] = self.read(value, (*path, name))
        return found

    def sequence(self, node: Any, path: Trail) -> list[Any]:
        return [self.read(value, (*path, i)) for i, value in enumerate(node.value)]

    def scalar(self, node: Any, kind: str) -> Any:
        try:
            found = _SCALARS[kind](node.value)
        except (ValueError, KeyError):
            self.refuse(node, f'"{node.value}" is no {kind}')
            return None
        if isinstance(found, str):
            bad = next((c for c in found if c == "\0" or "\ud800" <= c <= "\udfff"), None)
            if bad is not None:
                self.refuse(
                    node, f"the text holds the character U+{ord(bad):04X}, which no store keeps"
                )
        return found


def _integer(text: str) -> int:
    digits = text.replace("_", "").lower()
    body = digits.lstrip("+-")
    base = {"0x": 16, "0o": 8, "0b": 2}.get(body[:2], 10)
    return int(digits, base)


def _float(text: str) -> float:
    return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))


_SCALARS: dict[str, Any] = {
    "str": str,
    "timestamp": str,
    "int": _integer,
    "float": _float,
    "bool": lambda text: _WORDS[text.lower()],
    "null": lambda _: None,
}


def walk_paths(data: Any, path: Trail = ()) -> Iterator[tuple[Trail, Any]]:
    """Every value of plain data with its path, parents first."""
    yield path, data
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for key, value in items:
        yield from walk_paths(value, (*path, key))
