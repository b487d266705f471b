"""Watched calls of implementations: errors name the file and line, a blocked event loop is noticed."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any

from semgraph.errors import EngineError, SemgraphError

LONGEST = 2.0
"""The most seconds without an await in a check."""


class Blocked(EngineError):
    """An implementation blocked the event loop."""


class Watched:
    """A coroutine of `answer` with the time of its longest step. Await it for the result.

    Args:
        call: The coroutine.
        implementation: The implementation, for errors.
        step: The step, for errors.
    """

    def __init__(
        self, call: Coroutine[Any, Any, Any], implementation: object, step: str = ""
    ) -> None:
        self._call, self._implementation, self._step = call, implementation, step
        self.longest = 0.0

    def __await__(self) -> Generator[Any, Any, Any]:
        """Run it step by step, and time the steps.

        Raises:
            EngineError: It raised an error that is not semgraph's; names file and line.
        """
        if not hasattr(self._call, "send"):
            raise EngineError(
                f"{self._place()}{named(self._implementation)}: answer must be written with async def"
            )
        began, waited = time.perf_counter(), seconds_without_processor()
        send: Any = None
        throw: BaseException | None = None
        while True:
            try:
                awaited = self._call.send(send) if throw is None else self._call.throw(throw)
            except StopIteration as end:
                return end.value
            except EngineError as error:
                raise self._named(error) from error
            except SemgraphError:
                raise
            except Exception as error:
                raise self._broken(error) from error
            finally:
                seconds = time.perf_counter() - began
                if seconds > LONGEST:
                    before, waited = waited, seconds_without_processor()
                    seconds -= waited - before
                self.longest = max(self.longest, seconds)
            send, throw = None, None
            try:
                send = yield awaited
            except BaseException as error:  # noqa: BLE001 - thrown errors, also cancellation, go to the coroutine
                throw = error
            began = time.perf_counter()

    async def ended(self) -> Any:
        """The result, if nothing else ran in the event loop.

        Raises:
            Blocked: It blocked the event loop for longer than LONGEST.
        """
        result = await self
        if self.longest > LONGEST:
            raise Blocked(self.blocked())
        return result

    def blocked(self) -> str:
        """The message about a blocked event loop."""
        return (
            f"{self._place()}{named(self._implementation)} blocked the event loop for "
            f"{self.longest:.1f} s: no other call could run. "
            "Await something meanwhile, or compute in a thread: await asyncio.to_thread(...)"
        )

    def _named(self, error: EngineError) -> EngineError:
        """An error of the context, with the place in the implementation."""
        message = str(error).removeprefix(self._place())
        return EngineError(f"{self._place()}{named(self._implementation, error)}: {message}")

    def _broken(self, error: Exception) -> EngineError:
        message = f": {error}" if str(error) else ""
        return EngineError(
            f"{self._place()}{named(self._implementation, error)} raised {type(error).__name__}{message}"
        )

    def _place(self) -> str:
        return f"step {self._step}: " if self._step else ""


def seconds_without_processor() -> float:
    """How long this thread has been ready to run without a processor. 0 except on Linux."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def named(implementation: object, error: BaseException | None = None) -> str:
    """An implementation with its file, and the line in it that raised the error."""
    file = getattr(sys.modules.get(type(implementation).__module__), "__file__", None)
    if not file:
        return type(implementation).__name__
    return f"{type(implementation).__name__} in {file}{line_in(file, error)}"


def line_in(file: str, error: BaseException | None) -> str:
    """The line of a file that raised an error, as `:12`; "" if none did."""
    trace = traceback.extract_tb(error.__traceback__) if error is not None else []
    numbers = [frame.lineno for frame in trace if frame.filename == file]
    return f":{numbers[-1]}" if numbers else ""
