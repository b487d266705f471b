"""docs/agents.md names the tools, options, errors and results of a server; its calls are run by
tests/docs.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from semgraph.frontend.plan_files import plan_file
from tests.cli.conftest import Project
from tests.serve.conftest import Connect, text_of

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
ERRORS = re.findall(r"^\| `(\{.*\})` \| `(.*)` \|$", PAGE, re.MULTILINE)


async def test_the_default_tools_and_the_errors_of_the_page_are_those_of_a_server(
    connect: Connect, project: Project
) -> None:
    project.env["SEMGRAPH_EMBEDDER"] = project.env["SEMGRAPH_LLM"]
    async with connect("--group", "ada") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        wrong = [await client.call_tool("search", json.loads(args)) for args, _ in ERRORS]
    assert f"| `{','.join(tools)}` | the default" in PAGE
    for key in tools["search"].output_schema["properties"]:
        assert f"`{key}`" in PAGE, key
    assert len(ERRORS) == 4
    assert [(each.is_error, text_of(each)) for each in wrong] == [
        (True, text) for _, text in ERRORS
    ]


def test_every_option_and_plan_of_the_page_exists(project: Any) -> None:
    words = project("serve", "--help").out
    for option in set(re.findall(r"(--[a-z][a-z-]*)", PAGE)) - {"--set"}:
        assert option in words, option
    for plan in re.findall(r"`(memories/\w+/\w+),(memories/\w+/\w+)`", PAGE)[0]:
        assert plan_file(plan).plan
        assert plan.replace("/", "_") in PAGE
