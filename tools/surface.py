"""List the public surface of semgraph, one name per line, so that `diff` can compare two versions.

    python -m tools.surface > before.txt

The list has the Python API with its signatures, the commands with their options, the operators
with their implementations and parameters, the shipped plans with inputs, parameters and presets,
and all settings.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, get_args

import typer.main

from semgraph.cli import app
from semgraph.llm.base import Kind
from semgraph.llm.providers import options_of
from semgraph.llm.settings import KEYS, VARIABLES

MODULES = ("semgraph", "semgraph.operator", "semgraph.conformance", "semgraph.pandas")


def surface() -> Iterator[str]:
    """Every public name, unordered."""
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            yield from _python(f"{module}.{name}", getattr(importlib.import_module(module), name))
    yield from _commands("semgraph", typer.main.get_command(app))
    yield from _operators()
    yield from _functions()
    yield from _plans()
    yield from _settings()


def _python(name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"python {name}{_signature(value)}"
        return
    yield f"python {name}({', '.join(base.__name__ for base in value.__mro__[1:-1])})"
    if not value.__module__.startswith("semgraph"):
        return
    members = (
        {field.name for field in dataclasses.fields(value)}
        if dataclasses.is_dataclass(value)
        else set()
    )
    members |= {member for member in dir(value) if not member.startswith("_")}
    for member in sorted(members):
        yield f"python {name}.{member}{_signature(inspect.getattr_static(value, member, None))}"


def _signature(value: Any) -> str:
    value = getattr(value, "__func__", value)
    if not inspect.isfunction(value):
        return ""
    parameters = inspect.signature(value).parameters.values()
    listed = ", ".join(
        str(parameter.replace(annotation=inspect.Parameter.empty)) for parameter in parameters
    )
    return "(" + re.sub(r" at 0x[0-9a-f]+", "", listed) + ")"


def _commands(name: str, command: Any) -> Iterator[str]:
    yield f"command {name}"
    for parameter in command.params:
        spelling = " ".join((*parameter.opts, *parameter.secondary_opts))
        yield f"{parameter.param_type_name} {name} {spelling} nargs={parameter.nargs} multiple={parameter.multiple}"
    for child, inner in getattr(command, "commands", {}).items():
        yield from _commands(f"{name} {child}", inner)


def _operators() -> Iterator[str]:
    for operator, implementations in _printed("operators", "list").items():
        for implementation in implementations:
            yield f"implementation {operator} {json.dumps(implementation, sort_keys=True)}"


def _functions() -> Iterator[str]:
    for function in _printed("functions", "list"):
        yield f"function {json.dumps(function, sort_keys=True)}"


def _plans() -> Iterator[str]:
    for plan in _printed("plans", "list"):
        yield f"plan {json.dumps(plan, sort_keys=True)}"


def _printed(*arguments: str) -> Any:
    command = [sys.executable, "-m", "semgraph", "--format", "json", *arguments]
    printed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return _without_texts(printed)


def _without_texts(value: Any) -> Any:
    """Remove descriptions and file paths, which are no names."""
    if isinstance(value, dict):
        return {
            key: _without_texts(inner) for key, inner in value.items() if key not in ("doc", "file")
        }
    return [_without_texts(inner) for inner in value] if isinstance(value, list) else value


def _settings() -> Iterator[str]:
    yield from (f"setting {key}" for key in KEYS)
    yield from (f"variable {name}" for name in VARIABLES)
    for kind in get_args(Kind):
        for provider, options in options_of(kind).items():
            yield f"{kind} {provider}"
            for option, read in options.items():
                yield f"{kind} {provider} {option}: {getattr(read, 'func', read).__qualname__}"


if __name__ == "__main__":
    print("\n".join(sorted(set(surface()))))
