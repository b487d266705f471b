"""Running cases in turns: trial by trial, all cases of a trial together, so that other load of the
machine affects all of them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from benchmarks.frame import serving
from benchmarks.frame.cases import Benchmark, Case, Figures, Unmeasured
from benchmarks.frame.lines import Line, Lines, made_by

Work = tuple[Case, int]
UNMEASURED = "not measured: "
"""The prefix of the reason why a case was skipped, which is not a failure."""
_AGAIN = 10.0  # seconds after which Overdue is raised again, in case it was swallowed
_HEADINGS = {"variant": "way"}


class Overdue(BaseException):
    """A case exceeded its time limit. Not an Exception, so that it is not caught as a failed row."""


def work(
    benchmark: Benchmark, *, quick: bool, full: bool, where: Mapping[str, str] | None = None
) -> list[Work]:
    """The cases and trials, in the order of the run; one trial each with `quick`. `where` selects
    cases by their keys.
    """
    wanted = {_HEADINGS.get(name, name): value for name, value in (where or {}).items()}
    chosen = [
        case
        for case in benchmark.cases()
        if (case.quick if quick else full or not case.full)
        and all(str(case.key.get(name)) == value for name, value in wanted.items())
    ]
    times = 1 if quick else max((case.trials for case in chosen), default=0)
    return [(case, n) for n in range(times) for case in chosen if n < case.trials]


def outstanding(benchmark: Benchmark, todo: Sequence[Work], lines: Lines) -> list[Work]:
    """The work that the lines do not contain yet, by the same code and settings."""
    made = made_by(benchmark.name, benchmark.sources)
    done = {line.identity for line in lines if not line.failed}
    return [one for one in todo if _line(benchmark, *one, made).identity not in done]


def expected(left: Sequence[Work], lines: Lines) -> str:
    """About how long this will take, by the recorded trials of the same cases and by estimates; "" if
    nobody knows.
    """
    took = {str(dict(line.key)): line.made["seconds"] for line in lines if "seconds" in line.made}
    seconds = sum(took.get(str(dict(case.key)), case.about) for case, _ in left)
    return f" (about {seconds / 60:.0f} min)" if seconds > 60 else ""


def measure(benchmark: Benchmark, todo: Sequence[Work], lines: Lines) -> Iterator[Line]:
    """Measure, and write each line immediately. Cases that cannot be measured here are skipped with
    a reason.
    """
    for case, trial in todo:
        made = made_by(benchmark.name, benchmark.sources) | {"seed": trial}
        began, figures, failed = time.perf_counter(), {}, ""
        try:
            with _limited(case.seconds):
                figures = dict(case.run(trial))
        except Unmeasured as reason:
            yield _line(benchmark, case, trial, made, failed=f"{UNMEASURED}{reason}")
            continue
        except Overdue:
            serving.close()  # it may still process the last request
            failed = f"not finished after {case.seconds:g} s"
        except Exception as error:  # noqa: BLE001 - a failure is a result
            text = str(error).strip().splitlines() or [""]
            failed = f"{type(error).__name__}: {text[0][:200]}"
        made["seconds"] = round(time.perf_counter() - began, 2)
        line = _line(benchmark, case, trial, made, figures, failed)
        lines.append(line)
        yield line


def _line(
    of: Benchmark, case: Case, trial: int, made: dict[str, Any], figures: Figures | None = None, failed: str = ""
) -> Line:  # fmt: skip
    keys, settings = dict(case.key), dict(case.settings)
    return Line(of.name, keys, trial, dict(figures or {}), settings, made, failed, of.kind)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise Overdue in this thread after the time limit."""

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise Overdue

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
