"""DuckDB in a separate process, for expressions with unbounded time and memory.

DuckDB's memory limit does not include the texts and lists of an expression, and DuckDB can be
interrupted only between some of its steps. A process can be limited and ended at any time.
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
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import duckdb

from semgraph.expr.own_functions import calls_own

P = ParamSpec("P")
T = TypeVar("T")
SECONDS = 30.0  # the time limit for the expressions of one call
MEMORY = 1 << 30  # the memory limit of a process, in bytes
MOST_BYTES = MEMORY >> 4  # the maximum bytes of returned rows, in addition to those of the input
_CONSTANT_SECONDS = 5.0
CONFIG: dict[str, Any] = {}  # further options of the connection of this process
# Functions that make large values from small ones.
_MAKES = re.compile(
    r"(?i)\b(range|generate_series|repeat|[lr]pad|(list|array)_(resize|reduce|aggr\w*|to_string)|reduce"
    r"|(regexp_)?replace|format|printf|bar|bitstring|hex|to_hex|bin|to_binary|(to_)?base64|url_encode)\b"
)
_SLOW = re.compile(
    r"(?i)\b(i?like|similar|glob|regexp_\w+|(damerau_)?levenshtein|editdist3|jar\w+)\b"
)
_LOOPS = re.compile(r"(?is)\b(lambda|for)\b|->")
_MANY = re.compile(r"(?i)\d{3}|reduce|\*|\^|pow")
_TEXT = re.compile(r"'(?:[^']|'')*'")
_LONG = 20_000  # characters; an expression of a plan has some hundreds


@lru_cache(maxsize=4096)
def grows(sql: str) -> bool:
    """Whether SQL may compute large values from small ones, or take long.

    >>> grows("1 + 2"), grows("list_transform(range(9), lambda x: x)")
    (False, True)
    """
    plain = _TEXT.sub("''", sql)
    return len(sql) > _LONG or any(each.search(plain) for each in (_MAKES, _SLOW, _LOOPS))


def folds(sql: str) -> bool:
    """Whether DuckDB, which folds constants during binding, may compute large values.

    >>> folds("len(range(9000))"), folds("[x || x FOR x IN range(900)]")
    (False, True)
    """
    plain = _TEXT.sub("''", sql)
    makes = len(_MAKES.findall(plain))
    multiplies = makes == 2 or bool(makes and _LOOPS.search(plain))
    return makes > 2 or (multiplies and _MANY.search(plain) is not None)


def late(seconds: float) -> duckdb.Error:
    """The error of a computation that exceeded its time limit."""
    return duckdb.InterruptException(f"INTERRUPT Error: stopped after {seconds:g} s")


@dataclass
class _SharedProcess:
    """A process that several users share in turn."""

    process: subprocess.Popen[bytes] | None = None
    user: SqlProcess | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while it computes
    change: threading.Lock = field(default_factory=threading.Lock)  # held while its user changes

    def running(self) -> subprocess.Popen[bytes]:
        """The process, started."""
        if self.process is None or self.process.poll() is not None:
            program = [sys.executable, "-c", "from semgraph.expr.process import main; main()"]
            paths = os.pathsep.join(filter(None, sys.path))
            self.process = subprocess.Popen(
                program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": paths},
                start_new_session=True,  # Ctrl-C is the parent's
            )
            _exchanged(self.process, ("", ()))  # it has started
        return self.process

    def forget(self) -> None:
        """End and forget the process."""
        process, self.process = self.process, None
        if process is not None:
            with process, suppress(OSError):  # closes its pipes
                process.kill()


class SqlProcess:
    """A process that computes with DuckDB, for some seconds in all. It starts on first use. Another
    one, `of`, may share its process with it, with a separate time limit.
    """

    def __init__(self, seconds: float, of: SqlProcess | None = None) -> None:
        self._seconds = self._left = seconds
        self._place: _SharedProcess = _SharedProcess() if of is None else of._place  # noqa: SLF001 - its own class

    def end(self) -> None:
        """Stop computing. The process ends if it computes for this user; other users start a new
        one.
        """
        self._left = 0
        with self._place.change:
            if self._place.user is self:
                self._kill()

    def close(self) -> None:
        """End and forget the process, even during a computation."""
        self._kill()
        with self._place.lock:
            self._place.forget()

    def _kill(self) -> None:
        if self._place.process is not None:
            self._place.process.kill()

    def call(self, name: str, *arguments: Any) -> Any:
        """The result of a function of `semgraph.expr.duckdb`. Raises duckdb.Error as the function
        does, InterruptException after the time limit, and OutOfMemoryException.
        """
        with self._place.lock:
            if self._left <= 0:
                raise late(self._seconds)
            process = self._place.running()
            with self._place.change:
                self._place.user = self
            timer = threading.Timer(self._left, process.kill)
            began = time.monotonic()
            timer.start()
            try:
                outcome = _exchanged(process, (name, arguments))
            finally:
                timer.cancel()
                with self._place.change:
                    self._place.user = None
                self._left -= time.monotonic() - began
            if outcome is None:
                self._place.forget()
                if self._left <= 0:
                    raise late(self._seconds)
                what = f"it needs more than {MEMORY >> 30} GB of memory, or was ended"
                raise duckdb.OutOfMemoryException(f"Out of Memory Error: {what}")
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome[0]


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


# The process for SQL that may grow; None: the current process.
PROCESS: ContextVar[SqlProcess | None] = ContextVar("worker", default=None)


def isolated(always: Callable[[str], bool]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function of SQL that runs in a worker process if the SQL may grow.

    The worker is that of the context. Without one, only SQL for which `always` holds runs in a
    worker: the shared one for constants. SQL with user functions never runs in a worker.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def computed(*args: P.args, **kwargs: P.kwargs) -> T:
            sql, worker = str(args[0]), PROCESS.get()
            if worker is None and not CONFIG and always(sql):
                worker = SqlProcess(_CONSTANT_SECONDS, _for_constants())
            if worker is None or not grows(sql) or calls_own(sql):
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
