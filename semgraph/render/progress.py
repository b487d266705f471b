"""Progress of runs and downloads: live on a terminal, one line that changes in a notebook, otherwise
occasional plain lines.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from semgraph.display import Notify, noticing, preformatted
from semgraph.execution.result import OnProgress, Progress
from semgraph.formats import clock, dollars, duration, plural, short, size
from semgraph.meter import Meter, StepMetrics
from semgraph.render.tables import clipped, wrapped

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


Say = Callable[[str], None]
Clock = Callable[[], float]
EVERY = 10.0  # seconds between two plain lines
_STEPS = 3
_SHORT = 1.0  # seconds of a Python run before a terminal or a notebook shows it
_OFTEN = 0.5  # seconds between two changes of a notebook
_WARMUP = 3.0  # seconds before the remaining time is estimated
_STYLE = "font: 13px var(--jp-content-font-family, system-ui), sans-serif; opacity: .8"
_SHOWN = threading.Lock()  # held by the displayed run


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
    """The state of a run: finished and total rows, by step and for commits (step ""), and notices by
    kind.
    """

    members: str
    clock: Clock = time.monotonic
    steps: dict[str, tuple[int, int]] = field(default_factory=dict)
    meter: Meter | None = None
    notices: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.started = self.committed = self.clock()

    def see(self, progress: Progress) -> None:
        """Record an event."""
        if not progress.step:
            self.committed = self.clock()
        others = {name: counts for name, counts in self.steps.items() if name != progress.step}
        # a new dictionary, because another thread draws; the latest is last
        self.steps = {**others, progress.step: (progress.done, progress.total)}
        self.meter = progress.meter

    def note(self, kind: str, text: str) -> bool:
        """Record a notice; whether it is another one."""
        before, self.notices = self.notices, {**self.notices, kind: text}
        return before.get(kind, "") != text

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started

    def calls_model(self, step: str, done: int, total: int) -> bool:
        """Whether a step calls a model; steps without model calls are not reported."""
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
    clock: Clock = time.monotonic,
) -> Iterator[OnProgress | None]:
    """A callback for the argument `progress` of `Session.run`.

    Args:
        console: The output: live on a terminal, otherwise at most one plain line every few seconds.
        members: The name of the input rows; "" without a windowed input.
        quiet: Print nothing.
        clock: A clock in seconds.
    """
    watch = Watch(members, clock)
    if quiet:
        yield None
    elif console.is_terminal:
        yield from _live(console, watch)
    else:
        own = partial(console.print, markup=False, highlight=False, soft_wrap=True)
        yield from _plain(watch, own)


@contextmanager
def shown(stream: TextIO | None, clock: Clock = time.monotonic) -> Iterator[OnProgress | None]:
    """A callback that shows the progress of a long Python run: live on a terminal, in a notebook as
    one line that changes, otherwise as plain lines. Only one of several concurrent runs is shown.

    Args:
        stream: The output, usually stderr; None: no output. Output that cannot be written is
            dropped.
        clock: A clock in seconds.
    """
    from rich.console import Console

    if stream is None or not _SHOWN.acquire(blocking=False):
        yield None
        return
    try:
        console, watch = Console(file=stream), Watch("rows", clock)
        if console.is_jupyter:
            yield from _in_notebook(watch)
        elif stream.isatty():
            yield from _live(console, watch, _SHORT)
        else:
            yield from _plain(watch, partial(_written, stream), EVERY)
    finally:
        _SHOWN.release()


@contextmanager
def said(to: TextIO | Say | None) -> Iterator[Say | None]:
    """A function that shows the lines of a comparison or a tuning, and notices. `to` is the user's
    function, or a stream; in a notebook one line, which unfolds to all and is removed at the end,
    replaces the stream.
    """
    if to is None or callable(to):
        with noticing(to and _first(to)):
            yield to
        return
    from rich.console import Console

    console, lines, cell = Console(file=to), list[str](), _Cell()

    def say(line: str) -> None:
        lines.append(line)
        if console.is_jupyter:
            cell.show(line, lines)
            return
        for part in wrapped(line, console.width) if to.isatty() else [line]:
            _written(to, part)

    try:
        with noticing(_first(say)):
            yield say
    finally:
        cell.show("")


def _first(say: Say) -> Notify:
    """Say the first notice of each kind."""
    kinds = set[str]()

    def note(kind: str, text: str) -> None:
        if text and kind not in kinds:
            kinds.add(kind)
            say(text)

    return note


def _written(stream: TextIO, line: str) -> None:
    """Write a line if possible: progress must not make a run fail."""
    with suppress(OSError, ValueError):
        stream.write(f"{line}\n")
        stream.flush()


def _drawing(
    watch: Watch,
    draw: Callable[[Progress | None], object],
    silent_for: float = 0.0,
    say: Say | None = None,
) -> Iterator[OnProgress]:
    """Draw each event after some seconds, and at once each change of notices (None), unless the first
    of each kind is said.
    """

    def see(progress: Progress) -> None:
        watch.see(progress)
        if watch.elapsed >= silent_for:
            draw(progress)

    def note(kind: str, text: str) -> None:
        if watch.note(kind, text):
            draw(None)

    with noticing(_first(say) if say else note):
        yield see


def _plain(watch: Watch, say: Say, silent_for: float = 0.0) -> Iterator[OnProgress]:
    """Occasional lines: of notices, of commits, and of steps until rows are committed. The last commit
    always has a line.
    """
    last = watch.started

    def draw(progress: Progress | None) -> None:
        nonlocal last
        if progress is None or not progress.done:
            return
        waited, ends = watch.clock() - last >= EVERY, progress.done >= progress.total
        committed = watch.steps.get("", (0, 0))[0]
        if waited and (ends or not committed) if progress.step else waited or ends:
            last = watch.clock()
            say(f"  {_step(progress)}{watch.summary()}")

    return _drawing(watch, draw, silent_for, lambda text: say(f"  {text}"))


def _live(console: Console, watch: Watch, silent_for: float = 0.0) -> Iterator[OnProgress]:
    from rich.live import Live

    # a stdout that is a file stays a file
    live = Live(
        get_renderable=lambda: _drawn(watch, console.width),
        console=console,
        transient=True,
        redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
    )

    def draw(progress: Progress | None) -> None:
        live.start()
        if progress is None:
            live.refresh()  # a model that is loaded may stop the thread that draws

    if not silent_for:
        live.start()
    try:
        yield from _drawing(watch, draw, silent_for)
    finally:
        live.stop()


def _in_notebook(watch: Watch) -> Iterator[OnProgress]:
    """One line, which is removed after a short run."""
    cell, last = _Cell(), -_OFTEN

    def draw(progress: Progress | None) -> None:
        nonlocal last
        if progress is None or watch.elapsed - last >= _OFTEN:
            last = watch.elapsed
            line = (_step(progress) if progress else "") + watch.summary() if watch.meter else ""
            cell.show(" · ".join(filter(None, (*watch.notices.values(), line))))

    try:
        yield from _drawing(watch, draw, _SHORT)
    finally:
        cell.show(watch.summary() if watch.elapsed >= EVERY else "")


def _drawn(watch: Watch, width: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(watch.elapsed * 10) % 10]
    named = [
        (name, *counts)
        for name, counts in watch.steps.items()
        if name and watch.calls_model(name, *counts)
    ]
    running = [step for step in named if step[1] < step[2]]
    finished = [step for step in named if step[1] >= step[2]]
    listed = [*finished[-max(1, _STEPS - len(running)) :], *running[:_STEPS]] if named else []
    parts = [
        f"{'✓' if done >= total else spinner} {name}  {done} of {total}"
        for name, done, total in listed
    ]
    lines = [*filter(None, (*watch.notices.values(), "     ".join(parts))), watch.summary()]
    return Group(*(Text(clipped(f"  {line}", width)) for line in lines))


class _Cell:
    """One output of a notebook's cell, which is replaced."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str, unfolded: Sequence[str] = ()) -> None:
        """Show a text, which unfolds to lines; "" clears the output."""
        if self._handle is None and not text:
            return
        data = {"text/plain": text, "text/html": _html(text, unfolded) if text else ""}
        if self._handle is None:
            from IPython.display import display

            self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(data, raw=True)


def _html(text: str, unfolded: Sequence[str]) -> str:
    from markupsafe import escape

    line = str(escape(text))
    if unfolded:
        more = preformatted("\n".join(unfolded))
        line = f"<details><summary>{line}</summary>{more}</details>"
    return f'<div class="semgraph-progress" style="{_STYLE}">{line}</div>'


def _step(progress: Progress) -> str:
    if not progress.step:
        return ""
    mark = "✓ " if progress.done >= progress.total else ""
    return f"{mark}{progress.step} {progress.done} of {progress.total} · "


@contextmanager
def downloading(
    console: Console, what: str, *, quiet: bool = False
) -> Iterator[Callable[[int, int, str], None]]:
    """A callback for the argument `progress` of `pull`: a bar on a terminal, otherwise a line at
    the beginning and the end, which names the sources.
    """
    seen: dict[str, int] = {}
    started = time.monotonic()

    def report(_done: int, total: int, source: str) -> None:
        seen[source] = total

    if quiet:
        yield report
        return
    if console.is_terminal:
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
        from rich.progress import Progress as Bar

        columns = BarColumn(), DownloadColumn(), TransferSpeedColumn()
        with Bar(
            TextColumn("  {task.description}"), *columns, console=console, transient=True
        ) as bar:
            task = bar.add_task(what, total=None)

            def drawn(done: int, total: int, source: str) -> None:
                report(done, total, source)
                bar.update(task, completed=done, total=total)

            yield drawn
    else:
        yield report
    if seen:
        parts = [size(max(seen.values())), "checked", duration(time.monotonic() - started)]
        line = f"  ✓ {what}  {', '.join(parts)}, from {' and '.join(seen)}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
