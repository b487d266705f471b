"""A server on its standard streams: what is on them, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from semgraph.serve.transports import serve_stdio
from tests.cli.conftest import Project, Serving
from tests.patience import HANGS, default_signals
from tests.serve.conftest import MAIN, made, note

LOUD = '''
"""Text in capitals."""

import os

print("printed by a module")


def loud(text: str) -> str:
    """In capitals; it prints too.

    >>> loud("a")
    'A'
    """
    print("printed by a function")
    os.write(1, b"written by a function")
    return text.upper()
'''
SHOUT = """
plan: shout
doc: Text in capitals.
inputs: {texts: {text: string}}
steps: {shouted: [{from: texts}, {add: {text: loud(text)}}]}
returns: [shouted]
"""


HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


class Piped:
    """A server and the streams to it."""

    def __init__(self, project: Project, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *MAIN, *args], cwd=project.folder, env=project.env, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=default_signals,
        )  # fmt: skip
        self.send(id=0, method="initialize", params=HELLO)
        self.hello = self.receive()
        self.send(method="notifications/initialized")

    def send(self, **message: Any) -> None:
        """Send a message."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def call(self, number: int, tool: str, **arguments: Any) -> None:
        """Send a call of a tool."""
        self.send(id=number, method="tools/call", params={"name": tool, "arguments": arguments})

    def receive(self) -> Any:
        """The next message."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def rest(self) -> tuple[str, str]:
        """What is on stdout and stderr until the end."""
        return self.process.communicate(timeout=HANGS)


def states(project: Project) -> list[str]:
    """How the runs ended."""
    records = (project.folder / ".semgraph" / "runs").glob("*/run.json")
    return sorted(json.loads(record.read_text())["status"] for record in records)


def test_only_the_protocol_is_on_stdout(project: Project) -> None:
    project.write("functions/loud.py", LOUD)
    project.write("shout.yaml", SHOUT)
    server = Piped(project, "--plans", "shout.yaml", "--functions", "functions", "-v")
    server.call(1, "shout", texts=[{"text": "hush"}])
    answer = server.receive()
    assert answer["result"]["structuredContent"]["tables"] == {"shouted": [{"text": "HUSH"}]}
    out, err = server.rest()
    assert out == ""
    assert "printed by a module" in err
    assert "printed by a function" in err
    assert "written by a function" in err


def test_when_its_input_is_closed_it_ends(project: Project) -> None:
    server = Piped(project, "--plans", "people")
    assert server.hello["result"]["serverInfo"]["name"] == "semgraph"
    out, err = server.rest()
    assert (server.process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("end", ["signal", "closed input"])
def test_what_runs_when_it_ends_is_interrupted_and_recorded(
    project: Project, serving: Serving, end: str
) -> None:
    server = Piped(project, "--plans", "people")
    server.call(1, "people", notes=[note("slow", "g")])
    serving.until(lambda model: model.requests)
    if end == "signal":
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(HANGS) == 0
    server.rest()
    assert server.process.returncode == 0
    assert states(project) == ["interrupted"]
    serving.until(lambda model: model.abandoned)


async def test_a_broken_line_does_not_end_it(project: Project) -> None:
    (reading, given), (read, writing) = os.pipe(), os.pipe()
    async with made(project, "--plans", "find") as (server, _):
        serving = asyncio.ensure_future(serve_stdio(server.protocol(), reading, writing))
        with os.fdopen(given, "w") as lines, os.fdopen(read) as answers:
            lines.write("{no json\n")
            for message in (
                {"id": 0, "method": "initialize", "params": HELLO},
                {"id": 1, "method": "tools/list"},
            ):
                lines.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
                lines.flush()
                answer = {}
                while answer.get("id") != message["id"]:
                    answer = json.loads(await asyncio.to_thread(answers.readline))
            assert [tool["name"] for tool in answer["result"]["tools"]] == ["find"]
            lines.close()
            await serving
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), "name the protocol to serve. semgraph serve --mcp"),
        (("--mcp", "--plans", "nowhere"), 'no plan "nowhere"'),
        (("--mcp", "127.0.0.1:1"), "without --http the server speaks on stdin and stdout"),
        (("--mcp", "--group", " "), "--group is empty"),
        (("--mcp", "--folder", "nowhere"), "nowhere: No such file or directory"),
        (("--mcp", "--plans", "people,./again/people.yaml"), "are both the tool people"),
        (
            ("--mcp", "--plans", "build_indices_and_constraints", "--group", "g"),
            "changes the indexes of all groups",
        ),
        (("--mcp", "--plans", "odd.yaml"), "the input params has the name of another argument"),
    ],
)
def test_what_cannot_be_served_is_told_before_it_starts(
    project: Project, args: tuple[str, ...], expected: str
) -> None:
    project.write(
        "again/people.yaml", SHOUT.replace("plan: shout", "plan: people").replace("loud", "upper")
    )
    project.write("odd.yaml", "plan: odd\ninputs: {params: {a: string}}\nreturns: [params]\n")
    done = project("serve", *args)
    assert done.code in {1, 2}
    assert expected in done.err
    assert done.out == ""
