"""Language models behind any endpoint that speaks OpenAI's protocol: those of `llm/services.py`, and
any other server.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from semgraph.errors import ModelUnavailable, RowError
from semgraph.llm import faults, replies, tokens
from semgraph.llm.base import Limits, Reply, Request, Usage, cut
from semgraph.llm.services import OPENAI, Service, Structured
from semgraph.privacy import learn, learn_from_addresses, without_password

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import ClientSession, FormData


T = TypeVar("T")
_CONNECT_SECONDS = 10.0
_KEEPALIVE_SECONDS = 5.0
_MAX_CONNECTIONS = 1000
_MOST_IN_BATCH = 50_000
_OF_OPENAI = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
_TURNS = 10  # of the event loop, enough to read an answer


class Wire:
    """A connection pool to one endpoint. Connects, and imports heavy modules, at the first request.

    Without `base_url` the address is the service's, with `api_key` None the key is the
    environment's. Only the service's own address requires a key. `timeout` limits one attempt, in
    seconds.
    """

    def __init__(
        self,
        name: str,
        base_url: str | None,
        api_key: str | None,
        timeout: float,
        service: Service = OPENAI,
    ) -> None:
        self.name, self.timeout, self._service = name, timeout, service
        self.base_url = service.address(base_url, os.environ)
        self._api_key = api_key
        learn(api_key, os.environ.get(service.key))
        learn_from_addresses([base_url or ""])
        self.proven = False  # whether the endpoint gave a valid reply

    async def ask(self, path: str, body: bytes, read: Callable[[Mapping[str, Any], float], T]) -> T:
        """Send one request, and read its reply. `read` gets the reply and its duration in seconds;
        it may raise UnreadableReply or RowError. Raises as `post`.
        """
        try:
            reply, seconds = await self.post(path, body)
            answer = self.reading(reply, lambda: read(reply, seconds))
        except faults.Transient as error:
            error.proven = self.proven
            raise
        except RowError as error:
            self.proven = self.proven or error.spent is not None
            raise
        self.proven = True
        return answer

    def reading(self, reply: Mapping[str, Any] | bytes, read: Callable[[], T]) -> T:
        """The result of `read` for a reply. Raises Transient if `read` raises UnreadableReply."""
        try:
            return read()
        except replies.UnreadableReply as error:
            text = reply.decode(errors="replace") if isinstance(reply, bytes) else _dump(reply)
            proven = self.proven
            raise faults.unreadable(error, self.name, self.base_url, text, proven=proven) from None

    async def post(self, path: str, body: bytes) -> tuple[dict[str, Any], float]:
        """Send one request. Returns the JSON object of a reply with status 200, and its duration in
        seconds.

        Raises:
            RowError: The endpoint rejects this request.
            ModelUnavailable: The address, key, model or protocol is wrong: every request fails.
            Transient: The next attempt may succeed.
        """
        began = time.perf_counter()
        content = await self._attempt("POST", path, self.timeout, body)
        seconds = time.perf_counter() - began
        return self._document(content, seconds), seconds

    async def get(self, path: str, seconds: float | None = None) -> bytes:
        """The content of a document of the endpoint, by default within the timeout of requests.
        Raises as `post`.
        """
        return await self._attempt("GET", path, seconds or self.timeout)

    async def serves(self, path: str) -> bool:
        """Whether the endpoint has a list at a path."""
        with suppress(RowError, ModelUnavailable):
            return "data" in self.parsed(await self.get(path, _CONNECT_SECONDS))
        return False

    async def upload(self, name: str, content: bytes, seconds: float) -> dict[str, Any]:
        """Upload a file of requests; return the endpoint's description of it. Raises as `post`."""
        import aiohttp

        form = aiohttp.FormData({"purpose": "batch"})
        form.add_field("file", content, filename=name, content_type="application/jsonl")
        return self._document(await self._attempt("POST", "/files", seconds, form), 0.0)

    async def _attempt(
        self, method: str, path: str, most: float, body: bytes | FormData | None = None
    ) -> bytes:
        """The content of a good reply to one attempt, which takes at most `most` seconds. Raises as
        `post`.
        """
        began, headers = time.perf_counter(), self._headers
        if isinstance(body, bytes):
            headers = headers | {"Content-Type": "application/json"}
        attempt = asyncio.ensure_future(self._send(method, path, headers, body))
        try:
            await asyncio.wait([attempt], timeout=most)
            for _ in range(_TURNS):  # read paid replies that arrived while the loop was busy
                if not attempt.done():
                    await asyncio.sleep(0)
        finally:
            if not attempt.done():
                attempt.cancel()
                await asyncio.wait([attempt])
        if attempt.cancelled():
            text = f"{self.name}: no answer from {self.base_url} in {most:g} s"
            raise faults.Transient(faults.NO_ANSWER, text, most)
        seconds = time.perf_counter() - began
        try:
            status, answered, content = attempt.result()
        except Exception as error:
            raise faults.unconnected(error, self.name, self.base_url, seconds) from error
        if 200 <= status < 300:
            return content
        text, key = content.decode(errors="replace"), self._service.key
        failed = faults.failure_of(self.name, text, seconds, key, status, answered)
        if isinstance(failed, faults.Transient):
            failed.status = status
        raise failed

    async def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | FormData | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """The status, headers and content of a reply."""
        # A redirect takes no `Authorization` to another host, but any other header.
        follow, url = self._service.protocol == "chat", self.base_url + path
        async with self._session.request(
            method, url, data=body, headers=headers, proxy=self._proxy, allow_redirects=follow
        ) as response:
            return response.status, response.headers, await response.read()

    def _document(self, content: bytes, seconds: float) -> dict[str, Any]:
        """The JSON object of a reply. Raises as `post`."""
        reply = self.parsed(content)
        if error := replies.error_in(reply):
            raise faults.failure_of(self.name, error, seconds, self._service.key)
        return reply

    def parsed(self, content: bytes) -> dict[str, Any]:
        """A JSON object. Raises Transient for any other content."""
        return self.reading(content, lambda: replies.document(content))

    @cached_property
    def _proxy(self) -> str | None:
        """The proxy that the environment names for the address."""
        parts, proxies = urlsplit(self.base_url), getproxies()
        if not proxies or proxy_bypass(parts.hostname or ""):
            return None
        return proxies.get(parts.scheme) or proxies.get("all")

    async def aclose(self) -> None:
        """Close the connections."""
        if "_session" in self.__dict__:
            await self._session.close()

    @cached_property
    def _session(self) -> ClientSession:
        import aiohttp

        connector = aiohttp.TCPConnector(
            limit=_MAX_CONNECTIONS, ssl=_trusted(), keepalive_timeout=_KEEPALIVE_SECONDS
        )
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        return aiohttp.ClientSession(connector=connector, timeout=timeout)

    @cached_property
    def _headers(self) -> dict[str, str]:
        """The headers of each request; at OpenAI's address also those of its own variables."""
        key = os.environ.get(self._service.key, "") if self._api_key is None else self._api_key
        if not key.strip() and self._service.needs_key(self.base_url):
            raise ModelUnavailable(
                f"{self.name} needs a key: set {self._service.key}, or name the variable that holds it with ?key_env=NAME"
            )
        headers = {"Accept": "application/json", "User-Agent": f"semgraph/{version('semgraph')}"}
        # Servers without keys may insist on the header.
        headers |= self._service.authorization(key.strip()) or {"Authorization": "Bearer none"}
        if self.base_url == OPENAI.address(None, os.environ):
            own = {name: os.environ.get(of) for name, of in _OF_OPENAI.items()}
            headers |= {name: value for name, value in own.items() if value}
            for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines():
                name, colon, value = line.partition(":")
                headers |= {name.strip(): value.strip()} if colon else {}
        return headers


@cache
def _trusted() -> SSLContext:
    """The trusted certificates, read once: reading takes longer than a call to a nearby model."""
    import httpx2

    return httpx2.create_ssl_context()


# OpenAI's reasoning models count their reasoning as part of the answer. They take
# `max_completion_tokens` instead of `max_tokens`, and no temperature. All other models take
# `max_tokens` and a temperature.
_REASONING = re.compile(r"(o\d|gpt-5(?!.*chat))(?![a-z0-9])")
_REASONING_REFUSES = ("max_tokens", "temperature", "seed")
_UNSUPPORTED = (
    "unsupported|n[o']t (support|permit|allow|available|implement|built|enabled)|unavailable|unknown|"
    "unrecogni[sz]ed|unexpected|deprecated"
)


def _refusal(named: str, words: str = "") -> re.Pattern[str]:
    """A pattern for messages that call a member unsupported, or contain one of further words."""
    return re.compile(f"(?=.*({named}))(?=.*({_UNSUPPORTED}{words}))(?!.*invalid schema)")


_LENGTH = _refusal("max_?(completion_?)?tokens", "|use .?max_")
_FORMATS = _refusal(
    "response_?format|output.?(config|format)|json.?schema|guided|structured.?output|grammar|"
    r"\bschema\b.*\btoo\b",
    "|should be|must be|invalid value|failed|too (many|large|complex)",
)
# Members of a request that an endpoint may refuse: the pattern of its message, and the note for
# later requests, which omit the member.
REFUSALS = {
    "seed": (_refusal(r"\b(random_)?seed\b"), "draws differ by the temperature alone"),
    "temperature": (
        _refusal("temperature", "|only|must be"),
        "the temperature is the endpoint's own",
    ),
    "max_tokens": (_LENGTH, "max_completion_tokens is sent in its place"),
    "max_completion_tokens": (_LENGTH, "max_tokens is sent in its place"),
    "logprobs": (_refusal("logprobs"), "answers have no log-probabilities"),
    "thinking": (
        _refusal("thinking", "|should be|must be|cannot|always"),
        "the model thinks, as part of its answer",
    ),
    "system": (
        _refusal(r"system.{0,20}\brole|\brole.{0,40}\bsystem|roles must", "|only|alternate"),
        "instructions are in the user message",
    ),
    "json_schema": (_FORMATS, "the schema of the answer is in the prompt"),
    "json_object": (_FORMATS, "the form of the answer is not enforced"),
}
# OpenRouter finds no host that takes all members, and names none.
_UNNAMED = "the requested parameters"
_FORMS = ("json_schema", "json_object")
_OPTIONAL = ("seed", "temperature", "logprobs", "thinking")
_REFUSED = re.compile(
    r"(?: rejected the request)? \((?:400|404(?=\): No endpoints)|415|422|500|501)\): (.*)",
    re.DOTALL,
)
_FORMAT = re.compile(r'"format":"[a-z-]+",')  # in a schema, whose keys are in order
_QUOTE = 16  # characters of a request's text that a message may quote
_DEFAULT_LIMITS = Limits(assumed=True)
_ALL_REASONING = (
    "the model wrote its reasoning only. Switch it off or shorten it with ?reasoning_effort=low, or "
    "where the model is served"
)
PATH = "/chat/completions"


class RequestBody(bytes):
    """The body of a request, one line of JSON."""

    members: set[str]  # members that the endpoint may refuse, by their names in REFUSALS
    without: tuple[str, ...]  # members omitted after a refusal of this request, in order


class Endpoint(tokens.CountsTokens):
    """A model or an embedder at an address: its connections, its tokens and their price.

    Its `name` is such as `openai:gpt-4.1-mini`, with the address unless it is OpenAI's own, and
    with `options` of its specification. Address and key as `Wire`. `price` overrides the list of
    `semgraph.llm.tokens`.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None,
        api_key: str | None,
        timeout: float,
        price: tokens.Price | None,
        service: Service,
        options: list[str],
    ) -> None:
        self.model, self.service = model, service
        url = service.address(base_url, os.environ)
        address = "" if url == service.url else f"@{without_password(url)}"
        self.name = f"{service.name}:{model}{address}" + "?" * bool(options) + "&".join(options)
        self.wire = Wire(self.name, base_url, api_key, timeout, service)
        self._price, self._counter = price, tokens.TokenCounter(model)

    def dollars(self, usage: Usage) -> float | None:
        """The cost of tokens, or None if no price is known."""
        return tokens.cost(usage, self.model, self.wire.base_url, self._price, self.service)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.wire.aclose()


class OpenAI(Endpoint):
    """A model behind `POST {base_url}/chat/completions`, which enforces the answer's JSON Schema.

    Each request is one attempt; `semgraph.llm.stack` adds retries, limits, budget and journal.

    Args as `Endpoint`, and:
        structured: The mechanism that enforces the schema: `json_schema` (`response_format`,
            strict), `tool` (a required function call, for endpoints that ignore `response_format`)
            or `json_object` (any JSON; the schema is in the prompt).
        extra: Further members of the request's body, such as `{"reasoning_effort": "low"}`.
        batch: Whether requests that run ahead are sent in batches (`semgraph.llm.batch`).
        poll: The longest pause between two polls of a batch, in seconds.
    """

    path = PATH

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        limits: Limits = _DEFAULT_LIMITS,
        structured: Structured = "json_schema",
        timeout: float = 120.0,
        price: tokens.Price | None = None,
        extra: Mapping[str, Any] | None = None,
        *,
        batch: bool = False,
        poll: float = 60.0,
        service: Service = OPENAI,
    ) -> None:
        self.structured, self.poll = structured, poll
        self._options = [f"structured={structured}"] * (structured != service.structured)
        self._options += [f"{key}={_dump(value)}" for key, value in sorted((extra or {}).items())]
        super().__init__(model, base_url, api_key, timeout, price, service, self._options)
        self._limits = replace(limits, batch=_MOST_IN_BATCH) if batch else limits
        self._extra = dict(extra or {})
        self._billed = service.billed if price is None else ""
        self._reasoning = _REASONING.match(model.lower().rpartition("/")[2]) is not None
        self.refused = {*service.refuses, *(_REASONING_REFUSES if self._reasoning else ())}
        self.refused |= {"json_schema"} if structured == "json_object" else set()
        self.refused |= {"thinking"} if "reasoning_effort" in self._extra else set()
        self._schemas: set[str] = set()  # refused schemas
        self.learned: dict[str, None] = {}  # notes on refusals by the endpoint

    @property
    def limits(self) -> Limits:
        """The limits of the model."""
        lacking = self._reasoning or "logprobs" in self.refused
        return replace(self._limits, logprobs=False) if lacking else self._limits

    async def complete(self, request: Request) -> Reply:
        """Send one request, once. Raises RowError (`truncated` at max_tokens, `refused`, or
        `rejected`), Transient if the next attempt may succeed, and ModelUnavailable.
        """
        attempts, body = 1, self.body(request)

        def read(reply: Mapping[str, Any], seconds: float) -> Reply:
            return self.reply(reply, request, seconds, self.dollars)

        while True:
            try:
                reply = await self.wire.ask(self.path, body, read)
            except (RowError, faults.Transient) as error:
                following = self.following(error, request, body)
                if following is None:
                    error.attempts += attempts - 1
                    raise
                attempts, body = attempts + 1, following
            else:
                self.learn(request, body)
                return replace(reply, attempts=attempts) if attempts > 1 else reply

    def reply(
        self,
        document: Mapping[str, Any],
        request: Request,
        seconds: float,
        dollars: Callable[[Usage], float | None],
    ) -> Reply:
        """The reply of a chat completion, priced by `dollars`. Raises RowError as `complete`, and
        UnreadableReply.
        """
        read = self.read(document)
        usage = self._usage(read, request)
        reported = replies.mapping(document.get("usage"))
        # With a key of the user's for the host, OpenRouter reports its fee alone.
        billed = None if reported.get("is_byok") else replies.amount(reported.get(self._billed))
        reply = Reply(
            text=read.text,
            usage=usage,
            seconds=seconds,
            call_id=uuid.uuid4().hex,
            model=read.model or self.model,
            dollars=dollars(usage) if billed is None else billed,
            finish="refusal" if read.refusal else read.finish,
            logprobs=tokens.word_logprobs(request.words, read.tokens),
        )
        if read.refusal or read.finish == "content_filter":
            by = f"the model: {read.refusal}" if read.refusal else "the provider's content filter"
            raise RowError(faults.REFUSED.kind, f"refused by {by}", attempts=1, spent=reply)
        thought = "" if read.text or not read.reasoning else _ALL_REASONING
        if read.finish == "length" and not request.words:
            raise cut(request, reply, thought)
        if thought:
            what = f"the answer is empty: {thought}"
            raise RowError(faults.LACKING.kind, what, attempts=1, spent=reply)
        return reply

    def read(self, document: Mapping[str, Any]) -> replies.Completion:
        """The completion in a reply. Raises UnreadableReply."""
        return replies.completion(document, called=self.structured == "tool")

    def following(
        self, error: RowError | faults.Transient, request: Request, body: RequestBody
    ) -> RequestBody | None:
        """The body to send after an error, without a member that the endpoint refused; None if it
        refused none. If the error concerns an option of the user, its message names the option.
        """
        if isinstance(error, RowError) and error.spent is not None:
            self.learn(request, body)
        refused = _REFUSED.fullmatch(str(error).removeprefix(self.name))
        message = _without_quotes(refused[1], self.model, request) if refused else ""
        if _UNNAMED in message:
            return self._without_next(request, body)
        for member, (refusal, _) in REFUSALS.items():
            if member in body.members and refusal.match(message):
                return self.body(request, (*body.without, member))
        for option in self._options:
            named = option.partition("=")[0].replace("structured", self.structured)
            named = named.removeprefix("reasoning_").replace("_", "")
            if named in message.replace("_", ""):
                error.args = (f"{str(error).rstrip('.')}. It is set by ?{option}",)
        return None

    def _without_next(self, request: Request, body: RequestBody) -> RequestBody | None:
        """The next body to try after a refusal that names no member: without one of them, then
        without all of them; None after that.
        """
        sent = body.members.union(body.without)
        optional = [each for each in _OPTIONAL if each in sent]
        forms = [each for each in _FORMS if not sent.isdisjoint({each, _FORMS[0]})]
        alone = [(each,) for each in (*optional, *forms[:1])]
        tries = [*filter(None, dict.fromkeys([*alone, (*forms,), (*optional, *forms)]))]
        if body.without and body.without not in tries:
            return None
        later = tries[tries.index(body.without) + 1 :] if body.without else tries
        return self.body(request, later[0]) if later else None

    def learn(self, request: Request, body: RequestBody) -> None:
        """Remember the refused members of a request after the endpoint accepted it without them."""
        for member in body.without:
            if member == "json_schema":
                self._schemas.add(request.schema)
            else:
                self.refused.add(member)
            self.learned[f"{self.name} refused {member}: {REFUSALS[member][1]}"] = None

    def body(self, request: Request, without: tuple[str, ...] = ()) -> RequestBody:
        """The body of a request, without refused members of this or earlier requests. One refused
        schema does not affect others; after two different ones, all are omitted.
        """
        refused = frozenset((*self.refused, *without))
        if request.schema in self._schemas or len(self._schemas) > 1:
            refused |= {"json_schema"}
        content = self._content(request, refused)
        forms = (form for form in ("json_schema", "json_object", "") if form not in refused)
        form = "tool" if self.structured == "tool" else next(forms)
        form = form if request.schema else ""
        # The schema is JSON text already.
        schema = request.schema
        schema = _FORMAT.sub("", schema) if "format" in refused else schema
        tail = self._answer_format(form, schema)
        tail = f",{tail}}}" if tail else "}"
        try:
            body = RequestBody((_dump(content)[:-1] + tail).encode())
        except UnicodeEncodeError:  # lone surrogates must be sent as escapes
            body = RequestBody((json.dumps(content)[:-1] + tail).encode("utf-8", "surrogatepass"))
        first = content["messages"][0]["role"]
        renamed = {name for name, own in self.service.names.items() if own in content}
        body.members = {*content, *renamed, first, form} - self._extra.keys() - refused
        body.without = without
        return body

    def _content(self, request: Request, refused: frozenset[str]) -> dict[str, Any]:
        """The members of a request, except those that enforce the schema."""
        full = "max_tokens" in refused and "max_completion_tokens" not in refused
        seed = self.service.names.get("seed", "seed")
        logprobs = tokens.LOGPROBS | {"top_logprobs": self.service.top_logprobs}
        return {
            "model": self.model,
            "messages": self._messages(request, refused),
            "max_completion_tokens" if full else "max_tokens": request.max_tokens,
            **{name: value for name, value in request.params if name not in refused},
            **({seed: request.seed} if request.sample and "seed" not in refused else {}),
            **self._extra,
            **(logprobs if request.words and "logprobs" not in refused else {}),
            **{name: value for name, value in self.service.members.items() if name not in refused},
        }

    def _answer_format(self, form: str, schema: str) -> str:
        """The members of a request that enforce a schema, as JSON without braces; "" if none does."""
        if form == "tool":
            function = f'{{"name":"answer","strict":true,"parameters":{schema}}}'
            choice = '"tool_choice":{"type":"function","function":{"name":"answer"}}'
            return f'"tools":[{{"type":"function","function":{function}}}],{choice}'
        strict = f',"json_schema":{{"name":"answer","strict":true,"schema":{schema}}}'
        strict = strict if form == "json_schema" else ""
        return f'"response_format":{{"type":"{form}"{strict}}}' if form else ""

    def _messages(self, request: Request, refused: frozenset[str]) -> list[dict[str, str]]:
        """The messages; parts that the endpoint refuses as members are in their text."""
        messages = [{"role": each.role, "content": each.content} for each in request.messages]
        if request.schema and self.structured != "tool" and "json_schema" in refused:
            messages[0]["content"] += f"\n\nThe JSON Schema of the answer:\n{request.schema}"
        if "system" in refused and messages[0]["role"] == "system":
            system = messages.pop(0)["content"]
            messages[0]["content"] = f"{system}\n\n{messages[0]['content']}"
        return messages

    def _usage(self, read: replies.Completion, request: Request) -> Usage:
        """The endpoint's token counts, else those of the tokenizer."""
        prompt, cached, answer = read.counts
        prompt = tokens.prompt_tokens(self, request) if prompt is None else prompt
        answer = self.count_tokens(read.text) if answer is None else answer
        return Usage(prompt, cached, answer)


def _without_quotes(message: str, model: str, request: Request) -> str:
    """A message in lower case, without the model's name and its quotes from the texts of a
    request.
    """
    texts = " ".join(" ".join(each.content for each in request.messages).split()).lower()
    message = re.sub(rf"(?<!\w){re.escape(model.lower())}(?!\w)", "", message.lower())
    starts = [i for i in range(len(message) - _QUOTE + 1) if message[i : i + _QUOTE] in texts]
    quoted = {i + offset for i in starts for offset in range(_QUOTE)}
    return "".join(letter for i, letter in enumerate(message) if i not in quoted)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
