"""Counting tokens and dollars: exactly where that can be known, and saying so where it cannot."""

from __future__ import annotations

import subprocess
import sys

import pytest

from semgraph.llm.base import Usage
from semgraph.llm.openai import OpenAI
from semgraph.llm.tokens import FlatPrice, TokenCounter, encoding_of, price_of


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4.1-mini", "o200k_base"),
        ("gpt-4o-2024-08-06", "o200k_base"),
        ("gpt-5", "o200k_base"),
        ("openai/gpt-5.2-mini", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("gpt-oss-120b", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo-0125", "cl100k_base"),
        ("text-embedding-3-large", "cl100k_base"),
        ("Qwen3-32B", None),
        ("gpt-4all", None),
        ("mistral-o3", None),
    ],
)
def test_openais_models_have_a_known_vocabulary(model: str, encoding: str | None):
    assert encoding_of(model) == encoding


def test_tokens_of_openais_models_are_counted_exactly():
    counter = TokenCounter("gpt-4.1-mini")
    assert counter.exact
    # The published example of that vocabulary, and one text that no tokenizer may trip over.
    assert counter.count("tiktoken is great!") == 6
    assert counter.count("<|endoftext|>") > 1
    assert counter.count("") == 0
    assert counter.count("x \ud83d y") >= 3


def test_tokens_of_other_models_are_estimated_and_marked():
    counter = TokenCounter("Qwen3-32B")
    assert not counter.exact
    assert [counter.count("x" * n) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    # Three bytes each: such characters are no quarter of a token.
    assert counter.count("日本語") == 3
    assert counter.count("\ud83d") == 1


def test_counting_loads_one_vocabulary_and_not_the_packages_five():
    """Its Python part reads all of them, 0.5 s and 80 MB; what is used must still be the package as
    installed.
    """
    code = """
import sys
from semgraph.llm.tokens import TokenCounter
assert TokenCounter("gpt-4o").count("hello world") == 2
assert "bpe_openai" not in sys.modules
import warnings; warnings.simplefilter("ignore")
import bpe_openai
assert len(bpe_openai.get_encoding("o200k_base").encode("hello world")) == 2
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_price_is_found_by_model_and_provider():
    price = price_of("gpt-4.1-mini")
    assert price.dollars(Usage(prompt=1_000_000, cached=0, completion=0)) == pytest.approx(0.4)
    assert price.dollars(Usage(prompt=1_000_000, cached=1_000_000, completion=0)) == pytest.approx(
        0.1
    )
    assert price.dollars(Usage(prompt=0, cached=0, completion=1_000_000)) == pytest.approx(1.6)
    assert price_of("gpt-4.1-mini-2025-04-14") == price
    assert price_of("text-embedding-3-small").dollars(Usage(1_000_000)) == pytest.approx(0.02)


def test_other_providers_are_known_by_their_address():
    assert (
        price_of("deepseek-chat", "https://api.deepseek.com").dollars(
            Usage(1_000_000, 0, 1_000_000)
        )
        > 0
    )


@pytest.mark.parametrize(
    "model", ["gpt-4.1-mini", "o3", "gpt-5-mini", "gpt-4o", "text-embedding-3-large"]
)
def test_prices_are_those_of_the_list(model: str):
    import genai_prices

    usage = Usage(prompt=1234, cached=234, completion=56 if not model.startswith("text") else 0)
    tokens = genai_prices.Usage(
        input_tokens=1234, cache_read_tokens=234, output_tokens=usage.completion
    )
    if model.startswith("text"):
        usage, tokens = Usage(1234), genai_prices.Usage(input_tokens=1234)
    expected = genai_prices.calc_price(tokens, model, provider_id="openai").total_price
    assert price_of(model).dollars(usage) == pytest.approx(float(expected))


def test_a_tiered_price_is_looked_up_each_time():
    """Such models cost more per token above a number of tokens."""
    price = price_of("gemini-2.5-pro", "https://generativelanguage.googleapis.com/v1beta/openai")
    short, long = price.dollars(Usage(100_000)) / 100_000, price.dollars(Usage(400_000)) / 400_000
    assert long > short * 1.5


@pytest.mark.parametrize(
    ("model", "url"),
    [
        ("no-such-model-at-all", None),
        ("gpt-4.1-mini", "http://gpu:8000/v1"),
        ("Qwen3-32B", "http://gpu:8000/v1"),
    ],
)
def test_an_unknown_price_is_none_and_never_zero(model: str, url: str | None):
    assert price_of(model, url) is None
    assert OpenAI(model, url or "https://api.openai.com/v1").dollars(Usage(1, 0, 1)) is None


async def test_an_answer_without_a_price_has_no_dollars(endpoint, ask):
    assert (await endpoint.complete(ask())).dollars is None


def test_a_price_may_be_given(server):
    endpoint = OpenAI("Qwen3", server.base_url, price=FlatPrice(prompt=2, completion=8))
    assert endpoint.dollars(Usage(1_000_000, 500_000, 1_000_000)) == 10
