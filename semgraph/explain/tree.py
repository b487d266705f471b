"""A plan as a session would run it: as a tree of steps with columns, as a Mermaid chart of its
steps, or as plain data; with estimates, and with the counts of a recorded run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from semgraph.display import option
from semgraph.execution.executor import for_batches
from semgraph.explain.estimates import Amount, Forecast, total
from semgraph.expr.row_scalars import Unsupported
from semgraph.formats import plural
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
from semgraph.relational.segments import Segment

Actual = Mapping[str, Mapping[str, Any]]
WIDTH = 100
_HEADS = ("step", "how", "rows", "CPU", "calls", "tokens", "$", "prompt", "reads, writes")
_RIGHT = {"rows", "CPU", "calls", "tokens", "$"}
_GAP = 2
_ROWS = 20  # sample size that a hint suggests


def tree(
    plan: PhysicalPlan,
    actual: Actual | None = None,
    forecast: Forecast | None = None,
    rules: Sequence[str] = (),
    width: int = WIDTH,
    note: str = "",
    batched: Collection[Node] = (),
) -> str:
    """The plan from its writes down to the inputs; a step is printed once, later only its name.

    Estimates and counts of a run are printed as `estimated / actual`. Columns that do not fit are
    dropped from the right and named in the last line. `note` is a note on that run. The requests of
    `batched` operators go into batches.
    """
    steps = {step["step"]: step for step in steps_of(plan, batched)}
    written: dict[str, list[str]] = {}
    for sink in plan.logical.writes:
        written.setdefault(of_sink(sink), []).append(f"{sink.keyword} {sink.label.name}")
    tops = list(dict.fromkeys([*written, *(node.step for node in plan.logical.returns.values())]))
    rows: list[tuple[str, ...]] = []
    seen: set[str] = set()

    def visit(name: str, prefix: str, branch: str) -> None:
        step = steps.get(name)
        if step is None or name in seen:
            rows.append(
                (
                    f"{prefix}{branch} {name}" + (" (above)" if step else ""),
                    *[""] * (len(_HEADS) - 1),
                )
            )
            return
        seen.add(name)
        did = (actual or {}).get(name)
        numbers = _numbers(forecast.of(name) if forecast else {}, did)
        does = [
            *_reads(step, plan),
            *([f"→ {', '.join(written[name])}"] if name in written else []),
        ]
        how, prompt = _asks(step)
        amount, *asked = numbers
        cpu = _cpu(step, did) if did is not None else ""
        texts = (how, amount, cpu, *asked, prompt, " · ".join(does))
        rows.append((f"{prefix}{branch} {name}", *texts))
        inner = prefix + (" " if branch.startswith("└") else "│")
        loops = step.get("loops", ())
        in_loops = {name for loop in loops for name in loop["reads"]}
        below(inner, [name for name in step["reads"] if name not in in_loops], last=not loops)
        for i, loop in enumerate(loops):
            branch = "└" if i == len(loops) - 1 else "├"
            head = f"{inner}{branch} iterate ≤ {loop['rounds']:,} rounds"
            rows.append((head, *[""] * (len(_HEADS) - 2), " → ".join([loop["as"], *loop["do"]])))
            below(inner + (" " if branch == "└" else "│"), loop["reads"], last=True)

    def below(prefix: str, names: Sequence[str], *, last: bool) -> None:
        for i, child in enumerate(names):
            visit(child, prefix, "└" if last and i == len(names) - 1 else "├")

    for i, name in enumerate(tops):
        visit(name, "", "└" if i == len(tops) - 1 else "├")
    table, left_out = _table(rows, width)
    lines = [*_head(plan, width, batched), *table, *_replaced(plan), *_of_schema(plan)]
    lines += _on_duckdb(steps)
    large = dict.fromkeys(p for s in steps.values() for r in s["store"] for p in r.get("large", ()))
    lines += [f"nearest in {part}" for part in large]
    lines += _totals(forecast, actual)
    if note:
        lines.append(f"! {note}")
    if rules:
        lines.append("rewrites: " + ", ".join(rules))
    if left_out:
        lines.append(
            f"not shown, for lack of space: {'; '.join(left_out)} "
            f"({option('format', 'json')} has them all)"
        )
    return "\n".join(lines)


def _replaced(plan: PhysicalPlan) -> list[str]:
    return [
        f"{step}: {call.by} in place of {call.plan} (use)"
        for step, call in plan.logical.called.items()
        if call.by is not None
    ]


def _of_schema(plan: PhysicalPlan) -> list[str]:
    schema = plan.logical.schema
    if schema is None:
        return []
    drops = " drops the indexes that bear its names, then" if schema.drop else ""
    return [f"schema:{drops} makes what the graph needs and the store lacks, before the run"]


def _on_duckdb(steps: Mapping[str, Mapping[str, Any]]) -> list[str]:
    names = [name for name, step in steps.items() if any(one["why"] for one in step["segments"])]
    why = option("format", "queries")
    what = f"on DuckDB, also over few rows ({why} shows why): "
    return [what + ", ".join(names)] if names else []


def _head(plan: PhysicalPlan, width: int, batched: Collection[Node]) -> list[str]:
    logical = plan.logical
    rounds = len({search.group for search in plan.of_kind(StoreSearch)})
    parts = [
        logical.name,
        _steps(plan),
        f"{sum(isinstance(node, Semantic) for node in plan.nodes)} semantic",
        f"{rounds} searches",
    ]
    windowing = logical.windows
    if windowing is not None:
        windowing = for_batches(windowing) if batched else windowing
        size = "what is ready" if windowing.by_readiness else windowing.size or "all"
        parts.append(f"windows of {size} by {windowing.partition}, up to {windowing.ahead:,} ahead")
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 3 + len(part) <= width:
            lines[-1] += f" · {part}"
        else:
            lines.append(f"  {part}")
    return lines


def _steps(plan: PhysicalPlan) -> str:
    """The number of steps as written, and of remaining steps to compute, without inputs and writes."""
    written = len(plan.logical.steps)
    left = sum(name in plan.logical.steps for name in plan.named())
    return f"{left} of " * (left != written) + f"{written} step{'s' * (written != 1)}"


def _asks(step: Mapping[str, Any]) -> tuple[str, str]:
    """The implementation of a step and its prompt, with the origin of the implementation and the
    model unless they are defaults; for clusters, the algorithms.
    """
    hows = [f"{s['operator']} {s['how']}" for s in step["semantic"]]
    prompts = []
    for each in step["semantic"]:
        notes = [
            *(["by use"] if each["why"] == "use" else []),
            *([each["role"]] if each["role"] != "default" else []),
            *(["batch"] if "batch" in each else []),
        ]
        prompts.append(each["prompt"] + (f" ({', '.join(notes)})" if notes else ""))
    hows += [f"cluster {each['algorithm']}" for each in step["clusters"]]
    prompts += ["(by use)" for each in step["clusters"] if each["why"] == "use"]
    return ", ".join(hows), ", ".join(prompts)


def _numbers(
    estimate: Mapping[str, Amount], did: Mapping[str, Any] | None
) -> tuple[str, str, str, str]:
    was: dict[str, str] = {}
    if did is not None:
        calls = did["calls_issued"] + did["calls_journal"] + did["calls_coalesced"]
        was = {} if did["rows_out"] is None else {"rows": f"{did['rows_out']:,}"}
        if calls:
            was |= {"calls": f"{calls:,}", "tokens": f"{did['tokens_in']:,}+{did['tokens_out']:,}"}
            was["$"] = "—" if did["dollars"] is None else f"{did['dollars']:.4f}"
    estimated: dict[str, str] = {}
    if "rows" in estimate:
        estimated["rows"] = estimate["rows"].text()
    if "calls" in estimate:
        sent, answered = estimate["tokens_in"], estimate["tokens_out"]
        estimated |= {"calls": estimate["calls"].text(), "$": estimate["dollars"].text(4)}
        estimated["tokens"] = (
            f"{sent.text()}+{answered.text().removeprefix('≈ ')}" if sent.text() != "?" else "?"
        )
    both = (
        [text for text in (estimated.get(n, ""), was.get(n, "")) if text]
        for n in ("rows", "calls", "tokens", "$")
    )
    rows, calls, tokens, dollars = (" / ".join(parts) for parts in both)
    return rows, calls, tokens, dollars


def _cpu(step: Mapping[str, Any], did: Mapping[str, Any]) -> str:
    """The time of the relational segments of a step that calls no model; in a run of few rows this
    is their CPU time.
    """
    if not step["segments"] or did["operator"] or not did["seconds"]:
        return ""
    seconds = did["seconds"]
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def _reads(step: Mapping[str, Any], plan: PhysicalPlan) -> list[str]:
    parts = []
    for read in step["store"]:
        over = " ∪ ".join(read["over"]) if isinstance(read["over"], list) else read["over"]
        by = f" by {' + '.join(read['by'])}, k {read['k']}" if "by" in read else ""
        shares = f", one query with {', '.join(read['shares'])}" if "shares" in read else ""
        everyone = ", of all partitions" if read["partition"] == "all" else ""
        everyone = everyone or (
            ", of all partitions where none are named" if "or all" in read["partition"] else ""
        )
        parts.append(f"{read['kind']} {over}{by}{shares}{everyone}")
    parts += [f"embed {text}" for text in step["embeds"]]
    if plan.logical.windows is not None and step["part"] == "ordered":
        parts.append("in order")
    return parts


def _totals(forecast: Forecast | None, actual: Actual | None) -> list[str]:
    lines = []
    sums = forecast.total() if forecast is not None else {}
    if sums and (sums["calls"].value or sums["calls"].kind != "exact"):
        sent, answered = sums["tokens_in"].text(), sums["tokens_out"].text()
        assert forecast is not None
        parts = [
            _calls(forecast),
            "tokens ?" if sent == "?" else f"{sent} + {answered} tokens",
        ]
        parts.append(sums["dollars"].text(4, "$") if sums["dollars"].text() != "?" else "$ ?")
        lines.append("estimated: " + " · ".join(parts))
        lines += _unknown(forecast)
    if actual is not None:
        did = [step for step in actual.values() if step["operator"]]
        calls = sum(
            step["calls_issued"] + step["calls_journal"] + step["calls_coalesced"] for step in did
        )
        parts = [f"{calls:,} calls ({sum(step['calls_issued'] for step in did):,} issued)"]
        parts.append(
            f"{sum(s['tokens_in'] for s in did):,} + {sum(s['tokens_out'] for s in did):,} tokens"
        )
        parts.append(f"{sum(step['round_trips'] for step in actual.values()):,} store queries")
        lines.append("was: " + " · ".join(parts))
    return lines


def _calls(forecast: Forecast) -> str:
    """The calls of all steps; if those of some steps have no bound, the calls of the others."""
    every, text = forecast.calls(), forecast.total()["calls"].text()
    known = [amount for amount in every.values() if amount.known]
    of = ""
    if text == "?" and known:
        text, of = total(known).text(), f" of {plural(len(known), 'step')}"
    between = forecast.calls_between()
    spread = "" if between is None else f" ({between[0]:,.0f} to {between[1]:,.0f})"
    return f"{text} calls{of}{spread}{' (a bound)' * text.startswith('≤')}"


def _unknown(forecast: Forecast) -> list[str]:
    """A line on the steps with an unbounded number of calls."""
    unknown = [step for step, amount in forecast.calls().items() if not amount.known]
    if not unknown:
        return []
    steps, measure = plural(len(unknown), "step"), option("sample", _ROWS)
    return [
        f"not estimated: {steps}, whose rows are not known before a run; {measure} measures them"
    ]


def _table(rows: Sequence[tuple[str, ...]], width: int) -> tuple[list[str], list[str]]:
    """Lines with the columns that fit, and the names of the other columns with content."""
    used = [i for i in range(len(_HEADS)) if i == 0 or any(row[i] not in {"", "?"} for row in rows)]
    sizes = {
        i: max(len(_HEADS[i]), *(len(row[i]) for row in rows)) if rows else len(_HEADS[i])
        for i in used
    }
    fits: list[int] = []
    space = width
    for i in used:
        if fits and sizes[i] + _GAP > space:
            break
        fits.append(i)
        space -= sizes[i] + _GAP * bool(len(fits) > 1)
    lines = []
    for row in (_HEADS, *rows) if len(fits) > 1 else rows:
        cells = [
            row[i].rjust(sizes[i]) if _HEADS[i] in _RIGHT else row[i].ljust(sizes[i]) for i in fits
        ]
        line = (" " * _GAP).join(cells).rstrip()
        lines.append(line if len(line) <= width else line[: width - 1] + "…")
    return lines, [_HEADS[i] for i in used if i not in fits]


def steps_of(plan: PhysicalPlan, batched: Collection[Node] = ()) -> list[dict[str, Any]]:
    """The named steps in computation order, as plain data."""
    last = {node: step for step, node in plan.named().items()}
    segments: dict[str, list[dict[str, Any]]] = {}
    for physical in plan.of_kind(SqlSegment):
        segments.setdefault(physical.logical.step, []).append(_segment(physical.segment))
    steps = []
    for step, node in plan.named().items():
        own = [n for n in walk(node) if n.step == step]
        steps.append(
            {
                "step": step,
                "operators": [n.keyword for n in own if not isinstance(n, Input | Round)],
                "semantic": [
                    _semantic(plan, n) | ({"batch": True} if n in batched else {})
                    for n in own
                    if isinstance(n, Semantic)
                ],
                "clusters": [_clustering(plan, n) for n in own if isinstance(n, Cluster)],
                "store": [_reading(plan, n) for n in own if isinstance(n, (Search, Match, Scan))],
                "embeds": [
                    f"{scalar} as {name}"
                    for n in own
                    if isinstance(n, Embed)
                    for name, scalar in n.add
                ],
                "segments": segments.get(step, []),
                "part": "ordered" if any(n in plan.after_writes for n in own) else "ahead",
                "reads": sorted({name for n in own for name in _sources(n, last, own)} - {step}),
                **({"loops": loops} if (loops := _loops(own, last, step)) else {}),
            }
        )
    return steps


def _loops(own: list[Node], last: Mapping[Node, str], step: str) -> list[dict[str, Any]]:
    """The loops of a step: the maximum number of rounds, the action of `do`, and the steps it
    reads.
    """
    loops = []
    for loop in (node for node in own if isinstance(node, Iterate)):
        do = [node for node in own if node in loop.each_round]
        read = {name for n in do for name in _sources(n, last, own)} - {step}
        operators = [node.keyword for node in do if node not in loop.own_rounds]
        loops.append(
            {"as": loop.name, "rounds": loop.times, "do": operators, "reads": sorted(read)}
        )
    return loops


def _segment(segment: Segment) -> dict[str, Any]:
    """The operators that are computed together, and the executor."""
    alone = isinstance(segment.function, Unsupported)
    return {
        "operators": [node.keyword for node in segment.operators],
        "few_rows": "duckdb" if alone else "python",
        "why": str(segment.function) if alone else "",
    }


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


def _semantic(plan: PhysicalPlan, node: Semantic) -> dict[str, Any]:
    choice = plan.model_call(node).choice
    why = "reference" if plan.logical.choice(node.step) is None else "use"
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
    methods: list[str] = [by.via for by in node.methods] or ["order"]
    data: dict[str, Any] = {"kind": "search", "over": over, "by": methods, "k": node.k}
    data["partition"] = (
        f"{node.partition}, or all where it is NULL"
        if node.or_all
        else node.partition or "the row's own"
    )
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
    return sink.input.step or (
        sink.input.name if isinstance(sink.input, Input) else sink.input.keyword
    )


def as_data(
    plan: PhysicalPlan,
    actual: Actual | None = None,
    forecast: Forecast | None = None,
    rules: Sequence[str] = (),
    note: str = "",
    batched: Collection[Node] = (),
) -> dict[str, Any]:
    """The plan as plain data, for `--format json`; `note` is a note on the run, `batched` as in
    `tree`.
    """
    steps = steps_of(plan, batched)
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
        **({"estimate": _total_as_data(forecast)} if forecast is not None else {}),
        "returns": list(plan.logical.returns),
        **({"note": note} if note else {}),
    }


def _total_as_data(forecast: Forecast) -> dict[str, Any]:
    data = {name: amount.as_data() for name, amount in forecast.total().items()}
    if (between := forecast.calls_between()) is not None:
        data["calls"]["between"] = list(between)
    return data


Kind = Literal["input", "semantic", "store", "step", "write"]
_MERMAID: Mapping[Kind, tuple[str, str]] = {
    "input": ("[/", "/]"), "semantic": ("([", "])"), "store": ("[(", ")]"), "step": ("[", "]"), "write": ("[(", ")]"),
}  # fmt: skip


@dataclass(frozen=True)
class _Box:
    """A node of a chart: its id, the names of the enclosing called plans, and its text."""

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
    """The steps, including the inputs, and the writes; without inputs and empty steps that no step
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
    """The steps as a Mermaid flow chart. Semantic steps have rounded ends; store reads and writes
    are cylinders.
    """
    chart = _chart(plan)
    lines = ["flowchart TD"]
    for box in chart.boxes:
        left, right = _MERMAID[box.kind]
        lines.append(f'  {box.id}{left}"{box.name}"{right}')
    lines += [f"  {source} --> {target}" for source, target in chart.edges]
    lines += [f"  {source} ==> {target}" for source, target in chart.writes]
    return "\n".join(lines)
