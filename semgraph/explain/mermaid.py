"""What a plan will do: its steps as a Mermaid chart or plain data, with the way of each semantic
step, the store queries, what may run ahead, and what it is estimated to take. Beside it, of a run
that is over, what each step did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from semgraph.explain.estimates import Forecast
from semgraph.logical.graph import Match, Scan
from semgraph.logical.node import Node, walk
from semgraph.logical.relational import Input
from semgraph.logical.search import Search
from semgraph.logical.semantic import Embed, Semantic
from semgraph.logical.sinks import Sink
from semgraph.physical.plan import PhysicalPlan, SqlSegment, StoreSearch
from semgraph.physical.retrieval import SearchSpec

Actual = Mapping[str, Mapping[str, Any]]


def steps_of(plan: PhysicalPlan) -> list[dict[str, Any]]:
    """The named steps in the order of computation, as plain data: what each does, how, and what it
    reads.
    """
    last = {id(node): step for step, node in plan.named().items()}
    found = []
    for step, node in plan.named().items():
        own = [n for n in walk(node) if n.step == step]
        found.append(
            {
                "step": step,
                "operators": [n.keyword for n in own if not isinstance(n, Input)],
                "semantic": [_semantic(plan, n) for n in own if isinstance(n, Semantic)],
                "store": [_reading(plan, n) for n in own if isinstance(n, (Search, Match, Scan))],
                "embeds": [
                    f"{scalar} as {name}"
                    for n in own
                    if isinstance(n, Embed)
                    for name, scalar in n.add
                ],
                "part": "ordered" if any(n in plan.ordered for n in own) else "ahead",
                "reads": sorted({name for n in own for name in _sources(n, last, own)} - {step}),
            }
        )
    return found


def _sources(node: Node, last: Mapping[int, str], own: list[Node]) -> Iterable[str]:
    mine = {id(n) for n in own}
    for child in node.inputs:
        if id(child) in mine:
            continue
        if isinstance(child, Input):
            yield child.name
        elif id(child) in last:
            yield last[id(child)]
        else:
            yield child.step or child.keyword


def _semantic(plan: PhysicalPlan, node: Semantic) -> dict[str, str]:
    choice = plan.model_call(node).choice
    why = (
        "use"
        if node.step in plan.logical.use or node.step.rsplit("/", 1)[-1] in plan.logical.use
        else "reference"
    )
    return {
        "operator": node.keyword,
        "prompt": node.prompt.first.name,
        "how": str(choice),
        "why": why,
        "role": node.prompt.first.role,
    }


def _reading(plan: PhysicalPlan, node: Node) -> dict[str, Any]:
    if isinstance(node, Search):
        physical = plan.nodes[node]
        assert isinstance(physical, StoreSearch)
        specs = physical.group.specs
        return _search(specs[physical.place], specs)
    over = str(node.pattern) if isinstance(node, Match) else str(getattr(node, "label", ""))
    return {
        "kind": node.keyword,
        "over": over,
        "partition": getattr(node, "partition", "") or "the row's own",
    }


def _search(spec: SearchSpec, specs: tuple[SearchSpec, ...]) -> dict[str, Any]:
    node = spec.node
    over = [
        *([node.label] if node.label else []),
        *([node.within.step or "step"] if node.within is not None else []),
    ]
    ways: list[str] = [by.via for by in node.by] or ["order"]
    found: dict[str, Any] = {"kind": "search", "over": over, "by": ways, "k": node.k}
    found["partition"] = (
        f"{node.partition}, or all where it is NULL"
        if node.or_all
        else node.partition or "the row's own"
    )
    if "nearest" in ways:
        found["nearest"] = spec.nearest
    if len(specs) > 1:
        found["shares"] = sorted({s.node.step for s in specs if s.node is not node})
    if spec.residual:
        found["filtered here"] = [str(part) for part in spec.residual]
    return found


def of_sink(sink: Sink) -> str:
    """The step, or the input, whose rows a sink writes."""
    return sink.input.step or (
        sink.input.name if isinstance(sink.input, Input) else sink.input.keyword
    )


def mermaid(plan: PhysicalPlan) -> str:
    """The steps as a Mermaid flow chart; semantic steps have rounded ends, store reads are
    cylinders.
    """
    names = {step["step"]: step for step in steps_of(plan)}
    number = {name: f"s{i}" for i, name in enumerate([*plan.logical.inputs, *names])}
    lines = ["flowchart TD"]
    lines += [f'  {number[name]}[/"{name}"/]' for name in plan.logical.inputs]
    for name, step in names.items():
        left, right = (
            ("([", "])") if step["semantic"] else ("[(", ")]") if step["store"] else ("[", "]")
        )
        lines.append(f'  {number[name]}{left}"{name}"{right}')
        lines += [
            f"  {number[source]} --> {number[name]}" for source in step["reads"] if source in number
        ]
    for i, sink in enumerate(plan.logical.writes):
        lines += [f'  w{i}[("{sink.label.name}")]', f"  {number.get(of_sink(sink), 's0')} ==> w{i}"]
    return "\n".join(lines)


def as_data(
    plan: PhysicalPlan,
    actual: Actual | None = None,
    forecast: Forecast | None = None,
    rules: Sequence[str] = (),
    note: str = "",
) -> dict[str, Any]:
    """The plan as plain data, for `--format json`; `note` is what is to be known of the run beside
    it.
    """
    steps = steps_of(plan)
    for step in steps:
        if forecast is not None:
            step["estimate"] = {
                name: amount.as_data() for name, amount in forecast.of(step["step"]).items()
            }
        if actual is not None and step["step"] in actual:
            step["actual"] = dict(actual[step["step"]])
    writes = [
        {"from": of_sink(s), "kind": s.keyword, "label": s.label.name} for s in plan.logical.writes
    ]
    return {
        "schema": 1,
        "plan": plan.logical.name,
        "steps": steps,
        "writes": writes,
        **(
            {"schema_write": {"drop": plan.logical.schema.drop}}
            if plan.logical.schema is not None
            else {}
        ),
        "rewrites": list(rules),
        **(
            {"estimate": {n: a.as_data() for n, a in forecast.total().items()}}
            if forecast is not None
            else {}
        ),
        "returns": list(plan.logical.returns),
        **({"note": note} if note else {}),
    }


def queries(plan: PhysicalPlan) -> str:
    """The SQL of every segment, each headed by its step; what is said where there is nothing to
    run.
    """
    parts = []
    for segment in (node.segment for node in plan.of_kind(SqlSegment)):
        reads = ", ".join(f"{name} = {node.step or node.keyword}" for name, node in segment.inputs)
        parts.append(f"-- DuckDB: {segment.root.step or 'sink'}  ({reads})\n{segment.sql};")
    if not parts:
        parts.append("-- DuckDB: nothing to compute between the steps that ask")
    if not any(node.reads_store for node in walk(*plan.roots)):
        parts.append("-- store: no step reads it")
    return "\n\n".join(parts)
