"""Windows that are formed while a random plan runs give what the reference gives for them."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from pathlib import Path

import pytest

from semgraph.errors import PlanError
from semgraph.llm.base import Reply, Request
from tests.fuzz import engine as engines
from tests.fuzz import naive
from tests.fuzz.checking import Unusable, differs
from tests.fuzz.engine import Engine, Ran
from tests.fuzz.model import Model
from tests.fuzz.plans import Case, case
from tests.fuzz.values import Uncomputable, same_key

PLANS, PARTS = 160, 4


class Unsteady(Model):
    """A model whose answers overtake each other, always in the same way."""

    async def complete(self, request: Request) -> Reply:
        """Answer after a number of steps that depends on the request."""
        for _ in range(zlib.crc32(request.fingerprint.encode()) % 40):
            await asyncio.sleep(0)
        return await super().complete(request)


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, PARTS))]
)
def test_formed_windows_count_like_windows_of_their_sizes(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "Model", Unsteady)
    outcomes: Counter[str] = Counter()
    with Engine(tmp_path) as engine:
        for seed in range(part * PLANS // PARTS, (part + 1) * PLANS // PARTS):
            drawn = case(seed)
            if "windows" in drawn.document:
                outcomes[compared(engine, seed, drawn)] += 1
    assert outcomes["agree, with a window of several rows"] > 2, outcomes
    assert outcomes["agree"] > 0, outcomes


def compared(engine: Engine, seed: int, drawn: Case) -> str:
    """Run a case with windows of what is ready; whether it could be compared."""
    cut = drawn.document["windows"] | {"size": "ready", "ahead": 4 + seed % 9}
    try:
        plan = engine.load({**drawn.document, "windows": cut})
    except PlanError:
        return "refused"
    optimize = seed % 2 == 0
    ran = engine.run(plan, drawn.inputs, optimize=optimize)
    if ran.tables is None or ran.halted:
        return "stopped"
    document = {**drawn.document, "windows": cut | {"size": ran.windows}}
    try:
        ours = naive.run(document, drawn.inputs)
        if optimize and ours.failed and not ran.failed:
            return "not comparable"  # a row that does not fail brings all rows of its window back
        # A window comes where its first row does, also if that row failed and is in no window now.
        found = unequal(ran, ours) if ran.failed else differs("ready", ran, ours, fewer=False)
    except (Uncomputable, naive.Misplaced, naive.Refused, Unusable):
        return "not comparable"
    assert found is None, f"seed {seed}, windows {ran.windows}: {found}"
    several = any(len(window) > 1 for window in ran.windows)
    return "agree, with a window of several rows" if several else "agree"


def unequal(ran: Ran, ours: naive.Evaluated) -> str | None:
    """The rows of results that differ, whatever their order."""
    assert ran.tables is not None
    for name, relation in ours.tables.items():
        rows = Counter(same_key(dict(row.columns)) for row in relation.rows)
        rows.subtract(Counter(map(same_key, ran.tables[name])))
        if any(rows.values()):
            return f"result {name}: {[row for row in rows if rows[row]]}"
    return None
