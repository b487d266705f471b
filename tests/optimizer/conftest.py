"""Plans of a few lines, run with and without the optimizer over a small graph in memory, with a model that is a function of its row."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.execution.result import Result
from semgraph.logical.plan import LogicalPlan
from semgraph.optimizer import Roots
from semgraph.session import running
from tests.operators.oracle import Mind, Oracle

FIXTURES = Path(__file__).parents[1] / "fixtures" / "optimizer"
Rewrite = Callable[[LogicalPlan], LogicalPlan]


def drawn(text: str) -> int:
    """A number that depends on a text alone."""
    return zlib.crc32(text.encode())


def answered(text: str) -> dict[str, Any]:
    """`Code: ...` is a question for a code, every other one for yes or no."""
    if text.startswith("Code:"):
        return {"code": f"c{drawn(text) % 5}"}
    return {"answer": "yes" if drawn(text) % 3 else "no"}


def with_roots(plan: LogicalPlan, roots: Roots) -> LogicalPlan:
    """A plan with its sinks and results rewritten."""
    count = len(plan.writes)
    writes: Any = roots[:count]
    return replace(plan, writes=writes, returns=dict(zip(plan.returns, roots[count:], strict=True)))


class Bench:
    """Runs plans as some rewrite leaves them."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.oracle = Oracle(Mind(answer=answered, match=lambda left, right: {} if drawn(left + right) % 3 else None))
        self.session = semgraph.Session(llm=self.oracle, store="memory", journal=False, runs="", folder=folder)
        self._patch = patch

    async def run(self, plan: LogicalPlan, rewrite: Rewrite, inputs: Mapping[str, Any]) -> Result:
        """Run a plan, rewritten by nothing else than `rewrite`; counts the requests anew."""
        self.oracle.requests.clear()
        with self._patch.context() as patch:
            patch.setattr(running, "optimize", rewrite)
            return await self.session.arun(plan, **inputs)

    @property
    def asked(self) -> list[str]:
        """The last messages that the last run sent."""
        return sorted(request.messages[-1].content for request in self.oracle.requests)


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A bench over the graph of `fixtures/optimizer/fill.yaml`."""
    made = Bench(tmp_path, monkeypatch)
    await made.session.arun(FIXTURES / "fill.yaml")
    yield made
    await made.session.aclose()
