"""Renew the shipped recordings with the local model.

    python -m tools.recordings            # the example of every shipped plan, and the notebooks
    python -m tools.recordings datasets   # the data sets that come with semgraph
    python -m tools.recordings NAME ...   # only these: add_episode, memories/turns (all plans of the
                                          # folder), memories/turns/read; notebooks, notebooks/quickstart

A recording has the answers, embeddings and times of one real run. `--llm recorded` replays it on
any store. That of `add_episode` also has the answers to what docs/refresh.md changes.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
from IPython.core.interactiveshell import InteractiveShell

import semgraph
from semgraph.errors import ModelUnavailable
from semgraph.frontend.document import read_file
from semgraph.frontend.plan_files import is_plan
from semgraph.llm.base import Reply, Request, Wrapper
from semgraph.llm.catalogue import DEFAULT_EMBEDDER, DEFAULT_MODEL
from semgraph.llm.embed import LocalEmbedder
from semgraph.llm.local import Local
from semgraph.llm.recording import Recorded, Recorder, Recording
from semgraph.session import Session
from semgraph.session.inputs import example_rows
from semgraph.session.resources import Resources
from semgraph.stores.sqlite.store import SqliteStore

ROOT = Path(__file__).parents[1]
PLANS = ROOT / "plans"
NOTEBOOKS = ROOT / "notebooks"
DATASETS = ROOT / "docs" / "examples" / "datasets"
REFRESHED = PLANS / "add_episode.yaml"
EDIT = ("February 15th", "March 1st")
PROMPT, LINE = "extract_facts", "Write each fact in at most eight words."
"""What docs/refresh.md changes: the text of a row, and the end of a prompt."""


def shipped() -> list[Path]:
    """The files of all shipped plans; those that the example of a plan runs first come before it."""
    paths = [path for path in sorted(PLANS.rglob("*.yaml")) if is_plan(path)]
    return sorted(paths, key=_depth)


def _depth(path: Path) -> int:
    example = read_file(path).data.get("example") or {}
    return max((1 + _depth(_before(path, name)) for name in example.get("after", ())), default=0)


def _before(path: Path, name: str) -> Path:
    """The plan that an example names: next to its file, or by its path among the shipped plans."""
    beside = path.with_name(f"{name}.yaml")
    return beside if beside.is_file() else PLANS / f"{name}.yaml"


def is_named(path: Path, names: Sequence[str]) -> bool:
    """Whether a name is that of the plan, or of a folder that contains it."""
    own = path.relative_to(PLANS).with_suffix("")
    return any(own.is_relative_to(name.removeprefix("plans/")) for name in names)


def record_plan(path: Path) -> None:
    """Record the example of one plan, over the graph of the plans recorded before."""
    store = SqliteStore(":memory:")
    with Session(llm="local", embedder="local", store=store, journal=False, runs="") as session:
        plan = session.prepare(path)
        example = example_rows(plan)
        for name in example.after:
            with Session(llm="recorded", store=store, journal=False, runs="") as before:
                before.run(_before(path, name))
        started = time.perf_counter()
        result = session.run(path, record_to=plan.recording, inputs=example.inputs)
        calls, failed = result.meter.total().calls_issued, len(result.failed)
        _print(f"{plan.name}: {calls} calls", started, f"{failed} failed")


class _Continued(Wrapper):
    """Answers from a recording, and the other requests from a model.

    Args:
        recording: The recording.
    """

    def __init__(self, recording: Recording) -> None:
        super().__init__(Local(DEFAULT_MODEL))
        self._recorded = Recorded(recording)

    async def complete(self, request: Request) -> Reply:
        """Answer one request."""
        with contextlib.suppress(ModelUnavailable):
            return await self._recorded.complete(request)
        return await self.inner.complete(request)


def record_refreshes() -> None:
    """Add the answers to the changes of docs/refresh.md to the recording of `add_episode`."""
    started = time.perf_counter()
    recorder = Recorder()
    with Session(llm="recorded") as session:
        plan = session.prepare(REFRESHED)
    recorder.recording = Recording.read(plan.recording)
    llm = recorder.llm(_Continued(recorder.recording))
    embedder = recorder.embedder(LocalEmbedder(DEFAULT_EMBEDDER))
    rows = [
        {**row, "uuid": f"m{n}"}
        for n, row in enumerate(example_rows(plan).inputs["episodes"], start=1)
    ]
    edited = [{**row, "content": row["content"].replace(*EDIT)} for row in rows]
    with (
        tempfile.TemporaryDirectory() as folder,
        Session(llm=llm, embedder=embedder, store="memory", journal=False, runs="") as session,
    ):
        prompt = Path(folder) / f"{PROMPT}.md"
        text = (PLANS / "prompts" / prompt.name).read_text(encoding="utf-8")
        prompt.write_text(f"{text}{LINE}\n", encoding="utf-8")
        session.run(REFRESHED, episodes=rows)
        session.refresh(REFRESHED, episodes=edited).apply()
        session.refresh(REFRESHED, episodes=edited, prompts={PROMPT: prompt})
    recorder.write(plan.recording)
    _print(f"refresh: {len(recorder.recording.answers)} answers", started)


def record_notebook(path: Path) -> None:
    """Record the answers of a notebook's cells. Its sessions, which replay `data/NAME.jsonl`, get
    the local model instead.
    """
    recorder = Recorder()
    llm = recorder.llm(Local(DEFAULT_MODEL))
    embedder = recorder.embedder(LocalEmbedder(DEFAULT_EMBEDDER))
    clock = recorder.clock(lambda _name: datetime.now(UTC))
    started = time.perf_counter()

    def session(**options: Any) -> Session:
        return Session(**{**options, "llm": llm, "embedder": embedder, "journal": False})

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        shutil.copytree(path.parent, folder, dirs_exist_ok=True)
        with (
            patch.object(semgraph, "Session", session),
            patch.object(Resources, "_clock", lambda *_: clock),
        ):
            shell = InteractiveShell.instance()
            shell.reset()
            for cell in nbformat.read(path, as_version=4).cells:
                if cell.cell_type == "code":
                    shell.run_cell(cell.source).raise_error()
    recorder.write(recording_of_notebook(path))
    _print(f"{path.stem}: {len(recorder.recording.answers)} answers", started)


def record_dataset(folder: Path) -> None:
    """Record the comparison of a data set, next to its plan."""
    started = time.perf_counter()
    options: dict[str, Any] = {"store": "memory", "journal": False, "runs": ""}
    with Session(llm="local", embedder="local", **options) as session:
        path = session.prepare(folder / "plan.yaml").recording
        found = session.compare(dataset=folder, record_to=path, say=None)
    _print(f"{folder.name}: {found.paid.calls} calls", started)


def recording_of_notebook(path: Path) -> Path:
    """The file with the answers of a notebook, next to its data."""
    return path.parent / "data" / f"{path.stem}.jsonl"


def replaying_notebooks() -> list[Path]:
    """The notebooks with sessions that replay a recording."""
    paths = sorted(NOTEBOOKS.glob("*.ipynb"))
    return [p for p in paths if f"recorded:data/{p.stem}.jsonl" in p.read_text(encoding="utf-8")]


def _print(what: str, started: float, *rest: str) -> None:
    print(", ".join((what, f"{time.perf_counter() - started:.0f} s", *rest)))


def main(names: list[str]) -> None:
    """Record the named plans and notebooks, or all of them."""
    for path in shipped():
        if not names or is_named(path, names):
            record_plan(path)
    if not names or is_named(REFRESHED, names):
        record_refreshes()
    for folder in sorted(DATASETS.iterdir()):
        if not names or {"datasets", f"datasets/{folder.name}"} & set(names):
            record_dataset(folder)
    for path in replaying_notebooks():
        if not names or {"notebooks", f"notebooks/{path.stem}"} & set(names):
            record_notebook(path)


if __name__ == "__main__":
    main(sys.argv[1:])
