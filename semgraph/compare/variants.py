"""The variants of a comparison as they are written: what each changes of one request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from semgraph.errors import PlanError, Problem, did_you_mean, nearly
from semgraph.expr.functions import canonical_json
from semgraph.frontend.document import read_file
from semgraph.logical.plan import is_portable_model

# as written: implementations of one step; or by name an implementation, or the changes of a variant
Variants = Sequence[str] | Mapping[str, str] | Mapping[str, Mapping[str, Any]]
Grid = Mapping[str, Sequence[Any]]

ONE = ("preset", "plan", "llm", "embedder")
TABLES = ("params", "models", "prompts", "rules", "use")
KEYS = f"{', '.join(ONE)}, {', '.join(f'{table}.NAME' for table in TABLES[:-1])}, or a step"
_SWITCHES = {"on": True, "off": False, True: True, False: False}


@dataclass(frozen=True)
class Variant:
    """What a variant changes of the request of a comparison.

    Args:
        name: Its name.
        changes: The changes as written, by key: `preset`, `plan`, `llm`, `embedder`, `params.NAME`,
            `models.ROLE`, `prompts.NAME`, `rules.NAME`, or a step with its implementation or plan. A
            step that is named like one of the keys is `use.STEP`.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    def one(self, key: str) -> Any:
        """The change of `preset`, `plan`, `llm` or `embedder`, or None."""
        return self.changes.get(key)

    def table(self, name: str) -> dict[str, Any]:
        """The changes of `params`, `models`, `prompts`, `rules`, or with `use` of steps, by name."""
        own = {
            key.partition(".")[2]: value
            for key, value in self.changes.items()
            if key.startswith(f"{name}.")
        }
        steps = name == "use"
        return own | {k: v for k, v in self.changes.items() if steps and not _is_reserved(k)}

    @property
    def rules(self) -> dict[str, bool]:
        """The rules of the optimizer that are switched, by name. Raises PlanError."""
        for name, value in self.table("rules").items():
            if not isinstance(value, str | bool) or value not in _SWITCHES:
                what = f"{self.name}: rules.{name} is {value!r}"
                raise PlanError(Problem(what, hint="write on or off"))
        return {name: _SWITCHES[value] for name, value in self.table("rules").items()}


def _is_reserved(key: str) -> bool:
    return key in ONE or key.partition(".")[0] in TABLES


def read_variants(
    variants: Variants | None, step: str | None, grid: Grid | None = None
) -> dict[str, Variant]:
    """The variants by name. Raises PlanError with all problems.

    >>> [each.changes for each in read_variants(["per_row"], "told").values()]
    [{'told': 'per_row'}]
    >>> list(read_variants(None, None, {"models.default": ["a", "b"], "told": ["block()"]}))
    ['a, block()', 'b, block()']
    """
    if isinstance(variants, str):
        what, hint = f'variants is the text "{variants}"', f'write a list: variants=["{variants}"]'
        raise PlanError(Problem(what, hint=hint))
    if variants and grid:
        what = "a grid makes the variants itself"
        raise PlanError(Problem(what, hint="give variants or grid"))
    written = dict(_of_grid(grid)) if grid else variants or {}
    by_name = written if isinstance(written, Mapping) else _named(list(written))
    if not by_name:
        hint = 'name variants: variants=["per_row", "packed(rows=10)"]'
        raise PlanError(Problem("there is nothing to compare", hint=hint))
    problems: list[Problem] = []
    result: dict[str, Variant] = {}
    for name, value in by_name.items():
        try:
            result[name] = Variant(name, _changes(name, value, step))
        except PlanError as error:
            problems += [each for each in error.problems if each not in problems]
    if problems:
        raise PlanError(*problems)
    return result


def _named(variants: list[str]) -> dict[str, str]:
    twice = next((variant for i, variant in enumerate(variants) if variant in variants[:i]), None)
    if twice is not None:
        hint = f'to compare a variant with itself, name both: variants={{"a": "{twice}", "b": "{twice}"}}'
        raise PlanError(Problem(f'duplicate variant "{twice}"', hint=hint))
    return {variant: variant for variant in variants}


def _of_grid(grid: Grid) -> Iterator[tuple[str, dict[str, Any]]]:
    """The product of the values of each key; a variant is named by its values."""
    for key, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            hint = f'write a list: grid={{"{key}": [...]}}'
            raise PlanError(Problem(f"the grid has no list of values for {key}", hint=hint))
    for values in product(*grid.values()):
        yield ", ".join(map(shown, values)), dict(zip(grid, values, strict=True))


def shown(value: Any) -> str:
    """A value of a change as text."""
    if isinstance(value, str | Path):
        return str(value)
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else canonical_json(value)


def _changes(name: str, value: Any, step: str | None) -> dict[str, Any]:
    """The changes of one variant, with tables as dotted keys. Raises PlanError."""
    if isinstance(value, str):
        if step is None:
            hint = 'name it: step="..."; or compare whole plans: variants={"name": {"step": "implementation"}}'
            raise PlanError(Problem("these variants do not name their step", hint=hint))
        return {step: value}
    if not isinstance(value, Mapping):
        hint = f'write {{"{name}": {{KEY: VALUE}}}}; keys are {KEYS}'
        raise PlanError(Problem(f"variant {name} is {value!r}", hint=hint))
    changes: dict[str, Any] = {}
    for key, part in value.items():
        table = isinstance(part, Mapping) and key in TABLES
        inner = part.items() if table else ((None, part),)
        for own, each in inner:
            changes[_key(name, key if own is None else f"{key}.{own}", each)] = each
    return changes


def _key(name: str, key: str, value: Any) -> str:
    """A key of a change; `use.STEP` without the table, unless it is reserved. Raises PlanError."""
    table, dot, rest = key.partition(".")
    if key in TABLES:
        hint = f"write {key}.NAME, or a mapping"
        raise PlanError(Problem(f"variant {name}: {key} is {value!r}", hint=hint))
    if dot and table not in TABLES:
        what = f'variant {name}: unknown key "{key}"'
        raise PlanError(Problem(what, there=f"keys: {KEYS}", hint=did_you_mean(table, TABLES)))
    if not dot and key not in ONE and (near := [each for each in ONE if nearly(key, each)]):
        what = f'variant {name}: unknown key "{key}"'
        hint = f'did you mean "{near[0]}"? A step of this name is "use.{key}"'
        raise PlanError(Problem(what, there=f"keys: {KEYS}", hint=hint))
    return rest if table == "use" and not _is_reserved(rest) else key


_COMMA = re.compile(r",(?![^()]*\))")  # outside of parentheses


def listed(text: str) -> list[str]:
    """The parts of a text between commas that are outside of parentheses."""
    return [part.strip() for part in _COMMA.split(text) if part.strip()]


def read_file_of_variants(path: Path) -> dict[str, dict[str, Any]]:
    """The variants of a YAML file, by name: `{NAME: {KEY: VALUE}}`. Files of prompts are relative to
    it. Raises PlanError.

    A model in a file is a role or PROVIDER:NAME: files that are passed on must not say where requests
    go.
    """
    document = read_file(path)
    data, problems = document.data, list[Problem]()
    if not isinstance(data, Mapping) or not all(isinstance(v, Mapping) for v in data.values()):
        hint = "write NAME: {KEY: VALUE} for each variant"
        raise PlanError(Problem("a mapping of variants", position=document.position(), hint=hint))
    result: dict[str, dict[str, Any]] = {}
    for name, written in data.items():
        changes = result[name] = _changes(name, written, None)
        for key, value in changes.items():
            if key.startswith("prompts.") and isinstance(value, str):
                changes[key] = path.parent / value
            names_a_model = key in ("llm", "embedder") or key.startswith("models.")
            if names_a_model and not (isinstance(value, str) and is_portable_model(value)):
                what = (
                    f'{name}: a file names a model by its role or as PROVIDER:NAME, not "{value}"'
                )
                hint = (
                    "bind a role to that model, under [models] in semgraph.toml, and write the role"
                )
                problems.append(Problem(what, position=document.position(name), hint=hint))
    if problems:
        raise PlanError(*problems)
    return result
