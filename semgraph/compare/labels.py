"""Labels of the rows that a plan returns: grades of ranked rows, or true answers, and a plan that judges
answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Self

import pyarrow as pa

from semgraph.compare.comparison import Measured, Quality, range_of, spread, with_range
from semgraph.compare.request import ComparisonRequest
from semgraph.compare.trial import Attempts, Bench, Ledger, OpenedArm
from semgraph.compare.truth import names_of, paths, read_columns, with_flags
from semgraph.display import option
from semgraph.errors import BudgetReached, PlanError, Problem, did_you_mean
from semgraph.execution.outcome import ExecutorOptions
from semgraph.execution.result import result_table
from semgraph.expr.types import Type
from semgraph.extras import lacking
from semgraph.frontend.rows import check_rows
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import InputSpec
from semgraph.logical.prompt import plain
from semgraph.provenance import as_text
from semgraph.scores import exact_match, holm, mean, mean_difference, ranking, word_f1

GRADE, BY_HAND = "grade", "judged"
Query = Hashable  # the values of the columns that name it
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Labels:
    """The labels of a returned table.

    Args:
        table: The table.
        node: The operator that returns it.
        asked: The columns that name a query; an input has them too.
        item: The column of the graded key, or of the answer.
        queries: The labelled queries that are asked, each with the grades by key, or the true answers.
        given: The input row of each query.
        by_hand: A person's verdicts on the answers of the reference.
        at: The values of k; empty for answers.
        notes: Notes on what is not scored.
    """

    table: str
    node: Node
    asked: tuple[str, ...]
    item: str
    queries: Mapping[Query, Mapping[str, int]]
    given: Mapping[Query, Mapping[str, Any]]
    by_hand: Mapping[Query, bool]
    at: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    def found(self, tables: Mapping[str, pa.Table]) -> list[Rows]:
        """The returned rows of each query, by `rank` if they have one."""
        rows, table = defaultdict[Query, Rows](list), tables[self.table]
        for query, row in zip(names_of(table, self.asked), table.to_pylist(), strict=True):
            rows[query].append(plain(row))
        for own in rows.values() if "rank" in table.column_names else ():
            own.sort(key=lambda row: (row["rank"] is None, row["rank"]))
        return [rows[query] for query in self.queries]

    def _measured(self, tables: Mapping[str, pa.Table], verdicts: Sequence[float]) -> _Values:
        """The value of each query by each measure."""
        found = [[_text(row[self.item]) for row in rows] for rows in self.found(tables)]
        labels = list(self.queries.values())
        if self.at:
            return ranking(labels, found, self.at)
        return ({"judged": verdicts} if verdicts else {}) | {
            name: [
                fmean([max(of(own, true) for true in truths) for own in answers] or [0.0])
                for answers, truths in zip(found, labels, strict=True)
            ]
            for name, of in {"word F1": word_f1, "exact match": exact_match}.items()
        }

    def scored(self, attempts: Attempts, reference: str) -> dict[str, Quality]:
        """The quality of each variant: means over queries, each averaged over the trials."""
        trials = {n: [self._measured(t.tables, t.verdicts) for t in a] for n, a in attempts.items()}
        values = {
            name: {m: [fmean(v) for v in zip(*(t[m] for t in own), strict=True)] for m in own[0]}
            for name, own in trials.items()
            if own
        }
        base, less = values.get(reference, {}), dict[tuple[str, str], Any]()
        for of, theirs in base.items():
            each = {
                n: partial(mean_difference, v[of], theirs)
                for n, v in values.items()
                if n != reference
            }
            less |= {
                (n, of): with_range(d) for n, d in zip(each, holm(list(each.values())), strict=True)
            }
        result = {}
        for name, own in trials.items():
            means = {of: mean(each) for of, each in values.get(name, {}).items()}
            measures = {
                of: Measured(m.value, range_of(m), less.get((name, of))) for of, m in means.items()
            }
            first = next(iter(measures), "")
            main, over = measures.get(first, Measured(0.0)), spread(fmean(t[first]) for t in own)
            result[name] = Quality(
                interval=main.interval, difference=main.difference, spread=over, measures=measures
            )
        return result  # fmt: skip

    def agreement(self, attempts: Attempts, reference: str) -> list[str]:
        """A note on the agreement of the judge with verdicts by hand."""
        said = [dict(zip(self.queries, t.verdicts, strict=False)) for t in attempts[reference]]
        same = [
            fmean(t[q] == hand for t in said)
            for q, hand in self.by_hand.items()
            if said and q in said[0]
        ]
        if not same:
            return []
        value, ends = mean(same)
        between = f" [{ends.low:.3f} {ends.high:.3f}]" if ends else ""
        return [
            f"the judge agrees with {len(same)} verdicts by hand on {reference}: {value:.3f}{between}"
        ]


_Values = Mapping[str, Sequence[float]]


def _text(value: Any) -> str:
    return "" if value is None else as_text(value)


def read_labels(request: ComparisonRequest) -> Labels:
    """The labels of a request.

    Raises:
        PlanError: They fit no returned table, or no query.
        InputError: A grade is not a whole number.
    """
    value, name = request.labels, ""
    if isinstance(value, Mapping):
        ((name, value),) = value.items()
    source = str(value) if isinstance(value, (str, Path)) else "the labels"
    rows, columns = read_columns(value, source)
    graded = GRADE in columns
    if graded and (reason := lacking("measures")):
        raise PlanError(Problem(f"measures of ranked rows cannot be computed: {reason}"))
    table, node, asked, item = _place(
        request, [n for n in columns if n not in (GRADE, BY_HAND)], name, source
    )
    kinds = {
        n: replace(k, nullable=n == item) for n, k in paths(node.schema) if n in (*asked, item)
    }
    kinds |= {GRADE: Type("int64")} if graded else {}
    kinds |= {BY_HAND: Type("boolean", nullable=True)} if BY_HAND in columns else {}
    flagged = with_flags(rows, columns, [BY_HAND] if BY_HAND in columns else [])
    typed = check_rows(InputSpec("labels", tuple(kinds.items())), flagged, source=source)
    queries, by_hand = defaultdict[Query, dict[str, int]](dict), dict[Query, bool]()
    for query, row in zip(names_of(typed, asked), typed.to_pylist(), strict=True):
        key, grade = _text(row[item]), row.get(GRADE, 1)
        if queries[query].setdefault(key, grade) != grade:
            raise PlanError(Problem(f'{source} has two grades of "{key}" for {query}'))
        by_hand |= {} if row.get(BY_HAND) is None else {query: row[BY_HAND]}
    rows_asked = _input(request, asked)
    given = dict(zip(names_of(rows_asked, asked), rows_asked.to_pylist(), strict=True))
    good = {query for query, own in queries.items() if max(own.values()) > 0}
    scored = {query: own for query, own in queries.items() if query in good and query in given}
    if not scored:
        what = f"{source} labels no query that is asked" + " with a grade above 0" * graded
        there = f"it has {next(iter(queries), None)}; asked is {next(iter(given), None)}"
        raise PlanError(Problem(what, there=there))
    unscored = {
        "labelled queries are not asked": queries.keys() - given,
        "queries have no label": given.keys() - queries,
        "queries have no grade above 0": queries.keys() - good,
    }
    notes = tuple(f"{len(of):,} {what}: not scored" for what, of in unscored.items() if of)
    at = _cutoffs(request.at) if graded else ()
    return Labels(table, node, asked, item, scored, given, by_hand, at, notes)


def _cutoffs(at: Any) -> tuple[int, ...]:
    """The values of k. Raises PlanError."""
    try:
        found = tuple(int(k) for k in (at.split(",") if isinstance(at, str) else at))
    except (TypeError, ValueError):
        found = ()
    if not found or min(found) < 1:
        raise PlanError(Problem(f"at is {at!r}", hint=f"numbers from 1: {option('at', '1,5,10')}"))
    return found


def _input(request: ComparisonRequest, own: Sequence[str]) -> pa.Table:
    """The input with the most of some columns; of several the one with the first of them."""

    def has(table: pa.Table) -> tuple[int, list[bool]]:
        flags = [name in table.column_names for name in own]
        return sum(flags), flags

    return max(request.inputs.values(), key=has, default=pa.table({}))


def _place(
    request: ComparisonRequest, own: Sequence[str], name: str, source: str
) -> tuple[str, Node, tuple[str, ...], str]:
    """The returned table of labels, its operator, the columns that name a query, and the other one. Raises
    PlanError.
    """
    first, *others = [arm.plan.returns for arm in request.arms.values()]
    nodes = {
        t: n for t, n in first.items() if all(t in of and of[t].schema == n.schema for of in others)
    }
    fits = [t for t, n in nodes.items() if {*own} <= {*n.schema.names} and name in ("", t)]
    has = f"it has {', '.join(own)}; "
    if len(fits) > 1:
        what = f"{source} fits several returned tables: {', '.join(fits)}"
        raise PlanError(Problem(what, hint=f"name one: {option('labels', f'{fits[0]}=FILE')}"))
    if not fits:
        shown = [f"{t} ({', '.join(n.schema.names)})" for t, n in nodes.items()]
        known = [column for node in nodes.values() for column in node.schema.names]
        near = next((did_you_mean(n, known) for n in own if n not in known), None)
        what = f"{source} fits no returned table" + f' "{name}"' * bool(name)
        there = f"{has}all variants return {'; '.join(shown) or 'no table alike'}"
        raise PlanError(Problem(what, there=there, hint=near))
    of_input = _input(request, own).column_names
    items = [n for n in own if n not in of_input] or own[1:][-1:]
    asked = tuple(n for n in own if n not in items)
    if not asked or len(items) != 1:
        what = f"{source} needs columns of an input, which name a query, and one more: the key of a row, or the answer"
        raise PlanError(Problem(what, there=f"{has}the input has {', '.join(of_input) or 'none'}"))
    return fits[0], nodes[fits[0]], asked, items[0]


@dataclass(frozen=True)
class Judge:
    """A plan that says which answers are right.

    Args:
        arm: The plan with its models.
        labels: The true answers.
        table: The returned table with `id` and `correct`.
    """

    arm: OpenedArm
    labels: Labels
    table: str

    @classmethod
    def of(cls, arm: OpenedArm, labels: Labels) -> Self:
        """Check the plan. Raises PlanError."""
        plan = arm.plan
        tables = [t for t, n in plan.returns.items() if {"id", "correct"} <= {*n.schema.names}]
        known = {
            "id",
            "answer",
            "truth",
            *labels.node.schema.names,
            *next(iter(labels.given.values())),
        }
        needs = {
            n for spec in plan.inputs.values() for n, kind in spec.columns if not kind.nullable
        } - known
        refusals = {
            "the labels have grades, not answers": labels.at,
            "it needs one input, answers": list(plan.inputs) != ["answers"],
            f"answers have no {', '.join(sorted(needs))}": needs,
            "it must return one table with id and correct": len(tables) != 1,
            "it must not use the store": plan.writes
            or any(n.reads_store for n in walk(*plan.roots)),
        }
        if problems := [
            Problem(f"plan {plan.name} cannot judge: {w}") for w, is_so in refusals.items() if is_so
        ]:
            raise PlanError(*problems)
        return cls(arm, labels, tables[0])

    async def verdicts(
        self, bench: Bench, tables: Mapping[str, pa.Table], ledger: Ledger
    ) -> list[float]:
        """The share of right answers of each query. An answer without a verdict is not right.

        Raises:
            BudgetReached: A limit was reached; the journal has the answers.
        """
        labels, arm, spec = self.labels, self.arm, self.arm.plan.inputs["answers"]
        found, rows = labels.found(tables), []
        for (query, truths), own in zip(labels.queries.items(), found, strict=True):
            for row in own:
                made = {
                    "id": str(len(rows)),
                    "answer": _text(row[labels.item]),
                    "truth": " or ".join(truths),
                }
                whole = {**labels.given[query], **row, **made}
                rows.append({name: whole.get(name) for name, _ in spec.columns})
        asked = replace(
            arm, request=replace(arm.request, inputs={"answers": check_rows(spec, rows)})
        )
        async with bench.copy(arm.opened) as store:
            physical = bench.compiled(arm.plan, store, arm.opened)
            options = ExecutorOptions("judge", arm.opened.now)
            outcome, _, _ = await bench.run(physical, store, ledger, options, asked)
        if outcome.stopped:
            raise BudgetReached(outcome.stopped)
        said = result_table(arm.plan.returns[self.table], outcome.tables.get(self.table, []))
        right = {str(row["id"]) for row in said.to_pylist() if row["correct"]}
        number = iter(range(len(rows)))
        return [fmean([str(next(number)) in right for _ in own] or [0.0]) for own in found]
