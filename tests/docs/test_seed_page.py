"""docs/seeds.md: each operation of the published algebra is on it, and each step that it names has the
operator that it states.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from benchmarks.world import StandIn
from semgraph.frontend.load import load_plan
from semgraph.logical.node import walk
from tests.plans.conftest import Memory

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "seeds.md").read_text("utf-8")
ROWS = yaml.safe_load((ROOT / "tests/fixtures/seed_rows.yaml").read_text("utf-8"))
VARIANTS: dict[str, dict[str, str]] = {
    "shipped": {},
    "seed": {"preset": "seed"},
    "seed_fused": {"preset": "seed_fused"},
}


class Row(NamedTuple):
    """A row of the page: an operation, and the step that does it."""

    phase: int
    algebra: str
    plan: str
    step: str
    operator: str

    @property
    def flow(self) -> str:
        return self.plan.split()[0]


def tables(text: str) -> Iterator[dict[str, str]]:
    """The rows of tables, by the names of their columns; `plan` is the plan named last."""
    plan, columns = "", list[str]()
    for line in text.splitlines():
        if named := re.fullmatch(r"Plan: `(.+)`", line):
            plan = named[1]
        if not line.startswith("|"):
            columns = []
            continue
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if columns and set(line) != set("|-"):
            yield {"plan": plan} | dict(zip(columns, cells, strict=True))
        columns = columns or cells


FOUND = [
    Row(int(r["phase"]), r["algebra"], r["plan"], r["step"], r["operator"])
    for r in tables(PAGE)
    if "algebra" in r
]
COSTS = [row for row in tables(PAGE) if "shipped" in row]


@cache
def operators(command: str) -> dict[str, set[str]]:
    """The operators of each step of a plan, with the options of a run."""
    plan, *options = command.split()
    chosen: dict[str, Any] = {"params": {}}
    for option, value in zip(options[::2], options[1::2], strict=True):
        if option == "--preset":
            chosen["preset"] = value
        else:
            name, _, setting = value.partition("=")
            chosen["params"][name] = yaml.safe_load(setting)
    loaded = load_plan(ROOT / "plans" / f"{plan}.yaml", **chosen)
    found: dict[str, set[str]] = {}
    for node in walk(*loaded.roots, *loaded.steps.values()):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(node).__name__).lower()
        found.setdefault(node.step, set()).add(name)
    return found


@pytest.mark.parametrize("row", FOUND, ids=lambda row: f"{row.flow} {row.phase} {row.algebra}")
def test_the_step_of_an_operation_has_its_operator(row: Row) -> None:
    steps = operators(row.plan)
    assert row.step in steps
    assert row.operator in steps[row.step]


@pytest.mark.parametrize("flow", ROWS)
def test_every_operation_of_the_algebra_is_on_the_page(flow: str) -> None:
    wanted = [(phase, text) for rows in ROWS[flow].values() for phase, text in rows]
    assert len(wanted) >= 12
    shown = [(row.phase, row.algebra) for row in FOUND if row.flow == flow]
    assert sorted(shown) == sorted(wanted)


@pytest.mark.parametrize("name", ["sem_map", "sem_join", "sem_filter", "sem_agg", "sem_topk"])
def test_each_semantic_operator_of_the_algebra_is_one_of_a_plan(name: str) -> None:
    rows = [row for row in FOUND if row.algebra.startswith(f"{name}(")]
    assert name in {row.operator for row in rows}


@pytest.mark.parametrize("name", VARIANTS)
async def test_a_variant_takes_the_calls_of_the_page(name: str, tmp_path: Path) -> None:
    """Of the three messages of the published log."""
    async with StandIn() as model:
        memory = Memory("memory", model, tmp_path)
        result = await memory.run("add_episode", **VARIANTS[name])
        await memory.session.aclose()
    *rows, whole = COSTS
    shown = {row["step"]: int(row[name]) for row in rows if row[name] != "0"}
    issued = {step: used.calls_issued for step, used in result.meter.steps.items()}
    assert {step: calls for step, calls in issued.items() if calls} == shown
    assert int(whole[name]) == sum(shown.values())


async def test_the_variants_write_the_same_graph(tmp_path: Path) -> None:
    async with StandIn() as model:
        memory = Memory("memory", model, tmp_path)
        found = await memory.session.acompare("add_episode", variants=VARIANTS, say=None)
        await memory.session.aclose()
    for arm in found.arms[1:]:
        assert (arm.quality.f1, arm.quality.pairs, arm.quality.validity) == (1.0, 1.0, 1.0)
    assert [str(arm.cold.calls) for arm in found.arms] == [COSTS[-1][name] for name in VARIANTS]
