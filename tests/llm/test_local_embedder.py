"""A real small sentence model in this process, fetched into the user's cache once."""

from __future__ import annotations

import asyncio
import random
import sys

import numpy as np
import pytest

from semgraph.errors import ModelUnavailable, PlanError
from semgraph.llm.base import Embedder, Usage
from semgraph.llm.embed import LocalEmbedder, SentenceTransformersEmbedder


@pytest.fixture(scope="module")
def embedder():
    embedder = LocalEmbedder(threads=1)
    yield embedder
    asyncio.run(embedder.aclose())


def sentences(count: int, seed: int = 3) -> list[str]:
    """Sentences of very different lengths."""
    dice = random.Random(seed)
    words = [
        "river",
        "paints",
        "the",
        "old",
        "engine",
        "while",
        "seven",
        "committees",
        "argue",
        "about",
        "Köln",
        "and",
        "soup",
    ]
    return [" ".join(dice.choices(words, k=dice.randint(1, 60))) + f" {n}" for n in range(count)]


async def test_it_is_an_embedder_with_a_name_and_384_dimensions(embedder):
    assert isinstance(embedder, Embedder)
    assert embedder.name == "local:all-MiniLM-L6-v2"
    assert await embedder.dimensions() == 384
    assert embedder.dollars(Usage(1000)) == 0


async def test_texts_of_similar_meaning_have_similar_vectors(embedder):
    done = await embedder.embed(
        ["A cat sits on the mat.", "A kitten rests on a rug.", "The stock market fell today.", "Shares lost value this morning."]
    )  # fmt: skip
    cosine = done.vectors @ done.vectors.T
    assert done.vectors.dtype == np.float32
    assert np.allclose(np.diag(cosine), 1, atol=1e-6), "vectors are normalised"
    assert cosine[0, 1] > 0.6
    assert cosine[2, 3] > 0.5
    assert cosine[:2, 2:].max() < 0.2
    assert (done.calls, done.dollars) == (1, 0.0)


async def test_the_vectors_are_those_of_the_named_model(embedder):
    """Against cosines that are published of the unquantised model."""
    done = await embedder.embed(
        [
            "That is a happy person",
            "That is a happy dog",
            "That is a very happy person",
            "Today is a sunny day",
        ]
    )
    cosine = (done.vectors @ done.vectors.T)[0, 1:]
    assert np.allclose(cosine, [0.695, 0.943, 0.257], atol=0.02)


async def test_a_vector_does_not_depend_on_the_other_texts(embedder):
    texts = sentences(70)
    together = (await embedder.embed(texts)).vectors
    alone = np.vstack([(await embedder.embed([text])).vectors for text in texts[::7]])
    assert np.abs(together[::7] - alone).max() < 1e-5
    assert np.abs((await embedder.embed(texts[::-1])).vectors[::-1] - together).max() < 1e-5


async def test_the_beginning_of_a_long_text_is_embedded(embedder):
    long = "one two three " * 200
    done = await embedder.embed([long, long + "four five six"])
    assert np.array_equal(done.vectors[0], done.vectors[1])
    assert embedder.count_tokens(long) == 256
    assert done.usage == Usage(prompt=512)


async def test_odd_texts(embedder):
    done = await embedder.embed(["", " ", "\ud83d", "👋🏽", "a\x00b"])
    assert np.isfinite(done.vectors).all()
    assert (await embedder.embed([])).vectors.shape == (0, 384)


async def test_a_cancelled_request_lets_the_next_one_in(embedder):
    task = asyncio.create_task(embedder.embed(sentences(20_000)))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(60):
        await embedder.embed(["next"])


class TestErrors:
    @pytest.fixture
    def without_files(self, tmp_path):
        return LocalEmbedder(env={"SEMGRAPH_HOME": str(tmp_path), "SEMGRAPH_OFFLINE": "1"})

    @pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
    async def test_a_missing_extra_is_named(self, monkeypatch, package):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ModelUnavailable, match=r'pip install "semgraph\[local\]"'):
            await LocalEmbedder().embed(["x"])

    async def test_offline_without_the_files_names_the_command_to_copy_them(self, without_files):
        with pytest.raises(
            ModelUnavailable, match=r"copy model.onnx and tokenizer.json to this machine"
        ):
            await without_files.embed(["x"])
        assert without_files.count_tokens("12345678") == 2
        assert await without_files.dimensions() == 384

    def test_a_language_model_is_not_an_embedder(self):
        with pytest.raises(PlanError, match="unknown local embedder"):
            LocalEmbedder("SmolLM2-135M")


async def test_sentence_transformers_names_the_missing_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    embedder = SentenceTransformersEmbedder("BAAI/bge-small-en-v1.5")
    assert isinstance(embedder, Embedder)
    assert embedder.name == "sentence-transformers:BAAI/bge-small-en-v1.5"
    for work in (embedder.embed(["x"]), embedder.dimensions()):
        with pytest.raises(
            ModelUnavailable, match=r'pip install "semgraph\[sentence-transformers\]"'
        ):
            await work
