"""Spans of OpenTelemetry: their tree, their names, and that their tokens are those of the meter."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import semgraph
from semgraph import telemetry
from semgraph.conformance.cases import Grams, Mind, Oracle
from semgraph.errors import ModelUnavailable, RowError
from semgraph.llm.base import Borrowed, Message, Reply, Request
from semgraph.llm.stack import Budget, Limiter, RetryPolicy, Stack
from semgraph.meter import StepMetrics
from tests.execution.conftest import STORY, Work, said
from tests.llm.server import Answer, Fault, ModelServer, error
from tests.plans.conftest import loaded

PAGE = Path(__file__).parents[2] / "docs" / "telemetry.md"
NOTES = [{"id": str(n), "text": f"secret {n}"} for n in range(4)]
PLAN = """
plan: two
inputs: {notes: {id: string, text: string}}
steps:
  one: [{from: notes}, {sem_map: {prompt: "Shorten {text}.", returns: {short: string}}}]
  other: [{from: notes}, {sem_map: {prompt: "Sum up {text}.", returns: {short: string}}}]
returns: [one, other]
"""


class Spans:
    """The spans that ended in a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.exporter, self.provider = InMemorySpanExporter(), TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("semgraph")
        monkeypatch.setattr(trace, "get_tracer", lambda _: self.tracer)

    def __iter__(self):
        return iter(self.exporter.get_finished_spans())

    def named(self, begin: str) -> list[ReadableSpan]:
        """The spans whose names begin so."""
        return [span for span in self if span.name.startswith(begin)]

    def paths(self) -> Counter[str]:
        """The names from the root to each span."""
        spans = {span.context.span_id: span for span in self}

        def path(span: ReadableSpan) -> str:
            above = spans.get(span.parent.span_id) if span.parent else None
            return f"{path(above)} > {span.name}" if above else span.name

        return Counter(map(path, spans.values()))

    def sum(self, name: str, begin: str = "") -> float:
        """The sum of an attribute."""
        return sum(span.attributes.get(name) or 0 for span in self.named(begin))


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """The spans of a test; the provider of the process stays as it is."""
    return Spans(monkeypatch)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def assert_tokens_are_those_of_the_meter(spans: Spans, total: StepMetrics) -> None:
    assert spans.sum("gen_ai.usage.input_tokens") == total.tokens_in
    assert spans.sum("gen_ai.usage.cache_read.input_tokens") == total.tokens_cached
    assert spans.sum("gen_ai.usage.output_tokens") == total.tokens_out
    assert len(spans.named("chat ")) == total.calls_issued
    assert len(spans.named("embeddings ")) == total.embeddings
    assert (
        spans.sum("semgraph.attempts", "chat") + spans.sum("semgraph.attempts", "emb")
        == total.attempts
    )
    if total.dollars is not None:
        calls = spans.sum("semgraph.dollars", "chat") + spans.sum("semgraph.dollars", "emb")
        assert calls == pytest.approx(total.dollars)
    assert (
        spans.sum("semgraph.tokens_out", "run")
        == spans.sum("semgraph.tokens_out", "step")
        == total.tokens_out
    )


async def test_a_recorded_run_is_a_tree_of_run_window_step_and_call(spans: Spans) -> None:
    async with semgraph.Session(llm="recorded", store="memory", journal=False) as session:
        result = await session.arun(loaded("add_episode"))
    assert_tokens_are_those_of_the_meter(spans, result.meter.total())
    paths = spans.paths()
    chat = "chat local:Qwen2.5-Coder-1.5B"
    assert paths["run add_episode"] == 1
    assert paths[f"run add_episode > ahead > step read/mentions > {chat}"] == 3
    assert paths["run add_episode > window"] >= 3
    assert all(path.startswith("run add_episode") for path in paths)
    [run] = spans.named("run ")
    assert attributes(run)["semgraph.run"] == result.run
    assert attributes(run)["semgraph.rows_committed"] == result.committed == 3
    assert attributes(run)["semgraph.calls_issued"] == result.cost.calls
    step = spans.named("step read/mentions")[0]
    told = {
        "semgraph.step": "read/mentions",
        "semgraph.operator": "sem_map",
        "semgraph.implementation": "per_row",
    }
    assert told.items() <= attributes(step).items()
    call = attributes(spans.named(chat)[0])
    assert call["gen_ai.operation.name"] == "chat"
    assert call["gen_ai.provider.name"] == "recorded"
    assert call["gen_ai.response.finish_reasons"] == ("stop",)
    assert call["gen_ai.output.type"] == "json"


async def test_no_span_holds_a_text_of_a_row_or_an_answer(simple: Work, spans: Spans) -> None:
    simple.model.poison("refusal", "Rome")
    await simple.run(said(STORY[:4]))
    texts = ["Ann", "Luma", "Rome", "Ben", "I cannot help"]
    told = [json.dumps([span.name, attributes(span)]) for span in spans]
    assert told
    assert [text for text in texts if any(text in each for each in told)] == []
    assert all(not span.events and not span.status.description for span in spans)


def test_the_page_names_every_attribute(spans: Spans) -> None:
    page = PAGE.read_text(encoding="utf-8")
    own = {f"semgraph.{name}" for name in StepMetrics().as_dict()} - {"semgraph.how"}
    known = {*telemetry.CONVENTIONS.values(), *own}
    assert [name for name in sorted(known) if f"`{name}`" not in page] == []


async def test_every_attribute_of_a_run_is_on_the_page(simple: Work, spans: Spans) -> None:
    await simple.run(said(STORY[:3]))
    page = set(re.findall(r"`([\w.]+)`", PAGE.read_text(encoding="utf-8")))
    assert {name for span in spans for name in attributes(span)} <= page


async def test_windows_and_embeddings_are_spans(simple: Work, spans: Spans) -> None:
    result = await simple.run(said(STORY[:3]))
    assert_tokens_are_those_of_the_meter(spans, result.meter.total())
    windows = spans.named("window")
    assert sorted(attributes(each)["semgraph.first_row"] for each in windows) == [0, 1, 2]
    assert {attributes(each)["semgraph.rows"] for each in windows} == {1}
    [*embeddings] = spans.named("embeddings stand-in")
    assert embeddings
    assert {span.kind.name for span in [*embeddings, *spans.named("chat")]} == {"CLIENT"}
    address = attributes(spans.named("chat")[0])
    assert (address["server.address"], address["server.port"]) == ("127.0.0.1", simple.model.port)


async def test_answers_of_the_journal_have_no_spans_of_calls(simple: Work, spans: Spans) -> None:
    rows = said(STORY[:4])
    stopped = await simple.run(rows, session={"max_calls": 3})
    assert stopped.stopped
    assert attributes(spans.named("run ")[0])["semgraph.stopped"] is True
    assert len(spans.named("chat ")) == 3
    assert spans.sum("semgraph.calls_issued", "step") == 3, "also of the step that stopped"
    spans.exporter.clear()
    rest = await simple.run(rows, resume=stopped.run)
    assert rest.meter.total().calls_journal
    assert_tokens_are_those_of_the_meter(spans, rest.meter.total())


def run(folder: Path, llm: Any, **options: Any) -> Any:
    (folder / "two.yaml").write_text(PLAN, encoding="utf-8")
    with semgraph.Session(
        llm=llm, embedder=Grams(), store="memory", folder=folder, **options
    ) as session:
        return session.run(folder / "two.yaml", notes=NOTES)


class Named(Oracle):
    """A model that answers every question, and refuses those with `refused`."""

    def __init__(self, refused: str = "-") -> None:
        super().__init__(Mind(answer=lambda _: {"short": "x"}))
        self.refused = refused

    async def complete(self, request: Request) -> Reply:
        reply = replace(await super().complete(request), model="m-1")
        if self.refused in request.messages[-1].content:
            raise RowError("refused", "secret 1", attempts=1, spent=reply)
        return reply


def test_concurrent_steps_have_their_own_calls(tmp_path: Path, spans: Spans) -> None:
    result = run(tmp_path, Named(), journal=False)
    assert_tokens_are_those_of_the_meter(spans, result.meter.total())
    assert spans.paths() == {
        "run two": 1,
        "run two > step one": 1,
        "run two > step other": 1,
        "run two > step one > chat oracle": 4,
        "run two > step other > chat oracle": 4,
    }
    parents = {
        span.context.span_id: attributes(span)["semgraph.step"] for span in spans.named("step")
    }
    assert all(
        parents[each.parent.span_id] == attributes(each)["semgraph.step"]
        for each in spans.named("chat")
    )


def test_a_refused_call_is_an_error_with_its_tokens(tmp_path: Path, spans: Spans) -> None:
    result = run(tmp_path, Named("Shorten secret 1"), journal=False)
    assert len(result.failed) == 1
    assert_tokens_are_those_of_the_meter(spans, result.meter.total())
    [failed] = [span for span in spans if not span.status.is_ok]
    assert attributes(failed)["error.type"] == "refused"
    assert attributes(failed)["gen_ai.usage.output_tokens"] > 0
    assert attributes(spans.named("step one")[0])["semgraph.rows_failed"] == 1


def test_a_run_that_fails_is_an_error(tmp_path: Path, spans: Spans) -> None:
    class Away(Oracle):
        async def complete(self, request: Request) -> Reply:
            raise ModelUnavailable("nobody is there")

    with pytest.raises(ModelUnavailable):
        run(tmp_path, Away(Mind()), journal=False)
    kinds = {
        span.name: attributes(span)["error.type"]
        for span in spans
        if "error.type" in attributes(span)
    }
    assert kinds["run two"] == kinds["chat oracle"] == "ModelUnavailable"
    assert not spans.named("run")[0].status.is_ok


async def test_a_cancelled_run_ends_its_spans(tmp_path: Path, spans: Spans) -> None:
    asked = asyncio.Event()

    class Slow(Oracle):
        async def complete(self, request: Request) -> Reply:
            asked.set()
            await asyncio.Event().wait()
            return await super().complete(request)

    (tmp_path / "two.yaml").write_text(PLAN, encoding="utf-8")
    async with semgraph.Session(llm=Slow(Mind()), store="memory", folder=tmp_path) as session:
        task = asyncio.create_task(session.arun(tmp_path / "two.yaml", notes=NOTES))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert attributes(spans.named("run two")[0])["error.type"] == "CancelledError"
    assert {span.status.is_ok for span in spans} == {False}


async def test_a_span_of_a_call_covers_its_retries(
    tmp_path: Path, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RetryPolicy, "wait", lambda _self, _attempt: 0.0)
    first: list[bool] = []

    async def answer(body: dict[str, Any]) -> str | Answer | Fault:
        first.append(True)
        return error(503, "busy", retry_after="0") if len(first) == 1 else '{"short": "x"}'

    async with ModelServer(answer) as server:
        (tmp_path / "two.yaml").write_text(PLAN, encoding="utf-8")
        session = semgraph.Session(
            llm=f"openai:m@{server.base_url}", store="memory", folder=tmp_path, journal=False
        )
        async with session:
            result = await session.arun(tmp_path / "two.yaml", notes=NOTES)
    assert len(spans.named("chat m")) == 8
    assert sorted(attributes(each)["semgraph.attempts"] for each in spans.named("chat m")) == [
        1
    ] * 7 + [2]
    assert result.meter.total().attempts == 9
    assert "semgraph.dollars" not in attributes(spans.named("chat m")[0]), "its price is unknown"


async def test_requests_of_a_batch_have_spans_and_those_that_are_not_sent_have_none(
    spans: Spans,
) -> None:
    model = Named()
    budget = Budget(max_calls=1)
    stacked = Stack(budget=budget).model(Borrowed(model), Limiter(), Borrowed(model))
    messages = (Message("system", "Answer."), Message("user", "Shorten this."))
    schema = '{"type": "object", "properties": {"short": {"type": "string"}}}'
    await stacked.complete(Request("default", messages, schema, ahead=True, step="one"))
    with pytest.raises(semgraph.BudgetReached):
        await stacked.complete(Request("default", messages, schema, sample=1))
    [only] = spans
    assert (only.name, attributes(only)["semgraph.step"]) == ("chat oracle", "one")


def test_a_run_is_a_child_of_the_span_of_its_caller(tmp_path: Path, spans: Spans) -> None:
    with spans.tracer.start_as_current_span("request"):
        run(tmp_path, Named(), journal=False)
    assert spans.paths()["request > run two > step one > chat oracle"] == 4


async def test_trials_of_a_comparison_have_spans(tmp_path: Path, spans: Spans) -> None:
    (tmp_path / "two.yaml").write_text(PLAN, encoding="utf-8")
    model = Named()
    async with semgraph.Session(llm=model, store="memory", folder=tmp_path) as session:
        await session.acompare(
            tmp_path / "two.yaml",
            step="one",
            variants=["per_row", "packed(rows=2)"],
            notes=NOTES,
            say=None,
        )
    assert len(spans.named("chat oracle")) == len(model.requests)


@pytest.mark.parametrize(
    ("name", "model", "address", "port"),
    [
        ("openai:@cf/meta/llama@http://gpu:8000/v1", "@cf/meta/llama", "gpu", 8000),
        ("ollama:qwen3:8b@http://[::1]:11434/v1?structured=tool", "qwen3:8b", "::1", 11434),
        ("openai:ft:gpt:org::id?seed=1", "ft:gpt:org::id", None, None),
        ("azure:dep@https://me:pass@word@r.azure.com/v1", "dep", "r.azure.com", None),
        ("oracle", "oracle", None, None),
    ],
)
def test_a_name_says_model_and_address(
    name: str, model: str, address: str | None, port: int | None
) -> None:
    about = telemetry.model_attributes(name)
    assert (about["model"], about["address"], about["port"]) == (model, address, port)


COMMAND = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter()))
trace.set_tracer_provider(provider)  # as opentelemetry-instrument does, before the command
from semgraph.cli import main

sys.argv = ["semgraph", "run", "add_episode", "--llm", "recorded", "--store", "memory"]
main()
"""


def test_a_command_sends_its_last_spans(tmp_path: Path) -> None:
    assert '"name": "run add_episode"' in fresh(COMMAND, tmp_path)


SCRIPT = """
import sys
import semgraph
with semgraph.Session(llm="recorded", store="memory", journal=False, runs="") as session:
    session.run("add_episode", progress=None)
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


def fresh(code: str, folder: Path) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_nothing_is_imported_unless_the_program_has_imported_it(tmp_path: Path) -> None:
    assert fresh(SCRIPT, tmp_path).strip() == "[]"


def test_the_example_of_the_page_prints_spans(tmp_path: Path) -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    printed = fresh(code, tmp_path)
    assert '"name": "run add_episode"' in printed
    assert '"gen_ai.operation.name": "chat"' in printed
