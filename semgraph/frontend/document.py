"""YAML 1.2 text as plain data with positions, and the faults of plain data, of text that is not
UTF-8 and of argument names.

libyaml reads the text as events, so that tags construct no objects and every key and value keeps
its position. The result has only mappings, lists, text, numbers, true, false and null.
"""

from __future__ import annotations

import inspect
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, reduce, wraps
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from semgraph.errors import Fault, PlanError, Position, Problem, among, did_you_mean, nearest
from semgraph.expr.scalar import depth
from semgraph.folders import example_file, plan_names, plans_folder
from semgraph.frontend.renamed import INSTEAD

MAX_BYTES = 1_000_000
MAX_VALUES = 20_000  # keys and values of a file
# Endings of files of rows that are no plans.
ROWS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
MAX_DEPTH = 100  # levels of mappings and lists
NAME_HINT = "letters, digits and _, not starting with a digit"
COMMA_HINT = "a text with a comma needs quotes inside { } and [ ]"
COLON_HINT = 'write a blank behind ":", as in {id: string}; a name alone needs no colon: {id, n}'
_NO_BLANK = re.compile(r"[A-Za-z_]\w*:")
Trail = tuple[str | int, ...]
Place = tuple[int, int]  # line and column, from 1
Stamp = tuple[int, int, int] | None
_noticed: ContextVar[dict[Path, Stamp] | None] = ContextVar("noticed", default=None)


# -- faults of plain data


class KeyFault(Fault):
    """A key in the wrong place. Its position is that of the key, not of the value."""


def kind_of(value: object) -> str:
    """A plain value, in the words of messages.

    >>> kind_of({"a": 1})
    'a mapping'
    """
    if isinstance(value, str):
        return f'"{value if len(value) <= 60 else value[:57] + "..."}"'
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    if value is None:
        return "nothing"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def wrong(expected: str, value: object, hint: str | None = None) -> Fault:
    """The fault of a value of another kind."""
    return Fault(f"expected {expected}, found {kind_of(value)}", hint=hint)


def unknown(
    name: str, known: Iterable[str], what: str, kind: str, *path: str | int, value: bool = False
) -> Fault:
    """The fault of an unknown name: of a key, or of a `value`.

    >>> fault = unknown("setps", ["steps", "writes"], "a plan has no", "keys")
    >>> fault.what, fault.there, fault.hint
    ('a plan has no "setps"', 'keys: steps, writes', 'did you mean "steps"?')
    """
    return (Fault if value else KeyFault)(f'{what} "{name}"', *path, **among(name, known, kind))


def mapping(value: Any, what: str) -> dict[str, Any]:
    """A mapping; null becomes an empty mapping. Raises Fault."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong(what, value)
    return dict(value)


def unknown_key(
    place: str, key: Any, known: Iterable[str], what: str = "", kind: str = "keys"
) -> Fault:
    """The fault of an unknown key at a place of a plan, such as "windows".

    >>> unknown_key("windows", "window", ["input", "size"]).hint
    'did you mean "size"?'
    """
    fault = unknown(str(key), known, what or f"{place} has no", kind, key)
    hint = INSTEAD.get(place, {}).get(str(key), fault.hint)
    return KeyFault(fault.what, *fault.path, there=fault.there, hint=hint)


def known_keys(value: Mapping[str, Any], known: Iterable[str], what: str) -> list[Fault]:
    """A fault for each unknown key."""
    listed = list(known)
    return [unknown_key(what, key, listed) for key in value if key not in listed]


# -- texts that a comma cut in two: {n: coalesce(a, b)} is the text "coalesce(a" and the key "b)"

_OPEN_CALL = re.compile(r"\w\([^()]*,[^()]*\Z")


def rest_of(value: Any, following: Iterable[tuple[Any, Any]]) -> list[Any]:
    """The keys after a text that continue it, up to the key that closes its brackets; none if no
    key does.

    >>> rest_of("coalesce(a", [("b)", None), ("m", "c")]), rest_of("upper(a", [("m", "lower(b)")])
    (['b)'], [])
    """
    if not isinstance(value, str) or depth(value) <= 0:
        return []
    text = value
    rest: list[Any] = []
    for key, more in following:
        text, rest = f"{text}, {key}", [*rest, key]
        if depth(text) == 0:
            return rest
        if more is not None:
            break
    return []


def rests(data: Mapping[Any, Any]) -> set[Any]:
    """The keys of a mapping that continue a text before them."""
    items = list(data.items())
    return {key for i, (_, value) in enumerate(items) for key in rest_of(value, items[i + 1 :])}


# -- documents


@dataclass(frozen=True, eq=False)
class Document:
    """Plain data of a YAML text, with the position of each key and value."""

    file: str  # as the user named it
    data: Any  # shared between loads: never changed
    values: dict[Trail, Place] = field(default_factory=dict)  # the place of the value at a path
    keys: dict[Trail, Place] = field(default_factory=dict)  # the place of the key at a path

    def position(self, *path: str | int, key: bool = False) -> Position:
        """The position of a path, or of its nearest parent if it is inside a parameter."""
        if key and path in self.keys:
            return Position(self.file, *self.keys[path])
        while path and path not in self.values:
            path = path[:-1]
        return Position(self.file, *self.values.get(path, (1, 1)))

    def problem(self, fault: Fault, *base: str | int, step: str | None = None) -> Problem:
        """A fault below `base`, with its position."""
        position = self.position(*base, *fault.path, key=isinstance(fault, KeyFault))
        last = fault.path[-1] if fault.path else ""
        if isinstance(last, str) and _NO_BLANK.match(last):
            return Problem(fault.what, step, position, hint=COLON_HINT)
        hint = fault.hint or (COMMA_HINT if self._is_cut((*base, *fault.path)) else None)
        return Problem(fault.what, step, position, fault.there, hint)

    def _is_cut(self, path: Trail) -> bool:
        """Whether a comma cut the text at a path. List items on separate lines are no pieces of one
        text.
        """
        if not path:
            return False
        *above, last = path
        if isinstance(last, int):
            places = [self.values.get((*above, i)) for i in (last, last + 1)]
            if None in places or len({place[0] for place in places if place}) > 1:
                return False
        try:
            around: Any = reduce(getitem, above, self.data)
            listed = isinstance(around, list)
            items = [(value, None) for value in around] if listed else list(around.items())
            at = int(last) if listed else list(around).index(last)
            return bool(rest_of(around[last], items[at + 1 :]))
        except (LookupError, TypeError, ValueError, AttributeError):  # it came from a parameter
            return False


def walk_paths(data: Any, path: Trail = ()) -> Iterator[tuple[Trail, Any]]:
    """Every value of plain data with its path, parents first."""
    yield path, data
    if isinstance(data, dict):
        for key, value in data.items():
            yield from walk_paths(value, (*path, key))
    elif isinstance(data, list):
        for i, value in enumerate(data):
            yield from walk_paths(value, (*path, i))


# -- files


def stamp(path: Path) -> Stamp:
    """The inode, size and modification time (ns) of a file, which show changes; None: no file."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def notice(path: Path) -> None:
    """Record that a file is about to be read or, as it may appear later, looked for."""
    files = _noticed.get()
    if files is not None:
        files.setdefault(path.absolute(), stamp(path))


@contextmanager
def noticing() -> Iterator[dict[Path, Stamp]]:
    """Collect the noticed files, each with its stamp from before the read."""
    files: dict[Path, Stamp] = {}
    token = _noticed.set(files)
    try:
        yield files
    finally:
        _noticed.reset(token)


def shown(path: Path) -> str:
    """A path in messages: relative to the working directory if it is below it."""
    try:
        real, here = os.path.realpath(path), os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118 - pathlib takes longer
    except ValueError:  # no path at all
        return str(path)
    return real[len(here) :] if real.startswith(here) else str(path)


def read_text(path: Path, what: str = "plan") -> str:
    """The text of a file that must be UTF-8 text of at most 1 MB. Raises PlanError."""
    notice(path)
    raw = _read_bytes(path, what)
    wrong = not_utf8(raw, shown(path))
    if b"\0" in raw and (wrong is None or "UTF-16" not in wrong.hint):
        position = Position(shown(path), raw.count(b"\n", 0, raw.index(b"\0")) + 1, 1)
        message = f"this is no {what}: it holds binary data"
        raise PlanError(message, position=position, hint=f"a {what} is a text file")
    if wrong is not None:
        position = Position(shown(path), wrong.line, wrong.column)
        message = f"this is no {what}: {wrong.what}"
        raise PlanError(message, position=position, hint=wrong.hint)
    return raw.decode("utf-8-sig")


def _read_bytes(path: Path, what: str) -> bytes:
    position = Position(shown(path), 1, 1)
    if path.is_dir():
        message = f"this is a folder, no {what}"
        raise PlanError(message, position=position, hint="name a file in it")
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            message = f"this is no regular file, but a {what} is read from one"
            raise PlanError(message, position=position, hint="name a file")
        if status.st_size > MAX_BYTES:
            there = f"{status.st_size / 1e6:.1f} MB; a {what} has at most {MAX_BYTES / 1e6:.0f} MB"
            hint = "rows belong into an input file: -i NAME=FILE"
            message = f"this file is too large for a {what}"
            raise PlanError(Problem(message, None, position, there, hint))
        return path.read_bytes()
    except OSError as error:
        message = f"cannot read the {what}: {error.strerror or error}"
        raise PlanError(message, position=position) from None


def read_file(path: Path, what: str = "plan") -> Document:
    """A YAML file as plain data. Raises PlanError."""
    return parse(read_text(path, what), shown(path), what)


# -- plans by path or name

_OUTSIDE = "a plan names files in its own folder and shipped plans only: copy the file there"


def inside(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a path, with links resolved, is in one of the folders or among shipped plans."""
    try:
        real = os.path.realpath(path)
        if os.path.islink(real):  # noqa: PTH114 - a ring of links
            return False
        roots = (os.path.realpath(folder) for folder in (*folders, plans_folder()))
        return any(os.path.commonpath((real, root)) == root for root in roots)
    except (OSError, ValueError):  # no path at all
        return False


def require_inside(path: Path, folders: Iterable[Path], what: str, *key: str) -> None:
    """Refuse a file that a plan must not name, before it is read. Raises Fault."""
    if not inside(path, folders):
        raise Fault(f"{what} is outside the folder of the plan", *key, hint=_OUTSIDE)


def is_file(path: Path) -> bool:
    """Whether a file exists; False for an invalid file name."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # longer than a name can be, or with a NUL
        return False


def find_plan(ref: str | Path, folders: Sequence[Path] = ()) -> tuple[Path, bool]:
    """The file of a plan, and whether the plan comes with semgraph. A path or a name is searched in
    the folders, the working directory, its `plans/`, then among the shipped plans. Raises PlanError.
    """
    text = str(ref).replace("\0", "�")  # no path has a NUL in it
    name = text if text.endswith((".yaml", ".yml")) else f"{text}.yaml"
    shipped = plans_folder()
    if text.endswith(ROWS) and is_file(Path(text)):
        what = f"{text} holds rows, and the first argument is a plan"
        raise PlanError(what, hint=f"rows are an option: semgraph run PLAN -i NAME={text}")
    places = [*(folder / name for folder in folders), Path(text), Path(name), Path("plans", name)]
    for place in places:
        notice(place)
        if is_file(place):
            return place, place.resolve().is_relative_to(shipped.resolve())
    inside = shipped / name.removeprefix("plans/")
    if is_file(inside):
        return inside, True
    if example := example_file(name):
        return example, True
    if Path(text).exists():
        return Path(text), False
    raise PlanError(_nowhere(text, (*folders, Path())))


def find_named(name: str, folders: Sequence[Path], *, confined: bool) -> Path:
    """The file of a plan that another plan names, as `find_plan` searches it. With `confined` it must
    be in one of the folders, in the working directory's `plans/`, among the shipped plans or, by its
    bare name, in the working directory. Raises Fault.
    """
    places = (*folders, Path("plans"))
    what = f'the plan "{name}"'
    path = Path(name.replace("\0", "\ufffd"))
    by_name = path.parent == Path()
    searched = (*folders, Path())
    if confined and not by_name and not any(inside(at / path, places) for at in searched):
        require_inside(path, places, what)
    try:
        file = find_plan(name, folders)[0]
    except PlanError as error:
        problem = error.problems[0]
        raise Fault(problem.what, there=problem.there, hint=problem.hint) from None
    if confined:
        require_inside(file, (*places, Path()) if by_name else places, what)
    return file


def _nowhere(text: str, folders: Sequence[Path]) -> Problem:
    """The problem of a missing plan, with the files in its folder, or the names of plans."""
    searched = (*folders, Path("plans"), plans_folder())
    found = {path.stem for folder in searched for path in folder.glob("*.yaml")}
    known = sorted(found - {"graph"})
    near = _in_folders(text) or did_you_mean(Path(text).stem, known)
    if "/" in text or text.endswith((".yaml", ".yml")):
        asked = Path(text)
        files = (p for folder in folders for p in (folder / asked.parent).glob("*.y*ml"))
        beside = {file.stem: str(asked.parent / file.name) for file in files}
        meant = nearest(asked.stem, sorted(beside))
        hint = f'did you mean "{beside[meant]}"?' if meant else near or _LIST
        return Problem(f"{text}: there is no such file", hint=hint)
    return Problem(f'no plan "{text}"', hint=near or _LIST)


_FEW = 4  # plans that a hint lists
_LIST = "see semgraph plans list"


def _in_folders(text: str) -> str | None:
    """A hint if a folder of plans, or a plan in one, was probably meant."""
    names = [name for name in plan_names() if "/" in name]
    asked = text.removeprefix("plans/").removesuffix(".yaml").strip("/")
    within = [name for name in names if asked and f"/{asked}/" in f"/{name}"]
    if not within:
        return did_you_mean(asked, names)
    listed = ", ".join(within) if len(within) <= _FEW else "see semgraph plans list"
    return f"it is a folder of plans: {listed}"


# -- YAML


@lru_cache(maxsize=64)
def parse(text: str, file: str, what: str = "plan", first_line: int = 1) -> Document:
    """A YAML text as plain data. Raises PlanError with all syntax problems, or with the first
    problem that stops the reader.

    >>> parse("on: [1, yes, 2025-01-15]", "x.yaml").data
    {'on': [1, 'yes', '2025-01-15']}
    """
    from yaml import YAMLError

    reader = _Reader(text, file, what, first_line)
    try:
        data = reader.document()
    except (YAMLError, ValueError) as error:
        raise PlanError(_syntax_problem(text, error, file, first_line)) from None
    if reader.problems:
        raise PlanError(*reader.problems)
    return Document(file, data, reader.values, reader.keys)


_TAG = "tag:yaml.org,2002:"
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(
    r"[-+]?0b[01_]+|[-+]?0o?[0-7_]+|[-+]?[0-9][0-9_]*|[-+]?0x[0-9a-fA-F_]+", re.ASCII
)
_FLOAT = re.compile(
    r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    re.ASCII,
)


def _kind(text: str) -> str:
    """The type of a plain scalar in YAML 1.2: `yes`, `on` and dates are texts."""
    if text in _NULLS:
        return "null"
    if text in _BOOLS:
        return "bool"
    if text[0] in "-+.0123456789":
        return "int" if _INTEGER.fullmatch(text) else "float" if _FLOAT.fullmatch(text) else "str"
    return "str"


def _integer(text: str) -> int:
    digits = text.replace("_", "").lower()
    return int(digits, {"0x": 16, "0o": 8, "0b": 2}.get(digits.lstrip("+-")[:2], 10))


def _float(text: str) -> float:
    return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))


_SCALARS: dict[str, Any] = {
    "str": str,
    "timestamp": str,
    "int": _integer,
    "float": _float,
    "bool": lambda text: _BOOLS[text],
    "null": lambda _: None,
}


_LINE_BREAKS = {0x85: 0xE085, 0x2028: 0xE028, 0x2029: 0xE029}  # to libyaml, not in YAML 1.2
_RESTORED = {private: sign for sign, private in _LINE_BREAKS.items()}


class _Reader:
    """Reads events of libyaml; records positions and problems."""

    def __init__(self, text: str, file: str, what: str, first_line: int) -> None:
        import yaml

        self.restores = any(chr(sign) in text for sign in _LINE_BREAKS)
        text = text.translate(_LINE_BREAKS) if self.restores else text
        self.parser: Any = (
            yaml.cyaml.CParser(text) if yaml.__with_libyaml__ else yaml.SafeLoader(text)
        )
        self.anchors: set[str] = set()
        self.events = yaml.events
        self.file, self.what, self.first_line = file, what, first_line
        self.values: dict[Trail, Place] = {}
        self.keys: dict[Trail, Place] = {}
        self.problems: list[Problem] = []
        self.count = 0

    def document(self) -> Any:
        """The one document of the text. Raises YAMLError or PlanError."""
        self.parser.get_event()  # the start of the stream
        if isinstance(self.parser.get_event(), self.events.StreamEndEvent):
            position = Position(self.file, self.first_line, 1)
            raise PlanError(f"this {self.what} is empty", position=position)
        data = self.read(self.parser.get_event(), ())
        self.parser.get_event()  # the end of the document
        event = self.parser.get_event()
        if not isinstance(event, self.events.StreamEndEvent):
            problem = "expected a single document, but found another one"
            raise PlanError(_not_yaml(problem, self.position(event)))
        return data

    def place(self, event: Any) -> Place:
        return event.start_mark.line + self.first_line, event.start_mark.column + 1

    def position(self, event: Any) -> Position:
        return Position(self.file, *self.place(event))

    def refuse(self, event: Any, what: str, hint: str | None = None) -> None:
        self.problems.append(Problem(what, position=self.position(event), hint=hint))

    def read(self, event: Any, path: Trail) -> Any:
        """The value that an event starts, to its end."""
        self.bound(event, len(path))
        self.values[path] = self.place(event)
        if isinstance(event, self.events.ScalarEvent):
            return self.scalar(event) if self.is_plain(event) else None
        if isinstance(event, (self.events.MappingStartEvent, self.events.SequenceStartEvent)):
            is_map = isinstance(event, self.events.MappingStartEvent)
            plain = self.is_plain(event, "map" if is_map else "seq")
            data = self.mapping(path) if is_map else self.sequence(path)
            return data if plain else None
        self.refuse_alias(event)
        return None

    def bound(self, event: Any, levels: int) -> None:
        self.count += 1
        if self.count > MAX_VALUES:
            position = self.position(event)
            there = f"line {position.line} has value number {MAX_VALUES + 1:,}"
            what = f"this {self.what} has more than {MAX_VALUES:,} keys and values"
            hint = "rows belong into an input file: -i NAME=FILE"
            raise PlanError(what, position=position, there=there, hint=hint)
        if levels > MAX_DEPTH:
            raise PlanError(_not_yaml("nested too deeply", self.position(event)))

    def refuse_anchor(self, event: Any, name: str) -> None:
        hint = "name a step or a parameter"
        self.refuse(event, f'"{name}": anchors and aliases are not supported', hint)

    def refuse_alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            self.refuse_anchor(event, f"*{event.anchor}")

    def is_plain(self, event: Any, kind: str = "") -> bool:
        """Whether a value has no anchor, and no tag but that of a plain kind."""
        if event.anchor is not None:
            self.anchors.add(event.anchor)
            self.refuse_anchor(event, f"&{event.anchor}")
            return False
        tag = event.tag
        kinds = (kind,) if kind else _SCALARS
        if tag in (None, "!") or tag.removeprefix(_TAG) in kinds:
            return True
        self.refuse(event, f'the tag "{tag}" is not supported', "plain values only")
        return False

    def mapping(self, path: Trail) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while not isinstance(event := self.parser.get_event(), self.events.MappingEndEvent):
            name = self.key(event, path, data)
            value = self.parser.get_event()
            if name is None:
                self.skip(value, path)
                continue
            self.keys[(*path, name)] = self.place(event)
            data[name] = self.read(value, (*path, name))
        return data

    def key(self, event: Any, path: Trail, data: Mapping[str, Any]) -> str | None:
        """A key of a mapping; None for one that is wrong."""
        self.bound(event, len(path))
        if not isinstance(event, self.events.ScalarEvent):
            if isinstance(event, self.events.AliasEvent):
                self.refuse_alias(event)
                return None
            self.skip(event, path)
            hint = 'quote a text that starts with [ or {: "{name}"'
            self.refuse(event, "a key must be a name", hint)
            return None
        name = self.text(event)
        if event.anchor is not None or (name == "<<" and event.implicit[0]):
            self.refuse(event, f'"{name}": anchors and merge keys are not supported')
        elif name in data:
            self.refuse(event, f'the key "{name}" is repeated')
        else:
            return name
        return None

    def skip(self, event: Any, path: Trail) -> None:
        """Read past a value, silently."""
        places, problems = dict(self.values), list(self.problems)
        keys = dict(self.keys)
        self.read(event, (*path, ""))
        self.values, self.keys, self.problems = places, keys, problems

    def sequence(self, path: Trail) -> list[Any]:
        data: list[Any] = []
        while not isinstance(event := self.parser.get_event(), self.events.SequenceEndEvent):
            data.append(self.read(event, (*path, len(data))))
        return data

    def text(self, event: Any) -> str:
        text = str(event.value)
        return text.translate(_RESTORED) if self.restores else text

    def scalar(self, event: Any) -> Any:
        text = self.text(event)
        own = "str" if event.tag in (None, "!") else str(event.tag).removeprefix(_TAG)
        kind = _kind(text) if event.implicit[0] else own
        try:
            value = _SCALARS[kind](text)
        except (ValueError, KeyError):
            self.refuse(event, f'"{text}" is no {kind}')
            return None
        if isinstance(value, str):
            bad = next((c for c in value if c == "\0" or "\ud800" <= c <= "\udfff"), None)
            if bad is not None:
                what = f"the text holds the character U+{ord(bad):04X}, which no store keeps"
                self.refuse(event, what)
        return value


def _syntax_problem(text: str, error: Exception, file: str, first_line: int) -> Problem:
    """The syntax problem of a text, in the words of the Python parser, which tells more."""
    import yaml

    try:
        if "nesting depth" in str(error):  # libyaml's own limit; the parser in Python has none
            raise yaml.MarkedYAMLError(
                problem="nested too deeply", problem_mark=getattr(error, "problem_mark", None)
            )
        for _ in yaml.parse(text, yaml.SafeLoader):
            pass
    except yaml.YAMLError as precise:
        error = precise
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + first_line
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        return _not_yaml(str(error).splitlines()[0], Position(file, line, column))
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return _not_yaml(str(error).splitlines()[0], Position(file, first_line, 1))
    position = Position(file, mark.line + first_line, mark.column + 1)
    assert isinstance(error, yaml.MarkedYAMLError)
    crooked = _crooked(error, file, first_line)
    if crooked is not None:
        return crooked
    return _not_yaml(str(error.problem or error.context), position, _before(mark))


def _before(mark: Any) -> str:
    return str(mark.buffer)[: mark.pointer].rpartition("\n")[2] if mark.buffer else ""


def _crooked(error: Any, file: str, first_line: int) -> Problem | None:
    """The problem of a line in a wrong column, or of an unclosed quote."""
    mark, start, text = error.problem_mark, error.context_mark, str(error.problem)
    if mark is None or start is None:
        return None
    begun = start.line + first_line
    if "block end" in text:
        kind = "mapping" if "mapping" in str(error.context) else "list"
        what = (
            f"wrong indent: this does not continue the {kind} that began in line {begun}, "
            f"column {start.column + 1}"
        )
        hint = "lines of one list or mapping start in the same column"
        place = Position(file, mark.line + first_line, mark.column + 1)
        return Problem(what, position=place, hint=hint)
    if "unexpected end of stream" in text and "quoted" in str(error.context):
        what = "a quote that is opened here is never closed"
        return Problem(what, position=Position(file, begun, start.column + 1), hint="close it")
    return None


def _not_yaml(problem: str, position: Position, before: str = "") -> Problem:
    if "unexpected ':'" in problem:
        what = 'invalid YAML: nothing stands behind a ":"'
        return Problem(what, position=position, hint=COLON_HINT)
    if "'\\t'" in problem:
        return Problem("a tab cannot indent YAML", position=position, hint="indent with blanks")
    hint = None
    if "mapping values are not allowed" in problem or "but got ':'" in problem:
        hint = 'a text with ": " in it needs quotes'
    elif "cannot start any token" in problem:
        hint = "quote the text"
    elif problem.startswith("expected ','") and _OPEN_CALL.search(before):
        hint = COMMA_HINT
    return Problem(f"invalid YAML: {problem}", position=position, hint=hint)


_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_C1 = range(0x80, 0xA0)  # control characters in Latin-1, letters and quotes in Windows-1252


class NotUtf8(NamedTuple):
    """Where a text stops being UTF-8, from 1, and what to do."""

    line: int
    column: int
    what: str
    hint: str


def not_utf8(raw: bytes, file: str, start: int = 0) -> NotUtf8 | None:
    r"""The first byte of a file that is not UTF-8, or None. `start` bytes of the file precede
    `raw`.

    >>> not_utf8(b"id\ncaf\xe9", "a.csv").hint
    'if it is Latin-1: iconv -f latin1 -t utf-8 a.csv > new'
    >>> not_utf8(b"\x93hi\x94", "a.csv").hint
    'if it is Windows-1252: iconv -f windows-1252 -t utf-8 a.csv > new'
    """
    try:
        raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        column = error.start - (before.rfind(b"\n") + 1) + 1
        name, encoding = _probable(raw)
        hint = f"if it is {name}: iconv -f {encoding} -t utf-8 {file} > new"
        if b"\0" in raw and name != "UTF-16":
            hint = "it holds binary data: name a text file"
        return NotUtf8(
            before.count(b"\n") + 1, column, f"byte {start + error.start} is not UTF-8", hint
        )
    return None


def _probable(raw: bytes) -> tuple[str, str]:
    if raw.startswith(_UTF_16):
        return "UTF-16", "utf-16"
    if any(byte in _C1 for byte in raw):
        return "Windows-1252", "windows-1252"
    return "Latin-1", "latin1"


P = ParamSpec("P")
R = TypeVar("R")


def checks_arguments(
    function: Callable[P, R], place: str = "", beside: Iterable[str] = ()
) -> Callable[P, R]:
    """A function that refuses unknown arguments with a hint: the nearest argument, or the
    replacement. `place` is its name in messages, if that differs; `beside` are the arguments that it
    takes as `**`. Raises TypeError.

    >>> @checks_arguments
    ... def limit(n, by=None): ...
    >>> limit(n=3, bye="city")
    Traceback (most recent call last):
    TypeError: limit has no argument "bye". Arguments: n, by. Did you mean "by"?
    """
    name = place or function.__name__
    own = inspect.signature(function).parameters.values()
    several = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    known = [p.name for p in own if p.name != "self" and p.kind not in several]
    known += [word for word in beside if word not in known]

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        refuse_unknown(name, kwargs, known)
        return function(*args, **kwargs)

    return checked


def refuse_unknown(place: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse unknown argument names of a call. Raises TypeError."""
    listed = list(known)
    for name in given:
        if name not in listed:
            fault = unknown_key(place, name, listed, f"{place} has no argument", "arguments")
            raise TypeError(str(Problem(fault.what, there=fault.there, hint=fault.hint)))
