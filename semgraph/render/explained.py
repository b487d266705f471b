"""A plan as a tree of steps with columns, with estimates and the counts of a recorded run; and as a
Mermaid chart of its steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from semgraph.display import option
from semgraph.execution.executor import for_batches
from semgraph.explain.estimates import Amount, Forecast, total
from semgraph.explain.steps import NO_MODELS, Actual, of_sink, steps_of
from semgraph.formats import models_by_role, plural
from semgraph.logical.node import Node
from semgraph.logical.semantic import Semantic
from semgraph.physical.plan import PhysicalPlan, StoreSearch
from semgraph.render.tables import Column, fitting, folded, rows_of

WIDTH = 100
_HEADS = ("step", "how", "rows", "CPU", "calls", "tokens", "$", "prompt", "reads, writes")
_RIGHT = {"rows", "CPU", "calls", "tokens", "$"}
_ROWS = 20  # sample size that a hint suggests
Steps = Mapping[str, Mapping[str, Any]]


def tree(
    plan: PhysicalPlan,
    actual: Actual | None = None,
    forecast: Forecast | None = None,
    rules: Sequence[str] = (),
    width: int = WIDTH,
    note: str = "",
    batched: Collection[Node] = (),
    models: Mapping[str, str] = NO_MODELS,
) -> str:
    """The plan from its writes down to the inputs; a step is printed once, later only its name.

    Estimates and counts of a run are printed as `estimated / actual`. Columns that do not fit are
    dropped from the right and named in the last line. `note` is a note on that run. The requests of
    `batched` operators go into batches. `models` are the names of the models by role; they are
    printed if several answer.
    """
    steps = {step["step"]: step for step in steps_of(plan, batched, models)}
    tops = [*map(of_sink, plan.logical.writes), *(n.step for n in plan.logical.returns.values())]
    lines = list(_lines(steps, list(dict.fromkeys(tops)), set()))
    cells = [_cells(line, plan, actual, forecast) for line in lines]
    columns = [
        Column(head, [row.get(head, "") for row in cells], right=head in _RIGHT) for head in _HEADS
    ]
    columns = [c for c in columns if c.title == "step" or not {"", "?"}.issuperset(c.cells)]
    fitted, widths = fitting(columns, width, whole=True)
    table = [line.plain for line in rows_of(fitted, widths)]
    notes = [
        *_replaced(plan),
        *_of_schema(plan),
        *_on_duckdb(steps),
        *_large(steps),
        *(["models: " + models_by_role(models)] if len({*models.values()}) > 1 else ()),
        *_estimated(forecast),
        *_was(actual),
        *([f"! {note}"] if note else []),
        *(["rewrites: " + ", ".join(rules)] if rules else []),
        *_left_out([column for column in columns if column not in fitted]),
    ]
    tree_alone = len(fitted) == 1  # has no title
    return "\n".join([*_head(plan, width, batched), *table[tree_alone:], *notes])


class TreeLine(NamedTuple):
    """A line of the tree: its branches and name, and its step. A line of a loop has a text instead,
    a line of a step that is printed above neither.
    """

    lead: str
    step: Mapping[str, Any] | None = None
    text: str = ""


def _lines(
    steps: Steps, names: Sequence[str], seen: set[str], prefix: str = "", *, closed: bool = True
) -> Iterator[TreeLine]:
    """The lines of some steps and of all that they read. `closed`: no line follows at this level."""
    for i, name in enumerate(names):
        last = closed and i == len(names) - 1
        lead, inner = f"{prefix}{'└' if last else '├'} {name}", prefix + (" " if last else "│")
        step = steps.get(name)
        if step is None or name in seen:
            yield TreeLine(lead + (" (above)" if step else ""))
            continue
        seen.add(name)
        yield TreeLine(lead, step)
        loops = step.get("loops", ())
        in_loops = {name for loop in loops for name in loop["reads"]}
        before = [name for name in step["reads"] if name not in in_loops]
        yield from _lines(steps, before, seen, inner, closed=not loops)
        for j, loop in enumerate(loops):
            last = j == len(loops) - 1
            head = f"{inner}{'└' if last else '├'} iterate ≤ {loop['rounds']:,} rounds"
            yield TreeLine(head, text=" → ".join([loop["as"], *loop["do"]]))
            yield from _lines(steps, loop["reads"], seen, inner + (" " if last else "│"))


def _cells(
    line: TreeLine, plan: PhysicalPlan, actual: Actual | None, forecast: Forecast | None
) -> dict[str, str]:
    """The cells of a line, by the title of their column."""
    step = line.step
    if step is None:
        return {"step": line.lead, "reads, writes": line.text}
    did = (actual or {}).get(step["step"])
    expected = _expected(forecast.of(step["step"])) if forecast else {}
    counted = _counted(did) if did is not None else {}
    how, prompt = _asks(step)
    written = [
        f"{s.keyword} {s.label.name}" for s in plan.logical.writes if of_sink(s) == step["step"]
    ]
    does = [*_reads(step, plan), *([f"→ {', '.join(written)}"] if written else [])]
    numbers = {
        head: " / ".join(filter(None, (expected.get(head), counted.get(head))))
        for head in ("rows", "calls", "tokens", "$")
    }
    return numbers | {
        "step": line.lead,
        "how": how,
        "CPU": _cpu(step, did) if did is not None else "",
        "prompt": prompt,
        "reads, writes": " · ".join(does),
    }


def _expected(estimate: Mapping[str, Amount]) -> dict[str, str]:
    texts = {"rows": estimate["rows"].text()} if "rows" in estimate else {}
    if "calls" in estimate:
        sent, answered = estimate["tokens_in"].text(), estimate["tokens_out"].text()
        texts |= {"calls": estimate["calls"].text(), "$": estimate["dollars"].text(4)}
        texts["tokens"] = f"{sent}+{answered.removeprefix('≈ ')}" if sent != "?" else "?"
    return texts


def _counted(did: Mapping[str, Any]) -> dict[str, str]:
    texts = {} if did["rows_out"] is None else {"rows": f"{did['rows_out']:,}"}
    if calls := _calls_of(did):
        texts |= {"calls": f"{calls:,}", "tokens": f"{did['tokens_in']:,}+{did['tokens_out']:,}"}
        texts["$"] = "—" if did["dollars"] is None else f"{did['dollars']:.4f}"
    return texts


def _calls_of(did: Mapping[str, Any]) -> int:
    return int(did["calls_issued"] + did["calls_journal"] + did["calls_coalesced"])


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
        if "or all" in read["partition"]:
            everyone = ", of all partitions where none are named"
        parts.append(f"{read['kind']} {over}{by}{shares}{everyone}")
    parts += [f"embed {text}" for text in step["embeds"]]
    if plan.logical.windows is not None and step["part"] == "ordered":
        parts.append("in order")
    return parts


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


def _replaced(plan: PhysicalPlan) -> list[str]:
    return [
        f"{step}: {call.by} in place of {call.plan} (use)"
        for step, call in plan.logical.called.items()
        if call.by is not None
    ]


def _of_schema(plan: PhysicalPlan) -> list[str]:
    schema = plan.logical.schema_write
    if schema is None:
        return []
    drops = " drops the indexes that bear its names, then" if schema.drop else ""
    return [f"schema:{drops} makes what the graph needs and the store lacks, before the run"]


def _on_duckdb(steps: Steps) -> list[str]:
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
    return folded(" · ".join(parts), width)


def _steps(plan: PhysicalPlan) -> str:
    """The number of steps as written, and of remaining steps to compute, without inputs and writes."""
    written = len(plan.logical.steps)
    left = sum(name in plan.logical.steps for name in plan.named())
    return f"{left} of " * (left != written) + plural(written, "step")


def _large(steps: Steps) -> list[str]:
    parts = (part for s in steps.values() for read in s["store"] for part in read.get("large", ()))
    return [f"nearest in {part}" for part in dict.fromkeys(parts)]


def _left_out(columns: Sequence[Column]) -> list[str]:
    names, json = "; ".join(column.title for column in columns), option("format", "json")
    return [f"not shown, for lack of space: {names} ({json} has them all)"] if names else []


def _estimated(forecast: Forecast | None) -> list[str]:
    """The estimated costs of all steps, and the number of steps with an unbounded number of calls."""
    sums = forecast.total() if forecast is not None else {}
    if forecast is None or (sums["calls"].kind == "exact" and not sums["calls"].value):
        return []
    sent, answered = sums["tokens_in"].text(), sums["tokens_out"].text()
    tokens = "tokens ?" if sent == "?" else f"{sent} + {answered} tokens"
    money = sums["dollars"].text(4, "$") if sums["dollars"].text() != "?" else "$ ?"
    unknown = sum(not amount.known for amount in forecast.calls().values())
    steps, measure = plural(unknown, "step"), option("sample", _ROWS)
    note = f"not estimated: {steps}, whose rows are not known before a run; {measure} measures them"
    return [f"estimated: {_calls(forecast)} · {tokens} · {money}", *([note] if unknown else [])]


def _was(actual: Actual | None) -> list[str]:
    """The costs of a run."""
    if actual is None:
        return []
    did = [step for step in actual.values() if step["operator"]]
    issued, sent, answered = (
        sum(step[name] for step in did) for name in ("calls_issued", "tokens_in", "tokens_out")
    )
    queries = sum(step["round_trips"] for step in actual.values())
    calls = f"{sum(map(_calls_of, did)):,} calls ({issued:,} issued)"
    return [f"was: {calls} · {sent:,} + {answered:,} tokens · {queries:,} store queries"]


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


_SHAPES = {
    "input": ("[/", "/]"), "semantic": ("([", "])"), "store": ("[(", ")]"), "step": ("[", "]"),
}  # fmt: skip


def mermaid(plan: PhysicalPlan) -> str:
    """The steps as a Mermaid flow chart, without inputs and empty steps that no step reads. Semantic
    steps have rounded ends; store reads and writes are cylinders.
    """
    writes = plan.logical.writes
    steps = {step["step"]: step for step in steps_of(plan)}
    read = {name for step in steps.values() for name in step["reads"]} | set(map(of_sink, writes))
    steps = {n: s for n, s in steps.items() if n in read or s["operators"]}
    ids = {name: f"s{i}" for i, name in enumerate(steps)}
    lines = ["flowchart TD"]
    for name, step in steps.items():
        kind = "semantic" if step["semantic"] else "store" if step["store"] else "step"
        left, right = _SHAPES["input" if name in plan.logical.inputs else kind]
        lines.append(f'  {ids[name]}{left}"{name}"{right}')
    lines += [f'  w{i}[("{sink.keyword} {sink.label.name}")]' for i, sink in enumerate(writes)]
    edges = ((source, name) for name, step in steps.items() for source in step["reads"])
    lines += [f"  {ids[source]} --> {ids[name]}" for source, name in edges if source in ids]
    sources = enumerate(map(of_sink, writes))
    lines += [f"  {ids[source]} ==> w{i}" for i, source in sources if source in ids]
    return "\n".join(lines)
