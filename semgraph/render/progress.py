"""Progress of runs and downloads: live on a terminal, else as occasional plain lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from semgraph.execution.result import OnProgress, Progress
from semgraph.formats import clock, dollars, duration, plural, short, size
from semgraph.meter import Meter, StepMetrics
from semgraph.render.header import announcement, missing
from semgraph.render.tables import fit

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from semgraph.llm.settings import Settings
    from semgraph.logical.plan import LogicalPlan


Say = Callable[[str], None]
Clock = Callable[[], float]
EVERY = 10.0  # seconds between two plain lines
_STEPS = 3
_WARMUP = 3.0  # seconds before the remaining time is estimated
_SHOWN = threading.Lock()
"""Held by the run that is shown."""


def spent(total: StepMetrics) -> str:
    """Calls, tokens and dollars so far.

    >>> spent(StepMetrics(calls_issued=5, tokens_in=3900, tokens_out=204))
    '5 calls · 4.1 k tokens · $0'
    """
    parts = [plural(total.calls_issued, "call")]
    if total.calls_journal:
        parts.append(f"{short(total.calls_journal)} from the journal")
    return " · ".join(
        [*parts, f"{short(total.tokens_in + total.tokens_out)} tokens", dollars(total.dollars)]
    )


@dataclass
class Watch:
    """The state of a run: rows done and all rows, for each step and for commits (step "")."""

    members: str
    clock: Clock = time.monotonic
    steps: dict[str, tuple[int, int]] = field(default_factory=dict)
    meter: Meter | None = None

    def __post_init__(self) -> None:
        self.started = self.committed = self.clock()

    def see(self, progress: Progress) -> None:
        """Record an event."""
        if not progress.step:
            self.committed = self.clock()
        self.steps.pop(progress.step, None)  # the latest is last
        self.steps[progress.step] = (progress.done, progress.total)
        self.meter = progress.meter

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started

    def calls_model(self, step: str) -> bool:
        """Whether a step calls a model; steps decided without one are not reported."""
        done, total = self.steps[step]
        metrics = self.meter.steps.get(step) if self.meter is not None else None
        return done < total or bool(
            metrics and metrics.calls_issued + metrics.calls_journal + metrics.calls_coalesced
        )

    def summary(self) -> str:
        """One line: rows, cost, elapsed and remaining time."""
        done, total = self.steps.get("", (0, 0))
        parts = [f"{self.members} {done} of {total}"] if total and self.members else []
        if self.meter is not None:
            parts.append(spent(self.meter.total()))
        each = (self.committed - self.started) / done if done else 0.0
        left = each * (total - done) - (self.clock() - self.committed)
        estimated = done < total and self.elapsed > _WARMUP and left >= 1
        rest = f", about {clock(left)} left" if estimated else ""
        return " · ".join([*parts, clock(self.elapsed) + rest])


@contextmanager
def watched(
    console: Console,
    members: str,
    *,
    quiet: bool = False,
    silent_for: float = 0.0,
    clock: Clock = time.monotonic,
) -> Iterator[OnProgress | None]:
    """A callback for the argument `progress` of `Session.run`.

    Args:
        console: The output: live on a terminal, else at most a plain line every few seconds.
        members: The name of the input rows; "" without an ordered input.
        quiet: Print nothing.
        silent_for: Seconds without plain lines at the start.
        clock: A clock in seconds.
    """
    watch = Watch(members, clock)
    if quiet:
        yield None
    elif console.is_terminal:
        yield from _live(console, watch)
    else:
        yield _Plain(
            watch,
            lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True),
            silent_for,
        )


def on_stderr() -> Console:
    """A console for stderr. In a notebook it has plain lines: those of rich would be outputs of cells,
    and a terminal's would not move the cursor.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter:
        return Console(stderr=True, force_jupyter=False, force_terminal=False)
    return console


@contextmanager
def shown(console: Console, clock: Clock = time.monotonic) -> Iterator[OnProgress | None]:
    """A callback that shows the progress of a run in Python: live on a terminal, else as plain lines once
    the run takes long. Of runs side by side only one is shown.
    """
    if not _SHOWN.acquire(blocking=False):
        yield None
        return
    try:
        with watched(console, "rows", silent_for=EVERY, clock=clock) as progress:
            yield progress
    finally:
        _SHOWN.release()


def _live(console: Console, watch: Watch) -> Iterator[OnProgress]:
    from rich.live import Live

    with Live(get_renderable=lambda: _drawn(watch, console.width), console=console, transient=True):
        yield watch.see


def _drawn(watch: Watch, width: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(watch.elapsed * 10) % 10]
    named = [
        (name, *counts) for name, counts in watch.steps.items() if name and watch.calls_model(name)
    ]
    running = [step for step in named if step[1] < step[2]]
    finished = [step for step in named if step[1] >= step[2]]
    listed = [*finished[-max(1, _STEPS - len(running)) :], *running[:_STEPS]] if named else []
    parts = [
        f"{'✓' if done >= total else spinner} {name}  {done} of {total}"
        for name, done, total in listed
    ]
    lines = [f"  {'     '.join(parts)}"] if parts else []
    return Group(*(Text(fit(line, width).rstrip()) for line in (*lines, f"  {watch.summary()}")))


class _Plain:
    """Progress as occasional lines: of commits, and of steps until rows are committed. The last commit
    always has one.
    """

    def __init__(self, watch: Watch, say: Say, silent_for: float = 0.0) -> None:
        self.watch, self.say, self.silent_for = watch, say, silent_for
        self._last = watch.started

    def __call__(self, progress: Progress) -> None:
        self.watch.see(progress)
        if progress.done and self._due(progress):
            self._last = self.watch.clock()
            self.say(f"  {self._step(progress)}{self.watch.summary()}")

    def _due(self, progress: Progress) -> bool:
        waited = self.watch.clock() - self._last >= EVERY
        if self.watch.elapsed < self.silent_for:
            return False
        if not progress.step:
            return waited or progress.done >= progress.total
        committed, _ = self.watch.steps.get("", (0, 0))
        return waited and (not committed or progress.done >= progress.total)

    def _step(self, progress: Progress) -> str:
        if not progress.step:
            return ""
        mark = "✓ " if progress.done >= progress.total else ""
        return f"{mark}{progress.step} {progress.done} of {progress.total} · "


def fetch(
    plan: LogicalPlan,
    settings: Settings,
    console: Console,
    *,
    own: Collection[str] = (),
    quiet: bool = False,
) -> None:
    """Download the local models that a plan lacks, and say so before; `own` as in `missing`. Raises
    ModelUnavailable.
    """
    from semgraph.llm.local.download import pull

    models = missing(plan, settings, own=own)
    for line in announcement(models, plan, settings) if models and not quiet else ():
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for model in models:
        with downloading(console, model.name, quiet=quiet) as report:
            pull(model, progress=report, env=settings.environment)


@contextmanager
def downloading(
    console: Console, what: str, *, quiet: bool = False
) -> Iterator[Callable[[int, int, str], None]]:
    """A callback for the argument `progress` of `pull`: a bar on a terminal, else a line at the
    beginning and the end.
    """
    seen: list[int] = []
    started = time.monotonic()

    def report(done: int, total: int, _source: str) -> None:
        seen[:] = [done, total]

    if quiet:
        yield report
        return
    if console.is_terminal:
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("  {task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
        )
        with Bar(*columns, console=console, transient=True) as bar:
            task = bar.add_task(what, total=None)

            def drawn(done: int, total: int, source: str) -> None:
                report(done, total, source)
                bar.update(task, completed=done, total=total)

            yield drawn
    else:
        yield report
    if seen:
        line = f"  ✓ {what}  {size(seen[1])}, checked, {duration(time.monotonic() - started)}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
