"""The part of a session that compares: it is the runner of `semgraph.compare`."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from semgraph.compare.comparison import Comparison
from semgraph.compare.request import (
    ComparisonRequest,
    Say,
    Ways,
    compare,
    foreseen,
    only_step,
    requested,
)
from semgraph.frontend.frame import Frame
from semgraph.logical.plan import LogicalPlan
from semgraph.session.inputs import typed_inputs
from semgraph.session.resources import Resources
from semgraph.session.waiting import Waiting


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


class Compares(ABC):
    """The part of a session that compares ways of doing the same."""

    runs: Path | None
    _resources: Resources
    _waiting: Waiting

    @abstractmethod
    def prepare(
        self,
        plan: str | Path | LogicalPlan | Frame,
        *,
        params: Mapping[str, Any] | None = None,
        preset: str | None = None,
        use: Mapping[str, str] | None = None,
        resume: str | None = None,
    ) -> LogicalPlan:
        """A checked plan."""

    def compare(self, plan: str | Path | LogicalPlan | Frame, /, **options: Any) -> Comparison:
        """Compare ways and wait for the result. Takes the arguments of `acompare`; see there."""
        return self._waiting.wait(self.acompare(plan, **options), asks=True)

    async def acompare(
        self,
        plan: str | Path | LogicalPlan | Frame,
        /,
        *,
        ways: Ways,
        step: str | None = None,
        truth: Any = None,
        trials: int = 1,
        params: Mapping[str, Any] | None = None,
        preset: str | None = None,
        use: Mapping[str, str] | None = None,
        rows: int | None = None,
        fresh: bool = False,
        say: Say | None = _say,
        inputs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Comparison:
        """Compare ways of doing a step over one frozen input, or whole plans. Nothing is written to
        the store.

        With `step` its input is computed once, in a copy of the groups that are read, and each way
        answers the same rows. In a plan that reads what it wrote it is the input that the reference
        produced, so errors do not build up. Without `step` each arm runs the whole plan in a copy
        of its own, in memory, and is scored by the graph that it leaves there.

        Every way and every trial makes its own calls: none is served the answer of another. They
            are journalled, so the same
        comparison again, or one that was stopped, pays for nothing twice; what is replayed has no
        time.

        Args:
            plan: A path, a name, a loaded plan, or a frame.
            ways: For a step: ways as written, `["per_row", "packed(rows=10)"]`, or ways by name.
                For whole plans: for each arm by name the ways of its steps, `{"one": {"told":
                "block()"}}`. The operator's own reference, if it is among them, or else the first,
                is what the others are compared with.
            step: The step.
            truth: What is right: a file, an Arrow table, a data frame or mappings with columns that
                name a row of the step's input and columns of its answers. For whole plans
                `{"nodes": ..., "edges": ...}`. None: ways are compared with the reference, which
                measures agreement.
            trials: How many independent trials of each way.
            params: Values of parameters.
            preset: One of the plan's presets.
            use: Ways of the other steps.
            rows: Take only the first rows of the input.
            fresh: Ask anew even what the journal knows.
            say: Told what will be asked before it is; by default on stderr. None: nobody.
            inputs: As for `arun`.
            more: The same as arguments.

        Raises:
            PlanError: The request is wrong; nothing was spent.
            InputError: The rows or the truth are wrong; nothing was spent.
            BudgetReached: It would pass a limit; no way was asked.
        """
        checked = requested(ways, step, trials, replays=self._resources.replays)
        given = dict(plan.tables) if isinstance(plan, Frame) else {}
        given |= {
            name: value for name, value in {**(inputs or {}), **more}.items() if value is not None
        }
        logical = self.prepare(plan, params=params, preset=preset, use=use)
        tables = typed_inputs(logical, given, rows)
        quiet: Say = lambda _line: None  # noqa: E731
        request = ComparisonRequest(
            logical, tables, checked, step or "", truth, trials, self.runs, fresh, say or quiet
        )
        return await compare(request, self._resources)

    async def _foreseen(
        self,
        plan: LogicalPlan,
        ways: Ways,
        step: str | None,
        trials: int,
        tables: Mapping[str, Any],
    ) -> str:
        """What a comparison of ways of a step would take; see `Session.explain`."""
        name = step or only_step(plan)
        request = ComparisonRequest(
            plan,
            tables,
            requested(ways, name, trials, replays=self._resources.replays),
            name,
            trials=trials,
        )
        return "\n".join(await foreseen(request, self._resources))
