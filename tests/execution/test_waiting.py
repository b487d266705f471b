"""`Session.run` in scripts: again and again, from several threads, and inside what is waited
for.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.errors import EngineError
from semgraph.llm.openai import OpenAI
from semgraph.session.waiting import Waiting
from tests.execution.conftest import PLAN, STORY, Watched, said


@pytest.fixture
def served() -> Any:
    """A model that is served from another thread, as it is for scripts."""
    loop, model = asyncio.new_event_loop(), Watched()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(model.__aenter__(), loop).result()
    yield model
    asyncio.run_coroutine_threadsafe(model.__aexit__(None, None, None), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_what_a_session_was_given_serves_one_run_after_another(
    served: Watched, tmp_path: Path
) -> None:
    llm = OpenAI("gpt-4.1-mini", served.base_url, "none")
    embedder = f"openai:stand-in@{served.base_url}?dimensions=256"
    with semgraph.Session(
        llm=llm, embedder=embedder, store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        counts = [session.run(PLAN, episodes=said(STORY[: n + 1])).committed for n in range(3)]
        session._waiting.wait(llm.aclose())
    assert counts == [1, 1, 1]


def test_several_threads_may_wait() -> None:
    waiting, found = Waiting(), list[int]()

    async def work(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    threads = [
        threading.Thread(target=lambda n=n: found.append(waiting.wait(work(n)))) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waiting.close()
    assert sorted(found) == list(range(8))


def test_an_error_is_raised_without_another_before_it() -> None:
    waiting = Waiting()

    async def fail() -> None:
        raise ZeroDivisionError("of its own")

    with pytest.raises(ZeroDivisionError) as caught:
        waiting.wait(fail())
    waiting.close()
    assert caught.value.__context__ is None


def test_waiting_inside_of_what_is_waited_for_is_refused() -> None:
    waiting = Waiting()

    async def inner() -> None:
        """Never begun."""

    async def outer() -> None:
        waiting.wait(inner())

    with pytest.raises(EngineError, match=r"await session\.arun"):
        waiting.wait(outer())
    waiting.close()
