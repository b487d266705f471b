"""Endpoints that behave as the documents of their makers say, on a server of this machine.

Each is a row of `ENDPOINTS`. An endpoint answers a member that it does not take with an error of its
own form, or it ignores the member; `ignored` has what it ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from aiohttp import web

from semgraph.llm.base import Usage
from tests.llm.server import Answer, Fault, ModelServer, error

KEY = "key-of-the-provider-7"
Body = dict[str, Any]
COMMON = {"model", "messages", "max_tokens", "temperature"}
PROBABLE = {"logprobs", "top_logprobs"}
CHAT = COMMON | {"response_format", "tools", "tool_choice"}
ALL = CHAT | PROBABLE | {"seed", "max_completion_tokens"}
PLAIN = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
CACHED = {**PLAIN, "prompt_tokens_details": {"cached_tokens": 40}}
INVALID = "invalid_request_error"


def openai_error(member: str) -> Fault:
    return error(400, f"Unrecognized request argument supplied: {member}")


def anthropic_error(member: str) -> Fault:
    known = member == "temperature"
    what = "is deprecated for this model." if known else ": Extra inputs are not permitted"
    return Fault(
        400, {"type": "error", "error": {"type": INVALID, "message": f"`{member}` {what}"}}
    )


def gemini_error(member: str, what: str = "") -> Fault:
    what = what or f'Invalid JSON payload received. Unknown name "{member}": Cannot find field.'
    return Fault(400, [{"error": {"code": 400, "message": what, "status": "INVALID_ARGUMENT"}}])


def mistral_error(member: str) -> Fault:
    extra = {"type": "extra_forbidden", "loc": ["body", member], "input": 0}
    detail = {"detail": [{**extra, "msg": "Extra inputs are not permitted"}]}
    return Fault(422, {"object": "error", "message": detail, "type": INVALID, "code": None})


def xai_error(member: str, what: str = "") -> Fault:
    first, *rest = member.split("_")
    what = (
        what or f"Model grok-4 does not support parameter {first}{''.join(map(str.title, rest))}."
    )
    return Fault(400, {"code": "Client specified an invalid argument", "error": what})


def openrouter_error(member: str) -> Fault:
    host = {"raw": f"Unsupported parameter: {member}"}
    told = {"code": 400, "message": "Provider returned error", "metadata": host}
    return Fault(200, {"error": told})


class Endpoint(NamedTuple):
    """What the documents say of an endpoint.

    Args:
        path: Of its address.
        takes: The members of a chat that have an effect.
        refusal: The error for another member, if it refuses those.
        forms: The kinds of format that it takes.
        omits: Keywords of JSON Schema that it refuses. All endpoints want closed objects with all keys
            required.
        usage: What it reports of a chat, and `counted`, what that means.
        unauthorized: The error for a wrong key; None: any is accepted.
        headers: Of a request with the right key.
        key_path: What only the right key may read.
        length: The member with the dimensions of an embedding; None: there is none.
        texts: The most texts of an embedding request; 0: it has no embeddings.
        characters: The most characters of one.
    """

    path: str = "/v1"
    takes: set[str] = ALL
    refusal: Callable[[str], Fault] | None = openai_error
    forms: tuple[str, ...] = ("json_schema", "json_object")
    omits: tuple[str, ...] = ()
    usage: Body = CACHED
    counted: Usage = Usage(100, 40, 5)
    unauthorized: Fault | None = error(401, "bad key")
    headers: dict[str, str] = {"Authorization": f"Bearer {KEY}"}  # noqa: RUF012
    key_path: str = "/models"
    length: str | None = "dimensions"
    texts: int = 2048
    characters: int = 1_200_000


LENGTHS = ("minLength", "maxLength", "minItems", "maxItems")
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
SIZES = (*LENGTHS, *BOUNDS, "pattern")
ENDPOINTS = {
    "openai": Endpoint(),
    "azure": Endpoint("/openai/v1", omits=(*SIZES, "format")),
    "anthropic": Endpoint(
        takes=COMMON | {"system", "output_config", "thinking"}, refusal=anthropic_error, omits=SIZES, texts=0,
        usage={"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 5},
        unauthorized=Fault(401, {"type": "error", "error": {"message": "invalid x-api-key"}}),
        headers={"x-api-key": KEY, "anthropic-version": "2023-06-01"}),
    "gemini": Endpoint(
        "/v1beta/openai", CHAT, gemini_error, usage=PLAIN | {"total_tokens": 125}, texts=100,
        counted=Usage(100, 0, 25),
        unauthorized=gemini_error("", "API key not valid. Please pass a valid API key.")),
    "mistral": Endpoint(
        takes=CHAT | {"random_seed"}, refusal=mistral_error, length="output_dimension", texts=512,
        characters=65_536, omits=("format",)),
    "groq": Endpoint("/openai/v1", ALL - PROBABLE, omits=("minItems", "maxItems"), texts=0),
    "deepseek": Endpoint(
        "", CHAT | PROBABLE | {"thinking"}, None, ("json_object",), texts=0,
        omits=(*LENGTHS, "format"), usage=PLAIN | {"prompt_cache_hit_tokens": 40}),
    "together": Endpoint(
        takes=CHAT | {"seed"}, refusal=None, usage=PLAIN, counted=Usage(100, 0, 5), length=None,
        texts=100),
    "fireworks": Endpoint("/inference/v1", omits=(*LENGTHS, "pattern")),
    "openrouter": Endpoint(
        "/api/v1", ALL | {"provider"}, openrouter_error, usage=CACHED | {"cost": 0.25},
        key_path="/key"),
    "xai": Endpoint(
        takes=ALL - PROBABLE, refusal=xai_error, usage=CACHED | {"total_tokens": 125}, texts=0,
        counted=Usage(100, 40, 25),
        unauthorized=xai_error("", "Incorrect API key provided: ke***-7.")),
    "ollama": Endpoint(
        takes=ALL - {"max_completion_tokens", "tool_choice"}, refusal=None, usage=PLAIN,
        counted=Usage(100, 0, 5), unauthorized=None, headers={}),
    "vllm": Endpoint(refusal=None),
    "lmstudio": Endpoint(
        takes=COMMON | {"response_format", "seed"}, refusal=None, forms=("json_schema",),
        usage=PLAIN, counted=Usage(100, 0, 5)),
    "llamacpp": Endpoint(takes=ALL - {"tool_choice"}, refusal=None),
}  # fmt: skip


class ProviderServer(ModelServer):
    """Serves one endpoint at its path, with its chats, embeddings and test of a key."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.named, self.endpoint = name, ENDPOINTS[name]
        self.ignored: set[str] = set()
        self.refused: set[str] = set()  # members that a model refuses
        self.answer, self.finish = self._documented, ""
        self.embedding_fault = self._embedding_fault

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.endpoint.path}"

    def add_to(self, app: web.Application) -> None:
        path = self.endpoint.path
        app.router.add_post(path + "/chat/completions", self._chat)
        app.router.add_post(path + "/messages", self._chat)
        app.router.add_post(path + "/embeddings", self._embeddings)
        app.router.add_get(path + "/{models:models|key}", self._list)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        """Models, or what a key may do. Only `key_path` needs the key."""
        tests = request.path.endswith(self.endpoint.key_path)
        found = web.json_response({"object": "list", "data": []})
        return (tests and await self._unauthorized(request)) or found

    async def _unauthorized(self, request: web.Request) -> web.StreamResponse | None:
        headers, fault = self.endpoint.headers, self.endpoint.unauthorized
        right = all(request.headers.get(name) == text for name, text in headers.items())
        return await self._fault(fault, request) if fault and not right else None

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._unauthorized(request) or await super()._chat(request)

    async def _embedding_fault(self, body: Body) -> Fault | None:
        texts, length = body["input"], self.endpoint.length
        if len(texts) > self.endpoint.texts or sum(map(len, texts)) > self.endpoint.characters:
            return error(400, "Too many inputs in request")
        extra = body.keys() - {"model", "input", "encoding_format", length}
        return (self.endpoint.refusal or openai_error)(extra.pop()) if extra else None

    async def _documented(self, body: Body) -> Answer | Fault:
        """The answer to a chat: a word, or what its schema demands."""
        endpoint, messages = self.endpoint, "system" in self.endpoint.takes
        for member in sorted((body.keys() - endpoint.takes) | (body.keys() & self.refused)):
            if endpoint.refusal:
                return endpoint.refusal(member)
            self.ignored.add(member)
        config = body.get("output_config", {})
        form: Body = body.get("response_format") or config.get("format") or {}
        if form and form["type"] not in endpoint.forms:
            return error(400, "This response_format type is unavailable now")
        schema = form.get("schema") or form.get("json_schema", {}).get("schema")
        if "tools" in body:
            schema = body["tools"][0]["function"]["parameters"]
        if schema and (problem := next(problems(schema, endpoint.omits), "")):
            return error(400, f"Invalid schema for response_format 'answer': {problem}")
        if problem := self._particular(body, form.get("type", "")):
            return error(400, problem)
        likely = (("yes", -0.1), ("no", -2.5)) if body.get("logprobs") else ()
        text, end = json.dumps(example(schema)) if schema else '{"city": "Paris"}', "stop"
        if body["max_tokens"] == 1:
            text, end = "yes", "length"
        answer = Answer(text, self.finish or end, None, endpoint.usage, False, likely)
        return Fault(body=_message(answer)) if messages else answer

    def _particular(self, body: Body, form: str) -> str:
        """What one endpoint alone demands; "": all of it is there."""
        if self.named == "deepseek":
            if form == "json_object" and "json" not in json.dumps(body["messages"]).lower():
                return "Prompt must contain the word 'json' in some form"
            if body.get("thinking") != {"type": "disabled"}:
                self.ignored.add("temperature")
        if self.named == "openrouter" and not body.get("provider", {}).get("require_parameters"):
            self.ignored.add("response_format")
        if self.named == "fireworks" and body.get("top_logprobs", 0) > 5:
            return "top_logprobs must be at most 5"
        return ""


def problems(schema: Body, omits: tuple[str, ...]) -> Iterator[str]:
    """What a strict endpoint refuses in a schema."""
    yield from (f"'{keyword}' is not permitted" for keyword in omits if keyword in schema)
    if not schema:
        yield "an empty schema"
    properties = schema.get("properties", {})
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            yield "'additionalProperties' must be false"
        if sorted(schema.get("required", ())) != sorted(properties):
            yield "'required' must have every key"
    inner = [*properties.values(), *schema.get("anyOf", ())]
    for part in [*inner, schema["items"]] if "items" in schema else inner:
        yield from problems(part, omits)


def example(schema: Body) -> Any:
    """The answer that a schema enforces."""
    kind = schema["anyOf"][0] if "anyOf" in schema else schema
    if "properties" in kind:
        return {name: example(part) for name, part in kind["properties"].items()}
    dates = {"date": "2026-01-02", "date-time": "2026-01-02T03:04:05Z"}
    text = kind["enum"][0] if "enum" in kind else dates.get(kind.get("format", ""), "Paris")
    values = {"boolean": True, "integer": 3, "number": 0.5, "string": text}
    return [example(kind["items"])] if "items" in kind else values[kind["type"]]


def _message(answer: Answer) -> Body:
    """An answer as the Messages API gives it."""
    finish = {"stop": "end_turn", "length": "max_tokens"}.get(answer.finish, answer.finish)
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    content = [thought, {"type": "text", "text": answer.text}]
    document = {"type": "message", "role": "assistant", "model": "m-1", "content": content}
    return document | {"stop_reason": finish, "usage": answer.usage}
