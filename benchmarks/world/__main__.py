"""The server as a process of its own, and what a world makes of a plan; see README.md.

`python -m benchmarks.world --port 8088 --latency 0.2 --undated --fault 429=0.05`
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from pathlib import Path

from benchmarks.world import Fault, Latency, Noise, Rates, StandIn
from benchmarks.world.requests import PLANS


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until the process is ended."""
    server = StandIn(
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
    async with server:
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


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.world", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: a free one, which is printed")
    switches(parser)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
