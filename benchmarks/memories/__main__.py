"""Tell conversations of synthetic worlds to memories, ask about them, and print costs and scores:

python -m benchmarks.memories "turns by both" "full context"
python -m benchmarks.memories mine/write.yaml,mine/read.yaml --people 4 --noise drop=0.02,length=0.2
python -m benchmarks.memories mine/write.yaml,mine/read.yaml --show --set read.k=40 --use "write.facts=packed(rows=5)"
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.memories import interface
from benchmarks.memories.conversations import Conversation, of_world, said_again
from benchmarks.memories.measure import Measured, over_world
from benchmarks.memories.memories import MEMORIES, Memory
from benchmarks.world import StandIn
from benchmarks.world.answers.fields import Source
from benchmarks.world.difficulty import LEVELS
from benchmarks.world.noise import Noise
from benchmarks.world.questions import KINDS, WIDER
from semgraph.cli.options import named_values, parameters
from semgraph.errors import PlanError, Problem, SemgraphError, did_you_mean

_SHORT = [*KINDS[:4], "2 hops", "declined", "3 hops", "global"]
_HEADER = (
    f"{'memory':28} world  turns calls/turn in/turn out/turn in/question s write    F1 cited "
    + " ".join(f"{kind:>8}" for kind in _SHORT)
)


def line(name: str, world: int, conversation: Conversation, found: Measured) -> str:
    """A memory's costs and scores over one conversation."""
    turns, asked = len(conversation.turns), len(conversation.asked)
    write, read, score = found.write, found.read, found.score
    kinds = (score.by_kind.get(kind) for kind in (*KINDS, *WIDER))
    failed = write.failed + read.failed
    cells = [
        f"{name[-28:]:28} {world:5} {turns:6} {write.calls / turns:10.2f}",
        f"{write.tokens_in / turns:7.0f} {write.tokens_out / turns:8.0f}",
        f"{read.tokens_in / asked:11.0f} {write.seconds:7.1f} {score.f1:5.3f} {score.recall:5.3f}",
        *(f"{'-':>8}" if share is None else f"{share:8.3f}" for share in kinds),
        f"  {failed} row{'s' * (failed > 1)} failed" * bool(failed),
    ]
    return " ".join(cells).rstrip()


async def run(arguments: argparse.Namespace) -> None:
    """Measure the memories over each world."""
    options = [_options(arguments, plan) for plan in ("write", "read")]
    memories = {name: _memory(name).with_options(*options) for name in arguments.memory or MEMORIES}
    header = f"{_HEADER}\n"  # with the first line: errors in options come before it
    for seed in arguments.worlds:
        told = of_world(seed, arguments.people, arguments.difficulty, arguments.count)
        told = said_again(told, arguments.times)
        for name, memory in memories.items():
            short = _short(name)
            async with StandIn(noise=arguments.noise) as server:
                found = await over_world(memory, told, server)
            for text in (*found.warnings, *interface.unread(server)):
                print(f"warning: {short}: {text}", file=sys.stderr)
            print(f"{header}{line(short, seed, told, found)}", flush=True)
            header = ""
            for text in _wrong(told, found) if arguments.show else ():
                print(f"    {text}")


def _wrong(told: Conversation, found: Measured) -> Iterator[str]:
    """The wrong answers, each with the records shown that name what it is about, and the claims
    that the simulated model reads in them.
    """
    given = {row["id"]: row["answer"] for row in found.answers}
    for one in told.asked:
        if (given.get(one.id) or "") == one.answer:
            continue
        yield f"{one.kind}: {one.text} {one.answer or 'declined'}; answered: {given.get(one.id)}"
        records = [row for row in found.shown if row.get("question") == one.id]
        names = set(re.findall(r"[A-Z]\w+(?: [A-Z]\w+)*", f"{one.text[1:]} {one.answer}"))
        about = [row for row in records if any(name in str(row.get("text")) for name in names)]
        yield f"  {len(records)} records shown, {len(about)} of them about {', '.join(sorted(names))}"
        for row in sorted(about, key=lambda row: row.get("rank") or 0):
            claims = [f"{c.subject} {c.kind} {c.target}" for c in Source(str(row["text"])).claims]
            yield f"    {row.get('rank')}: {row['text']}   reads: {'; '.join(claims) or 'nothing'}"


def _options(arguments: argparse.Namespace, plan: str) -> dict[str, Any]:
    """The options of the command line for the write or the read plan. Raises PlanError."""
    given: dict[str, list[str]] = {}
    for name in ("set", "preset", "use"):
        for text in getattr(arguments, name):
            of, _, value = text.partition(".")
            if of not in {"write", "read"} or not value:
                hint = f"write --{name} write.{text} or --{name} read.{text}"
                raise PlanError(Problem(f"--{name} {text} does not say for which plan", hint=hint))
            given.setdefault(name, []).extend([value] * (of == plan))
    return {
        **({"params": parameters(values)} if (values := given.get("set")) else {}),
        **({"preset": values[-1]} if (values := given.get("preset")) else {}),
        **({"use": named_values("--use", values)} if (values := given.get("use")) else {}),
    }


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
    add, see = parser.add_argument, "benchmarks/world/README.md"
    add("memory", nargs="*", help="a name, or two plans as WRITE,READ; default: all memories")
    add("--worlds", type=int, nargs="+", default=[1], help="seeds of the worlds")
    add("--people", type=int, default=8, help="people of a world, about nine turns for each")
    add("--difficulty", choices=LEVELS, default="1", help=f"of the wording: {see}")
    add("--count", type=int, default=48, help="questions about a world")
    add("--times", type=int, default=1, help="how often each turn is said")
    add("--noise", type=Noise.parse, default=Noise(), help=f"of the model: {see}")
    add("--show", action="store_true", help="print wrong answers, with the records about them")
    for option, what in (("set", "NAME=VALUE"), ("preset", "NAME"), ("use", "STEP=IMPLEMENTATION")):
        help_ = f"of the write or the read plan: --{option} read.{what}"
        add(f"--{option}", action="append", default=[], metavar=f"PLAN.{what}", help=help_)
    try:
        asyncio.run(run(parser.parse_args(given)))
    except SemgraphError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
