"""How much CPU of its own a model call takes: semgraph's whole stack against the openai package and bare HTTP.

The model is a stand-in in another process, so that only the client's CPU is counted. All ways send equal requests with
equal concurrency, in turns within one run; the median of the turns counts.

    python benchmarks/llm_cpu/run.py                   # the table
    python benchmarks/llm_cpu/run.py --json out.json   # and the figures of each turn
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from semgraph.llm.base import Message, Request
from semgraph.llm.budget import Budget
from semgraph.llm.journal import Journal
from semgraph.llm.limits import Limiter
from semgraph.llm.openai import OpenAI
from semgraph.llm.prices import FlatPrice
from semgraph.llm.stack import stack

Ask = Callable[[int], Awaitable[None]]

MODEL = "gpt-4.1-mini"
RULES = "You read messages of customers and decide about each of them. Answer with the JSON document asked for. " * 15
ITEM = "Message {number} of customer {customer}: {text}\nDoes it complain about a product? Say true or false in `keep`."
TEXT = "The kettle that I bought in May has been leaking since Monday, and nobody answers the phone. "
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
    """What goes over the wire."""
    return {
        "model": MODEL,
        "messages": [{"role": "system", "content": RULES}, {"role": "user", "content": prompt(number)}],
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
    if not (isinstance(answer, dict) and answer.keys() == {"keep"} and isinstance(answer["keep"], bool)):
        raise ValueError(text)


async def sdk(url: str, closing: AsyncExitStack, **options: Any) -> Ask:
    """`chat.completions.create` alone: the answer is not even parsed as JSON."""
    import openai

    client = await closing.enter_async_context(openai.AsyncOpenAI(base_url=url, api_key="none", **options))

    async def ask(number: int) -> None:
        await client.chat.completions.create(**body(number))

    return ask


async def sdk_aiohttp(url: str, closing: AsyncExitStack) -> Ask:
    """The same over the package's aiohttp transport."""
    import openai

    return await sdk(url, closing, http_client=openai.DefaultAioHttpClient())


async def bare_aiohttp(url: str, closing: AsyncExitStack) -> Ask:
    """No more than HTTP and JSON."""
    import aiohttp

    session = await closing.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))

    async def ask(number: int) -> None:
        async with session.post(f"{url}/chat/completions", json=body(number)) as response:
            check(json.loads(await response.read())["choices"][0]["message"]["content"])

    return ask


def request(number: int) -> Request:
    """The request about one row, as operators make it."""
    messages = (Message("system", RULES), Message("user", prompt(number)))
    return Request("default", messages, _SCHEMA_TEXT, MAX_TOKENS, partition="g", step="kept")


_SCHEMA_TEXT = json.dumps(SCHEMA, sort_keys=True, separators=(",", ":"))


async def endpoint_alone(url: str, closing: AsyncExitStack) -> Ask:
    """`semgraph.llm.openai` without any wrapper."""
    endpoint = OpenAI(MODEL, url, price=FlatPrice(0.4, 1.6, 0.1))
    closing.push_async_callback(endpoint.aclose)

    async def ask(number: int) -> None:
        check((await endpoint.complete(request(number))).text)

    return ask


async def whole_stack(url: str, closing: AsyncExitStack) -> Ask:
    """Prompt, coalescing, journal on disk, budget in dollars and tokens, retry, limiter with RPM and TPM, validation."""
    endpoint = OpenAI(MODEL, url, price=FlatPrice(0.4, 1.6, 0.1))
    folder = closing.enter_context(tempfile.TemporaryDirectory())
    journal = Journal(Path(folder) / "journal.db")
    closing.callback(journal.close)
    budget = Budget(max_calls=10**9, max_tokens=10**12, max_usd=10**6, max_seconds=10**6)
    limiter = Limiter(in_flight=64, rpm=10**7, tpm=10**10)
    model = stack(endpoint, limiter, budget=budget, journal=journal)
    closing.push_async_callback(model.aclose)
    trials: dict[int, int] = {}

    async def ask(number: int) -> None:
        # A row that was asked in an earlier turn would come from the journal: each turn asks about rows of its own.
        trials[number] = trials.get(number, -1) + 1
        check((await model.complete(request(number + 100_000 * trials[number]))).text)

    return ask


async def replay(url: str, closing: AsyncExitStack) -> Ask:
    """The whole stack, answering from the journal."""
    endpoint = OpenAI(MODEL, url, price=FlatPrice(0.4, 1.6, 0.1))
    folder = closing.enter_context(tempfile.TemporaryDirectory())
    journal = Journal(Path(folder) / "journal.db")
    closing.callback(journal.close)
    model = stack(endpoint, Limiter(64), budget=Budget(), journal=journal)
    closing.push_async_callback(model.aclose)
    known: set[int] = set()

    async def ask(number: int) -> None:
        reply = await model.complete(request(number))
        check(reply.text)
        if number in known and reply.origin == "issued":
            raise ValueError("not replayed")
        known.add(number)

    return ask


WAYS: dict[str, Callable[[str, AsyncExitStack], Awaitable[Ask]]] = {
    "openai: chat.completions.create": sdk,
    "openai: create, aiohttp transport": sdk_aiohttp,
    "bare aiohttp and json": bare_aiohttp,
    "semgraph: endpoint alone": endpoint_alone,
    "semgraph: whole stack": whole_stack,
    "semgraph: from the journal": replay,
}


@contextmanager
def model_server(latency: float) -> Iterator[str]:
    """The stand-in, in another process; its base URL."""
    script = Path(__file__).with_name("server.py")
    process = subprocess.Popen([sys.executable, script, str(latency)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def spend(ask: Ask, calls: int, in_flight: int) -> tuple[float, float]:
    """Seconds of CPU and of the clock for so many calls."""
    numbers = iter(range(calls))

    async def worker() -> None:
        for number in numbers:
            await ask(number)

    cpu, clock = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return time.process_time() - cpu, time.perf_counter() - clock


async def measure(url: str, calls: int, in_flight: int, turns: int) -> dict[str, list[tuple[float, float]]]:
    """CPU and clock of each way in each turn; a turn before them warms up and is not counted."""
    figures: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    async with AsyncExitStack() as closing:
        asks = {way: await make(url, closing) for way, make in WAYS.items()}
        for ask in asks.values():
            await spend(ask, in_flight * 2, in_flight)
        await spend(asks["semgraph: from the journal"], calls, in_flight)
        for _ in range(turns):
            for way, ask in asks.items():
                figures[way].append(await spend(ask, calls, in_flight))
    return figures


def main() -> None:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1500)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path, help="where to write the figures of each turn")
    options = parser.parse_args()
    with model_server(options.latency) as url:
        figures = asyncio.run(measure(url, options.calls, options.in_flight, options.turns))
    reference = statistics.median(cpu for cpu, _ in figures["openai: chat.completions.create"])
    print(
        f"{options.calls:,} calls, {options.in_flight} in flight, {options.latency * 1000:g} ms, {options.turns} turns"
    )
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs; client process only; simulated model\n")
    print(f"{'way':36}{'ms CPU per call':>16}{'ratio':>8}{'wall s':>9}")
    for way, turns in figures.items():
        cpu, clock = (statistics.median(values) for values in zip(*turns, strict=True))
        print(f"{way:36}{cpu / options.calls * 1000:>16.3f}{cpu / reference:>8.2f}{clock:>9.2f}")
    if options.json:
        options.json.write_text(json.dumps({"options": vars(options), "seconds": figures}, default=str, indent=1))


if __name__ == "__main__":
    main()
