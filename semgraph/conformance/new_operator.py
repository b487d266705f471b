"""A template for an implementation, which passes the checks unchanged."""

from __future__ import annotations

import re
from pathlib import Path

from semgraph.conformance.cases import OPERATORS
from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.logical.schema import NAME
from semgraph.shipped import operators_folder

_CLASSES = {
    "sem_map": "SemMap",
    "sem_filter": "SemFilter",
    "sem_join": "SemJoin",
    "sem_agg": "SemAgg",
    "sem_topk": "SemTopk",
}
_IMPORTS = [
    "Context",
    "Cost",
    "Implementation",
    "Observed",
    "RowEstimate",
    "Rows",
    "dataclass",
    "pa",
]

_BLOCKS = """
        # Which rows share a call, each in one; ctx numbers, asks, checks and asks again.
        return await ctx.ask_packed(node, rows, rows.blocks(node, left=self.rows))"""
_PARTS = """
        # Which rows are combined in a call; a part may hold outcomes of earlier parts too.
        parts = [Part(group, items) for group, items in enumerate(rows.groups())]
        return answer_table(node, await ctx.ask_groups(node, rows, parts))"""

_FILE = '''"""{said}: one line that says what it does, for `semgraph operators list`."""

from semgraph.operator import {imports}


@dataclass(frozen=True)
class {name}(Implementation[{node}]):
    same = True  # the reference's answers, if the model is consistent; else False{field}

    def estimate(self, node: {node}, rows: RowEstimate, seen: Observed | None) -> Cost:
        return Cost(calls={calls})  # rounds=: how many wait for each other

    async def answer(self, node: {node}, rows: Rows, ctx: Context) -> pa.Table:{body}
'''
_FIELD = "\n    rows: int = 12  # fields are its parameters: {call}(rows=20)"
_WIDTH = 120


def skeleton(operator: str, name: str, folder: Path) -> Path:
    """Write `<folder>/<operator>/<name>.py`; returns the file.

    Raises:
        PlanError: The operator is unknown, the name is invalid or that of a shipped implementation,
            or the file exists.
    """
    if operator not in OPERATORS:
        hint = did_you_mean(operator, OPERATORS)
        raise PlanError(
            Problem(
                f'"{operator}" is no operator', there=f"there are {', '.join(OPERATORS)}", hint=hint
            )
        )
    if not NAME.match(name) or name.startswith("_") or name != name.lower():
        hint = "small letters, digits and _, starting with a letter: it is how plans name it"
        raise PlanError(Problem(f'"{name}" is no name for an implementation', hint=hint))
    if (operators_folder() / operator / f"{name}.py").exists():
        hint = "take another name; --use and plans could not tell the two apart"
        raise PlanError(
            Problem(
                f'"{name}" is an implementation of {operator} that semgraph has already', hint=hint
            )
        )
    file = folder / operator / f"{name}.py"
    if file.exists():
        raise PlanError(
            Problem(f"{file} is there already", hint="take another name; nothing was written")
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_text(operator, name), encoding="utf-8")
    return file


def _text(operator: str, name: str) -> str:
    whole = operator == "sem_agg"
    imports = sorted(
        [*_IMPORTS, _CLASSES[operator], *(["Part", "answer_table"] if whole else [])], key=_by_case
    )
    return _FILE.format(
        said=name.replace("_", " ").capitalize(),
        imports=_listed(imports),
        name="".join(part.capitalize() for part in re.split(r"_+", name)),
        node=_CLASSES[operator],
        field="" if whole else _FIELD.format(call=name),
        calls="rows.groups" if whole else "-(-rows.left // self.rows)",
        body=_PARTS if whole else _BLOCKS,
    )


def _listed(names: list[str]) -> str:
    """The names of an import, in parentheses if they do not fit the line."""
    line = ", ".join(names)
    return line if len(f"from semgraph.operator import {line}") <= _WIDTH else f"(\n    {line}\n)"


def _by_case(name: str) -> tuple[bool, str]:
    return name[0].islower(), name
