"""Models and embedders that are objects of a user: what they return is checked, counted and kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import semgraph
from semgraph.errors import EngineError
from semgraph.llm.base import Embeddings, Limits, Reply, Request, Usage

ROWS = [{"n": n, "body": f"row {n}"} for n in range(15)]
YES = '{"answer":"yes"}'


class Model:
    """A model as a user writes one. `reply` makes the answer to the request of this number."""

    name = "mine"
    limits = Limits(in_flight=4)
    exact_tokens = False

    def __init__(self, reply: Callable[[int], Any]) -> None:
        self.reply, self.asked = reply, 0

    def count_tokens(self, text: str) -> int:
        return len(text) // 4

    def dollars(self, usage: Usage) -> float:
        return usage.completion / 1000

    async def complete(self, request: Request) -> Reply:
        self.asked += 1
        return self.reply(self.asked)

    async def aclose(self) -> None:
        pass


@pytest.fixture
def kept(tmp_path: Path):
    """Run a filter over the rows with a model, and once more in another session."""

    def run(model: Model, **options: Any) -> semgraph.Result:
        plan = semgraph.table(ROWS, key=None, name="rows").sem_filter("Keep {body}?", step="kept")
        with semgraph.Session(llm=model, store="memory", folder=tmp_path, **options) as session:
            return session.run(plan)

    return run


def in_journal(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / ".semgraph" / "journal.db")) as file:
        return [call for (call,) in file.execute("SELECT call_id FROM answers")]


@pytest.mark.parametrize(
    "call_id", [lambda _: "", lambda _: "same", lambda n: str(n % 3)], ids=["no", "one", "three"]
)
def test_answers_without_an_id_of_their_own_are_all_kept(
    kept, tmp_path: Path, call_id: Callable[[int], str]
) -> None:
    def reply(n: int) -> Reply:
        return Reply(YES, Usage(10, 0, 2), call_id=call_id(n), dollars=0.5)

    model = Model(reply)
    first = kept(model)
    assert first.to_arrow().num_rows == model.asked == 15
    total = first.meter.total()
    assert (total.calls_issued, total.tokens_in, total.dollars) == (15, 150, 7.5)
    assert len(set(in_journal(tmp_path))) == 15
    second = kept(model)
    assert (second.to_arrow().num_rows, model.asked) == (15, 15)
    assert second.meter.total().calls_journal == 15
    assert second.meter.replayed.tokens_in == 150, "each call is counted, also in a later run"


def test_why_finds_the_answer_of_each_row_although_ids_repeat(tmp_path: Path) -> None:
    class Noting(Model):
        async def complete(self, request: Request) -> Reply:
            number = request.messages[-1].content.split()[-1]
            return Reply(f'{{"note":"number {number}"}}', call_id="same")

    notes = semgraph.table(ROWS, key=None, name="rows").sem_map(
        "Note {body}", returns={"note": str}, step="noted"
    )
    model = Noting(lambda _: None)
    with semgraph.Session(llm=model, store="memory", folder=tmp_path) as session:
        result = session.run(notes)
        for body, note in (("row 3", "number 3"), ("row 14", "number 14")):
            shown = session.why(f"noted:body={body}", result, messages=True)
            assert f'{{"note":"{note}"}}' in shown


@pytest.mark.parametrize(
    ("odd", "found"),
    [
        ({"text": None}, "text None"),
        ({"text": b"{}"}, "text b'{}'"),
        ({"usage": {"prompt_tokens": 3}}, "usage {'prompt_tokens': 3}"),
        ({"usage": Usage("12", 0, 1)}, "usage Usage(prompt='12'"),
        ({"usage": Usage(-1, 0, 1)}, "usage Usage(prompt=-1"),
        ({"seconds": None}, "seconds None"),
        ({"dollars": float("nan")}, "dollars nan"),
        ({"call_id": 7}, "call_id 7"),
        ({"call_id": None}, "call_id None"),
        ({"model": None}, "model None"),
        ({"finish": None}, "finish None"),
        ({"attempts": "1"}, "attempts '1'"),
        ({"logprobs": None}, "logprobs None"),
        ({"logprobs": (float("nan"),)}, "logprobs (nan,)"),
        ({"logprobs": ("a",)}, "logprobs ('a',)"),
    ],
)
def test_an_odd_member_of_a_reply_fails_its_row_and_names_the_class(
    kept, tmp_path: Path, odd: dict[str, Any], found: str
) -> None:
    def reply(n: int) -> Reply:
        given = {"text": YES, "usage": Usage(10, 0, 2), "call_id": f"c{n}", "dollars": 0.5}
        return Reply(**{**given, **(odd if n == 5 else {})})

    result = kept(Model(reply))
    assert (result.to_arrow().num_rows, len(result.failed)) == (14, 1)
    assert result.failed[0].error.startswith("malformed: Model.complete returned a Reply with ")
    assert found in result.failed[0].error
    assert result.meter.total().calls_issued == 15, "it is paid, so it is counted"
    assert len(in_journal(tmp_path)) == 14


def test_numbers_of_numpy_and_texts_that_are_no_unicode_are_kept(kept, tmp_path: Path) -> None:
    def reply(n: int) -> Reply:
        usage = Usage(np.int64(10), np.int32(0), np.int16(2))
        return Reply(
            YES, usage, seconds=np.float32(0.5), dollars=np.float32(0.5), call_id="\ud83d", model="\ud83d",
            finish="stop", logprobs=[np.float32(-0.5)],
        )  # fmt: skip

    assert kept(Model(reply)).to_arrow().num_rows == 15
    assert len(in_journal(tmp_path)) == 15


def test_what_is_no_reply_ends_the_run_and_names_the_class(kept) -> None:
    with pytest.raises(EngineError, match=r"Model\.complete returned 'yes', not a Reply"):
        kept(Model(lambda _: "yes"))


class Embedder:
    """An embedder as a user writes one."""

    name = "mine"

    def __init__(self, vectors: Callable[[list[str]], Any]) -> None:
        self.vectors = vectors

    async def dimensions(self) -> int:
        return 4

    def count_tokens(self, text: str) -> int:
        return len(text) // 4

    def dollars(self, usage: Usage) -> float:
        return 0.0

    async def embed(self, texts: list[str], partition: str = "") -> Embeddings:
        return self.vectors(list(texts))

    async def aclose(self) -> None:
        pass


async def embedded(vectors: Callable[[list[str]], Any]) -> Any:
    from semgraph.llm.stack import Limiter, Stack

    return await Stack().embedder(Embedder(vectors), Limiter()).embed(["a", "b"])


@pytest.mark.parametrize("kind", [np.float64, np.float16, np.int64])
async def test_vectors_of_another_type_are_taken(kind: type) -> None:
    done = await embedded(lambda texts: Embeddings(np.ones((len(texts), 4), kind)))
    assert (done.vectors.dtype, done.vectors.shape) == (np.float32, (2, 4))


@pytest.mark.parametrize(
    "vectors",
    [
        lambda texts: Embeddings(np.ones((len(texts) + 1, 4), np.float32)),
        lambda texts: Embeddings(np.ones(len(texts), np.float32)),
        lambda texts: Embeddings([[1.0], [1.0, 2.0]]),
        lambda texts: Embeddings(None),
        lambda texts: [[1.0]] * len(texts),
    ],
    ids=["more", "flat", "ragged", "none", "list"],
)
async def test_what_is_not_one_vector_for_each_text_names_the_class(vectors: Any) -> None:
    with pytest.raises(
        EngineError, match=r"Embedder\.embed returned .* one vector for each of 2 texts"
    ):
        await embedded(vectors)
