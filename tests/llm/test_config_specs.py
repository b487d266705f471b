"""How a model is written down, and what is said to who writes it otherwise."""

from __future__ import annotations

import pytest

from semgraph.errors import PlanError
from semgraph.llm.base import ModelSpec
from semgraph.llm.providers import parse_spec
from semgraph.privacy import without_password


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("openai:gpt-4.1-mini", ModelSpec("model", "openai", "gpt-4.1-mini")),
        ("openai:Qwen3-32B@http://gpu:8000/v1", ModelSpec("model", "openai", "Qwen3-32B", "http://gpu:8000/v1")),
        ("openai:qwen2.5:7b@http://localhost:11434/v1/", ModelSpec("model", "openai", "qwen2.5:7b", "http://localhost:11434/v1")),
        ("openai:@cf/meta/llama@https://x.example/v1", ModelSpec("model", "openai", "@cf/meta/llama", "https://x.example/v1")),
        (
            "openai:m@http://h/v1?structured=tool&rpm=5",
            ModelSpec("model", "openai", "m", "http://h/v1", (("rpm", 5), ("structured", "tool"))),
        ),
        ("local", ModelSpec("model", "local")),
        ("local:SmolLM2-135M?threads=1", ModelSpec("model", "local", "SmolLM2-135M", None, (("threads", 1),))),
        ("local?threads=1", ModelSpec("model", "local", "", None, (("threads", 1),))),
        ("recorded", ModelSpec("model", "recorded")),
        ("recorded:plans/recordings/a.jsonl", ModelSpec("model", "recorded", "plans/recordings/a.jsonl")),
    ],
)  # fmt: skip
def test_models(text, spec):
    assert parse_spec(text, "model") == spec


@pytest.mark.parametrize(
    "text",
    ["openai:e?dimensions=1024@http://gpu:8000/v1", "openai:e@http://gpu:8000/v1?dimensions=1024"],
)
def test_options_may_stand_before_or_after_the_address(text):
    spec = parse_spec(text, "embedder")
    assert (spec.model, spec.base_url, spec.option("dimensions")) == (
        "e",
        "http://gpu:8000/v1",
        1024,
    )
    assert str(spec) == "openai:e@http://gpu:8000/v1?dimensions=1024"


def test_embedders():
    assert (
        parse_spec("sentence-transformers:BAAI/bge-small-en-v1.5", "embedder").model
        == "BAAI/bge-small-en-v1.5"
    )
    assert parse_spec("local", "embedder").provider == "local"


@pytest.mark.parametrize(
    "text",
    [
        "openai:m@http://h/v1?rpm=5",
        "local",
        "recorded:x.jsonl",
        "local:A?threads=2",
        "openai:m?batch=true&poll=5.0",
    ],
)
def test_specifications_round_trip_as_text(text):
    assert str(parse_spec(text, "model")) == text


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("opnai:gpt-4.1", "model", 'Did you mean "openai"?'),
        ("gpt-4.1-mini", "model", "Write openai:gpt-4.1-mini"),
        ("", "model", "is not a valid model"),
        ("sentence-transformers:x", "model", "It must begin with openai, azure, anthropic, "),
        ("openai", "model", "Write openai:NAME"),
        ("openai:", "model", "Write openai:NAME"),
        ("openai:m?structurd=tool", "model", 'Did you mean "structured"?'),
        ("openai:m?structured=tol", "model", 'Did you mean "tool"?'),
        ("openai:m?rpm=0", "model", "It must be a number above 0"),
        ("openai:m?rpm=many", "model", "It must be a number above 0"),
        ("openai:m?rpm=1&rpm=2", "model", 'duplicate "rpm"'),
        ("openai:m?key_env=", "model", "It must be a word"),
        (
            "openai:m@gpu:8000/v1",
            "model",
            "the address after @ must begin with http:// or https://",
        ),
        (
            "openai:m@localhost/v1",
            "model",
            "the address after @ must begin with http:// or https://",
        ),
        (
            "local:m@http://gpu/v1",
            "model",
            "local has no address. A server that speaks OpenAI's protocol",
        ),
        ("openai:m?dimensions=3", "model", 'unknown option "dimensions"'),
        ("openai:m?structured=tool", "embedder", 'unknown option "structured"'),
        ("recorded?a=1", "model", "It has no options"),
        ("openai:m?batch=yes", "model", "It must be one of true, false"),
        ("openai:m?poll=5", "model", "poll needs batch=true"),
        ("openai:m?batch=false&poll=5", "model", "poll needs batch=true"),
        ("local?batch=true", "model", "Only language models of openai have a batch endpoint"),
        ("recorded?batch=true", "model", "Only language models of openai have a batch endpoint"),
        ("openai:e?batch=true", "embedder", "Only language models of openai have a batch endpoint"),
    ],
)
def test_invalid_specifications_are_rejected(text, kind, said):
    with pytest.raises(PlanError) as caught:
        parse_spec(text, kind, "./semgraph.toml")
    assert said in str(caught.value)
    assert str(caught.value).startswith("./semgraph.toml: ")


def test_a_password_in_an_address_is_used_but_never_shown():
    spec = parse_spec("openai:m@https://me:secret@host/v1", "model")
    assert spec.base_url == "https://me:secret@host/v1"
    assert "secret" not in f"{spec} {spec!r}"
    with pytest.raises(PlanError) as caught:
        parse_spec("openai:m@https://me:secret@host/v1?nope=1", "model")
    assert "secret" not in str(caught.value)
    assert without_password("neo4j://me:secret@db:7687") == "neo4j://db:7687"
