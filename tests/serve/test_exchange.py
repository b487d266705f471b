"""What a client sees of a server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest
from mcp import MCPError

from tests.cli.conftest import Project, Serving
from tests.serve.conftest import Connect, both_modes, both_transports, note, text_of, until_called

LISTED = """
plan: listed
doc: Numbers, and what was given with them.
inputs: {numbers: {n: int64, of: "list<struct<name: string, at: timestamp null>> null", kept: boolean null, data: json null}}
steps: {squares: [{from: numbers}, {project: {n: n, square: n * n, quotient: "1e308 * n * 10", of: of, data: data}}]}
returns: [squares]
"""


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_each_plan_is_a_tool_with_its_description_and_schemas(
    connect: Connect, mode: str
) -> None:
    async with connect("--plans", "people,find", mode=mode) as client:
        people, find = (await client.list_tools()).tools
    assert (people.name, people.description) == ("people", "Who knows whom.")
    assert (find.name, find.description) == ("find", "People by name.")
    hints = [tool.annotations and tool.annotations.read_only_hint for tool in (people, find)]
    assert hints == [False, True]
    assert people.input_schema == {
        "type": "object",
        "properties": {
            "notes": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "uuid": {"type": ["string", "null"]},
                        "group_id": {"type": ["string", "null"]},
                        "text": {"type": "string"},
                        "at": {"type": "string", "format": "date-time"},
                    },
                    "required": ["text", "at"],
                    "additionalProperties": False,
                },
            },
            "params": {
                "type": "object",
                "properties": {"least": {"type": ["number", "null"], "default": 0}},
                "required": [],
                "additionalProperties": False,
                "description": "Parameters of the plan; the defaults serve most calls.",
            },
        },
        "required": ["notes"],
        "additionalProperties": False,
        "examples": [{"notes": [note("Ann knows Bob.", "demo", 15)]}],
    }


@both_modes
async def test_one_call_writes_and_the_next_finds_it(connect: Connect, mode: str) -> None:
    heard: list[str | None] = []

    async def progress(_done: float, _total: float | None, message: str | None) -> None:
        heard.append(message)

    async with connect("--plans", "people,find", mode=mode) as client:
        notes = [note("Ann knows Bob.", "demo")]
        told = await client.call_tool("people", {"notes": notes}, progress_callback=progress)
        found = await client.call_tool("find", {"queries": [{"query": "Bob"}]})
        again = await client.call_tool("people", {"notes": notes})
        assert "These write: people." in (client.instructions or "")
        assert "A fact whose end has passed" in (client.instructions or "")
    assert not told.is_error
    assert "told: 1 of 1" in heard
    assert "2 rows of people, 1 row of ties" in text_of(told)
    assert told.structured_content["written"] == {"Note": 1, "Person": 2, "KNOWS": 1}
    assert told.structured_content["cost"]["calls"] == 1
    (tie,) = told.structured_content["tables"]["ties"]
    assert (tie["says"], tie["since"]) == ("Ann knows Bob.", "2025-01-01T09:00:00Z")
    assert json.loads(found.content[1].text) == found.structured_content
    (hit,) = found.structured_content["tables"]["hits"]
    assert (hit["query"], hit["name"]) == ("Bob", "Bob")
    assert again.structured_content["skipped"] == 1
    assert "in the graph already: 1 of 1 row" in text_of(again)


async def test_values_of_every_type_come_as_json_and_fit_the_output_schema(
    connect: Connect, project: Project
) -> None:
    project.write("listed.yaml", LISTED)
    rows = [{"n": 2, "of": [{"name": "a"}], "data": {"deep": [1, None]}}, {"n": -3}]
    async with connect("--plans", "./listed.yaml") as client:
        (tool,) = (await client.list_tools()).tools
        jsonschema.validate({"numbers": rows}, tool.input_schema)
        result = await client.call_tool("listed", {"numbers": rows})
    assert tool.output_schema is not None
    jsonschema.validate(result.structured_content, tool.output_schema)
    first, second = result.structured_content["tables"]["squares"]
    assert first["of"] == [{"name": "a", "at": None}]
    assert json.loads(first["data"]) == {"deep": [1, None]}
    assert (second["square"], second["quotient"], second["of"]) == (9, None, None)


async def test_rows_beyond_the_limit_are_left_out_and_counted(
    connect: Connect, project: Project
) -> None:
    project.write("listed.yaml", LISTED)
    async with connect("--plans", "./listed.yaml", "--max-rows", "2") as client:
        result = await client.call_tool("listed", {"numbers": [{"n": n} for n in range(5)]})
    assert [row["n"] for row in result.structured_content["tables"]["squares"]] == [0, 1]
    assert result.structured_content["left_out"] == {"squares": 3}
    assert "squares: the first 2 of 5 rows; 3 are left out (--max-rows 2)" in text_of(result)


ERRORS: list[tuple[str, dict[str, Any], str]] = [
    ("people", {}, "people needs the argument notes"),
    ("people", {"nots": []}, 'no argument "nots". Arguments: notes, params. Did you mean "notes"?'),
    ("people", {"notes": "/etc/passwd"}, 'people: notes is no list of rows. Write a list of objects: [{"text": ...'),
    ("people", {"notes": "-"}, 'people: notes is no list of rows. Write a list of objects: [{"text": ...'),
    ("people", {"notes": "all"}, 'people: notes is no list of rows. Write a list of objects: [{"text": ...'),
    ("people", {"notes": {"text": "a"}}, "people: notes is no list of rows"),
    ("people", {"notes": [{"at": "2025-01-01T09:00:00Z"}]}, 'people: row 1 of notes has no "text". Write a list of objects: [{"text": ...'),
    ("people", {"notes": ["a"]}, "people: notes is no list of rows"),
    ("people", {"notes": [note("a", txt="b")]}, 'row 1: no column "txt". Columns: uuid, group_id, text, at. Did you mean "text"?'),
    ("people", {"notes": [{"text": "a", "at": "soon"}]}, 'row 1, column at: "soon" is not ISO 8601'),
    ("people", {"notes": [note("a")], "params": {"least": "many"}}, 'parameter "least" takes a number'),
    ("people", {"notes": [note("a")], "params": {"most": 1}}, 'no parameter "most". Parameters: least'),
    ("people", {"notes": [note("a")], "params": [1]}, "params must be an object"),
    ("people", {"notes": [note("a")], "preset": "fast"}, 'no preset "fast": this plan has none'),
]  # fmt: skip


async def test_a_wrong_call_is_an_error_of_the_tool_and_the_next_call_works(
    connect: Connect, serving: Serving
) -> None:
    async with connect("--plans", "people,find") as client:
        for tool, arguments, expected in ERRORS:
            result = await client.call_tool(tool, arguments)
            assert result.is_error, arguments
            assert expected in text_of(result), arguments
        with pytest.raises(MCPError, match='no tool "peple". Tools: people, find'):
            await client.call_tool("peple", {})
        assert serving.calls == 0
        done = await client.call_tool("people", {"notes": [note("Ann knows Bob.", "demo")]})
    assert not done.is_error


async def test_failed_rows_are_an_error_with_what_did_not_fail(connect: Connect) -> None:
    notes = [note("Ann knows Bob.", "demo"), note("nobody", "demo", 2)]
    async with connect("--plans", "people") as client:
        result = await client.call_tool("people", {"notes": notes})
    assert result.is_error
    assert "1 row failed:\n  told: " in text_of(result)
    assert "I would rather not say." in text_of(result)
    (failed,) = result.structured_content["failed"]
    assert failed["step"] == "told"
    assert len(result.structured_content["tables"]["ties"]) == 1


async def test_the_limits_of_a_server_hold_for_all_its_calls_together(
    connect: Connect, serving: Serving
) -> None:
    """A call that reaches one is an error that says so; what needs no model is still answered."""

    def notes(*names: str) -> dict[str, Any]:
        return {
            "notes": [note(f"{name} knows Bob.", "demo", day) for day, name in enumerate(names, 1)]
        }

    async with connect("--plans", "people,find", "--max-calls", "3") as client:
        first = await client.call_tool("people", notes("Ann", "Cleo"))
        second = await client.call_tool("people", notes("Ann", "Cleo", "Eve", "Finn"))
        third = await client.call_tool("people", notes("Finn"))
        found = await client.call_tool("find", {"queries": [{"query": "Cleo"}]})
    reached = "stopped before call 4: it would pass max_calls 3 of this server, for all its calls (spent 3)"
    assert [each.is_error for each in (first, second, third, found)] == [False, True, True, False]
    assert text_of(second).splitlines()[0] == text_of(third).splitlines()[0] == reached
    assert serving.calls == 3
    assert found.structured_content["tables"]["hits"][0]["name"] == "Cleo"


@both_transports
async def test_calls_at_the_same_time_share_the_limits_of_a_server(
    connect: Connect, serving: Serving
) -> None:
    async with connect("--plans", "people", "--max-calls", "3") as client:
        results = await asyncio.gather(
            *(
                client.call_tool("people", {"notes": [note(f"{name} knows Bob.", name)]})
                for name in "ABCDE"
            )
        )
    assert sorted(each.is_error for each in results) == [False] * 3 + [True] * 2
    assert serving.calls == 3


async def test_tokens_of_a_server_are_counted_over_its_calls(connect: Connect) -> None:
    """Each call takes 400 tokens, so that no single one could reach the limit."""
    async with connect("--plans", "people", "--max-tokens", "1500") as client:
        results = [
            await client.call_tool(
                "people", {"notes": [note(f"{name}{n} knows Bob.", name) for n in range(10)]}
            )
            for name in "ABCDE"
        ]
    errors = [each.is_error for each in results]
    assert errors == sorted(errors)
    assert (errors[0], errors[-1]) == (False, True)
    reached = "it would pass max_tokens 1,500 of this server, for all its calls (spent "
    assert reached in text_of(results[-1])


async def test_limits_of_the_settings_hold_for_each_call(
    connect: Connect, project: Project
) -> None:
    project.write("semgraph.toml", "[limits]\nmax_calls = 1\n")
    two = [note("Ann knows Bob.", "demo"), note("Cleo knows Bob.", "demo", 2)]
    async with connect("--plans", "people", "--max-calls", "2") as client:
        both = await client.call_tool("people", {"notes": two})
        other = await client.call_tool("people", {"notes": [note("Cleo knows Dan.", "other")]})
        third = await client.call_tool("people", {"notes": [note("Dan knows Eve.", "other")]})
    assert [each.is_error for each in (both, other, third)] == [True, False, True]
    assert "it would pass max_calls 1 (spent 1)" in text_of(both)
    assert "it would pass max_calls 2 of this server" in text_of(third)


@pytest.mark.parametrize("transport", [(), ("--http", "127.0.0.1:0")], ids=["stdio", "http"])
def test_dollars_of_a_server_need_a_price(project: Project, transport: tuple[str, ...]) -> None:
    done = project("serve", "--mcp", *transport, "--plans", "find,people", "--max-usd", "1")
    assert done.code == 2
    assert "max_usd 1.00 cannot be enforced: no price is known for openai:test-model" in done.err


@pytest.mark.parametrize(
    ("name", "says"), [("told", "no price is known for openai:dear"), ("tolld", 'no step "tolld"')]
)
def test_the_model_of_a_step_is_checked_when_a_server_starts(
    project: Project, name: str, says: str
) -> None:
    model = project.env["SEMGRAPH_LLM"].replace("test-model", "dear")
    priced = f"default={project.env['SEMGRAPH_LLM']}?price=1/1"
    more = ("--model", priced, "--model", f"{name}={model}", "--max-usd", "1")
    done = project("serve", "--mcp", "--plans", "people", *more)
    assert done.code == 2
    assert says in done.err


def test_dollars_of_a_server_need_the_price_of_its_embedder(project: Project) -> None:
    project.env["SEMGRAPH_EMBEDDER"] = project.env["SEMGRAPH_LLM"].replace("test-model", "vectors")
    project.env["SEMGRAPH_LLM"] = "openai:gpt-4.1-mini"
    done = project("serve", "--mcp", "--plans", "search", "--max-usd", "1")
    assert done.code == 2
    assert "no price is known for openai:vectors" in done.err


async def test_a_store_or_a_model_that_does_not_answer_is_an_error(
    connect: Connect, project: Project
) -> None:
    project.env["SEMGRAPH_LLM"] = "openai:test-model@http://127.0.0.1:9/v1"
    project.env["SEMGRAPH_RETRIES_ATTEMPTS"] = "1"
    async with connect("--plans", "people,find") as client:
        unread = await client.call_tool("find", {"queries": [{"query": "Ann"}]})
        unasked = await client.call_tool("people", {"notes": [note("Ann knows Bob.", "demo")]})
    assert unread.is_error
    assert "there is no graph at .semgraph/graph.db" in text_of(unread)
    assert unasked.is_error
    assert "127.0.0.1:9" in text_of(unasked)


@both_transports
async def test_calls_run_side_by_side_and_writers_of_a_group_take_turns(
    connect: Connect, serving: Serving
) -> None:
    names = ["Ann", "Bob", "Cleo"]
    async with connect("--plans", "people,find") as client:
        told = await asyncio.gather(
            *(
                client.call_tool("people", {"notes": [note(f"{name} knows Zoe.", group, day)]})
                for day, name in enumerate(names, 1)
                for group in ("g", "h")
            )
        )
        found = await client.call_tool("find", {"queries": [{"query": n} for n in names]})
    assert [text_of(result) for result in told if result.is_error] == []
    assert serving.calls == 6
    assert sorted(hit["name"] for hit in found.structured_content["tables"]["hits"]) == sorted(
        names * 2
    )


@both_modes
async def test_a_call_that_is_cancelled_stops_its_run(
    connect: Connect, project: Project, serving: Serving, mode: str
) -> None:
    async with connect("--plans", "people,find", mode=mode) as client:
        slow = asyncio.ensure_future(client.call_tool("people", {"notes": [note("slow", "g")]}))
        await until_called(serving)
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        await asyncio.to_thread(serving.until, lambda server: server.abandoned == 1)
        done = await client.call_tool("people", {"notes": [note("Ann knows Bob.", "g")]})
    assert not done.is_error, text_of(done)
    records = sorted((project.folder / ".semgraph" / "runs").glob("*/run.json"))
    states = sorted(json.loads(record.read_text())["status"] for record in records)
    assert states == ["done", "interrupted"]


async def test_text_that_looks_like_a_path_is_text(connect: Connect) -> None:
    texts = ["/etc/passwd", "-", "-.jsonl", "plans/people.yaml", "[]", "notes.csv:text=body"]
    async with connect("--plans", "people") as client:
        notes = [note(text, "demo", day) for day, text in enumerate(texts, 1)]
        result = await client.call_tool("people", {"notes": notes})
    assert result.structured_content["written"] == {"Note": len(texts)}


async def test_a_server_with_a_group_shows_no_other_and_takes_none(
    connect: Connect, project: Project
) -> None:
    both = [note("Ann knows Bob.", "g"), note("Ann knows Cleo.", "h")]
    project.write("both.json", json.dumps(both))
    ended = await asyncio.to_thread(project, "run", "people", "-i", "notes=both.json")
    assert ended.code == 0, ended.err
    async with connect("--plans", "people,find", "--group", "g") as client:
        people, find = (await client.list_tools()).tools
        assert list(people.input_schema["properties"]["notes"]["items"]["properties"]) == [
            "uuid", "text", "at",
        ]  # fmt: skip
        assert "group_id" not in json.dumps([people.input_schema, find.input_schema])
        asked = [{"query": name} for name in ("Ann", "Bob", "Cleo")]
        found = await client.call_tool("find", {"queries": asked})
        stray = await client.call_tool("people", {"notes": [note("Ann knows Dan.", "h")]})
        own = await client.call_tool("people", {"notes": [note("Ann knows Eve.", day=3)]})
    assert [hit["name"] for hit in found.structured_content["tables"]["hits"]] == ["Ann", "Bob"]
    assert stray.is_error
    assert 'no column "group_id"' in text_of(stray)
    assert {row["group_id"] for row in own.structured_content["tables"]["people"]} == {"g"}
