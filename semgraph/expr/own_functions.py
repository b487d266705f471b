"""User functions: typed Python functions that expressions call.

In the SQL of a scalar a function has the name `NAME__SHA256`, with the SHA-256 of its file, and all
its arguments. So fingerprints include both, and functions of two folders do not collide. One
wrapper, `OwnFunction`, calls the function for DuckDB and for generated row functions.
"""

from __future__ import annotations

import inspect
import json
import logging
import re
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import pyarrow as pa
from sqlglot import exp

from semgraph.errors import Fault, did_you_mean
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import PYTHON_TYPES, Type
from semgraph.folders import line_in

# The type of a parameter that receives a parsed JSON text, and of a result that becomes one.
Json = Annotated[Any, "semgraph.json"]

_LOG = logging.getLogger("semgraph")
_LONGEST = 5.0  # seconds of one call after which a warning is logged
_SHOWN = 80  # characters of the arguments in errors
_LEAST = 10  # minimum characters of each argument
_NAME = re.compile(r"\b([a-z][a-z0-9_]*)__[0-9a-f]{64}\b")
_INT64 = range(-(2**63), 2**63)
_ADMITTED = "types: str, int, float, bool, datetime, date, list[T], a TypedDict, Json, T | None"


_only_types: ContextVar[bool] = ContextVar("only_types", default=False)


@contextmanager
def not_called() -> Iterator[None]:
    """A context in which functions return NULL, because DuckDB folds some constants during binding."""
    token = _only_types.set(True)
    try:
        yield
    finally:
        _only_types.reset(token)


class FunctionFailed(Exception):
    """A user function raised, or its result does not match its type. The text is one line, with the
    function, its arguments, file and line.
    """


def failure_in(message: str) -> str | None:
    """The failure of a user function in DuckDB's error message, or None."""
    _, found, failure = message.partition(f"{FunctionFailed.__name__}: ")
    return failure.partition("\n")[0] if found else None


@dataclass(frozen=True)
class FunctionParameter:
    """A parameter of a function. Unless its type has `null`, the function is not called with NULL,
    and the result is NULL.
    """

    name: str
    kind: Type
    default: str | None = None  # SQL; None: it is required

    def __str__(self) -> str:
        default = "" if self.default is None else f" = {self.default}"
        return f"{self.name}: {self.kind}{default}"


@dataclass(frozen=True)
class OwnFunction:
    """A user function; it is called with values of rows."""

    name: str  # in plans
    digest: str  # SHA-256 of its file
    file: Path
    python: Callable[..., Any]
    parameters: tuple[FunctionParameter, ...]
    result: Type

    @property
    def sql_name(self) -> str:
        """Its name in SQL."""
        return f"{self.name}__{self.digest}"

    @property
    def signature(self) -> str:
        """The text for tables and errors: `chunk(text: string, size: int64 = 200) -> list<string>`."""
        return f"{self.name}({', '.join(map(str, self.parameters))}) -> {self.result}"

    def __call__(self, *values: Any) -> Any:
        """The result for one row. Raises FunctionFailed."""
        pairs = list(zip(values, self.parameters, strict=True))
        if any(value is None and not own.kind.nullable for value, own in pairs):
            return None
        began = time.perf_counter()
        try:
            result = self.python(*(_given(value, own.kind) for value, own in pairs))
        except BaseException as error:  # SystemExit would end the event loop silently
            of_main = threading.current_thread() is threading.main_thread()
            if isinstance(error, KeyboardInterrupt) and of_main:
                raise
            said = f"raised {_one_line(error)}"
            raise FunctionFailed(self._called(values, said, line_in(self.file, error))) from error
        seconds = time.perf_counter() - began
        if seconds > _LONGEST:
            _LOG.warning(self._called(values, f"took {seconds:.1f} s", None))
        return self.converted(result, values)

    def converted(self, result: Any, values: Sequence[Any] = ()) -> Any:
        """A result converted to a value of rows. Raises FunctionFailed for another type."""
        try:
            return _returned(result, self.result)
        except ValueError as error:
            raise FunctionFailed(self._called(values, f"returned {error}", None)) from error

    def _called(self, values: Sequence[Any], said: str, line: int | None) -> str:
        most = max(_SHOWN // max(len(values), 1), _LEAST)
        shown = ", ".join(_cut(_shown(value), most) for value in values)
        text = f"{self.name}({shown}) {said}, in {self.file}" + (f":{line}" if line else "")
        return text.encode("utf-8", "backslashreplace").decode()  # lone surrogates are no text

    def on_columns(self, *columns: pa.Array[Any]) -> pa.Array[Any]:
        """The results for whole Arrow columns; NULLs during binding. Raises FunctionFailed."""
        if _only_types.get():
            return pa.array([None] * len(columns[0]), self.result.arrow)
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([self(*row) for row in rows], self.result.arrow)


def _one_line(error: BaseException) -> str:
    message = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _shown(value: Any) -> str:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    text = value[:_SHOWN] if isinstance(value, str) else value
    return json.dumps(text, ensure_ascii=False, default=str)


# -- values


def _given(value: Any, kind: Type) -> Any:
    """A value for the function: a copy, because the function may change it."""
    if value is None:
        return None
    if kind.item is not None:
        return [_given(item, kind.item) for item in value]
    if kind.name == "struct":
        return {name: _given(value[name], part) for name, part in kind.fields}
    return json.loads(value) if kind.name == "json" else value


def _returned(value: Any, kind: Type) -> Any:
    """A result converted to a value of rows. Raises ValueError with the reason."""
    if value is None:
        if not kind.nullable:
            raise ValueError(f"None, not {kind}: write | None if it may")
        return None
    if kind.item is not None and isinstance(value, list):
        return [_returned(item, kind.item) for item in value]
    if kind.name == "struct" and isinstance(value, dict):
        names = [name for name, _ in kind.fields]
        if sorted(map(str, value)) == sorted(names):
            return {name: _returned(value[name], part) for name, part in kind.fields}
    convert = _CONVERTED.get(kind.name)
    try:
        converted = None if convert is None else convert(value)
    except (TypeError, ValueError, OverflowError):
        converted = None
    if converted is None:
        shown = _cut(repr(value).replace("\n", " "), _SHOWN)
        raise ValueError(f"{type(value).__name__} {shown}, not {replace(kind, nullable=False)}")
    return converted


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    value.encode()  # lone surrogates are no text
    return str(value)


def _int(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and value in _INT64 else None


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and type(value) is not bool else None


def _timestamp(value: Any) -> datetime | None:
    zoned = isinstance(value, datetime) and value.tzinfo is not None
    return value.astimezone(UTC) if zoned else None


def _json(value: Any) -> str | None:
    return _text(canonical_json(json.loads(json.dumps(value, allow_nan=False))))


_CONVERTED: dict[str, Callable[[Any], Any]] = {
    "string": _text,
    "int64": _int,
    "double": _float,
    "boolean": lambda value: value if isinstance(value, bool) else None,
    "timestamp": _timestamp,
    "date": lambda value: value if type(value) is date else None,
    "json": _json,
}


# -- signatures


def own_function(name: str, digest: str, file: Path, python: Any) -> OwnFunction:
    """A function with its types, by its annotations. Raises Fault."""
    if not inspect.isfunction(python):
        raise Fault(f'holds no function "{name}"', hint=f"write def {name}(text: str) -> str")
    if inspect.iscoroutinefunction(python) or inspect.isgeneratorfunction(python):
        raise Fault(f"{name} is no plain function", hint="return the result, a list for several")
    try:
        hints = get_type_hints(python, include_extras=True)
    except Exception as error:
        raise Fault(f"the types of {name} cannot be read: {_one_line(error)}") from error
    listed = inspect.signature(python).parameters.values()
    parameters = tuple(_parameter(name, each, hints) for each in listed)
    if not parameters:
        raise Fault(f"{name} has no parameter", hint="a constant is a parameter of the plan")
    if "return" not in hints:
        raise Fault(f"{name} does not say what it returns", hint=f"write def {name}(...) -> str")
    result = _kind(hints["return"], f"{name} returns")
    return OwnFunction(name, digest, file, python, parameters, result)


def _parameter(
    function: str, own: inspect.Parameter, hints: Mapping[str, Any]
) -> FunctionParameter:
    if own.kind not in (own.POSITIONAL_OR_KEYWORD, own.POSITIONAL_ONLY):
        raise Fault(f"{function} has the parameter {own}", hint="parameters are plain: no *, no **")
    if own.name not in hints:
        raise Fault(f'{function} gives "{own.name}" no type', hint=f"write {own.name}: str")
    kind = _kind(hints[own.name], f'{function}, "{own.name}" is')
    if own.default is own.empty:
        return FunctionParameter(own.name, kind)
    value = own.default
    fits = value is None if kind.nullable else False
    if not fits and not (isinstance(value, str | int | float) and _fits(value, kind)):
        what = f"{function}: {own.name} = {value!r} is no default"
        raise Fault(what, hint="a default is a text, a number, true, false or None")
    return FunctionParameter(own.name, kind, exp.convert(value).sql(dialect="duckdb"))


def _fits(value: Any, kind: Type) -> bool:
    try:
        return _returned(value, kind) is not None
    except ValueError:
        return False


def _kind(hint: Any, where: str) -> Type:
    """The type of the plan language for a Python type. Raises Fault."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint == Json:
        return Type("json")
    if isinstance(hint, type) and hint in PYTHON_TYPES and hint is not dict:
        return Type(PYTHON_TYPES[hint])
    if origin in (Union, types.UnionType) and type(None) in parts and len(parts) == 2:
        inner = next(part for part in parts if part is not type(None))
        return replace(_kind(inner, where), nullable=True)
    if origin is list:
        return Type("list", item=_kind(parts[0], where))
    if is_typeddict(hint) and hint.__required_keys__:
        if hint.__optional_keys__:
            raise Fault(f"{where} {hint.__name__}, which may lack keys", hint="write T | None")
        fields = get_type_hints(hint, include_extras=True)
        return Type("struct", fields=tuple((n, _kind(part, where)) for n, part in fields.items()))
    shown = getattr(hint, "__name__", None) if origin is None else None
    raise Fault(f"{where} {shown or hint}, which no column holds", there=_ADMITTED)


# -- calls in expressions


# The functions that the expressions of a plan may call. An item, ready to be called in SQL, raises Fault.
FunctionsByName = Mapping[str, OwnFunction]
REGISTERED: dict[str, OwnFunction] = {}  # the functions that SQL may call, by their names there
_lock = threading.Lock()


def register(function: OwnFunction, define: Callable[[OwnFunction], None]) -> None:
    """Let SQL call a function. `define` is called once for each content of a file."""
    with _lock:
        if function.sql_name not in REGISTERED:
            define(function)
        REGISTERED[function.sql_name] = function


def calls_own(sql: str) -> bool:
    """Whether SQL calls a user function."""
    return "__" in sql and any(match[0] in REGISTERED for match in _NAME.finditer(sql))


def own_calls(sql: str) -> Iterator[OwnFunction]:
    """The user functions that SQL calls."""
    if "__" in sql:
        yield from (REGISTERED[m[0]] for m in _NAME.finditer(sql) if m[0] in REGISTERED)


def plain_names(text: str) -> str:
    """SQL, or a message about it, with the names of functions in plans."""
    return _NAME.sub(lambda m: m[1] if m[0] in REGISTERED else m[0], text) if "__" in text else text


def called_of(source: str, functions: FunctionsByName | None) -> list[OwnFunction]:
    """The user functions that the text of an expression may call. Raises Fault."""
    if functions is None or "(" not in source:
        return []
    lower = source.lower()
    named = (name for name in functions if name in lower)
    return [functions[name] for name in named if re.search(rf'\b{name}"?\s*\(', lower)]


def with_own_calls(tree: exp.Expr, functions: Sequence[OwnFunction]) -> exp.Expr:
    """The changed tree, in which calls of these functions have the names in SQL and all arguments.
    Raises Fault.
    """
    by_name = {function.name: function for function in functions}
    for call in list(tree.find_all(exp.Anonymous)):
        if function := by_name.get(call.name.lower()):
            call.set("expressions", _arguments(call, function))
            call.set("this", function.sql_name)
    return tree


def _arguments(call: exp.Expr, function: OwnFunction) -> list[exp.Expr]:
    """The argument of each parameter: by position, by name (`size := 3`), or its default."""
    names, own = [parameter.name for parameter in function.parameters], function.name
    there = f"its signature: {function.signature}"
    values: dict[str, exp.Expr] = {}
    for place, argument in enumerate(call.expressions):
        named = isinstance(argument, (exp.PropertyEQ, exp.Kwarg))
        if not named and place >= len(names):
            raise Fault(f"{own} takes at most {len(names)} arguments", there=there)
        name = argument.this.name if named else names[place]
        if name not in names:
            hint = did_you_mean(name, names)
            raise Fault(f'{own} has no parameter "{name}"', there=there, hint=hint)
        if name in values:
            raise Fault(f'{own} is given "{name}" twice', there=there)
        values[name] = argument.expression if named else argument
    for parameter in function.parameters:
        if parameter.name not in values:
            if parameter.default is None:
                raise Fault(f'{own} needs "{parameter.name}"', there=there)
            values[parameter.name] = exp.maybe_parse(parameter.default, dialect="duckdb")
    return [values[name] for name in names]
