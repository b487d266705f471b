"""Validators of classes in shards, whose processes get the classes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import semgraph as sg
from semgraph.conformance.cases import Mind, Oracle
from semgraph.frontend import classes
from semgraph.frontend.classes import called
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
    """Workers that were given no classes but those of their job."""

    async def attempt(self, task: Any) -> Any:
        classes.CALLED.clear()
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


def test_workers_get_the_classes_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Local(Pet):
        pass

    rows = run(tmp_path, monkeypatch, {"a": Pet, "b": Pet, "c": Local})
    assert [row["attributes"] for row in rows] == ['{"name":"REX"}'] * 3


def test_a_class_travels_with_its_key() -> None:
    sent = pickle.loads(pickle.dumps(called(Pet)))
    assert (sent, sent.kind) == (f"{__name__}:Pet", Pet)
