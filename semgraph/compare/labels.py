"""Labels of the rows that a plan returns: grades of ranked rows, or true answers, and the plan that
judges answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Self

import pyarrow as pa

from semgraph.compare.comparison import Measured, Quality, with_differences
from semgraph.compare.request import ArmRequest, ComparisonRequest
from semgraph.compare.trial import Attempt, Attempts, Bench, Ledger, OpenedArm, Snapshot
from semgraph.compare.truth import names_of, paths, read_columns, with_flags
from semgraph.display import option
from semgraph.errors import BudgetReached, PlanError, did_you_mean
from semgraph.execution.outcome import ExecutorOptions
from semgraph.execution.result import result_table
from semgraph.execution.runtime import require_prices
from semgraph.expr.types import Type
from semgraph.extras import lacking
from semgraph.frontend.rows import check_rows
from semgraph.logical.node import Node
from semgraph.logical.plan import InputSpec, LogicalPlan
from semgraph.provenance import as_text
from semgraph.scores import Tally, exact_match, ranking, word_f1

GRADE, BY_HAND = "grade", "judged"
Query = Hashable  # the values of the columns that name it
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Labels:
    """The labels of a returned table."""

    table: str
    asked: tuple[str, ...]  # the columns that name a query; an input has them too
    item: str  # the column of the graded key, or of the answer
    queries: Mapping[Query, Mapping[str, int]]  # grades by key, or true answers
    given: Mapping[Query, Mapping[str, Any]]  # the input row of each query
    by_hand: Mapping[Query, bool]  # a person's verdicts on the answers of the reference
    at: tuple[int, ...]  # the values of k; empty for answers
    columns: set[str]  # of the answers that are judged
    notes: list[str]

    def found(self, tables: Mapping[str, pa.Table]) -> list[Rows]:
        """The returned rows of each query, by `rank` if they have one."""
        rows, table = defaultdict[Query, Rows](list), tables[self.table]
        if "rank" in table.column_names:
            table = table.sort_by("rank")
        for query, row in zip(names_of(table, self.asked), table.to_pylist(), strict=True):
            rows[query].append(row)
        return [rows[query] for query in self.queries]

    def _measured(self, attempt: Attempt) -> Mapping[str, Sequence[float]]:
        """The value of each query by each measure."""
        found = [[_text(row[self.item]) for row in own] for own in self.found(attempt.tables)]
        labels = list(self.queries.values())
        if self.at:
            return ranking(labels, found, self.at)
        values = {"judged": attempt.verdicts} if attempt.verdicts else {}
        for name, of in {"word F1": word_f1, "exact match": exact_match}.items():
            values[name] = [
                fmean([max(of(answer, true) for true in truths) for answer in own] or [0.0])
                for own, truths in zip(found, labels, strict=True)
            ]
        return values

    def scored(self, attempts: Attempts, reference: str) -> dict[str, Quality]:
        """The quality of each variant: means over queries, which are drawn with all their trials."""
        values = {name: list(map(self._measured, own)) for name, own in attempts.items()}
        found: dict[str, dict[str, Quality]] = {name: {} for name in values}
        for of in next((list(own[0]) for own in values.values() if own), []):
            tallies = {
                name: [self._tally(trial[of]) for trial in own] for name, own in values.items()
            }
            plain = {name: Quality.of(own) for name, own in tallies.items()}
            for name, quality in with_differences(plain, tallies, reference).items():
                found[name] |= {of: quality} if quality.f1 is not None else {}
        result = {}
        for name, own in found.items():
            measures = {of: Measured(q.f1, q.interval, q.difference) for of, q in own.items()}
            first = next(iter(own.values()), Quality())
            result[name] = replace(first, f1=None, precision=None, recall=None, measures=measures)
        return result

    def _tally(self, values: Sequence[float]) -> Tally:
        return {query: (value, 1, 1) for query, value in zip(self.queries, values, strict=True)}

    def agreement(self, trials: Sequence[Attempt], reference: str) -> list[str]:
        """A note on the agreement of the judge with verdicts by hand on the reference."""
        said = [dict(zip(self.queries, t.verdicts, strict=True)) for t in trials if t.verdicts]
        hand = {q: right for q, right in self.by_hand.items() if q in self.queries}
        same = Quality.of([{q: (own[q] == hand[q], 1, 1) for q in hand} for own in said])
        ends = " [{:.3f} {:.3f}]".format(*same.interval) if same.interval else ""
        what = f"the judge agrees with {len(hand)} verdicts by hand on {reference}: "
        return [] if same.f1 is None else [f"{what}{same.f1:.3f}{ends}"]


def _text(value: Any) -> str:
    return "" if value is None else as_text(value)


def read_labels(request: ComparisonRequest) -> Labels:
    """The labels of a request: rows, a file, or `TABLE=FILE`; or by table, in a mapping.

    Raises:
        PlanError: They fit no returned table, or no query.
        InputError: A grade is not a whole number.
    """
    value, name = request.labels, ""
    if isinstance(value, Mapping) and len(value) == 1:
        ((name, value),) = value.items()
    elif isinstance(value, str) and "=" in value:
        name, _, value = value.partition("=")
    source = str(value) if isinstance(value, (str, Path)) else "the table of labels"
    rows, columns = read_columns(value, source)
    graded, flags = GRADE in columns, [BY_HAND] if BY_HAND in columns else []
    if graded and (reason := lacking("measures")):
        raise PlanError(f"{source} cannot be used: {reason}")
    own = [column for column in columns if column not in (GRADE, BY_HAND)]
    table, node = _table(request, own, name, source)
    given, asked, item = _split(request, own, source)
    kinds = {n: replace(k, nullable=n == item) for n, k in paths(node.schema) if n in own}
    kinds |= {GRADE: Type("int64")} if graded else {}
    kinds |= {flag: Type("boolean", nullable=True) for flag in flags}
    spec = InputSpec("labels", tuple(kinds.items()))
    typed = check_rows(spec, with_flags(rows, columns, flags), source=source)
    queries, by_hand = defaultdict[Query, dict[str, int]](dict), dict[Query, bool]()
    for query, row in zip(names_of(typed, asked), typed.to_pylist(), strict=True):
        key, grade = _text(row[item]), row.get(GRADE, 1)
        if queries[query].setdefault(key, grade) != grade:
            raise PlanError(f'{source} has two grades of "{key}" for {query}')
        by_hand |= {query: row[BY_HAND]} if row.get(BY_HAND) is not None else {}
    of_query = dict(zip(names_of(given, asked), given.to_pylist(), strict=True))
    useless = {query for query, grades in queries.items() if max(grades.values()) < 1}
    scored = {q: of for q, of in queries.items() if q in of_query and q not in useless}
    if not scored:
        what = f"{source} has no label{' above 0' * graded} for the {len(of_query):,} queries that are asked"
        of, asks = (
            ", ".join(map(_text, next(iter(q), ("no query",)))) for q in (queries, of_query)
        )
        raise PlanError(what, there=f'it has "{of}"; the first that is asked is "{asks}"')
    unscored = {
        "labelled queries that are not asked": queries.keys() - of_query,
        "queries without a label": of_query.keys() - queries,
        "queries without a grade above 0": useless,
    }
    notes = [f"{what}, not scored: {len(each):,}" for what, each in unscored.items() if each]
    at = _cutoffs(request.at) if graded else ()
    known = {"id", "answer", "truth", *node.schema.names, *given.column_names}
    return Labels(table, asked, item, scored, of_query, by_hand, at, known, notes)


def _cutoffs(at: str | Sequence[int]) -> tuple[int, ...]:
    """The values of k. Raises PlanError."""
    texts = [text.strip() for text in str(at).strip("[]()").split(",") if text.strip()]
    if not texts or not all(text.isdecimal() and int(text) for text in texts):
        raise PlanError(f"at is {at!r}", hint=f"numbers from 1: {option('at', '1,5,10')}")
    return tuple(map(int, texts))


def _table(
    request: ComparisonRequest, own: Sequence[str], name: str, source: str
) -> tuple[str, Node]:
    """The only table with some columns that all variants return alike. Raises PlanError."""
    first, *others = (arm.plan.returns for arm in request.arms.values())
    alike = (t for t, n in first.items() if all(t in o and o[t].schema == n.schema for o in others))
    nodes = {table: first[table] for table in alike}
    fits = [t for t, n in nodes.items() if {*own} <= {*n.schema.names} and name in ("", t)]
    if len(fits) == 1:
        return fits[0], nodes[fits[0]]
    known = [column for node in nodes.values() for column in node.schema.names]
    near = next((did_you_mean(n, known) for n in own if n not in known), None)
    shown = [f"{t} ({', '.join(n.schema.names)})" for t, n in nodes.items()]
    raise PlanError(
        f"{source} fits {'several returned tables' if fits else 'no returned table'}",
        there=f"it has {', '.join(own)}; all variants return {'; '.join(shown) or 'no table alike'}",
        hint=f"name the table: {option('labels', f'{fits[0]}=FILE')}" if fits else near,
    )


def _split(
    request: ComparisonRequest, own: Sequence[str], source: str
) -> tuple[pa.Table, tuple[str, ...], str]:
    """The input with the most of some columns but one, these, and that one. Raises PlanError."""

    def has(table: pa.Table) -> list[int]:
        flags = [name in table.column_names for name in own]
        return [not all(flags), sum(flags), *flags]

    given = max(request.inputs.values(), key=has, default=pa.table({}))
    items = [name for name in own if name not in given.column_names] or own[1:][-1:]
    asked = tuple(name for name in own if name not in items)
    if not asked or len(items) != 1:
        what = f"{source} needs columns of an input, which name a query, and one more: a row's key, or the answer"
        there = f"it has {', '.join(own)}; the input has {', '.join(given.column_names) or 'none'}"
        raise PlanError(what, there=there)
    return given, asked, items[0]


@dataclass(frozen=True)
class Judge:
    """A plan that says which answers are right, in a returned table with `correct`; other columns, the
    key, name the answer.
    """

    bench: Bench
    arm: OpenedArm
    labels: Labels
    table: str
    key: Sequence[str]

    @classmethod
    def of(cls, bench: Bench, plan: LogicalPlan, labels: Labels) -> Self:
        """Check the plan. Raises PlanError."""
        columns = [column for spec in plan.inputs.values() for column in spec.columns]
        wanted = {name for name, kind in columns if not kind.nullable} - labels.columns
        correct = pa.field("correct", pa.bool_())
        tables = [t for t, n in plan.returns.items() if correct in list(n.schema)]
        key = [
            name for name, _ in columns if tables and name in plan.returns[tables[0]].schema.names
        ]
        for what, holds in {
            "the labels are grades, not answers": bool(labels.at),
            "it needs one input, answers": list(plan.inputs) != ["answers"],
            f"answers have no {', '.join(sorted(wanted))}": bool(wanted),
            "it must return one table with correct, a boolean": len(tables) != 1,
            "the table with correct must have columns of answers": not key,
            "it must not use the store": plan.uses_store,
        }.items():
            if holds:
                raise PlanError(f"plan {plan.name} cannot judge: {what}")
        opened = bench.opened
        require_prices(plan, opened.budget, opened.llm, opened.embedder)
        asked = ArmRequest({}, plan, {}, bench.record.runner)
        return cls(bench, OpenedArm("judge", asked, opened), labels, tables[0], key)

    async def verdicts(self, tables: Mapping[str, pa.Table], ledger: Ledger) -> list[float]:
        """The share of right answers of each query. An answer without a verdict is not right.

        Raises:
            BudgetReached: A limit was reached; the journal has the answers.
        """
        bench, arm, spec = self.bench, self.arm, self.arm.plan.inputs["answers"]
        found, rows, each = self.labels.found(tables), Rows(), self.labels.queries.items()
        for (query, truths), own in zip(each, found, strict=True):
            for row in own:
                asked = {"answer": _text(row[self.labels.item]), "truth": " or ".join(truths)}
                whole = {**self.labels.given[query], **row, **asked, "id": str(len(rows))}
                rows.append({name: whole.get(name) for name, _ in spec.columns})
        inputs = {"answers": check_rows(spec, rows)}
        arm = arm._replace(request=replace(arm.request, inputs=inputs))
        async with Snapshot(arm.plan.graph, {}).copy() as store:
            physical = bench.compiled(arm, store)
            options = ExecutorOptions("judge", arm.opened.now)
            outcome, _, _ = await bench.run(arm, physical, store, ledger, options)
        if outcome.stopped:
            raise BudgetReached(outcome.stopped)
        said = result_table(arm.plan.returns[self.table], outcome.tables.get(self.table, []))
        right = set(names_of(said.filter(said.column("correct")), self.key))
        verdicts = iter([name in right for name in names_of(inputs["answers"], self.key)])
        return [fmean([next(verdicts) for _ in own] or [0.0]) for own in found]
