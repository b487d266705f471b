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
from semgraph.errors import EngineError, RowError
from semgraph.llm.base import Embeddings, Limits, Message, Reply, Request, Usage
from semgraph.llm.journal import Journal
from semgraph.llm.stack import Budget, Limiter, Stack

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


@pytest.mark.parametrize(
    ("spent", "attempts", "counted"),
    [
        ("hello", 1, 14),
        (Reply("x", usage=None), 1, 15),
        (Reply("x", call_id=None), 1, 15),
        (Reply("x", usage=Usage(-5, 0, 1.5)), 1, 15),
        (Reply("x", attempts=10**30), 1, 15),
        (None, None, 14),
    ],
)
@pytest.mark.parametrize("kind", ["truncated", "refused", None])
def test_odd_members_of_an_error_cost_its_row_alone(
    kept, tmp_path: Path, spent: Any, attempts: Any, counted: int, kind: Any
) -> None:
    class Failing(Model):
        async def complete(self, request: Request) -> Reply:
            if request.messages[-1].content.rstrip("?").endswith("row 4"):
                raise RowError(kind, "no", attempts=attempts, spent=spent)
            return await super().complete(request)

    result = kept(Failing(lambda n: Reply(YES, Usage(10, 0, 2), call_id=f"c{n}")))
    assert (result.to_arrow().num_rows, len(result.failed)) == (14, 1)
    calls = result.meter.total().calls_issued
    assert calls == counted or (kind == "truncated" and calls > counted)  # a longer one is tried


def test_an_impossible_number_of_attempts_fails_its_row(kept) -> None:
    def reply(n: int) -> Reply:
        return Reply(YES, call_id=f"c{n}", attempts=10**30 if n == 5 else 1)

    result = kept(Model(reply))
    assert (result.to_arrow().num_rows, len(result.failed)) == (14, 1)
    assert "attempts 1000" in result.failed[0].error


async def test_an_answer_that_was_cut_is_an_error_now_and_in_a_later_run(journal: Journal) -> None:
    model = Model(lambda n: Reply(YES, Usage(10, 0, 2), call_id=f"c{n}", finish="length"))
    request = Request("default", (Message("user", "Keep?"),), "")
    for attempts in (1, 0):
        with pytest.raises(RowError, match="answer cut at 2,048 tokens") as caught:
            await Stack(journal=journal).model(model, Limiter()).complete(request)
        assert (caught.value.kind, caught.value.attempts) == ("truncated", attempts)
        assert caught.value.spent.call_id == "c1"
    assert model.asked == 1


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


@pytest.mark.parametrize(
    ("odd", "found"),
    [
        ({"usage": None}, "usage None"),
        ({"usage": {"prompt": 3}}, "usage {'prompt': 3}"),
        ({"usage": Usage(None)}, "usage Usage(prompt=None"),
        ({"calls": None}, "calls None"),
        ({"attempts": None}, "attempts None"),
        ({"seconds": None}, "seconds None"),
        ({"dollars": "x"}, "dollars 'x'"),
        ({"replayed": None}, "replayed None"),
        ({"replayed": ("a",)}, "replayed ('a',)"),
        ({"failed": None}, "failed None"),
        ({"failed": {0: "x"}}, "failed {0: 'x'}"),
    ],
)
async def test_an_odd_member_of_embeddings_fails_their_texts_and_names_the_class(
    journal: Journal, odd: dict[str, Any], found: str
) -> None:
    def vectors(texts: list[str]) -> Embeddings:
        given = {"usage": Usage(3), "calls": 1, "attempts": 1}
        return Embeddings(np.ones((len(texts), 4)), **(given | odd))

    budget = Budget()
    stack = Stack(budget=budget, journal=journal)
    done = await stack.embedder(Embedder(vectors), Limiter()).embed(["a", "b"])
    assert list(done.failed) == [0, 1]
    assert (
        f"malformed: Embedder.embed returned Embeddings with {found}"
        in f"malformed: {done.failed[0]}"
    )
    assert budget.spent.tokens == (0 if "usage" in odd else 3), "it is paid, so it is counted"


async def test_an_error_of_a_text_that_is_not_there_is_ignored(journal: Journal) -> None:
    def vectors(texts: list[str]) -> Embeddings:
        failed = {7: RowError("x", "no"), "a": RowError("x", "no"), 1: RowError("x", "this")}
        return Embeddings(np.ones((len(texts), 4)), failed=failed)

    for stack in (Stack(), Stack(journal=journal)):
        done = await stack.embedder(Embedder(vectors), Limiter()).embed(["a", "b"])
        assert {place: str(error) for place, error in done.failed.items()} == {1: "this"}
