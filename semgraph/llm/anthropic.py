"""Models behind Anthropic's Messages API, which enforces schemas (docs/decisions/0028)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from semgraph.llm.base import Request
from semgraph.llm.openai import OpenAI
from semgraph.llm.replies import Completion, count, mapping

_SENT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class Anthropic(OpenAI):
    """A model behind `POST {base_url}/messages`. Requests, errors and refusals are handled as those of
    `OpenAI`; only the form of requests and replies differs.
    """

    path = "/messages"

    def read(self, document: Mapping[str, Any]) -> Completion:
        """The answer in a reply. Raises UnreadableReply."""
        if "content" not in document:
            return super().read({})
        end, usage = document.get("stop_reason"), mapping(document.get("usage"))
        declined = mapping(document.get("stop_details")).get("explanation") or "no reason given"
        message = {"content": document["content"], "refusal": end == "refusal" and declined}
        prompt, written, cached = (count(usage.get(name)) for name in _SENT)
        tokens = {
            "prompt_tokens": None if prompt is None else prompt + (written or 0) + (cached or 0),
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens": usage.get("output_tokens"),
        }
        choices = [{"message": message, "finish_reason": end}]
        return super().read({"choices": choices, "usage": tokens, "model": document.get("model")})

    def _content(self, request: Request, refused: frozenset[str]) -> dict[str, Any]:
        content = super()._content(request, refused)
        content.pop("reasoning_effort", None)  # `effort` of `output_config`
        if content["messages"][0]["role"] == "system":
            content["system"] = content["messages"].pop(0)["content"]
        return content

    def _answer_format(self, form: str, schema: str) -> str:
        members = [f'"format":{{"type":"json_schema","schema":{schema}}}'] if form else []
        if effort := self._extra.get("reasoning_effort"):
            members.append(f'"effort":{json.dumps(effort)}')
        return f'"output_config":{{{",".join(members)}}}' if members else ""
