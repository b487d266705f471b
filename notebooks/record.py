"""Makes the recording of `swap_an_operator.ipynb` anew: its cells, answered by the local model.

    python notebooks/record.py

The cell that makes the session is left out; all others run with a session whose model and embedder
are recorded.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import nbformat

from semgraph.llm.embed.local import LocalEmbedder
from semgraph.llm.local.model import Local
from semgraph.llm.local.catalogue import DEFAULT_EMBEDDER, DEFAULT_MODEL
from semgraph.llm.recording import Recorder
from semgraph.session import Session

HERE = Path(__file__).parent
NOTEBOOK = HERE / "swap_an_operator.ipynb"


def main() -> None:
    """Run the cells and write the recording."""
    recorder = Recorder()
    llm, embedder = recorder.llm(Local(DEFAULT_MODEL)), recorder.embedder(LocalEmbedder(DEFAULT_EMBEDDER))
    recorder.clock(lambda _name: datetime.now(UTC))("run")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.symlink(HERE / "data", "data")
        with Session(llm=llm, embedder=embedder, store="memory", journal=False) as session:
            known = {"session": session}
            for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
                if cell.cell_type == "code" and "sg.Session(" not in cell.source:
                    exec(cell.source, known)  # noqa: S102 - the notebook beside this file
        recorder.write(HERE / "data" / "swap_an_operator.jsonl")
    print(f"{len(recorder.recording.answers)} answers, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
