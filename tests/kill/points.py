"""The points of a run at which its process can kill itself: they are put around the engine's
methods in that process alone.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from semgraph.execution.record import RunRecord
from semgraph.llm.journal import GroupCommit
from semgraph.stores.neo4j.bolt import Bolt
from semgraph.stores.neo4j.store import Neo4jStore
from semgraph.stores.sqlite.store import SqliteStore

INSIDE = (
    "statement",
    "store setup",
    "before commit",
    "transaction of commit",
    "inside commit",
    "after commit",
    "before record",
    "after record",
    "before journal write",
    "inside journal write",
    "after journal write",
)


class Strike:
    """Counts how often each point is passed, and kills the process when one is passed for the n-th
    time.

    Args:
        point: Its name.
        number: Which time, from 1.
    """

    def __init__(self, point: str, number: int) -> None:
        self.point, self.number = point, number
        self.counts: Counter[str] = Counter()
        self.under_way: Counter[str] = (
            Counter()
        )  # how many "store setup" and "inside commit": groups commit side by side

    def passed(self, point: str) -> None:
        """A point is passed."""
        self.counts[point] += 1
        if point == self.point and self.counts[point] == self.number:
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(self, _statement: str) -> None:
        """The store begins a statement."""
        self.passed("statement")
        if self.under_way["store setup"]:
            self.passed("store setup")

    def install(self) -> None:
        """Put all points into this process."""
        for store in (SqliteStore, Neo4jStore):
            self._listen(store)
            store.ensure = self._around(store.ensure, "store setup")  # type: ignore[method-assign]
            for name in ("commit", "replace"):
                commit = self._around(getattr(store, name), "inside commit")
                setattr(store, name, self._between(commit, "before commit", "after commit"))
        self._inside_commits()
        self._journal()
        keep = RunRecord.keep

        def kept(record: RunRecord) -> None:
            self.passed("before record")
            keep(record)
            self.passed("after record")

        RunRecord.keep = kept  # type: ignore[method-assign]

    def _listen(self, store: type[Any]) -> None:
        made = store.__init__

        @wraps(made)
        def listening(this: Any, *args: Any, **options: Any) -> None:
            made(this, *args, **options)
            this.observe(self.heard)

        store.__init__ = listening

    def _around(self, method: Callable[..., Any], within: str) -> Any:
        @wraps(method)
        async def around(*args: Any, **options: Any) -> Any:
            self.under_way[within] += 1
            try:
                return await method(*args, **options)
            finally:
                self.under_way[within] -= 1

        return around

    def _between(self, method: Callable[..., Any], before: str, after: str) -> Any:
        @wraps(method)
        async def between(*args: Any, **options: Any) -> Any:
            self.passed(before)
            found = await method(*args, **options)
            self.passed(after)
            return found

        return between

    def _inside_commits(self) -> None:
        """SQLite: at each statement. Neo4j: when a statement was run, before its transaction ends.
        Both: where a transaction begins; a commit of two would leave half of itself there.
        """
        heard, run, write = self.heard, Bolt.run, Bolt.write

        def inside(point: str) -> None:
            if self.under_way["inside commit"]:
                self.passed(point)

        def statement(text: str) -> None:
            heard(text)
            inside("inside commit")
            if text.startswith("BEGIN"):
                inside("transaction of commit")

        self.heard = statement  # type: ignore[method-assign]

        @wraps(run)
        async def ran(*args: Any, **options: Any) -> Any:
            found = await run(*args, **options)
            inside("inside commit")
            return found

        @wraps(write)
        async def wrote(*args: Any, **options: Any) -> Any:
            inside("transaction of commit")
            return await write(*args, **options)

        Bolt.run, Bolt.write = ran, wrote  # type: ignore[method-assign]

    def _journal(self) -> None:
        flush, transaction = GroupCommit.flush, GroupCommit.transaction

        def flushed(this: GroupCommit) -> None:
            pending = bool(this._pending)
            if pending:
                self.passed("before journal write")
            flush(this)
            if pending:
                self.passed("after journal write")

        @contextmanager
        def transacted(this: GroupCommit) -> Iterator[Any]:
            with transaction(this) as database:
                yield database
                self.passed("inside journal write")

        GroupCommit.flush = flushed  # type: ignore[method-assign]
        GroupCommit.transaction = transacted  # type: ignore[method-assign]
