"""A semaphore for tasks of several event loops: `asyncio.Semaphore` serves the tasks of one loop
only.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque


class Turns:
    """A number of places, taken first come first served, from any event loop of any thread.

    Args:
        places: How many may be taken at one time.

    >>> async def work(turns: Turns) -> int:
    ...     async with turns:
    ...         return turns.free
    >>> asyncio.run(work(Turns(2)))
    1
    """

    def __init__(self, places: int = 1) -> None:
        self.free = places
        self._guard = threading.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    def acquire_now(self) -> bool:
        """Take a place if one is free and nobody waits for it; whether it was taken."""
        with self._guard:
            taken = bool(self.free) and not self._waiting
            self.free -= taken
            return taken

    async def acquire(self) -> None:
        """Take a place, or wait for one. A wait that is cancelled takes nothing."""
        if self.acquire_now():
            return
        with self._guard:
            if self.free and not self._waiting:  # freed meanwhile
                self.free -= 1
                return
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
        try:
            await place
        except BaseException:
            with self._guard:
                pending = place in self._waiting
                if pending:
                    self._waiting.remove(place)
            if not pending:  # the place came and nobody took it
                self.release()
            raise

    def release(self) -> None:
        """Free a place; the first that waits gets it."""
        with self._guard:
            self.free += 1
            while self.free and self._waiting:
                self.free -= _wake(self._waiting.popleft())

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()


def _wake(place: asyncio.Future[None]) -> bool:
    """Tell a task that it has its place; False if its event loop has ended."""
    try:
        place.get_loop().call_soon_threadsafe(_give, place)
    except RuntimeError:  # the loop is closed
        return False
    return True


def _give(place: asyncio.Future[None]) -> None:
    if not place.done():
        place.set_result(None)
