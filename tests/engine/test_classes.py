"""Validators of classes in shards, whose processes import the classes by their keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import semgraph as sg
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError
from semgraph.frontend import classes
from semgraph.session import sharded
from tests.engine.here import EngineHere
from tests.execution.test_pydantic import FILL, KINDS


class Pet(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def shout(cls, value: str) -> str:
        return value.upper()


class Elsewhere(EngineHere):
    """Workers that were given no classes."""

    async def attempt(self, task: Any) -> Any:
        classes._classes.clear()
        return await super().attempt(task)


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, given: Any) -> list[dict[str, Any]]:
    """The rows that were asked about, in two shards."""
    monkeypatch.setattr(sharded, "RayEngine", Elsewhere)
    (folder / "prompts").mkdir()
    (folder / "kinds.yaml").write_text(KINDS)
    (folder / "prompts" / "fill.md").write_text(FILL)
    model = Oracle(Mind(answer=lambda _: {"attributes": {"name": "rex"}}))
    options: dict[str, Any] = {"engine": "ray?shards=2", "store": f"sqlite:{folder}/graph.db"}
    with sg.Session(llm=model, folder=folder, **options) as session:
        return session.run(folder / "kinds.yaml", kinds=given).rows("asked")


def test_workers_import_the_classes_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = run(tmp_path, monkeypatch, {"a": Pet, "b": Pet, "c": Pet})
    assert [row["attributes"] for row in rows] == ['{"name":"REX"}'] * 3


def test_a_class_that_they_cannot_import_ends_the_run_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Local(Pet):
        pass

    with pytest.raises(PlanError, match="<locals>.Local, which validates answers, cannot be"):
        run(tmp_path, monkeypatch, {"a": Local, "b": Local})
