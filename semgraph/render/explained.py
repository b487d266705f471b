"""A plan as an outline of its steps, with estimates and the counts of a recorded run; and as a
Mermaid chart.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rich.cells import cell_len

from semgraph.display import Drawing, command, option
from semgraph.errors import PlanError, among
from semgraph.execution.executor import for_batches
from semgraph.explain.estimates import Amount, Forecast, total
from semgraph.explain.steps import Actual, of_sink, steps_of
from semgraph.formats import models_by_role, plural
from semgraph.logical.node import Node
from semgraph.logical.semantic import Semantic
from semgraph.physical.plan import PhysicalPlan, StoreSearch
from semgraph.render.html import rendered
from semgraph.render.plans import first_sentence
from semgraph.render.tables import GAP, Column, fitting, folded, rows_of

WIDTH = 100
_NUMBERS = ("rows", "CPU", "calls", "tokens", "$")
# The columns; those with the greatest number are dropped first where not all fit.
_HEADS = {"asks": 2, "rows": 1, "CPU": 3, "calls": 0, "tokens": 0, "$": 0, "where": 4, "does": 0}
# Their widths in notebooks.
_PLACES = {
    "step": "10em", "does": "minmax(14em, 1fr)", "asks": "8em", "rows": "5.5em", "CPU": "4em", "calls": "3.5em",
    "tokens": "6.5em", "$": "4.5em", "where": "6em",
}  # fmt: skip
_DOES = 24  # the least width of what steps do
_ROWS = 20  # sample size that a hint suggests
Steps = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class StepLine:
    """A step with its cells by column, and the lines of the plan that it calls."""

    path: str
    depth: int
    cells: Mapping[str, str]
    inner: Sequence[StepLine] = ()
    open: bool = False


def _shown(lines: Iterable[StepLine], *, every: bool = False) -> Iterator[StepLine]:
    for line in lines:
        yield line
        if line.open or every:
            yield from _shown(line.inner, every=every)


@dataclass(frozen=True)
class Outline:
    """The steps of a plan, each with what it does, where, and at what cost.

    Args:
        plan: The plan.
        actual: The counts of a run. Cells are then `estimated / actual`.
        forecast: The estimates.
        batched: The operators whose requests go into batches.
        models: The names of the models by role; they are printed if several answer.
        expand: Steps that are opened: the steps of the plans that they call are lines too.
        full: Whether all steps are opened.
        free: Whether all models cost nothing.
    """

    plan: PhysicalPlan
    actual: Actual = field(default_factory=dict)
    forecast: Forecast | None = None
    batched: Collection[Node] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    expand: Collection[str] = ()
    full: bool = False
    free: bool = False

    @cached_property
    def steps(self) -> Steps:
        """The steps as data, by name."""
        return {step["step"]: step for step in steps_of(self.plan, self.batched, self.models)}

    @cached_property
    def lines(self) -> list[StepLine]:
        """The lines of the plan's own steps. Raises PlanError if a step to open calls no plan."""
        lines = self._lines([*self.steps], "", self.plan.logical.document)
        calling = [line.path for line in _shown(lines, every=True) if line.inner]
        for name in self.expand:
            if name not in calling:
                known = among(name, calling, "steps that call a plan")
                raise PlanError(f'"{name}" is no step that calls a plan', **known)
        return lines

    def _lines(self, names: Sequence[str], prefix: str, document: Any) -> list[StepLine]:
        """The lines of some steps below a prefix, in the order of their plan."""
        order = [*(document.get("inputs") or ()), *(document.get("steps") or ())]
        groups: dict[str, list[str]] = {f"{prefix}{name}": [] for name in order}
        for name in names:
            groups.setdefault(prefix + name[len(prefix) :].partition("/")[0], []).append(name)
        inputs = self.plan.logical.inputs
        return [
            self._line(path, own, prefix.count("/"))
            for path, own in groups.items()
            if any(prefix or name in inputs or self.steps[name]["operators"] for name in own)
        ]

    def _line(self, path: str, names: Sequence[str], depth: int) -> StepLine:
        if [*names] == [path]:
            step = self.steps[path]
            name = path.rpartition("/")[2]
            cells = {"step": name, "asks": _asks(step), "does": self._does(step)}
            return StepLine(path, depth, cells | self._numbers(names, path))
        call = self.plan.logical.called[path]
        own = [self._line(path, [path], depth + 1)] if path in names else []
        inside = [name for name in names if name != path]
        asking = [name.rpartition("/")[2] for name in names if self.steps[name]["semantic"]]
        name = path.rpartition("/")[2] + (f" = {call.by}" if call.by else "")
        cells = {"step": name, "asks": ", ".join(dict.fromkeys(asking))}
        cells["does"] = first_sentence(doc) if (doc := call.document.get("doc")) else ""
        results = {node.step: name for name, node in call.results.items()}
        result = next((step for step in results if step in self.steps), "")
        numbers = self._numbers(names, result)
        if len(call.results) > 1 and numbers["rows"] not in {"", "?"}:
            numbers["rows"] += f" {results[result]}"
        inner = [*own, *self._lines(inside, f"{path}/", call.document)]
        opened = self.full or any(f"{name}/".startswith(f"{path}/") for name in self.expand)
        return StepLine(path, depth, cells | numbers, inner, opened)

    def _numbers(self, names: Sequence[str], result: str) -> dict[str, str]:
        """The costs of some steps together, the rows of their result, and where they run."""
        steps = [self.steps[name] for name in names]
        expected = {} if self.forecast is None else _expected(self.forecast.cost(names))
        counted = _counted([self.actual[name] for name in names if name in self.actual])
        if result and self.forecast is not None:
            expected["rows"] = self.forecast.of(result)["rows"].text()
        if (rows := self.actual.get(result, {}).get("rows_out")) is not None:
            counted["rows"] = f"{rows:,}"
        runs = {
            "model": any(step["semantic"] for step in steps),
            "embedder": any(step["embeds"] for step in steps),
            "store": any(step["store"] or self._written(step) for step in steps),
            "DuckDB": any(one["why"] for step in steps for one in step["segments"]),
            "in order": self.plan.logical.windows is not None
            and any(step["part"] == "ordered" for step in steps),
        }
        both = {head: filter(None, (expected.get(head), counted.get(head))) for head in _NUMBERS}
        numbers = {head: " / ".join(texts) for head, texts in both.items()}
        return numbers | {"where": ", ".join(name for name, here in runs.items() if here)}

    def _written(self, step: Mapping[str, Any]) -> list[str]:
        writes = self.plan.logical.writes
        return [f"{s.keyword} {s.label.name}" for s in writes if of_sink(s) == step["step"]]

    def _does(self, step: Mapping[str, Any]) -> str:
        """A step in words: its operators, and what they ask, read and write."""
        asked = ", ".join(f"{each['prompt']}{_by_use(each)}" for each in step["semantic"])
        others = [name for name in step["operators"] if not name.startswith("sem_")]
        written = self._written(step)
        listed = step.get("loops", ())
        named = ((loop["rounds"], " → ".join([loop["as"], *loop["do"]])) for loop in listed)
        loops = [f"iterate ≤ {rounds:,} rounds: {steps}" for rounds, steps in named]
        parts = [
            "input" if step["step"] in self.plan.logical.inputs else "",
            f"asks {asked}" if asked else "",
            "" if step["store"] or loops else " → ".join(others),
            *_reads(step),
            *loops,
            f"from {', '.join(step['reads'])}" if step["reads"] else "",
            f"→ {', '.join(written)}" if written else "",
        ]
        return " · ".join(filter(None, parts))

    def _columns(self, *, every: bool = False) -> list[Column]:
        """The columns of the lines, without empty ones; what steps do is the last."""
        lines = [*_shown(self.lines, every=every)]
        steps = ["  " * line.depth + line.cells["step"] for line in lines]
        columns = [
            Column(head, [line.cells[head] for line in lines], head in _NUMBERS, drop=drop)
            for head, drop in _HEADS.items()
        ]
        filled = [c for c in columns if not {"", "?"}.issuperset(c.cells) or c.title == "does"]
        return [Column("step", steps), *filled]

    def drawn(
        self,
        rules: Sequence[str] = (),
        width: int = WIDTH,
        note: str = "",
        more: Sequence[str] = (),
    ) -> Drawing:
        """The outline as text, and for notebooks as foldable HTML; with the rules that acted, a note
        on the run, and more lines.
        """
        *columns, does = self._columns()
        fitted, widths = fitting(columns, width - _DOES - GAP, whole=True)
        left = max(_DOES, width - sum(widths) - GAP * len(widths))
        does = Column("does", [_clauses(text, left) for text in does.cells])
        places = [widths[0], min(does.width, left), *widths[1:]]
        table = [line.plain for line in rows_of([fitted[0], does, *fitted[1:]], places)]
        head = _head(self.plan, width, self.batched)
        acting = {line.path for line in self.lines}
        idle = [s for s in self.plan.logical.document.get("steps") or () if s not in acting]
        about = [
            *([f"nothing to do: {', '.join(idle)}"] if idle else []),
            *_of_schema(self.plan),
            *_large(self.steps),
            *(["models: " + models_by_role(self.models)] if len({*self.models.values()}) > 1 else ()),
            *_estimated(self.forecast, free=self.free),
            *_was(self.actual),
            *([f"! {note}"] if note else []),
            *(["rewrites: " + ", ".join(rules)] if rules else []),
        ]  # fmt: skip
        inside = [line for line in self.lines if line.inner and not line.open]
        inside.sort(key=lambda line: not line.cells["asks"])
        hints: list[str] = []
        if inside:
            shell = f"--expand {inside[0].path}; everything: --full"
            python = f'expand=["{inside[0].path}"]; everything: full=True'
            hints = [f"inside a step: {command(shell, python)}"]
        hints += _left_out([column for column in columns if column not in fitted])
        result = Drawing("\n".join([*head, *table, *about, *hints, *more]))
        titles = [column.title for column in self._columns(every=True)]
        outline = {"heads": ["step", "does", *titles[1:-1]], "lines": self.lines, "widths": _PLACES}
        outline["numbers"] = _NUMBERS
        below = [*about, *more]
        result.html = rendered("notebook.html.j2", first=head, outline=outline, lines=below)
        return result


def _clauses(text: str, width: int) -> str:
    """The first clauses of a text, as many as fit, and `…` for the rest; unless these are short."""
    ends = [match.start() for match in re.finditer(r"[,:;] | · ", text[: width - 1])]
    cut = cell_len(text) > width and ends[-1:] > [width // 3]
    return f"{text[: ends[-1]]} …" if cut else text


def _expected(estimate: Mapping[str, Amount]) -> dict[str, str]:
    if not estimate:
        return {}
    calls, sent, answered = (estimate[n] for n in ("calls", "tokens_in", "tokens_out"))
    texts = {"calls": calls.text()}
    if calls.value or not calls.known:
        said = answered.text()
        tokens = f"{sent.text()}+{said[2:] if said[:2] == sent.text()[:2] else said}"
        texts |= {"tokens": tokens if sent.known else "?", "$": estimate["dollars"].text(4)}
    return texts


def _counted(did: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The counts of a run: calls, tokens and dollars, and the time of relational segments, which in a
    run of few rows is their CPU time.
    """
    asked = [step for step in did if step["operator"]]
    seconds = sum(step["seconds"] for step in did if not (step["operator"] or step["embeddings"]))
    text = f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"
    texts = {"CPU": text} if seconds else {}
    if calls := sum(map(_calls_of, asked)):
        sent, answered = (sum(step[name] for step in asked) for name in ("tokens_in", "tokens_out"))
        paid = [step["dollars"] for step in asked]
        money = "—" if None in paid else Amount(sum(paid), "exact").text(4)
        texts |= {"calls": f"{calls:,}", "tokens": f"{sent:,}+{answered:,}", "$": money}
    return texts


def _calls_of(did: Mapping[str, Any]) -> int:
    return int(did["calls_issued"] + did["calls_journal"] + did["calls_coalesced"])


def _reads(step: Mapping[str, Any]) -> list[str]:
    parts = []
    for read in step["store"]:
        over = " ∪ ".join(read["over"]) if isinstance(read["over"], list) else read["over"]
        by = f" by {' + '.join(read['by'])}, k {read['k']}" if "by" in read else ""
        shares = f", one query with {', '.join(read['shares'])}" if "shares" in read else ""
        everyone = ", of all partitions" if read["partition"] == "all" else ""
        if "or all" in read["partition"]:
            everyone = ", of all partitions where none are named"
        parts.append(f"{read['kind']} {over}{by}{shares}{everyone}")
    return parts + [f"embed {text}" for text in step["embeds"]]


def _asks(step: Mapping[str, Any]) -> str:
    """The implementations of a step; for clusters, the algorithms."""
    hows = [f"{s['operator']} {s['how']}" for s in step["semantic"]]
    return ", ".join(hows + [f"cluster {c['algorithm']}{_by_use(c)}" for c in step["clusters"]])


def _by_use(each: Mapping[str, Any]) -> str:
    """The origin of an implementation, and the model of a prompt, unless they are defaults."""
    role = each.get("role", "default")
    told = {"by use": each["why"] == "use", role: role != "default", "batch": "batch" in each}
    notes = [note for note, holds in told.items() if holds]
    return f" ({', '.join(notes)})" if notes else ""


def _of_schema(plan: PhysicalPlan) -> list[str]:
    schema = plan.logical.schema_write
    if schema is None:
        return []
    drops = " drops the indexes that bear its names, then" if schema.drop else ""
    return [f"schema:{drops} makes what the graph needs and the store lacks, before the run"]


def _head(plan: PhysicalPlan, width: int, batched: Collection[Node]) -> list[str]:
    logical = plan.logical
    rounds = len({search.group for search in plan.of_kind(StoreSearch)})
    semantic = sum(isinstance(node, Semantic) for node in plan.nodes)
    searches = plural(rounds, "search", "searches")
    parts = [logical.name, _steps(plan), f"{semantic} semantic", searches]
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


def _estimated(forecast: Forecast | None, *, free: bool) -> list[str]:
    """The estimated costs of all steps, and the number of steps with an unbounded number of calls."""
    sums = forecast.total() if forecast is not None else {}
    if forecast is None or (sums["calls"].kind == "exact" and not sums["calls"].value):
        return []
    sent, answered = sums["tokens_in"].text(), sums["tokens_out"].text()
    tokens = "tokens ?" if sent == "?" else f"{sent} + {answered} tokens"
    money = sums["dollars"].text(4, "$") if sums["dollars"].text() != "?" else "$ ?"
    money = "free" if free else money
    unknown = sum(not amount.known for amount in forecast.calls().values())
    steps, measure = plural(unknown, "step"), option("sample", _ROWS)
    note = f"not estimated: {steps}, whose rows are not known before a run; {measure} measures them"
    return [f"estimated: {_calls(forecast)} · {tokens} · {money}", *([note] if unknown else [])]


def _was(actual: Actual) -> list[str]:
    """The costs of a run."""
    if not actual:
        return []
    did = [step for step in actual.values() if step["operator"]]
    names = ("calls_issued", "tokens_in", "tokens_out")
    issued, sent, answered = (sum(step[name] for step in did) for name in names)
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
