"""A template for an implementation, which passes the checks unchanged."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.logical.cluster import Cluster
from semgraph.logical.schema import NAME
from semgraph.semantic.library import FOLDERS
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
        # Rows that share a call; ctx numbers them and checks the answers.
        return await ctx.ask_packed(node, rows, rows.blocks(node, left=self.rows))"""
_PARTS = """
        # Rows that are combined; a part may also hold outcomes of earlier parts.
        parts = [Part(group, items) for group, items in enumerate(rows.groups())]
        return answer_table(node, await ctx.ask_groups(node, rows, parts))"""

_FILE = '''"""{title}: one line that describes it, for `semgraph operators list`."""

{imports}


@dataclass(frozen=True)
class {name}(Implementation[{node}]):
    same = True  # False: answers may differ from the reference's{field}

    def estimate(
        self, node: {node}, rows: RowEstimate, seen: Observed | None
    ) -> Cost:
        return Cost(calls={calls})  # rounds=: sequential rounds

    async def answer(self, node: {node}, rows: Rows, ctx: Context) -> pa.Table:{body}
'''
_CLUSTER = '''"""{title}: one line that describes it, for `semgraph operators list`."""

from semgraph.operator import Edges


def cluster(keys: list, edges: Edges, vectors: None, seed: int, least: float = 0.0) -> list[int]:
    # A number for each key, equal in a cluster; further arguments are parameters: {call}(least=2)
    label = list(range(len(keys)))  # an edge (a, b, weight) names two places in keys, a < b
    for a, b, weight in edges:
        if weight > least:
            label = [label[a] if own == label[b] else own for own in label]
    return label
'''
_FIELD = "\n    rows: int = 12  # fields are its parameters: {call}(rows=20)"
_WIDTH = 82


def skeleton(operator: str, name: str, folder: Path) -> Path:
    """Write `<folder>/<operator>/<name>.py`; returns the file.

    Raises:
        PlanError: The operator is unknown, the name is invalid or that of a shipped implementation,
            or the file exists.
    """
    if operator not in FOLDERS:
        hint = did_you_mean(operator, FOLDERS)
        raise PlanError(
            Problem(
                f'unknown operator "{operator}"',
                there=f"operators: {', '.join(FOLDERS)}",
                hint=hint,
            )
        )
    if not NAME.match(name) or name.startswith("_") or name != name.lower():
        hint = "use lowercase letters, digits and _, beginning with a letter"
        raise PlanError(Problem(f'invalid name of an implementation: "{name}"', hint=hint))
    if (operators_folder() / operator / f"{name}.py").exists():
        hint = "use a different name: --use and plans could not distinguish the two"
        raise PlanError(Problem(f'"{name}" is a shipped implementation of {operator}', hint=hint))
    file = folder / operator / f"{name}.py"
    if file.exists():
        raise PlanError(
            Problem(f"{file} exists already", hint="use a different name; nothing was written")
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_text(operator, name), encoding="utf-8")
    return file


def _text(operator: str, name: str) -> str:
    if operator == Cluster.keyword:
        return _CLUSTER.format(title=_title(name), call=name)
    whole = operator == "sem_agg"
    imports = sorted(
        [*_IMPORTS, _CLASSES[operator], *(["Part", "answer_table"] if whole else [])], key=_by_case
    )
    return _FILE.format(
        title=_title(name),
        imports=_listed(imports),
        name="".join(part.capitalize() for part in re.split(r"_+", name)),
        node=_CLASSES[operator],
        field="" if whole else _FIELD.format(call=name),
        calls="rows.groups" if whole else "-(-rows.left // self.rows)",
        body=_PARTS if whole else _BLOCKS,
    )


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _listed(names: list[str]) -> str:
    """The lines that import these names."""
    begin = "from semgraph.operator import "
    rows = textwrap.wrap(", ".join(names), _WIDTH - len(begin))
    return "\n".join(f"{begin}{row.removesuffix(',')}" for row in rows)


def _by_case(name: str) -> tuple[bool, str]:
    return name[0].islower(), name
