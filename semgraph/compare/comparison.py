"""The result of a comparison: cost and quality of each variant, and the prompts behind each row.
Its record is a folder next to those of runs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import pyarrow as pa
from pydantic import ConfigDict, TypeAdapter

from semgraph import display
from semgraph.compare.truth import RowAnswers, answers_of, correct, names_of, root
from semgraph.diff import Diff
from semgraph.errors import PlanError, among
from semgraph.execution.record import INPUT_ROW, Run, RunRecord, exchanges, find_run, write_table
from semgraph.expr.functions import canonical_json
from semgraph.privacy import RUNS
from semgraph.provenance import AskedItem, Row, as_text, asked_item, at, parsed
from semgraph.scores import Tally, holm, pooled, score
from semgraph.semantic.answers import free_name

if TYPE_CHECKING:
    from semgraph.semantic.ask import Failure

FAILED = "\0failed"
SCHEMA = 2
_WITH_TABLES = ConfigDict(arbitrary_types_allowed=True)


Kind = Literal["step", "plan"]
ChartKind = Literal["quality", "time", "steps"]
Range = tuple[float, float]
Difference = tuple[float, float | None, float | None]  # with its interval


@dataclass(frozen=True)
class Spent:
    """Calls of language models, tokens of prompts and answers, dollars (None: a price is unknown)."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float | None = 0.0

    def __add__(self, other: Spent) -> Spent:
        pairs = zip(astuple(self), astuple(other), strict=True)
        sums: list[Any] = [None if None in pair else sum(pair) for pair in pairs]
        return Spent(*sums)


@dataclass(frozen=True)
class Estimate:
    """The expected cost of one trial of a variant; None: unknown before it runs.

    Args:
        variant: Its name.
        calls: Model calls, without retries after invalid answers.
        tokens_in: Tokens of the prompts.
        tokens_out: Tokens of the answers, if they are as long as in earlier runs of the same step,
            implementation and models; without such a run, by the types of their fields.
        dollars: The price of the tokens.
        least: The minimum number of calls, if a range is expected.
        planned: Whether all requests are known in advance, so that `calls` is exact. False if a
            check may refuse answers.
        most_out: Maximum tokens of the answers, which limits allow for; None: not known.
        most_dollars: The price with answers of maximum length.
    """

    variant: str
    calls: float | None = None
    tokens_in: float | None = None
    tokens_out: float | None = None
    dollars: float | None = None
    least: float | None = None
    planned: bool = False
    most_out: float | None = None
    most_dollars: float | None = None


@dataclass(frozen=True)
class Trial:
    """One independent trial of a variant.

    Args:
        number: From 1.
        cold: The cost of the trial by itself, including answers that were paid for earlier.
        paid: The cost of the requests sent now.
        seconds: Wall time; None if an answer came from the journal.
        failed: The number of rows without an answer; `failures` has the reasons.
        model_seconds: The sum of the times of all its requests, also of replayed ones.
        rows: The result rows of the step; None for whole plans.
        answers: Questions and answers, one item per row; `_m` is the number of the frozen row.
        steps: The cost by itself of each step; of vectors under "".
    """

    __pydantic_config__: ClassVar[ConfigDict] = _WITH_TABLES

    number: int
    cold: Spent
    paid: Spent
    seconds: float | None = None
    failed: int = 0
    rows: pa.Table | None = field(default=None, repr=False)
    answers: pa.Table | None = field(default=None, repr=False)
    failures: tuple[Failed, ...] = ()
    model_seconds: float = 0.0
    steps: Mapping[str, Spent] = field(default_factory=dict)


class Measured(NamedTuple):
    """A measure over labels: its value, 95 % interval, and difference to that of the reference."""

    value: float | None
    interval: Range | None = None
    difference: Difference | None = None


@dataclass(frozen=True)
class Quality:
    """The quality of a variant's answers over all its trials.

    It is measured against the truth. Without a truth it is measured against the reference: the
    values are then measures of agreement, and for rows only `same` is known.

    Args:
        precision: Precision of rows or edges; None without answers.
        recall: Recall; None if the truth is empty.
        f1: F1; None if both graphs lack edges.
        interval: 95 % interval of F1 (without a truth, of `same`); see `semgraph.scores`. With
            labels interval, spread and difference are those of the first of `measures`.
        spread: The lowest and the highest value of a trial.
        difference: F1 minus the reference's, with its paired 95 % interval, corrected for the number
            of variants: (value, low, high).
        same: Share of rows with the same answers as the reference, trial by trial.
        pairs: Nodes: F1 of pairs of members of one node; None if no node has two.
        b_cubed: Nodes: B-cubed F1.
        validity: Edges that hold, over sampled times: F1.
        ended: Edges that have an end: F1.
        measures: Measures over labels by name, the most important first.
        by_trial: F1, or the first measure, of each trial.
    """

    precision: float | None = None
    recall: float | None = None
    f1: float | None = None
    interval: Range | None = None
    spread: Range | None = None
    difference: Difference | None = None
    same: float | None = None
    pairs: float | None = None
    b_cubed: float | None = None
    validity: float | None = None
    ended: float | None = None
    measures: Mapping[str, Measured] = field(default_factory=dict)
    by_trial: tuple[float | None, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, tallies: Sequence[Tally], *, independent: bool = True) -> Self:
        """Precision, recall and F1 over all trials.

        Args:
            tallies: Hits, answers and true answers of each trial.
            independent: Whether units were drawn independently; see `semgraph.scores.score`.
        """
        if not tallies:
            return cls()
        total = score(pooled(tallies), independent=independent)
        by_trial = tuple(score(each).f1 for each in tallies)
        parts = total.precision, total.recall, total.f1, total.interval
        return cls(*parts, spread(by_trial), by_trial=by_trial)


def with_differences(
    qualities: Mapping[str, Quality],
    tallies: Mapping[str, Sequence[Tally]],
    reference: str,
    *,
    independent: bool = True,
) -> dict[str, Quality]:
    """The qualities with the differences of F1 to the reference, over the trials that both have."""
    pairs: dict[str, tuple[Tally, Tally]] = {}
    for name, own in tallies.items():
        both = min(len(own), len(tallies[reference]))
        pair = pooled(own[:both]), pooled(tallies[reference][:both])
        if name != reference and all(pair):
            pairs[name] = pair
    found = dict(zip(pairs, holm(list(pairs.values()), independent=independent), strict=True))
    return {
        name: replace(quality, difference=(each.value, *(each.interval or (None, None))))
        if (each := found.get(name))
        else quality
        for name, quality in qualities.items()
    }


def spread(values: Iterable[float | None]) -> Range | None:
    """The lowest and the highest value, if there are two."""
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if len(known) > 1 else None


@dataclass(frozen=True, repr=False)
class Evidence(display.Displayed):
    """The questions about some frozen rows in one trial (from 1) of a variant, with their answers.

    Its text has the exact prompts.
    """

    variant: str
    trial: int
    rows: tuple[Row, ...]
    asked: tuple[AskedItem, ...]


@dataclass(frozen=True)
class GraphDifference:
    """How the graph of a variant differs from that of the reference, in their first trials.

    Args:
        diff: The rows that differ, the first 200 of them: `+` only in the graph of the variant, `-`
            only in that of the reference.
        left_out: The number of further ones.
        counts: The numbers of all, by kind (`nodes`, `edges`) and by how they differ.
    """

    diff: Diff
    left_out: int
    counts: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Arm:
    """One variant with what it changes, the finished trials, and for whole plans how its graph
    differs from that of the reference.
    """

    name: str
    changes: Mapping[str, str]
    trials: tuple[Trial, ...] = ()
    quality: Quality = Quality()
    graph: GraphDifference | None = None
    comparison: Comparison | None = field(default=None, repr=False, compare=False)

    @property
    def cold(self) -> Spent:
        """The mean cost of a trial by itself."""
        return _mean([t.cold for t in self.trials])

    @property
    def steps(self) -> dict[str, Spent]:
        """The mean cost of each step in a trial by itself; of vectors under ""."""
        names = dict.fromkeys(name for t in self.trials for name in t.steps)
        return {name: _mean([t.steps.get(name, Spent()) for t in self.trials]) for name in names}

    @property
    def seconds(self) -> tuple[float, ...]:
        """The measured wall times."""
        return tuple(t.seconds for t in self.trials if t.seconds is not None)

    @property
    def model_seconds(self) -> tuple[float, ...]:
        """The sum of the times of the requests of each trial, also of replayed ones."""
        return tuple(t.model_seconds for t in self.trials if t.model_seconds)

    @property
    def failed(self) -> int:
        """Rows without an answer, over all trials."""
        return sum(t.failed for t in self.trials)

    def why(self, trial: int = 1, **where: Any) -> Evidence:
        """Questions about rows of the frozen input, and their answers: `why(id=42)`. The printed
        text has the exact prompts.

        Args:
            trial: The number of the trial, from 1.
            where: Columns of the row and their values.

        Raises:
            PlanError: The column, row or trial does not exist.
        """
        comparison = self.comparison
        if comparison is None or comparison.rows is None:
            hint = "compare a step of the plan: step=..."
            raise PlanError("whole plans were compared, which have no frozen rows", hint=hint)
        of, names = trial_of(self, trial), comparison.rows.column_names
        for path in where:
            if path.split(".")[0] not in names:
                what = f'the frozen rows have no column "{path}"'
                raise PlanError(what, **among(path, names, "columns"))
        selected = {
            i: row
            for i, row in enumerate(comparison.rows.to_pylist())
            if all(as_text(at(row, p)) == as_text(v) for p, v in where.items())
        }
        if not selected:
            what = ", ".join(f"{name}={value}" for name, value in where.items())
            there = f"there are {comparison.rows.num_rows:,} rows"
            raise PlanError(f"no frozen row has {what}", there=there)
        items = [] if of.answers is None else of.answers.to_pylist()
        with exchanges(Run(comparison.record or Path()), comparison.journal) as lookup:
            asked = tuple(asked_item(item, lookup) for item in items if item[INPUT_ROW] in selected)
        return Evidence(self.name, trial, tuple(selected.values()), asked)


@dataclass(frozen=True, repr=False)
class Comparison(display.Displayed):
    """Variants compared over the same rows, or whole plans over the same inputs. Its text is the table
    that `semgraph compare` prints, as wide as the terminal.

    Args:
        id: The id of its record.
        plan: Name of the plan.
        step: The step whose variants are compared; "" for whole plans.
        model: The model that answered.
        arms: The variants, in the order of the request.
        reference: The variant that the others are compared with.
        trials: The requested number of trials of each variant.
        truth: Whether there is a truth.
        closed: Whether a row missing from the truth should have no answer; otherwise it is not
            scored.
        key: The columns that identify a row.
        compare: The compared columns; `people[].name` is a field of each element of a list.
        frozen: The number of rows of each input of the step, and the SHA-256 of all rows.
        paid: The cost of all requests, including the run that computed the rows.
        before: The cost of computing the rows.
        estimates: The expected cost of a trial of each variant.
        notes: Notes for the reader.
        stopped: The reason for an early end, or None.
        store: The store that was read.
        record: Folder of the record.
        journal: The file with the answers.
        rows: The frozen rows, by number.
        wanted: The true rows.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _WITH_TABLES

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
        """Whether implementations of a step were compared, or whole plans."""
        return "step" if self.step else "plan"

    @property
    def exit_code(self) -> int:
        """The exit code of the command line: 4 at a limit, 3 with failed rows, else 0."""
        return 4 if self.stopped else 3 if any(arm.failed for arm in self.arms) else 0

    @property
    def measures(self) -> list[str]:
        """The names of the measures over labels, the most important first."""
        return list(dict.fromkeys(name for arm in self.arms for name in arm.quality.measures))

    @property
    def missing(self) -> Mapping[str, int]:
        """The number of trials that were not run, by variant."""
        return {arm.name: n for arm in self.arms if (n := self.trials - len(arm.trials))}

    def __getitem__(self, name: str) -> Arm:
        """A variant by its name. Raises PlanError."""
        result = next((arm for arm in self.arms if arm.name == name), None)
        if result is None:
            known = among(name, (arm.name for arm in self.arms), "variants")
            raise PlanError(f'"{name}" was not compared', **known)
        return result

    def __iter__(self) -> Iterator[Arm]:
        return iter(self.arms)

    def __len__(self) -> int:
        return len(self.arms)

    def disagreements(self, one: str, other: str, trial: int = 1) -> pa.Table:
        """The rows on which two variants differ, with both answers and, if known, the true one.

        The columns are those that identify the row, if these hold only ids also those that the
        prompt reads, then `one`, `other` and `truth` with the answers as lists; `truth` is NULL for
        rows that the truth lacks. If a variant has the name of another of these columns, an
        underscore is appended to it.

        Raises:
            PlanError: The variant or trial does not exist, or whole plans were compared.
        """
        if self.rows is None:
            what = "whole plans were compared, which have no rows in common"
            raise PlanError(what, hint="compare a step of the plan: step=...")
        texts = _texts(self)
        names = list(dict.fromkeys([*self.key, *next(iter(texts.values()), ())]))
        own = free_name(one, [*names, "truth"])
        others = free_name(other, [*names, "truth", own])
        of = self.key, self.compare, _with_keys(self)
        ours, theirs = (trial_answers(trial_of(self[n], trial), *of, n) for n in (one, other))
        true: RowAnswers | None = None  # by row of the truth
        if self.wanted is not None:
            units = self.wanted if self.wanted.num_rows else None
            true = answers_of(correct(self.wanted), self.key, self.compare, units)
        none: Counter[Hashable] = Counter()
        different: list[dict[str, Any]] = []
        for unit in dict.fromkeys([*ours, *theirs]):
            mine, yours = ours.get(unit, none), theirs.get(unit, none)
            if mine == yours:
                continue
            key = dict(zip(self.key, unit, strict=True)) if isinstance(unit, tuple) else {}
            row: dict[str, Any] = {name: _text(value) for name, value in key.items()}
            row |= texts.get(unit, {})
            row |= {own: _listed(mine, self), others: _listed(yours, self)}
            if true is not None and (self.closed or unit in true):
                row["truth"] = _listed(true.get(unit, none), self)
            different.append(row)
        answers = (own, others) if true is None else (own, others, "truth")
        schema = dict.fromkeys(names, pa.string()) | dict.fromkeys(answers, pa.list_(pa.string()))
        return pa.Table.from_pylist(different, schema=pa.schema(schema))

    def diff(self, name: str) -> Diff:
        """How the graph of a variant differs from that of the reference, in their first trials: `+`
        only in the one of the variant. At most 200 rows.

        Raises:
            PlanError: There is no such variant, or there are no two graphs.
        """
        arm = self[name]
        if arm.graph is None:
            what = f"there are no graphs of {name} and another variant to compare"
            hint = "compare whole plans that write a graph, and name a variant but the reference"
            raise PlanError(what, there=f"reference: {self.reference}", hint=hint)
        return arm.graph.diff

    def chart(self, kind: ChartKind = "quality") -> Any:
        """A chart: SVG in notebooks, characters in print. Raises PlanError for another kind.

        Args:
            kind: `quality` over cost; `time` over cost; the cost of one trial by `steps`.
        """
        return display.exported(self, "chart", kind=kind)

    def to_json(self) -> dict[str, Any]:
        """The object that `--format json` prints."""
        data = _shape().dump_python(self, mode="json", exclude=_APART)
        return {"schema": SCHEMA, "kind": self.kind, **data}

    def to_pandas(self, *, trials: bool = False) -> Any:
        """A data frame with a row for each variant, or for each of its trials: what it changes, its
        cost, its quality with the ends of intervals. Needs pandas.
        """
        return pa.Table.from_pylist(display.exported(self, "rows", trials=trials)).to_pandas()

    def to_csv(self) -> str:
        """The rows of `to_pandas` as CSV."""
        return str(display.exported(self, "csv"))

    def to_latex(self) -> str:
        """The table as a `tabular` of LaTeX, with the rules of the package booktabs."""
        return str(display.exported(self, "latex"))

    def to_markdown(self) -> str:
        """The table in Markdown."""
        return str(display.exported(self, "markdown"))

    def sentence(self) -> str:
        """What the comparison shows, in one sentence for each variant but the reference."""
        return str(display.exported(self, "sentence"))

    def figure(self, kind: ChartKind = "quality") -> Any:
        """The chart of a kind as a figure of matplotlib, which has to be installed."""
        return display.exported(self, "figure", kind=kind)


def _mean(spent: Sequence[Spent]) -> Spent:
    total, number = sum(spent, Spent()), max(len(spent), 1)
    calls, sent, said = (round(n / number) for n in astuple(total)[:3])
    return Spent(calls, sent, said, None if total.dollars is None else total.dollars / number)


def ranked(comparison: Comparison) -> list[Arm]:
    """The reference, then the other variants, best first."""

    def place(arm: Arm) -> tuple[bool, float]:
        measure = quality_of(arm)
        return arm.name != comparison.reference, -(measure if measure is not None else -1.0)

    return sorted(comparison.arms, key=place)


def quality_of(arm: Arm) -> float | None:
    """The quality of a variant as one number: F1, or without a truth its agreement with the
    reference, or with labels the first measure.

    For graphs it is the F1 of edges, or the B-cubed F1 of nodes if neither graph has edges.
    """
    result = arm.quality
    for first in result.measures.values():
        return first.value
    if result.f1 is not None:
        return result.f1
    return result.same if result.b_cubed is None else result.b_cubed


def graded(arm: Arm) -> bool:
    """Whether the quality of a variant is measured on graphs."""
    return arm.quality.b_cubed is not None


def trial_of(arm: Arm, number: int) -> Trial:
    """A trial of a variant, from 1. Raises PlanError if the trial was not run."""
    result = next((t for t in arm.trials if t.number == number), None)
    if result is None:
        there = "trials: " + (", ".join(str(t.number) for t in arm.trials) or "none")
        raise PlanError(f"{arm.name} has no trial {number}", there=there)
    return result


def trial_answers(
    trial: Trial,
    key: Sequence[str],
    compare: Sequence[str],
    frozen: pa.Table | None,
    variant: str = "",
) -> dict[Hashable, Counter[Hashable]]:
    """The answers of a trial to the frozen rows, by row. The answer of a failed row differs from
    those of all other variants.
    """
    empty = pa.table({root(path): [] for path in (*key, *compare)})
    result = dict(answers_of(empty if trial.rows is None else trial.rows, key, compare, frozen))
    if trial.answers is not None and frozen is not None and trial.failed:
        errors = trial.answers.filter(trial.answers.column("error").is_valid())
        failed = names_of(frozen.take(errors.column(INPUT_ROW).unique()), key)
        result |= {unit: Counter([(FAILED, variant)]) for unit in failed}
    return result


def _with_keys(comparison: Comparison) -> pa.Table | None:
    rows, keys = comparison.rows, [path.split(".")[0] for path in comparison.key]
    return rows if rows is not None and set(keys) <= set(rows.column_names) else None


def _texts(comparison: Comparison) -> Mapping[Hashable, dict[str, str | None]]:
    """What the prompt reads of each frozen row, by its key; empty if keys are texts themselves."""
    rows = _with_keys(comparison)
    tables = [t.answers for arm in comparison for t in arm.trials if t.answers]
    if rows is None or not tables:
        return {}
    read = parsed(tables[0].column("left")[0].as_py())
    columns = {*rows.column_names} - {*comparison.key, "truth"}
    names = [name for name in read if name in columns]
    texts = ({k: _text(v) for k, v in row.items()} for row in rows.select(names).to_pylist())
    keys = names_of(rows, comparison.key)
    if any(" " in str(value) for key in keys if isinstance(key, tuple) for value in key):
        return {}
    return dict(zip(keys, texts, strict=True))


def _listed(answers: Counter[Hashable], comparison: Comparison) -> list[str]:
    """Answers as text: only the value if one column is compared; `yes` if the existence of the row
    is the answer.
    """
    if any(isinstance(answer, tuple) and answer[:1] == (FAILED,) for answer in answers):
        return ["(failed)"]
    if not comparison.compare:
        return ["yes"] * answers.total()
    names = []
    for answer in answers.elements():
        values = answer if isinstance(answer, tuple) else (answer,)
        if len(values) == 2 and isinstance(values[1], tuple):  # an answer from one of several lists
            values = (values[0], *values[1])
        names.append(" · ".join(_text(value) or "–" for value in values))
    return names


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else canonical_json(value)


class Failed(NamedTuple):
    """The number of rows of a step that failed for one reason."""

    rows: int
    step: str
    error: str


def by_reason(failures: Iterable[Failure]) -> tuple[Failed, ...]:
    """Failures by step and reason, most frequent first."""
    counts = Counter((failure.step, failure.error) for failure in failures)
    return tuple(Failed(rows, step, error) for (step, error), rows in counts.most_common())


FILE = "comparison.json"
_TABLES = ("rows", "wanted")
_ARMS = {"comparison": True, "trials": {"__all__": {"rows": True, "answers": True}}}
_APART: Any = {"record": True, "rows": True, "wanted": True, "arms": {"__all__": _ARMS}}


@cache
def _shape() -> TypeAdapter[Comparison]:
    return TypeAdapter(Comparison)


def save(comparison: Comparison, record: RunRecord) -> None:
    """Write a comparison into its record."""
    record.text(FILE, json.dumps(comparison.to_json(), indent=1, ensure_ascii=False))
    tables = {name: getattr(comparison, name) for name in _TABLES}
    for i, arm in enumerate(comparison.arms):
        for n, trial in enumerate(arm.trials):
            tables |= {f"{i}.{n}.rows": trial.rows, f"{i}.{n}.answers": trial.answers}
    for name, table in tables.items():
        if table is not None:
            write_table(record.folder / f"{name}.parquet", table)


def load_comparison(ref: str, runs: Path = RUNS) -> Comparison:
    """A recorded comparison, by its id, a prefix of it, or `last`. Raises PlanError."""
    run = find_run(ref, runs, having=FILE)
    file = run.folder / FILE
    if not file.exists():
        what, hint = f"{run.name} is not a finished comparison", "Show a run: semgraph runs show"
        raise PlanError(what, hint=hint)
    data = json.loads(file.read_text(encoding="utf-8"))
    schema, _ = data.pop("schema"), data.pop("kind")
    if schema not in (1, SCHEMA):
        what = f"comparison {run.name} was recorded by another version of semgraph"
        raise PlanError(what)
    if schema == 1:
        _from_0_2(data, run.name)
    data |= {name: _table(run.folder, name) for name in _TABLES}
    for i, arm in enumerate(data["arms"]):
        for n, trial in enumerate(arm["trials"]):
            trial |= {name: _table(run.folder, f"{i}.{n}.{name}") for name in ("rows", "answers")}
    return replace(_shape().validate_python(data), record=run.folder)


def _from_0_2(data: dict[str, Any], name: str) -> None:
    """Convert the record of a comparison by semgraph 0.2. Raises PlanError."""
    for estimate in data["estimates"]:
        estimate["variant"] = estimate.pop("way")
    for arm in data["arms"]:
        arm["changes"], quality = arm.pop("use"), arm["quality"]
        if [quality.pop(key, None) for key in ("clusters", "modularity")] != [None, None]:
            what = f"comparison {name} compared algorithms of a step that clusters"
            raise PlanError(what, hint="only semgraph 0.2 shows such a comparison")
        for trial in arm["trials"]:
            trial["number"] += 1


def _table(folder: Path, name: str) -> pa.Table | None:
    import pyarrow.parquet as pq

    path = folder / f"{name}.parquet"
    return pq.read_table(path) if path.exists() else None
