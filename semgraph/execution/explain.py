"""What a plan will do: its steps as a tree, a Mermaid chart or plain data, with the way of each semantic step, the store
queries, and what may run ahead. Beside it, of a run that is over, what each step did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from semgraph.logical.graph import Match, Scan, Search
from semgraph.logical.node import Node, walk
from semgraph.logical.relational import Input
from semgraph.logical.semantic import Semantic
from semgraph.logical.sinks import Sink
from semgraph.physical.planner import PhysicalPlan
from semgraph.physical.search import SearchSpec

Actual = Mapping[str, Mapping[str, Any]]
_EXACT_BELOW = 5_000


def steps_of(plan: PhysicalPlan) -> list[dict[str, Any]]:
    """The named steps in the order of computation, as plain data: what each does, how, and what it reads."""
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
                "part": "ordered" if any(id(n) in plan.ordered for n in own) else "ahead",
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
    _, choice = plan.ways[id(node)]
    why = "use" if node.step in plan.logical.use or node.step.rsplit("/", 1)[-1] in plan.logical.use else "reference"
    return {
        "operator": node.keyword,
        "prompt": node.prompt.first.name,
        "how": str(choice),
        "why": why,
        "role": node.prompt.first.role,
    }


def _reading(plan: PhysicalPlan, node: Node) -> dict[str, Any]:
    if isinstance(node, Search):
        specs = plan.trips[id(node)]
        spec = next(s for s in specs if s.node is node)
        return _search(spec, specs)
    over = str(node.pattern) if isinstance(node, Match) else str(getattr(node, "label", ""))
    return {"kind": node.keyword, "over": over, "partition": getattr(node, "partition", "") or "the row's own"}


def _search(spec: SearchSpec, specs: tuple[SearchSpec, ...]) -> dict[str, Any]:
    node = spec.node
    over = [*([node.label] if node.label else []), *([node.within.step or "step"] if node.within is not None else [])]
    ways: list[str] = [by.via for by in node.by] or ["order"]
    found: dict[str, Any] = {"kind": "search", "over": over, "by": ways, "k": node.k}
    found["partition"] = node.partition or "the row's own"
    if "nearest" in ways:
        found["nearest"] = f"exact within a partition of less than {_EXACT_BELOW:,} rows, or where both ends are given"
    if len(specs) > 1:
        found["shares"] = sorted({s.node.step for s in specs if s.node is not node})
    if spec.residual:
        found["filtered here"] = [str(part) for part in spec.residual]
    return found


def tree(plan: PhysicalPlan, actual: Actual | None = None) -> str:
    """The plan as a tree of steps, from what is written down to the inputs; a step that stands above already is only named."""
    logical = plan.logical
    steps = {step["step"]: step for step in steps_of(plan)}
    lines = [_head(plan)]
    seen: set[str] = set()
    rows: list[tuple[str, str, str]] = []

    def visit(name: str, prefix: str, branch: str) -> None:
        step = steps.get(name)
        if step is None or name in seen:
            rows.append(("", f"{prefix}{branch} {name}" + (" (above)" if step else ""), ""))
            return
        seen.add(name)
        rows.append((name, f"{prefix}{branch} {name}", _says(step, plan)))
        inner = prefix + ("   " if branch.startswith("└") else "│  ")
        for i, child in enumerate(step["reads"]):
            visit(child, inner, "└" if i == len(step["reads"]) - 1 else "├")

    written: dict[str, list[str]] = {}
    for sink in logical.writes:
        written.setdefault(_of(sink), []).append(f"{sink.keyword} {sink.label.name}")
    tops = list(dict.fromkeys([*written, *(node.step for node in logical.returns.values())]))
    for i, name in enumerate(tops):
        visit(name, "", "└" if i == len(tops) - 1 else "├")
    width = max((len(label) for _, label, _ in rows), default=0)
    for name, label, says in rows:
        sinks = f"→ {', '.join(written[name])}" if name in written else ""
        lines.append(
            f"{label:<{width}}  {'  '.join(part for part in (says, sinks, _did(name, actual)) if part)}".rstrip()
        )
    return "\n".join(lines)


def _of(sink: Sink) -> str:
    return sink.input.step or (sink.input.name if isinstance(sink.input, Input) else sink.input.keyword)


def _head(plan: PhysicalPlan) -> str:
    logical = plan.logical
    order = logical.order
    window = (
        ""
        if order is None
        else f" · windows of {order.window or 'all'} by {order.partition}, up to {order.ahead} ahead"
    )
    rounds = sum(1 for group in {id(g[0].node): g for g in plan.trips.values()}.values() if group)
    return f"{logical.name} · {len(plan.named())} steps · {len(plan.ways)} semantic · {rounds} searches{window}"


def _says(step: Mapping[str, Any], plan: PhysicalPlan) -> str:
    parts = [f"{s['operator']} {s['prompt']}  {s['how']} ({s['why']}, model {s['role']})" for s in step["semantic"]]
    for read in step["store"]:
        over = " ∪ ".join(read["over"]) if isinstance(read["over"], list) else read["over"]
        by = f" by {' + '.join(read['by'])}, k {read['k']}" if "by" in read else ""
        shares = f", one query with {', '.join(read['shares'])}" if "shares" in read else ""
        everyone = ", of all partitions" if read["partition"] == "all" else ""
        parts.append(f"{read['kind']} {over}{by}{shares}{everyone}")
    if plan.logical.order is not None and step["part"] == "ordered":
        parts.append("in order")
    return " · ".join(parts)


def _did(name: str, actual: Actual | None) -> str:
    if actual is None or not name or name not in actual:
        return ""
    did = actual[name]
    calls = did["calls_issued"] + did["calls_journal"] + did["calls_coalesced"]
    parts = [f"{did['rows_out']} rows"]
    if calls:
        parts.append(
            f"{calls} calls ({did['calls_issued']} issued), {did['tokens_in']:,} + {did['tokens_out']:,} tokens"
        )
    if did["round_trips"]:
        parts.append(f"{did['round_trips']} store queries")
    return f"[{', '.join(parts)}, {did['seconds']:.2f} s]"


def mermaid(plan: PhysicalPlan) -> str:
    """The steps as a Mermaid flow chart; semantic steps have rounded ends, store reads are cylinders."""
    names = {step["step"]: step for step in steps_of(plan)}
    number = {name: f"s{i}" for i, name in enumerate([*plan.logical.inputs, *names])}
    lines = ["flowchart TD"]
    lines += [f'  {number[name]}[/"{name}"/]' for name in plan.logical.inputs]
    for name, step in names.items():
        left, right = ("([", "])") if step["semantic"] else ("[(", ")]") if step["store"] else ("[", "]")
        lines.append(f'  {number[name]}{left}"{name}"{right}')
        lines += [f"  {number[source]} --> {number[name]}" for source in step["reads"] if source in number]
    for i, sink in enumerate(plan.logical.writes):
        lines += [f'  w{i}[("{sink.label.name}")]', f"  {number.get(_of(sink), 's0')} ==> w{i}"]
    return "\n".join(lines)


def as_data(plan: PhysicalPlan, actual: Actual | None = None) -> dict[str, Any]:
    """The plan as plain data, for `--format json`."""
    steps = steps_of(plan)
    for step in steps:
        if actual is not None and step["step"] in actual:
            step["actual"] = dict(actual[step["step"]])
    writes = [{"from": _of(s), "kind": s.keyword, "label": s.label.name} for s in plan.logical.writes]
    return {
        "schema": 1,
        "plan": plan.logical.name,
        "steps": steps,
        "writes": writes,
        "returns": list(plan.logical.returns),
    }


def queries(plan: PhysicalPlan) -> str:
    """The SQL of every segment, each headed by its step."""
    parts = []
    for segment in plan.segments.values():
        reads = ", ".join(f"{name} = {node.step or node.keyword}" for name, node in segment.inputs)
        parts.append(f"-- {segment.root.step or 'sink'}  ({reads})\n{segment.sql};")
    return "\n\n".join(parts)
