"""Validators of classes in shards, whose processes get the classes."""

from __future__ import annotations

import subprocess
import sys
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

cloudpickle = pytest.importorskip("cloudpickle")


class Pet(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def shout(cls, value: str) -> str:
        return value.upper()


class Elsewhere(EngineHere):
    """Workers that get what is pickled."""

    async def attempt(self, task: Any) -> Any:
        self.job = cloudpickle.loads(cloudpickle.dumps(self.job))
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


def test_classes_travel_to_other_processes(tmp_path: Path) -> None:
    class Local(Pet):
        pass

    key = called(Local)
    job = tmp_path / "job"
    job.write_bytes(cloudpickle.dumps(dict(classes.CALLED)))
    code = (
        "import cloudpickle, sys; given = cloudpickle.load(open(sys.argv[1], 'rb'));"
        'print(given[sys.argv[2]].adapter.validate_json(\'{"name": "rex"}\'))'
    )
    command = [sys.executable, "-c", code, str(job), str(key)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path.cwd())
    assert ended.stdout == "name='REX'\n", ended.stderr
