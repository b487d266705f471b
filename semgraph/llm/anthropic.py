"""Models behind Anthropic's Messages API, which enforces schemas: their endpoint for OpenAI's protocol
ignores them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from semgraph.llm.base import Request
from semgraph.llm.openai import OpenAI
from semgraph.llm.replies import (
    Completion,
    Counts,
    UnreadableReply,
    content_of,
    count,
    finish_of,
    mapping,
    text_of,
)

_SENT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class Anthropic(OpenAI):
    """A model behind `POST {base_url}/messages`. Requests, errors and refusals are handled as those of
    `OpenAI`; only the form of requests and replies differs.
    """

    path = "/messages"

    def read(self, document: Mapping[str, Any]) -> Completion:
        """The answer in a reply. Raises UnreadableReply."""
        if "content" not in document:
            foreign = document.get("type") != "message"
            raise UnreadableReply("the reply has no content", foreign=foreign)
        text, thoughts = content_of(document["content"])
        finish = finish_of(document.get("stop_reason"))
        declined = text_of(mapping(document.get("stop_details")).get("explanation"))
        usage = mapping(document.get("usage"))
        prompt, written, cached = (count(usage.get(name)) for name in _SENT)
        if prompt is not None:
            prompt += (written or 0) + (cached or 0)
        return Completion(
            text=text,
            reasoning=thoughts,
            finish=finish,
            refusal=declined or "no reason given" if finish == "refusal" else "",
            model=text_of(document.get("model")),
            counts=Counts(prompt, min(cached or 0, prompt or 0), count(usage.get("output_tokens"))),
            tokens=[],
        )

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
