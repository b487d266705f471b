"""Tell conversations of synthetic worlds to memories, ask about them, and print costs and scores:

python -m benchmarks.memories "turns by both" "full context"
python -m benchmarks.memories mine/write.yaml,mine/read.yaml --people 4 --noise drop=0.02,length=0.2
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from benchmarks.memories.conversations import Conversation, of_world, said_again
from benchmarks.memories.measure import Measured, over_world
from benchmarks.memories.memories import MEMORIES, Memory
from benchmarks.world import StandIn
from benchmarks.world.noise import Noise
from benchmarks.world.questions import KINDS, WIDER
from semgraph.errors import SemgraphError, did_you_mean

_SHORT = [*KINDS[:4], "2 hops", "declined", "3 hops", "global"]
_HEADER = " ".join(
    [
        f"{'memory':28} world  turns calls/turn in/turn out/turn in/question s write    F1 cited",
        *(f"{kind:>8}" for kind in _SHORT),
    ]
)


def line(name: str, world: int, conversation: Conversation, found: Measured) -> str:
    """A memory's costs and scores over one conversation."""
    turns, asked = len(conversation.turns), len(conversation.asked)
    kinds = (found.score.by_kind.get(kind) for kind in (*KINDS, *WIDER))
    failed = found.write.failed + found.read.failed
    return " ".join(
        [
            f"{name[-28:]:28} {world:5} {turns:6} {found.write.calls / turns:10.2f} {found.write.tokens_in / turns:7.0f}",
            f"{found.write.tokens_out / turns:8.0f} {found.read.tokens_in / asked:11.0f} {found.write.seconds:7.1f}",
            f"{found.score.f1:5.3f} {found.score.recall:5.3f}",
            *(f"{'-':>8}" if share is None else f"{share:8.3f}" for share in kinds),
            f"  {failed} rows failed" if failed else "",
        ]
    ).rstrip()


async def run(arguments: argparse.Namespace) -> None:
    """Measure the memories over each world."""
    memories = {name: _memory(name) for name in arguments.memory or MEMORIES}
    print(_HEADER)
    for seed in arguments.worlds:
        told = of_world(seed, arguments.people, arguments.difficulty, arguments.count)
        told = said_again(told, arguments.times)
        for name, memory in memories.items():
            async with StandIn(noise=arguments.noise) as server:
                found = await over_world(memory, told, server)
            print(line(_short(name), seed, told, found), flush=True)
            for text in _wrong(told, found) if arguments.show else ():
                print(f"    {text}")


def _wrong(told: Conversation, found: Measured) -> list[str]:
    given = {row["id"]: row["answer"] for row in found.answers}
    return [
        f"{one.kind}: {one.text} {one.answer or 'declined'}; answered: {given.get(one.id)}"
        for one in told.asked
        if (given.get(one.id) or "") != one.answer
    ]


def _memory(name: str) -> Memory:
    if name in MEMORIES:
        return MEMORIES[name]
    write, comma, read = name.partition(",")
    if not comma:
        near = did_you_mean(name, list(MEMORIES)) or "two plans are written as WRITE,READ"
        msg = f'no memory "{name}". Memories: {" · ".join(MEMORIES)}. {near[0].upper()}{near[1:]}'
        raise SystemExit(msg)
    return Memory(write, read)


def _short(name: str) -> str:
    """The name of a memory; of two plans that of their folder."""
    return name if name in MEMORIES else Path(name.partition(",")[0]).resolve().parent.name


def main(given: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memories",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("memory", nargs="*", help="a name, or two plans as WRITE,READ; default: all memories")
    add("--worlds", type=int, nargs="+", default=[1], help="seeds of the worlds")
    add("--people", type=int, default=8, help="people of a world, about nine turns for each")
    add("--difficulty", default="1", help="of the wording: benchmarks/world/README.md")
    add("--count", type=int, default=48, help="questions about a world")
    add("--times", type=int, default=1, help="how often each turn is said")
    add(
        "--noise",
        type=Noise.parse,
        default=Noise(),
        help="of the model: benchmarks/world/README.md",
    )
    add("--show", action="store_true", help="print the wrong answers")
    try:
        asyncio.run(run(parser.parse_args(given)))
    except SemgraphError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
