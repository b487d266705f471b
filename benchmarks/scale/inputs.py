"""A command over a file of many rows with an engine, up to its first request."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from contextlib import redirect_stdout
from datetime import timedelta
from pathlib import Path

from benchmarks.engine.own import DIMENSIONS, PLAN
from benchmarks.ingest.messages import START
from benchmarks.scale.memory import peak_mib
from benchmarks.suite.children import last_line_of
from benchmarks.suite.serving import serving

Figures = dict[str, float | int]
SHARDS = 16
GROUP = 100
"""Messages of a group."""
_STOPPED_BY_LIMIT = 4  # as the command ends


def laid_out(rows: int, _: int) -> Figures:
    """Wall and CPU seconds and peak memory of `semgraph run` over a Parquet file of so many rows, by
    the engine `local`, whose budget ends with the first request: the rows are read and laid out
    by shard, each shard begins, and no episode is processed.
    """
    with tempfile.TemporaryDirectory() as folder, serving() as server:
        last_line_of(__name__, "write", folder, str(rows))
        figures: Figures = json.loads(last_line_of(__name__, "run", folder, server.url))
        figures["file_mib"] = round((Path(folder) / "rows.parquet").stat().st_size / 2**20, 1)
    return figures


def write(folder: Path, rows: int) -> None:
    """Write the file: a message of about a hundred characters a row, a minute apart."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("group_id", pa.string()),
            ("valid_at", pa.timestamp("us", "UTC")),
            ("content", pa.string()),
        ]
    )
    groups, step = max(1, rows // GROUP), 50_000
    with pq.ParquetWriter(folder / "rows.parquet", schema) as out:
        for first in range(0, rows, step):
            numbers = range(first, min(first + step, rows))
            columns = [
                [f"g{n % groups:06}" for n in numbers],
                [START + timedelta(minutes=n // groups) for n in numbers],
                [f"user(user): message {n} {'says the same as others ' * 3}" for n in numbers],
            ]
            out.write_table(pa.table(columns, schema=schema))
    print(rows)


def run(folder: Path, url: str) -> None:
    """Run the command in this process, and print its figures."""
    from semgraph.cli import app

    words = [
        "run", str(PLAN), "-i", f"episodes={folder / 'rows.parquet'}", "--max-calls", "1",
        "--llm", f"openai:stand-in@{url}", "--embedder", f"openai:stand-in@{url}?dimensions={DIMENSIONS}",
        "--store", f"sqlite:{folder}/graph.db", "--engine", f"local?shards={SHARDS}&workers=1",
    ]  # fmt: skip
    os.chdir(folder)  # where its records are
    began, code = time.perf_counter(), None
    with redirect_stdout(sys.stderr):
        try:
            app(words)
        except SystemExit as ended:
            code = ended.code
    if code != _STOPPED_BY_LIMIT:
        msg = f"the command ended with {code}"
        raise RuntimeError(msg)
    figures = {
        "seconds": round(time.perf_counter() - began, 2), "cpu_s": round(time.process_time(), 2),
        "peak_mib": round(peak_mib()),
    }  # fmt: skip
    print(json.dumps(figures))


if __name__ == "__main__":
    step, folder, last = sys.argv[1:]
    write(Path(folder), int(last)) if step == "write" else run(Path(folder), last)
