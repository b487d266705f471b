"""The variants of a comparison as they are written: what each changes of one request."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from semgraph.compare.trial import checked
from semgraph.display import command, option
from semgraph.errors import PlanError, Problem, did_you_mean, nearly
from semgraph.expr.functions import canonical_json
from semgraph.frontend.document import Document, read_file
from semgraph.logical.plan import is_portable_model

# implementations of one step; by name an implementation, or the changes of a variant; a file of these
Variants = Sequence[str] | Mapping[str, str] | Mapping[str, Mapping[str, Any]] | Path
Grid = Mapping[str, Sequence[Any]]

ONE = ("preset", "plan", "llm", "embedder")
TABLES = ("params", "models", "prompts", "rules", "use")
KEYS = f"{', '.join(ONE)}, {', '.join(f'{table}.NAME' for table in TABLES[:-1])}, or a step"


@dataclass(frozen=True)
class Variant:
    """What a variant changes of the request of a comparison.

    Args:
        name: Its name.
        changes: The values by table and name. The table is `params`, `models`, `prompts`, `rules`,
            `use` (of steps, with their implementation or plan), or "" for `preset`, `plan`, `llm` and
            `embedder`.
    """

    name: str
    changes: Mapping[tuple[str, str], Any] = field(default_factory=dict)

    def of(self, table: str = "") -> dict[str, Any]:
        """The changes of a table, by name."""
        return {name: value for (own, name), value in self.changes.items() if own == table}

    @property
    def texts(self) -> dict[str, str]:
        """The changes as text, by key."""
        return {
            f"{table}.{name}" if table not in ("", "use") else name: _shown(value)
            for (table, name), value in self.changes.items()
        }


def read_variants(
    variants: Variants | None, step: str | None, grid: Grid | None = None
) -> dict[str, Variant]:
    """The variants by name. Raises PlanError with all problems.

    >>> [each.texts for each in read_variants(["per_row"], "told").values()]
    [{'told': 'per_row'}]
    >>> list(read_variants(None, None, {"models.default": ["a", "b"], "told": ["block()"]}))
    ['a, block()', 'b, block()']
    """
    if isinstance(variants, str):
        what, hint = f'variants is the text "{variants}"', f'write a list: variants=["{variants}"]'
        raise PlanError(what, hint=hint)
    if variants and grid:
        what = "a grid makes the variants itself"
        raise PlanError(what, hint="give variants or grid")
    if isinstance(variants, Path):
        return _of_file(read_file(variants, "file of variants"), variants.parent)
    written = _of_grid(grid) if grid else variants or {}
    by_name = written if isinstance(written, Mapping) else _named(list(written))
    if not by_name:
        typed = "--step STEP --implementations A,B; or whole plans: --variant NAME:KEY=VALUE …"
        hint = command(typed, 'name variants: variants=["per_row", "packed(rows=10)"]')
        raise PlanError("there is nothing to compare", hint=hint)
    return checked({name: partial(_variant, name, own, step) for name, own in by_name.items()})


def _named(variants: list[str]) -> dict[str, str]:
    twice = next((variant for i, variant in enumerate(variants) if variant in variants[:i]), None)
    if twice is not None:
        hint = f'to compare a variant with itself, name both: variants={{"a": "{twice}", "b": "{twice}"}}'
        raise PlanError(f'duplicate variant "{twice}"', hint=hint)
    return {variant: variant for variant in variants}


def _of_grid(grid: Grid) -> dict[str, dict[str, Any]]:
    """The product of the values of each key; a variant is named by its values."""
    for key, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            hint = f'write a list: grid={{"{key}": [...]}}'
            raise PlanError(f"the grid has no list of values for {key}", hint=hint)
    each = product(*grid.values())
    return {", ".join(map(_shown, own)): dict(zip(grid, own, strict=True)) for own in each}


def _shown(value: Any) -> str:
    if isinstance(value, Path) and value.is_relative_to(Path.cwd()):
        value = value.relative_to(Path.cwd())
    if isinstance(value, str | Path):
        return str(value)
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else canonical_json(value)


def _variant(name: str, value: Any, step: str | None) -> Variant:
    """A variant as written. Raises PlanError."""
    if isinstance(value, str):
        if step is None:
            what, hint = (
                "these variants do not name their step",
                f"name it: {option('step', '...')}",
            )
            raise PlanError(what, hint=f"{hint}; or compare whole plans, by KEY=VALUE")
        return Variant(name, {("use", step): value})
    if not isinstance(value, Mapping):
        hint = f'write {{"{name}": {{KEY: VALUE}}}}; keys are {KEYS}'
        raise PlanError(f"variant {name} is {value!r}", hint=hint)
    flat: dict[str, Any] = {}
    for key, part in value.items():
        is_table = isinstance(part, Mapping) and key in TABLES
        flat |= {f"{key}.{own}": v for own, v in part.items()} if is_table else {str(key): part}
    return Variant(name, {_place(name, key, part): part for key, part in flat.items()})


def _place(name: str, key: str, value: Any) -> tuple[str, str]:
    """The table and the name of a key. Raises PlanError."""
    table, dot, rest = key.partition(".")
    near = next((each for each in ONE if nearly(key, each)), None)
    if key in ONE:
        return "", key
    if dot and table in TABLES and (table != "rules" or value in ("on", "off", True, False)):
        return table, rest
    if not (dot or table in TABLES or near):
        return "use", key
    if table in TABLES:
        write = "write on or off" if dot else f"write {key}.NAME, or a mapping"
        raise PlanError(f"variant {name}: {key} is {value!r}", hint=write)
    step = f'did you mean "{near}"? A step of this name is "use.{key}"'
    hint = did_you_mean(table, TABLES) if dot else step
    what, there = f'variant {name}: unknown key "{key}"', f"keys: {KEYS}"
    raise PlanError(what, there=there, hint=hint)


_COMMA = re.compile(r",(?![^()]*\)|[^\[\]]*\]|[^{}]*\})")  # outside of brackets


def listed(text: str) -> list[str]:
    """The parts of a text between commas that are outside of brackets."""
    return [part.strip() for part in _COMMA.split(text) if part.strip()]


def _of_file(document: Document, folder: Path) -> dict[str, Variant]:
    """The variants of a YAML file, by name: `{NAME: {KEY: VALUE}}`. Files of prompts are relative to
    it. Raises PlanError.

    A model in a file is a role or PROVIDER:NAME: files that are passed on must not say where requests
    go.
    """
    data, problems, result = document.data, list[Problem](), dict[str, Variant]()
    if not isinstance(data, Mapping) or not all(isinstance(v, Mapping) for v in data.values()):
        hint = "write NAME: {KEY: VALUE} for each variant"
        raise PlanError("a mapping of variants", position=document.position(), hint=hint)
    for name, written in data.items():
        changes = dict(_variant(name, written, None).changes)
        for (table, key), value in changes.items():
            if table == "prompts":
                changes[table, key] = folder / str(value)
            names_a_model = table == "models" or (key in ("llm", "embedder") and not table)
            if names_a_model and not (isinstance(value, str) and is_portable_model(value)):
                what = f"{name}: a file names a model by its role or as PROVIDER:NAME"
                hint = (
                    "bind a role to that model, under [models] in semgraph.toml, and write the role"
                )
                what += f', not "{value}"'
                problems.append(Problem(what, position=document.position(name), hint=hint))
        result[name] = Variant(name, changes)
    if problems:
        raise PlanError(*problems)
    return result
