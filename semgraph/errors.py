"""Every error that semgraph raises, with its exit code of the command line.

```
SemgraphError                     1
├── PlanError                     2   plan, option or input wrong; nothing was spent
│   └── InputError                2   the rows of an input, not the plan
├── UnavailableError              5   no result, because something outside does not answer
│   ├── ModelUnavailable          5
│   └── StoreUnavailable          5
├── BudgetReached                 4   a limit that the user set; the run can be resumed
├── ConcurrentWrite               1   another run wrote this partition first
├── RowError                      1   the answer for one row; kept beside the row, raised with on_error: raise
├── DataError                     1   rows that a step cannot compute with, or that cannot be written; others may do
└── EngineError                   1   semgraph itself, an optimizer rule or an implementation broke its contract
```
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypedDict

from semgraph.formats import escaped
from semgraph.privacy import redacted


class SemgraphError(Exception):
    """The base class of all errors that semgraph raises on purpose."""

    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        """The message, without known secrets and terminal escapes."""
        return escaped(redacted(super().__str__()))


@dataclass(frozen=True)
class Position:
    """A place in a user's file. Lines and columns count from 1.

    `algorithm` is the place of the argument with this name, for an operator that has one: the
    algorithm is looked up when the plan is loaded.
    """

    file: str
    line: int
    column: int
    algorithm: Position | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


_PROGRAM = "semgraph"


def _begins_with_code(part: str) -> bool:
    """Whether a sentence begins with a command or a call, which is not capitalized."""
    word = part.split(" ", maxsplit=1)[0]
    return word == _PROGRAM or "(" in word.removeprefix("(") or "=" in word


@dataclass(frozen=True)
class Problem:
    """One error in a plan: what is wrong, where, the text found there, and a hint."""

    what: str
    step: str | None = None
    position: Position | None = None
    there: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = f"{self.position}  " if self.position and self.position.file else ""
        step = f"step {self.step}: " if self.step else ""
        said = filter(None, map(redacted, (self.there or "", self.hint or "")))
        more = [p if _begins_with_code(p) else p[:1].upper() + p[1:] for p in said]
        parts = [part.rstrip(".") for part in (redacted(self.what), *more)]
        ended = [part if part.endswith("?") else f"{part}." for part in parts[:-1]]
        return escaped(f"{place}{step}{' '.join([*ended, parts[-1]])}")


class PlanError(SemgraphError):
    """A plan, an option or a configuration is wrong. It has all problems found, not only the first; a
    problem of a plan that several steps call once.

    A text becomes a problem with the other arguments.
    """

    exit_code = 2

    def __init__(
        self,
        *problems: Problem | str,
        step: str | None = None,
        position: Position | None = None,
        there: str | None = None,
        hint: str | None = None,
    ) -> None:
        once: dict[tuple[object, str], Problem] = {}
        for each in problems:
            p = Problem(each, step, position, there, hint) if isinstance(each, str) else each
            once.setdefault((p.position or p.step, p.what), p)
        self.problems = tuple(once.values())
        super().__init__("\n".join(str(problem) for problem in self.problems))


class InputError(PlanError):
    """The rows of an input do not fit its declaration."""


class UnavailableError(SemgraphError):
    """An external service (model, endpoint, store) does not answer; no result was written."""

    exit_code = 5


class ModelUnavailable(UnavailableError):
    """No model answers: unreachable endpoint, wrong key, unknown model, missing files."""


class ModelLacks(ModelUnavailable):
    """A model answers, but not with what an implementation needs, such as log-probabilities."""


class StoreUnavailable(UnavailableError):
    """No store answers, or this run cannot write to it."""


class BudgetReached(SemgraphError):
    """The next request could exceed a limit that the user set; it was not sent.

    `result` is the `Result` of the stopped run: its writes and payments so far.
    """

    exit_code = 4

    def __init__(self, message: str, result: Any = None) -> None:
        self.result = result
        super().__init__(message)


class ConcurrentWrite(SemgraphError):
    """Another run wrote this partition after this run last read its head; nothing of the window was
    written.
    """

    def __init__(self, partition: str) -> None:
        self.partition = partition
        super().__init__(
            f'group "{partition}" was written by another run since this one began: '
            "stopped, nothing of this window written; run again to go on"
        )


class RowError(SemgraphError):
    """The model gave no valid answer for one row. `kind` is one word for tables and tests.

    `attempts` counts the HTTP requests sent for it. `spent` is the paid `semgraph.llm.base.Reply`
    without a valid answer (truncated, refused), if any, so that its tokens are counted. `result` is
    the result of a run in which every row failed.
    """

    result: Any = None

    def __init__(self, kind: str, message: str, *, attempts: int = 0, spent: Any = None) -> None:
        self.kind = kind
        self.attempts = attempts
        self.spent = spent
        super().__init__(message)


class DataError(SemgraphError):
    """Rows that a step cannot compute with, or that cannot be written. If rows are in groups, it
    stops only their groups.

    `write` is the write of a batch that a store refused.
    """

    def __init__(
        self,
        what: str,
        *,
        step: str | None = None,
        position: Position | None = None,
        hint: str | None = None,
    ) -> None:
        self.problem = Problem(what, step or None, position, hint=hint)
        self.write: object = None
        super().__init__(str(self.problem))

    @property
    def without_step(self) -> str:
        """The message without the step, for texts that name the step separately."""
        return str(replace(self.problem, step=None))

    def at(self, step: str, position: Position | None) -> DataError:
        """The same error with its place, unless it has one."""
        if self.problem.position is not None:
            return self
        own = self.problem
        return DataError(own.what, step=own.step or step, position=position, hint=own.hint)


class EngineError(SemgraphError):
    """A part of semgraph, or an implementation of an operator, broke its contract."""


class Fault(Exception):
    """A problem at `path` (keys and list indexes, relative to the code that raises it); frontends
    add the position.
    """

    def __init__(
        self, what: str, *path: str | int, there: str | None = None, hint: str | None = None
    ) -> None:
        self.what, self.path, self.there, self.hint = what, path, there, hint
        super().__init__(what)

    def under(self, *prefix: str | int) -> Fault:
        """The same fault, with a longer path from an outer level."""
        return self.at(*prefix, *self.path)

    def at(self, *path: str | int) -> Fault:
        """The same fault at another path."""
        fault = copy(self)
        fault.path = path
        return fault


class Faults(Fault):
    """Several faults."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(part for fault in faults for part in each(fault))
        super().__init__("; ".join(fault.what for fault in self.faults))

    def under(self, *prefix: str | int) -> Faults:
        """The same faults, with longer paths from an outer level."""
        return self.mapped(lambda fault: fault.under(*prefix))

    def mapped(self, change: Callable[[Fault], Fault]) -> Faults:
        """The faults after a change of each."""
        return Faults(map(change, self.faults))


class Collected(list[Fault]):
    """Faults that are collected, to be raised together."""

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Collect the faults that a block raises, with longer paths."""
        try:
            yield
        except Fault as fault:
            self.append(fault.under(*path))

    def refuse(self) -> None:
        """Raise Faults, if there are any."""
        if self:
            raise Faults(self)


@contextmanager
def faults_at(*path: str | int) -> Iterator[None]:
    """Lengthen the paths of the faults that a block raises, as `Fault.under` does."""
    try:
        yield
    except Fault as fault:
        raise fault.under(*path) from None


def each(fault: Fault) -> tuple[Fault, ...]:
    """The single faults of a fault."""
    return fault.faults if isinstance(fault, Faults) else (fault,)


def is_interrupt(error: BaseException) -> bool:
    """Whether an error is Ctrl-C. During a query, DuckDB raises a RuntimeError instead of
    KeyboardInterrupt.
    """
    return isinstance(error, KeyboardInterrupt) or (
        type(error) is RuntimeError and str(error) == "Query interrupted"
    )


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt for Ctrl-C during a query of DuckDB."""
    try:
        yield
    except RuntimeError as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from None
        raise


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint that names the nearest known word.

    >>> did_you_mean("sem_fliter", ["sem_map", "sem_filter"])
    'did you mean "sem_filter"?'
    """
    near = nearest(word, known)
    return None if near is None else f'did you mean "{near}"?'


class Known(TypedDict):
    """The known words and the nearest, as arguments of Problem and Fault."""

    there: str
    hint: str | None


def among(word: str, known: Iterable[str], kind: str) -> Known:
    """The known words of a kind, and the nearest to a word.

    >>> among("nmae", ["id", "name"], "columns")
    {'there': 'columns: id, name', 'hint': 'did you mean "name"?'}
    """
    names = list(dict.fromkeys(known))
    return {"there": f"{kind}: {', '.join(names) or 'none'}", "hint": did_you_mean(word, names)}


_NEAR = 0.65  # minimum similarity: "form" and "from" have 0.75, "--model" and "--help" 0.62


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word nearest to a word, ignoring case; None if none is near. Of a path, its last part
    counts too.

    >>> nearest("Name", ["id", "name"]), nearest("add", ["dup", "plan"]), nearest("ask", ["a/asks"])
    ('name', None, 'a/asks')
    """
    names = list(known)[::-1]
    folded = {name.rpartition("/")[2].casefold(): name for name in names}
    folded |= {name.casefold(): name for name in names}
    near = difflib.get_close_matches(word.casefold(), list(reversed(folded)), n=1, cutoff=_NEAR)
    return folded[near[0]] if near else None


_TELLING = 4  # the minimum length of names that are rarely similar by chance


def nearly(a: str, b: str) -> bool:
    """Whether two names differ in one letter (missing, added, changed, or swapped with the next),
    or in case and "_".

    Names with different digits are not similar.

    >>> [
    ...     nearly(*pair)
    ...     for pair in (("sumary", "summary"), ("nmae", "name"), ("validAt", "valid_at"))
    ... ]
    [True, True, True]
    >>> [nearly(*pair) for pair in (("fact2", "fact"), ("said_at", "valid_at"), ("to", "at"))]
    [False, False, False]
    """
    a, b = (name.casefold().replace("_", "") for name in (a, b))
    if max(len(a), len(b)) < _TELLING:
        return False
    while a and b and a[0] == b[0]:
        a, b = a[1:], b[1:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    if any(c.isdecimal() for c in a + b):
        return False
    return max(len(a), len(b)) <= 1 or (len(a) == len(b) == 2 and a == b[::-1])
