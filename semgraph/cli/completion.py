"""Shell completion: names of plans, of a plan's declarations, of runs, of operators and of models.
An unknown kind of value completes to nothing, and the shell proposes files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from semgraph.folders import operators_folder, plan_names
from semgraph.privacy import LAST, RUNS
from semgraph.stores.registry import FORMS

_VARIABLE = re.compile(r"[A-Z].*")  # a placeholder in the form of an address


Completer = Callable[[typer.Context, str], list[str]]


def _of(names: Callable[[typer.Context], Iterable[str]]) -> Completer:
    """The completion to some names."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        return [name for name in names(ctx) if name.startswith(incomplete)]

    return complete


def _plans(_ctx: typer.Context) -> list[str]:
    """The plans that commands find by name, and the YAML files of the working directory."""
    return [*plan_names(), *map(str, sorted(Path().glob("*.yaml")))]


def _runs(_ctx: typer.Context) -> list[str]:
    """The runs with records, latest last."""
    names = sorted(path.parent.name for path in RUNS.glob("*/run.json"))
    return [*names, LAST] if names else []


def _operators(_ctx: typer.Context) -> list[str]:
    """The operators with implementations."""
    return [path.name for path in sorted(operators_folder().iterdir()) if any(path.glob("*.py"))]


def _models(_ctx: typer.Context) -> list[str]:
    """The forms of model names."""
    from semgraph.llm.providers import PROVIDERS, options_of

    return [name + ":" * PROVIDERS[name].names_required for name in options_of("model")]


def _local_models(_ctx: typer.Context) -> list[str]:
    """The downloadable models."""
    from semgraph.llm.catalogue import CATALOGUE

    return [model.name for model in CATALOGUE]


def _declared(key: str, end: str = "") -> Completer:
    """The names below a key of the plan on the command line, each followed by `end`; none if the plan
    cannot be read. Steps are those of the plan itself, without those of called plans.
    """
    return _of(lambda ctx: [f"{name}{end}" for name in _names_below(ctx, key)])


def uses(ctx: typer.Context, incomplete: str) -> list[str]:
    """The steps of the plan itself, each followed by `=`; after it, the shipped implementations."""
    step, equals, begun = incomplete.partition("=")
    if not equals:
        return _declared("steps", "=")(ctx, step)
    return [f"{step}={name}" for name in implementations(begun)]


def implementations(incomplete: str) -> list[str]:
    """The shipped implementations, also after a comma: `nested_loop,bl` completes to
    `nested_loop,block`.
    """
    before, comma, begun = incomplete.rpartition(",")
    names = sorted({file.stem for file in operators_folder().glob("*/[!_]*.py")})
    return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]


def _names_below(ctx: typer.Context, key: str) -> Iterator[str]:
    from semgraph.errors import PlanError
    from semgraph.frontend.document import find_plan, read_file

    # an option without its value ends the parsing before arguments get their names
    plan: Any = ctx.params.get("plan") or next(iter(ctx.args), None)
    with suppress(PlanError):
        data = read_file(find_plan(plan)[0]).data if plan else None
        names = data.get(key) if isinstance(data, dict) else None
        yield from names if isinstance(names, dict) else ()


presets, inputs, local_models = _declared("presets"), _declared("inputs", "="), _of(_local_models)
BY_VALUE: dict[str, Callable[..., list[str]]] = {  # by the word for an argument or a value
    "PLAN": _of(_plans),
    **dict.fromkeys(("RUN", "RUN|COMPARISON", "RUN|WHAT"), _of(_runs)),
    "PARAM=VALUE": _declared("params", "="),
    "STEP": _declared("steps"),
    "STEP=IMPLEMENTATION": uses,
    "A,B,…": implementations,
    "OPERATOR": _of(_operators),
    "MODEL": _of(_models),
    "STORE": _of(lambda _ctx: (_VARIABLE.sub("", form) for form in FORMS)),
}
