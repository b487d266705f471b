"""Why rows of a comparison failed, by way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from semgraph.execution.layout import plain_line

if TYPE_CHECKING:
    from semgraph.execution.comparison import Arm
    from semgraph.physical.semantic.asking import Failure

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
