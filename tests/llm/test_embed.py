"""Turning texts into vectors: over the wire, and each text once."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from semgraph.errors import BudgetReached, ModelUnavailable, PlanError, RowError
from semgraph.llm.base import Embedder, Usage
from semgraph.llm.embed import OpenAIEmbedder
from semgraph.llm.journal import Journal, OwnText
from semgraph.llm.stack import Budget, Limiter, RetryPolicy, Stack
from semgraph.llm.tokens import FlatPrice
from tests.llm.server import Fault, ModelServer, error, vector_of

QUICK = RetryPolicy(attempts=3, first=0.001, longest=0.001)


@pytest.fixture
async def embedder(server: ModelServer):
    embedder = OpenAIEmbedder("embed-8", base_url=server.base_url, price=FlatPrice(1000))
    yield embedder
    await embedder.aclose()


def embed_once(embedder, limiter=None, batch=256, remember=256 << 20, **options):
    """The embedder in a stack, as a run has it."""
    wrapped = Stack(QUICK, **options).embedder(embedder, limiter or Limiter())
    coalesced = wrapped.inner if "budget" in options else wrapped
    coalesced.batch, coalesced.remember = batch, remember
    return wrapped


@pytest.fixture(params=["wrapped", "wrapped, journalled and budgeted"])
def any_embedder(request: pytest.FixtureRequest, embedder, journal: Journal):
    if request.param == "wrapped":
        return embed_once(embedder)
    return embed_once(embedder, journal=journal, budget=Budget(max_usd=1e6))


def fails_for(text: str, fault: Fault):
    async def embedding_fault(body: dict) -> Fault | None:
        return fault if text in body["input"] else None

    return embedding_fault


class TestEveryEmbedder:
    def test_it_is_an_embedder(self, any_embedder, server: ModelServer):
        assert isinstance(any_embedder, Embedder)
        assert any_embedder.name == f"openai:embed-8@{server.base_url}"
        assert any_embedder.count_tokens("12345") == 2
        assert any_embedder.dollars(Usage(1000)) == 1.0

    async def test_vectors_come_in_the_order_of_the_texts(self, any_embedder):
        texts = [f"text {i} 日本 \0" for i in range(600)]
        done = await any_embedder.embed(texts, "g1")
        assert done.vectors.dtype == np.float32
        assert np.array_equal(done.vectors, np.stack([vector_of(text) for text in texts]))

    async def test_requests_hold_at_most_256_texts(self, any_embedder, server: ModelServer):
        done = await any_embedder.embed([str(i) for i in range(600)])
        assert [len(request["input"]) for request in server.embedding_requests] == [256, 256, 88]
        assert (done.calls, done.attempts, done.journal) == (3, 3, 0)

    async def test_it_counts_tokens_and_dollars(self, any_embedder):
        done = await any_embedder.embed(["x" * 4000, "y" * 400])
        assert done.usage == Usage(1100)
        assert done.dollars == pytest.approx(1.1)
        assert done.seconds > 0

    async def test_dimensions_are_learned_from_the_endpoint(self, any_embedder):
        assert await any_embedder.dimensions() == 8

    async def test_no_texts_have_no_vectors(self, any_embedder):
        assert (await any_embedder.embed([])).vectors.shape == (0, 8)

    async def test_an_unreachable_endpoint_stops_the_run(self, any_embedder, server: ModelServer):
        await server.__aexit__()
        with pytest.raises(ModelUnavailable, match=r"no answer from 127\.0\.0\.1"):
            await any_embedder.embed(["x"])

    async def test_a_rejected_text_quotes_the_endpoint(self, any_embedder, server: ModelServer):
        server.embedding_fault = fails_for(
            "bad", error(400, "maximum context length is 8192 tokens")
        )
        try:
            done = await any_embedder.embed(["good", "bad"])
        except RowError as rejection:
            found = rejection
        else:
            assert list(done.failed) == [1]
            found = done.failed[1]
        assert "maximum context length is 8192 tokens" in str(found)

    async def test_a_transient_failure_is_repeated(self, any_embedder, server: ModelServer):
        async def fault(body: dict) -> Fault | None:
            return error(503, "busy") if len(server.embedding_requests) < 3 else None

        server.embedding_fault = fault
        done = await any_embedder.embed(["x"])
        assert (done.calls, done.attempts) == (1, 3)

    async def test_closing_twice_is_safe(self, any_embedder):
        await any_embedder.embed(["x"])
        await any_embedder.aclose()
        await any_embedder.aclose()


class TestOverTheWire:
    async def test_dimensions_are_asked_of_the_endpoint(self, server: ModelServer):
        embedder = OpenAIEmbedder("embed", dimensions=5, base_url=server.base_url)
        assert embedder.name == f"openai:embed@{server.base_url}?dimensions=5"
        assert await embedder.dimensions() == 5
        assert server.embedding_requests == []
        assert (await embedder.embed(["x"])).vectors.shape == (1, 5)
        assert server.embedding_requests == [
            {"model": "embed", "input": ["x"], "encoding_format": "base64", "dimensions": 5}
        ]
        await embedder.aclose()

    async def test_endpoints_without_base64_are_supported(self, server: ModelServer, embedder):
        server.plain_floats = True
        assert np.allclose((await embedder.embed(["x"])).vectors[0], vector_of("x"))

    async def test_long_texts_share_a_request_only_within_its_limit(
        self, server: ModelServer, embedder
    ):
        await embed_once(embedder).embed(["x" * 400_000, "y" * 400_000, "z"])
        assert sorted(len(request["input"]) for request in server.embedding_requests) == [1, 2]

    async def test_requests_of_one_call_run_together_within_the_limiter(self, server: ModelServer):
        server.latency = 0.05
        endpoint = OpenAIEmbedder("e", base_url=server.base_url)
        embedder = embed_once(endpoint, Limiter(in_flight=2, tpm=1e6))
        assert (await embedder.embed([str(i) for i in range(1000)])).calls == 4
        await embedder.aclose()

    async def test_an_endpoint_that_ignores_dimensions_is_reported(self, server: ModelServer):
        async def fault(body: dict) -> Fault:
            data = [{"index": i, "embedding": [0.0] * 8} for i in range(len(body["input"]))]
            return Fault(body={"data": data})

        server.embedding_fault = fault
        embedder = OpenAIEmbedder("e", dimensions=5, base_url=server.base_url)
        with pytest.raises(
            ModelUnavailable, match=r"requested 2 vectors of 5 dimensions, got 2 of 8\."
        ):
            await embedder.embed(["x", "y"])
        await embedder.aclose()

    async def test_a_reply_of_another_protocol_stops_the_run(self, server, embedder):
        server.embedding_fault = fails_for("x", Fault(body={"choices": []}))
        with pytest.raises(ModelUnavailable, match="not that of an OpenAI-compatible endpoint"):
            await embedder.embed(["x"])

    @pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
    @pytest.mark.parametrize(
        "data",
        [
            None, [], {}, "x", [None], [[]], [{"index": 0}], [{"embedding": None}],
            [{"index": 0, "embedding": "no base64!"}], [{"index": 0, "embedding": "AAAAAAA="}],
            [{"index": 0, "embedding": "AADAfw=="}], [{"index": 0, "embedding": "AACAfw=="}],
            [{"index": 0, "embedding": []}], [{"index": 0, "embedding": ""}],
            [{"index": 0, "embedding": [[1.0] * 8]}], [{"index": 0, "embedding": ["1.0"] * 8}],
            [{"index": 0, "embedding": [None] * 8}], [{"index": 0, "embedding": [True] * 8}],
            [{"index": 0, "embedding": [1e39] * 8}], [{"index": 0, "embedding": [10**400] * 8}],
            [{"index": 0, "embedding": {"values": [1.0]}}], [{"index": 1, "embedding": [1.0] * 8}],
            [{"index": "0", "embedding": [1.0] * 8}], [{"index": 0, "embedding": [1.0] * 8}] * 2,
        ],
    )  # fmt: skip
    async def test_vectors_that_cannot_be_read_cost_their_texts_only(
        self, server: ModelServer, embedder, data, first: bool
    ):
        once = embed_once(embedder)
        if not first:
            await once.embed(["before"])
        server.embedding_fault = fails_for("odd", Fault(body={"object": "list", "data": data}))
        done = await once.embed(["odd"])
        assert {
            place: error.kind in ("server", "vector") for place, error in done.failed.items()
        } == {0: True}
        assert (await once.embed(["after"])).vectors.shape == (1, 8)

    async def test_vectors_of_whole_numbers_are_read(self, server: ModelServer, embedder):
        data = [{"embedding": [1, 2, 3]}]
        server.embedding_fault = fails_for("x", Fault(body={"data": data, "usage": {"x": None}}))
        done = await embedder.embed(["x"])
        assert (done.vectors.tolist(), done.usage) == ([[1.0, 2.0, 3.0]], Usage(1))

    async def test_another_length_after_good_replies_costs_its_texts_only(
        self, server: ModelServer, embedder
    ):
        once = embed_once(embedder)
        await once.embed(["before"])
        data = [{"index": 0, "embedding": [1.0]}]
        server.embedding_fault = fails_for("odd", Fault(body={"data": data}))
        done = await once.embed(["odd"])
        assert str(done.failed[0]) == "its vector has 1 numbers, that of others 8"

    @pytest.mark.parametrize("status", [400, 422, 500])
    async def test_an_endpoint_that_refuses_base64_is_asked_for_numbers(
        self, server: ModelServer, embedder, status: int
    ):
        async def fault(body: dict) -> Fault | None:
            return error(status, "unknown: encoding_format") if "encoding_format" in body else None

        server.embedding_fault = fault
        for text in ("x", "y"):
            assert np.allclose((await embedder.embed([text])).vectors[0], vector_of(text))
        assert ["encoding_format" in b for b in server.embedding_requests] == [True, False, False]

    async def test_requests_at_one_time_learn_together_that_base64_is_refused(
        self, server: ModelServer, embedder
    ):
        async def fault(body: dict) -> Fault | None:
            await asyncio.sleep(0.02)
            return error(400, "unknown: encoding_format") if "encoding_format" in body else None

        server.embedding_fault = fault
        once = embed_once(embedder)
        dones = await asyncio.gather(*(once.embed([text], text) for text in "xyz"))
        assert [(done.failed, done.attempts) for done in dones] == [({}, 2)] * 3
        assert len(server.embedding_requests) == 6

    @pytest.mark.parametrize("status", [400, 500])
    async def test_the_refused_attempt_is_counted_when_the_next_one_fails(
        self, server: ModelServer, embedder, status: int
    ):
        async def fault(body: dict) -> Fault:
            refused = "encoding_format" in body
            return error(400, "unknown: encoding_format") if refused else error(status, "no")

        server.embedding_fault = fault
        done = await embed_once(embedder).embed(["x"])
        assert list(done.failed) == [0]
        assert done.failed[0].attempts == len(server.embedding_requests)

    async def test_retry_after_pauses_all_requests(self, server: ModelServer, embedder):
        async def fault(body: dict) -> Fault | None:
            server.times.append(asyncio.get_running_loop().time())
            return error(429, "slow", retry_after="0.2") if len(server.times) == 1 else None

        server.embedding_fault = fault
        embedder = embed_once(embedder)
        first = asyncio.create_task(embedder.embed(["x"]))
        await server.until(lambda server: server.times)
        await asyncio.sleep(0.05)  # the answer is here by now
        await asyncio.gather(first, embedder.embed(["y"]))
        assert min(server.times[1:]) - server.times[0] >= 0.2


class TestOnce:
    async def test_a_text_is_embedded_once_for_all_callers(self, server: ModelServer, embedder):
        once = embed_once(embedder)
        first, second = await asyncio.gather(once.embed(["a", "b"]), once.embed(["b", "c", "c"]))
        third = await once.embed(["c", "a"])
        assert [request["input"] for request in server.embedding_requests] == [["a", "b", "c"]]
        assert np.array_equal(
            second.vectors, np.stack([vector_of("b"), vector_of("c"), vector_of("c")])
        )
        assert np.array_equal(third.vectors, np.stack([vector_of("c"), vector_of("a")]))
        assert (first.calls, second.calls, third.calls) == (1, 0, 0)
        assert third.usage == Usage()
        assert third.dollars == 0.0

    async def test_the_cost_of_a_shared_request_is_divided_exactly(
        self, server: ModelServer, embedder
    ):
        once = embed_once(embedder)
        shares = await asyncio.gather(*(once.embed([f"{i}" * (i + 1) * 7]) for i in range(9)))
        total = sum(-(-len(text) // 4) for text in server.embedding_requests[0]["input"])
        assert len(server.embedding_requests) == 1
        assert sum(share.usage.prompt for share in shares) == total
        assert sum(share.dollars for share in shares) == pytest.approx(total / 1000)
        assert shares[8].usage.prompt > shares[0].usage.prompt
        assert sum(share.calls for share in shares) == sum(share.attempts for share in shares) == 1

    async def test_a_text_in_flight_is_not_sent_again(self, server: ModelServer, embedder):
        server.latency = 0.05
        once = embed_once(embedder)
        first = asyncio.create_task(once.embed(["a"]))
        await server.until(lambda server: server.embedding_requests)
        second = await once.embed(["a"])
        assert (await first).calls == 1
        assert second.calls == 0
        assert len(server.embedding_requests) == 1

    async def test_the_journal_is_asked_first(
        self, server: ModelServer, embedder, journal: Journal
    ):
        await embed_once(embedder, journal=journal).embed(["a", "b"], "g1")
        done = await embed_once(embedder, journal=journal).embed(["a", "b", "c"], "g1")
        assert [request["input"] for request in server.embedding_requests] == [["a", "b"], ["c"]]
        assert (done.journal, done.calls) == (2, 1)
        assert np.array_equal(done.vectors, np.stack([vector_of(text) for text in "abc"]))

    async def test_fresh_ignores_recorded_vectors_and_records_new_ones(
        self, server: ModelServer, embedder, journal: Journal
    ):
        await embed_once(embedder, journal=journal).embed(["a"])
        assert (await embed_once(embedder, fresh=True, journal=journal).embed(["a"])).calls == 1
        assert (await embed_once(embedder, journal=journal).embed(["a"])).journal == 1

    async def test_forgetting_a_partition_forgets_its_vectors(
        self, server: ModelServer, embedder, journal: Journal
    ):
        once = embed_once(embedder, journal=journal)
        await asyncio.gather(once.embed(["a"], "g1"), once.embed(["b"], "g2"))
        await journal.prune(None, ["g1"])
        again = embed_once(embedder, journal=journal)
        done = await asyncio.gather(again.embed(["a"], "g1"), again.embed(["b"], "g2"))
        assert [(each.journal, each.calls) for each in done] == [(0, 1), (1, 0)]

    async def test_a_partition_does_not_get_the_vectors_of_another(
        self, server: ModelServer, embedder, journal: Journal
    ):
        """Neither from memory, nor while they are on their way, nor from the journal."""
        once = embed_once(embedder, journal=journal)
        await asyncio.gather(once.embed(["a"], "g1"), once.embed(["a"], "g2"))
        assert len(server.embedding_requests) == 2
        assert (await once.embed(["a"], "g3")).calls == 1
        assert (await embed_once(embedder, journal=journal).embed(["a"], "g4")).journal == 0
        assert (await once.embed(["a"], "g1")).calls == 0
        assert (await embed_once(embedder, journal=journal).embed(["a"], "g2")).journal == 1

    async def test_texts_of_two_partitions_never_share_a_request(
        self, server: ModelServer, embedder
    ):
        once = embed_once(embedder, batch=2)
        await asyncio.gather(once.embed(["a", "b", "c"], "g1"), once.embed(["d", "a"], "g2"))
        assert sorted(request["input"] for request in server.embedding_requests) == [
            ["a", "b"],
            ["c"],
            ["d", "a"],
        ]

    async def test_memory_is_bounded_and_the_journal_fills_in(
        self, server: ModelServer, embedder, journal: Journal
    ):
        once = embed_once(embedder, journal=journal, remember=10 * 32)  # ten vectors of 8 float32
        texts = [str(i) for i in range(100)]
        await once.embed(texts)
        assert len(once.memory) == 10
        again = await once.embed(texts)
        assert (again.journal, again.calls) == (90, 0)
        assert np.array_equal(again.vectors, np.stack([vector_of(text) for text in texts]))

    async def test_a_rejected_text_does_not_cost_others_their_vectors(
        self, server: ModelServer, embedder
    ):
        server.embedding_fault = fails_for("bad", error(400, "too long"))
        once = embed_once(embedder)
        asked = [once.embed([text]) for text in ["a", "b", "bad", "c", "d"]]
        outcomes = await asyncio.gather(*asked)
        assert [{p: e.kind for p, e in done.failed.items()} for done in outcomes] == [
            {},
            {},
            {0: "rejected"},
            {},
            {},
        ]
        assert np.isnan(outcomes[2].vectors).all()
        # It may be asked for again: a failure is not remembered.
        server.embedding_fault = None
        assert (await once.embed(["bad"])).calls == 1

    @pytest.mark.parametrize(
        ("status", "attempts"),
        [(400, 1 + 8 * 2), (500, 10 + 8 * 3), (503, 10 + 1 + 8 * 3)],
    )
    async def test_one_text_that_is_always_refused_costs_few_attempts(
        self, server: ModelServer, embedder, status: int, attempts: int
    ):
        """A request of 256 texts is repeated ten times, its halves twice, the text itself twice."""
        server.embedding_fault = fails_for("bad and long", error(status, "cannot embed this"))
        policy = RetryPolicy(attempts=10, first=0.001, longest=0.001)
        once = Stack(policy).embedder(embedder, Limiter())
        texts = [*(f"text {n}" for n in range(255)), "bad and long"]
        done = await once.embed(texts)
        assert list(done.failed) == [255]
        assert np.array_equal(done.vectors[0], vector_of("text 0"))
        assert len(server.embedding_requests) <= attempts
        assert status == 503 or done.attempts == len(server.embedding_requests)

    async def test_an_endpoint_that_is_down_is_not_asked_for_every_text(
        self, server: ModelServer, embedder
    ):
        async def down(_body: dict) -> Fault:
            return error(503, "down")

        server.embedding_fault = down
        once = Stack(QUICK).embedder(embedder, Limiter())
        with pytest.raises(ModelUnavailable, match="down"):
            await once.embed([f"text {n}" for n in range(256)])
        assert len(server.embedding_requests) <= QUICK.attempts + 2

    @pytest.mark.parametrize(
        ("vector", "what"),
        [
            ([float("nan"), *[1.0] * 7], "NaN or infinity in it"),
            ([float("inf"), *[1.0] * 7], "NaN or infinity in it"),
            ([1.0] * 7, "7 numbers, that of others 8"),
        ],
    )
    async def test_a_vector_that_cannot_be_compared_costs_its_text_alone(
        self, server: ModelServer, embedder, journal: Journal, vector: list[float], what: str
    ):
        server.vectors["odd"] = vector
        once = Stack(QUICK, journal=journal).embedder(embedder, Limiter())
        await once.dimensions()
        done = await once.embed(["good", "odd", "better"])
        assert {place: str(error) for place, error in done.failed.items()} == {
            1: f"its vector has {what}"
        }
        # It is not recorded: it is asked for again, alone.
        del server.vectors["odd"]
        server.embedding_requests.clear()
        again = (
            await Stack(QUICK, journal=journal)
            .embedder(embedder, Limiter())
            .embed(["good", "odd", "better"])
        )
        assert not again.failed
        assert [body["input"] for body in server.embedding_requests] == [["odd"]]

    async def test_a_vector_of_another_length_costs_its_text_and_its_request_is_counted(
        self, server: ModelServer, embedder
    ):
        texts = [f"text {n}" for n in range(64)]
        server.vectors["text 40"] = [1.0, 2.0, 3.0]
        budget = Budget(max_tokens=200)
        done = await embed_once(embedder, budget=budget).embed(texts)
        assert {place: str(error) for place, error in done.failed.items()} == {
            40: "its vector has 3 numbers, that of others 8"
        }
        tokens = sum(-(-len(text) // 4) for text in texts)
        assert len(server.embedding_requests) == done.calls == done.attempts == 1
        assert done.usage.prompt == budget.spent.tokens == tokens
        assert np.isnan(done.vectors[40]).all()
        assert np.array_equal(done.vectors[41], vector_of("text 41"))

    @pytest.mark.parametrize("embedding", [None, [], "no base64!", {"a": 1}])
    async def test_one_vector_that_cannot_be_read_costs_its_text_alone(
        self, server: ModelServer, embedder, embedding
    ):
        async def odd(body: dict) -> Fault:
            vectors = [embedding, *[[1.0] * 8] * (len(body["input"]) - 1)]
            return Fault(body={"data": [{"embedding": vector} for vector in vectors]})

        server.embedding_fault = odd
        done = await embed_once(embedder).embed(["a", "b", "c"])
        assert {place: str(error) for place, error in done.failed.items()} == {
            0: "its vector has no numbers in it"
        }
        assert len(server.embedding_requests) == 1

    @pytest.mark.parametrize("first", [["odd"], ["odd", "good"]])
    async def test_one_odd_vector_does_not_fix_the_length(
        self, server: ModelServer, embedder, journal: Journal, first: list[str]
    ):
        server.vectors["odd"] = [1.0, 2.0, 3.0]
        for options in ({}, {"journal": journal}):
            once = embed_once(embedder, **options)
            await once.embed(first)
            done = await once.embed([f"text {n}" for n in range(5)])
            assert (done.failed, done.vectors.shape) == ({}, (5, 8))
            done = await once.embed(["odd", "text 1"])
            assert str(done.failed[0]) == "its vector has 3 numbers, that of others 8"
            assert len(done.failed) == 1
        # It is no longer in the journal.
        del server.vectors["odd"]
        done = await embed_once(embedder, journal=journal).embed(["odd", "text 1"])
        assert (done.failed, done.journal) == ({}, 1)

    async def test_a_vector_of_another_length_than_a_recorded_one_fails(
        self, server: ModelServer, embedder, journal: Journal
    ):
        await embed_once(embedder, journal=journal).embed(["a", "b"])
        server.vectors["c"] = [1.0] * 16
        for texts in (["a", "c"], ["a", "b", "c"]):
            another = OpenAIEmbedder("embed-8", base_url=server.base_url)
            done = await embed_once(another, journal=journal).embed(texts)
            await another.aclose()
            assert {texts[place]: str(error) for place, error in done.failed.items()} == {
                "c": "its vector has 16 numbers, that of others 8"
            }
            assert done.journal == len(texts) - 1

    async def test_a_text_that_a_gateway_blocks_fails_alone_in_a_later_run(
        self, server: ModelServer, embedder, journal: Journal
    ):
        server.embedding_fault = fails_for("bad", error(502, "bad gateway"))
        for _ in range(2):
            another = OpenAIEmbedder("embed-8", base_url=server.base_url)
            done = await embed_once(another, journal=journal).embed(["a", "b", "bad", "c"])
            await another.aclose()
            assert list(done.failed) == [2]
        assert done.journal == 3

    async def test_texts_that_are_embedded_at_last_are_not_kept_as_failed(
        self, server: ModelServer, embedder
    ):
        once = embed_once(embedder)
        server.embedding_fault = fails_for("bad", error(500, "no"))
        await once.embed(["a", "b", "bad"])
        retried = once.inner.inner
        assert list(retried.failed) == ["bad"]
        server.embedding_fault = None
        await once.embed(["bad"])
        assert retried.failed == {}

    async def test_a_cancelled_caller_does_not_disturb_the_others(
        self, server: ModelServer, embedder
    ):
        server.latency = 0.05
        once = embed_once(embedder)
        tasks = [asyncio.create_task(once.embed([text, "shared"])) for text in "ab"]
        await server.until(lambda server: server.embedding_requests)
        tasks[0].cancel()
        first, second = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(first, asyncio.CancelledError)
        assert np.array_equal(second.vectors, np.stack([vector_of("b"), vector_of("shared")]))
        assert len(server.embedding_requests) == 1

    async def test_a_request_without_callers_is_cancelled(self, server: ModelServer, embedder):
        server.latency = 60
        once = embed_once(embedder)
        tasks = [asyncio.create_task(once.embed([text])) for text in "ab"]
        await server.until(lambda server: server.embedding_requests)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server.latency = 0
        assert (await once.embed(["a"])).calls == 1

    async def test_a_caller_cancelled_at_once_sends_nothing(self, server: ModelServer, embedder):
        once = embed_once(embedder)
        task = asyncio.create_task(once.embed(["a"]))
        asyncio.get_running_loop().call_soon(task.cancel)
        await asyncio.gather(task, return_exceptions=True)
        assert (await once.embed(["b"])).calls == 1
        assert [request["input"] for request in server.embedding_requests] == [["b"]]

    async def test_the_budget_admits_before_the_spend(self, server: ModelServer, embedder):
        budget = Budget(max_tokens=1000)
        once = embed_once(embedder, budget=budget)
        await once.embed(["x" * 3600])
        assert budget.spent.tokens == 900
        assert budget.spent.calls == 0
        with pytest.raises(
            BudgetReached,
            match=r"stopped before the next embeddings: it would pass max_tokens 1,000 \(spent 900\)",
        ):
            await once.embed(["y" * 404])
        await once.embed(["z" * 400])
        assert len(server.embedding_requests) == 2

    async def test_a_limit_in_dollars_needs_a_price(self, server: ModelServer):
        unpriced = embed_once(
            OpenAIEmbedder("e", base_url=server.base_url), budget=Budget(max_usd=1)
        )
        with pytest.raises(PlanError, match="no price is known for openai:e@http"):
            await unpriced.embed(["x"])
        assert not server.embedding_requests


class TestTime:
    """`max_seconds` bounds embeddings as it bounds chats, and what is paid for is waited for."""

    async def test_a_hanging_embedder_stops_at_max_seconds(self, embedder, server: ModelServer):
        server.embedding_fault = fails_for("never", Fault(hang=True))
        once = embed_once(embedder, budget=Budget(max_seconds=0.2))
        with pytest.raises(
            BudgetReached,
            match=r"stopped while waiting for the next embeddings: max_seconds 0\.2 pas",
        ):
            async with asyncio.timeout(60):
                await once.embed(["never"])

    async def test_a_hanging_probe_of_the_vector_length_stops_at_max_seconds(
        self, embedder, server: ModelServer
    ):
        server.embedding_fault = fails_for("dimensions", Fault(hang=True))
        once = embed_once(embedder, budget=Budget(max_seconds=0.2))
        with pytest.raises(BudgetReached, match=r"the embedder's probe: max_seconds 0\.2 passed"):
            async with asyncio.timeout(60):
                await once.dimensions()

    async def test_embeddings_in_flight_are_kept_when_calls_reach_their_limit(
        self, embedder, endpoint, ask, journal: Journal, server: ModelServer
    ):
        gate = asyncio.Event()

        async def held(_: dict) -> None:
            await gate.wait()

        server.embedding_fault = held
        budget = Budget(max_calls=0)
        once, model = (
            embed_once(embedder, journal=journal, budget=budget),
            Stack(budget=budget).model(endpoint, Limiter()),
        )
        embedding = asyncio.create_task(once.embed(["paid"]))
        await server.until(lambda server: server.embedding_requests)
        call = asyncio.create_task(model.complete(ask()))
        await asyncio.wait([call], timeout=0.1)
        assert not call.done(), (
            "the call says that the limit is reached only when the embeddings are here"
        )
        gate.set()
        with pytest.raises(BudgetReached, match="max_calls 0"):
            await call
        assert embedding.done()
        assert list(await journal.find_vectors([OwnText("", "paid")], once.name)) == [
            OwnText("", "paid")
        ]

    async def test_requests_in_flight_are_kept_when_another_one_reaches_a_limit(
        self, embedder, journal: Journal, server: ModelServer
    ):
        """Of three requests the budget admits two: their vectors are recorded, although the caller
        gets an error.
        """
        gate = asyncio.Event()

        async def held(_: dict) -> None:
            await gate.wait()

        server.embedding_fault = held
        once = embed_once(embedder, journal=journal, budget=Budget(max_tokens=5), batch=2)
        texts = ["1", "2", "3", "4", "5", "6"]
        embedding = asyncio.create_task(once.embed(texts))
        await server.until(lambda server: len(server.embedding_requests) == 2)
        gate.set()
        with pytest.raises(BudgetReached, match="max_tokens 5"):
            await embedding
        kept = await journal.find_vectors([OwnText("", text) for text in texts], once.name)
        assert sorted(own.text for own in kept) == ["1", "2", "3", "4"]
