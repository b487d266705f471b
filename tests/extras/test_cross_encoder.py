"""sem_topk by cross_encoder, with a two-layer model made from a seed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from semgraph.conformance import CHECKS, Subject
from semgraph.conformance.cases import LIBRARY, Case, Oracle, node
from semgraph.errors import ModelUnavailable
from semgraph.llm.base import Limits
from semgraph.logical.plan import Choice
from tests.operators.cases import run

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a cross-encoder of two layers over letters."""
    import torch
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {token: i for i, token in enumerate([*special, *LETTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    torch.manual_seed(7)
    size = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    config = BertConfig(
        vocab_size=len(vocabulary), max_position_embeddings=128, num_labels=1, **size
    )
    folder = tmp_path_factory.mktemp("cross-encoder")
    BertForSequenceClassification(config).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=128, **names
    ).save_pretrained(folder)
    return folder


def way(model: Path | str, **more: Any) -> Any:
    return LIBRARY.get("sem_topk", Choice("cross_encoder", (("model", str(model)), *more.items())))


@pytest.mark.parametrize("check", [name for name in CHECKS if name != "quality"])
async def test_the_contract_holds(model: Path, check: str) -> None:
    await CHECKS[check](Subject("sem_topk", "cross_encoder", way(model)))


async def test_scores_are_those_of_the_model_and_nothing_is_asked(model: Path) -> None:
    from sentence_transformers import CrossEncoder

    texts = ["a loud bell", "a quiet bell", "rain", "a loud bell"]
    llm = Oracle(mind=None)  # type: ignore[arg-type]
    table = await run(Case("sem_topk", list(texts)), way(model, batch=2), llm)
    wanted = CrossEncoder(str(model)).predict([("How loud is “ ”?", text) for text in texts])
    assert table.column("score").to_pylist() == pytest.approx(
        [float(score) for score in wanted], abs=1e-5
    )
    assert llm.requests == []


async def test_the_question_is_the_context_where_there_is_one(model: Path) -> None:
    scores = []
    for reference in ("x", "y", "x"):
        case = Case("sem_topk", ["a bell"], reference=[reference], context=True)
        scores += (await run(case, way(model))).column("score").to_pylist()
    assert scores[0] == scores[2] != scores[1]


async def test_rows_without_text_come_last(model: Path) -> None:
    scores = (
        (await run(Case("sem_topk", ["bell", None, "rain", ""]), way(model)))
        .column("score")
        .to_pylist()
    )
    assert max(scores[1], scores[3]) < min(scores[0], scores[2])


async def test_the_event_loop_goes_on_meanwhile(model: Path) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(tick())
    await run(Case("sem_topk", [f"bell {i}" for i in range(200)]), way(model))
    task.cancel()
    assert ticks > 10


async def test_a_folder_that_holds_no_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable) as error:
        await run(Case("sem_topk", ["a"]), way(tmp_path))
    assert f'the model "{tmp_path}" cannot be loaded' in str(error.value)
    assert 'name it: cross_encoder(model="FOLDER")' in str(error.value)
    assert ".." not in str(error.value).replace(str(tmp_path), "")


def test_it_refuses_nothing_where_the_package_is_installed(model: Path) -> None:
    assert way(model).refuses(node("sem_topk"), Limits()) is None
