"""Count the files of `semgraph/` that the execution of one plan enters.

    python -m tools.hops

The script loads a plan of three operators and runs it over two rows, with an HTTP server that
always answers yes. It prints the number of entered files for both phases, and for the run also the
number before the first model call. Calls count, imports do not.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any, Self

import semgraph

PACKAGE = str(Path(semgraph.__file__).parent)
PLAN = """
plan: urgent
inputs:
  tickets: {id: int64, text: string}
steps:
  urgent:
    - from: tickets
    - filter: id > 0
    - sem_filter: "Is this urgent? {text}"
    - project: [id, text]
returns: [urgent]
"""


class YesServer(BaseHTTPRequestHandler):
    """Answers every chat with yes."""

    calls: list[int]
    trace: Trace

    def do_POST(self) -> None:
        """Answer one request."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.calls.append(len(self.trace.files))
        message = {"role": "assistant", "content": json.dumps({"answer": "yes"})}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        reply = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Trace:
    """The files with a called function while the trace is active, in the order of their first
    calls.
    """

    def __init__(self) -> None:
        self.files: dict[str, None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Record the file of a call."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and not _defines(frame):
            self.files.setdefault(str(Path(code.co_filename).relative_to(PACKAGE)))

    def __enter__(self) -> Self:
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def _defines(frame: FrameType | None) -> bool:
    """Whether a frame belongs to an import: the body of a module or class, or a call from one."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False


def main() -> None:
    """Print the counts and the files."""
    os.chdir(tempfile.mkdtemp())
    Path("urgent.yaml").write_text(PLAN, encoding="utf-8")
    YesServer.calls, YesServer.trace = [], Trace()
    server = ThreadingHTTPServer(("127.0.0.1", 0), YesServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows = [{"id": 1, "text": "The roof leaks."}, {"id": 2, "text": "A new logo."}]
    model = f"openai:m@http://127.0.0.1:{server.server_port}/v1"
    with Trace() as loading:
        plan = semgraph.load_plan("urgent.yaml")
    with semgraph.Session(llm=model, store="memory") as session, YesServer.trace as running:
        session.run(plan, tickets=rows)
    assert YesServer.calls
    server.shutdown()
    for name, trace in (("load", loading), ("run", running)):
        print(f"{name}: {len(trace.files)} files: {' '.join(trace.files)}")
    print(f"before the first call of the model: {YesServer.calls[0]} files")


if __name__ == "__main__":
    main()
