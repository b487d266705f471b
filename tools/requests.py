"""List the requests that the shipped plans send: equal files mean equal requests.

    python -m tools.requests tests/fixtures/requests.json --compare    # exit status 1 if any differ
    python -m tools.requests FILE                                      # write a file
    python -m tools.requests FILE --texts FOLDER                       # and each request as a line
    python -m tools.requests FILE --store neo4j://localhost:7687       # on this empty server

Each plan that calls a model runs over its example, with each of its presets and with each
implementation of its operators; add_episode also over messages of two synthetic worlds and with
types; memories also over a conversation and its questions. A simulated model answers over HTTP,
from the text of the prompt alone. The file has the number and a digest of the distinct requests of
each case. If digests of two checkouts differ, compare their `--texts` with `diff -r`. Further
arguments are name patterns (`'memories/*'`) that select cases. `semgraph neo4j start` starts a
server; NEO4J_USERNAME and NEO4J_PASSWORD name its user. Its full-text search ranks differently, so
compare only with a file from a server.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.memories.conversations import of_world
from benchmarks.world import StandIn, World
from semgraph import load_plan
from semgraph.frontend.plan_files import is_plan
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.semantic import Semantic
from semgraph.session import Session
from semgraph.stores.registry import lasts

PLANS = Path(__file__).parents[1] / "plans"
WAYS = {
    "sem_map": ("packed", "per_row", "reflexion", "vote"),
    "sem_filter": ("per_row", "packed"),
    "sem_join": ("block", "nested_loop", "cascade(jaccard=null)"),
    "sem_agg": ("tree", "fold", "single"),
}
JUDGED: dict[str, dict[str, Any]] = {
    "judged": {"use": {"judge": "judge_episode(fuse_dates=false)"}},
    "judged and dated": {"use": {"judge": "judge_episode", "ask": "ask_together"}},
    "shared end": {"use": {"find": "find_rivals(reach=shared_end)"}},
}
TYPES: dict[str, list[dict[str, Any]]] = {
    "entity_types": [
        {"name": "Person", "description": "a human being", "fields": '{"employer": "string null", "town": "string null"}'},
        {"name": "City", "description": "a town"},
    ],
    "edge_types": [
        {"name": "EMPLOYMENT", "description": "a job", "fields": '{"employer": "string null"}'},
        {"name": "HOME", "description": "where somebody lives"},
    ],
    "signatures": [{"source": "Person", "target": "City", "relation": "HOME"}],
}  # fmt: skip
# A plan; its preset, parameters and implementations; and its rows, or none for its example.
Run = tuple[str, dict[str, Any], dict[str, Any]]


def cases(patterns: Sequence[str]) -> dict[str, list[Run]]:
    """The runs over one empty store each, by case name, in run order."""
    found: dict[str, list[Run]] = {}
    for path in sorted(PLANS.rglob("*.yaml")):
        name = path.relative_to(PLANS).with_suffix("").as_posix()
        if not is_plan(path) or not (asking := _asking(plan := load_plan(path))):
            continue
        found[name] = [(name, {}, {})]
        found |= {f"{name}, {one}": [(name, {"preset": one}, {})] for one in _presets(plan)}
        for nth in range(max(len(WAYS[node.keyword]) for node in asking)):
            use = {n.step: WAYS[n.keyword][nth % len(WAYS[n.keyword])] for n in asking}
            found[f"{name}, ways {nth + 1}"] = [(name, {"use": use}, {})]
    found |= dict(_worlds())
    return {name: runs for name, runs in found.items() if _is_chosen(name, patterns)}


def _is_chosen(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _asking(plan: LogicalPlan) -> list[Semantic]:
    return [node for node in walk(*plan.roots) if isinstance(node, Semantic)]


def _presets(plan: LogicalPlan) -> list[str]:
    """All presets except `ready`: the rows that are ready together depend on time."""
    return [name for name in plan.document.get("presets", ()) if name != "ready"]


def _worlds() -> Iterator[tuple[str, list[Run]]]:
    plan = load_plan(PLANS / "add_episode.yaml")
    presets = {name: {"preset": name} for name in _presets(plan)}
    rows = {
        "typed": {"episodes": World.make(7).rows[:6], **TYPES},
        "world": {"episodes": World.make(7).rows[:4]},
        "difficult world": {"episodes": World.make(3, 3, 1).rows[:12]},
    }
    for variant, settled in ({"default": {}} | presets | JUDGED).items():
        for case, inputs in rows.items():
            yield f"add_episode, {variant}, {case}", [("add_episode", settled, inputs)]
    told = of_world(7, people=4, count=12)
    conversations = [{"conversation": told.name}]
    for folder in sorted(path.parent for path in PLANS.glob("memories/*/write.yaml")):
        name = f"memories/{folder.name}"
        runs: list[Run] = [(f"{name}/write", {}, {"turns": list(told.turns)})]
        if (folder / "sleep.yaml").is_file():
            runs.append((f"{name}/sleep", {}, {"conversations": conversations}))
        read = load_plan(folder / "read.yaml")
        runs += [
            (f"{name}/read", {"preset": preset}, {"questions": told.questions})
            for preset in (None, *_presets(read))
        ]
        yield f"{name}, conversation", runs


async def requests_of(runs: Sequence[Run], server: StandIn, store: str) -> list[str]:
    """The distinct requests of some runs, as sorted JSON lines."""
    server.reset()
    session = Session(
        llm=f"openai:gpt-4.1-mini@{server.base_url}",
        embedder=f"openai:simulated@{server.base_url}?dimensions=256",
        store=store,
        journal=False,
        runs="",
    )
    for name, settled, inputs in runs:
        await session.arun(load_plan(PLANS / f"{name}.yaml", **settled), inputs=inputs)
    await session.aclose()
    return sorted(
        {json.dumps(body, sort_keys=True, ensure_ascii=False) for body in server.requests}
    )


async def all_requests(store: str, patterns: Sequence[str]) -> dict[str, list[str]]:
    """The requests of each case, each on an empty store."""
    found: dict[str, list[str]] = {}
    async with StandIn() as server:
        for name, runs in cases(patterns).items():
            _empty(store, first=not found)
            found[name] = await requests_of(runs, server, store)
    return found


def _empty(store: str, *, first: bool) -> None:
    """Empty a server. Refuses one that holds rows before the first case."""
    if not lasts(store):
        return
    import neo4j

    auth = os.environ.get("NEO4J_USERNAME", "neo4j"), os.environ.get("NEO4J_PASSWORD", "")
    with neo4j.GraphDatabase.driver(store, auth=auth) as driver, driver.session() as session:
        if first and session.run("MATCH (n) RETURN n LIMIT 1").single() is not None:
            sys.exit(f"{store} holds rows, and the cases would delete them: name an empty server")
        session.run("MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 1000 ROWS").consume()


def main() -> int:
    """Write or compare; print the cases that differ, and the totals."""
    parser = argparse.ArgumentParser(description="List the requests that the shipped plans send.")
    parser.add_argument("file", type=Path)
    parser.add_argument("cases", nargs="*", default=["*"], help="patterns of names")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--store", default="memory", help="the address of a Neo4j server")
    parser.add_argument("--texts", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    found = asyncio.run(all_requests(options.store, options.cases))
    digests = {
        name: f"{len(lines)} {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:16]}"
        for name, lines in sorted(found.items())
    }
    if options.texts:
        options.texts.mkdir(parents=True, exist_ok=True)
        for name, lines in found.items():
            file = options.texts / f"{name.replace('/', '.')}.jsonl"
            file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{sum(map(len, found.values())):,} requests in {len(found)} cases")
    if not options.compare:
        options.file.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")
        return 0
    before = {
        name: digest
        for name, digest in json.loads(options.file.read_text(encoding="utf-8")).items()
        if _is_chosen(name, options.cases)
    }
    different = [n for n in sorted(before | digests) if before.get(n) != digests.get(n)]
    for name in different:
        print(f"{name}: {before.get(name, 'no case')}  ->  {digests.get(name, 'no case')}")
    print(f"{len(different)} cases differ")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
