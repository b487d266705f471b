"""graphiti-core's reranker asks the world's server, and puts first what answers the question."""

from __future__ import annotations

import os
import warnings

import pytest

from benchmarks.world import StandIn

os.environ["GRAPHITI_TELEMETRY_ENABLED"] = "false"
with warnings.catch_warnings():  # they are not ours to mend
    warnings.simplefilter("ignore")
    from graphiti_core.cross_encoder.openai_reranker_client import OpenAIRerankerClient
    from graphiti_core.llm_client.config import LLMConfig

pytestmark = pytest.mark.filterwarnings("default")
PASSAGES = [
    "Ada Costa lives in Oslo.",
    "Ada Costa is employed by Luma.",
    "Bruno Weber works at Acme.",
]


async def test_what_answers_the_question_comes_first() -> None:
    async with StandIn() as server:
        reranker = OpenAIRerankerClient(
            LLMConfig(api_key="none", model="gpt-4.1-mini", base_url=server.base_url)
        )
        try:
            ranked = await reranker.rank("Where does Ada Costa work?", PASSAGES)
        finally:
            await reranker.client.close()
        assert server.calls == {"relevance": 3}
    assert ranked[0][0] == "Ada Costa is employed by Luma."
    assert ranked[0][1] > 0.9
    assert sorted(passage for passage, _ in ranked) == sorted(PASSAGES)
