"""A model server that answers from the text of its prompts alone, with switches for faults.

It speaks the OpenAI protocol and parses the prompts of semgraph, graphiti-core and LOTUS; without
switches it is fast and right. GET /counters returns its counters, POST /reset resets them. See
benchmarks/world/README.md.

  python -m benchmarks.world --port 8088 --latency gpt-4.1-mini --rpm 500 --fault 429=0.05:2
  python -m benchmarks.world --noise drop=0.05,verdict=0.02,growth=0.05,length=0.1
  python -m benchmarks.world tell --people 8 --difficulty corrected      a world as JSON lines
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.world import BatchFault, Fault, Latency, Noise, PrefixCache, Rates, StandIn, World
from benchmarks.world.batches import KINDS as BATCH_KINDS
from benchmarks.world.difficulty import LEVELS, Difficulty
from benchmarks.world.faults import KINDS
from benchmarks.world.questions import questions
from benchmarks.world.requests import PLANS
from benchmarks.world.waiting import PROFILES


def server_of(arguments: argparse.Namespace) -> StandIn:
    """The server with these switches."""
    return StandIn(
        undated=arguments.undated,
        latency=arguments.latency,
        embedding_latency=arguments.embedding_latency,
        rates=Rates(arguments.rpm, arguments.tpm),
        faults=tuple(arguments.fault),
        batch_faults=tuple(arguments.batch_fault),
        batch_looks=arguments.batch_looks,
        noise=arguments.noise,
        cache=arguments.cache,
        seed=arguments.seed,
        plans=arguments.plans,
        port=arguments.port,
    )


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until the process is ended."""
    async with server_of(arguments) as server:
        print(server.base_url, flush=True)
        await asyncio.Event().wait()


def switches(parser: argparse.ArgumentParser) -> None:
    """The switches of the server."""
    add = parser.add_argument_group(
        "switches of the server, each by itself; all are off unless given"
    ).add_argument
    add("--latency", type=Latency.parse, default=Latency(), help=_LATENCY)
    add("--embedding-latency", type=float, default=0.0, help="seconds before vectors")
    add(
        "--rpm", type=float, help="requests a minute, beyond which 429 with Retry-After is answered"
    )
    add("--tpm", type=float, help="tokens of prompts a minute, likewise")
    add("--fault", type=Fault.parse, action="append", default=[], help=_FAULT)
    add("--batch-fault", type=BatchFault.parse, action="append", default=[], help=_BATCH_FAULT)
    add("--batch-looks", type=int, default=2, help="looks at a batch before it has ended")
    add("--noise", type=Noise.parse, default=Noise(), help=_NOISE)
    add(
        "--cache",
        type=PrefixCache.parse,
        default=PrefixCache(),
        help="which tokens count as cached: block=,least=, or off",
    )
    add("--undated", action="store_true", help="facts come without dates, which are then asked for")
    add("--seed", type=int, default=1, help="of the faults that have a rate")
    add("--plans", type=Path, default=PLANS, help="the folder whose prompts are understood")


_LATENCY = (
    "seconds before an answer; or first= (median to the first token), spread= (sigma of its lognormal tail), cached= (its "
    "share where all is cached), prompt= (a token not cached), each= (a token of the answer), fixed=, load= (the share that "
    f"each other chat under way adds); or one of {', '.join(PROFILES)}"
)
_FAULT = f"kind=rate, or kind@n,m for the n-th and m-th request; 429 and stall take seconds behind a colon. {', '.join(KINDS)}"
_BATCH_FAULT = (
    "kind@n,m for the n-th and m-th call, batch or line; the status of a call behind a colon. "
    f"{', '.join(BATCH_KINDS)}"
)
_NOISE = (
    "drop= (entries missing), spurious= (entries made up), verdict= (wrong yes, choice, match, score), slip= (dates off by up "
    "to 60 days): rates that grow by growth= with each further item in a call and by length= with each thousand tokens; seed="
)


def tell(arguments: argparse.Namespace) -> None:
    """The messages of a world as JSON lines; or its true graph, or questions with answers, as of a
    time.
    """
    world = World.make(arguments.world, arguments.people, arguments.difficulty)
    at = arguments.at or world.episodes[-1].at
    rows: Sequence[Any] = [
        row for row, episode in zip(world.rows, world.episodes, strict=True) if episode.at <= at
    ]
    if arguments.what == "gold":
        gold = world.gold(after=len(rows), at=arguments.at)
        rows = [*map(dataclasses.asdict, gold.entities), *map(dataclasses.asdict, gold.facts)]
    elif arguments.what == "questions":
        rows = [
            dataclasses.asdict(one) for one in questions(world, at, count=arguments.count or 30)
        ]
    for row in rows[: arguments.count] if arguments.what == "messages" else rows:
        print(json.dumps(row, ensure_ascii=False, default=str))


def main(given: Sequence[str] | None = None) -> None:
    """Read the command line."""
    words = list(sys.argv[1:] if given is None else given)
    tells = words[:1] == ["tell"]
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.world {'tell' * tells}".strip(),
        description=tell.__doc__ if tells else __doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    if not tells:
        add("--port", type=int, default=0, help="0: a free one, which is printed")
        switches(parser)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve(parser.parse_args(words)))
        return
    add("--people", type=int, default=8, help="about nine messages for each")
    add("--difficulty", type=_difficulty, default=LEVELS["1"], help=_DIFFICULTY)
    add("--world", type=int, default=1, help="its seed")
    add("what", nargs="?", choices=("messages", "gold", "questions"), default="messages")
    add("--count", type=int, help="of messages or questions; default: all messages, 30 questions")
    add("--at", type=_time, help="as of when: 2024-06-01")
    tell(parser.parse_args(words[1:]))


_DIFFICULTY = (
    f"one of {', '.join(LEVELS)}; or with changes: 1,corrections=0.2,homonyms=1. All that can be changed: "
    f"{', '.join(f.name for f in dataclasses.fields(Difficulty) if f.name not in {'name', 'base'})}"
)


def _difficulty(text: str) -> Difficulty:
    try:
        return Difficulty.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


if __name__ == "__main__":
    main()
