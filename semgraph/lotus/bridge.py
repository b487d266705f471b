"""A bridge between LOTUS's threads and the event loop of the models."""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from semgraph.errors import RowError
from semgraph.extras import install
from semgraph.llm.base import Reply, Request
from semgraph.semantic.context import Context
from semgraph.semantic.contract import Outcome

K = TypeVar("K")
T = TypeVar("T")
Requests = Sequence[Request | RowError]
Replies = list[Reply | RowError]
_THREADS = 64


class Bridge:
    """Runs jobs in its own threads, and sends their requests in the event loop.

    The threads are not those of `asyncio.to_thread`, which models may need meanwhile.

    Args:
        ctx: The context that sends the requests.
    """

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[object]] = set()
        self._budget = asyncio.Semaphore(max(1, ctx.limits.in_flight * 2))
        self._failure: BaseException | None = None
        self._alone = True
        self.stopped = False

    async def run(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """Run jobs and return their results, in order. An error in one, or cancellation, ends all.

        Afterwards no thread runs and no request is in flight.
        """
        if not jobs:
            return []
        results: list[T | None] = [None] * len(jobs)
        self._alone = len(jobs) == 1
        pool = ThreadPoolExecutor(min(len(jobs), _THREADS), thread_name_prefix="lotus")
        futures = [
            self._loop.run_in_executor(pool, self._guarded, job, results, i)
            for i, job in enumerate(jobs)
        ]
        try:
            await asyncio.wait(futures)
        finally:
            self._stop()
            left = [future for future in futures if not future.done()]
            if left:
                await asyncio.wait(left)
            pool.shutdown(wait=False)
        if self._failure is not None:
            raise self._failure
        return results  # type: ignore[return-value]

    async def gather(self, jobs: Sequence[Callable[[], Mapping[K, Outcome]]]) -> dict[K, Outcome]:
        """The combined outcomes of the jobs; see `run`."""
        results: dict[K, Outcome] = {}
        for outcomes in await self.run(jobs):
            results |= outcomes
        return results

    def ask(self, requests: Requests) -> Replies:
        """Send requests and return replies or errors, in order. Call it in a job's thread."""
        return asyncio.run_coroutine_threadsafe(self._answered(requests), self._loop).result()

    def _guarded(self, job: Callable[[], T], results: list[T | None], i: int) -> None:
        if self.stopped:
            return
        try:
            results[i] = job()
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            self._loop.call_soon_threadsafe(self._fail, error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._stop()

    def _stop(self) -> None:
        self.stopped = True
        for task in self._tasks:
            task.cancel()

    async def _answered(self, requests: Requests) -> Replies:
        results: list[Reply | RowError] = [r for r in requests if isinstance(r, RowError)]
        places = [i for i, request in enumerate(requests) if isinstance(request, Request)]
        if not places:
            return results
        self._enter()
        valid = [request for request in requests if isinstance(request, Request)]
        try:
            replies = await (self._in_one(valid) if self._alone else self._one_by_one(valid))
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self._leave()
        by_place = dict(zip(places, replies, strict=True))
        refused = iter(results)
        return [by_place[i] if i in by_place else next(refused) for i in range(len(requests))]

    async def _in_one(self, requests: Sequence[Request]) -> Replies:
        async with aclosing(self.ctx.ask(requests)) as replies:
            results = {index: reply async for index, reply in replies}
        return [results[i] for i in range(len(requests))]

    async def _one_by_one(self, requests: Sequence[Request]) -> Replies:
        """The requests of several jobs, with the concurrency of one."""
        tasks = [asyncio.create_task(self._one(request)) for request in requests]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _one(self, request: Request) -> Reply | RowError:
        self._enter()
        try:
            async with self._budget:
                return (await self._in_one([request]))[0]
        except Exception as error:
            self._fail(error)
            raise
        finally:
            self._leave()

    def _enter(self) -> None:
        if self.stopped:
            raise asyncio.CancelledError
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)

    def _leave(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.discard(task)


INSTALL = install("lotus")
VERSION = "1.2.4"
_LOCK = Lock()
_LOADED: list[Parts] = []


class Parts(NamedTuple):
    """The parts of LOTUS in use."""

    sem_map: Any
    sem_filter: Any
    sem_join: Any
    sem_agg: Any
    quicksort: Any
    heapsort: Any
    naive_sort: Any
    match_prompt: Any
    documents: Any
    output: Any
    reasoning: Any


def lacking() -> str | None:
    """The reason why LOTUS cannot be used, or None. Imports nothing."""
    remedy = f"{INSTALL}, in a separate environment (it installs torch, and numpy below 2)"
    try:
        installed = version("lotus-ai")
    except PackageNotFoundError:
        return f"it needs LOTUS (lotus-ai {VERSION}): {remedy}"
    if installed != VERSION:
        return f"it needs lotus-ai {VERSION}, and {installed} is installed: {remedy}"
    return None


async def loaded() -> Parts:
    """Import LOTUS in a thread, without blocking the event loop."""
    return _LOADED[0] if _LOADED else await asyncio.to_thread(_load)


def _load() -> Parts:
    with _LOCK:
        if not _LOADED:
            # litellm, which LOTUS imports, would download a list of prices.
            os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            root = logging.getLogger()
            level, handlers = root.level, list(root.handlers)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _LOADED.append(_imported())
            # LOTUS configures the root logger: each request of each library would print a line.
            root.setLevel(level)
            root.handlers[:] = handlers
        return _LOADED[0]


def _imported() -> Parts:
    from lotus.sem_ops import sem_agg, sem_filter, sem_join, sem_map, sem_topk
    from lotus.templates import task_instructions
    from lotus.types import LMOutput, ReasoningStrategy
    from tqdm import tqdm

    sem_topk.tqdm = partial(tqdm, disable=True)  # no other switch for its progress bars
    return Parts(
        sem_map.sem_map,
        sem_filter.sem_filter,
        sem_join.sem_join,
        sem_agg.sem_agg,
        sem_topk.llm_quicksort,
        sem_topk.llm_heapsort,
        sem_topk.llm_naive_sort,
        sem_topk.get_match_prompt_binary,
        task_instructions.df2multimodal_info,
        LMOutput,
        ReasoningStrategy.ZS_COT,
    )
