"""A plan as a session would run it, as plain data: its steps, with estimates, and with the counts of
a recorded run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from semgraph.explain.estimates import Forecast
from semgraph.expr.row_scalars import Unsupported
from semgraph.logical.cluster import Cluster
from semgraph.logical.graph import Match, Scan
from semgraph.logical.iterate import Iterate, Round
from semgraph.logical.node import Node, walk
from semgraph.logical.relational import Input
from semgraph.logical.search import Search
from semgraph.logical.semantic import Embed, Semantic
from semgraph.logical.sinks import Sink
from semgraph.physical.plan import ClusterRows, PhysicalPlan, SqlSegment, StoreSearch
from semgraph.physical.search_spec import SearchSpec

Actual = Mapping[str, Mapping[str, Any]]
NO_MODELS: Mapping[str, str] = {}


def steps_of(
    plan: PhysicalPlan, batched: Collection[Node] = (), models: Mapping[str, str] = NO_MODELS
) -> list[dict[str, Any]]:
    """The named steps in computation order, as plain data; the rest as in `Outline`."""
    last = {node: step for step, node in plan.named().items()}
    segments: dict[str, list[dict[str, Any]]] = {}
    for physical in plan.of_kind(SqlSegment):
        segment = physical.segment  # the operators that are computed together, and the executor
        few, why = "python", ""
        if isinstance(segment.function, Unsupported):
            few, why = "duckdb", str(segment.function)
        names = [n.keyword for n in segment.operators]
        own_segments = segments.setdefault(physical.logical.step, [])
        own_segments.append({"operators": names, "few_rows": few, "why": why})
    steps = []
    for step, node in plan.named().items():
        own = [n for n in walk(node) if n.step == step]
        asking = [n for n in own if isinstance(n, Semantic)]
        made = [add for n in own if isinstance(n, Embed) for add in n.add]
        shown = [p.shown for n in asking for p in n.prompt.all if p.shown and p.shown.nearest]
        steps.append(
            {
                "step": step,
                "operators": [n.keyword for n in own if not isinstance(n, Input | Round)],
                "semantic": [
                    _semantic(plan, n, models) | ({"batch": True} if n in batched else {})
                    for n in asking
                ],
                "clusters": [_clustering(plan, n) for n in own if isinstance(n, Cluster)],
                "store": [_reading(plan, n) for n in own if isinstance(n, (Search, Match, Scan))],
                "embeds": [
                    *(f"{scalar} as {name}" for name, scalar in made),
                    *(
                        f"{s.by} and {len(s.rows)} examples, {s.nearest} nearest a row"
                        for s in shown
                    ),
                ],
                "segments": segments.get(step, []),
                "part": "ordered" if any(n in plan.after_writes for n in own) else "ahead",
                "reads": sorted({name for n in own for name in _sources(n, last, own)} - {step}),
                **({"loops": loops} if (loops := _loops(own, last, step)) else {}),
            }
        )
    return steps


def _loops(own: list[Node], last: Mapping[Node, str], step: str) -> list[dict[str, Any]]:
    """The loops of a step: the most rounds, the operators of `do`, and the steps it reads."""
    loops = []
    for loop in (node for node in own if isinstance(node, Iterate)):
        do = [node for node in own if node in loop.each_round]
        read = {name for n in do for name in _sources(n, last, own)} - {step}
        operators = [node.keyword for node in do if node not in loop.own_rounds]
        loops.append(
            {"as": loop.name, "rounds": loop.times, "do": operators, "reads": sorted(read)}
        )
    return loops


def _sources(node: Node, last: Mapping[Node, str], own: list[Node]) -> Iterable[str]:
    own_nodes = set(own)
    for child in node.inputs:
        if child in own_nodes:
            continue
        if isinstance(child, Input | Round):
            yield child.name
        elif child in last:
            yield last[child]
        else:
            yield child.step or child.keyword


def _clustering(plan: PhysicalPlan, node: Cluster) -> dict[str, str]:
    physical = plan.nodes[node]
    assert isinstance(physical, ClusterRows)
    algorithm = physical.algorithm
    by_use = algorithm is not None and plan.logical.choice(node.step) is not None
    return {
        "algorithm": node.algorithm if algorithm is None else str(algorithm.choice),
        "why": "use" if by_use else "plan",
    }


def _semantic(plan: PhysicalPlan, node: Semantic, models: Mapping[str, str]) -> dict[str, Any]:
    choice = plan.model_call(node).choice
    why = "reference" if plan.logical.choice(node.step) is None else "use"
    return {
        "operator": node.keyword,
        "prompt": node.prompt.first.name,
        "how": str(choice),
        "why": why,
        "role": node.prompt.first.role,
        "model": models.get(node.prompt.first.role),
    }


def _reading(plan: PhysicalPlan, node: Node) -> dict[str, Any]:
    if isinstance(node, Search):
        physical = plan.nodes[node]
        assert isinstance(physical, StoreSearch)
        specs = physical.group.specs
        return _search(specs[physical.place], specs)
    over = str(node.pattern) if isinstance(node, Match) else str(getattr(node, "label", ""))
    partition = getattr(node, "partition", "") or "the row's own"
    return {"kind": node.keyword, "over": over, "partition": partition}


def _search(spec: SearchSpec, specs: tuple[SearchSpec, ...]) -> dict[str, Any]:
    node = spec.node
    within = "" if node.within is None else node.within.step or "step"
    over = [name for name in (node.label, within) if name]
    methods: list[str] = [by.via for by in node.methods] or ["order"]
    data: dict[str, Any] = {"kind": "search", "over": over, "by": methods, "k": node.k}
    data["partition"] = node.partition or "the row's own"
    if node.or_all:
        data["partition"] = f"{node.partition}, or all where it is NULL"
    if "nearest" in methods:
        data["nearest"] = spec.nearest
        large = [part for part in spec.nearest.split("; ") if part.startswith(f"{node.label}.")]
        data |= {"large": large} if large and node.label else {}
    if len(specs) > 1:
        data["shares"] = sorted({s.node.step for s in specs if s.node is not node})
    if spec.residual:
        data["filtered here"] = [str(part) for part in spec.residual]
    return data


def of_sink(sink: Sink) -> str:
    """The step, or the input, of a sink's rows."""
    rows = sink.input
    return rows.step or (rows.name if isinstance(rows, Input) else rows.keyword)


def as_data(
    plan: PhysicalPlan,
    actual: Actual | None = None,
    forecast: Forecast | None = None,
    rules: Sequence[str] = (),
    note: str = "",
    batched: Collection[Node] = (),
    models: Mapping[str, str] = NO_MODELS,
) -> dict[str, Any]:
    """The plan as plain data, for `--format json`; `note` is a note on the run, `batched` and
    `models` as in `Outline`.
    """
    steps = steps_of(plan, batched, models)
    for step in steps:
        if forecast is not None:
            step["estimate"] = {
                name: amount.as_data() for name, amount in forecast.of(step["step"]).items()
            }
        if actual is not None and step["step"] in actual:
            step["actual"] = dict(actual[step["step"]])
    whole: dict[str, Any] = {}
    if forecast is not None:
        whole = {name: amount.as_data() for name, amount in forecast.total().items()}
        if (between := forecast.calls_between()) is not None:
            whole["calls"]["between"] = list(between)
    schema = plan.logical.schema_write
    writes = [
        {"from": of_sink(s), "kind": s.keyword, "label": s.label.name} for s in plan.logical.writes
    ]
    return {
        "schema": 1,
        "plan": plan.logical.name,
        "steps": steps,
        "writes": writes,
        **({"schema_write": {"drop": schema.drop}} if schema is not None else {}),
        "rewrites": list(rules),
        **({"estimate": whole} if forecast is not None else {}),
        "returns": list(plan.logical.returns),
        **({"note": note} if note else {}),
    }
