"""Answers that are longer than the token limit of their request, over a server that obeys the limit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.execution.result import Result
from semgraph.frontend.load import load_plan
from tests.llm.server import Answer, Fault, ModelServer, error
from tests.served import served

HEAD = "plan: long\ninputs: {texts: {text: string}}\nsteps:\n  found:\n    - from: texts\n    - "
MAP = 'sem_map: {prompt: "Codes in: {text}", returns: {codes: "list<string>"}}'
SUMMARY = 'sem_map: {prompt: "Sum up: {text}", returns: {codes: string}}'
AGG = 'sem_agg: {prompt: "Codes in: {text}", by: [], returns: {codes: "list<string>"}}'
JOIN = (
    'sem_join: {other: texts, alias: other, prompt: "Codes of {text} and {other.text}", '
    'returns: {codes: "list<string>"}}'
)
NAMING = """sem_map:
        prompt: "Codes in: {messages}"
        returns: {codes: "list<struct<code: string, message: ref<messages>>>"}
        refs: {messages: {of: texts, where: "true", order: [text], shows: [text]}}"""
AMOUNTS = 'prompt: "Amounts in: {text}", returns: {amounts: "list<int64>"}'
LINKS = """sem_map:
        prompt: "{text} A: {A} B: {B}"
        returns:
          tags: "list<struct<tag: string, one: ref<A>>>"
          links: "list<struct<one: ref<A>, two: ref<B>>>"
        refs:
          A: {of: texts, where: "true", order: [text], shows: [text]}
          B: {of: texts, where: "true", order: [text], shows: [text]}"""
FILTER = 'sem_filter: {prompt: "Codes in: {text}", returns: {codes: "list<string>"}}'
LONG = " ".join(f"Here is X{i:03}." for i in range(300))
CODES = [f"X{i:03}" + "x" * 16 for i in range(300)]  # 7 tokens each, with quotes and a comma


class Model:
    """Lists the codes of the last message. `most` is the longest answer it gives, and with `refusing`
    the highest limit that it accepts; a `forgetful` one lists ten codes before it is asked for more.
    """

    def __init__(
        self, most: int = 1 << 20, *, refusing: bool = False, forgetful: bool = False
    ) -> None:
        self.most, self.refusing, self.forgetful = most, refusing, forgetful
        self.server = ModelServer(self.answer)

    @property
    def limits(self) -> list[int]:
        return [body["max_tokens"] for body in self.server.requests]

    async def answer(self, body: dict[str, Any]) -> Answer | Fault:
        limit = body["max_tokens"]
        if self.refusing and limit > self.most:
            return error(400, f"max_tokens is too large: {limit}")
        text, limit = json.dumps(self.document(body), separators=(",", ":")), min(limit, self.most)
        if len(text) <= 4 * limit:
            return Answer(text)
        return Answer(text[: 4 * limit], finish="length")

    def document(self, body: dict[str, Any]) -> dict[str, Any]:
        fields = body["response_format"]["json_schema"]["schema"]["properties"]
        user = body["messages"][-1]["content"]
        if "answers" in fields:
            lines = re.findall(r"^(\d+)\. (.*)$", user, re.MULTILINE)
            return {"answers": [{"id": int(n), "codes": codes_in(line)} for n, line in lines]}
        user, _, earlier = user.partition("The answer given:")
        codes: Any = [code for code in codes_in(user) if code not in earlier]
        if self.forgetful and not earlier:
            codes = codes[:10]
        if "object" in json.dumps(fields["codes"]):
            records = json.loads(user.split("Codes in: ")[1])
            codes = [
                {"code": code, "message": record["number"]}
                for record in records
                for code in codes_in(record["text"])
            ]
        if fields["codes"].get("type") == "string":
            codes = ", ".join(codes)
        verdicts: dict[str, Any] = {"match": True, "answer": "yes"}
        return {name: verdicts.get(name, codes) for name in fields}


def codes_in(text: str) -> list[str]:
    return [f"{code}{'x' * 16}" for code in dict.fromkeys(re.findall(r"X\d{3}", text))]


def run(
    model: Model, folder: Path, step: str, *texts: str, options: str = "", use: str = ""
) -> Result:
    plan = folder / "long.yaml"
    plan.write_text(f"{HEAD}{step}\nreturns: [found]\n")
    llm = f"openai:m@{model.server.base_url}?{options}"
    with semgraph.Session(llm=llm, store="memory", folder=folder) as session:
        loaded = load_plan(plan, use={"found": use} if use else {})
        try:
            return session.run(loaded, texts=[{"text": text} for text in texts])
        except semgraph.RowError as error:  # every row failed
            result: Result = error.result
            return result


def codes_of(result: Result) -> list[list[str]]:
    return result.tables["found"].column("codes").to_pylist()


def test_a_longer_answer_is_requested_with_twice_the_limit_and_the_same_words(
    tmp_path: Path,
) -> None:
    model = Model()
    with served(model.server):
        result = run(model, tmp_path, MAP, LONG)
    assert codes_of(result) == [CODES]
    assert model.limits == [1024, 2048]
    first, second = model.server.requests
    assert first["messages"] == second["messages"]
    assert result.meter.total().calls_issued == 2


def test_a_second_run_replays_every_answer(tmp_path: Path) -> None:
    model = Model(1100)
    with served(model.server):
        first = run(model, tmp_path, MAP, LONG)
        sent = len(model.server.requests)
        second = run(model, tmp_path, MAP, LONG)
    assert codes_of(first) == codes_of(second) == [CODES]
    assert len(model.server.requests) == sent == first.meter.total().calls_issued
    assert second.meter.total().calls_journal == sent


def test_a_limit_that_the_endpoint_rejects_is_tried_once(tmp_path: Path) -> None:
    model = Model(1500, refusing=True)
    with served(model.server):
        result = run(model, tmp_path, MAP, LONG)
    assert codes_of(result) == [CODES]
    assert sorted(model.limits, reverse=True) == [2048, 1024, 1024, 1024, *model.limits[4:]]


@pytest.mark.parametrize(
    ("options", "highest"),
    [("max_output=1500", 1500), ("max_output=1100", 1100), ("", 4096), ("context=3500", 3500)],
)
def test_a_limit_never_passes_that_of_the_model(tmp_path: Path, options: str, highest: int) -> None:
    model = Model()
    with served(model.server):
        text = " ".join(f"X{i:03}." for i in range(1000))
        result = run(model, tmp_path, MAP, text, options=options)
    assert max(model.limits) <= highest
    assert codes_of(result) == [[f"X{i:03}" + "x" * 16 for i in range(1000)]]
    prompts = [len(b["messages"][-1]["content"]) // 4 for b in model.server.requests]
    assert (
        all(sum(both) < 3500 for both in zip(prompts, model.limits, strict=True))
        or "context" not in options
    )


@pytest.mark.parametrize("step", [SUMMARY, FILTER])
def test_an_answer_that_cannot_be_split_fails_its_row_with_what_to_do(
    tmp_path: Path, step: str
) -> None:
    model = Model()
    with served(model.server):
        result = run(model, tmp_path, step, LONG, "Here is X001.", options="max_output=1100")
        (failed,) = result.failed
        assert failed.error.startswith("truncated: answer cut at 1,100 tokens. ")
        assert "max_output" in failed.error
        assert result.tables["found"].num_rows == 1
        assert model.limits.count(1100) == 1
        again = run(model, tmp_path, step, LONG, "Here is X001.", options="max_output=32000")
    assert not again.failed
    assert again.tables["found"].num_rows == 2


def test_a_model_that_never_ends_is_asked_about_32_parts_at_most(tmp_path: Path) -> None:
    model = Model()

    async def endless(body: dict[str, Any]) -> Answer:
        return Answer('{"codes":["' + "x" * 4 * body["max_tokens"], finish="length")

    model.server.answer = endless
    with served(model.server):
        result = run(model, tmp_path, MAP, " ".join(f"X{i:04}." for i in range(1000)))
    assert len(result.failed) == 1
    assert len(model.server.requests) == 3 + 2 + 4 + 8 + 16 + 32
    assert result.meter.total().calls_issued == len(model.server.requests)


def test_a_short_text_is_not_split(tmp_path: Path) -> None:
    model = Model()
    with served(model.server):
        result = run(model, tmp_path, MAP, "X001. X002. X003.", options="max_output=8")
    assert [failed.error.split(".")[0] for failed in result.failed] == [
        "truncated: answer cut at 8 tokens"
    ]
    assert model.limits == [8]


def test_rows_of_one_request_are_divided_before_a_row_is(tmp_path: Path) -> None:
    model = Model()
    texts = [f"{LONG} {i}" for i in range(4)]
    with served(model.server):
        result = run(model, tmp_path, MAP, *texts, options="max_output=1500", use="packed")
    assert codes_of(result) == [CODES] * 4
    assert max(model.limits) == 1500
    assert result.meter.total().calls_issued == len(model.server.requests)


@pytest.mark.parametrize("most", [4096, 1100])
def test_an_aggregate_is_requested_with_a_higher_limit_and_then_in_halves(
    tmp_path: Path, most: int
) -> None:
    model = Model()
    texts = [f"X{i:03}" for i in range(300)]
    with served(model.server):
        result = run(model, tmp_path, AGG, *texts, options=f"max_output={most}")
    assert codes_of(result) == [CODES]
    assert max(model.limits) == min(most, 2048)


def test_a_pair_is_requested_with_a_higher_limit(tmp_path: Path) -> None:
    model = Model()
    with served(model.server):
        result = run(model, tmp_path, JOIN, LONG, use="nested_loop")
    assert codes_of(result) == [CODES]
    assert model.limits == [1024, 2048]


def test_records_are_divided_and_keep_their_numbers(tmp_path: Path) -> None:
    model = Model()
    texts = [f"X{i:03}" for i in range(100)]
    with served(model.server):
        result = run(model, tmp_path, NAMING, *texts, options="max_output=1024")
    assert not result.failed
    for codes in codes_of(result):
        found = [(entry["code"], entry["message"]["text"]) for entry in codes]
        assert found == [(CODES[i], texts[i]) for i in range(100)]
    assert "split a row whose answer was too long: 1 time," in "".join(result.notes)


def test_records_that_are_linked_are_divided_in_one_column(tmp_path: Path) -> None:
    """Record i of the one is linked to record 59 - i of the other, in another half."""
    model = Model()

    def document(body: dict[str, Any]) -> dict[str, Any]:
        listed = re.findall(r": (\[.*?\])", body["messages"][-1]["content"])
        ones, others = ({r["text"]: r["number"] for r in json.loads(text)} for text in listed)
        pairs = [(f"a{i:02}", f"a{59 - i:02}") for i in range(60)]
        return {
            "tags": [{"tag": "t" * 12, "one": number} for number in ones.values()],
            "links": [
                {"one": ones[a], "two": others[b]} for a, b in pairs if a in ones and b in others
            ],
        }

    model.document = document  # type: ignore[method-assign]
    texts = [f"a{i:02}" for i in range(60)]
    with served(model.server):
        result = run(model, tmp_path, LINKS, *texts, options="max_output=600")
    assert not result.failed
    row = result.rows("found")[0]
    assert [tag["one"]["text"] for tag in row["tags"]] == texts
    assert [link["two"]["text"] for link in row["links"]] == texts[::-1]


@pytest.mark.parametrize("step", ["sem_map", "sem_agg"])
def test_values_that_an_answer_repeats_stay(tmp_path: Path, step: str) -> None:
    model = Model()
    amounts = [100 + i % 50 for i in range(250)]

    def document(body: dict[str, Any]) -> dict[str, Any]:
        return {"amounts": list(map(int, re.findall(r"EUR (\d+)", str(body["messages"][-1]))))}

    model.document = document  # type: ignore[method-assign]
    texts = [f"On this day they paid EUR {amount}." for amount in amounts]
    with served(model.server):
        if step == "sem_map":
            result = run(model, tmp_path, f"sem_map: {{{AMOUNTS}}}", " ".join(texts),
                         options="max_output=200")  # fmt: skip
        else:
            result = run(model, tmp_path, f"sem_agg: {{by: [], {AMOUNTS}}}", *texts,
                         options="max_output=200", use="single")  # fmt: skip
    assert result.rows("found")[0]["amounts"] == amounts
    assert len(model.server.requests) > 2


def test_the_longest_text_of_a_row_is_divided(tmp_path: Path) -> None:
    model = Model()
    note = "This is the guide of the house, which says what to do. " * 3
    step = MAP.replace("Codes in: {text}", "{note} Codes in: {text}")
    step = f"add: {{note: \"'{note}'\"}}\n    - {step}"
    with served(model.server):
        result = run(model, tmp_path, step, LONG, options="max_output=1100")
    assert codes_of(result) == [CODES]
    assert all(note in body["messages"][-1]["content"] for body in model.server.requests)


def test_a_review_of_a_long_answer_is_requested_with_a_higher_limit(tmp_path: Path) -> None:
    model = Model(forgetful=True)
    with served(model.server):
        result = run(model, tmp_path, MAP, LONG, options="max_output=1100", use="reflexion")
    assert not result.failed
    assert set(codes_of(result)[0]) == set(CODES)
    assert result.meter.total().calls_issued == len(model.server.requests)


def test_each_sample_is_requested_with_a_higher_limit(tmp_path: Path) -> None:
    model = Model()
    with served(model.server):
        result = run(model, tmp_path, MAP, LONG, options="max_output=1100", use="vote(samples=3)")
    assert codes_of(result) == [CODES]
    assert result.meter.total().calls_issued == len(model.server.requests)
    assert {body["temperature"] for body in model.server.requests} != {0}


@pytest.mark.parametrize("options", ["min_output=4000", "min_output=4000&max_output=3000"])
def test_min_output_is_the_least_limit_of_an_answer(tmp_path: Path, options: str) -> None:
    model = Model()
    with served(model.server):
        if "max_output" in options:
            with pytest.raises(semgraph.SemgraphError, match="min_output is above max_output"):
                run(model, tmp_path, MAP, LONG, options=options)
        else:
            assert codes_of(run(model, tmp_path, MAP, LONG, options=options)) == [CODES]
    assert set(model.limits) == ({4000} if "max_output" not in options else set())
