"""Small plans as text, run through the public API, with and without the optimizer, over a model
that answers from the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.frontend.load import load_plan
from semgraph.session import run as running

Rows = list[dict[str, Any]]
Run = Callable[..., Rows]


@pytest.fixture
def oracle() -> Oracle:
    """A model that says yes to everything; it ranks rows by the length of their text."""
    return Oracle(
        Mind(
            answer=lambda text: {"word": "w"} if text.startswith("Word") else {"answer": "yes"},
            match=lambda _left, _right: {},
            score=len,
        )
    )


@pytest.fixture(params=["optimized", "as written"])
def run(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oracle: Oracle
) -> Iterator[Run]:
    """Runs the text of a plan over rows of its inputs; gives the rows of the one result."""
    if request.param == "as written":
        monkeypatch.setattr(running, "optimized", lambda plan, _inputs: plan)
    with semgraph.Session(
        llm=oracle, store="memory", journal=False, runs="", folder=tmp_path
    ) as session:

        def run_text(text: str, params: Mapping[str, Any] | None = None, **inputs: Any) -> Rows:
            path = tmp_path / "plan.yaml"
            path.write_text(text)
            result = session.run(load_plan(path, params=params), inputs=inputs)
            [table] = result.tables.values()
            return table.to_pylist()

        yield run_text


def plan(columns: str, steps: str, *, head: str = "", prompts: str = "") -> str:
    """A plan over the input `rows` that returns the step `made`."""
    return f"plan: small\ninputs:\n  rows: {{{columns}}}\n{head}{prompts}steps:\n  made:\n    - from: rows\n{steps}returns: [made]\n"


def column(rows: Rows, name: str) -> list[Any]:
    """The values of a column."""
    return [row[name] for row in rows]


def table(**columns: Any) -> pa.Table:
    """An Arrow table."""
    return pa.table(columns)
