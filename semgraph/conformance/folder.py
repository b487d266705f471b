"""Checks of a folder of implementations, and their report."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from semgraph.conformance.cases import usable
from semgraph.conformance.suite import Agreement, Candidate, Outcomes, agreement, run_checks
from semgraph.errors import PlanError, Problem
from semgraph.logical.cluster import Cluster
from semgraph.logical.plan import Choice
from semgraph.semantic.implementation import named
from semgraph.semantic.library import FOLDERS, Library


class ImplementationFile(NamedTuple):
    """A file of a folder: its candidate, or the problem (it cannot be loaded, or refuses the
    checks). An algorithm of `cluster` has neither: it is loaded, and checked when it is called.
    """

    name: str
    file: Path
    candidate: Candidate | None
    problem: str | None = None


def files_of(folder: Path) -> list[tuple[str, Path]]:
    """The files of a folder that are implementations, named as `sem_join/sorted_block`."""
    own = folder.resolve()
    files = [
        (operator, file)
        for operator in FOLDERS
        for file in sorted((own / operator).glob("[!_]*.py"))
    ]
    return [(f"{operator}/{file.stem}", file) for operator, file in files]


def find(folder: Path) -> list[ImplementationFile]:
    """All implementations of a folder, with their default parameters.

    Raises:
        PlanError: The folder does not exist, or has no implementation.
    """
    library = Library([folder])
    files = files_of(folder)
    if not files:
        there = f"in it: {', '.join(sorted(p.name for p in folder.iterdir())) or 'nothing'}"
        hint = f"files are found as {folder}/<operator>/<name>.py, of the operators {', '.join(FOLDERS)}"
        raise PlanError(Problem(f'"{folder}" holds no implementation', there=there, hint=hint))
    return [_load(library, name, file) for name, file in files]


def _load(library: Library, name: str, file: Path) -> ImplementationFile:
    operator = name.split("/", maxsplit=1)[0]
    candidate = None
    try:
        if operator == Cluster.keyword:
            refusal = library.algorithm(Choice(file.stem)).refuses()
        else:
            implementation = library.get(operator, Choice(file.stem))
            candidate = Candidate(operator, file.stem, implementation)
            refusal = usable(operator, implementation)
    except PlanError as error:
        return ImplementationFile(name, file, None, str(error))
    except Exception as error:  # noqa: BLE001 - whatever a user's `refuses` raises is reported
        return ImplementationFile(
            name, file, None, f"refuses raised {type(error).__name__}: {error}"
        )
    if refusal is not None:
        return ImplementationFile(name, file, None, f"it refuses the node of the checks: {refusal}")
    return ImplementationFile(name, file, candidate)


PATIENCE = 60.0
_REPORTED = 3


class CheckedFile(NamedTuple):
    """The outcomes of the checks of one file; without any, `problem` is the reason."""

    name: str
    file: Path
    outcomes: tuple[Outcomes, ...] = ()
    near: Agreement | None = None
    problem: str | None = None

    @property
    def failed(self) -> list[Outcomes]:
        """The failed checks."""
        return [outcome for outcome in self.outcomes if outcome.broken]

    def as_dict(self) -> dict[str, Any]:
        """The outcomes as plain data, for JSON."""
        near = None if self.near is None else self.near._asdict()
        failed = {outcome.check: outcome.broken for outcome in self.failed}
        passed = len(self.outcomes) - len(failed)
        data = {"name": self.name, "file": str(self.file), "passed": passed, "failed": failed}
        return data | {"agreement": near, "problem": self.problem}


def check_folder(folder: Path, patience: float = PATIENCE) -> Iterator[CheckedFile]:
    """Check all implementations of a folder, one after another, with their default parameters.

    Args:
        folder: A folder with files `<operator>/<name>.py`.
        patience: Seconds after which a candidate is stopped; only in the main thread, and outside of
            an event loop.

    Raises:
        PlanError: The folder does not exist, or has no implementation.
    """
    for file in find(folder):
        yield _checked(file, patience)


def _checked(entry: ImplementationFile, patience: float) -> CheckedFile:
    if entry.candidate is None:
        loaded = () if entry.problem else (Outcomes("it loads", None),)
        return CheckedFile(entry.name, entry.file, loaded, problem=entry.problem)
    watch = _Watch(patience)
    outcomes: list[Outcomes] = []
    near = None
    try:
        with watch:
            near = _to_end(_run(entry.candidate, outcomes, watch))
    except KeyboardInterrupt:
        if not watch.over:
            raise
    if watch.over:
        where = watch.where or named(entry.candidate.implementation)
        outcomes.append(Outcomes("an end", f"{where} was stopped after {patience:g} s"))
    return CheckedFile(entry.name, entry.file, tuple(outcomes), near)


def _to_end(work: Coroutine[Any, Any, Agreement | None]) -> Agreement | None:
    """The result of a coroutine; within a running event loop (Jupyter's) in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def _run(candidate: Candidate, outcomes: list[Outcomes], watch: _Watch) -> Agreement | None:
    try:
        await run_checks(candidate, outcomes)
        if candidate.same or any(outcome.broken for outcome in outcomes):
            return None
        return await agreement(candidate)
    except KeyboardInterrupt as error:
        if not watch.over:
            raise
        watch.where = named(candidate.implementation, error)
        return None


class _Watch:
    """Interrupts the main thread after some time; this ends loops in Python, sleeps and waits."""

    def __init__(self, seconds: float) -> None:
        self.over = False
        self.where = ""
        self._ignored = False
        self._ended = threading.Event()
        self._timer = threading.Timer(seconds, self._interrupt)
        self._timer.daemon = True

    def _interrupt(self) -> None:
        self.over = True
        os.kill(os.getpid(), signal.SIGINT)  # asyncio cancels its task
        if not self._ended.wait(1.0):
            os.kill(os.getpid(), signal.SIGINT)  # a blocked loop gets KeyboardInterrupt

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        if self._ignored:  # as in background jobs of a shell
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._timer.cancel()
        if self._ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def report_lines(checked: CheckedFile, width: int = 0, *, every: bool = False) -> Iterator[str]:
    """Lines about a file: `sem_join/sorted_block  14 passed · 1 failed: no rows: returned 1 rows for none`.

    Args:
        checked: The outcomes.
        width: Of the column of names.
        every: Show all failures, not the first three.
    """
    name = checked.name.ljust(width)
    if checked.problem is not None:
        yield f"{name}  not checked: {checked.problem}"
        return
    line = f"{name}  {len(checked.outcomes) - len(checked.failed)} passed"
    failed: dict[str, list[str]] = {}
    for check, broken in checked.failed:
        failed.setdefault(broken or "", []).append(check)
    failures = [f"{', '.join(checks)}: {broken}" for broken, checks in failed.items()]
    if len(failures) == 1:
        yield f"{line} · {len(checked.failed)} failed: {failures[0]}"
    elif failures:
        yield f"{line} · {len(checked.failed)} failed"
        listed = failures if every else failures[:_REPORTED]
        yield from (f"  {failure}" for failure in listed)
        if len(listed) < len(failures):
            yield f"  ... and {len(failures) - len(listed)} more: -v shows them"
    else:
        yield line + (_near(checked.near) if checked.near else "")


def _near(near: Agreement) -> str:
    calls = f"{near.calls} calls for its {near.reference_calls}"
    return f" · recall {near.recall:.2f}, precision {near.precision:.2f} against the reference, {calls}"
