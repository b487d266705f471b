"""The stand-in as a process of its own: `python -m tests.standin --port 8088 --latency 0.2 --undated --fault 429=0.05`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from pathlib import Path

from tests.standin import Fault, StandIn
from tests.standin.reading import PLANS


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until the process is ended."""
    standin = StandIn(
        undated=arguments.undated,
        latency=arguments.latency,
        embedding_latency=arguments.embedding_latency,
        faults=tuple(arguments.fault),
        seed=arguments.seed,
        plans=arguments.plans,
        port=arguments.port,
    )
    async with standin:
        print(standin.base_url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.standin", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: a free one, which is printed")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer of a chat")
    parser.add_argument("--embedding-latency", type=float, default=0.0, help="seconds before vectors")
    parser.add_argument("--undated", action="store_true", help="facts come without dates")
    parser.add_argument("--fault", type=Fault.parse, action="append", default=[], help="kind=rate or kind@n,m")
    parser.add_argument("--seed", type=int, default=1, help="of the faults that have a rate")
    parser.add_argument("--plans", type=Path, default=PLANS, help="whose prompts are understood")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
