"""The trials of the candidates of a step over drawn rows of its input: what they cost, how their answers
agree with the truth or with those of the reference.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import pyarrow as pa

from semgraph.compare.comparison import Spent, Trial, trial_answers
from semgraph.compare.step import StepArms
from semgraph.compare.trial import Attempt, Bench
from semgraph.compare.truth import EACH, names_of, whole_rows
from semgraph.errors import PlanError
from semgraph.execution.record import INPUT_ROW
from semgraph.expr.functions import canonical_json
from semgraph.formats import dollars, plural
from semgraph.llm.base import LLM, Usage
from semgraph.llm.stack import bound
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.prompt import plain
from semgraph.logical.semantic import SemAgg, SemFilter, SemJoin, SemTopk
from semgraph.provenance import at
from semgraph.scores import tally
from semgraph.tune.tuning import Unit
from semgraph.tune.walk import Counts, Measure

REFERENCE = "reference"
PILOT = 20  # rows on which the length of answers is observed
_ESTIMATED = 400  # rows on which requests are counted
_MILLION = 1_000_000


@dataclass(frozen=True)
class Prices:
    """Dollars of a million tokens in and out, by the role of the model; none: costs are tokens."""

    of: Mapping[str, tuple[float, float]]

    @classmethod
    def by(cls, models: Mapping[str, LLM]) -> Self:
        """The prices of models by role. Raises PlanError if there are several models, and one has none."""
        found: dict[str, tuple[float, float]] = {}
        for role, model in models.items():
            sent, said = model.dollars(Usage(_MILLION)), model.dollars(Usage(0, 0, _MILLION))
            if sent is not None and said is not None:
                found[role] = sent, said
            elif len({each.name for each in models.values()}) > 1:
                what = f"the costs of several models are compared in dollars, and {model.name} has no price"
                hint = f"{model.name}?price=IN/OUT, in dollars of a million tokens"
                raise PlanError(what, hint=hint)
        return cls(found if any(map(any, found.values())) else {})

    @property
    def known(self) -> bool:
        """Whether costs are dollars."""
        return bool(self.of)

    def cost(self, spent: Spent) -> float:
        """A cost in dollars, or in tokens. Raises PlanError if the price of vectors is unknown."""
        if not self.known:
            return float(spent.tokens_in + spent.tokens_out)
        if spent.dollars is None:
            what = "it embeds texts, and the embedder has no price"
            raise PlanError(what, hint="EMBEDDER?price=IN, in dollars of a million tokens")
        return spent.dollars

    def of_thousand(self, found: DrawnTrial) -> float:
        """What 1,000 rows cost, as measured."""
        return 1000 * self.cost(found.trial.cold) / max(len(found.numbers), 1)

    def text(self, amount: float) -> str:
        """A cost in words."""
        return dollars(amount, exact=True) if self.known else f"{amount:,.0f} tokens"


class DrawnTrial(NamedTuple):
    """A trial of a candidate over drawn rows, by number; of a step also those that are checked."""

    attempt: Attempt
    numbers: Sequence[int]
    checked: Sequence[int] = ()

    @property
    def trial(self) -> Trial:
        """Its answers and their cost."""
        return self.attempt.trial


class StepTrials:
    """The candidates of a step over one draw of its rows; the arm `reference` is the plan's choice."""

    def __init__(self, bench: Bench, unit: Unit, sample: int, seed: int) -> None:
        self.bench, self.unit, self.sample, self.seed = bench, unit, sample, seed
        self.arms = StepArms(bench)
        self.arms.reference = REFERENCE
        self.node, self.truth = self.arms.node, self.arms.truth
        if not self.measure.bernoulli:  # nothing is shown, so that all answers are counted
            self.unit = "row"
        self.seen: dict[str, tuple[float, float]] = {}  # of a family in the pilot, see `observed`
        self.lost: dict[str, str] = {}  # candidates whose requests raised an error
        self.measured: dict[str, float] = {}  # costs of candidates without known requests

    async def prepare(self) -> None:
        """Compute the rows of the step, draw them, and count the requests of all candidates."""
        await self.arms.freeze()
        self.units, grouped = self._drawn(), isinstance(self.node, SemAgg)
        self.all = len(self.units) if grouped else self.arms.frozen.rows.num_rows
        some = [number for unit in self.units[:_ESTIMATED] for number in unit]
        self.estimated = len(some)
        await self.arms.estimate(self.arms.frozen.only(some), self.lost)
        self.estimates = {each.variant: each for each in self.arms.estimates}

    def _drawn(self) -> list[tuple[int, ...]]:
        """The rows of each unit by number, in the order of the draw: rows with different questions, or
        groups. Any beginning is a uniform sample.
        """
        node, rows = self.node, self.arms.frozen.rows
        paths = node.by if isinstance(node, SemAgg) else node.prompt.fields
        keys = ([at(row, path) for path in paths] for row in rows.to_pylist())
        return units_of(keys, self.seed, whole=isinstance(node, SemAgg))

    @cached_property
    def measure(self) -> Measure:
        """How its answers are counted. The pairs of a row of a join are answered together, and their number
        differs: no one of them stands for the others.
        """
        node = self.node
        _, compare = whole_rows(node)
        columns = self.truth.scored.compare if self.truth else compare
        kept = isinstance(node, SemJoin) or (isinstance(node, SemFilter) and not columns)
        listed = any(EACH in path for path in columns) and not isinstance(node, SemJoin)
        together = isinstance(node, SemJoin) and self.unit == "call"
        return Measure(kept, not (listed or together or isinstance(node, SemTopk)))

    # Costs

    async def observed(self, name: str, family: str, found: DrawnTrial) -> None:
        """Note what a family took in the pilot: the tokens of prompts, as a share of those counted before
        they were sent, and the tokens of answers for each row.
        """
        each, estimates = self.arms.arms[name], self.arms.expected[name]
        frozen = self.arms.frozen.only(found.numbers)
        items = await frozen.items(estimates.llm, estimates.embedder)
        requests = await replace(estimates, rows=items).at_once(each.implementation)
        if requests is None or self._of_requests(name, (1.0, 0.0)) is None:
            self.measured[name] = self.prices.of_thousand(found)
            return
        counted = estimates.of(name, each.implementation, requests).tokens_in or 1.0
        rows = max(len(found.numbers), 1)
        cold = found.trial.cold
        self.seen[family] = cold.tokens_in / counted, cold.tokens_out / rows

    def expected(self, name: str, family: str) -> float | None:
        """The cost of 1,000 rows as far as it is known: before the pilot, of the prompts; None: not at
        all, since requests depend on answers.
        """
        seen = self.seen.get(family, (1.0, 0.0))
        return self.measured.get(name, self._of_requests(name, seen))

    def _of_requests(self, name: str, seen: tuple[float, float]) -> float | None:
        if name in self.lost:
            return None
        requests, estimate = self.arms.requests[name], self.estimates[name]
        if requests is None or estimate.tokens_in is None or len(requests) != 1:
            return None
        sent, said = 1000 * estimate.tokens_in * seen[0] / self.estimated, 1000 * seen[1]
        if not self.prices.known:
            return sent + said
        model = bound(self.arms.arms[name].arm.opened.llm, next(iter(requests)))
        return model.dollars(Usage(round(sent), 0, round(said)))

    @cached_property
    def prices(self) -> Prices:
        """The prices of the models of all candidates. Raises PlanError."""
        arms = self.arms.arms.values()
        roles = {
            prompt.role: each.arm.opened.llm for each in arms for prompt in each.node.prompt.all
        }
        return Prices.by({role: bound(llm, role) for role, llm in roles.items()})

    def rows_of_call(self, name: str) -> int:
        """The rows that share a call."""
        calls = self.estimates[name].calls
        if self.unit != "call" or not calls or self.arms.requests[name] is None:
            return 1
        return max(math.ceil(len(self.units[:_ESTIMATED]) / calls), 1)

    def rows_of_unit(self, name: str) -> int:
        """The rows that it takes to check one of a candidate, which shares no call with another checked
        one: also none of the reference, if its answers stand for the truth.
        """
        names = (name,) if self.truth is not None else (name, REFERENCE)
        return max(map(self.rows_of_call, names))

    def most(self, name: str) -> int:
        """The units of a candidate that can be checked: with units of calls, one in each."""
        return min(self.sample, len(self.units) // self.rows_of_unit(name))

    # Trials

    async def answers(self, name: str, units: int, number: int = 0) -> DrawnTrial:
        """The answers of a candidate to the first units of the draw, each with the rows beside it that
        share its call, which are not checked. Its place among them is drawn, since errors may depend on it.
        """
        wide = self.rows_of_call(name)
        beside = self.units[self.most(name) :]
        rows, checked = list[int](), list[int]()
        for place, unit in enumerate(self.units[:units]):
            checked.append(unit[0])
            call = beside[place * (wide - 1) : (place + 1) * (wide - 1)]
            call.insert(random.Random(f"{self.seed} {place}").randrange(wide), unit)  # noqa: S311
            rows += [n for own in call for n in own]
        frozen = self.arms.frozen.only(rows)
        work = partial(self.arms.attempt, name, number, frozen=frozen)
        attempt = await self.bench.pays(work)
        return DrawnTrial(attempt, rows, checked)

    def counted(self, name: str, own: DrawnTrial, reference: DrawnTrial | None) -> list[Counts]:
        """The counts of the checked units of a candidate: against the truth, or without one against the
        reference. With units of calls, of each call only one row.
        """
        checked = self._apart(own) if self.unit == "call" else own.checked
        counts = self._by_number(name, own, reference, checked)
        return [count for number in checked for count in counts.get(number) or [(0, 0, 0)]]

    def true_answers(self, reference: DrawnTrial) -> float:
        """The true answers of a row, on average, by all answers of the reference."""
        counts = self._by_reference(REFERENCE, reference, reference, reference.numbers)
        return sum(c[2] for own in counts.values() for c in own) / max(len(reference.numbers), 1)

    def _by_number(
        self, name: str, own: DrawnTrial, reference: DrawnTrial | None, checked: Sequence[int]
    ) -> Mapping[int, Sequence[Counts]]:
        by_reference = partial(self._by_reference, name, own, reference or own)
        return by_reference(checked) if self.truth is None else self._by_truth(own, checked)

    @staticmethod
    def _apart(own: DrawnTrial) -> list[int]:
        """The checked rows that share no call, in the order of the draw."""
        calls: dict[int, set[str]] = {}
        for row in own.trial.answers.to_pylist() if own.trial.answers is not None else ():
            calls.setdefault(row[INPUT_ROW], set()).update(row["calls"] or ())
        used, kept = set[str](), list[int]()
        for number in own.checked:
            asked = calls.get(number, set())
            if not asked & used:
                kept.append(number)
                used |= asked
        return kept

    def _by_reference(
        self, name: str, own: DrawnTrial, reference: DrawnTrial, checked: Sequence[int]
    ) -> dict[int, list[Counts]]:
        key, compare = whole_rows(self.node)
        rows = self.arms.frozen.rows
        ours = trial_answers(own.trial, key, compare, rows, name)
        true = trial_answers(reference.trial, key, compare, rows, REFERENCE)
        none: Counter[object] = Counter()
        units = zip(checked, names_of(rows.take(pa.array(checked, pa.int64())), key), strict=True)
        return {
            number: self._counts(ours.get(unit, none), true.get(unit, none))
            for number, unit in units
        }

    def _by_truth(self, own: DrawnTrial, checked: Sequence[int]) -> dict[int, list[Counts]]:
        truth, frozen = self.truth, self.arms.frozen.rows
        assert truth is not None
        assert own.trial.rows is not None
        rows = frozen.take(pa.array(checked, pa.int64()))
        numbers: dict[object, int] = {}
        for number, name in zip(checked, names_of(rows, truth.columns.key), strict=True):
            numbers.setdefault(name, number)
        ours, true = truth.answered(own.trial.rows, rows), truth.wanted(rows)
        answers, failed, width = own.trial.answers, set[int](), len(truth.columns.key)
        if answers is not None and own.trial.failed:
            wrong = answers.filter(answers.column("error").is_valid()).column(INPUT_ROW)
            failed = {*own.checked} & {*wrong.to_pylist()}
        none: Counter[object] = Counter()
        result: dict[int, list[Counts]] = {}
        for unit in dict.fromkeys([*ours, *true]):
            row = numbers.get(unit[:width] if isinstance(unit, tuple) else unit)
            if row is None or not (truth.closed or unit in true):
                continue
            counts = self._counts(ours.get(unit, none), true.get(unit, none))
            if row in failed:  # also where no answer would be right
                counts = [(0, 1, min(wanted, 1)) for _, _, wanted in counts] or [(0, 1, 0)]
            result.setdefault(row, []).extend(counts)
        return result | {number: [(0, 1, 0)] for number in failed if number not in result}

    def _counts(self, ours: Counter[object], true: Counter[object]) -> list[Counts]:
        """The counts of a unit: of a join, of each of its pairs; the elements of lists together."""
        if isinstance(self.node, SemJoin):
            pairs = sorted(dict.fromkeys([*ours, *true]), key=repr)
            found = [(answer in ours, answer in true) for answer in pairs]
            return [(int(own and right), int(own), int(right)) for own, right in found]
        if not self.measure.bernoulli:
            return [tally({0: ours}, {0: true})[0]]
        same = bool(ours) and +ours == +true
        return [(int(same), int(bool(ours)), int(bool(true)))]

    def common(self, of: Mapping[str, DrawnTrial]) -> dict[str, Attempt]:
        """The trials of some candidates with the answers to the units that all of them have answered,
        which become the rows of the step.
        """
        shared = set.intersection(*(set(own.checked) for own in of.values()))
        numbers = [number for unit in self.units if unit[0] in shared for number in unit]
        frozen = self.arms.frozen = self.arms.frozen.only(numbers)
        kept = [number for part in frozen.parts for number in part[0].column(INPUT_ROW).to_pylist()]
        place, key = {number: at for at, number in enumerate(kept)}, whole_rows(self.node).key
        names = set(names_of(frozen.rows, key))

        def restricted(trial: Trial) -> Attempt:
            rows, answers = trial.rows, trial.answers
            if rows is not None:
                wanted = [name in names for name in names_of(rows, key)]
                rows = rows.filter(pa.array(wanted, pa.bool_()))
            if answers is not None:
                found = [place.get(number) for number in answers.column(INPUT_ROW).to_pylist()]
                column = answers.column_names.index(INPUT_ROW)
                answers = answers.set_column(column, INPUT_ROW, pa.array(found, pa.int64()))
                answers = answers.filter(answers.column(INPUT_ROW).is_valid())
            return Attempt(replace(trial, rows=rows, answers=answers))

        return {name: restricted(own.trial) for name, own in of.items()}

    def digest(self, units: int) -> str:
        """The first digits of the SHA-256 of the checked rows."""
        numbers = [number for unit in self.units[:units] for number in unit]
        return str(self.arms.frozen.only(numbers).facts()["sha"])[:8]

    def clusters(self, name: str, own: DrawnTrial, reference: DrawnTrial | None) -> str:
        """How errors cluster in calls, in words; "" without errors or where no call has two rows."""
        counts = self._by_number(name, own, reference, own.checked)
        wrong = {n for n, of in counts.items() if any(hits != max(a, t) for hits, a, t in of)}
        errors, rows = Counter[str](), Counter[str]()
        for row in own.trial.answers.to_pylist() if own.trial.answers is not None else ():
            for call in (row["calls"] or ())[:1]:
                rows[call] += 1
                errors[call] += row[INPUT_ROW] in wrong
        if not errors.total() or max(rows.values()) < 2:
            return ""
        number, found = 0, 0
        for _, more in errors.most_common():
            number, found = number + 1, found + more
            if found >= 0.8 * errors.total():
                break
        return f"{number} of {len(rows)} calls hold {found} of {plural(errors.total(), 'error')}"


def drawn(
    plan: LogicalPlan, inputs: Mapping[str, pa.Table], seed: int
) -> tuple[str, list[tuple[int, ...]]]:
    """The input that units are drawn from, and the numbers of the rows of each unit in the order of the
    draw: whole groups of the windowed input, else rows of the longest one. Raises PlanError.
    """
    longest = max(inputs, key=lambda n: inputs[n].num_rows, default="")
    name = plan.windows.input if plan.windows else longest
    if not name or not inputs[name].num_rows:
        what = f"plan {plan.name} has no rows to draw from"
        raise PlanError(what, hint="give its inputs, with rows")
    rows, windows = inputs[name].to_pylist(), plan.windows
    keys = (row[windows.partition] if windows else row for row in rows)
    return name, units_of(keys, seed, whole=windows is not None)


def units_of(keys: Iterable[Any], seed: int, *, whole: bool) -> list[tuple[int, ...]]:
    """The numbers of the rows of each key in the order of a draw, or the first of them unless a unit is a
    `whole` group; any beginning is a uniform sample.
    """
    units: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        units.setdefault(canonical_json(plain(key)), []).append(number)
    drawn_keys = sorted(units, key=lambda key: hashlib.sha256(f"{seed} {key}".encode()).digest())
    return [tuple(units[key]) if whole else (units[key][0],) for key in drawn_keys]
