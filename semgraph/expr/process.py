"""The process that computes for `isolated`: it answers requests with DuckDB's results."""

from __future__ import annotations

import os
import pickle
import threading
import time
from contextlib import suppress
from typing import Any

import duckdb

from semgraph.expr import duckdb as module
from semgraph.expr.isolated import CONFIG, MEMORY


def main() -> None:
    """Answer requests until the parent ends."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    CONFIG.update(memory_limit=f"{MEMORY >> 30}GB", temp_directory="")
    module.connection()
    with suppress(AttributeError, OSError):
        os.nice(10)  # other work has priority
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    _limit_memory()
    while True:
        try:
            name, arguments = pickle.load(requests)  # noqa: S301 - of the parent
        except EOFError:
            return
        try:
            outcome: Any = (getattr(module, name)(*arguments),) if name else ()
        except MemoryError:
            outcome = duckdb.OutOfMemoryException(f"more than {MEMORY >> 30} GB of memory")
        except Exception as error:  # noqa: BLE001 - the parent raises it
            outcome = error
        with suppress(BrokenPipeError):
            pickle.dump(outcome, answers)
            answers.flush()


def _end_with(parent: int) -> None:
    """End this process when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def _limit_memory() -> None:
    """Limit the further memory of this process, if the system supports it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
