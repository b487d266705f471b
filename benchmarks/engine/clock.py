"""CPU time of the event loop's thread, split by who runs: the model layer, the store, and all
else.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Generator
from typing import Any


class Clock:
    """Seconds of CPU by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}


class Timed:
    """An object with its awaited methods charged to a name, step by step, as the event loop runs
    them.
    """

    def __init__(self, inner: Any, name: str, clock: Clock) -> None:
        self._inner, self._name, self._clock = inner, name, clock

    def __getattr__(self, key: str) -> Any:
        found = getattr(self._inner, key)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return (
                _Charged(result, self._name, self._clock)
                if isinstance(result, Awaitable)
                else result
            )

        return call


class _Charged:
    def __init__(self, inner: Awaitable[Any], name: str, clock: Clock) -> None:
        self._inner, self._name, self._clock = inner, name, clock

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._inner.__await__()
        value: Any = None
        while True:
            started = time.thread_time()
            try:
                waiting = steps.send(value)
            except StopIteration as stop:
                return stop.value
            finally:
                spent = time.thread_time() - started
                self._clock.seconds[self._name] = self._clock.seconds.get(self._name, 0.0) + spent
            value = yield waiting
