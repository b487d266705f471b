"""The engine's evaluations of a plan: as the optimizer leaves it, and as it is written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest.mock import patch

import semgraph
from semgraph.errors import DataError, PlanError, SemgraphError
from semgraph.execution.result import Result
from semgraph.frontend.yaml import load_plan
from semgraph.logical.plan import LogicalPlan
from semgraph.optimizer import optimized
from semgraph.session import running
from tests.fuzz.model import Model


@dataclass
class Ran:
    """What became of a run.

    Args:
        tables: The rows of the results, by name; None where the run ended with `error`.
        error: Why there are none.
        refused: Whether the plan was refused before anything was computed.
        failed: How many rows were set aside, by step.
        mixed: Requests that hold rows of two partitions.
    """

    tables: dict[str, list[dict[str, Any]]] | None = None
    error: str = ""
    refused: bool = False
    halted: bool = False
    failed: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)


class Engine:
    """Runs documents, one after another, with one session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = Model()
        self._runner = asyncio.Runner()
        self._session = semgraph.Session(llm=self.model, store="memory", journal=False, runs="", folder=folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._session.aclose())
        self._runner.close()

    def load(self, document: Mapping[str, Any]) -> LogicalPlan:
        """The checked plan of a document. Raises PlanError."""
        file = self.folder / "drawn.yaml"
        file.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
        return load_plan(file)

    def run(self, plan: LogicalPlan, inputs: Mapping[str, Sequence[Mapping[str, Any]]], *, optimize: bool) -> Ran:
        """Run a plan. Raises what the engine did not mean to raise."""
        self.model.requests.clear()
        self.model.mixed = []
        rewrite: Callable[..., LogicalPlan] = optimized if optimize else lambda plan, _inputs: plan
        try:
            with patch.object(running, "optimized", rewrite):
                found: Result = self._runner.run(self._session.arun(plan, again=True, inputs=dict(inputs)))
        except PlanError as error:
            return Ran(error=str(error), refused=True)
        except DataError as error:
            return Ran(error=str(error))
        except SemgraphError as error:
            if "belongs to no member" in str(error):
                return Ran(error=str(error), refused=True)
            raise
        tables = {name: table.to_pylist() for name, table in found.tables.items()}
        return Ran(
            tables,
            "; ".join(found.notes),
            False,
            found.exit_code == 1,
            [f.step for f in found.failed],
            self.model.mixed,
        )
