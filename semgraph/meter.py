"""Counters to which every layer reports, one `StepMetrics` per step. Counts are exact under
concurrency, because each call is counted where its step awaits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from semgraph.formats import plural


@dataclass(repr=False)
class StepMetrics:
    """The counters of one step.

    `calls_issued`, `calls_journal` and `calls_coalesced` are answers by origin; `attempts` are sent
    HTTP requests. Tokens and dollars count only issued calls. `dollars` is None if the price of a
    call is unknown. `rows_in` and `rows_out` are None if unknown: inside a statement that computes
    several steps. `unusable` are answers about several rows that lacked some rows; these were asked
    about again. `refused` are answers that failed a check and were requested again.
    """

    operator: str = ""
    how: str = ""
    rows_in: int | None = 0
    rows_out: int | None = 0
    rows_failed: int = 0
    calls_issued: int = 0
    calls_journal: int = 0
    calls_coalesced: int = 0
    attempts: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    dollars: float | None = 0.0
    seconds: float = 0.0
    round_trips: int = 0
    embeddings: int = 0
    unusable: int = 0
    refused: int = 0

    @classmethod
    def of(cls, counters: Mapping[str, Any]) -> Self:
        """The counters of a record, of whichever version."""
        known = {field.name for field in fields(StepMetrics)}
        return cls(**{name: value for name, value in counters.items() if name in known})

    def __repr__(self) -> str:
        """The counters that are not zero.

        >>> StepMetrics(calls_issued=2, tokens_in=180, dollars=None)
        StepMetrics(calls_issued=2, tokens_in=180, dollars=None)
        """
        counted = ((f.name, getattr(self, f.name)) for f in fields(StepMetrics))
        named = [f"{name}={value!r}" for name, value in counted if value or value is None]
        return f"{type(self).__name__}({', '.join(named)})"

    def add(self, other: StepMetrics) -> None:
        """Add another step's counters to this one, in place."""
        for f in fields(StepMetrics):
            own, added = getattr(self, f.name), getattr(other, f.name)
            if own is None or added is None:
                setattr(self, f.name, None)
            elif isinstance(own, (int, float)):
                setattr(self, f.name, own + added)

    def as_dict(self) -> dict[str, Any]:
        """The counters as plain data, for JSON."""
        return {f.name: getattr(self, f.name) for f in fields(StepMetrics)}


_NAMES = {"operator", "how"}


@dataclass(repr=False)
class OperatorMetrics(StepMetrics):
    """The counters of one operator of a step; each count is also added to its parent: the counters
    of the step or, for one call, of the operator.
    """

    parent: StepMetrics = field(default_factory=StepMetrics)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a counter, and change the parent's counter by the same amount."""
        parent = self.__dict__.get("parent")
        if parent is not None:
            before = getattr(self, name)
            if isinstance(before, (int, float)) and isinstance(value, (int, float)):
                own = getattr(parent, name)
                setattr(parent, name, None if own is None else own + value - before)
            elif name not in _NAMES:
                setattr(parent, name, value)
        object.__setattr__(self, name, value)

    def gave(self, rows: int) -> None:
        """Count rows of the operator's result; the rows of a step are those of its last operator."""
        object.__setattr__(self, "rows_out", (self.rows_out or 0) + rows)


def split(
    steps: Mapping[str, StepMetrics], operators: Mapping[str, Sequence[StepMetrics]]
) -> dict[str, StepMetrics]:
    """Counters by step. A step with several operators has an entry for each: `step.1`, `step.2`."""
    lines: dict[str, StepMetrics] = {}
    for name, step in steps.items():
        several = operators.get(name, ())
        lines |= (
            {f"{name}.{i}": part for i, part in enumerate(several, 1)} if several else {name: step}
        )
    return lines


@dataclass
class CountedNotes:
    """Notes of implementations, one line each for the run. A note about a frequent event, such as a
    dropped element of an answer, has a count and the first example.

    >>> notes = CountedNotes()
    >>> notes.count("facts", "left out an element", "at: 2025-13 is no time")
    >>> notes.count("facts", "left out an element", "at: soon is no time")
    >>> notes.lines()
    ['step facts: left out an element: 2 times, first: at: 2025-13 is no time']
    """

    counts: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)

    def count(self, step: str, what: str, example: str, times: int = 1) -> None:
        """Count an occurrence of `what` in a step; the first example is kept."""
        before, first = self.counts.get((step, what), (0, example))
        self.counts[step, what] = before + times, first

    def add(self, other: CountedNotes) -> None:
        """Add the counts of another part of the run."""
        for (step, what), (times, example) in other.counts.items():
            self.count(step, what, example, times)

    def lines(self) -> list[str]:
        """One line for each kind of occurrence, in the order of first occurrence."""
        return [
            f"step {step}: {what}: {plural(times, 'time')}, first: {example}" if step else what
            for (step, what), (times, example) in self.counts.items()
        ]


@dataclass
class Meter:
    """The counters of one run, by step name. Single-threaded: all layers report from the event
    loop.

    `counts` are the rows that a plan counts, by step and text. `counted` are the notes with a
    count; `paid` are the ids of counted calls. `replayed` counts calls of earlier runs that the
    journal answered, each once, as if issued.
    """

    steps: dict[str, StepMetrics] = field(default_factory=dict)
    by_operator: dict[str, dict[object, OperatorMetrics]] = field(default_factory=dict)
    paid: set[str] = field(default_factory=set)
    replayed: StepMetrics = field(default_factory=StepMetrics)
    counted: CountedNotes = field(default_factory=CountedNotes)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, metrics: Mapping[str, Any]) -> Self:
        """The counters of a record, as `as_dict` has them."""
        steps, operators, counts = (
            metrics.get(name) or {} for name in ("steps", "operators", "counts")
        )
        return cls(
            {name: StepMetrics.of(own) for name, own in steps.items()},
            {n: dict(enumerate(map(OperatorMetrics.of, own))) for n, own in operators.items()},
            counts=counts,
        )

    def step(self, name: str) -> StepMetrics:
        """The counters of a step, created on first use."""
        if name not in self.steps:
            self.steps[name] = StepMetrics()
        return self.steps[name]

    def operator(self, name: str, key: object, operator: str, how: str) -> OperatorMetrics:
        """The counters of one operator of a step, by `key`; they are also counted for the step.

        A step with several operators is named by all of them.
        """
        operators = self.by_operator.setdefault(name, {})
        if key not in operators:
            operators[key] = OperatorMetrics(parent=self.step(name), operator=operator, how=how)
            step = self.step(name)
            step.operator = ", ".join(dict.fromkeys(each.operator for each in operators.values()))
            step.how = ", ".join(dict.fromkeys(each.how for each in operators.values()))
        return operators[key]

    def operators(self) -> dict[str, list[StepMetrics]]:
        """The counters of each operator, for steps with several operators."""
        several = {name: own for name, own in self.by_operator.items() if len(own) > 1}
        return {name: list(own.values()) for name, own in several.items()}

    @classmethod
    def merge(cls, parts: Iterable[Meter]) -> Meter:
        """The counters of several runs of one plan together, without references to their plans."""
        merged = cls()
        for part in parts:
            merged.paid |= part.paid
            merged.replayed.add(part.replayed)
            merged.counted.add(part.counted)
            for name, step in part.steps.items():
                own = merged.step(name)
                own.operator, own.how = step.operator or own.operator, step.how or own.how
                own.add(step)
            for name, operators in part.by_operator.items():
                merged._merge_operators(name, operators)
            for name, counts in part.counts.items():
                together = merged.counts.setdefault(name, {})
                together |= {text: together.get(text, 0) + n for text, n in counts.items()}
        return merged

    def _merge_operators(self, name: str, operators: Mapping[object, OperatorMetrics]) -> None:
        own = self.by_operator.setdefault(name, {})
        for key, operator in operators.items():
            lasting = getattr(key, "fingerprint", key)
            if lasting not in own:  # the step already includes its counts
                own[lasting] = OperatorMetrics(operator=operator.operator, how=operator.how)
            own[lasting].add(operator)

    def lines(self) -> dict[str, StepMetrics]:
        """The counters for tables: a line for each step, or for each operator of a step with
        several operators.
        """
        return split(self.steps, self.operators())

    def total(self) -> StepMetrics:
        """The sum over all steps."""
        total = StepMetrics()
        for step in list(self.steps.values()):  # progress is drawn by another thread
            total.add(step)
        return total

    def as_dict(self) -> dict[str, Any]:
        """The counters as plain data, for JSON: in total, by step, by operator of steps with
        several, and what the plan counts.
        """
        return {
            "total": self.total().as_dict(),
            "steps": {name: step.as_dict() for name, step in self.steps.items()},
            "operators": {
                name: [part.as_dict() for part in parts] for name, parts in self.operators().items()
            },
            "counts": self.counts,
        }
