"""A first file for an implementation, which passes the checks as it is written."""

from __future__ import annotations

import re
from pathlib import Path

from semgraph.checking.cases import OPERATORS
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
_IMPORTS = ["Context", "Cost", "Implementation", "Observed", "RowEstimate", "Rows", "dataclass", "pa"]

_BLOCKS = '''
        """Which rows share a call; ctx asks, checks and asks again. Every item must be in one block."""
        return await ctx.ask_packed(node, rows, rows.blocks(node, left=self.rows))'''
_PARTS = '''
        """Which rows are combined in a call; a part may also hold the outcomes of earlier ones."""
        parts = [Part(group, items) for group, items in enumerate(rows.groups())]
        return answer_table(node, await ctx.ask_groups(node, rows, parts))'''

_FILE = '''"""{said}."""

from __future__ import annotations

from semgraph.operator import {imports}


@dataclass(frozen=True)
class {name}(Implementation[{node}]):
    """The fields are its parameters: {call}.

    rows.left holds the columns that the prompts read, rows.items the numbers of what is asked about; see
    semgraph.operator for all there is.
    """

    same = {same}  # {same_said}
{field}
    def estimate(self, node: {node}, rows: RowEstimate, seen: Observed | None) -> Cost:
        """What it costs: calls, and rounds that wait for each other."""
        return Cost.of_items({calls}, rows.items, seen)

    async def answer(self, node: {node}, rows: Rows, ctx: Context) -> pa.Table:{body}
'''
_FIELD = """    rows: int = 12

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError("rows must be at least 1")
"""


def skeleton(operator: str, name: str, folder: Path) -> Path:
    """Write `<folder>/<operator>/<name>.py`; returns the file.

    Raises:
        PlanError: No such operator, a name that is none or that a way of semgraph's own has, or a file that is there already.
    """
    if operator not in OPERATORS:
        hint = did_you_mean(operator, OPERATORS)
        raise PlanError(Problem(f'"{operator}" is no operator', there=f"there are {', '.join(OPERATORS)}", hint=hint))
    if not NAME.match(name) or name.startswith("_") or name != name.lower():
        hint = "small letters, digits and _, starting with a letter: it is how plans name it"
        raise PlanError(Problem(f'"{name}" is no name for an implementation', hint=hint))
    if (operators_folder() / operator / f"{name}.py").exists():
        hint = "take another name; --use and plans could not tell the two apart"
        raise PlanError(Problem(f'"{name}" is a way of doing a {operator} that semgraph has already', hint=hint))
    file = folder / operator / f"{name}.py"
    if file.exists():
        raise PlanError(Problem(f"{file} is there already", hint="take another name; nothing was written"))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_text(operator, name), encoding="utf-8")
    return file


def _text(operator: str, name: str) -> str:
    whole = operator == "sem_agg"
    imports = sorted([*_IMPORTS, _CLASSES[operator], *(["Part", "answer_table"] if whole else [])], key=_by_case)
    return _FILE.format(
        said=f"{name.replace('_', ' ').capitalize()}: say in one line what it does; `semgraph operators list` shows it",
        imports="(\n    " + ",\n    ".join(imports) + ",\n)",
        name="".join(part.capitalize() for part in re.split(r"_+", name)),
        node=_CLASSES[operator],
        call=f"{name}()" if whole else f"{name}(rows=20)",
        same="True",
        same_said="it answers as the reference does, if the model is consistent; else write False",
        field="" if whole else _FIELD,
        calls="rows.groups" if whole else "-(-rows.left // self.rows)",
        body=_PARTS if whole else _BLOCKS,
    )


def _by_case(name: str) -> tuple[bool, str]:
    return name[0].islower(), name
