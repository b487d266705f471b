"""A plan as a chart of its steps, for Mermaid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from semgraph.explain.tree import of_sink, steps_of
from semgraph.physical.plan import PhysicalPlan

Kind = Literal["input", "semantic", "store", "step", "write"]
_MERMAID: Mapping[Kind, tuple[str, str]] = {
    "input": ("[/", "/]"), "semantic": ("([", "])"), "store": ("[(", ")]"), "step": ("[", "]"), "write": ("[(", ")]"),
}  # fmt: skip


@dataclass(frozen=True)
class _Box:
    """A node of a chart: its id, the names of the called plans around it, and its text."""

    id: str
    kind: Kind
    name: str
    groups: tuple[str, ...] = ()
    how: Sequence[str] = ()


@dataclass
class _Chart:
    """Nodes, and edges as pairs of their ids."""

    boxes: list[_Box] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)
    writes: list[tuple[str, str]] = field(default_factory=list)


def _chart(plan: PhysicalPlan) -> _Chart:
    """The steps, the inputs among them, and the writes; without inputs and empty steps that nothing
    reads.
    """
    steps, chart = {step["step"]: step for step in steps_of(plan)}, _Chart()
    sources = [of_sink(sink) for sink in plan.logical.writes]
    read = {name for step in steps.values() for name in step["reads"]} | set(sources)
    steps = {n: s for n, s in steps.items() if n in read or s["operators"]}
    ids = {name: f"s{i}" for i, name in enumerate(steps)}
    for name, step in steps.items():
        kind: Kind = "semantic" if step["semantic"] else "store" if step["store"] else "step"
        kind = "input" if name in plan.logical.inputs else kind
        how = [f"{each['operator']} {each['how']}" for each in step["semantic"]]
        chart.boxes.append(_Box(ids[name], kind, name, tuple(name.split("/")[:-1]), how))
        chart.edges += [(ids[source], ids[name]) for source in step["reads"] if source in ids]
    for i, (sink, source) in enumerate(zip(plan.logical.writes, sources, strict=True)):
        chart.boxes.append(_Box(f"w{i}", "write", f"{sink.keyword} {sink.label.name}"))
        if source in ids:
            chart.writes.append((ids[source], f"w{i}"))
    return chart


def mermaid(plan: PhysicalPlan) -> str:
    """The steps as a Mermaid flow chart; semantic steps have rounded ends, store reads and writes are
    cylinders.
    """
    chart = _chart(plan)
    lines = ["flowchart TD"]
    for box in chart.boxes:
        left, right = _MERMAID[box.kind]
        lines.append(f'  {box.id}{left}"{box.name}"{right}')
    lines += [f"  {source} --> {target}" for source, target in chart.edges]
    lines += [f"  {source} ==> {target}" for source, target in chart.writes]
    return "\n".join(lines)
