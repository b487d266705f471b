"""A model server that answers from the text of its prompts alone, with switches for faults.

It speaks the OpenAI protocol and parses the prompts of semgraph, graphiti-core, LOTUS and Palimpzest; without
switches it is fast and right. GET /counters returns its counters, POST /reset resets them. See
benchmarks/world/README.md.

  python -m benchmarks.world --port 8088 --latency 0.2 --rpm 500 --fault 429=0.05:2
  python -m benchmarks.world --noise drop=0.05,verdict=0.02,growth=0.05,length=0.1
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from benchmarks.world import Fault, Noise, Rates, StandIn
from benchmarks.world.faults import KINDS

_FAULT = f"kind=rate, or kind@n,m for the n-th and m-th request; 429 and stall take seconds behind a colon. {', '.join(KINDS)}"
_NOISE = (
    "drop= (entries missing), spurious= (entries made up), verdict= (wrong yes, choice, match, score), slip= (dates off by up "
    "to 60 days): rates that grow by growth= with each further item in a call and by length= with each thousand tokens; "
    "seed=; of one model: ;MODEL:drop=0.1"
)


async def serve(rpm: float | None, tpm: float | None, fault: list[Fault], **options: Any) -> None:
    """Serve until the process is ended."""
    async with StandIn(rates=Rates(rpm, tpm), faults=tuple(fault), **options) as server:
        print(server.base_url, flush=True)
        await asyncio.Event().wait()


def main(given: Sequence[str] | None = None) -> None:
    """Read the command line; every switch is off unless it is given."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.world",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--port", type=int, default=0, help="0: a free one, which is printed")
    add("--latency", type=float, default=0.0, help="seconds before an answer")
    add("--embedding-latency", type=float, default=0.0, help="seconds before vectors")
    add("--rpm", type=float, help="requests a minute, beyond which the answer is 429")
    add("--tpm", type=float, help="tokens of prompts a minute, likewise")
    add("--fault", type=Fault.parse, action="append", default=[], help=_FAULT)
    add("--noise", type=Noise.of_models, default={"": Noise()}, help=_NOISE)
    add("--undated", action="store_true", help="facts have no dates; a question asks for these")
    add("--refuse", default="", metavar="TEXT", help="chats with this text are refused")
    add("--seed", type=int, default=1, help="of the faults that have a rate")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(**vars(parser.parse_args(given))))


if __name__ == "__main__":
    main()
