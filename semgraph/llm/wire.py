"""HTTP to an OpenAI-compatible endpoint, by the cheapest route through the openai package that keeps its client, its
authorisation, its base URL and its error types: `AsyncOpenAI.post` over its aiohttp transport, the answer as raw bytes.

(CPU per call against its own `chat.completions.create`: see `benchmarks/engine`.)
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from semgraph.errors import ModelUnavailable
from semgraph.llm.faults import Attempt, explain, not_openai, reported
from semgraph.llm.retry import Transient
from semgraph.redaction import learn, learn_from_addresses

if TYPE_CHECKING:
    from ssl import SSLContext

    from openai import AsyncOpenAI

OPENAI_URL = "https://api.openai.com/v1"
_CONNECT_SECONDS = 10.0
_MAX_CONNECTIONS = 1000


class Wire:
    """A connection pool to one endpoint. Nothing is opened, and nothing heavy imported, before the first request.

    Args:
        name: What asks, for messages: `openai:gpt-4.1-mini`.
        base_url: Such as `http://gpu:8000/v1`; None: the environment's `OPENAI_BASE_URL`, or OpenAI's own.
        api_key: The key; None: the environment's `OPENAI_API_KEY`. Endpoints other than OpenAI's may do without.
        timeout: Seconds that one attempt may take in all.
    """

    def __init__(self, name: str, base_url: str | None, api_key: str | None, timeout: float) -> None:
        self.name, self.timeout = name, timeout
        self.base_url = effective_url(base_url)
        self._api_key = api_key
        learn(api_key, os.environ.get("OPENAI_API_KEY"))
        learn_from_addresses([base_url or ""])
        self._opened = False

    async def post(self, path: str, body: bytes) -> tuple[dict[str, Any], float]:
        """Send one request.

        Returns:
            The JSON object that the endpoint answers with status 200, and how many seconds it took.

        Raises:
            RowError: The endpoint rejects this request.
            ModelUnavailable: It will answer none: wrong address, wrong key, unknown model, not of this protocol.
            Transient: It may answer the next attempt.
        """
        import openai

        client, response_type = self._client
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self.timeout):
                response = await client.post(path, cast_to=response_type, content=body)
        except TimeoutError:
            text = f"{self.name}: no answer from {self.base_url} in {self.timeout:g} s"
            raise Transient("timeout", text, seconds=self.timeout) from None
        except openai.OpenAIError as error:
            raise explain(error, Attempt(self.name, self.base_url, time.perf_counter() - began)) from error
        seconds = time.perf_counter() - began
        try:
            document = json.loads(response.content)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise not_openai(self.name, self.base_url, response.text)
        if document.get("error"):
            raise reported(document["error"], Attempt(self.name, self.base_url, seconds))
        return document, seconds

    async def aclose(self) -> None:
        """Close the connections."""
        if self._opened:
            await self._client[0].close()

    @cached_property
    def _client(self) -> tuple[AsyncOpenAI, type[Any]]:
        import httpx2
        import openai

        key = self._api_key or os.environ.get("OPENAI_API_KEY")
        if not key and self.base_url == OPENAI_URL:
            raise ModelUnavailable(
                f"{self.name} needs a key: set OPENAI_API_KEY, or name the variable that holds it with ?key_env=NAME"
            )
        limits = httpx2.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=_MAX_CONNECTIONS)
        client = openai.AsyncOpenAI(
            base_url=self.base_url,
            api_key=key or "none",  # vLLM, llama.cpp and the like ask for none; the package insists on one
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            http_client=openai.DefaultAioHttpClient(limits=limits, verify=_trusted()),
        )
        self._opened = True
        return client, httpx2.Response


@cache
def _trusted() -> SSLContext:
    """The certificates that are trusted, read once: that takes longer than a call to a model nearby."""
    import httpx2

    return httpx2.create_ssl_context()


def effective_url(base_url: str | None) -> str:
    """The address that is asked when `base_url` is given, without a slash at its end."""
    return (base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL).rstrip("/")
