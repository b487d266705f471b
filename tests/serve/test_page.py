"""docs/agents.md shows what a server answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from benchmarks.world import StandIn
from semgraph.frontend.plan_files import plan_file
from tests.cli.conftest import Project
from tests.serve.conftest import piped, text_of
from tests.served import served

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
CONFIGURED, ADDED, SOUGHT, REMOTE = map(
    json.loads, re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
)
ANSWERS = re.findall(r"```\n(\w+, run .*?)```", PAGE, re.DOTALL)
ERRORS = re.findall(r"^\| `(\{.*\})` \| `(.*)` \|$", PAGE, re.MULTILINE)


def steady(text: str) -> str:
    """A text without the id of the run and its seconds."""
    return re.sub(r"run [0-9a-f]{4,}", "run", re.sub(r"· [\d.]+ m?s ·", "· s ·", text)).strip()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StdioServerParameters]:
    """The server of the page, in a folder of its own with the simulated model."""
    entry = CONFIGURED["mcpServers"]["memory"]
    args = [str(tmp_path) if arg.startswith("/home/") else arg for arg in entry["args"]]
    assert (entry["command"], args[:2], str(tmp_path) in args) == (
        "semgraph",
        ["serve", "--mcp"],
        True,
    )
    unpriced = args.index("--max-usd")  # the simulated model has no price
    del args[unpriced : unpriced + 2]
    standin = StandIn()
    with served(standin):
        env = {
            **entry["env"],
            "SEMGRAPH_LLM": f"openai:standin@{standin.base_url}",
            "SEMGRAPH_EMBEDDER": f"openai:vectors@{standin.base_url}",
            "SEMGRAPH_HOME": str(tmp_path / "home"),
        }
        yield piped(Project(tmp_path, env), *args[2:])


async def test_the_calls_of_the_page_have_the_results_of_the_page(
    server: StdioServerParameters, tmp_path: Path
) -> None:
    with (tmp_path / "stderr").open("w") as errors:
        async with Client(stdio_client(server, errors)) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            added = await client.call_tool("add_episode", ADDED)
            sought = await client.call_tool("search", SOUGHT)
            wrong = [await client.call_tool("search", json.loads(args)) for args, _ in ERRORS]
    assert f"| `{','.join(tools)}` | the default" in PAGE
    assert [steady(text_of(each)) for each in (added, sought)] == [steady(text) for text in ANSWERS]
    (fact,) = sought.structured_content["tables"]["edges"]
    assert (fact["source"], fact["target"]) == ("Alice Chen", "Project Phoenix")
    for key in ("tables", "written", "skipped", "failed", "notes", "cost", "run", "left_out"):
        assert key in sought.structured_content
        assert f"`{key}`" in PAGE
    assert len(ERRORS) == 4
    assert [(each.is_error, text_of(each)) for each in wrong] == [
        (True, text) for _, text in ERRORS
    ]
    assert (tmp_path / ".semgraph" / "graph.db").exists()


def test_every_option_and_plan_of_the_page_exists(project: Any) -> None:
    words = project("serve", "--help").out
    for option in set(re.findall(r"(--[a-z][a-z-]*)", PAGE)) - {"--set"}:
        assert option in words, option
    for plan in re.findall(r"`(memories/\w+/\w+),(memories/\w+/\w+)`", PAGE)[0]:
        assert plan_file(plan).plan
        assert plan.replace("/", "_") in PAGE
    assert REMOTE["mcpServers"]["memory"]["url"].endswith("/mcp")
