"""Scores with intervals: rows against true rows, graphs against true graphs.

Rows: `answers` and `tally` count hits for each unit (such as a row). `score` computes precision,
    recall and F1 of a tally, `difference` compares two tallies of the same units, `agreement` is the
    share of units with the same answers. Graphs: `score_graph` compares a `ScoredGraph` with the
    true one. Labels: `ranking` measures ranked results, `exact_match` and `word_f1` an answer in words;
    the value of a unit by such a measure, from 0 to 1, is its tally (value, 1, 1).

Intervals have 95 %. They are exact (Clopper and Pearson, 1934) where each unit is right or wrong:
    F1 >= f is the same as TP / (TP + FP + FN) >= f / (2 - f), a share of the units that are no true
    negatives. Elsewhere they are bootstrap intervals over units. Where every unit is right, or every
    unit wrong, resampling shows no variance: the interval is then the exact one, whose only uncertain
    end has the whole error of 5 %.
"""

from __future__ import annotations

import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from semgraph.expr.functions import canonical_json

if TYPE_CHECKING:
    import networkx as nx

__all__ = [
    "Edge", "GraphScore", "Interval", "IntervalEstimate", "Score", "ScoredGraph", "ScoredNode",
    "Tally", "agreement", "align", "answers", "difference", "exact_match", "f1_at_least", "holm",
    "moments", "pooled", "proportion", "ranking", "score", "score_graph", "share_at_least", "tally", "word_f1",
]  # fmt: skip


Answers = Mapping[Hashable, Counter[Hashable]]
Tally = Mapping[Hashable, tuple[float, int, int]]  # for each unit: hits, answers, true answers


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1.

    Args:
        precision: The share of answers that are correct; None without answers.
        recall: The share of true answers that were returned; None without true answers.
        f1: Their harmonic mean; None without answers and true answers.
        interval: The 95 % interval of F1, if there are units.
        counts: Hits, answers, true answers.
    """

    precision: float | None
    recall: float | None
    f1: float | None
    interval: Interval | None = None
    counts: tuple[float, float, float] = (0, 0, 0)

    @classmethod
    def of(
        cls, hits: float, answers: float, true: float, interval: Interval | None = None
    ) -> Score:
        """Compute the score from counts.

        >>> Score.of(1, 2, 1).f1
        0.6666666666666666
        >>> Score.of(0, 0, 0).f1 is None
        True
        """
        f1 = 2 * hits / (answers + true) if answers + true else None
        precision, recall = hits / answers if answers else None, hits / true if true else None
        return cls(precision, recall, f1, interval, (hits, answers, true))


def answers(
    rows: Iterable[Mapping[str, Any]],
    key: Sequence[str],
    compare: Sequence[str] = (),
    units: Iterable[Any] = (),
) -> dict[Hashable, Counter[Hashable]]:
    """The answers of each unit.

    Args:
        rows: Result rows or true rows.
        key: The columns that identify the unit.
        compare: The columns of the answer. Empty: the existence of a row is the answer. A row with
            NULL in all compared columns is a unit without an answer.
        units: All units, as tuples of their key's values, with or without rows.

    >>> answers([{"id": 1, "of": "a"}, {"id": 2, "of": None}], ["id"], ["of"])
    {(1,): Counter({('a',): 1}), (2,): Counter()}
    """
    by_unit: dict[Hashable, Counter[Hashable]] = {
        tuple(map(lookup, unit)): Counter() for unit in units
    }
    for row in rows:
        own = by_unit.setdefault(tuple(lookup(row[name]) for name in key), Counter())
        values = tuple(lookup(row[name]) for name in compare)
        if not compare or any(value is not None for value in values):
            own[values] += 1
    return by_unit


def lookup(value: Any) -> Hashable:
    """A hashable value: lists and structs as JSON, NaN as NULL."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN alone differs from itself
        return None
    if isinstance(value, (list, dict)):
        return canonical_json(value)
    hashable: Hashable = value
    return hashable


def tally(ours: Answers, truth: Answers) -> dict[Hashable, tuple[int, int, int]]:
    """Hits, answers and true answers of each unit."""
    none: Counter[Hashable] = Counter()
    both = ((unit, ours.get(unit, none), truth.get(unit, none)) for unit in {**ours, **truth})
    return {unit: ((own & true).total(), own.total(), true.total()) for unit, own, true in both}


def pooled(tallies: Iterable[Tally]) -> dict[Hashable, tuple[float, int, int]]:
    """Several trials as one tally: a unit is resampled with all its trials."""
    result: dict[Hashable, tuple[float, int, int]] = {}
    for each in tallies:
        for unit, counts in each.items():
            hits, own, true = result.get(unit, (0, 0, 0))
            result[unit] = (hits + counts[0], own + counts[1], true + counts[2])
    return result


def score(units: Tally, *, independent: bool = True) -> Score:
    """Precision, recall and F1 over all units (micro-averaged), with the interval of F1.

    If no unit has or should have an answer, F1 is 1; without units it is None.

    Args:
        units: A tally.
        independent: Whether units were drawn independently, as rows are and edges of one graph are
            not. Otherwise the interval is by the bootstrap, and None if it has no width.
    """
    hits, own, true = (sum(each[i] for each in units.values()) for i in range(3))
    counts = list(units.values())
    drawn = _exact(counts) if independent else None
    drawn = drawn or estimate(counts, _f1).interval
    if drawn and drawn.low == drawn.high:
        drawn = None
    result = Score.of(hits, own, true, drawn)
    return replace(result, f1=1.0) if units and result.f1 is None else result


def _exact(units: Sequence[tuple[float, int, int]]) -> Interval | None:
    """The exact interval of F1, if units are right or wrong, or are all alike."""
    answered: list[tuple[float, ...]] = [counts for counts in units if counts[1] or counts[2]]
    if not answered:
        return None
    if len(most := {max(own, true) for _, own, true in answered}) == 1:  # several equal trials
        (times,) = most
        answered = [(hits / times, own / times, true / times) for hits, own, true in answered]
    right = sum(hits == own == true for hits, own, true in answered)
    if {(0, 1, 1), (1, 1, 1)}.issuperset(answered) and len(answered) == len(units):
        return proportion(right, len(answered))  # one answer each: F1 is a share of the rows
    if all(own + true - hits == 1 for hits, own, true in answered):  # rows that are kept or dropped
        return Interval(*(2 * end / (1 + end) for end in proportion(right, len(answered))))
    alike = right == len(answered) or not any(hits for hits, _, _ in answered)
    return proportion(right, len(answered)) if alike else None


def difference(
    ours: Tally, theirs: Tally, level: float = 0.95, *, independent: bool = True
) -> IntervalEstimate:
    """The difference of two F1 scores, paired: each sample draws the same units of both.

    Where no unit differs, the interval is that of none of so many units; where few do, or all by the
    same, it is at least as wide as the exact one of the share in which the first is better.

    Args:
        ours: A tally.
        theirs: The tally of the same units that it is compared with.
        level: The level of the interval; see `holm`.
        independent: As for `score`.
    """
    none = (0, 0, 0)
    both = [(*ours.get(unit, none), *theirs.get(unit, none)) for unit in {**ours, **theirs}]
    if both and all(counts[:3] == counts[3:] for counts in both):
        number = sum(any(counts) for counts in both)
        high = proportion(0, number, level).high if number else 0.0
        return IntervalEstimate(0.0, Interval(-high, high) if independent else None)
    found = estimate(both, lambda sums: _f1(sums) - _f1(sums[:, 3:]), level)
    return _by_signs(found, both, level) if independent else found


def _by_signs(found: IntervalEstimate, both: Sequence[Any], level: float) -> IntervalEstimate:
    """A difference whose interval holds at the ends: where the units that differ do so by the same, or
    are too few to show a difference, with the exact interval of the share of these in which the first
    one is better. So none is shown where McNemar's exact test (1947) shows none.
    """
    counts = np.asarray(both, np.float64)
    pair = counts[:, :3], counts[:, 3:]
    gains = (_f1(pair[0]) - _f1(pair[1])).round(9)
    better, number = int((gains > 0).sum()), int((gains != 0).sum())
    few = 2.0 ** (1 - number) > 1 - level
    if not found.interval or not number or not (few or len({*abs(gains[gains != 0])}) == 1):
        return found
    sums = (np.where(gains[:, None] > 0, *of).sum(0, keepdims=True) for of in (pair, pair[::-1]))
    best, worst = (float(_f1(each)[0]) for each in sums)
    error = (1 - level) / 2
    ends = share_at_least(better, number, error), 1 - share_at_least(number - better, number, error)
    low, high = ((best - worst) * (2 * end - 1) for end in ends)
    ends = min(low, found.interval.low), max(high, found.interval.high)
    return found._replace(interval=Interval(*ends))


def holm(
    pairs: Sequence[tuple[Tally, Tally]], *, independent: bool = True
) -> list[IntervalEstimate]:
    """The differences of several pairs of tallies, corrected for their number (Holm, 1979).

    An interval has the level 1 - 0.05 / n at which its difference is shown, n being the number of
    differences that are not shown at a lower level: at most 5 % of such comparisons show any
    difference where there is none.

    >>> one, none = {i: (1, 1, 1) for i in range(50)}, {i: (0, 1, 1) for i in range(50)}
    >>> [round(each.value) for each in holm([(one, one), (one, none)])]
    [0, 1]
    """
    left, result = dict(enumerate(pairs)), dict[int, IntervalEstimate]()
    while left:
        level = 1 - (1 - _LEVEL) / len(left)
        tried = {i: difference(*p, level, independent=independent) for i, p in left.items()}
        shown = {
            i: e
            for i, e in tried.items()
            if e.interval and (e.interval.low > 0 or e.interval.high < 0)
        }
        result |= shown or tried
        left = {i: pair for i, pair in left.items() if i not in result}
    return [result[i] for i in range(len(pairs))]


def agreement(*trials: tuple[Answers, Answers]) -> IntervalEstimate:
    """The mean share of equal answers of a unit in two sets, over all trials; 1 without units.

    A unit with one answer, or none, agrees or does not; lists agree by their elements: twice the
    common ones over all.

    >>> agreement((answers([{"id": 1}], ["id"]), answers([{"id": 1}, {"id": 2}], ["id"]))).value
    0.5
    """
    result: dict[Hashable, tuple[float, float]] = {}
    for trial in trials:
        for unit, (hits, one, other) in tally(*trial).items():
            share = 2 * hits / (one + other) if one + other else 1.0
            same, number = result.get(unit, (0.0, 0.0))
            result[unit] = (same + share, number + 1)
    units = list(result.values())
    found = estimate(units, lambda sums: _share(sums[:, 0], sums[:, 1]))
    right = sum(same == number for same, number in units)
    none_alike = not any(same for same, _ in units)
    if units and (right == len(units) or none_alike or {(0, 1), (1, 1)}.issuperset(units)):
        return found._replace(interval=proportion(right, len(units)))
    return found


def ranking(
    grades: Sequence[Mapping[str, int]], found: Sequence[Sequence[str]], at: Iterable[int] = (5, 10)
) -> dict[str, list[float]]:
    """Measures of ranked results with the value of each query, by ir-measures (extra `measures`), which
    computes what trec_eval does; the greatest k first.

    `nDCG@k`: the sum of grade / log2(rank + 1), as a share of the best one (Järvelin and Kekäläinen, 2002).
    The others count grades above 0: `recall@k`; `precision@k`; `MRR@k`, 1 / the rank of the first (Kantor
    and Voorhees, 2000); `MAP`, the mean of the precision at the rank of each (Harman, 1992).

    Args:
        grades: The grades of each query's rows, by key. Other rows have 0.
        found: The keys of each query's results, best first.
        at: The values of k.
    """
    import ir_measures as ir

    of = {"nDCG": ir.nDCG, "recall": ir.R, "precision": ir.P, "MRR": ir.RR}
    named = {f"{name}@{k}": of[name] @ k for k in sorted(at, reverse=True) for name in of}
    named["MAP"] = ir.AP
    true = {str(i): dict(own) for i, own in enumerate(grades)}
    once = ((str(i), dict.fromkeys(keys)) for i, keys in enumerate(found) if keys)
    run = {i: {key: -float(place) for place, key in enumerate(keys)} for i, keys in once}
    each = {(m.measure, m.query_id): m.value for m in ir.iter_calc([*named.values()], true, run)}
    return {name: [float(each[measure, i]) for i in true] for name, measure in named.items()}


def _words(text: str) -> list[str]:
    bare = text.lower().translate(str.maketrans("", "", string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", bare).split()


def exact_match(answer: str, truth: str) -> float:
    """1 if an answer is the true one but for case, punctuation, English articles and white space, else 0
    (SQuAD; Rajpurkar et al., 2016).

    >>> exact_match("The Eiffel  Tower!", "eiffel tower")
    1.0
    """
    return float(_words(answer) == _words(truth))


def word_f1(answer: str, truth: str) -> float:
    """F1 of the words of an answer, normalized as in `exact_match` (SQuAD). Without words both must be
    empty.

    >>> word_f1("in Paris, France", "Paris")
    0.5
    """
    ours, theirs = Counter(_words(answer)), Counter(_words(truth))
    both = ours.total() + theirs.total()
    return 2 * (ours & theirs).total() / both if ours and theirs else float(ours == theirs)


def _f1(sums: Sums) -> Sums:
    return _share(2 * sums[:, 0], sums[:, 1] + sums[:, 2])


def _share(part: Sums, whole: Sums) -> Sums:
    """The ratio of part to whole; 1 if the whole is 0."""
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1), 1.0)


Sums = npt.NDArray[np.float64]
Statistic = Callable[[Sums], Sums]

TIMES = 2_000
_SEED = 7
_LEVEL = 0.95


class Interval(NamedTuple):
    """The ends of an interval of a statistic."""

    low: float
    high: float


class IntervalEstimate(NamedTuple):
    """A statistic and its interval; None with too few units."""

    value: float
    interval: Interval | None


def proportion(hits: int, units: int, level: float = _LEVEL) -> Interval:
    """The exact interval of a share of units (Clopper and Pearson, 1934).

    Each end may be wrong with half of the remaining probability. If no unit or every unit is a hit,
    one end is certain, and the other one has all of it: 4 of 4 have the one-sided bound 0.05^(1/4).

    >>> [round(end, 3) for end in proportion(4, 4)], [round(end, 3) for end in proportion(9, 10)]
    ([0.473, 1.0], [0.555, 0.997])
    """
    error = (1 - level) / (1 if hits in {0, units} else 2)
    return Interval(
        share_at_least(hits, units, error), 1 - share_at_least(units - hits, units, error)
    )


def share_at_least(hits: int, units: int, error: float) -> float:
    """The exact lower bound of a share of units (Clopper and Pearson, 1934): the share at which so many
    hits or more have the probability `error`. 0 without hits.

    >>> round(share_at_least(4, 4, 0.05), 3)
    0.473
    """
    if not hits:
        return 0.0
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, units + 1)))])
    more = np.arange(hits, units + 1)
    ways = logs[units] - logs[more] - logs[units - more]
    low, high = 0.0, 1.0
    for _ in range(60):
        share = (low + high) / 2
        chance = np.exp(ways + more * np.log(share) + (units - more) * np.log1p(-share)).sum()
        low, high = (share, high) if chance < error else (low, share)
    return low


def f1_at_least(hits: int, wrong: int, error: float) -> float:
    """The exact lower bound of F1, if each unit is a hit, a false answer or a missing one: F1 >= f is the
    same as hits / (hits + wrong) >= f / (2 - f), a share of the units that are no true negatives.

    >>> round(f1_at_least(4, 0, 0.05), 3), f1_at_least(0, 0, 0.05)
    (0.642, 0.0)
    """
    share = share_at_least(hits, hits + wrong, error)
    return 2 * share / (1 + share)


def estimate(
    units: Sequence[Sequence[float]], statistic: Statistic, level: float = _LEVEL
) -> IntervalEstimate:
    """Compute a statistic of sums over units, and its interval: the middle of 2,000 bootstrap
    samples.

    Units with the same numbers are drawn together (a multinomial draw over the kinds of units), so
    the result does not depend on their order.

    Args:
        units: The numbers of each unit, all of the same length.
        statistic: Maps sums of shape (samples, numbers) to one value for each sample.
        level: The share of the samples that the interval has.
    """
    if not len(units):
        return IntervalEstimate(float(statistic(np.zeros((1, 8)))[0]), None)
    kinds, counts = np.unique(np.asarray(units, np.float64), axis=0, return_counts=True)
    value = float(statistic((counts @ kinds)[np.newaxis, :])[0])
    number = int(counts.sum())
    if number < 2:
        return IntervalEstimate(value, None)
    draws = np.random.default_rng(_SEED).multinomial(number, counts / number, size=TIMES)
    result = statistic(draws @ kinds)
    low, high = np.quantile(result, [(1 - level) / 2, (1 + level) / 2])
    return IntervalEstimate(value, Interval(float(low), float(high)))


@dataclass(frozen=True)
class ScoredNode:
    """A node.

    Args:
        key: Its key in its graph; keys of two graphs are independent.
        members: Its occurrences in the sources, with the same names in both graphs. None: its key.
        label: Members of nodes with different labels are distinct.
        name: Its name, if members are ambiguous (such as sources that each mention several nodes).
            Among nodes with common members, those with the same name are aligned first, then those
            with more common members.
    """

    key: Hashable
    members: frozenset[Hashable] | None = None
    label: str = ""
    name: Hashable = None

    @property
    def occurrences(self) -> list[tuple[str, Hashable]]:
        """Its members, each with the label."""
        own = frozenset({self.key}) if self.members is None else self.members
        return sorted(((self.label, member) for member in own), key=repr)


@dataclass(frozen=True)
class Edge:
    """An edge. It holds from `start` until before `end`; None: no beginning or no end.

    Args:
        source: Key of a node.
        target: Key of a node.
        label: Its type.
        properties: Properties that must be equal in equal edges.
        start: The beginning of its validity: a time or a number.
        end: The end of its validity.
    """

    source: Hashable
    target: Hashable
    label: str = ""
    properties: Mapping[str, Hashable] = field(default_factory=dict)
    start: Any = None
    end: Any = None

    def holds(self, time: Any) -> bool:
        """Whether it holds at a time.

        >>> Edge("a", "b", start=1, end=3).holds(1), Edge("a", "b", start=1, end=3).holds(3)
        (True, False)
        """
        return (self.start is None or self.start <= time) and (self.end is None or time < self.end)


@dataclass(frozen=True)
class ScoredGraph:
    """Nodes with distinct keys, and the edges between them."""

    nodes: tuple[ScoredNode, ...]
    edges: tuple[Edge, ...] = ()


Overlaps = Mapping[tuple[Hashable, Hashable], int]
Alignment = Mapping[Hashable, Hashable]
_FINE = 1000


def align(nodes: Iterable[ScoredNode], truth: Iterable[ScoredNode]) -> dict[Hashable, Hashable]:
    """Align nodes one to one with true nodes that share members.

    Maximizes equal names, then common members; then minimizes other members.
    """
    ours, theirs = {node.key: node for node in nodes}, {node.key: node for node in truth}
    shared = _shared(ours.values(), theirs.values())
    most = sum(shared.values()) + 1
    weights = {}
    for (own, true), common in shared.items():
        one, other = ours[own], theirs[true]
        dice = 2 * common / (len(one.occurrences) + len(other.occurrences))
        named = one.name is not None and one.name == other.name
        # Integers: sums stay exact in any order.
        weights[own, true] = (named * most + common) * most * _FINE + round(dice * _FINE)
    pairs_ = dict(pair for part in _parts(weights) for pair in _best(part))
    return {key: pairs_[key] for key in ours if key in pairs_}


def _shared(
    ours: Iterable[ScoredNode], theirs: Iterable[ScoredNode]
) -> dict[tuple[Hashable, Hashable], int]:
    """The number of members that nodes share with true nodes."""
    where: defaultdict[Hashable, list[Hashable]] = defaultdict(list)
    for node in theirs:
        for member in node.occurrences:
            where[member].append(node.key)
    return Counter(
        (node.key, key) for node in ours for member in node.occurrences for key in where[member]
    )


def _parts(weights: Overlaps) -> Iterator[nx.Graph]:
    """The connected components of the weights, in an order that depends only on the keys."""
    import networkx as nx

    graph = nx.Graph()
    for (own, true), weight in sorted(weights.items(), key=repr):
        graph.add_edge(("o", own), ("t", true), weight=weight)
    for part in nx.connected_components(graph):
        yield nx.Graph(sorted(graph.subgraph(part).edges(data=True), key=repr))


def _best(part: nx.Graph) -> Iterator[tuple[Hashable, Hashable]]:
    """The maximum-weight matching in a component."""
    import networkx as nx

    pairs = part.edges if part.number_of_edges() == 1 else nx.max_weight_matching(part)
    for one, other in pairs:
        (_, own), (_, true) = (one, other) if one[0] == "o" else (other, one)
        yield own, true


def partition(
    nodes: Iterable[ScoredNode], truth: Iterable[ScoredNode], alignment: Alignment
) -> tuple[Score, Score]:
    """Scores of the partition of members into nodes: F1 of pairs, and B-cubed.

    Pairs count pairs of members of one node. B-cubed measures for each member the share of its node
    that belongs with it, so it also covers nodes with one member. A merged pair of nodes lowers
    precision, a split node recall. A missing member lowers recall; a member that is in no true
    node, or in too many nodes, lowers precision. Pairs have no F1 if no node has two members;
    B-cubed has none without nodes.
    """
    ours, theirs = list(nodes), list(truth)
    common = _occurrences_in_common(ours, theirs, alignment)
    own = {node.key: len(node.occurrences) for node in ours}
    true = {node.key: len(node.occurrences) for node in theirs}
    pairs = Score.of(
        sum(n * (n - 1) // 2 for n in common.values()),
        sum(n * (n - 1) // 2 for n in own.values()),
        sum(n * (n - 1) // 2 for n in true.values()),
    )
    own_total, true_total = sum(own.values()), sum(true.values())
    precise = sum(n * n / own[a] for (a, _), n in common.items())
    recalled = sum(n * n / true[b] for (_, b), n in common.items())
    precision = precise / own_total if own_total else None
    recall = recalled / true_total if true_total else None
    both = (precision or 0.0) + (recall or 0.0)
    f1 = (
        2 * (precision or 0.0) * (recall or 0.0) / both if both else 0.0 if ours or theirs else None
    )
    return pairs, Score(precision, recall, f1, None, (sum(common.values()), own_total, true_total))


def _occurrences_in_common(
    ours: Iterable[ScoredNode], theirs: Iterable[ScoredNode], alignment: Alignment
) -> Counter[tuple[Hashable, Hashable]]:
    """Common members by node and true node. Each occurrence of a member counts once, first for
    aligned nodes.
    """
    where: defaultdict[Hashable, list[Hashable]] = defaultdict(list)
    for node in sorted(theirs, key=lambda node: repr(node.key)):
        for member in node.occurrences:
            where[member].append(node.key)
    result: Counter[tuple[Hashable, Hashable]] = Counter()
    later: list[tuple[Hashable, tuple[str, Hashable]]] = []
    for node in sorted(ours, key=lambda node: repr(node.key)):
        for member in node.occurrences:
            if alignment.get(node.key) in where[member]:
                where[member].remove(alignment[node.key])
                result[node.key, alignment[node.key]] += 1
            else:
                later.append((node.key, member))
    for key, member in later:
        if where[member]:
            result[key, where[member].pop(0)] += 1
    return result


_MOMENTS = 50
Content = tuple[Hashable, ...]  # the content of an edge: its ends, label and properties
Contents = Mapping[Content, Sequence[Edge]]


@dataclass(frozen=True)
class GraphScore:
    """The scores of a graph. A part that is empty in both graphs has no F1.

    Args:
        alignment: The true node of each node that has one.
        pairs: Nodes as a partition of their members, by pairs.
        b_cubed: The same, member by member.
        edges: Edges with the same ends, label and properties, each counted once. The interval is by
            kinds of edges.
        validity: Edges that hold, over all sampled times; None without times.
        at: The same score for each time.
        ended: Edges with an end, against true edges with an end.
        tally: Hits, edges and true edges for each pair of ends with label and properties, for
            `difference`.
    """

    alignment: Mapping[Hashable, Hashable]
    pairs: Score
    b_cubed: Score
    edges: Score
    validity: Score | None
    at: tuple[tuple[Any, Score], ...]
    ended: Score
    tally: Tally


def score_graph(
    graph: ScoredGraph, truth: ScoredGraph, times: Sequence[Any] | None = None
) -> GraphScore:
    """Compare a graph with the true one.

    Args:
        graph: The graph.
        truth: The true graph.
        times: The times at which valid edges are compared; None: `moments(truth)`.
    """
    alignment = align(graph.nodes, truth.nodes)
    same = {key: key for edge in truth.edges for key in (edge.source, edge.target)}
    ours, theirs = _by_content(graph.edges, alignment), _by_content(truth.edges, same)
    tally = _tally(ours, theirs, lambda _: True)
    pairs, b_cubed = partition(graph.nodes, truth.nodes, alignment)
    times = moments(truth) if times is None else times
    at = {time: _tally(ours, theirs, partial(Edge.holds, time=time)) for time in times}
    return GraphScore(
        alignment, pairs, b_cubed, score(tally, independent=False),
        score(pooled(at.values())) if at else None,
        tuple((time, score(held)) for time, held in at.items()),
        _ended(ours, theirs), tally,
    )  # fmt: skip


def moments(graph: ScoredGraph, most: int = _MOMENTS) -> list[Any]:
    """The times at which an edge begins or ends, in order; if there are more than `most`, an evenly
    spread selection.

    >>> moments(ScoredGraph((), (Edge("a", "b", start=1, end=4), Edge("a", "c", start=4))))
    [1, 4]
    """
    result = sorted(
        {time for edge in graph.edges for time in (edge.start, edge.end) if time is not None}
    )
    if len(result) <= most:
        return result
    return [result[round(i * (len(result) - 1) / (most - 1))] for i in range(most)]


def _by_content(edges: Iterable[Edge], alignment: Alignment) -> dict[Content, list[Edge]]:
    """The edges by content: their ends as true nodes, label and properties."""
    statements: defaultdict[Content, list[Edge]] = defaultdict(list)
    for edge in edges:
        ends = (
            ("true", alignment[key]) if key in alignment else ("own", key)
            for key in (edge.source, edge.target)
        )
        statements[(*ends, edge.label, tuple(sorted(edge.properties.items())))].append(edge)
    return dict(statements)


def _tally(
    ours: Contents, theirs: Contents, counts: Callable[[Edge], bool]
) -> dict[Hashable, tuple[int, int, int]]:
    """The tally of the edges that count."""
    result: dict[Hashable, tuple[int, int, int]] = {}
    for content in {**ours, **theirs}:
        own, true = (sum(map(counts, each.get(content, ()))) for each in (ours, theirs))
        if own or true:
            result[content] = min(own, true), own, true
    return result


def _ended(ours: Contents, theirs: Contents) -> Score:
    """The score of edges with an end."""
    both = (pair for key in ours for pair in _matched(ours[key], theirs.get(key, ())))
    hits = sum(a.end is not None and b.end is not None for a, b in both)
    own, true = (
        sum(edge.end is not None for edges in each.values() for edge in edges)
        for each in (ours, theirs)
    )
    return Score.of(hits, own, true)


def _matched(ours: Sequence[Edge], theirs: Sequence[Edge]) -> Iterator[tuple[Edge, Edge]]:
    """Match edges of equal content one to one: first by both times, then by the beginning, then in
    order.
    """
    left, rest = list(ours), sorted(theirs, key=_when)
    for times in (("start", "end"), ("start",), ()):
        for edge in sorted(left, key=_when):
            other = next(
                (o for o in rest if all(getattr(o, t) == getattr(edge, t) for t in times)), None
            )
            if other is not None:
                left.remove(edge)
                rest.remove(other)
                yield edge, other


def _when(edge: Edge) -> tuple[Any, ...]:
    """A sort key: by beginning, then end; open beginnings first, open ends last."""
    begins = (0, 0) if edge.start is None else (1, edge.start)
    ends = (1, 0) if edge.end is None else (0, edge.end)
    return (*begins, *ends)
