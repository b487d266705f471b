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


def plans(incomplete: str) -> list[str]:
    """The plans that commands find by name, and the YAML files of the working directory."""
    return _beginning(incomplete, [*plan_names(), *map(str, sorted(Path().glob("*.yaml")))])


def runs(incomplete: str) -> list[str]:
    """The runs with records, latest last."""
    names = sorted(path.parent.name for path in RUNS.glob("*/run.json"))
    return _beginning(incomplete, [*names, LAST] if names else [])


def presets(ctx: typer.Context, incomplete: str) -> list[str]:
    """The presets of the plan."""
    return _beginning(incomplete, _declared(ctx, "presets"))


def params(ctx: typer.Context, incomplete: str) -> list[str]:
    """The parameters of the plan, each followed by `=`."""
    return _beginning(incomplete, (f"{name}=" for name in _declared(ctx, "params")))


def inputs(ctx: typer.Context, incomplete: str) -> list[str]:
    """The inputs of the plan, each followed by `=`."""
    return _beginning(incomplete, (f"{name}=" for name in _declared(ctx, "inputs")))


def steps(ctx: typer.Context, incomplete: str) -> list[str]:
    """The steps of the plan itself, without those of called plans."""
    return _beginning(incomplete, _declared(ctx, "steps"))


def uses(ctx: typer.Context, incomplete: str) -> list[str]:
    """The steps of the plan itself, each followed by `=`; after it, the shipped implementations."""
    step, equals, begun = incomplete.partition("=")
    if not equals:
        return _beginning(step, (f"{name}=" for name in _declared(ctx, "steps")))
    return [f"{step}={name}" for name in implementations(begun)]


def implementations(incomplete: str) -> list[str]:
    """The shipped implementations, also after a comma: `nested_loop,bl` completes to
    `nested_loop,block`.
    """
    before, comma, begun = incomplete.rpartition(",")
    names = {file.stem for file in operators_folder().glob("*/[!_]*.py")}
    return [f"{before}{comma}{name}" for name in _beginning(begun, sorted(names))]


def operators(incomplete: str) -> list[str]:
    """The operators with implementations."""
    folders = (path.name for path in sorted(operators_folder().iterdir()) if any(path.glob("*.py")))
    return _beginning(incomplete, folders)


def models(incomplete: str) -> list[str]:
    """The forms of model names."""
    from semgraph.llm.providers import PROVIDERS, options_of

    names = (name + ":" * PROVIDERS[name].names_required for name in options_of("model"))
    return _beginning(incomplete, names)


def stores(incomplete: str) -> list[str]:
    """The forms of store addresses."""
    return _beginning(incomplete, (_VARIABLE.sub("", form) for form in FORMS))


def local_models(incomplete: str) -> list[str]:
    """The downloadable models."""
    from semgraph.llm.catalogue import CATALOGUE

    return _beginning(incomplete, (model.name for model in CATALOGUE))


BY_VALUE: dict[str, Callable[..., list[str]]] = {  # by the word for an argument or a value
    "PLAN": plans,
    "RUN": runs,
    "RUN|COMPARISON": runs,
    "RUN|WHAT": runs,
    "PARAM=VALUE": params,
    "STEP": steps,
    "STEP=IMPLEMENTATION": uses,
    "A,B,…": implementations,
    "OPERATOR": operators,
    "MODEL": models,
    "STORE": stores,
}


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _declared(ctx: typer.Context, key: str) -> Iterator[str]:
    """The names below a key of the plan on the command line; none if it cannot be read."""
    from semgraph.errors import PlanError
    from semgraph.frontend.document import find_plan, read_file

    # an option without its value ends the parsing before arguments get their names
    plan: Any = ctx.params.get("plan") or next(iter(ctx.args), None)
    with suppress(PlanError):
        data = read_file(find_plan(plan)[0]).data if plan else None
        names = data.get(key) if isinstance(data, dict) else None
        yield from names if isinstance(names, dict) else ()
