"""The client's CPU of a model call: semgraph's whole stack against the openai package and bare
HTTP.

The model is a stand-in in a separate process, so only the client's CPU is counted. All clients send
equal requests with equal concurrency, in turns within one run; the median of the turns counts.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.llm.base import LLM, Message, Request
from semgraph.llm.embed.openai import OpenAIEmbedder
from semgraph.llm.journal import Journal
from semgraph.llm.openai import OpenAI
from semgraph.llm.prices import FlatPrice
from semgraph.llm.stack import Budget, Limiter, Stack
from semgraph.logical.plan import Choice
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Input
from semgraph.logical.semantic import SemFilter
from semgraph.meter import StepMetrics
from semgraph.semantic.context import NodeContext
from semgraph.semantic.contract import Rows
from semgraph.semantic.library import Library

Ask = Callable[[int], Awaitable[None]]
Run = Callable[[int, int], Awaitable[None]]  # so many calls, so many in flight

MODEL = "gpt-4.1-mini"
RULES = (
    "You read messages of customers and decide about each of them. Answer with the JSON document asked for. "
    * 15
)
ITEM = "Message {number} of customer {customer}: {text}\nDoes it complain about a product? Say true or false in `keep`."
TEXT = (
    "The kettle that I bought in May has been leaking since Monday, and nobody answers the phone. "
)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"keep": {"type": "boolean"}},
    "required": ["keep"],
    "additionalProperties": False,
}
MAX_TOKENS = 256


def prompt(number: int) -> str:
    """The message about one row."""
    return ITEM.format(number=number, customer=f"c{number % 97}", text=TEXT * (1 + number % 4))


def body(number: int) -> dict[str, Any]:
    """The body of the HTTP request."""
    return {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": RULES},
            {"role": "user", "content": prompt(number)},
        ],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
        },
    }


def check(text: str) -> None:
    """The answer is of its schema."""
    answer = json.loads(text)
    if not (
        isinstance(answer, dict) and answer.keys() == {"keep"} and isinstance(answer["keep"], bool)
    ):
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


async def sdk(url: str, closing: AsyncExitStack, **options: Any) -> Run:
    """`chat.completions.create` alone: the answer is not even parsed as JSON."""
    import openai

    client = await closing.enter_async_context(
        openai.AsyncOpenAI(base_url=url, api_key="none", **options)
    )

    async def ask(number: int) -> None:
        await client.chat.completions.create(**body(number))

    return each(ask)


async def sdk_aiohttp(url: str, closing: AsyncExitStack) -> Run:
    """The same over the package's aiohttp transport."""
    import openai

    return await sdk(url, closing, http_client=openai.DefaultAioHttpClient())


async def bare_aiohttp(url: str, closing: AsyncExitStack) -> Run:
    """No more than HTTP and JSON."""
    import aiohttp

    session = await closing.enter_async_context(
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    )

    async def ask(number: int) -> None:
        async with session.post(f"{url}/chat/completions", json=body(number)) as response:
            check(json.loads(await response.read())["choices"][0]["message"]["content"])

    return each(ask)


def request(number: int) -> Request:
    """The request about one row, as operators make it."""
    messages = (Message("system", RULES), Message("user", prompt(number)))
    return Request("default", messages, _SCHEMA_TEXT, MAX_TOKENS, partition="g", step="kept")


_SCHEMA_TEXT = json.dumps(SCHEMA, sort_keys=True, separators=(",", ":"))


async def endpoint_alone(url: str, closing: AsyncExitStack) -> Run:
    """`semgraph.llm.openai` without any wrapper."""
    endpoint = OpenAI(MODEL, url, price=FlatPrice(0.4, 1.6, 0.1))
    closing.push_async_callback(endpoint.aclose)

    async def ask(number: int) -> None:
        check((await endpoint.complete(request(number))).text)

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
    model = Stack(budget=budget, journal=journal).model(
        endpoint, Limiter(in_flight=64, rpm=10**7, tpm=10**10)
    )
    closing.push_async_callback(model.aclose)
    return model


async def whole_stack(url: str, closing: AsyncExitStack) -> Run:
    """A request made by hand, through the whole stack, and its answer checked."""
    model, turn = stacked(url, closing), iter(range(10**9))

    async def run(calls: int, in_flight: int) -> None:
        first = next(turn) * 100_000  # other rows in every turn, or the journal would know them

        async def ask(number: int) -> None:
            check((await model.complete(request(first + number))).text)

        await each(ask)(calls, in_flight)

    return run


async def operator(url: str, closing: AsyncExitStack) -> Run:
    """`sem_filter` by the reference implementation: prompt file to verdicts, with all that is
    between.
    """
    model, turn = stacked(url, closing), iter(range(10**9))
    item = Template.parse(ITEM.replace("Say true or false in `keep`.", ""))
    columns: Any = pa.schema(
        [
            pa.field("number", pa.int64()),
            pa.field("customer", pa.string()),
            pa.field("text", pa.string()),
        ]
    )
    node = SemFilter(
        prompt=PromptSet((("", Prompt("complains", (), rules=RULES, item=item)),)),
        input=Input(name="rows", columns=columns, step="rows"),
        step="kept",
    )
    way = Library().get("sem_filter", Choice.parse("per_row"))
    embedder = OpenAIEmbedder("none", base_url=url)  # no filter reads it

    async def run(calls: int, in_flight: int) -> None:  # noqa: ARG001  # the limiter's 64
        first = next(turn) * 100_000
        numbers = range(first, first + calls)
        texts = [TEXT * (1 + number % 4) for number in numbers]
        left = pa.table([list(numbers), [f"c{n % 97}" for n in numbers], texts], schema=columns)
        items = pa.table({"left": pa.array(range(calls), pa.int64())})
        rows = Rows(left, None, items, ["g"] * calls, [0] * calls)
        async with NodeContext(model, embedder, node, StepMetrics()) as context:
            answers = await way.answer(node, rows, context)
        if answers.column("error").null_count != calls:
            raise ValueError(answers)

    return run


async def replay(url: str, closing: AsyncExitStack) -> Run:
    """The whole stack, answering from the journal."""
    model = stacked(url, closing)

    async def ask(number: int) -> None:
        check((await model.complete(request(number))).text)

    return each(ask)


WAYS: dict[str, Callable[[str, AsyncExitStack], Awaitable[Run]]] = {
    "openai: chat.completions.create": sdk,
    "openai: create, aiohttp transport": sdk_aiohttp,
    "bare aiohttp and json": bare_aiohttp,
    "semgraph: endpoint alone": endpoint_alone,
    "semgraph: whole stack": whole_stack,
    "semgraph: sem_filter, all included": operator,
    "semgraph: from the journal": replay,
}


@contextmanager
def model_server(latency: float) -> Iterator[str]:
    """The stand-in, in a separate process; its base URL."""
    script = Path(__file__).with_name("calls_server.py")
    process = subprocess.Popen(
        [sys.executable, script, str(latency)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def spend(run: Run, calls: int, in_flight: int) -> tuple[float, float]:
    """Seconds of CPU and of the clock for so many calls."""
    cpu, clock = time.process_time(), time.perf_counter()
    await run(calls, in_flight)
    return time.process_time() - cpu, time.perf_counter() - clock


def cpu_of(
    way: str, calls: int = 1000, in_flight: int = 64, latency: float = 0.05
) -> dict[str, float]:
    """One client, after a warm-up turn: CPU for each call, and wall seconds of all."""
    with model_server(latency) as url:
        cpu, clock = asyncio.run(_turn(url, way, calls, in_flight))
    return {"cpu_ms_per_call": round(1000 * cpu / calls, 4), "seconds": round(clock, 3)}


async def _turn(url: str, way: str, calls: int, in_flight: int) -> tuple[float, float]:
    async with AsyncExitStack() as closing:
        run = await WAYS[way](url, closing)
        await spend(run, calls // 4, in_flight)
        return await spend(run, calls, in_flight)
