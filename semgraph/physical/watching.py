"""Watching an implementation: how long it keeps the event loop to itself, and what it raises.

All model calls of a run share one event loop. An implementation that computes or sleeps for long without awaiting anything
keeps every other call waiting, and endpoints close connections that nobody reads from.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Coroutine, Generator
from typing import Any

import pyarrow as pa

from semgraph.errors import EngineError, SemgraphError
from semgraph.logical.semantic import Semantic
from semgraph.physical.contract import Context, Implementation, Rows

LONGEST = 2.0
"""Seconds that a check allows without an await."""
_SAID_FROM = 5.0
"""Seconds without an await from which a run says so: its tables are larger than those of a check."""
_LOG = logging.getLogger("semgraph")


class Blocked(EngineError):
    """An implementation kept the event loop to itself."""


class Watched:
    """An `answer` under way. Await it: the result is that of the coroutine; `longest` then is known.

    Args:
        call: What `answer` returned.
        way: Whose it is, for errors.
        step: The step that asks, for errors.
    """

    def __init__(self, call: Coroutine[Any, Any, Any], way: object, step: str = "") -> None:
        self._call, self._way, self._step = call, way, step
        self.longest = 0.0

    def __await__(self) -> Generator[Any, Any, Any]:
        """Run it step by step, and time the steps.

        Raises:
            EngineError: It raised something that semgraph does not know; file and line are named.
        """
        if not hasattr(self._call, "send"):
            raise EngineError(f"{self._place()}{named(self._way)}: answer must be written with async def")
        began = time.perf_counter()
        send: Any = None
        throw: BaseException | None = None
        while True:
            try:
                waits_for = self._call.send(send) if throw is None else self._call.throw(throw)
            except StopIteration as end:
                return end.value
            except EngineError as error:
                raise self._named(error) from error
            except SemgraphError:
                raise
            except Exception as error:
                raise self._broken(error) from error
            finally:
                self.longest = max(self.longest, time.perf_counter() - began)
            send, throw = None, None
            try:
                send = yield waits_for
            except BaseException as error:  # noqa: BLE001 - what was thrown in, cancellation too, goes on to the coroutine
                throw = error
            began = time.perf_counter()

    async def ended(self) -> Any:
        """The result, where nothing but it ran.

        Raises:
            Blocked: It kept the event loop for longer than LONGEST.
        """
        found = await self
        if self.longest > LONGEST:
            raise Blocked(self.blocked())
        return found

    def blocked(self) -> str:
        """What is said of one that kept the event loop."""
        return (
            f"{self._place()}{named(self._way)} kept the event loop for {self.longest:.1f} s: no other call could go on. "
            "Await something meanwhile, or compute in a thread: await asyncio.to_thread(...)"
        )

    def _named(self, error: EngineError) -> EngineError:
        """What the context says of a use that is wrong, with the place of that use."""
        said = str(error).removeprefix(self._place())
        return EngineError(f"{self._place()}{named(self._way, error)}: {said}")

    def _broken(self, error: Exception) -> EngineError:
        said = f": {error}" if str(error) else ""
        return EngineError(f"{self._place()}{named(self._way, error)} raised {type(error).__name__}{said}")

    def _place(self) -> str:
        return f"step {self._step}: " if self._step else ""


async def watched(way: Implementation[Any], node: Semantic, rows: Rows, ctx: Context) -> pa.Table:
    """What an implementation answers; a warning is logged where it kept the event loop for long.

    Raises:
        EngineError: It raised something that semgraph does not know; step, file and line are named.
    """
    call = Watched(way.answer(node, rows, ctx), way, node.step)
    found: pa.Table = await call
    if call.longest > _SAID_FROM:
        _LOG.warning(call.blocked())
    return found


def file_of(way: object) -> str | None:
    """The file of an implementation."""
    return getattr(sys.modules.get(type(way).__module__), "__file__", None)


def named(way: object, error: BaseException | None = None) -> str:
    """An implementation and its file, and the line of it that an error went through."""
    file = file_of(way)
    if not file:
        return type(way).__name__
    trace = traceback.extract_tb(error.__traceback__) if error is not None else []
    numbers = [frame.lineno for frame in trace if frame.filename == file]
    return f"{type(way).__name__} in {file}" + (f":{numbers[-1]}" if numbers else "")
