"""The quality of variants: against the truth, or without one as agreement with the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import pyarrow as pa

from semgraph.compare.comparison import Quality, Trial, trial_answers
from semgraph.compare.graphs import comparable
from semgraph.compare.trial import Whole
from semgraph.compare.truth import RowAnswers, Truth, whole_rows
from semgraph.expr.functions import canonical_json
from semgraph.logical.prompt import plain
from semgraph.logical.semantic import Semantic
from semgraph.scores import (
    GraphScore,
    IntervalEstimate,
    Score,
    ScoredGraph,
    Tally,
    agreement,
    difference,
    pooled,
    score,
    score_graph,
    tally,
)

Trials = Mapping[str, Sequence[Trial]]


def of_step(
    node: Semantic, frozen: pa.Table, trials: Trials, reference: str, truth: Truth | None
) -> dict[str, Quality]:
    """The quality of each variant of a step.

    Args:
        node: The step.
        frozen: The frozen rows.
        trials: The trials of each variant.
        reference: The variant that the rest is compared with.
        truth: The true answers.
    """
    columns = whole_rows(node)
    key, compare = columns.key, columns.compare
    whole = {
        name: [trial_answers(trial, key, compare, frozen, name) for trial in each]
        for name, each in trials.items()
    }
    qualities = {}
    for name, answers in whole.items():
        pairs = list(zip(answers, whole[reference], strict=False))
        same = agreement(*pairs) if pairs and name != reference else None
        qualities[name] = Quality(same=same and same.value)
        if truth is None and same is not None:
            spread = _spread([agreement(pair).value for pair in pairs])
            qualities[name] = replace(qualities[name], interval=_range(same), spread=spread)
    if truth is None:
        return qualities
    true = truth.wanted(frozen)
    tallies = {name: _tallies(each, frozen, truth, true) for name, each in trials.items()}
    return {
        name: _scored(each, tallies[reference], qualities[name], own=name == reference)
        for name, each in tallies.items()
    }


def _within(answers: RowAnswers, units: RowAnswers) -> RowAnswers:
    return {unit: own for unit, own in answers.items() if unit in units}


def _tallies(
    trials: Sequence[Trial], frozen: pa.Table, truth: Truth, true: RowAnswers
) -> list[Tally]:
    """A tally for each trial, over all rows or over those that the truth covers."""
    answers = [truth.answered(trial.rows, frozen) for trial in trials if trial.rows is not None]
    return [tally(each if truth.closed else _within(each, true), true) for each in answers]


def _scored(
    tallies: Sequence[Tally], reference: Sequence[Tally], quality: Quality, *, own: bool
) -> Quality:
    """Precision, recall and F1 over all trials; the difference uses trials that both have."""
    if not tallies:
        return quality
    total = score(pooled(tallies))
    both = min(len(tallies), len(reference))
    ours, theirs = pooled(tallies[:both]), pooled(reference[:both])
    less = difference(ours, theirs) if ours and theirs and not own else None
    return replace(
        quality,
        precision=total.precision,
        recall=total.recall,
        f1=total.f1,
        interval=total.interval and (total.interval.low, total.interval.high),
        spread=_spread([score(each).f1 for each in tallies]),
        difference=less and (less.value, *(less.interval or (None, None))),
    )


def _spread(values: Sequence[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if len(known) > 1 else None


def _range(value: IntervalEstimate) -> tuple[float, float] | None:
    return value.interval and (value.interval.low, value.interval.high)


def of_plans(
    trials: Mapping[str, Sequence[Whole]], reference: str, truth: ScoredGraph | None
) -> dict[str, Quality]:
    """The quality of each variant of a whole plan: of the graph that it wrote, or of the rows that
    it returned.
    """
    return {
        name: _of_plan(each, trials[reference], truth, own=name == reference)
        for name, each in trials.items()
    }


def _of_plan(
    trials: Sequence[Whole], reference: Sequence[Whole], truth: ScoredGraph | None, *, own: bool
) -> Quality:
    if own and truth is None:
        return Quality()
    graphs = [each.graph for each in trials if each.graph is not None]
    if not graphs:
        pairs = zip(trials, reference, strict=False)
        return _scored(
            [tally(_returned(a), _returned(b)) for a, b in pairs], (), Quality(), own=True
        )
    others = [each.graph for each in reference if each.graph is not None]
    if truth is None:
        scores = [score_graph(a, b) for a, b in zip(graphs, others, strict=False)]
        return _graded(scores, _scored([s.tally for s in scores], (), Quality(), own=True))
    scores, base = (
        [score_graph(comparable(graph, truth), truth) for graph in each]
        for each in (graphs, others)
    )
    return _graded(
        scores, _scored([s.tally for s in scores], [s.tally for s in base], Quality(), own=own)
    )


def _graded(scores: Sequence[GraphScore], quality: Quality) -> Quality:
    """The quality with the measures of nodes and times, averaged over the trials."""

    def mean(values: Sequence[Score | None]) -> float | None:
        known = [value.f1 for value in values if value is not None and value.f1 is not None]
        return fmean(known) if known else None

    return replace(
        quality,
        pairs=mean([s.pairs for s in scores]),
        b_cubed=mean([s.b_cubed for s in scores]),
        validity=mean([s.validity for s in scores]),
        ended=mean([s.ended for s in scores]),
    )


def _returned(whole: Whole) -> RowAnswers:
    """Returned rows, each as the answer of its own unit: the table and all values."""
    result: dict[Hashable, Counter[Hashable]] = {}
    for name, table in whole.tables.items():
        for row in table.to_pylist():
            result.setdefault((name, canonical_json(plain(row))), Counter())[()] += 1
    return result
