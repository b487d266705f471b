"""Whole plans with other implementations of their steps, or other called plans, each run in a
separate copy of the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from itertools import chain
from statistics import fmean
from typing import Any

from semgraph.compare.comparison import GraphDifference, Quality, with_differences
from semgraph.compare.labels import Judge, read_labels
from semgraph.compare.preview import of_plan, plans_preview
from semgraph.compare.trial import Attempt, Attempts, Bench, Ledger, checked, known_rows
from semgraph.compare.truth import RowAnswers, comparable, graph_of, read_graph_truth
from semgraph.diff import ENDS, UNCOMPARED, Change, Diff
from semgraph.display import option
from semgraph.errors import BudgetReached, PlanError
from semgraph.execution.outcome import ExecutorOptions
from semgraph.execution.result import result_table
from semgraph.explain.estimates import how_long
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import python_rows
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.prompt import plain
from semgraph.logical.schema import Draw
from semgraph.scores import GraphScore, Score, ScoredGraph, score_graph, tally
from semgraph.stores.base import ScanQuery, Store

_CHANGES = 200  # rows of a difference that a record keeps


class PlanArms:
    """Variants of a whole plan over the same inputs. Raises PlanError if the truth, the labels or the
    judge are wrong.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench, plan, request = bench, bench.request.plan, bench.request
        self.reference = next(iter(bench.arms))
        if request.truth is not None and not plan.writes:
            what = f"plan {plan.name} writes no graph to compare with a true one"
            hint = f"what it returns is compared with {option('labels', 'FILE')}, a step of it with a truth"
            raise PlanError(what, hint=hint)
        self.truth = None if request.truth is None else read_graph_truth(request.truth)
        self.labels = None if request.labels is None else read_labels(request)
        self.notes = self.labels.notes if self.labels else []
        judge, labels = request.judge, self.labels
        self.judge = Judge.of(bench, judge, labels) if judge and labels else None
        self.times: dict[str, datetime] = {}
        for arm in bench.arms.values():
            bench.record.asks(arm.opened, arm.plan.needs.roles)

    async def prepare(self, *, pays: bool = True) -> list[str]:
        """Check all plans, and return the lines to print before the trials."""
        bench = self.bench
        await bench.read(pays=pays)
        async with bench.copy(bench.base) as scratch:
            compiled = partial(bench.compiled, store=scratch)
            physical = checked({name: partial(compiled, arm) for name, arm in bench.arms.items()})
        expected = {n: bench.forecast(bench.arms[n], each) for n, each in physical.items()}
        self.estimates = [of_plan(name, each) for name, each in expected.items()]
        judge, labels = bench.request.judge, self.labels
        of = f"the answers to {len(labels.queries)} queries" if labels else ""
        judging = [f"  after each trial plan {judge.name} judges {of}"] if judge else []
        models = ((f, bench.arms[n].opened.llm) for n, f in expected.items())
        calls = chain.from_iterable(f.calls_by_model(llm) for f, llm in models)
        seen = expected[self.reference].estimator.seen
        trials = ((model, each.times(bench.request.trials)) for model, each in calls)
        lines = [*plans_preview(expected, bench.opened.budget), f"  {how_long(trials, seen)}"]
        return [*filter(str.strip, lines), *judging]

    async def ready(self, _ledger: Ledger) -> None:
        """Do nothing: each trial computes its vectors."""

    async def attempt(self, name: str, number: int, ledger: Ledger) -> Attempt:
        """Run one trial of a plan in a copy of the store."""
        bench, arm = self.bench, self.bench.arms[name]
        plan, clock = arm.plan, arm.opened.now

        def now(of: str) -> datetime:
            """The same time in all trials, so that graphs do not differ in it."""
            return self.times.setdefault(of, clock(of))

        options = ExecutorOptions("comparison", now, again=True)
        async with bench.copy(arm) as store:
            physical = bench.compiled(arm, store)
            outcome, _, seconds = await bench.run(arm, physical, store, ledger, options, number)
            if outcome.stopped:
                raise BudgetReached(outcome.stopped)
            failed = len(outcome.failed_rows) if plan.windows else len(outcome.failures)
            known = None if ledger.replayed or ledger.known else seconds
            trial = ledger.trial(number, known, outcome.failures, failed=failed)
            tables = {
                returned: result_table(node, outcome.tables.get(returned, []))
                for returned, node in plan.returns.items()
            }
            judge = self.judge and partial(self.judge.verdicts, tables)
            verdicts = await bench.pays(judge) if judge else ()
            graph = await graph_of(store, plan) if plan.writes else None
            rows = await written_rows(store, plan) if number == 0 else {}
            return Attempt(trial, graph, tables, verdicts, rows)

    def scored(self, attempts: Attempts) -> dict[str, Quality]:
        """The quality of each plan."""
        if self.labels is not None:
            self.notes += self.labels.agreement(attempts[self.reference], self.reference)
            return self.labels.scored(attempts, self.reference)
        return of_plans(attempts, self.reference, self.truth)

    def graphs(self, attempts: Attempts) -> dict[str, GraphDifference]:
        """How the graph of each plan differs from that of the reference, in their first trials."""
        states = {name: own[0].rows for name, own in attempts.items() if own and own[0].rows}
        base = states.pop(self.reference, None)
        graph = self.bench.request.plan.graph
        return {
            name: difference(name, self.reference, Diff.between(base, rows, graph))
            for name, rows in states.items()
            if base is not None
        }

    def facts(self) -> dict[str, Any]:
        """The further fields of the result."""
        rows = {name: table.num_rows for name, table in self.bench.request.inputs.items()}
        copied = self.bench.source.count
        labelled = len(self.labels.queries) if self.labels else None
        frozen = {"rows": rows, "copied": copied, "labelled": labelled}
        return {"frozen": frozen, "notes": (*self.notes, *known_rows(self.bench))}


def of_plans(attempts: Attempts, reference: str, truth: ScoredGraph | None) -> dict[str, Quality]:
    """The quality of each variant of a whole plan: of the graph that it wrote, or of the rows that
    it returned. Without a truth it is agreement with the reference, trial by trial.
    """
    base = attempts[reference]
    if truth is None:
        others = {n: _alike(own, base) for n, own in attempts.items() if n != reference}
        return {reference: Quality(), **others}
    scores = {
        name: [score_graph(comparable(each.graph, truth), truth) for each in own if each.graph]
        for name, own in attempts.items()
    }
    tallies = {name: [each.tally for each in own] for name, own in scores.items()}
    graded = {name: _graded(own) for name, own in scores.items()}
    return with_differences(graded, tallies, reference, independent=False)


def _alike(attempts: Sequence[Attempt], reference: Sequence[Attempt]) -> Quality:
    """The agreement of the graphs with those of the reference; without graphs, of the rows."""
    pairs = list(zip(attempts, reference, strict=False))
    graphs = [(a.graph, b.graph) for a, b in pairs if a.graph and b.graph]
    if graphs:
        return _graded([score_graph(*pair) for pair in graphs])
    return Quality.of([tally(returned_rows(a), returned_rows(b)) for a, b in pairs])


def _graded(scores: Sequence[GraphScore]) -> Quality:
    """The quality with the measures of nodes and times, averaged over the trials."""

    def mean(parts: Iterable[Score | None]) -> float | None:
        known = [part.f1 for part in parts if part is not None and part.f1 is not None]
        return fmean(known) if known else None

    edges = Quality.of([s.tally for s in scores], independent=False)
    names = ("pairs", "b_cubed", "validity", "ended")
    nodes: dict[str, Any] = {name: mean(getattr(s, name) for s in scores) for name in names}
    return replace(edges, **nodes)


def returned_rows(attempt: Attempt) -> RowAnswers:
    """Returned rows, each as the answer of a separate unit: the table and all values."""
    result: dict[Hashable, Counter[Hashable]] = {}
    for name, table in attempt.tables.items():
        for row in table.to_pylist():
            result.setdefault((name, canonical_json(plain(row))), Counter())[()] += 1
    return result


async def written_rows(store: Store, plan: LogicalPlan) -> dict[str, dict[str, Any]]:
    """The rows of the labels that a plan writes, and of the nodes at the ends of its edges."""
    labels = plan.graph.labels
    names = dict.fromkeys(sink.label.name for sink in plan.writes)
    names |= {end: None for n in names for end in (labels[n].source, labels[n].target) if end}
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        columns = [prop for prop in labels[name].columns if prop not in labels[name].derived]
        rows = python_rows(await store.scan(ScanQuery(name, columns)))
        found[name] = {row[plan.graph.key]: row for row in rows}
    return found


def difference(variant: str, reference: str, diff: Diff) -> GraphDifference:
    """The difference of two graphs without rows that say the same under other keys, and its counts."""
    changes = [*_without_equal(diff)]
    words = {"+": f"only in {variant}", "-": f"only in {reference}"}
    counts: dict[str, Counter[str]] = {"nodes": Counter(), "edges": Counter()}
    for change in changes:
        values = [*change.before.values(), *change.after.values()]
        times = all(value is None or isinstance(value, date) for value in values)
        other = f"with other {'times' if times else 'properties'}"
        counts["edges" if change.ends else "nodes"][words.get(change.sign, other)] += 1
    reasons = (", ".join(f"{sign} {what}" for sign, what in words.items()),)
    listed = replace(diff, changes=tuple(changes[:_CHANGES]), reasons=reasons)
    return GraphDifference(
        listed, len(changes[_CHANGES:]), {n: own for n, own in counts.items() if own}
    )


def _without_equal(diff: Diff) -> Iterator[Change]:
    """The changes, in which a gone and a new row of equal label, names of ends and text are one row,
    changed if other properties differ.
    """
    gone: dict[Hashable, list[Change]] = {}
    for change in diff.changes:
        if change.sign == "-":
            gone.setdefault(_said(diff, change), []).append(change)
    for change in diff.changes:
        same = gone.get(_said(diff, change)) if change.sign == "+" else None
        if change.sign == "~" or same:
            old = same.pop(0).row if same else {**change.row, **change.before}
            yield from _changed(diff, change, old)
        elif change.sign == "+":
            yield change
    yield from (change for own in gone.values() for change in own)


def _said(diff: Diff, change: Change) -> Hashable:
    """What a row says, whatever its key."""
    draw = diff.draws.get(change.label, Draw())
    ends = [diff.names.get(end, end) for end in change.ends or ()]
    texts = [change.row.get(prop) for prop in ((draw.edge, draw.text) if ends else (draw.node,))]
    key = "" if ends or any(texts) else change.key
    return (change.label, change.partition, key, *ends, *texts)


def _changed(diff: Diff, change: Change, old: Mapping[str, Any]) -> Iterator[Change]:
    """The row as changed, if it differs in more than the keys of its ends."""
    before, after = (
        {n: diff.names.get(v, v) if n in ENDS else v for n, v in row.items() if n not in UNCOMPARED}
        for row in (old, change.row)
    )
    names = [n for n in {**before, **after} if before.get(n) != after.get(n)]
    if names:
        was, now = ({name: row.get(name) for name in names} for row in (old, change.row))
        yield replace(change, sign="~", before=was, after=now)
