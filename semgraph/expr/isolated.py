"""DuckDB in a process of its own, for expressions that may take any time and memory.

DuckDB does not count the texts and lists that an expression makes in its memory limit, and it can be
interrupted between some of its steps only. A process can be limited and ended at any time.
"""

from __future__ import annotations

import atexit
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import duckdb

from semgraph.expr.own_functions import calls_own

P = ParamSpec("P")
T = TypeVar("T")
SECONDS = 30.0
"""How long the expressions of one call may take."""
MEMORY = 1 << 30
"""Bytes that a process may have."""
_CONSTANT_SECONDS = 5.0
CONFIG: dict[str, Any] = {}
"""Further options of the connection of this process."""
_GROWING = re.compile(
    r"\b(lambda|for|(l|r)pad|repeat|range|generate_series|(regexp_)?replace|translate|(list|array)_\w+"
    r"|reduce|apply|flatten|bitstring|printf|format|bar|(damerau_)?levenshtein|editdist3|jar\w+)\b|->",
    re.IGNORECASE,
)
_MAKES = re.compile(
    r"\b(range|generate_series|repeat|[lr]pad|(list|array)_(resize|aggr\w*|to_string)|(regexp_)?replace)\b",
    re.IGNORECASE,
)
_LOOPS = re.compile(r"(?is)\b(lambda|for)\b|->")
_MANY = re.compile(r"(?i)\d{3}|reduce|\*|\^|pow")
_TEXT = re.compile(r"'(?:[^']|'')*'")


def grows(sql: str) -> bool:
    """Whether SQL calls what may make much of little.

    >>> grows("1 + 2"), grows("list_transform(range(9), lambda x: x)")
    (False, True)
    """
    return _GROWING.search(_TEXT.sub("''", sql)) is not None or len(sql) > 100_000


def folds(sql: str) -> bool:
    """Whether DuckDB, which computes constants when it looks for types, may make much of SQL.

    >>> folds("len(range(9000))"), folds("[x || x FOR x IN range(900)]")
    (False, True)
    """
    plain = _TEXT.sub("''", sql)
    makes = [match[0] for match in _MAKES.finditer(plain)]
    multiplies = len(makes) == 2 or bool(makes and _LOOPS.search(plain))
    return len(makes) > 2 or (multiplies and _MANY.search(plain) is not None)


def late(seconds: float) -> duckdb.Error:
    """The error of what was stopped because its time was up."""
    return duckdb.InterruptException(f"INTERRUPT Error: stopped after {seconds:g} s")


class SqlProcess:
    """A process that computes with DuckDB. It starts when it is first needed.

    Args:
        seconds: How long what it computes may take together; `renew` begins a new count.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = self._left = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def renew(self) -> None:
        """Begin to count the seconds anew."""
        self._left = self._seconds

    def end(self) -> None:
        """End the process, whatever it computes; the next call starts another."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the process, and let go of it."""
        self.end()
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with process, suppress(OSError):  # closes its pipes
                process.kill()

    def call(self, name: str, *arguments: Any) -> Any:
        """The result of a function of `semgraph.expr.duckdb`.

        Raises:
            duckdb.Error: As the function; InterruptException if the time is up, OutOfMemoryException
                if the process needs more memory than it may have.
        """
        with self._lock:
            if self._left <= 0:
                raise late(self._seconds)
            process = self._running()
            timer = threading.Timer(self._left, process.kill)
            began = time.monotonic()
            timer.start()
            try:
                outcome = _exchanged(process, (name, arguments))
            finally:
                timer.cancel()
                self._left -= time.monotonic() - began
            if outcome is None:
                self._forget()
                if self._left <= 0:
                    raise late(self._seconds)
                what = f"it needs more than {MEMORY >> 30} GB of memory, or was ended"
                raise duckdb.OutOfMemoryException(f"Out of Memory Error: {what}")
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome[0]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            program = [sys.executable, "-c", "from semgraph.expr.process import main; main()"]
            paths = os.pathsep.join(filter(None, sys.path))
            self._process = subprocess.Popen(
                program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": paths},
                start_new_session=True,  # Ctrl-C is the parent's
            )
            _exchanged(self._process, ("", ()))  # it has started
        return self._process


def _exchanged(process: subprocess.Popen[bytes], request: tuple[str, tuple[Any, ...]]) -> Any:
    """The answer to a request; None if the process ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        pickle.dump(request, process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)  # noqa: S301 - of a process that runs this module
    except (OSError, EOFError, pickle.UnpicklingError, ValueError):
        return None


PROCESS: ContextVar[SqlProcess | None] = ContextVar("worker", default=None)
"""The process that computes here, in place of this one; None: this one."""


def isolated(function: Callable[P, T]) -> Callable[P, T]:
    """A function of SQL that is computed by the worker, if there is one; what calls functions of one's
    own never is.
    """
    return isolated_if(lambda _sql: False)(function)


def isolated_if(always: Callable[[str], bool]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """As `isolated`, also without a worker for the SQL for which `always` holds."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def computed(*args: P.args, **kwargs: P.kwargs) -> T:
            sql, worker = str(args[0]), PROCESS.get()
            if worker is None and not CONFIG and always(sql):
                worker = _for_constants()
                worker.renew()
            if worker is None or calls_own(sql):
                return function(*args, **kwargs)
            result: T = worker.call(function.__name__, *args)
            return result

        return computed

    return decorate


@lru_cache(maxsize=1)
def _for_constants() -> SqlProcess:
    worker = SqlProcess(_CONSTANT_SECONDS)
    atexit.register(worker.close)
    return worker
