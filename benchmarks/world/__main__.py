"""The server as a process of its own, and what a world makes of a plan; see README.md.

`python -m benchmarks.world --port 8088 --latency 0.2 --undated --fault 429=0.05`
`python -m benchmarks.world score --people 8 --difficulty 0 1 2 --noise drop=0.05`
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.world import Fault, Latency, Noise, Rates, StandIn, World
from benchmarks.world.requests import PLANS


def server_of(arguments: argparse.Namespace) -> StandIn:
    """The server with what is switched on."""
    return StandIn(
        undated=arguments.undated,
        latency=arguments.latency,
        embedding_latency=arguments.embedding_latency,
        rates=Rates(arguments.rpm, arguments.tpm),
        faults=tuple(arguments.fault),
        noise=arguments.noise,
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
    """What can be switched on at the server."""
    parser.add_argument("--latency", type=Latency.parse, default=Latency(), help="seconds, or first=,spread=,each=,...")
    parser.add_argument("--embedding-latency", type=float, default=0.0, help="seconds before vectors")
    parser.add_argument("--rpm", type=float, help="requests a minute, beyond which 429 is answered")
    parser.add_argument("--tpm", type=float, help="tokens of prompts a minute")
    parser.add_argument("--undated", action="store_true", help="facts come without dates")
    parser.add_argument("--fault", type=Fault.parse, action="append", default=[], help="kind=rate or kind@n,m")
    parser.add_argument(
        "--noise", type=Noise.parse, default=Noise(), help="drop=,spurious=,verdict=,slip=,growth=,seed="
    )
    parser.add_argument("--seed", type=int, default=1, help="of the faults that have a rate")
    parser.add_argument("--plans", type=Path, default=PLANS, help="whose prompts are understood")


async def score(arguments: argparse.Namespace) -> None:
    """Tell worlds to add_episode, and print what became of them: a line for each seed and difficulty."""
    from benchmarks.world.scoring import HEADER, differences, line, scored

    print(HEADER)
    for difficulty in arguments.difficulty:
        for seed in arguments.worlds:
            world = World.make(seed, arguments.people, difficulty)
            async with server_of(arguments) as server:
                found = await scored(world, server, params=dict(arguments.param), preset=arguments.preset)
            print(line(found, arguments.people), flush=True)
            for one in differences(found) if arguments.show else ():
                print(f"    {one}")


def main(given: Sequence[str] | None = None) -> None:
    """Read the command line."""
    words = list(sys.argv[1:] if given is None else given)
    scoring = words[:1] == ["score"]
    command = "python -m benchmarks.world" + " score" * scoring
    parser = argparse.ArgumentParser(prog=command, description=score.__doc__ if scoring else __doc__)
    parser.add_argument("--port", type=int, default=0, help="0: a free one, which is printed")
    switches(parser)
    if scoring:
        parser.add_argument("--people", type=int, default=8)
        parser.add_argument("--difficulty", type=int, nargs="+", choices=(0, 1, 2), default=[0, 1, 2])
        parser.add_argument("--worlds", type=int, nargs="+", default=[1], help="their seeds")
        parser.add_argument("--preset", help="of add_episode")
        parser.add_argument("--param", type=_param, action="append", default=[], help="name=value, of add_episode")
        parser.add_argument("--show", action="store_true", help="the differences, with names")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run((score if scoring else serve)(parser.parse_args(words[scoring:])))


def _param(text: str) -> tuple[str, object]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


if __name__ == "__main__":
    main()
