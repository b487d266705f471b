"""The result of a tuning: what was tried, what it shows, and what is promised."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter

from semgraph import display
from semgraph.compare.comparison import Comparison, Spent, load_comparison
from semgraph.errors import PlanError
from semgraph.execution.record import RunRecord, find_run
from semgraph.privacy import RUNS

if TYPE_CHECKING:
    import pyarrow as pa

FILE = "tuning.json"
Status = Literal["shown", "found", "kept"]
Verdict = Literal["shown", "not shown", "hopeless", "not tried", "refused", "failed", "reference"]
Unit = Literal["call", "row", "group"]


@dataclass(frozen=True)
class Tried:
    """A candidate, in the order of trial.

    Args:
        name: Its name: `good=packed(rows=5) @ small`, `preset=lean`, `order=short, good`.
        changes: What it changes: an implementation by step, `preset`, `rules.NAME` or `order`.
        verdict: `shown` (its quality is at least the floor), `not shown`, `hopeless` (given up early),
            `not tried`, `refused` (it cannot answer this step), `failed`, or `reference`.
        why: The reason, in words; "" if the figures say it.
        cost: The dollars of 1,000 rows (with the tokens if prices are unknown); None: unknown.
        f1: The measured F1 over the checked units; None: not measured.
        at_least: The exact lower bound of F1 at the level of its test; None: no bound.
        units: The checked units (rows, or calls with one checked row each; groups) of the last test.
        alpha: The probability of a wrong `shown` that its tests may spend.
        spent: What its trials cost by themselves.
    """

    name: str
    changes: Mapping[str, str] = field(default_factory=dict)
    verdict: Verdict = "not tried"
    why: str = ""
    cost: float | None = None
    f1: float | None = None
    at_least: float | None = None
    units: int = 0
    alpha: float | None = None
    spent: Spent = Spent()


@dataclass(frozen=True)
class Loss:
    """What a candidate of one step loses and costs, measured on the reference's input (several steps)."""

    step: str
    name: str
    cost: float | None
    f1: float | None
    units: int
    chosen: bool = False


@dataclass(frozen=True, repr=False)
class Tuning(display.Displayed):
    """The cheapest configuration that is shown to be good enough. Its text is the report that
    `semgraph tune` prints.

    Args:
        id: The id of its record.
        plan: The name of the plan.
        source: The plan as it is typed in a command.
        steps: The tuned steps; none: whole plans.
        status: `shown`: a candidate is chosen and its quality is shown; `found`: one looks good enough,
            which is not shown, and the reference stays; `kept`: the reference stays.
        reason: Why, in one sentence.
        reference: The plan as it is.
        tried: The candidates, in the order of trial, then those not tried.
        chosen: The name of the chosen (`shown`) or of the best (`found`) candidate; "": none.
        floor: The least F1; None: the best one below a price was wanted.
        per_1000: The highest price of 1,000 rows in dollars, if one was set.
        confidence: The probability of the promise.
        measure: `F1 against the truth`, or `F1 against the reference's answers`.
        unit: What was checked: one row of each `call`, each `row`, or `group`s.
        sampled: The number of checked rows or groups, and of all there were.
        sample: The first digits of the SHA-256 of the checked rows.
        rule: The rule of the search, in words.
        before: Lines on power and on what can be gained, known before the search.
        agrees: The reference's F1 with itself in a second trial; None: not measured.
        losses: The measured losses of the steps, if there are several.
        priced: Whether costs are dollars (else tokens).
        prices: The dollars of a million tokens in and out of each model.
        promise: What is promised, in words; "" if nothing is shown.
        caveats: What is not promised, in words.
        spent: What the search cost, by itself.
        paid: What was sent for it now.
        seconds: The time of the search.
        pays_back: The number of rows after which the search has paid for itself; None: never, or no
            price.
        stopped: The reason for an early end, or None.
        comparison: The reference and the chosen candidate over the same rows.
        choice: The content of the file of the choice; empty without one.
        file: The written file.
        record: The folder of the record.
    """

    id: str
    plan: str
    steps: tuple[str, ...]
    status: Status
    reason: str
    reference: Tried
    tried: tuple[Tried, ...] = ()
    chosen: str = ""
    floor: float | None = None
    per_1000: float | None = None
    confidence: float = 0.95
    measure: str = ""
    unit: Unit = "call"
    sampled: tuple[int, int] = (0, 0)
    sample: str = ""
    rule: str = ""
    before: tuple[str, ...] = ()
    agrees: float | None = None
    losses: tuple[Loss, ...] = ()
    priced: bool = True
    prices: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    promise: str = ""
    caveats: tuple[str, ...] = ()
    spent: Spent = Spent()
    paid: Spent = Spent()
    seconds: float = 0.0
    pays_back: int | None = None
    stopped: str | None = None
    comparison: Comparison | None = field(default=None, repr=False)
    choice: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    file: Path | None = None
    record: Path | None = None

    @property
    def choices(self) -> Mapping[str, str]:
        """What the chosen candidate changes; empty if the reference stays."""
        return self.best.changes if self.status == "shown" and self.best else {}

    @property
    def best(self) -> Tried | None:
        """The candidate that is chosen, or only found."""
        return next((each for each in self.tried if each.name == self.chosen), None)

    @property
    def guarantee(self) -> str:
        """What is promised and what is not, in words."""
        return "\n".join(filter(None, (self.promise, *self.caveats)))

    @property
    def exit_code(self) -> int:
        """The exit code of the command line: 4 at a limit, else 0."""
        return 4 if self.stopped else 0

    @property
    def table(self) -> Any:
        """The candidates as a data frame. Needs pandas."""
        import pyarrow as pa

        return pa.Table.from_pylist(display.exported(self, "rows")).to_pandas()

    @property
    def front(self) -> list[Tried]:
        """The measured candidates and the reference that no other one beats in cost and F1."""
        known = [t for t in (self.reference, *self.tried) if None not in (t.cost, t.f1)]
        return [t for t in known if not any(_beats(other, t) for other in known)]

    def disagreements(self) -> pa.Table:
        """The checked rows on which the chosen candidate and the reference differ. Raises PlanError if
        there is no chosen candidate, or whole plans were tuned.
        """
        if self.comparison is None or len(self.comparison) < 2:
            raise PlanError("no candidate was compared with the reference row by row")
        reference, chosen = (arm.name for arm in self.comparison)
        return self.comparison.disagreements(chosen, reference)

    def chart(self) -> Any:
        """F1 over cost, with the exact bounds as bars: SVG in notebooks, characters in print."""
        return display.exported(self, "chart")

    def save(self, path: str | Path) -> Path:
        """Write the file of the choice, for `--preset`. Raises PlanError if nothing is shown."""
        from semgraph.tune.tuned import write

        if self.status != "shown":
            raise PlanError(f"nothing is chosen: {self.reason}")
        return write(self.choice, Path(path))

    def to_json(self) -> dict[str, Any]:
        """The object that `--format json` prints."""
        data = _shape().dump_python(self, mode="json", exclude={"comparison", "record"})
        return {"schema": 1, "kind": "tuning", **data}


def _beats(one: Tried, other: Tried) -> bool:
    pair = (one.cost or 0.0, -(one.f1 or 0.0)), (other.cost or 0.0, -(other.f1 or 0.0))
    return pair[0] != pair[1] and all(a <= b for a, b in zip(*pair, strict=True))


@cache
def _shape() -> TypeAdapter[Tuning]:
    return TypeAdapter(Tuning)


def save_tuning(tuning: Tuning, record: RunRecord) -> None:
    """Write a tuning into its record, which has its comparison."""
    record.text(FILE, json.dumps(tuning.to_json(), indent=1, ensure_ascii=False))


def load_tuning(ref: str, runs: Path = RUNS) -> Tuning:
    """A recorded tuning, by its id, a prefix of it, or `last`. Raises PlanError."""
    run = find_run(ref, runs, having=FILE)
    file = run.folder / FILE
    if not file.exists():
        what, hint = f"{run.name} is no finished tuning", "list all records: semgraph runs list"
        raise PlanError(what, hint=hint)
    data = json.loads(file.read_text(encoding="utf-8"))
    schema, _ = data.pop("schema"), data.pop("kind")
    if schema != 1:
        raise PlanError(f"tuning {run.name} was recorded by another version of semgraph")
    found = replace(_shape().validate_python(data), record=run.folder)
    compared = (run.folder / "comparison.json").exists()
    return replace(found, comparison=load_comparison(run.name, runs)) if compared else found
