"""List the requests that a plan sends with each of its presets.

    python -m tools.requests FILE            # write the digests to a file
    python -m tools.requests FILE --compare  # compare with a file; exit status 1 if any differ

The plan runs over its example, over the example with types of entities and facts, and over messages
of two synthetic worlds, window after window, with a simulated model over HTTP. A digest covers the
complete request: with equal files, a rewritten plan sends what the old one sent.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.world import StandIn, World
from semgraph import load_plan
from semgraph.session import Session
from semgraph.session.inputs import example_rows

PLAN = Path(__file__).parents[1] / "plans" / "add_episode.yaml"
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    **{
        name: {"preset": name}
        for name in ("graphiti", "reflexion", "combined", "fused", "lean", "bulk")
    },
    "judged": {"use": {"judge": "judge_episode(fuse_dates=false)"}},
    "judged and dated": {"use": {"judge": "judge_episode", "ask": "ask_together"}},
    "shared end": {"use": {"find": "find_rivals(reach=shared_end)"}},
}
TYPES: dict[str, list[dict[str, Any]]] = {
    "entity_types": [
        {"name": "Person", "description": "a human", "fields": '{"job": "string null"}'},
        {"name": "Company", "description": "an employer"},
    ],
    "edge_types": [{"name": "WORKS_AT", "description": "employment", "fields": '{"since": "date null"}'}],
    "signatures": [{"source": "Person", "target": "Company", "relation": "WORKS_AT"}],
}  # fmt: skip


async def requests_of(options: dict[str, Any], **inputs: list[dict[str, Any]]) -> list[str]:
    """The digests of all that the model was sent, sorted."""
    async with StandIn() as server:
        session = Session(
            llm=f"openai:gpt-4.1-mini@{server.base_url}",
            embedder=f"openai:simulated@{server.base_url}?dimensions=256",
            store="memory",
            journal=False,
            runs="",
        )
        await session.arun(load_plan(PLAN, **options), **inputs)
        await session.aclose()
        return sorted({_digest(body) for body in server.requests})


def _digest(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def all_requests() -> dict[str, list[str]]:
    """The digests of each variant over each set of rows."""
    with Session(llm="recorded", store="memory", journal=False, runs="") as session:
        example = dict(example_rows(session.prepare(PLAN)).inputs)
    cases = {
        "example": example,
        "typed": {**example, **TYPES},
        "world": {"episodes": World.make(7).rows[:4]},
        "difficult world": {"episodes": World.make(3, 3, 1).rows[:12]},
    }
    return {
        f"{variant}, {case}": await requests_of(options, **inputs)
        for variant, options in VARIANTS.items()
        for case, inputs in cases.items()
    }


def main() -> int:
    """Write or compare; print a line for each variant and case."""
    parser = argparse.ArgumentParser(description="List the requests that a plan sends.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--compare", action="store_true")
    options = parser.parse_args()
    digests = asyncio.run(all_requests())
    before = json.loads(options.file.read_text()) if options.compare else digests
    for name in sorted(before.keys() | digests.keys()):
        old, new = set(before.get(name, ())), set(digests.get(name, ()))
        differences = "" if old == new else f"  {len(old - new)} gone, {len(new - old)} new"
        print(f"{name:32} {len(new):5}{differences}")
    if not options.compare:
        options.file.write_text(json.dumps(digests, indent=1) + "\n")
    return int(before != digests)


if __name__ == "__main__":
    sys.exit(main())
