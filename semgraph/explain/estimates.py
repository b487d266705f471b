"""Estimates of a plan: rows, model calls, tokens, dollars and time of each operator.

Their sources are the exact rows of the inputs, bounds (`≤`), counts of the store, and earlier runs
(`≈`).
An unknown number is `?`, never a constant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import pyarrow as pa

from semgraph.execution.observations import ObservationFile, Seen, key_of, pace_key
from semgraph.formats import about, plural
from semgraph.llm.base import LLM, Usage
from semgraph.llm.stack import bound
from semgraph.llm.tokens import OF_BATCH, likely_tokens
from semgraph.logical.cluster import Cluster
from semgraph.logical.graph import Scan
from semgraph.logical.iterate import Iterate, Round, loops_of
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.relational import Empty, Input, Join, Limit, Union
from semgraph.logical.search import Search
from semgraph.logical.semantic import Answering, Check, SemAgg, Semantic, SemJoin, SemTopk
from semgraph.physical.loops import RoundTable
from semgraph.physical.plan import PhysicalPlan, SqlSegment
from semgraph.semantic.contract import Cost, RowEstimate
from semgraph.semantic.implementation import Implementation, estimated

if TYPE_CHECKING:
    from semgraph.explain.requests import FirstPrompt

_SPREAD = 1.96  # standard deviations on each side: 95 %
_SIZES = 64  # all sizes up to this one are examined, then powers of two


def most_calls(
    implementation: Implementation[Semantic], node: Semantic, rows: RowEstimate, parts: int
) -> Amount:
    """The maximum number of calls for some rows, in at most `parts` parts of unknown sizes that
    share no call; an expectation if requests depend on answers.

    Raises EngineError if the implementation breaks its contract.
    """
    most = max(1, min(parts, math.ceil(rows.items)))
    part = RowEstimate(rows.left / most, rows.right / most, rows.items / most, 0.0)
    even = _costs(implementation, node, part)
    if any(cost.rounds > 1 and cost.least is None for cost in even):
        return Amount(round(max(cost.calls for cost in even) * most), "seen")
    if most == 1:
        return Amount(math.floor(max(cost.calls for cost in even)), "most")
    return Amount(_most(implementation, node, rows, most), "most")


def _most(
    implementation: Implementation[Semantic], node: Semantic, rows: RowEstimate, parts: int
) -> int:
    """The maximum number of calls of all parts together.

    For any price per item, a part needs at most the price of its items plus the largest surplus of
    a part. All parts together need at most the price of all items plus that surplus times the
    number of parts. The result is the lowest of these bounds.
    """
    size = math.ceil(rows.items)
    sizes = _sizes(size)
    costs = []  # (first size, last size, calls): sizes in between cost as much as the last
    for before, each in pairwise([0, *sizes]):
        part = RowEstimate(min(rows.left, each), min(rows.right, each), float(each), 0.0)
        calls = max(cost.calls for cost in _costs(implementation, node, part))
        costs.append((before + 1, each, calls))
    prices = {0.0, *(calls / last for _, last, calls in costs)}
    surplus = {
        price: max(0.0, *(calls - price * first for first, _, calls in costs)) for price in prices
    }
    return math.floor(min(price * size + extra * parts for price, extra in surplus.items()) + 1e-9)


def _costs(
    implementation: Implementation[Semantic], node: Semantic, rows: RowEstimate
) -> list[Cost]:
    """The cost of a part, for each possible size of its groups."""
    grouped = [rows._replace(groups=groups) for groups in _groups(node, rows.items)]
    return [estimated(implementation, node, each) for each in grouped or [rows]]


def _groups(node: Semantic, items: float) -> Iterable[float]:
    """The possible numbers of equal groups of some items; none if the operator has no groups."""
    keys = node.by if isinstance(node, SemAgg | SemTopk) else None
    if keys is None or not items:
        return
    if not keys and not node.windowed:
        yield 1.0
        return
    for each in _sizes(math.ceil(items)):
        groups = items / each
        yield groups if items / groups <= each else math.nextafter(groups, math.inf)


def _sizes(most: int) -> list[int]:
    """The sizes to examine: large ones are sparse, because their cost by row hardly differs."""
    powers = (2**i for i in range(most.bit_length()))
    return sorted({*range(1, min(most, _SIZES) + 1), *powers, most})


# Operators that return at most as many rows as they read.
_FALLING = frozenset({"1:1", "subset", "collapse"})
_MOST_ROWS = 1e9  # of a round, up to which bounds of the next are computed
Kind = Literal["exact", "seen", "most", "least", "unknown"]
_RANK: tuple[Kind, ...] = ("exact", "seen", "most", "least", "unknown")
_SIGNS: Mapping[Kind, str] = {"exact": "", "seen": "≈ ", "most": "≤ ", "least": "≥ "}


class Amount(NamedTuple):
    """A number and its certainty; a sum with unknown parts is "at least"."""

    value: float = 0.0
    kind: Kind = "unknown"

    @property
    def known(self) -> bool:
        """Whether there is a number."""
        return self.kind != "unknown"

    def times(self, factor: float, kind: Kind = "exact") -> Amount:
        """A multiple of this amount."""
        return Amount(self.value * factor, worse(self.kind, kind))

    def at_most(self) -> Amount:
        """This amount as a bound."""
        return Amount(self.value, worse(self.kind, "most"))

    def text(self, decimals: int = 0, unit: str = "") -> str:
        """The amount as tables print it: `≈ 12`, `≤ 40`, `?`."""
        if not self.known or (self.kind == "least" and not self.value):
            return "?"
        return f"{_SIGNS[self.kind]}{unit}{self.value:,.{decimals if self.value else 0}f}"

    def as_data(self) -> dict[str, object]:
        """The amount for JSON."""
        return {"value": self.value if self.known else None, "known": self.kind}


def worse(one: Kind, other: Kind) -> Kind:
    """The less certain of two kinds."""
    return max(one, other, key=_RANK.index)


def total(amounts: Iterable[Amount]) -> Amount:
    """The sum. If a part is unknown: at least the sum of the parts that are not bounds."""
    parts = list(amounts)
    known = [part for part in parts if part.known]
    if parts and not known:
        return Amount()
    if len(known) < len(parts):
        return Amount(sum(part.value for part in known if part.kind != "most"), "least")
    result = Amount(0.0, "exact")
    for part in known:
        result = Amount(result.value + part.value, worse(result.kind, part.kind))
    return result


class CallEstimate(NamedTuple):
    """The expected cost of the calls of an operator."""

    items: Amount
    calls: Amount
    tokens_in: Amount
    tokens_out: Amount
    dollars: Amount
    seconds: Amount


def answers(node: Semantic, items: float) -> float:
    """The likely number of answers in a call about some items: of a group one, and of the pairs of a
    block those that match.
    """
    return 1.0 if isinstance(node, SemAgg) else items**0.5 if isinstance(node, SemJoin) else items


# A number of rounds of a loop with equal bounds, and the estimator of each.
_EqualRounds = tuple[int, "Estimator"]


@dataclass
class Estimator:
    """Estimates for the operators of one plan, or of a round of one of its loops."""

    plan: PhysicalPlan
    inputs: Mapping[str, int]  # the rows of the inputs, by name
    seen: Mapping[str, Seen]  # observations of earlier runs, by `key_of`
    models: str = ""
    counts: Mapping[str, int] | None = None  # the rows of the store, by label
    windows: int = 1  # of all partitions; without windows, the number of partitions
    # prompts that depend on the inputs alone
    first: Mapping[Node, FirstPrompt] = field(default_factory=dict)
    around: Estimator | None = None  # of a round: the estimator of the enclosing plan
    loop: Iterate | None = None  # the loop of the round
    given: Mapping[Node, Amount] = field(default_factory=dict)  # the rows of the last round
    batched_operators: frozenset[Node] = frozenset()  # with requests in batches, which cost less

    def __post_init__(self) -> None:
        self._rows: dict[Node, Amount] = dict(self.given)
        self._rounds: dict[Iterate, list[_EqualRounds]] = {}
        self._loops = _in_loops(self.plan.roots if self.loop is None else (self.loop.body,))

    @classmethod
    def over(
        cls,
        plan: PhysicalPlan,
        inputs: Mapping[str, pa.Table],
        observations: ObservationFile | None,
        stored: Mapping[str, pa.Table] | None,
    ) -> Estimator:
        """The estimator over rows of the inputs and, if known, of the store by label."""
        rows = {name: table.num_rows for name, table in inputs.items()}
        seen, models = (observations.read(), observations.models) if observations else ({}, "")
        counts = None if stored is None else {name: own.num_rows for name, own in stored.items()}
        return cls(plan, rows, seen, models, counts, _windows(plan.logical, inputs))

    def rows(self, node: Node) -> Amount:
        """The rows of an operator; for one in a loop, those of all rounds."""
        if node not in self._rows and self.loop is not None and node not in self.loop.each_round:
            assert self.around is not None
            return self.around.rows(node)
        if node not in self._rows and node in self._loops:
            parts = (each.rows(node).times(count) for count, each in self._all_rounds(node))
            self._rows[node] = total(parts)
        if node not in self._rows:
            before = self._before(node)
            bound = self._looped(node) if isinstance(node, Iterate) else self._bound(node)
            bounded = node.rows == "subset" and bound.kind not in {"least", "unknown"}
            if before is not None and bounded:
                # Limits (`k`, `n`) do not grow with the rows.
                before = before._replace(value=min(before.value, bound.value))
            self._rows[node] = before or bound
        return self._rows[node]

    def _all_rounds(self, node: Node) -> Iterator[_EqualRounds]:
        """The rounds in which a node is computed, for each enclosing loop."""
        for loop in self._loops[node]:
            yield from self._rounds_of(loop)

    def _rounds_of(self, loop: Iterate) -> list[_EqualRounds]:
        """The rounds of a loop, grouped by equal bounds."""
        if loop not in self._rounds:
            self._rounds[loop] = list(self._unrolled(loop))
        return self._rounds[loop]

    def _unrolled(self, loop: Iterate) -> Iterator[_EqualRounds]:
        rows, left = self.rows(loop.input).at_most(), loop.times
        seen = self._seen_rounds(loop)
        if seen is not None and rows.known:
            yield 1, self._with_round(loop, self.rows(loop.input).times(seen, "seen"))
            return
        falls = all(n.rows in _FALLING for n in loop.each_round if not isinstance(n, Round))
        while left > 0 and (rows.value or not rows.known):
            each = self._with_round(loop, rows)
            after = each.rows(loop.body)
            after = after.at_most() if after.value <= _MOST_ROWS else Amount()
            count = left if falls or after == rows else 1
            yield count, each
            left, rows = left - count, after

    def _seen_rounds(self, loop: Iterate) -> float | None:
        """The input rows of all rounds in earlier runs, per row of the loop's input."""
        for leaf in loop.own_rounds:
            physical = self.plan.nodes[leaf]
            known = self._known(leaf)
            if isinstance(physical, RoundTable) and physical.loop is loop and known is not None:
                return known.rows_out / known.rows_in if known.rows_in else None
        return None

    def _with_round(self, loop: Iterate, rows: Amount) -> Estimator:
        """The estimator of a round over some rows."""
        return replace(self, around=self, loop=loop, given=dict.fromkeys(loop.own_rounds, rows))

    def _looped(self, loop: Iterate) -> Amount:
        first = self.rows(loop.input)
        rounds = [(count, each.rows(loop.body)) for count, each in self._rounds_of(loop)]
        every = [first, *(rows.times(count) for count, rows in rounds)]
        if loop.keep == "all":
            most = total(every)
        elif any(not rows.known for _, rows in rounds):
            return Amount()
        else:  # some groups may end at once, the others after the largest round
            largest = max((rows for _, rows in rounds), default=first)
            grouped = bool(loop.by) or loop.windowed
            falls = largest.value <= first.value
            most = total([first, largest]) if grouped and not falls else max(first, largest)
        return most.at_most() if most.kind in {"exact", "seen", "most"} else Amount()

    def _known(self, node: Node) -> Seen | None:
        return self.seen.get(key_of(self.plan, node, self.models))

    def _before(self, node: Node) -> Amount | None:
        """The rows, in proportion to those of earlier runs."""
        physical = self.plan.nodes.get(node)
        if isinstance(node, Input) or physical is None:
            return None
        known = self._known(node)
        if known is None or not known.runs or not node.inputs:
            return None
        segment = isinstance(physical, SqlSegment)
        rows = self.rows(physical.inputs[0].logical if segment else node.inputs[0])
        if not rows.known:
            return None
        if known.rows_in:
            ratio = known.rows_out / known.rows_in
            return rows if ratio == 1 and node.rows == "1:1" else rows.times(ratio, "seen")
        return Amount(0.0, "seen") if not rows.value and not known.rows_out else None

    def _source_rows(self, node: Node) -> Amount:
        """The rows of an operator without inputs, from the input or the store."""
        if isinstance(node, Scan):
            count = None if self.counts is None else self.counts.get(node.label)
            if count is None:
                return Amount()
            exact = node.partition == "all" and not node.where
            limited = node.limit is not None and not node.windowed
            rows = min(count, node.limit or 0) if limited else count
            return Amount(float(rows), "exact" if exact else "most")
        if isinstance(node, Empty):
            return Amount(0.0, "exact")
        count = self.inputs.get(node.name) if isinstance(node, Input) else None
        return Amount() if count is None else Amount(float(count), "exact")

    def _bound(self, node: Node) -> Amount:
        if not node.inputs:
            return self._source_rows(node)
        if isinstance(node, Union):
            parts = [self.rows(branch) for branch in node.relations]
            return total(parts) if all(part.known for part in parts) else Amount()
        left = self.rows(node.inputs[-1] if isinstance(node, Cluster) else node.inputs[0])
        if node.rows == "1:1" or isinstance(node, Cluster) or not left.known:
            return left
        if isinstance(node, Search):
            lists = max(1, len(node.methods)) if node.fuse == "none" else 1
            return left.times(node.k * lists).at_most()
        if node.rows in {"subset", "collapse"}:
            return self._limited(node, left)
        return self._paired(node, left)

    def _limited(self, node: Node, left: Amount) -> Amount:
        if isinstance(node, (Limit, SemTopk)) and not node.by and not node.windowed:
            most = node.n if isinstance(node, Limit) else node.k
            exact = node.relational and left.kind == "exact"
            return Amount(min(left.value, most), "exact" if exact else "most")
        return left.at_most()

    def _paired(self, node: Node, left: Amount) -> Amount:
        """The rows of a join: the remaining left rows, or at most all pairs."""
        if not isinstance(node, (Join, SemJoin)):
            return Amount()
        how, one = node.how, isinstance(node, SemJoin) and node.keep == "one"
        right = self.rows(node.other)
        if how == "semi" and right.known and not right.value:
            return right
        if how in {"semi", "anti"} or one:
            return left if how == "left" else left.at_most()
        if not right.known:
            return Amount()
        pairs = left.value * max(right.value, 1.0 if how == "left" else 0.0)
        return Amount(pairs, worse(worse(left.kind, right.kind), "most"))

    def calls_variance(self, node: Semantic) -> float:
        """The variance of the estimated calls, if those of earlier runs were counts of independent
        events. It is 0 if there was one call for each row of an input, and without earlier runs.
        """
        known = self._known(node)
        if known is None or not known.calls:
            return 0.0
        each_row = known.calls == known.items == known.rows_in
        if each_row and self.rows(node.inputs[0]).kind == "exact":
            return 0.0
        calls = self.call_estimate(node).calls
        return calls.value**2 / known.calls if calls.kind == "seen" else 0.0

    def call_estimate(self, node: Semantic) -> CallEstimate:
        """The expected cost of an operator that calls the model; in a loop, of all rounds."""
        if self.loop is not None and node not in self.loop.each_round:
            assert self.around is not None
            return self.around.call_estimate(node)
        if node in self._loops:
            costs = [(count, each.call_estimate(node)) for count, each in self._all_rounds(node)]
            parts = ([part.times(count) for part in cost] for count, cost in costs)
            nothing = [Amount(0.0, "exact")] * len(CallEstimate._fields)
            return CallEstimate(*map(total, zip(*parts, strict=True)) if costs else nothing)
        left = self.rows(node.inputs[0])
        known = self._known(node)
        items = self._items(node, left, known)
        if not items.known:
            return CallEstimate(items, *[Amount()] * 5)
        expected = self._expected(node, left, items)  # always: an invalid estimate must raise
        if not items.value:
            return CallEstimate(items, *[Amount(0.0, items.kind)] * 5)
        if known is not None and known.items:
            price = OF_BATCH if node in self.batched_operators else 1.0
            return self._as_before(items, known, price)
        calls = Amount(expected.value, worse(items.kind, expected.kind))
        sent, answered, paid = self._by_first(node, items, calls)
        return CallEstimate(items, calls, sent, answered, paid, Amount())

    def _by_first(
        self, node: Semantic, items: Amount, calls: Amount
    ) -> tuple[Amount, Amount, Amount]:
        """The tokens and dollars of calls, if all are like the first one."""
        first = self.first.get(node)
        if first is None or first.real is None or not calls.value:
            return Amount(), Amount(), Amount()
        said = likely_tokens(first.real, answers(node, items.value / calls.value))
        sent, answered = round(first.tokens * calls.value), round(said * calls.value)
        price = first.model.dollars(Usage(sent, 0, answered))
        priced = Amount() if price is None else Amount(price, "seen")
        return Amount(sent, "seen"), Amount(answered, "seen"), priced

    @staticmethod
    def _as_before(items: Amount, seen: Seen, price: float) -> CallEstimate:
        """The cost, in proportion to the items of earlier runs."""

        def scaled(amount: float) -> Amount:
            return Amount() if math.isnan(amount) else items.times(amount / seen.items, "seen")

        seconds = Amount()
        if seen.issued or not seen.calls:
            seconds = scaled(seen.seconds * (seen.calls / seen.issued if seen.issued else 1))
        sent, answered = scaled(seen.tokens_in), scaled(seen.tokens_out)
        return CallEstimate(
            items, scaled(seen.calls), sent, answered, scaled(seen.dollars * price), seconds
        )

    def _items(self, node: Semantic, left: Amount, known: Seen | None) -> Amount:
        if not left.known:
            return left
        if known is not None and known.runs:
            if known.rows_in:
                return left.times(known.items / known.rows_in, "seen")
            if not left.value:
                return Amount(0.0, "seen")
        if len(node.inputs) > 1:
            right = self.rows(node.inputs[1])
            if not right.known:
                return right
            left = Amount(left.value * right.value, worse(left.kind, right.kind))
        return left.at_most() if node.gated else left

    def _expected(self, node: Semantic, left: Amount, items: Amount) -> Amount:
        """The calls that the implementation estimates. Windows and partitions share no calls; an
        answer that fails a check is requested again in a separate call.
        """
        implementation = self.plan.model_call(node).implementation
        right = self.rows(node.inputs[1]).value if len(node.inputs) > 1 else 0.0
        rows = RowEstimate(left.value, right, items.value, 0.0)
        plan = self.plan.logical
        windowed = node.windowed or (
            plan.windows is None and plan.graph.partition in node.inputs[0].schema.names
        )
        calls = most_calls(implementation, node, rows, self.windows if windowed else 1)
        check = node.check if isinstance(node, Answering) else None
        if check is not None or any(prompt.validators for prompt in node.prompt.all):
            alone = most_calls(implementation, node, rows, math.ceil(rows.items))
            again = (check or Check).retries * alone.value
            bound = calls.kind == alone.kind == "most"
            calls = Amount(calls.value + again, "most" if bound else "seen")
        return calls


@dataclass
class Forecast:
    """The estimates of a plan by step: result rows, and the cost of calls, summed over operators."""

    estimator: Estimator

    def __post_init__(self) -> None:
        plan = self.estimator.plan
        self._last = plan.named()
        self._calls: dict[str, list[CallEstimate]] = {}
        for node in walk(*plan.roots):
            if isinstance(node, Semantic):
                self._calls.setdefault(node.step, []).append(self.estimator.call_estimate(node))

    def of(self, step: str) -> dict[str, Amount]:
        """The estimates of one step: its rows, and of calls the fields of `CallEstimate`."""
        amounts = {"rows": self.estimator.rows(self._last[step])}
        return amounts | self.cost([step])

    def cost(self, steps: Iterable[str]) -> dict[str, Amount]:
        """The costs of some steps together; {} if none calls the model."""
        calls = [call for step in steps for call in self._calls.get(step, ())]
        return _summed(calls) if calls else {}

    def calls(self) -> dict[str, Amount]:
        """The calls of each step that calls the model."""
        return {step: _summed(own)["calls"] for step, own in self._calls.items()}

    def calls_by_model(self, llm: LLM) -> Iterator[tuple[LLM, Amount]]:
        """The calls of each operator, with the model that answers it."""
        for node in walk(*self.estimator.plan.roots):
            if isinstance(node, Semantic):
                model = bound(llm, node.prompt.first.role)
                yield model, self.estimator.call_estimate(node).calls

    def calls_between(self) -> tuple[float, float] | None:
        """The 95 % range of the calls, assuming rows like those of earlier runs. None without an
        estimate of all calls, or without uncertainty.
        """
        calls = self.total()["calls"]
        nodes = (n for n in walk(*self.estimator.plan.roots) if isinstance(n, Semantic))
        spread = _SPREAD * math.sqrt(sum(map(self.estimator.calls_variance, nodes)))
        if calls.kind != "seen" or round(spread) < 1:
            return None
        return max(0.0, calls.value - spread), calls.value + spread

    def seconds_in_order(self) -> Amount:
        """The seconds of sequential calls, window after window of a partition."""
        plan = self.estimator.plan
        nodes = (n for n in walk(*plan.roots) if isinstance(n, Semantic) and n in plan.after_writes)
        return total(self.estimator.call_estimate(node).seconds for node in nodes)

    def total(self) -> dict[str, Amount]:
        """The sum over all calls."""
        return _summed([call for calls in self._calls.values() for call in calls])


def _summed(estimates: list[CallEstimate]) -> dict[str, Amount]:
    return {name: total(getattr(each, name) for each in estimates) for name in CallEstimate._fields}


_LONG = 60.0  # seconds


def how_long(calls: Iterable[tuple[LLM, Amount]], seen: Mapping[str, Seen], rows: int = 0) -> str:
    """A line on the time of the calls of models, by row if `rows` are given, else by call; "" if the
    time is short or unknown. It comes from `seen` calls of the models, else it is as measured. Models
    with concurrent calls take at least that; bounds count as calls, about as many as the unknown ones.
    """
    parts, names, number, kinds = list[Amount](), dict[str, None](), 0.0, set[Kind]()
    for model, amount in calls:
        known, limits = seen.get(pace_key(model.name), Seen()), model.limits
        each = known.seconds / known.issued if known.issued else limits.seconds
        kind: Kind = "seen" if limits.in_flight == 1 else "least"
        parts.append(amount.times(each / limits.in_flight, kind) if each else Amount())
        names["the local model" if limits.seconds else model.name] = None
        number, kinds = number + amount.value, kinds | {amount.kind, kind}
    if (seconds := sum(part.value for part in parts)) < _LONG:
        return ""
    mixed = "most" in kinds and not kinds.isdisjoint({"least", "unknown"})
    sign = _SIGNS["seen" if mixed else total(parts).kind]
    of = plural(rows, "row") if rows else plural(round(number), "call")
    by = " and ".join(names)
    return f"{of} × {sign}{about(seconds / (rows or number))} by {by} {sign}{about(seconds)}"


@lru_cache(maxsize=16)
def _in_loops(roots: tuple[Node, ...]) -> Mapping[Node, Sequence[Iterate]]:
    """The operators that each round of a loop computes, with the outermost loops around them."""
    found: dict[Node, list[Iterate]] = {}
    for loop in loops_of(*roots):
        for node in loop.each_round:
            found.setdefault(node, []).append(loop)
    return found


def _windows(plan: LogicalPlan, inputs: Mapping[str, pa.Table]) -> int:
    """The number of windows, or without windows of partitions in the inputs."""
    windowing, own = plan.windows, plan.graph.partition
    if windowing is None:
        named = (
            table.column(own).unique() for table in inputs.values() if own in table.column_names
        )
        return max(1, len(set().union(*(values.to_pylist() for values in named))))
    if windowing.input not in inputs:
        return 1
    partitions = inputs[windowing.input].column(windowing.partition).to_pylist()
    counts = Counter(value or "" for value in partitions)
    return max(1, sum(math.ceil(count / windowing.window_size(count)) for count in counts.values()))
