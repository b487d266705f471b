"""The services of models: one row for each, with what differs from OpenAI's protocol.

semgraph learns from an error that a service refuses a member of a request. A member that a service
ignores without an error must be in its row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Structured = Literal["json_schema", "json_object", "tool"]
_HOST = re.compile(r"(?:(https?)://)?(\[[^\]]*\]|[^:/]*)(?::(\d+))?(/.*)?\Z")
_ALL_INTERFACES = ("", "0.0.0.0", "[::]")  # noqa: S104 - a server listens there, no client asks there


@dataclass(frozen=True, eq=False)
class Service:
    """A service of models. The defaults are OpenAI's behaviour; "" and () are none."""

    name: str  # the prefix of its model specifications
    title: str  # its name in messages
    url: str  # "": the user names it
    key: str  # the variable with its key
    url_from: str = ""  # the variable that overrides the address
    structured: Structured = "json_schema"  # enforces schemas, unless a specification names another
    # Members of requests that it refuses or ignores, by their names in `openai.REFUSALS`, and what
    # else it lacks: `tool`, `format` (of dates in schemas), `dimensions` (of embedders), `embeddings`.
    refuses: Collection[str] = ()
    prices: str = ""  # its name in the price list (genai-prices); "": it is found by its address
    model: str = ""  # the default model if its key is set
    embedder: str = ""  # the default embedder
    path: str = ""  # the end of the address that the value of `url_from` lacks
    port: int = 0  # of a value of `url_from` without a scheme; 0: the value is an address
    key_optional: bool = False  # whether it answers without a key
    key_path: str = "/models"  # what is read to test a key
    protocol: Literal["chat", "messages"] = "chat"  # that of OpenAI, or of Anthropic
    members: Mapping[str, Any] = field(default_factory=dict)  # further ones of requests to a model
    names: Mapping[str, str] = field(default_factory=dict)  # of members, where they differ
    top_logprobs: int = 20  # the most alternatives of a token
    # The most texts (`batch`) and `tokens` of one embedding request.
    embeds_at_once: Mapping[str, int] = field(default_factory=dict)
    batches: bool = False  # whether it has OpenAI's batch endpoint
    billed: str = ""  # the member of `usage` with the dollars of a call

    def address(self, url: str | None, environment: Mapping[str, str]) -> str:
        """The address to use: `url`, else the environment's, else the service's, without a final
        slash.
        """
        named = environment.get(self.url_from, "").strip() if self.url_from else ""
        return (url or (self._completed(named) if named else self.url)).rstrip("/")

    def _completed(self, text: str) -> str:
        """The address that a value of `url_from` means: `gpu` is `http://gpu:11434/v1`."""
        if self.port and (found := _HOST.match(text)):
            scheme, host, port, path = found.groups("")
            host = "localhost" if host in _ALL_INTERFACES else host
            port = port or ("" if scheme else str(self.port))
            text = f"{scheme or 'http'}://{host}{port and ':' + port}{path}"
        root = text.rstrip("/")
        folder = self.path.removesuffix("/v1")
        return root if root.endswith("/v1") else root.removesuffix(folder) + self.path

    def needs_key(self, url: str) -> bool:
        """Whether an address answers with a key only. A server of the user's may need none."""
        return not self.key_optional and self.url in ("", url)

    def authorization(self, key: str) -> dict[str, str]:
        """The headers that prove who asks, with the version of Anthropic's protocol."""
        if self.protocol == "chat":
            return {"Authorization": f"Bearer {key}"} if key else {}
        return {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {})


# The default service of a model or an embedder with an address.
OPENAI = Service(
    "openai", "OpenAI", "https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL",
    prices="openai", model="gpt-4.1-mini", embedder="text-embedding-3-small?dimensions=1024",
    batches=True,
)  # fmt: skip
SERVICES: tuple[Service, ...] = (
    OPENAI,
    # The address is that of the user's resource; models are its deployments.
    Service("azure", "Azure OpenAI", "", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT",
            path="/openai/v1", prices="azure", refuses=("format",)),
    Service("anthropic", "Anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL", path="/v1", prices="anthropic", protocol="messages",
            members={"thinking": {"type": "disabled"}},
            refuses=("seed", "logprobs", "max_completion_tokens", "json_object", "tool",
                     "embeddings")),
    Service("gemini", "Google Gemini", "https://generativelanguage.googleapis.com/v1beta/openai",
            "GEMINI_API_KEY", prices="google", refuses=("seed", "logprobs"),
            embeds_at_once={"batch": 100}),
    # An embedding request may have 16,384 tokens, which are estimated here.
    Service("mistral", "Mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", prices="mistral",
            refuses=("max_completion_tokens", "logprobs", "format"),
            names={"seed": "random_seed", "dimensions": "output_dimension"},
            embeds_at_once={"tokens": 12_000}),
    Service("groq", "Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "GROQ_BASE_URL",
            path="/openai/v1", prices="groq", refuses=("logprobs", "embeddings")),
    Service("deepseek", "DeepSeek", "https://api.deepseek.com", "DEEPSEEK_API_KEY",
            structured="json_object", prices="deepseek", members={"thinking": {"type": "disabled"}},
            refuses=("json_schema", "seed", "format", "embeddings")),
    # Its `logprobs` is a number, with replies of another form.
    Service("together", "Together AI", "https://api.together.ai/v1", "TOGETHER_API_KEY",
            "TOGETHER_BASE_URL", prices="together", refuses=("logprobs", "dimensions"),
            embeds_at_once={"batch": 100}),
    Service("fireworks", "Fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY",
            "FIREWORKS_BASE_URL", path="/inference/v1", prices="fireworks", top_logprobs=5),
    # It drops members that a host lacks, unless they are required. Everybody may read /models.
    Service("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY",
            prices="openrouter", members={"provider": {"require_parameters": True}},
            key_path="/key", billed="cost"),
    Service("xai", "xAI", "https://api.x.ai/v1", "XAI_API_KEY", prices="x-ai",
            refuses=("logprobs", "embeddings")),
    Service("ollama", "Ollama", "http://localhost:11434/v1", "OLLAMA_API_KEY", "OLLAMA_HOST",
            path="/v1", port=11434, key_optional=True, refuses=("max_completion_tokens", "tool")),
    Service("vllm", "vLLM", "http://localhost:8000/v1", "VLLM_API_KEY", key_optional=True),
    Service("lmstudio", "LM Studio", "http://localhost:1234/v1", "LM_API_TOKEN", key_optional=True,
            refuses=("json_object", "logprobs", "tool")),
    Service("llamacpp", "llama.cpp", "http://localhost:8080/v1", "LLAMA_API_KEY", key_optional=True,
            refuses=("tool",)),
)  # fmt: skip
