"""Every provider by its name: what is sent to it, and what is read, on a server of this machine that
behaves as its maker's documents say.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from semgraph.errors import ModelUnavailable, PlanError, RowError
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import parse_type
from semgraph.formats import BAD, GOOD
from semgraph.llm.base import Message, Reply, Request, Usage
from semgraph.llm.endpoints import Endpoints, build, key_of, means
from semgraph.llm.faults import Transient
from semgraph.llm.openai import OpenAI
from semgraph.llm.providers import PROVIDERS, parse_spec
from semgraph.llm.services import SERVICES, Service
from semgraph.llm.settings import Settings
from semgraph.llm.stack import Budget, Stack
from semgraph.llm.tokens import price_of
from semgraph.semantic.answers import AnswerSchema
from semgraph.session.diagnosis import diagnose
from semgraph.session.session import Session
from tests.llm.documented import (
    COMMON,
    ENDPOINTS,
    KEY,
    ProviderServer,
    example,
    mistral_error,
    openai_error,
    xai_error,
)
from tests.llm.server import Answer, Fault, ModelServer, error

BY_NAME = {service.name: service for service in SERVICES}
SCHEMA = AnswerSchema(
    tuple(
        (name, parse_type(kind))
        for name, kind in {
            "keep": "boolean", "format": "date", "name": "string null",
            "parts": "list<struct<at: timestamp null, tone: enum<calm, cross>>>",
        }.items()
    )
)  # fmt: skip
TEXT = canonical_json(SCHEMA.schema)
ANSWER = example(SCHEMA.schema)
ASKED = Request(
    "default",
    (Message("system", "Answer with one JSON document."), Message("user", "Is it so?")),
    TEXT,
    max_tokens=77,
    sample=1,
)
WORD = Request("default", ASKED.messages, "", max_tokens=1, words=("yes", "no"))
SENT = {  # beside the members that all take
    "anthropic": {"system", "output_config", "thinking"},
    "deepseek": {"response_format", "thinking"},
    "gemini": {"response_format"},
    "mistral": {"response_format", "random_seed"},
    "openrouter": {"response_format", "seed", "provider"},
}


@pytest.fixture(params=SERVICES, ids=lambda service: service.name)
def service(request: pytest.FixtureRequest) -> Service:
    found: Service = request.param
    return found


def on(*names: str) -> Any:
    return pytest.mark.parametrize("service", [BY_NAME[name] for name in names], ids=names)


@pytest.fixture
async def provider(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[ProviderServer]:
    """The provider at its own address, which is on this machine, and the user's key for it."""
    for name in {name for each in SERVICES for name in (each.key, each.url_from)} - {""}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SEMGRAPH_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    async with ProviderServer(service.name) as server:
        if service.url:
            assert urlsplit(service.url).path == server.endpoint.path
            monkeypatch.setitem(vars(service), "url", server.base_url)
        else:
            root = server.base_url.removesuffix(service.path)
            monkeypatch.setenv(service.url_from, root)
        monkeypatch.setenv(service.key, KEY)
        yield server


def opened(service: Service, options: str = "") -> OpenAI:
    settings = Settings.load({"llm": f"{service.name}:m{options}"})
    model = build(settings.model(), settings)
    assert isinstance(model, OpenAI)
    return model


async def once(model: OpenAI, request: Request = ASKED) -> Reply:
    try:
        return await model.complete(request)
    finally:
        await model.aclose()


def test_all_providers_are_here() -> None:
    assert [*ENDPOINTS] == [*BY_NAME] == [*PROVIDERS][: len(BY_NAME)]


async def test_it_takes_all_that_is_sent(service: Service, provider: ProviderServer) -> None:
    model, endpoint = opened(service), provider.endpoint
    reply = await once(model)
    assert provider.ignored == set()
    assert model.learned == {}, "the table has what is refused"
    (sent,), (headers,) = provider.requests, provider.headers
    assert sent.keys() == COMMON | SENT.get(service.name, {"response_format", "seed"})
    assert (sent["max_tokens"], sent["temperature"]) == (77, 0)
    proof = {"authorization", "x-api-key"} & {name.lower() for name in headers}
    assert proof <= {name.lower() for name in endpoint.headers} | {"authorization"}
    assert len(proof) == 1
    assert (reply.usage, reply.finish, reply.attempts) == (endpoint.counted, "stop", 1)
    if "json_schema" in endpoint.forms:
        assert json.loads(reply.text).keys() == ANSWER.keys()
        assert ('"format": "date"' in json.dumps(sent)) == ("format" not in endpoint.omits)
    else:
        assert "The JSON Schema of the answer" in json.dumps(sent)


async def test_the_answer_of_one_word_has_probabilities_or_none(
    service: Service, provider: ProviderServer
) -> None:
    model = opened(service)
    reply = await once(model, WORD)
    assert (provider.ignored, model.learned) == (set(), {})
    has = "top_logprobs" in provider.requests[0]
    assert has == ({"logprobs", "top_logprobs"} <= provider.endpoint.takes)
    assert reply.logprobs == (pytest.approx((-0.1, -2.5)) if has else ())
    assert (reply.finish, model.limits.logprobs is not False) == ("length", has)


async def test_a_refusal_in_its_words_is_learned(
    service: Service, provider: ProviderServer
) -> None:
    """A model may refuse more than its provider's others."""
    provider.endpoint = provider.endpoint._replace(
        refusal=provider.endpoint.refusal or openai_error
    )
    provider.refused = {"temperature"}
    model = opened(service)
    reply = await once(model)
    assert reply.attempts == 2
    (note,) = model.learned
    assert note == f"{model.name} refused temperature: the temperature is the endpoint's own"
    assert "temperature" not in provider.requests[-1]


async def test_a_key_is_needed_and_a_wrong_one_is_named(
    service: Service, provider: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def doctor() -> str:
        settings = Settings.load({"llm": f"{service.name}:m"})
        examined = PROVIDERS[service.name].doctor
        return " ".join(await asyncio.to_thread(examined, settings.model(), means(settings), ""))

    assert (await doctor()).startswith(GOOD)
    if service.name == "ollama":
        return
    monkeypatch.setenv(service.key, "another-key-of-8")
    accepted = rf"The key was not accepted: set {service.key}, or"
    assert re.match(f"{BAD} .*{accepted}", await doctor())
    with pytest.raises(Transient, match=accepted) as caught:
        await once(opened(service))
    assert caught.value.certain
    monkeypatch.delenv(service.key)
    if service.key_optional:
        provider.endpoint = provider.endpoint._replace(unauthorized=None)
        await once(opened(service))
    else:
        with pytest.raises(ModelUnavailable, match=f"needs a key: set {service.key}"):
            await once(opened(service))


async def test_texts_are_embedded_in_requests_of_its_size(
    service: Service, provider: ProviderServer
) -> None:
    length = provider.endpoint.length
    if not provider.endpoint.texts:
        with pytest.raises(PlanError, match="is not a valid embedder"):
            parse_spec(f"{service.name}:m", "embedder")
        return
    if length is None:
        with pytest.raises(PlanError, match='unknown option "dimensions"'):
            parse_spec(f"{service.name}:e?dimensions=8", "embedder")
    options = "?dimensions=8" if length else ""
    settings = Settings.load({"embedder": f"{service.name}:e{options}", "llm": "local"})
    endpoints = Endpoints()
    embedder = endpoints.wrapped(settings.embedder, settings, Stack())
    done = await embedder.embed([f"text {i} " + "x" * 300 for i in range(300)])
    await endpoints.aclose()
    assert done.vectors.shape == (300, 8)
    assert done.attempts == len(provider.embedding_requests) > 1
    extra = provider.embedding_requests[0].keys() - {"model", "input", "encoding_format"}
    assert extra == ({length} if length else set())


@on("gemini")
async def test_gemini_asks_to_wait_in_the_body(service: Service, provider: ProviderServer) -> None:
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17.5s"}
    told = {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED", "details": [delay]}

    async def busy(_body: Any) -> Fault:
        return Fault(429, [{"error": told}])

    provider.answer = busy
    with pytest.raises(Transient, match=r"\(429\): Quota") as caught:
        await once(opened(service))
    assert (caught.value.retry_after, caught.value.kind) == (17.5, "throttled")


@pytest.mark.parametrize(
    ("fault", "raised", "said"),
    [
        (Fault(403, {"code": "x", "error": "Your team has used all credits"}), Transient, "no credit left"),
        (error(400, "Your credit balance is too low"), Transient, "no credit left"),
        (error(412, "Account is suspended"), Transient, "no credit left"),
        (error(498, "capacity exceeded"), Transient, "498"),
        (error(403, "the token count exceeds the context length"), RowError, "the context length"),
        (error(400, "the text 'Incorrect API key provided' is blocked"), RowError, "is blocked"),
        (error(400, "Your text names a credit card"), RowError, "a credit card"),
        (Fault(400, [{"error": {"message": "API Key not found. Please pass one."}}]), Transient, "The key was not accepted"),
        (Fault(529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}), Transient, "(529): Overloaded"),
        (Fault(422, {"message": {"detail": [{"loc": ["body", "n"], "msg": "too large"}]}}), RowError, "body.n: too large"),
    ],
    ids=str,
)  # fmt: skip
async def test_a_failure_concerns_one_request_or_all(
    server: ModelServer, fault: Fault, raised: type[Exception], said: str
) -> None:
    async def fails(_body: Any) -> Fault:
        return fault

    server.answer = fails
    with pytest.raises(raised, match=re.escape(said)):
        await once(OpenAI("m", server.base_url))


def anthropic(text: str) -> Fault:
    return Fault(
        400, {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    )


@pytest.mark.parametrize(
    ("name", "fault", "learned"),
    [
        ("anthropic", anthropic("The compiled grammar is too large. Simplify it."), ["json_schema"]),
        ("anthropic", anthropic("'claude-3-haiku' does not support output format."), ["json_schema"]),
        ("anthropic", anthropic('"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'), ["thinking"]),
        ("anthropic", anthropic("thinking.type: Input should be 'adaptive'"), ["thinking"]),
        ("deepseek", error(400, "Unknown parameter: 'thinking'"), ["thinking"]),
        ("gemini", error(400, "The specified schema produces a constraint that has too many states for serving."), ["json_schema"]),
        ("mistral", mistral_error("random_seed"), ["seed"]),
        ("xai", xai_error("max_tokens"), ["max_tokens"]),
        ("openai", error(400, "The model `acme/seed-json-schema` is not supported"), []),
        ("openai", error(404, "The model is unavailable: temperature, seed, json schema"), []),
        ("openai", error(429, "temperature is not supported"), []),
        ("openai", error(503, "json schema unavailable"), []),
        ("openai", error(400, "Text 'no JSON Schema is available, it said' is blocked"), []),
        ("openai", error(400, "Invalid schema for response_format: minItems is not supported"), []),
    ],
)  # fmt: skip
async def test_a_refusal_is_learned_and_no_other_error(
    server: ModelServer, name: str, fault: Fault, learned: list[str]
) -> None:
    """An endpoint that fails once, whatever is sent next."""
    faults = [fault]

    async def fails_once(_body: Any) -> Any:
        return faults.pop() if faults else "{}"

    server.answer = fails_once
    model = OpenAI("acme/seed-json-schema", server.base_url, KEY, service=BY_NAME[name])
    text = replace(ASKED.messages[1], content="No JSON Schema is available, it said. True?")
    asked = replace(ASKED, messages=(ASKED.messages[0], text))
    with suppress(RowError, ModelUnavailable):
        await model.complete(asked)
    await once(model, asked)
    assert [note.partition(" refused ")[2].partition(":")[0] for note in model.learned] == learned


@on("openrouter")
async def test_openrouter_leaves_out_what_no_host_takes_and_nothing_else(
    service: Service, provider: ProviderServer
) -> None:
    async def without_formats(body: Any) -> Any:
        if "response_format" in body:
            return error(404, "No endpoints found that can handle the requested parameters.")
        return "{}"

    provider.answer = without_formats
    model = opened(service)
    await once(model)
    assert model.refused >= {"json_object"}
    assert provider.requests[-1].keys() == COMMON | {"seed", "provider"}
    assert len(provider.requests) == 5

    async def without(_body: Any) -> Any:
        return error(404, "No endpoints found that can handle the requested parameters.")

    provider.answer = without
    model = opened(service)
    with pytest.raises(Transient, match="No endpoints found"):
        await once(model)
    assert (model.learned, provider.requests[-1].keys()) == (
        {},
        {"model", "messages", "max_tokens", "provider"},
    )


@on("openrouter")
async def test_a_key_is_named_where_a_success_says_that_it_is_wrong(
    service: Service, provider: ProviderServer
) -> None:
    async def refuses(_body: Any) -> Any:
        return Fault(200, {"error": {"code": 401, "message": "No auth credentials found"}})

    provider.answer = refuses
    with pytest.raises(Transient, match="set OPENROUTER_API_KEY"):
        await once(opened(service))


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 125}, (100, 25)),
        ({"prompt_tokens": 100, "completion_tokens": 25, "total_tokens": 125}, (100, 25)),
        ({"prompt_tokens": 100, "completion_tokens": 25, "total_tokens": 7}, (100, 25)),
        ({"prompt_tokens": 100, "total_tokens": 125}, (100, 1)),
        ({"total_tokens": 125}, (None, 1)),
    ],
)
async def test_reasoning_that_only_the_total_has_is_counted(
    server: ModelServer, usage: dict[str, int], counted: tuple[int | None, int]
) -> None:
    async def answers(_body: Any) -> Answer:
        return Answer("{}", usage=usage)

    server.answer = answers
    reply = await once(OpenAI("m", server.base_url))
    assert (reply.usage.prompt if counted[0] else None, reply.usage.completion) == counted


@on("xai")
async def test_an_option_that_is_refused_in_camel_case_is_named(
    service: Service, provider: ProviderServer
) -> None:
    with pytest.raises(RowError, match=r"It is set by \?reasoning_effort="):
        await once(opened(service, "?reasoning_effort=low"))


@on("deepseek")
async def test_deepseek_thinks_if_an_effort_is_set_and_has_strict_tools(
    service: Service, provider: ProviderServer
) -> None:
    await once(opened(service, "?reasoning_effort=high"))
    await once(opened(service, "?structured=tool"))
    thinking, tool = provider.requests
    assert ("thinking" in thinking, thinking["reasoning_effort"]) == (False, "high")
    assert tool["tools"][0]["function"]["strict"] is True
    assert tool["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_form_that_it_lacks_is_refused(service: Service) -> None:
    for form in {"tool", "json_object", "json_schema"} & {*service.refuses}:
        with pytest.raises(PlanError, match=f"has no {form}. Leave structured out"):
            parse_spec(f"{service.name}:m?structured={form}", "model")


@on("openrouter")
async def test_openrouter_says_what_a_call_cost(service: Service, provider: ProviderServer) -> None:
    assert (await once(opened(service))).dollars == 0.25
    for usage in ({"cost": -5}, {"cost": 0.95, "is_byok": True}):
        provider.endpoint = provider.endpoint._replace(usage=usage)
        assert (await once(opened(service))).dollars is None
    provider.endpoint = ENDPOINTS["openrouter"]
    assert (await once(opened(service, "?price=1000/2000"))).dollars == pytest.approx(0.11)


@on("openrouter")
async def test_openrouter_finds_a_host_without_the_member_that_none_takes(
    service: Service, provider: ProviderServer
) -> None:
    async def answer(body: Any) -> Any:
        if "temperature" in body:
            return error(404, "No endpoints found that can handle the requested parameters.")
        return "{}"

    provider.answer = answer
    model = opened(service)
    await once(model, replace(ASKED, sample=0))
    (note,) = model.learned
    assert note.endswith("refused temperature: the temperature is the endpoint's own")
    assert "response_format" in provider.requests[-1]


@on("anthropic")
async def test_anthropic_has_efforts_refusals_and_models_without_schemas(
    service: Service, provider: ProviderServer
) -> None:
    await once(opened(service, "?reasoning_effort=low"))
    config = provider.requests[-1]["output_config"]
    assert (config["effort"], config["format"]["type"]) == ("low", "json_schema")
    for finish, said in (("refusal", "refused by the model"), ("max_tokens", "cut at 77 tokens")):
        provider.finish = finish
        with pytest.raises(RowError, match=said):
            await once(opened(service))
    assert "thinking" not in provider.requests[0], "an effort switches it on"
    provider.refused = {"output_config"}
    provider.endpoint = provider.endpoint._replace(
        refusal=lambda _: anthropic("This model does not support the effort parameter.")
    )
    with pytest.raises(RowError, match=r"It is set by \?reasoning_effort="):
        await once(opened(service, "?reasoning_effort=low"))
    provider.endpoint = ENDPOINTS["anthropic"]
    provider.finish, provider.refused = "", {"output_config"}
    model = opened(service)
    await once(model)
    (note,) = model.learned
    assert note.endswith("refused json_schema: the schema of the answer is in the prompt")
    assert "The JSON Schema of the answer" in provider.requests[-1]["system"]


@on("anthropic")
async def test_a_gateway_without_keys_is_told_the_version(
    service: Service, provider: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(service.key)
    provider.endpoint = provider.endpoint._replace(unauthorized=None)
    gateway = provider.base_url.replace("127.0.0.1", "localhost")
    await once(opened(service, f"@{gateway}"))
    (headers,) = provider.headers
    assert headers["anthropic-version"] == "2023-06-01"
    assert not {"authorization", "x-api-key"} & {name.lower() for name in headers}


async def called(service: Service) -> str:
    """What `semgraph doctor --call` says of a call to a model."""
    settings = {"llm": f"{service.name}:m", "embedder": "recorded", "store": "memory"}
    facts = diagnose(Session(**settings), call=True, report=lambda _: None)
    told = await asyncio.to_thread(lambda: [fact.what for fact in facts if fact.about == "call"])
    return told[0]


async def test_doctor_says_what_an_endpoint_can_do(
    service: Service, provider: ProviderServer
) -> None:
    told = await called(service)
    schemas = service.structured == "json_schema"
    assert f"schemas: {'enforced' if schemas else 'in the prompt, not enforced'};" in told
    probable = {"logprobs", "top_logprobs"} <= provider.endpoint.takes
    assert f"log-probabilities: {'yes' if probable else 'no'};" in told
    assert f"seed: {'not sent' if 'seed' in service.refuses else 'sent'}" in told
    assert " refused " not in told


@on("vllm")
async def test_doctor_does_not_guess_from_an_error(
    service: Service, provider: ProviderServer
) -> None:
    async def busy(body: Any) -> Any:
        return error(429, "Slow down") if len(provider.requests) == 2 else await documented(body)

    documented, provider.answer = provider.answer, busy
    assert re.search(r"schemas: enforced; log-probabilities: unknown .*Slow", await called(service))


@on("xai")
@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (403, "Your team has used all available credits", "no credit left"),
        (402, "Pay", "no credit left"),
        (403, "Not from here", "no access"),
        (503, "Down", "Check the server"),
    ],
)
async def test_doctor_says_why_a_key_is_of_no_use(
    service: Service, provider: ProviderServer, status: int, text: str, said: str
) -> None:
    provider.endpoint = provider.endpoint._replace(
        unauthorized=error(status, text), headers={"x": "y"}
    )
    settings = Settings.load({"llm": "xai:m"})
    examined = PROVIDERS["xai"].doctor
    sign, *told = await asyncio.to_thread(examined, settings.model(), means(settings), "")
    assert sign == BAD
    assert text in " ".join(told)
    assert said in " ".join(told)


@pytest.mark.parametrize(
    ("name", "value", "url"),
    [
        ("openai", "http://gpu:8000/v1/", "http://gpu:8000/v1"),
        ("azure", "https://r.openai.azure.com/", "https://r.openai.azure.com/openai/v1"),
        ("azure", "https://r.openai.azure.com/openai/v1/", "https://r.openai.azure.com/openai/v1"),
        ("azure", "https://r.openai.azure.com/openai/", "https://r.openai.azure.com/openai/v1"),
        ("anthropic", "https://proxy.example", "https://proxy.example/v1"),
        ("groq", "https://api.groq.com", "https://api.groq.com/openai/v1"),
        ("together", "https://api.together.xyz/v1", "https://api.together.xyz/v1"),
        ("fireworks", "https://api.fireworks.ai", "https://api.fireworks.ai/inference/v1"),
        ("ollama", "gpu", "http://gpu:11434/v1"),
        ("ollama", "0.0.0.0:8", "http://localhost:8/v1"),
        ("ollama", "http://gpu/", "http://gpu/v1"),
        ("ollama", "[::1]", "http://[::1]:11434/v1"),
    ],
)
def test_a_variable_becomes_an_address(name: str, value: str, url: str) -> None:
    service = BY_NAME[name]
    assert service.address(None, {service.url_from: value}) == url
    assert service.address("http://named/v1/", {service.url_from: value}) == "http://named/v1"


def test_azure_has_no_address_without_its_variable(tmp_path: Path) -> None:
    env = {"SEMGRAPH_HOME": str(tmp_path), "AZURE_OPENAI_API_KEY": KEY}
    settings = Settings.load({"llm": "azure:d"}, env, tmp_path)
    azure = PROVIDERS["azure"]
    for use in (azure.open, lambda *args: azure.doctor(*args, "")):
        with pytest.raises(PlanError, match="Set AZURE_OPENAI_ENDPOINT"):
            use(settings.model(), means(settings))


@on(*(each.name for each in SERVICES if not each.key_optional))
def test_a_key_goes_to_its_own_host_alone(service: Service, tmp_path: Path) -> None:
    """Whatever a folder's file names."""
    own = service.url or "https://r.openai.azure.com/openai/v1"
    host = urlsplit(own).netloc
    env = {"SEMGRAPH_HOME": str(tmp_path / "home"), service.key: KEY, "OTHER_KEY": "other-secret-9"}
    env |= {} if service.url else {service.url_from: f"https://{host}"}

    def key(text: str) -> str:
        (tmp_path / "semgraph.toml").write_text(f'[models]\ndefault = "{text}"\n')
        settings = Settings.load({}, env, tmp_path)
        return key_of(settings.model(), settings)

    assert key(f"{service.name}:m") == key(f"{service.name}:m@{own}") == KEY
    elsewhere = ("https://elsewhere.example", f"http://{host}", f"https://{host}.example",
                 f"https://{host}:444", f"https://{host}@elsewhere.example")  # fmt: skip
    for text in (*(f"m@{url}/v1" for url in elsewhere), "m?key_env=OTHER_KEY"):
        with pytest.raises(PlanError, match="only you can allow that"):
            key(f"{service.name}:{text}")


@pytest.mark.parametrize(
    "key", ["sk-a\nb-1234567", "“sk-ab-1234567”", "sk-ä-1234567", "sk\x00-1234567"]
)
async def test_a_key_that_is_none_is_refused_and_not_shown(key: str, tmp_path: Path) -> None:
    env = {"SEMGRAPH_HOME": str(tmp_path), "MY_OWN": key}
    settings = Settings.load({"llm": "groq:m?key_env=MY_OWN"}, env, tmp_path)
    for use in (PROVIDERS["groq"].open, lambda *args: PROVIDERS["groq"].doctor(*args, "")):
        with pytest.raises(PlanError, match="MY_OWN has a character that no key has") as caught:
            use(settings.model(), means(settings))
        assert key not in str(caught.value)


@on("groq", "anthropic")
async def test_blanks_around_a_key_are_not_sent(
    service: Service, provider: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(service.key, f" {KEY}\n")
    await once(opened(service))
    settings = Settings.load({"llm": f"{service.name}:m"})
    examined = PROVIDERS[service.name].doctor
    told = await asyncio.to_thread(examined, settings.model(), means(settings), "")
    assert told[0] == GOOD


async def test_headers_of_openai_go_to_no_other_host(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Secret: one\nAuthorization: two")
    monkeypatch.setenv("OPENAI_ORG_ID", "three")
    for service in (BY_NAME["openai"], BY_NAME["vllm"]):
        await once(OpenAI("m", server.base_url, KEY, service=service))
    for headers in server.headers:
        assert not {"x-secret", "openai-organization"} & {name.lower() for name in headers}
        assert headers["Authorization"] == f"Bearer {KEY}"
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    await once(OpenAI("m", api_key=KEY))
    assert server.headers[2]["X-Secret"] == "one"


def test_keys_are_masked_in_settings(tmp_path: Path) -> None:
    env = {"SEMGRAPH_HOME": str(tmp_path), **{each.key: KEY for each in SERVICES}}
    rows = [text for row in Settings.load({}, env, tmp_path).rows() for text in row]
    assert "LM_API_TOKEN" in rows
    assert KEY not in " ".join(rows)


LISTED = {
    "openai": "gpt-4.1-mini", "azure": "gpt-4.1-mini", "anthropic": "claude-haiku-4-5",
    "gemini": "gemini-3.5-flash", "mistral": "mistral-medium-latest",
    "groq": "openai/gpt-oss-120b", "deepseek": "deepseek-v4-flash",
    "together": "meta-llama/Llama-3.3-70B-Instruct-Turbo",
    "fireworks": "accounts/fireworks/models/gpt-oss-120b", "openrouter": "openai/gpt-4.1-mini",
    "xai": "grok-4.3",
}  # fmt: skip


def test_listed_prices_are_found() -> None:
    assert [*LISTED] == [each.name for each in SERVICES if each.prices]
    assert [
        name for name, model in LISTED.items() if not price_of(model, None, BY_NAME[name])
    ] == []


URL = "http://gpu:8000/v1"
TABLE = f'"openai:m@{URL}" = "2/8"\n"vllm:e" = 0.02'


@pytest.mark.parametrize(
    ("kind", "text", "table", "dollars"),
    [
        ("llm", f"openai:m@{URL}", "", None),
        ("llm", f"openai:m@{URL}?price=2/8", "", 10),
        ("llm", f"openai:m@{URL}?price=2/8/1", "", 9.5),
        ("llm", "vllm:m?price=0/0", "", 0),
        ("embedder", f"openai:e@{URL}?price=0.02", "", 0.02),
        ("llm", f"openai:m@{URL}?rpm=5", TABLE, 10),
        ("llm", f"openai:m@{URL}?price=1/1", TABLE, 2),
        ("embedder", "vllm:e", TABLE, 0.02),
        ("llm", "vllm:m", TABLE, None),
    ],
)
def test_a_price_of_ones_own(
    tmp_path: Path, kind: str, text: str, table: str, dollars: float | None
) -> None:
    (tmp_path / "semgraph.toml").write_text(f"[prices]\n{table}\n")
    settings = Settings.load({kind: text}, {"SEMGRAPH_HOME": str(tmp_path / "home")}, tmp_path)
    spec = settings.model() if kind == "llm" else settings.embedder
    price = PROVIDERS[spec.provider].price(spec, means(settings))
    made = PROVIDERS[spec.provider].open(spec, means(settings))
    usage = Usage(1_000_000, 500_000, 1_000_000)
    assert made.dollars(usage) == (price and price.dollars(usage)) == dollars
    assert "price" not in made.name, "the journal's answers stay when a price changes"
    assert str(parse_spec(str(spec), spec.kind)) == str(spec)


@pytest.mark.parametrize("price", ["2", "1/2/3/4", "a/b", "-1/2", "nan/2", ""])
def test_a_price_that_is_none_is_refused(price: str) -> None:
    with pytest.raises(PlanError, match="It must be IN/OUT or IN/OUT/CACHED"):
        parse_spec(f"vllm:m?price={price}", "model")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('"openai:m" = "cheap"', "It must be IN/OUT"),
        ('"opnai:m" = "1/2"', 'Did you mean "openai"?'),
        ('"openai:m@http://gpu/v1/" = "1/2"', 'Write "openai:m@http://gpu/v1"'),
        ('"local" = "1/2"', '"local" costs nothing'),
        ('"openai:m" = "1/2&rpm=5"', "It must be IN/OUT"),
        ('"openai:m?rpm=5" = "1/2"', 'Write "openai:m"'),
        ('"openai:m" = true', "It must be IN/OUT"),
    ],
)
def test_a_table_of_prices_that_is_wrong_is_refused(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "semgraph.toml").write_text(f"[prices]\n{line}\n")
    with pytest.raises(PlanError, match=re.escape(said)):
        Settings.load({}, {"SEMGRAPH_HOME": str(tmp_path)}, tmp_path)


def test_a_price_without_answers_is_none_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "semgraph.toml").write_text('[prices]\n"vllm:m" = 2\n')
    settings = Settings.load({"llm": "vllm:m"}, {"SEMGRAPH_HOME": str(tmp_path)}, tmp_path)
    with pytest.raises(PlanError, match=r'"vllm:m" is a model: price is "2". It must be IN/OUT'):
        build(settings.model(), settings)


def test_a_limit_in_dollars_names_the_option() -> None:
    with pytest.raises(PlanError, match=r"\?price=IN/OUT .*, or \[prices\]"):
        Budget(max_usd=1).require_price("vllm:m", None)


PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text(encoding="utf-8")


def row(service: Service) -> str:
    """The row of a provider in the table of the page."""
    cells = (
        f"[{service.name}](#{service.name})",
        f"`{service.key}`" + " (if the server has one)" * service.key_optional,
        f"`{service.url}`" if service.url else f"`{service.url_from}` + `{service.path}`",
        f"`{service.structured}`",
        ", ".join(f"`{each}`" for each in service.refuses if each != "embeddings") or "–",
        "no" if "embeddings" in service.refuses else "yes",
        "listed" if service.prices else "by `price`",
    )
    return f"| {' | '.join(cells)} |"


def test_the_page_shows_the_table_and_every_variable() -> None:
    rows = [text for text in PAGE.splitlines() if text.startswith("| [")]
    assert rows == [row(service) for service in SERVICES]
    assert [each.name for each in SERVICES if f"\n## {each.name}\n" not in PAGE] == []
