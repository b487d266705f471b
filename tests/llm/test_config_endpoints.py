"""From settings to the objects that answer. Nothing is loaded, opened or asked by building them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from semgraph.errors import ModelUnavailable, PlanError
from semgraph.llm import providers
from semgraph.llm import settings as config
from semgraph.llm.base import Message, Request
from semgraph.llm.embed import LocalEmbedder, OpenAIEmbedder, SentenceTransformersEmbedder
from semgraph.llm.endpoints import Endpoints, build, retry_policy
from semgraph.llm.local import Local
from semgraph.llm.openai import OpenAI
from semgraph.llm.providers import parse_spec
from semgraph.llm.recording import Recorded, RecordedEmbedder, Recorder
from semgraph.llm.services import Service
from semgraph.llm.settings import Settings
from semgraph.llm.stack import Stack
from tests.llm.server import error


@pytest.fixture
def load(tmp_path):
    def load(**given) -> Settings:
        env = {"SEMGRAPH_HOME": str(tmp_path / "home"), **given.pop("env", {})}
        return Settings.load(given, env, tmp_path)

    return load


def test_a_local_model(load):
    model = build(load(llm="local:SmolLM2-135M?threads=1&context=2048").model(), load())
    assert isinstance(model, Local)
    assert (model.name, model.threads, model.limits.context_tokens) == (
        "local:SmolLM2-135M",
        1,
        2048,
    )
    assert build(load().model(), load()).name == "local:Qwen2.5-Coder-1.5B"


def test_an_endpoint(load):
    settings = load(
        llm="openai:m@http://gpu:8000/v1?structured=tool&context=32000&max_output=2000&reasoning_effort=low"
    )
    model = build(settings.model(), settings)
    assert isinstance(model, OpenAI)
    assert model.name == 'openai:m@http://gpu:8000/v1?structured=tool&reasoning_effort="low"'
    assert (model.limits.context_tokens, model.limits.max_output_tokens) == (32000, 2000)


async def test_the_key_is_that_of_the_variable_that_is_named(load, server):
    """And never another one in its place: that one may be for somebody else."""
    spec = f"openai:m@{server.base_url}?key_env=GPU_KEY"
    with pytest.raises(PlanError, match="the environment has no GPU_KEY"):
        build(load(llm=spec).model(), load(llm=spec, env={"OPENAI_API_KEY": "sk-of-openai"}))
    settings = load(llm=spec, env={"OPENAI_API_KEY": "sk-of-openai", "GPU_KEY": "gpu"})
    model = build(settings.model(), settings)
    await model.complete(Request("default", (Message("user", "x"),), '{"type":"string"}'))
    await model.aclose()
    assert server.headers[-1]["Authorization"] == "Bearer gpu"


async def test_models_and_embedders_repeat_requests_as_often_as_the_settings_say(load, server):
    async def busy(_body):
        return error(429, "slow")

    server.answer = server.embedding_fault = busy
    settings = load(
        llm=f"openai:m@{server.base_url}",
        embedder=f"openai:e@{server.base_url}",
        env={"SEMGRAPH_RETRIES_ATTEMPTS": "2"},
    )
    endpoints, stack = Endpoints(), Stack(retry_policy(settings))
    models = endpoints.wrapped(settings.model(), settings, stack)
    with pytest.raises(ModelUnavailable, match="2 attempts"):
        await models.complete(Request("default", (Message("user", "x"),), '{"type":"string"}'))
    assert len(server.requests) == 2
    with pytest.raises(ModelUnavailable, match="2 attempts"):
        await endpoints.wrapped(settings.embedder, settings, stack).embed(["x"])
    assert len(server.embedding_requests) == 2
    await endpoints.aclose()


def test_embedders(load):
    def built(spec: str):
        settings = load(embedder=spec)
        return build(settings.embedder, settings)

    assert isinstance(built("local?threads=1"), LocalEmbedder)
    assert isinstance(built("openai:e@http://gpu/v1?dimensions=8"), OpenAIEmbedder)
    transformers = built("sentence-transformers:BAAI/bge-small-en-v1.5?device=cpu")
    assert isinstance(transformers, SentenceTransformersEmbedder)
    assert (transformers.model, transformers.device) == ("BAAI/bge-small-en-v1.5", "cpu")


async def test_a_service_is_a_provider(load, server, monkeypatch):
    """Its row says where it is, which key it takes, how it answers and what it refuses."""
    refuses = frozenset({"seed", "temperature"})
    row = Service("swift", "Swift", server.base_url, "SWIFT_KEY", "", "tool", refuses, model="m1")
    monkeypatch.setitem(providers.PROVIDERS, "swift", providers.Hosted(row))
    settings = load(
        llm="swift:m?reasoning_effort=low", env={"SWIFT_KEY": "k", "OPENAI_API_KEY": "o"}
    )
    model = build(settings.model(), settings)
    assert model.name == 'swift:m?reasoning_effort="low"'
    await model.complete(Request("default", (Message("user", "x"),), '{"type":"string"}'))
    await model.aclose()
    (sent,) = server.requests
    assert server.headers[-1]["Authorization"] == "Bearer k"
    assert "tools" in sent
    assert not refuses & sent.keys()
    assert (
        build(parse_spec("swift:m@http://gpu/v1", "model"), settings).name
        == "swift:m@http://gpu/v1"
    )


async def test_a_service_says_which_key_it_needs(load, monkeypatch):
    row = Service("swift", "Swift", "http://swift.example/v1", "SWIFT_KEY", model="m1")
    monkeypatch.setitem(providers.PROVIDERS, "swift", providers.Hosted(row))
    settings = load(llm="swift:m")
    model = build(settings.model(), settings)
    with pytest.raises(ModelUnavailable, match="swift:m needs a key: set SWIFT_KEY"):
        await model.complete(Request("default", (Message("user", "x"),), '{"type":"string"}'))


def test_the_first_service_with_a_key_is_the_default(load, monkeypatch):
    row = Service(
        "swift", "Swift", "http://swift.example/v1", "SWIFT_KEY", model="m1", embedder="e1"
    )
    monkeypatch.setitem(providers.PROVIDERS, "swift", providers.Hosted(row))
    monkeypatch.setattr(config, "SERVICES", (*config.SERVICES, row))
    settings = load(env={"SWIFT_KEY": "k"})
    assert (str(settings.model()), settings["models.default"].origin) == (
        "swift:m1",
        "environment SWIFT_KEY",
    )
    assert (str(settings.embedder), settings["models.embed"].origin) == (
        "swift:e1",
        "default beside a model of Swift",
    )
    assert ("SWIFT_KEY", "set", "environment") in list(settings.rows())


class TestRecorded:
    @pytest.fixture
    def recording(self, tmp_path):
        recorder = Recorder()
        recorder.recording.model, recorder.recording.embedder, recorder.recording.dimensions = (
            "local:X",
            "local:E",
            3,
        )
        recorder.clock(lambda _name: datetime(2026, 11, 21, tzinfo=UTC))("run")
        recorder.write(tmp_path / "recordings" / "plan.jsonl")
        return tmp_path / "recordings" / "plan.jsonl"

    def test_the_plans_own_recording_or_a_named_one(self, load, recording):
        for text in ("recorded", "recorded:recordings/plan.jsonl"):
            settings = load(llm=text)
            model, embedder = (
                build(settings.model(), settings, recording),
                build(settings.embedder, settings, recording),
            )
            assert isinstance(model, Recorded)
            assert isinstance(embedder, RecordedEmbedder)
            assert (model.name, embedder.name, model.date) == (
                "recorded:local:X",
                "local:E",
                "2026-11-21",
            )

    def test_without_a_plan_it_must_be_named(self, load):
        with pytest.raises(PlanError, match="Write recorded:FILE"):
            build(load(llm="recorded").model(), load())

    async def test_replayed_answers_are_not_journalled(self, load, recording, journal):
        """A recording that is made anew would be hidden by it."""
        written = Recorded(recording).recording
        request = Request("default", (Message("user", "x"),), '{"type":"string"}', step="s")

        async def replayed(text: str) -> str:
            recorder = Recorder()
            recorder.recording = written
            recorder.llm(_Says(text))
            await recorder.llm(_Says(text)).complete(request)
            recorder.write(recording)
            stack = Stack(journal=journal)
            settings = load(llm="recorded")
            models = Endpoints().wrapped(settings.model(), settings, stack, recording)
            return (await models.complete(request)).text

        assert await replayed('"old"') == '"old"'
        assert await replayed('"new"') == '"new"'


class _Says(Local):
    """A model that says one thing."""

    def __init__(self, text: str) -> None:
        super().__init__("SmolLM2-135M")
        self.text = text

    async def complete(self, request: Request):
        from semgraph.llm.base import Reply

        return Reply(self.text)


class TestLimits:
    """What shares a limiter: models of one address and key, as far as they have no limits of their
    own.
    """

    @pytest.mark.parametrize(
        ("other", "shared"),
        [
            ("openai:n@http://a/v1", True),
            ("openai:m@http://a/v1?structured=tool", True),
            ("openai:m@http://b/v1", False),
            ("openai:n@http://a/v1?rpm=60", False),
        ],
    )
    def test_models_of_one_endpoint_share_its_limits(self, load, other: str, shared: bool) -> None:
        settings = load(llm="openai:m@http://a/v1")
        endpoints = Endpoints()
        first = endpoints.opened(settings.model(), settings)
        second = endpoints.opened(parse_spec(other, "model"), settings)
        assert (first[1] is second[1]) is shared
        assert endpoints.opened(settings.model(), settings) == first
        assert endpoints.for_other_loop().opened(settings.model(), settings)[1] is first[1]
        assert endpoints.for_other_loop().opened(settings.model(), settings)[0] is not first[0]

    def test_a_model_on_this_machine_is_one_for_all_event_loops(self, load) -> None:
        settings = load(llm="local", embedder="local")
        endpoints = Endpoints()
        assert endpoints.for_other_loop().opened(settings.model(), settings) == endpoints.opened(
            settings.model(), settings
        )
        assert endpoints.for_other_loop().opened(settings.embedder, settings) == endpoints.opened(
            settings.embedder, settings
        )
