"""Renew the shipped recordings with the local model.

    python -m tools.recordings            # the example of every shipped plan, and the notebook
    python -m tools.recordings NAME ...   # only these: add_episode, memories/turns (all plans of the
                                          # folder), memories/turns/read; `notebook` names the notebook

A recording has the answers, embeddings and times of one real run. `--llm recorded` replays it on
any store.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import nbformat

from semgraph.frontend.document import read_file
from semgraph.frontend.plan_files import is_plan
from semgraph.llm.embed.local import LocalEmbedder
from semgraph.llm.local.catalogue import DEFAULT_EMBEDDER, DEFAULT_MODEL
from semgraph.llm.local.model import Local
from semgraph.llm.recording import Recorder
from semgraph.session import Session
from semgraph.session.inputs import example_rows
from semgraph.session.resources import recording_of
from semgraph.stores.sqlite.store import SqliteStore

ROOT = Path(__file__).parents[1]
PLANS = ROOT / "plans"
NOTEBOOK = ROOT / "notebooks" / "swap_an_operator.ipynb"


def shipped() -> list[Path]:
    """The files of all shipped plans; those that the example of a plan runs first stand before it."""
    paths = [path for path in sorted(PLANS.rglob("*.yaml")) if is_plan(path)]
    return sorted(paths, key=_depth)


def _depth(path: Path) -> int:
    example = read_file(path).data.get("example") or {}
    return max((1 + _depth(_before(path, name)) for name in example.get("after", ())), default=0)


def _before(path: Path, name: str) -> Path:
    """The plan that an example names: beside its file, or by its place among the shipped plans."""
    beside = path.with_name(f"{name}.yaml")
    return beside if beside.is_file() else PLANS / f"{name}.yaml"


def is_named(path: Path, names: Sequence[str]) -> bool:
    """Whether one of the names is a plan's, or that of a folder it is in."""
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
        result = session.run(path, record_to=recording_of(plan), inputs=example.inputs)
        calls, failed = result.meter.total().calls_issued, len(result.failed)
        _print(f"{plan.name}: {calls} calls", started, f"{failed} failed")


def record_notebook() -> None:
    """Record the cells of the notebook. The cell with the session is skipped; all further cells run
    with a session that records its model and embedder.
    """
    recorder = Recorder()
    llm = recorder.llm(Local(DEFAULT_MODEL))
    embedder = recorder.embedder(LocalEmbedder(DEFAULT_EMBEDDER))
    recorder.clock(lambda _name: datetime.now(UTC))("run")
    started = time.perf_counter()
    data = NOTEBOOK.parent / "data"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("data").symlink_to(data)
        with Session(llm=llm, embedder=embedder, store="memory", journal=False) as session:
            names = {"session": session}
            for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
                if cell.cell_type == "code" and "sg.Session(" not in cell.source:
                    exec(cell.source, names)  # noqa: S102 - the shipped notebook
        recorder.write(data / f"{NOTEBOOK.stem}.jsonl")
    _print(f"{NOTEBOOK.stem}: {len(recorder.recording.answers)} answers", started)


def _print(what: str, started: float, *rest: str) -> None:
    print(", ".join((what, f"{time.perf_counter() - started:.0f} s", *rest)))


def main(names: list[str]) -> None:
    """Record the named plans, or all of them and the notebook."""
    for path in shipped():
        if not names or is_named(path, names):
            record_plan(path)
    if not names or "notebook" in names:
        record_notebook()


if __name__ == "__main__":
    main(sys.argv[1:])
