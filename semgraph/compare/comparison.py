"""What a comparison found: for each way what it costs and how good its answers are, and each row
back to its prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.expr.functions import canonical_json
from semgraph.logical.prompt import plain
from semgraph.provenance import MEMBER, at
from semgraph.render.formats import plain_line
from semgraph.scores import answers
from semgraph.scores.rows import lookup

if TYPE_CHECKING:
    from semgraph.compare.why import Told
if TYPE_CHECKING:
    from semgraph.semantic.ask import Failure


Kind = Literal["step", "plan"]
Range = tuple[float, float]


@dataclass(frozen=True)
class Spent:
    """Calls of language models, tokens of prompts and answers, dollars (None: a price is not
    known).
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float | None = 0.0

    def __add__(self, other: Spent) -> Spent:
        known = self.dollars is not None and other.dollars is not None
        dollars = (self.dollars or 0.0) + (other.dollars or 0.0) if known else None
        return Spent(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            dollars,
        )


@dataclass(frozen=True)
class Estimate:
    """What one trial of a way is expected to cost; None: not known before it runs.

    Args:
        way: Its name.
        calls: Of models, without what is asked again because an answer is not valid.
        tokens_in: Of the prompts.
        tokens_out: Of answers, with the longest that are allowed.
        dollars: For these.
        least: The fewest calls, where there is a range.
        planned: Whether all requests are known beforehand, so that `calls` are counted; else it is
            an expectation.
    """

    way: str
    calls: float | None = None
    tokens_in: float | None = None
    tokens_out: float | None = None
    dollars: float | None = None
    least: float | None = None
    planned: bool = False


@dataclass(frozen=True)
class Trial:
    """One independent trial of a way.

    Args:
        number: From 0.
        cold: What it costs alone, whoever paid for it and when.
        paid: What was sent for it now.
        seconds: Wall time; None where an answer came from the journal, which would say nothing.
        failed: Rows without an answer, and why, by `failures`.
        rows: The rows of the step as this way answers them; None where a whole plan is compared.
        answers: What was asked and answered, an item a row; `_m` is the number of the frozen row.
    """

    number: int
    cold: Spent
    paid: Spent
    seconds: float | None = None
    failed: int = 0
    rows: pa.Table | None = field(default=None, repr=False)
    answers: pa.Table | None = field(default=None, repr=False)
    failures: tuple[Failed, ...] = ()


@dataclass(frozen=True)
class Quality:
    """How good the answers of a way are, over all its trials.

    Measured against the truth where there is one, else against the reference: then these are
    measures of agreement, and of rows there is only `same`.

    Args:
        precision: Of rows, or of edges; None where nothing was answered.
        recall: Likewise; None where nothing was wanted.
        f1: Likewise; None where neither graph has edges.
        interval: 95 % interval of F1 (without a truth, of `same`), by the bootstrap over rows.
        spread: The least and the greatest of a trial, of the same measure.
        difference: F1 less the reference's, with its paired 95 % interval: (value, low, high).
        same: Share of rows with the same answers as the reference, trial by trial.
        pairs: Nodes: F1 of pairs of members that are together; None where no node has two.
        b_cubed: Nodes: B-cubed F1.
        validity: Edges that hold, over sampled times: F1.
        ended: Edges that have an end: F1.
    """

    precision: float | None = None
    recall: float | None = None
    f1: float | None = None
    interval: Range | None = None
    spread: Range | None = None
    difference: tuple[float, float | None, float | None] | None = None
    same: float | None = None
    pairs: float | None = None
    b_cubed: float | None = None
    validity: float | None = None
    ended: float | None = None


@dataclass(frozen=True)
class Arm:
    """One way, or a plan with some ways, with the trials that were finished."""

    name: str
    use: Mapping[str, str]
    trials: tuple[Trial, ...] = ()
    quality: Quality = Quality()
    comparison: Comparison | None = field(default=None, repr=False, compare=False)

    @property
    def cold(self) -> Spent:
        """What a trial costs alone, on average over the trials."""
        total, number = sum((t.cold for t in self.trials), Spent()), max(len(self.trials), 1)
        dollars = None if total.dollars is None else total.dollars / number
        return Spent(
            round(total.calls / number),
            round(total.tokens_in / number),
            round(total.tokens_out / number),
            dollars,
        )

    @property
    def seconds(self) -> tuple[float, ...]:
        """The wall times that were measured."""
        return tuple(t.seconds for t in self.trials if t.seconds is not None)

    @property
    def failed(self) -> int:
        """Rows without an answer, over all trials."""
        return sum(t.failed for t in self.trials)

    def why(self, trial: int = 0, **where: Any) -> Told:
        """What was asked about rows of the frozen input and answered: `why(id=42)`. Printed, it has
        the exact prompts.

        Args:
            trial: Which trial, from 0.
            where: Columns of the row and their values.

        Raises:
            PlanError: There is no such column, row or trial.
        """
        from semgraph.compare.why import told

        return told(self, trial, where)


@dataclass(frozen=True)
class Comparison:
    """Ways compared over the same rows, or whole plans over the same inputs.

    Args:
        id: Of its record.
        plan: Name of the plan.
        step: The step whose ways are compared; "" for whole plans.
        model: Who answered.
        arms: In the order they were given.
        reference: The way that the others are compared with.
        trials: How many trials of each were asked for.
        truth: Whether there was a truth to compare with.
        closed: Whether a row that the truth does not have should have no answer; else it is not
            scored.
        key: The columns that name a row.
        compare: The columns that are compared; `people[].name` is a field of each element of a
            list.
        frozen: How many rows each input of the step has, by name, and the SHA-256 of all.
        paid: What was sent for it in all, the run that made the rows included.
        before: What was sent to make the rows, before any way was asked.
        estimates: What a trial of each way was expected to cost.
        notes: What the reader should know.
        stopped: Why it ended early, or None.
        store: The store that was read.
        record: Folder of the record.
        journal: File with the answers.
        rows: The frozen rows, by number.
        wanted: The truth, as far as it is about these rows.
    """

    id: str
    plan: str
    step: str
    model: str
    arms: tuple[Arm, ...]
    reference: str = ""
    trials: int = 1
    truth: bool = False
    closed: bool = True
    key: tuple[str, ...] = ()
    compare: tuple[str, ...] = ()
    frozen: Mapping[str, Any] = field(default_factory=dict)
    paid: Spent = Spent()
    before: Spent = Spent()
    estimates: tuple[Estimate, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: str | None = None
    store: str = ""
    record: Path | None = None
    journal: Path | None = None
    rows: pa.Table | None = field(default=None, repr=False)
    wanted: pa.Table | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        own = tuple(replace(arm, comparison=self) for arm in self.arms)
        object.__setattr__(self, "arms", own)

    @property
    def kind(self) -> Kind:
        """Whether ways of a step were compared, or whole plans."""
        return "step" if self.step else "plan"

    @property
    def exit_code(self) -> int:
        """As the command line gives it: 4 at a limit, 3 with failed rows, else 0."""
        return 4 if self.stopped else 3 if any(arm.failed for arm in self.arms) else 0

    @property
    def missing(self) -> Mapping[str, int]:
        """How many trials were not run, by way."""
        return {arm.name: n for arm in self.arms if (n := self.trials - len(arm.trials))}

    def __getitem__(self, name: str) -> Arm:
        """A way by its name. Raises PlanError."""
        found = next((arm for arm in self.arms if arm.name == name), None)
        if found is None:
            names = [arm.name for arm in self.arms]
            raise PlanError(
                Problem(
                    f'"{name}" was not compared',
                    there="ways: " + ", ".join(names),
                    hint=did_you_mean(name, names),
                )
            )
        return found

    def __iter__(self) -> Iterator[Arm]:
        return iter(self.arms)

    def __len__(self) -> int:
        return len(self.arms)

    def disagreements(self, one: str, other: str, trial: int = 0) -> pa.Table:
        """The rows on which two ways differ, each with what both say and, where it is known, what
        is true.

        Columns: those that name the row, `one`, `other` and `truth`, the latter three with the
            answers as lists;
        `truth` is NULL where it says nothing of the row.

        Raises:
            PlanError: There is no such way or trial, or whole plans were compared.
        """
        from semgraph.compare.comparison import differing

        return differing(self, self[one], self[other], trial)

    def __str__(self) -> str:
        """The table as `semgraph compare` prints it, as wide as the terminal."""
        import shutil

        from semgraph.render.comparison import plain

        return plain(self, shutil.get_terminal_size((120, 24)).columns)

    def __repr__(self) -> str:
        return str(self)

    def chart(self) -> Any:
        """Cost across, quality up: a matplotlib figure where that is installed, else text."""
        from semgraph.render.comparison import chart

        return chart(self)

    def to_json(self) -> dict[str, Any]:
        """The object that `--format json` prints."""
        from semgraph.compare.record import as_data

        return as_data(self)

    def _repr_html_(self) -> str:
        """How notebooks show it."""
        from semgraph.render.comparison import html

        return html(self)


def trial_of(arm: Arm, number: int) -> Trial:
    """A trial of a way. Raises PlanError if it was not run."""
    found = next((t for t in arm.trials if t.number == number), None)
    if found is None:
        run: Sequence[str] = [str(t.number) for t in arm.trials]
        raise PlanError(
            Problem(
                f"{arm.name} has no trial {number}", there="trials: " + (", ".join(run) or "none")
            )
        )
    return found


Said = Mapping[Hashable, Counter[Hashable]]
FAILED = "\0failed"
EACH = "[]"
TRUE = "_true"
"""Of the rows of a truth that says yes or no of each: which."""


def said(
    table: pa.Table, key: Sequence[str], compare: Sequence[str], units: pa.Table | None = None
) -> Said:
    """The answers that rows give, by what names the row; `units` are rows that were asked about,
    answered or not.

    `people[].name` compares a field of each element of a list and `tags[]` each element whole:
    every element is an answer of its own, whatever their order. What else is compared of a row is
    one answer.
    """
    rows = [plain(row) for row in table.to_pylist()]
    asked = [] if units is None else [_values(plain(row), key) for row in units.to_pylist()]
    lists = {path.partition(EACH)[0]: [p for p in compare if p.partition(EACH)[0] == path.partition(EACH)[0]]
             for path in compare if EACH in path}  # fmt: skip
    whole = [path for path in compare if EACH not in path]
    parts: dict[str, Mapping[Hashable, Counter[Hashable]]] = {}
    if whole or not lists:
        flat = (
            dict(zip((*key, *whole), _values(row, (*key, *whole)), strict=True)) for row in rows
        )
        parts[""] = answers(flat, key, whole, asked)
    for name, paths in lists.items():
        named = [*asked, *(_values(row, key) for row in rows)]
        parts[name] = answers(_elements(rows, key, name, paths), key, paths, named)
    if len(parts) == 1:
        return next(iter(parts.values()))
    found: dict[Hashable, Counter[Hashable]] = {}
    for name, part in parts.items():
        for unit, own in part.items():
            several = found.setdefault(unit, Counter())
            for answer, count in own.items():
                several[(name, answer) if name else answer] += count
    return found


def names(table: pa.Table, key: Sequence[str]) -> list[Hashable]:
    """What names each row."""
    return [tuple(map(lookup, _values(plain(row), key))) for row in table.to_pylist()]


def _values(row: Mapping[str, Any], paths: Sequence[str]) -> tuple[Any, ...]:
    return tuple(at(row, path) for path in paths)


def _elements(
    rows: Sequence[Mapping[str, Any]], key: Sequence[str], name: str, paths: Sequence[str]
) -> Iterator[Mapping[str, Any]]:
    """The elements of a list column, each as a row of its own with what names the row that it is
    in.
    """
    for row in rows:
        for element in at(row, name) or ():
            fields = {path: path.partition(EACH)[2].removeprefix(".") for path in paths}
            values = {
                path: at(element, inner) if inner else element for path, inner in fields.items()
            }
            yield dict(zip(key, _values(row, key), strict=True)) | values


def told(
    trial: Trial, key: Sequence[str], compare: Sequence[str], asked: pa.Table | None, way: str = ""
) -> dict[Hashable, Counter[Hashable]]:
    """What a trial says of each row that was asked about. A row that failed says that, and agrees
    with no other way.
    """
    empty = pa.table({name.split(".")[0].removesuffix(EACH): [] for name in (*key, *compare)})
    found = dict(said(empty if trial.rows is None else trial.rows, key, compare, asked))
    if trial.answers is not None and asked is not None and trial.failed:
        wrong = {
            r[MEMBER]
            for r in trial.answers.select([MEMBER, "error"]).to_pylist()
            if r["error"] is not None
        }
        failed = asked.take(pa.array(sorted(wrong), pa.int64()))
        found |= {
            unit: Counter([(FAILED, way)]) for unit in said(failed.slice(0, 0), key, (), failed)
        }
    return found


def differing(comparison: Comparison, one: Arm, other: Arm, trial: int) -> pa.Table:
    """See `Comparison.disagreements`."""
    if comparison.rows is None:
        hint = "compare a step of the plan: step=..."
        raise PlanError(
            Problem("whole plans were compared, which have no rows in common", hint=hint)
        )
    asked = _with_keys(comparison)
    ours, theirs = (
        told(trial_of(arm, trial), comparison.key, comparison.compare, asked, arm.name)
        for arm in (one, other)
    )
    true = None if comparison.wanted is None else _true(comparison.wanted, comparison)
    none: Counter[Hashable] = Counter()
    found: list[dict[str, Any]] = []
    for unit in dict.fromkeys([*ours, *theirs]):
        mine, yours = ours.get(unit, none), theirs.get(unit, none)
        if mine != yours:
            values = dict(zip(comparison.key, unit, strict=True)) if isinstance(unit, tuple) else {}
            row: dict[str, Any] = {name: _text(value) for name, value in values.items()}
            row |= {one.name: _listed(mine, comparison), other.name: _listed(yours, comparison)}
            if true is not None:
                open_ = not comparison.closed and unit not in true
                row["truth"] = None if open_ else _listed(true.get(unit, none), comparison)
            found.append(row)
    names = [*comparison.key, one.name, other.name, *(["truth"] if true is not None else [])]
    schema = pa.schema(
        [(n, pa.string() if n in comparison.key else pa.list_(pa.string())) for n in names]
    )
    return pa.Table.from_pylist(found, schema=schema)


def _true(wanted: pa.Table, comparison: Comparison) -> Said:
    """What is true of each row that the truth has."""
    right = wanted.filter(wanted.column(TRUE)) if TRUE in wanted.column_names else wanted
    return said(right, comparison.key, comparison.compare, wanted if wanted.num_rows else None)


def _with_keys(comparison: Comparison) -> pa.Table | None:
    rows = comparison.rows
    named = rows is not None and all(
        path.split(".")[0] in rows.column_names for path in comparison.key
    )
    return rows if named else None


def _listed(answers: Counter[Hashable], comparison: Comparison) -> list[str]:
    """Answers as text: the value alone where one column is compared; `yes` where being there is the
    answer.
    """
    if any(isinstance(said, tuple) and said[:1] == (FAILED,) for said in answers):
        return ["(failed)"]
    if not comparison.compare:
        return ["yes"] * answers.total()
    found = []
    for said in answers.elements():
        values = said if isinstance(said, tuple) else (said,)
        if len(values) == 2 and isinstance(values[1], tuple):  # of one of several lists
            values = (values[0], *values[1])
        found.append(" · ".join(_text(value) or "–" for value in values))
    return found


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else canonical_json(value)


_SHOWN = 5  # kinds of failures of a way


class Failed(NamedTuple):
    """How many rows of a step failed for one reason."""

    rows: int
    step: str
    error: str


def kinds(failures: Iterable[Failure]) -> tuple[Failed, ...]:
    """Failures by step and reason, the most frequent first."""
    found = Counter((failure.step, failure.error) for failure in failures)
    return tuple(Failed(rows, step, error) for (step, error), rows in found.most_common())


def failure_lines(arm: Arm) -> Iterator[str]:
    """Lines about one way, over all its trials; none if nothing failed."""
    found: Counter[tuple[str, str]] = Counter()
    for each in (failed for trial in arm.trials for failed in trial.failures):
        found[each.step, plain_line(each.error)] += each.rows
    for (step, error), rows in found.most_common(_SHOWN):
        yield f"! {arm.name} failed: {rows} × {step}: {error}"
    if len(found) > _SHOWN:
        yield f"! {arm.name} failed: … and {len(found) - _SHOWN} more kinds"
