"""The engine's evaluations of a plan: as the optimizer leaves it, and as it is written."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest.mock import patch

import semgraph
from semgraph.errors import DataError, PlanError, SemgraphError
from semgraph.execution.record import ROW_ID, Run, read_lines
from semgraph.execution.result import Result
from semgraph.frontend.load import load_plan
from semgraph.logical.plan import LogicalPlan
from semgraph.optimizer import optimized
from semgraph.provenance import Tracer, visible
from semgraph.session import run as running
from tests.fuzz.model import Model
from tests.fuzz.naive import Sources
from tests.fuzz.stored import GRAPH, GRAPH_FILE
from tests.partial import maybe_partial

Made = tuple[dict[str, Any], Sources]


@dataclass
class Ran:
    """What became of a run.

    Args:
        tables: The rows of the results, by name; None where the run ended with `error`.
        error: Why there are none.
        refused: Whether the plan was refused before anything was computed.
        failed: How many rows were set aside, by step.
        mixed: Requests that hold rows of two partitions.
        made: The recorded rows of each result that is not an input, each with the rows of inputs
            that it is made of.
        windows: The windows that were formed, where the plan forms them of what is ready.
    """

    tables: dict[str, list[dict[str, Any]]] | None = None
    error: str = ""
    refused: bool = False
    halted: bool = False
    failed: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    made: dict[str, list[Made]] = field(default_factory=dict)
    windows: list[list[int]] = field(default_factory=list)


class Engine:
    """Runs documents, one after another, with one session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = Model()
        self._runner = asyncio.Runner()
        self._session = self._new_session()
        (folder / GRAPH).write_text(json.dumps(GRAPH_FILE), encoding="utf-8")

    def _new_session(self) -> semgraph.Session:
        """A session whose store holds nothing."""
        return semgraph.Session(
            llm=self.model,
            store="memory",
            journal=False,
            runs=self.folder / "runs",
            folder=self.folder,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runner.run(self._session.aclose())
        self._runner.close()

    def load(self, document: Mapping[str, Any]) -> LogicalPlan:
        """The checked plan of a document. Raises PlanError."""
        own = {key: value for key, value in document.items() if key != "called"}
        for plan in (own, *document.get("called", {}).values()):
            self._file(plan["plan"]).write_text(
                json.dumps(plan, ensure_ascii=False), encoding="utf-8"
            )
        return load_plan(self._file(own["plan"]))

    def _file(self, plan: str) -> Path:
        return self.folder / f"{plan}.yaml"

    async def _run(
        self, plan: LogicalPlan, inputs: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> Result:
        if not plan.writes:
            return await maybe_partial(self._session.arun(plan, again=True, inputs=dict(inputs)))
        session = self._new_session()
        try:
            return await maybe_partial(session.arun(plan, inputs=dict(inputs)))
        finally:
            await session.aclose()

    def run(
        self,
        plan: LogicalPlan,
        inputs: Mapping[str, Sequence[Mapping[str, Any]]],
        *,
        optimize: bool,
    ) -> Ran:
        """Run a plan. Raises what the engine did not mean to raise."""
        self.model.requests.clear()
        self.model.mixed = []
        rewrite: Callable[..., LogicalPlan] = optimized if optimize else lambda plan, _inputs: plan
        try:
            with patch.object(running, "optimized", rewrite):
                found = self._runner.run(self._run(plan, inputs))
        except PlanError as error:
            return Ran(error=str(error), refused=True)
        except DataError as error:
            return Ran(error=str(error))
        except SemgraphError as error:
            if "derives from no input row" in str(error):
                return Ran(error=str(error), refused=True)
            raise
        tables = {name: table.to_pylist() for name, table in found.tables.items()}
        assert found.record is not None
        run = Run(found.record)
        steps: dict[str, str] = run.facts["returns"]
        made = {
            n: made_rows(run, step) for n, step in steps.items() if step not in run.facts["ids"]
        }
        windows = [line["rows"] for line in read_lines(found.record, "windows.jsonl")]
        shutil.rmtree(found.record)
        return Ran(
            tables,
            "; ".join(found.notes),
            False,
            found.exit_code == 1,
            [f.step for f in found.failed],
            self.model.mixed,
            made,
            windows,
        )


def made_rows(run: Run, step: str) -> list[Made]:
    """The recorded rows of a step, each with the rows of inputs that it is made of."""
    tracer = Tracer(run, lambda _call: None)
    inputs = {
        row[ROW_ID]: (name, place)
        for name in run.facts["ids"]
        for place, row in enumerate(tracer.rows("steps", name))
    }
    made = []
    for row in tracer.rows("steps", step):
        ids = tracer.sources_of(row[ROW_ID])
        made.append((visible(row), frozenset(inputs[i] for i in ids if i in inputs)))
    return made
