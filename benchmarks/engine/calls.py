"""The client's CPU of a model call: semgraph's whole stack against the openai package and bare
HTTP.

The model is the simulated one in a separate process, so only the client's CPU is counted. All clients
send equal requests with equal concurrency.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.frame.processes import Watch
from benchmarks.frame.serving import serving
from semgraph.llm.base import LLM, Message, Request
from semgraph.llm.embed import OpenAIEmbedder
from semgraph.llm.journal import Journal
from semgraph.llm.openai import OpenAI
from semgraph.llm.stack import Budget, Limiter, Stack
from semgraph.llm.tokens import FlatPrice
from semgraph.logical.plan import Choice
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Input
from semgraph.logical.semantic import SemFilter
from semgraph.meter import StepMetrics
from semgraph.semantic.context import Context
from semgraph.semantic.contract import Item, Rows
from semgraph.semantic.library import Library

Ask = Callable[[int], Awaitable[None]]
Run = Callable[[int, int], Awaitable[None]]  # so many calls, so many in flight
MODEL, MAX_TOKENS = "gpt-4.1-mini", 256
RULES = (
    "You read messages of customers and decide about each of them. Answer with the JSON document asked for. "
    * 15
)
ITEM = "Message {number} of customer {customer}: {text}\nDoes it say that somebody moved? "
ASKED = "Say true or false in `keep`."
TEXT = (
    "The kettle that I bought in May has been leaking since Monday, and nobody answers the phone. "
)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"keep": {"type": "boolean"}},
    "required": ["keep"],
    "additionalProperties": False,
}
_SCHEMA_TEXT = json.dumps(SCHEMA, sort_keys=True, separators=(",", ":"))


def prompt(number: int) -> str:
    """The message about one row."""
    return (ITEM + ASKED).format(
        number=number, customer=f"c{number % 97}", text=TEXT * (1 + number % 4)
    )


def body(number: int) -> dict[str, Any]:
    """The body of the HTTP request."""
    schema = {"name": "answer", "strict": True, "schema": SCHEMA}
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": prompt(number)}]
    return {
        "model": MODEL, "messages": messages, "max_tokens": MAX_TOKENS, "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": schema},
    }  # fmt: skip


def request(number: int) -> Request:
    """The request about one row, as operators make it."""
    messages = (Message("system", RULES), Message("user", prompt(number)))
    return Request("default", messages, _SCHEMA_TEXT, MAX_TOKENS, partition="g", step="kept")


def check(text: str) -> None:
    """The answer is of its schema."""
    if json.loads(text) not in ({"keep": True}, {"keep": False}):
        raise ValueError(text)


def each(ask: Ask) -> Run:
    """One call for each row."""

    async def run(calls: int, in_flight: int) -> None:
        numbers = iter(range(calls))

        async def worker() -> None:
            for number in numbers:
                await ask(number)

        await asyncio.gather(*(worker() for _ in range(in_flight)))

    return run


async def sdk(url: str, closing: AsyncExitStack) -> Run:
    """`chat.completions.create` alone: the answer is not even parsed as JSON."""
    import openai

    client = openai.AsyncOpenAI(base_url=url, api_key="none")
    await closing.enter_async_context(client)

    async def ask(number: int) -> None:
        await client.chat.completions.create(**body(number))

    return each(ask)


async def bare_aiohttp(url: str, closing: AsyncExitStack) -> Run:
    """No more than HTTP and JSON."""
    import aiohttp

    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    await closing.enter_async_context(session)

    async def ask(number: int) -> None:
        async with session.post(f"{url}/chat/completions", json=body(number)) as response:
            check(json.loads(await response.read())["choices"][0]["message"]["content"])

    return each(ask)


def stacked(url: str, closing: AsyncExitStack) -> LLM:
    """Coalescing, a journal on disk, a budget of everything, retry, a limiter with RPM and TPM, the
    endpoint.
    """
    endpoint = OpenAI(MODEL, url, price=FlatPrice(0.4, 1.6, 0.1))
    folder = closing.enter_context(tempfile.TemporaryDirectory())
    journal = Journal(Path(folder) / "journal.db")
    closing.callback(journal.close)
    budget = Budget(max_calls=10**9, max_tokens=10**12, max_usd=10**6, max_seconds=10**6)
    limiter = Limiter(in_flight=64, rpm=10**7, tpm=10**10)
    model = Stack(budget=budget, journal=journal).model(endpoint, limiter)
    closing.push_async_callback(model.aclose)
    return model


async def whole_stack(url: str, closing: AsyncExitStack) -> Run:
    """A request made by hand, through the whole stack, and its answer checked; other rows in every
    turn, or the journal would know them.
    """
    model, turn = stacked(url, closing), iter(range(10**9))

    async def run(calls: int, in_flight: int) -> None:
        first = next(turn) * 100_000

        async def ask(number: int) -> None:
            check((await model.complete(request(first + number))).text)

        await each(ask)(calls, in_flight)

    return run


async def operator(url: str, closing: AsyncExitStack) -> Run:
    """`sem_filter` by the reference implementation: prompt file to verdicts, with all that is
    between.
    """
    model, turn = stacked(url, closing), iter(range(10**9))
    columns: Any = pa.schema({"number": pa.int64(), "customer": pa.string(), "text": pa.string()})
    asked = Prompt("complains", (), rules=RULES, item=Template.parse(ITEM))
    source = Input(name="rows", columns=columns, step="rows")
    node = SemFilter(prompt=PromptSet((("", asked),)), input=source, step="kept")
    way = Library().get("sem_filter", Choice.parse("per_row"))
    embedder = OpenAIEmbedder("none", base_url=url)  # no filter reads it

    async def run(calls: int, in_flight: int) -> None:  # noqa: ARG001  # the limiter's 64
        first = next(turn) * 100_000
        numbers = range(first, first + calls)
        texts = [TEXT * (1 + number % 4) for number in numbers]
        left = pa.table([list(numbers), [f"c{n % 97}" for n in numbers], texts], schema=columns)
        items = [Item(number) for number in range(calls)]
        rows = Rows(left, None, items, ["g"] * calls, [0] * calls)
        async with Context(model, embedder, node, StepMetrics()) as context:
            answers = await way.answer(node, rows, context)
        if any(answer.error for answer in answers):
            raise ValueError(answers)

    return run


WAYS: dict[str, Callable[[str, AsyncExitStack], Awaitable[Run]]] = {
    "openai: chat.completions.create": sdk,
    "bare aiohttp and json": bare_aiohttp,
    "semgraph: whole stack": whole_stack,
    "semgraph: sem_filter, all included": operator,
}


def cpu_of(way: str, _: int, calls: int = 1000, in_flight: int = 64) -> dict[str, float]:
    """One client, after a warm-up turn: CPU for each call, and wall seconds of all."""
    with serving("--latency", "0.05") as server:
        watch = asyncio.run(_turn(server.url, way, calls, in_flight))
    return {
        "cpu_ms_per_call": round(1000 * watch.cpu / calls, 4),
        "seconds": round(watch.seconds, 3),
    }


async def _turn(url: str, way: str, calls: int, in_flight: int) -> Watch:
    async with AsyncExitStack() as closing:
        run = await WAYS[way](url, closing)
        await run(calls // 4, in_flight)
        with Watch() as watch:
            await run(calls, in_flight)
    return watch
