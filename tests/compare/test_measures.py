"""What a plan returns, measured against labels: ranked rows by their grades, answers by true ones."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import semgraph as sg
from semgraph import extras
from semgraph.compare.comparison import load_comparison
from semgraph.errors import InputError, PlanError
from semgraph.render.chart import measure
from semgraph.render.comparison import lines
from semgraph.scores import exact_match, ranking, word_f1
from tests.cli.conftest import Project
from tests.compare.conftest import Reader, opened
from tests.compare.standin import StandIn
from tests.llm.server import ModelServer
from tests.served import served

FOUND = """
plan: hits
inputs:
  queries: {query: string, ask: string}
  found: {query: string, uuid: string, good: int64, bad: int64}
params: {by: good}
steps:
  hits:
    - from: queries
    - join: {other: found, alias: f, using: query}
    - project: {query, uuid: f.uuid, rank: "CASE $by WHEN 'good' THEN f.good ELSE f.bad END"}
    - sort: uuid
  others: [{from: hits}, {project: {query, uuid, place: rank}}, {sort: place}]
returns: [hits, others]
"""
BOTH = {"good": {"params.by": "good"}, "bad": {"params.by": "bad"}}
LETTERS = "abcdefghijkl"


def ranked(n: int = 6) -> dict[str, list[dict[str, Any]]]:
    """Twelve rows of each query, in two orders, and grades of some of them."""
    draw = random.Random(7)
    queries = [f"q{i}" for i in range(n)]
    found, labels = [], []
    for query in queries:
        grades = {key: draw.choice([0, 0, 0, 1, 2]) for key in LETTERS} | {draw.choice(LETTERS): 2}
        by_grade = sorted(LETTERS, key=lambda key: -grades[key] + draw.random() * 1.5)
        shuffled = draw.sample(LETTERS, 12)
        for key in LETTERS:
            row = {"query": query, "uuid": key}
            found.append(row | {"good": 1 + by_grade.index(key), "bad": 1 + shuffled.index(key)})
            labels += [row | {"grade": grades[key]}] if grades[key] or draw.random() < 0.5 else []
    return {"queries": [{"query": q, "ask": q} for q in queries], "found": found, "labels": labels}


def by_hand(name: str, grades: Mapping[str, int], keys: Sequence[str]) -> float:
    """A measure of one query, from its definition."""
    kind, _, at = name.partition("@")
    top = list(keys)[: int(at or len(keys))]
    right = [key for key, grade in grades.items() if grade > 0]
    places = [place for place, key in enumerate(top, 1) if grades.get(key, 0) > 0]
    if kind == "precision":
        return len(places) / int(at)
    if kind == "recall":
        return len(places) / len(right)
    if kind == "MRR":
        return 1 / places[0] if places else 0.0
    if kind == "MAP":
        return sum((n / place) for n, place in enumerate(places, 1)) / len(right)
    gained = sum(grades.get(key, 0) / math.log2(place + 1) for place, key in enumerate(top, 1))
    ideal = sorted(grades.values(), reverse=True)[: int(at)]
    return gained / sum(grade / math.log2(place + 1) for place, grade in enumerate(ideal, 1))


def expected(rows: Mapping[str, Any], by: str, name: str) -> list[float]:
    """The values of all queries by one measure, by hand."""
    values = []
    for query in dict.fromkeys(row["query"] for row in rows["labels"]):
        own = sorted((row for row in rows["found"] if row["query"] == query), key=lambda r: r[by])
        grades = {r["uuid"]: r["grade"] for r in rows["labels"] if r["query"] == query}
        values.append(by_hand(name, grades, [row["uuid"] for row in own]))
    return values


class TestFormulas:
    @pytest.mark.parametrize("seed", range(20))
    def test_of_ranked_rows(self, seed):
        draw = random.Random(seed)
        grades, found = [], []
        for _ in range(5):
            grades.append({k: draw.randint(0, 3) for k in draw.sample(LETTERS, 6)} | {"z": 1})
            found.append(draw.sample(LETTERS + "z", draw.randint(1, 13)))
        measures = ranking(grades, found, at=[1, 3, 10])
        assert list(measures)[:5] == ["nDCG@10", "recall@10", "precision@10", "MRR@10", "nDCG@3"]
        for name, values in measures.items():
            hand = [by_hand(name, own, keys) for own, keys in zip(grades, found, strict=True)]
            assert values == pytest.approx(hand), name

    def test_a_query_without_results_has_0_and_a_row_that_is_found_twice_counts_once(self):
        measures = ranking([{"a": 1}, {"b": 1}], [[], ["x", "x", "b"]], at=[2])
        assert measures["recall@2"] == [0.0, 1.0]
        assert measures["MRR@2"] == [0.0, 0.5]

    @pytest.mark.parametrize(
        ("answer", "truth", "exact", "f1"),
        [
            ("The Eiffel Tower.", "eiffel   tower", 1, 1),
            ("an apple a day", "apple day", 1, 1),
            ("in Paris, France", "Paris", 0, 2 * (1 / 3) * 1 / (1 / 3 + 1)),
            ("red red blue", "red blue blue", 0, 2 / 3),
            ("Theatre", "atre", 0, 0),
            ("", "the", 1, 1),
            ("", "Paris", 0, 0),
            ("U.S.A.", "usa", 1, 1),
        ],
    )
    def test_of_an_answer(self, answer, truth, exact, f1):
        assert exact_match(answer, truth) == exact
        assert word_f1(answer, truth) == pytest.approx(f1)
        assert word_f1(truth, answer) == pytest.approx(f1)


@pytest.fixture
def hits(tmp_path: Path) -> Path:
    (tmp_path / "hits.yaml").write_text(FOUND)
    return tmp_path / "hits.yaml"


async def measured(session: sg.Session, plan: Path, rows: Mapping[str, Any], **options: Any) -> Any:
    given = {"variants": BOTH, "say": None, "labels": {"hits": rows["labels"]}, **options}
    inputs = {name: rows[name] for name in ("queries", "found")}
    return await session.acompare(plan, inputs=inputs, **given)


class TestRankedRows:
    async def test_a_measure_is_the_mean_over_queries(self, session, hits):
        rows = ranked()
        found = await measured(session, hits, rows)
        for arm in found:
            for name, (value, _, _) in arm.quality.measures.items():
                hand = expected(rows, arm.name, name)
                assert value == pytest.approx(sum(hand) / len(hand)), (arm.name, name)
        assert list(found["bad"].quality.measures)[4:] == [
            "nDCG@5", "recall@5", "precision@5", "MRR@5", "MAP"
        ]  # fmt: skip
        assert (found.truth, found["bad"].quality.f1) == (True, None)

    async def test_intervals_and_paired_differences_are_over_queries(self, session, hits):
        found = await measured(session, hits, ranked(40))
        name = "nDCG@10"
        good, bad = found["good"].quality.measures[name], found["bad"].quality.measures[name]
        assert good.interval[0] < good.value < good.interval[1]
        value, low, high = bad.difference
        assert value == pytest.approx(bad.value - good.value)
        assert low < value < high < 0
        assert (good.difference, found["bad"].quality.difference) == (None, bad.difference)
        hand = [b - g for b, g in zip(*(expected(ranked(40), by, name) for by in ("bad", "good")), strict=True)]  # fmt: skip
        draw = random.Random(3)
        means = sorted(sum(draw.choices(hand, k=40)) / 40 for _ in range(4000))
        assert (low, high) == pytest.approx((means[100], means[3899]), abs=0.02)

    async def test_without_a_column_rank_the_rows_are_in_their_order(self, session, hits):
        rows = ranked()
        found = await measured(session, hits, rows, labels={"others": rows["labels"]}, at="3")
        hand = expected(rows, "bad", "MRR@3")
        assert found["bad"].quality.measures["MRR@3"].value == pytest.approx(sum(hand) / 6)

    async def test_what_is_not_scored_is_said(self, session, hits):
        rows = ranked()
        other = {"query": "q0", "uuid": "a", "grade": 0}
        of_q0 = [row for row in rows["labels"] if row["query"] != "q0"]
        labels = [*of_q0, other, {"query": "never", "uuid": "a", "grade": 1}]
        asked = [*rows["queries"], {"query": "free", "ask": "free"}]
        found = await measured(session, hits, rows | {"labels": labels, "queries": asked})
        assert found.notes == (
            "labelled queries that are not asked, not scored: 1",
            "queries without a label, not scored: 1",
            "queries without a grade above 0, not scored: 1",
        )
        assert found.frozen["labelled"] == 5

    async def test_the_table_the_forms_and_the_record_have_the_measures(self, session, hits):
        found = await measured(session, hits, ranked(40), variants=dict(reversed(BOTH.items())))
        assert found.reference == "bad"
        shown = list(lines(found, 250))
        head, first, second = (line.plain for line in shown[:3])
        assert [line.split()[0] for line in (first, second)] == ["bad", "good"]
        for title in ("nDCG@10 [95 %]", "Δ nDCG@10 to reference", "recall@10", "MRR@5", "MAP"):
            assert title in head
        assert "F1" not in head
        best = {
            shown[2].plain[s.start : s.end].strip() for s in shown[2].spans if s.style == "bold"
        }
        value = found["good"].quality.measures["recall@10"].value
        assert f"{value:.2f}".removeprefix("0") in best
        assert "good: better by at least" in "\n".join(line.plain for line in shown)
        frame = found.to_pandas()
        assert list(frame["variant"]) == ["bad", "good"]
        assert frame["MAP"][1] == found["good"].quality.measures["MAP"].value
        assert frame["MAP_difference_low"][1] > 0
        assert "f1" not in frame
        assert found.to_csv().splitlines()[0].split(",")[1:4] == ["nDCG@10", "nDCG@10_low", "nDCG@10_high"]  # fmt: skip
        assert r"\textbf{" in found.to_latex()
        assert "recall@10" in found.to_markdown()
        assert re.match(r"good gains [\d.]+ points of nDCG@10 against bad \(95 % .*, n = 40\)", found.sentence())  # fmt: skip
        assert measure(found) == "nDCG@10"
        assert "Δ nDCG@10 to reference" in session.report(found, to="report.html").read_text()
        loaded = load_comparison(found.id, session.runs)
        assert [arm.quality for arm in loaded] == [arm.quality for arm in found]

    async def test_a_record_without_measures_still_loads(self, session, hits):
        found = await measured(session, hits, ranked())
        file = found.record / "comparison.json"
        data = json.loads(file.read_text())
        for arm in data["arms"]:
            del arm["quality"]["measures"]
        file.write_text(json.dumps(data))
        assert [arm.quality.measures for arm in load_comparison(found.id, session.runs)] == [{}, {}]

    async def test_three_variants_are_corrected(self, session, hits):
        three = BOTH | {"again": {"params.by": "good"}}
        two = await measured(session, hits, ranked(40))
        found = await measured(session, hits, ranked(40), variants=three)
        again = found["again"].quality.measures["MAP"].difference
        assert again[0] == 0
        assert again[1] < 0 < again[2]
        (_, low, _), (_, alone, _) = (c["bad"].quality.difference for c in (found, two))
        assert low <= alone
        assert "Δ nDCG@10 is corrected for the number of variants (Holm)" in str(found)


ASK = """
plan: ask
inputs: {questions: {id: int64, text: string}}
params: {longest: 100}
steps:
  answers:
    - from: questions
    - project: {id, text: "left(text, $longest)"}
    - filter: len(text) > 3
    - sem_map: {prompt: "Does “{text}” complain?", returns: {answer: string}}
returns: [answers]
"""
JUDGE = """
plan: same
inputs: {answers: {id: string, text: string, answer: string, truth: string}}
steps:
  judged:
    - from: answers
    - sem_map: {prompt: "Of “{text}”: is “{answer}” the same as “{truth}”?", returns: {correct: boolean}}
returns: [judged]
"""
QUESTIONS = [
    {"id": 1, "text": "It leaks."},
    {"id": 2, "text": "Lovely."},
    {"id": 3, "text": "Hm, it is broken."},
]
TRUE = [
    {"id": 1, "answer": "Yes, sure"},
    {"id": 1, "answer": "The yes!"},
    {"id": 2, "answer": "no it does not"},
    {"id": 3, "answer": "yes"},
]
ARMS = {"whole": {"params.longest": 100}, "short": {"params.longest": 4}}


class Answerer(Reader):
    """Judges answers too: right if the truth contains it."""

    async def __call__(self, body: dict[str, Any]) -> Any:
        if list(body["response_format"]["json_schema"]["schema"]["properties"]) != ["correct"]:
            return await super().__call__(body)
        answer, truth = re.findall(r"“([^”]*)”", body["messages"][-1]["content"])[-2:]
        return json.dumps({"correct": answer in truth.lower()})


@pytest.fixture
def reader() -> Reader:
    return Answerer()


@pytest.fixture
def ask(tmp_path: Path) -> Path:
    (tmp_path / "ask.yaml").write_text(ASK)
    (tmp_path / "same.yaml").write_text(JUDGE)
    return tmp_path / "ask.yaml"


async def answered(session: sg.Session, plan: Any, **options: Any) -> Any:
    given = {"variants": ARMS, "say": None, "questions": QUESTIONS, "labels": TRUE, **options}
    return await session.acompare(plan, **given)


def judged(server: ModelServer) -> list[str]:
    sent = [body["messages"][-1]["content"] for body in server.requests]
    return [text for text in sent if "is “" in text]


class TestAnswers:
    async def test_exact_match_and_f1_of_words_with_the_best_of_several_true_answers(
        self, session, ask
    ):
        """Yes, no, yes: the first is one of two true answers, the second one word of four."""
        found = await answered(session, ask)
        whole, short = (arm.quality.measures for arm in found)
        assert whole["exact match"].value == pytest.approx(2 / 3)
        assert whole["word F1"].value == pytest.approx((1 + 2 * 1 / 5 + 1) / 3)
        assert short["exact match"].value == pytest.approx(0)
        assert short["word F1"].value == pytest.approx((0 + 2 / 5 + 0) / 3)
        assert short["exact match"].difference[0] == pytest.approx(-2 / 3)
        assert list(whole) == ["word F1", "exact match"]

    async def test_a_question_without_an_answer_has_0(self, session, ask):
        questions = [*QUESTIONS, {"id": 4, "text": "Hm."}]
        labels = [*TRUE, {"id": 4, "answer": "no"}]
        found = await answered(session, ask, questions=questions, labels=labels)
        assert found["whole"].quality.measures["exact match"].value == pytest.approx(2 / 4)

    async def test_a_query_is_drawn_with_all_its_trials(self, session, reader, ask):
        reader.noisy = True
        found = await answered(session, ask, trials=3)
        quality = found["whole"].quality
        assert quality.spread[0] < quality.measures["word F1"].value < quality.spread[1]
        assert "over trials" in str(found)

    @pytest.mark.parametrize("form", ["file", "pandas"])
    async def test_labels_may_be_a_file_or_a_data_frame(self, session, ask, tmp_path, form):
        (tmp_path / "true.csv").write_text("id,answer\n1,yes\n2,no\n3,no\n")
        file = tmp_path / "true.csv"
        found = await answered(session, ask, labels=file if form == "file" else pd.read_csv(file))  # fmt: skip
        assert found["whole"].quality.measures["exact match"].value == pytest.approx(2 / 3)


class TestJudges:
    async def test_a_judge_is_asked_for_each_variant_and_charged_to_the_comparison(
        self, session, server, ask
    ):
        told: list[str] = []
        found = await answered(session, ask, judge="same.yaml", say=told.append)
        assert {arm.name: arm.quality.measures["judged"].value for arm in found} == pytest.approx(
            {"whole": 1.0, "short": 1 / 3}
        )
        assert next(iter(found["whole"].quality.measures)) == "judged"
        assert [arm.cold.calls for arm in found] == [3, 3]
        assert [arm.trials[0].paid.calls for arm in found] == [3, 3]
        assert found.paid.calls == len(server.requests) == 6 + len(judged(server))
        assert any("plan same judges the answers to 3 queries" in line for line in told)
        assert "is “yes” the same as “Yes, sure or The yes!”?" in judged(server)[0]

    async def test_answers_need_no_id(self, session, ask, tmp_path):
        (tmp_path / "same.yaml").write_text(JUDGE.replace("id: string, ", ""))
        found = await answered(session, ask, judge="same.yaml")
        assert [arm.quality.measures["judged"].value for arm in found] == pytest.approx([1, 1 / 3])

    async def test_equal_answers_are_judged_once(self, session, server, ask):
        await answered(session, ask, judge="same.yaml", variants={"a": ARMS["whole"], "b": {"answers": "per_row"}}, trials=2)  # fmt: skip
        assert len(judged(server)) == 3

    async def test_its_agreement_with_verdicts_by_hand_is_shown(self, session, ask):
        hand = {1: True, 2: False, 3: None}
        labels = [row | {"judged": hand[row["id"]]} for row in TRUE]
        found = await answered(session, ask, judge="same.yaml", labels=labels)
        assert found.notes[-1].startswith(
            "the judge agrees with 2 verdicts by hand on whole: 0.500 ["
        )
        assert found.notes[-1] in str(found).replace("\n", " ")

    async def test_a_limit_holds_for_the_judge_too(self, server, ask, tmp_path):
        async with opened(server, tmp_path, max_calls=4) as session:
            found = await answered(session, ask, judge="same.yaml")
        assert found.stopped is not None
        assert found.missing == {"whole": 1, "short": 1}
        assert len(server.requests) == 4

    @pytest.mark.parametrize(
        ("old", "new", "match"),
        [
            ("inputs: {answers", "inputs: {rows", "it needs one input, answers"),
            ("text: string, a", "colour: string, a", "answers have no colour"),
            ("correct: boolean", "right: boolean", "it must return one table with correct"),
            ("correct: boolean", "correct: string", "it must return one table with correct"),
        ],
    )
    async def test_a_plan_that_cannot_judge(self, session, server, ask, tmp_path, old, new, match):
        text = JUDGE.replace(old, new)
        if "rows" in new:
            text = text.replace("from: answers", "from: rows")
        (tmp_path / "same.yaml").write_text(text.replace("{text}", "") if "colour" in new else text)
        with pytest.raises(PlanError, match=f"plan same cannot judge: {match}"):
            await answered(session, ask, judge="same.yaml")
        assert server.requests == []


GRADED = [{"id": 1, "answer": "yes", "grade": 1}]


class TestWrongLabels:
    @pytest.mark.parametrize(
        ("labels", "match"),
        [
            ([{"id": 1, "anwser": "yes"}], 'the table of labels fits no returned table. It has id, anwser; all variants return answers.*Did you mean "answer"'),
            ([{"id": 9, "answer": "yes"}], r'no label for the \d queries that are asked. It has "9"; the first that is asked is "1"'),
            ([{"id": 1, "answer": "yes", "grade": 0}], "no label above 0 for the"),
            ([{"answer": "yes"}], "needs columns of an input, which name a query, and one more"),
            ([{"id": 1}], "needs columns of an input, which name a query, and one more"),
            ([*GRADED, {"id": 1, "answer": "yes", "grade": 2}], 'two grades of "yes" for'),
            ({"answer": TRUE}, "fits no returned table"),
            ("nowhere.csv", "nowhere.csv"),
        ],
    )  # fmt: skip
    async def test_are_refused_before_anything_is_asked(self, session, server, ask, labels, match):
        with pytest.raises((PlanError, InputError), match=match):
            await answered(session, ask, labels=labels)
        assert server.requests == []

    @pytest.mark.parametrize("grade", ["good", "0.5", None])
    async def test_a_grade_is_a_whole_number(self, session, server, ask, grade):
        with pytest.raises(InputError, match="row 2, column grade"):
            await answered(
                session, ask, labels=[*GRADED, {"id": 2, "answer": "no", "grade": grade}]
            )
        assert server.requests == []

    async def test_several_tables_fit(self, session, hits):
        rows = ranked()
        with pytest.raises(PlanError, match=r"fits several returned tables.*labels=.*hits"):
            await measured(session, hits, rows, labels=rows["labels"])

    @pytest.mark.parametrize("at", ["0", "5,x", [], [1.5]])
    async def test_at_is_a_list_of_numbers(self, session, hits, at):
        with pytest.raises(PlanError, match=r"at is .*[Nn]umbers from 1"):
            await measured(session, hits, ranked(), at=at)

    @pytest.mark.parametrize(
        "more",
        [
            {"step": "answers", "variants": ["per_row"]},
            {"truth": {"nodes": [{"key": "x"}]}},
            {"labels": None, "judge": "same.yaml"},
        ],
    )
    async def test_labels_are_for_whole_plans(self, session, server, ask, more):
        with pytest.raises(PlanError, match="labels are for the rows of whole plans"):
            await answered(session, ask, **more)
        assert server.requests == []

    async def test_measures_of_ranked_rows_need_their_extra(self, session, hits, ask, monkeypatch):
        monkeypatch.setattr(extras, "is_installed", lambda name: name != "ir-measures")
        with pytest.raises(PlanError, match=r'needs ir-measures: pip install "semgraph\[measures\]"'):  # fmt: skip
            await measured(session, hits, ranked())
        assert (await answered(session, ask))["whole"].quality.measures


@pytest.fixture
def project(ask: Path, tmp_path: Path) -> Iterator[Project]:
    server = ModelServer(Answerer())
    with served(server):
        env = {
            "HOME": str(tmp_path),
            "SEMGRAPH_HOME": str(tmp_path / "home"),
            "SEMGRAPH_LLM": f"openai:gpt-4.1-mini@{server.base_url}",
            "OPENAI_API_KEY": "key",
            "COLUMNS": "200",
        }
        yield Project(tmp_path, env)


class TestCommand:
    def test_labels_of_a_table_at_some_places(self, project, hits):
        for name, rows in ranked().items():
            file = "".join(json.dumps(row) + "\n" for row in rows)
            project.write(f"{name}.jsonl", file)
        inputs = ("-i", "queries=queries.jsonl", "-i", "found=found.jsonl")
        arms = ("--variant", "good:params.by=good", "--variant", "bad:params.by=bad")
        command = ("compare", "hits.yaml", *inputs, *arms, "--at", "1,3")
        done = project(*command, "--labels", "hits=labels.jsonl")
        assert done.code == 0, done.err
        assert "nDCG@3 [95 %]" in done.out
        assert "several returned tables" in project(*command, "--labels", "labels.jsonl").err

    def test_a_judge(self, project):
        project.write("true.csv", "id,answer,judged\n1,yes,yes\n2,no,yes\n")
        project.write("asked.csv", "id,text\n1,It leaks.\n2,Lovely.\n")
        arms = ("--variant", "whole:params.longest=99", "--variant", "short:params.longest=4")
        given = ("-i", "questions=asked.csv", "--labels", "true.csv", "--judge", "same.yaml")
        done = project("compare", "ask.yaml", *arms, *given)
        assert done.code == 0, done.err
        assert "judged [95 %]" in done.out
        assert "agrees with 2 verdicts by hand on whole: 1.000 [0.224 1.000]" in done.out


async def test_rankings_of_the_shipped_search_are_one_comparison(tmp_path):
    """Two entities and four facts of which two say the same; the ranking by diversity sinks one of them."""
    facts = ["Ann lives in Porto.", "Ann lives in Porto now.", "Ann works at Luma in Porto.", "Ben likes tea."]  # fmt: skip
    common = {"group_id": "g", "source": "a", "target": "b", "name": "SAYS"}
    async with StandIn() as model:
        name = f"openai:stand-in@{model.base_url}"
        session = sg.Session(llm=name, embedder=f"{name}?dimensions=64", store="sqlite:graph.db", folder=tmp_path)  # fmt: skip
        async with session:
            entities = [{"uuid": key, "group_id": "g", "name": key} for key in "ab"]
            await session.arun("save_nodes", inputs={"entities": entities})
            rows = [common | {"uuid": f"f{i}", "fact": fact} for i, fact in enumerate(facts)]
            await session.arun("save_edges", inputs={"facts": rows})
            asked = "Where does Ann live? Porto"
            labels = [{"query": asked, "uuid": f"f{i}", "grade": 1} for i in (0, 2)]
            found = await session.acompare(
                "search", say=None, queries=[{"query": asked, "group_id": "g"}], labels=labels, at=[2],
                grid={"preset": ["EDGE_HYBRID_SEARCH_RRF", "EDGE_HYBRID_SEARCH_MMR"]},
            )  # fmt: skip
    assert [arm.cold.calls for arm in found] == [0, 0]
    assert all(0 < arm.quality.measures["MAP"].value <= 1 for arm in found)
