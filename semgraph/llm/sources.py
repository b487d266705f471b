"""The places that settings come from: options, the environment, `semgraph.toml`. Each is checked where it is read."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from semgraph.errors import Problem, did_you_mean

OPTION = "option"  # the origin of what was given on the command line or to `Session`
_OURS = "SEMGRAPH_"
_VARIABLES = {"SEMGRAPH_LLM": "llm", "SEMGRAPH_EMBEDDER": "models.embed", "SEMGRAPH_STORE": "store"}
VARIABLES = (*_VARIABLES, "SEMGRAPH_HOME", "SEMGRAPH_CONFIG", "SEMGRAPH_OFFLINE")
_NUMBERS: dict[str, type] = {
    "limits.rpm": int,
    "limits.tpm": int,
    "limits.in_flight": int,
    "limits.max_usd": float,
    "limits.max_calls": int,
    "limits.max_tokens": int,
    "limits.max_seconds": float,
    "journal.keep_days": int,
}
KEYS = ("store", "operators", "models", "limits", "journal", "journal.path", *_NUMBERS)
TABLES = ("models", "limits", "journal")
ROLES = ("default", "small", "embed")  # the keys of [models] that semgraph itself reads
_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ALIKE = 0.84  # "defualt", "smal": a misspelling rather than the name of another role
_OPTIONS = {"embedder": "models.embed"}


@dataclass(frozen=True)
class Source:
    """Checked values of one place, by dotted key. Models are still text, paths are absolute."""

    origin: str
    values: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

    def origin_of(self, key: str) -> str:
        """Where a value came from, as precisely as is known."""
        return self.origins.get(key, self.origin)


def user_config(env: Mapping[str, str]) -> Path:
    """The user's own file: `config.toml` in `SEMGRAPH_HOME`, else where the system keeps configuration."""
    import platformdirs

    home = env.get("SEMGRAPH_HOME")
    return (Path(home).expanduser() if home else platformdirs.user_config_path("semgraph")) / "config.toml"


def from_options(overrides: Mapping[str, Any], cwd: Path, problems: list[Problem]) -> Source:
    """What was given on the command line or to `Session`; None means not given."""
    given = {_OPTIONS.get(key, key): value for key, value in overrides.items() if value is not None}
    return _checked(OPTION, given, cwd, problems, also=("llm",))


def from_environment(env: Mapping[str, str], cwd: Path, problems: list[Problem]) -> Source:
    """The variables that name a model, an embedder or a store. A misspelt one is an error, not silence."""
    for name in env:
        if name.startswith(_OURS) and name not in VARIABLES:
            near = did_you_mean(name.removeprefix(_OURS), [known.removeprefix(_OURS) for known in VARIABLES])
            if near:
                problems.append(Problem(f"environment: nothing reads {name}", hint=near.replace('"', f'"{_OURS}', 1)))
    given = {key: env[name] for name, key in _VARIABLES.items() if name in env}
    source = _checked("environment", given, cwd, problems, also=("llm",))
    return Source("environment", source.values, {key: f"environment {name}" for name, key in _VARIABLES.items()})


def from_file(path: Path, cwd: Path, problems: list[Problem], *, required: bool = False) -> Source:
    """A `semgraph.toml`; empty when there is none and none is required. Its relative paths start from its folder."""
    origin = f"./{path.relative_to(cwd)}" if path.is_relative_to(cwd) else str(path)
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            problems.append(Problem(f"{origin}: there is no such file", hint="Name an existing one, or none"))
        return Source(origin)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        said = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        said = f"byte {error.start} is not UTF-8" if isinstance(error, UnicodeDecodeError) else said
        problems.append(Problem(f"{origin}: cannot be read", there=said, hint="all keys: docs/settings.md"))
        return Source(origin)
    return _checked(origin, dict(_flat(tree)), path.parent, problems)


def _flat(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if key in TABLES and isinstance(value, dict):
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())
        else:
            yield key, value


def _checked(
    origin: str, given: Mapping[str, Any], base: Path, problems: list[Problem], also: tuple[str, ...] = ()
) -> Source:
    values: dict[str, Any] = {}
    for key, value in given.items():
        try:
            values[key] = _value(key, value, base, also)
        except _Wrong as wrong:
            problems.append(Problem(f"{origin}: {wrong.what}", there=wrong.there, hint=wrong.hint))
    return Source(origin, values)


class _Wrong(Exception):
    def __init__(self, what: str, there: str | None = None, hint: str | None = None) -> None:
        self.what, self.there, self.hint = what, there, hint
        super().__init__(what)


def _value(key: str, value: Any, base: Path, also: tuple[str, ...]) -> Any:
    if key in _NUMBERS:
        return _number(key, value, _NUMBERS[key])
    if key == "operators":
        folders = [value] if isinstance(value, str | Path) else value
        if not isinstance(folders, list | tuple) or not all(isinstance(f, str | Path) for f in folders):
            raise _Wrong("operators must be a list of folders", there=f"found {value!r}")
        return tuple(_path(f, base) for f in folders)
    if key == "journal.path":
        return _path(_text(key, value), base)
    if key == "store":
        return _store(_text(key, value), base)
    if key.startswith("models.") and _ROLE.match(key.removeprefix("models.")):
        _check_role(key.removeprefix("models."))
        return _text(key, value)
    if key in also:
        return _text(key, value)
    known = [k for k in (*KEYS, *also, *(f"models.{role}" for role in ROLES)) if k not in TABLES]
    if key in TABLES:
        raise _Wrong(f"{key} is a table: write [{key}]", there=f"found {value!r}")
    raise _Wrong(f'nothing reads "{key}"', there=f"There are {', '.join(known)}", hint=did_you_mean(key, known))


def _check_role(role: str) -> None:
    """Refuse a role that is a misspelling of one that semgraph reads: no prompt would use its model."""
    if role in ROLES:
        return
    near = get_close_matches(role.lower(), ROLES, n=1, cutoff=_ALIKE)
    meant = near[0] if near else "embed" if role.lower().startswith("embed") else ""
    if meant:
        there = f"Roles of semgraph are {', '.join(ROLES)}; your own must not look like one of them"
        raise _Wrong(f'"models.{role}" binds no known role', there=there, hint=f'did you mean "models.{meant}"?')


def _text(key: str, value: Any) -> str:
    if isinstance(value, str | Path) and str(value).strip():
        return str(value).strip()
    raise _Wrong(f"{key} must be text", there=f"found {value!r}")


def _path(value: str | Path, base: Path) -> Path:
    return base / Path(value).expanduser()


def _store(text: str, base: Path) -> str:
    """`sqlite:PATH` with its path made absolute, so that it does not change its meaning with the directory."""
    scheme, colon, path = text.partition(":")
    return f"sqlite:{_path(path, base)}" if scheme == "sqlite" and colon and path else text


def _number(key: str, value: Any, type_: type) -> float | int:
    least = 0 if key == "journal.keep_days" else None
    try:
        number = type_(value)
        exact = not isinstance(value, bool) and float(value) == number and math.isfinite(number)
    except (TypeError, ValueError, OverflowError):
        exact = False
    if not exact or (number < 0 if least == 0 else number <= 0):
        what = "a whole number" if type_ is int else "a number"
        raise _Wrong(f"{key} must be {what} {'of at least 0' if least == 0 else 'above 0'}", there=f"found {value!r}")
    return type_(number)  # type: ignore[no-any-return]
