"""Verdicts of one token by log-odds: thresholds, calibration on labelled rows, division of a batch,
endpoints without them.
"""

from __future__ import annotations

import contextlib
import math
import random
from pathlib import Path
from statistics import NormalDist, mean
from typing import Any

import pytest

import semgraph as sg
from benchmarks.world.server import StandIn
from semgraph.conformance.cases import LIBRARY, Faulty, Grams, Mind, Oracle, mind, node, some
from semgraph.errors import ModelUnavailable, PlanError
from semgraph.llm.base import Limits, Reply, Request
from semgraph.llm.openai import OpenAI
from semgraph.logical.plan import Choice
from semgraph.semantic.verdicts import ByLogOdds, cut, fitted, left_out_correct
from tests.llm.server import Answer, Fault, ModelServer, error
from tests.operators.cases import ask

PLAN = """
plan: moved
inputs: {{texts: {{text: string}}}}
steps:
  told:
    - from: texts
    - sem_filter: {{prompt: "Does this say that somebody moved?\\n{{text}}"}}
use: {{told: "{way}"}}
returns: [told]
"""
TEXTS = [
    "Ada Costa moved to Porto.",
    "Ada Costa works at Luma.",
    "Omar Diaz moved to Lisbon.",
    "It rains.",
]


def rows(*texts: str) -> list[dict[str, str]]:
    return [{"text": text} for text in texts]


async def over_http(
    folder: Path, texts: list[str], server: Any, model: str = "gpt-4.1-mini"
) -> Any:
    async with contextlib.aclosing(OpenAI(model, server.base_url, "key")) as llm:
        return await run(folder, "logit", texts, llm)


async def run(folder: Path, way: str, texts: list[str], llm: Any, **more: Any) -> Any:
    path = folder / "moved.yaml"
    path.write_text(PLAN.lstrip().format(way=way))
    async with sg.Session(
        llm=llm, embedder=Grams(), store="memory", journal=False, runs=folder / "runs"
    ) as session:
        return await session.arun(path, texts=rows(*texts), **more)


class Sliding(Oracle):
    """A model whose log-odds of yes are the number at the end of the question, plus a bias."""

    bias: float = 0.0

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        score = float(request.messages[-1].content.rsplit(" ", 1)[-1]) + self.bias
        yes = -math.log1p(math.exp(-score))
        word = "Yes" if score > 0 else "No"
        return Reply(
            word, call_id=f"c{len(self.requests)}", finish="length", logprobs=(yes, yes - score)
        )


def labelled(folder: Path, scores: dict[float, str]) -> Path:
    path = folder / "labels.csv"
    path.write_text(
        "text,keep\n" + "".join(f"row {score},{keep}\n" for score, keep in scores.items())
    )
    return path


class TestOverHttp:
    async def test_rows_are_kept_by_one_token_each(self, tmp_path):
        async with StandIn() as server:
            result = await over_http(tmp_path, TEXTS, server)
            assert [row["text"] for row in result.tables["told"].to_pylist()] == [
                TEXTS[0],
                TEXTS[2],
            ]
            assert {body["max_tokens"] for body in server.requests} == {1}
            assert result.meter.total().tokens_out == len(TEXTS)

    async def test_the_scores_are_in_the_record_of_the_run(self, tmp_path):
        async with StandIn() as server:
            result = await over_http(tmp_path, TEXTS, server)
        from semgraph.execution.record import read_answers

        (answers,) = read_answers(result.record).values()
        assert (
            [row["score"] > 0 for row in answers]
            == [row["keep"] for row in answers]
            == [True, False, True, False]
        )

    @pytest.mark.parametrize("refuses", [False, True])
    async def test_an_endpoint_without_log_probabilities_is_asked_once_and_the_remedy_is_named(
        self, tmp_path, refuses
    ):
        async with ModelServer() as server:

            async def answer(body: dict) -> Answer | Fault:
                return (
                    error(400, "logprobs are not supported")
                    if refuses
                    else Answer("Yes", finish="length")
                )

            server.answer = answer
            with pytest.raises(
                ModelUnavailable, match=r"returns no log-probabilities.* told=per_row"
            ):
                await over_http(
                    tmp_path, [f"{text} {i}" for i in range(9) for text in TEXTS], server
                )
            assert len(server.requests) == 1 + refuses  # what was refused is left out once

    async def test_a_model_that_is_known_to_give_none_is_refused_before_anything_is_asked(
        self, tmp_path
    ):
        async with ModelServer() as server:
            with pytest.raises(
                PlanError, match="the model returns no log-probabilities; use per_row"
            ):
                await over_http(tmp_path, TEXTS, server, "gpt-5-mini")
            assert not server.requests


class TestThresholds:
    async def test_a_row_is_kept_above_the_threshold(self, tmp_path):
        texts = ["a -1.0", "b 0.5", "c 2.0"]
        kept = [
            [
                row["text"]
                for row in (await run(tmp_path, way, texts, Sliding(Mind())))
                .tables["told"]
                .to_pylist()
            ]
            for way in ("logit", "logit(threshold=0.7)", "logit(threshold=0.2)")
        ]
        assert kept == [texts[1:], texts[2:], texts]

    async def test_a_model_that_says_yes_too_easily_is_taken_at_its_own_threshold(self, tmp_path):
        llm = Sliding(Mind(), Limits(logprobs=True, yes_from=1.0))
        kept = (await run(tmp_path, "logit", ["a 0.5", "b 1.5"], llm)).tables["told"].to_pylist()
        assert kept == [{"text": "b 1.5"}]

    async def test_a_batch_is_divided_into_two_groups(self, tmp_path):
        texts = [f"row {score}" for score in (3.0, 3.2, 3.4, 6.0, 6.5, 7.0)]
        kept = (
            (await run(tmp_path, "logit(split=true)", texts, Sliding(Mind())))
            .tables["told"]
            .to_pylist()
        )
        assert [row["text"] for row in kept] == texts[3:]

    @pytest.mark.parametrize(
        ("way", "said"),
        [
            ("logit(threshold=1)", "threshold must be above 0 and below 1"),
            ("logit(labels=a.csv, split=true)", "labels and split exclude each other"),
        ],
    )
    def test_parameters_that_make_no_sense_are_refused(self, way, said):
        with pytest.raises(PlanError, match=said):
            LIBRARY.get("sem_filter", Choice.parse(way))


LABELS = {float(n): "true" if n > 4 else "false" for n in range(10)}


class TestCalibration:
    async def test_labelled_rows_move_the_threshold_and_the_notes_say_how_well(self, tmp_path):
        path = labelled(tmp_path, LABELS)
        llm = Sliding(Mind())
        result = await run(
            tmp_path, f"logit(labels={path})", ["a 2.0", "b 4.0", "c 5.0", "d 8.0"], llm
        )
        assert [row["text"] for row in result.tables["told"].to_pylist()] == ["c 5.0", "d 8.0"]
        (note,) = result.notes
        assert "calibrated on 10 labelled rows" in note
        assert note.endswith("10 of 10 are right when each is left out")
        assert len(llm.requests) == 14

    async def test_rows_of_a_join_are_labelled_by_both_sides(self, tmp_path):
        path = tmp_path / "pairs.jsonl"
        pairs = [
            ("a1", "a9", True),
            ("a2", "b9", False),
            ("b3", "b8", True),
            ("c3", "d8", False),
        ] * 4
        path.write_text(
            "".join(
                f'{{"name": "{a}", "c.name": "{b}", "c.weight": 1.5, "match": {str(m).lower()}}}\n'
                for a, b, m in pairs
            )
        )
        llm = Oracle(mind("sem_join"))
        table = await ask(some("sem_join", 3, answers=False), f"logit(labels={path})", llm)
        assert table.column("match").to_pylist() == (
            (await ask(some("sem_join", 3, answers=False), "nested_loop"))
            .column("match")
            .to_pylist()
        )

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (
                "text,kept\nrow 1,true\n",
                r'no column "keep" \(it has: text, kept\).*Did you mean "kept"',
            ),
            ("text,keep\n", "it has no rows"),
            ("text,keep\nrow 1,maybe\n", 'column "keep"'),
            (
                "text,keep\nrow 1.0,true\nrow 2.0,false\n",
                "calibration needs at least 4 of yes and of no",
            ),
        ],
    )
    async def test_labels_that_cannot_be_used_are_an_error_that_names_the_file(
        self, tmp_path, content, said
    ):
        path = tmp_path / "labels.csv"
        path.write_text(content)
        with pytest.raises(PlanError, match=said) as caught:
            await run(tmp_path, f"logit(labels={path})", ["a 2.0"], Sliding(Mind()))
        assert str(path) in str(caught.value)
        assert "step told" in str(caught.value)

    async def test_labels_that_the_model_contradicts_are_an_error(self, tmp_path):
        path = labelled(
            tmp_path,
            {score: "false" if keep == "true" else "true" for score, keep in LABELS.items()},
        )
        with pytest.raises(PlanError, match="do not follow them"):
            await run(tmp_path, f"logit(labels={path})", ["a 2.0"], Sliding(Mind()))

    async def test_a_file_that_is_not_there_is_named(self, tmp_path):
        with pytest.raises(PlanError, match=r"none\.csv: it cannot be read"):
            await run(tmp_path, "logit(labels=none.csv)", ["a 2.0"], Sliding(Mind()))

    async def test_labels_are_read_again_when_their_file_changes(self, tmp_path):
        path = labelled(tmp_path, LABELS)
        plan = tmp_path / "again.yaml"
        plan.write_text(PLAN.lstrip().format(way=f"logit(labels={path})"), encoding="utf-8")
        async with sg.Session(
            llm=Sliding(Mind()), embedder=Grams(), store="memory", journal=False, runs=""
        ) as session:
            kept = []
            for least in (3, 5):
                labelled(tmp_path, {float(n): str(n > least).lower() for n in range(10)})
                result = await session.arun(plan, texts=rows("a 1.0", "b 4.9", "c 9.0"))
                kept.append([row["text"] for row in result.tables["told"].to_pylist()])
        assert kept == [["b 4.9", "c 9.0"], ["c 9.0"]]

    async def test_windows_share_one_calibration(self):
        logit = ByLogOdds(labels="never read")
        logit.curves[node("sem_filter").fingerprint, None] = fitted(
            [0.0, 1.0, 4.0, 5.0], [False, False, True, True]
        )
        llm = Oracle(mind("sem_filter"))
        from semgraph.meter import StepMetrics
        from semgraph.semantic.context import Context

        case = some("sem_filter", 5)
        async with Context(llm, Grams(), case.node(), StepMetrics()) as ctx:
            await logit.verdicts(case.node(), case.rows(), ctx)
        assert len(llm.requests) == 5


def test_a_curve_survives_labels_that_are_separated_cleanly_and_some_that_are_wrong():
    scores = [float(n) for n in range(20)]
    clean = fitted(scores, [n > 9 for n in range(20)])
    assert -clean.offset / clean.slope == pytest.approx(9.5)
    noisy = [n > 11 for n in range(20)]
    noisy[3], noisy[17] = True, False
    assert 8 < -fitted(scores, noisy).offset / fitted(scores, noisy).slope < 15
    assert left_out_correct(scores, noisy) == 17


def test_a_few_labels_find_the_middle_between_two_overlapping_bells():
    """Twenty rows drawn at random cost about one point against the best cut, in the mean over many
    draws.
    """
    draw, bell, lost = random.Random(3), NormalDist(), []
    for _ in range(300):
        labels = [True, True, False, False] * 2 + [draw.random() < 0.5 for _ in range(12)]
        curve = fitted([draw.gauss(1.0 if label else -1.0, 1.0) for label in labels], labels)
        at = -curve.offset / curve.slope
        lost.append(bell.cdf(1.0) - (bell.cdf(1.0 - at) + bell.cdf(1.0 + at)) / 2)
    assert mean(lost) < 0.011


def test_labels_of_one_score_each_give_a_finite_curve():
    curve = fitted([1.0] * 4 + [2.0] * 4, [False] * 4 + [True] * 4)
    assert curve.log_odds(1.0) < 0 < curve.log_odds(2.0) < 30
    assert fitted([1.0] * 8, [False, True] * 4).slope == 0


def test_scores_that_are_all_equal_are_not_divided():
    assert cut([2.0, 2.0, 2.0]) == 2.0


async def test_graded_scores_of_topk_are_those_of_the_model():
    table = await ask(some("sem_topk", 9), "logit")
    exact = await ask(some("sem_topk", 9), "pointwise")
    assert table.column("score").to_pylist() == pytest.approx(
        exact.column("score").to_pylist(), abs=1e-4
    )


async def test_a_text_that_is_no_word_counts_by_its_probabilities():
    """A model may begin with something else and still hold yes far more probable than no."""

    def spoil(request: Request, reply: Reply) -> Reply:
        return Reply("It", call_id=reply.call_id, finish="length", logprobs=(-2.0, -7.0))

    table = await ask(some("sem_filter", 3), "logit", Faulty(Oracle(mind("sem_filter")), spoil))
    assert table.column("keep").to_pylist() == [True] * 3
