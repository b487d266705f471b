"""Files of public data sets: where they are looked for, what is said of them, and what is said
where one is wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.public import locomo, longmemeval, movies, musique
from benchmarks.public.bench import BENCHMARK
from benchmarks.public.files import Source
from benchmarks.suite import Line, Lines, Unmeasured
from benchmarks.suite.inputs import INPUTS, UserInputs
from benchmarks.suite.pages import page
from benchmarks.suite.running import measure, work
from tests.benchmarks import datasets

MACHINE = {"cores": 2, "processor": "one", "memory_gib": 8.0}
MADE = {
    "machine": MACHINE,
    "commit": "abc",
    "changed": False,
    "at": "2026-01-02T03:04:05+00:00",
    "hash": "h",
}


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> UserInputs:
    """What the run is given, put back afterwards."""
    for name in ("model", "max_usd", "data"):
        monkeypatch.setattr(INPUTS, name, None)
    return INPUTS


@pytest.mark.parametrize(
    ("load", "name", "licence"),
    [
        (locomo.load, "locomo10.json", "CC BY-NC 4.0"),
        (lambda folder: longmemeval.load("S", folder), "longmemeval_s_cleaned.json", "MIT"),
        (movies.load, "Reviews.csv", "see the data set on Kaggle"),
        (musique.load, "musique.json", "CC BY 4.0"),
        (
            lambda folder: musique.extracted(folder, []),
            "openie_results_ner_gpt-4o-mini.json",
            "MIT",
        ),
    ],
)
def test_a_missing_file_says_where_it_comes_from(
    tmp_path: Path, load: Callable[[Path], object], name: str, licence: str
) -> None:
    with pytest.raises(Unmeasured) as told:
        load(tmp_path)
    for part in (str(tmp_path / name), "Get it from https://", licence, "--data FOLDER"):
        assert part in str(told.value)


def test_a_file_is_found_where_its_authors_put_it(tmp_path: Path) -> None:
    datasets.written(tmp_path / "locomo" / "data" / "locomo10.json", [datasets.locomo_sample()])
    datasets.movies(tmp_path / "files" / "movie" / "data" / "sf_2000")
    assert len(locomo.load(tmp_path).questions) == 5
    assert len(movies.load(tmp_path).reviews) == len(datasets.REVIEWS)


def test_a_checksum_is_reported_with_the_known_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"[]")
    digest = hashlib.sha256(b"[]").hexdigest()
    for known, said in (
        ("", "not known"),
        (digest, "as published"),
        ("0" * 64, "not the published file"),
    ):
        told = Source("a.json", "https://x", "MIT", known).settings(path)
        assert told == {
            "file": "a.json",
            "licence": "MIT",
            "from": "https://x",
            "sha256": digest,
            "checksum": said,
        }


def _without(sample: dict[str, Any], *path: str) -> dict[str, Any]:
    place = sample
    for name in path[:-1]:
        place = place[name]
    del place[path[-1]]
    return sample


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: {"qa": []}, "at the top: expected a list, found an object"),
        (lambda s: [_without(s, "qa")], '[0]: expected an object with "qa", found an object'),
        (lambda s: [_without(s, "conversation", "speaker_a")], '[0].conversation: expected an object with "speaker_a"'),
        (lambda s: [s | {"conversation": {"speaker_a": "A"}}], '[0].conversation: expected "session_1" and its like'),
        (lambda s: [_with(s, "session_1_date_time", "8.5.23")], 'expected a time like "1:56 pm on 8 May, 2023", found a text'),
        (lambda s: [_with(s, "session_1", "said")], "[0].conversation.session_1: expected a list, found a text"),
        (lambda s: [_with(s, "session_1", [{"speaker": 3}])], "session_1[0].speaker: expected a text, found int 3"),
        (lambda s: [s | {"qa": [{"category": 9}]}], "[0].qa[0].category: expected a category from 1 to 5, found int 9"),
        (lambda s: [s | {"qa": [{"category": 4, "answer": None}]}], "[0].qa[0].answer: expected a text or a number, found null"),
    ],
)  # fmt: skip
def test_a_file_of_another_format_is_reported_with_the_position(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    datasets.written(tmp_path / "locomo10.json", change(datasets.locomo_sample()))
    with pytest.raises(Unmeasured) as told:
        locomo.load(tmp_path)
    assert said in str(told.value)
    assert "Is it the file of that name from https://github.com/snap-research/locomo" in str(
        told.value
    )


def _with(sample: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    return sample | {"conversation": sample["conversation"] | {name: value}}


def test_invalid_json_is_reported(tmp_path: Path) -> None:
    (tmp_path / "musique.json").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(
        Unmeasured,
        match=r"musique\.json: no JSON: .*may have been cut, or be a page that points to it",
    ):
        musique.load(tmp_path)


def test_longmemeval_is_checked(tmp_path: Path) -> None:
    entry = datasets.longmemeval()[0]
    for change, said in (
        ({"question_type": "trivia"}, "[0].question_type: expected one of single-session-user"),
        (
            {"haystack_dates": ["2023/05/20 (Sat) 02:21"]},
            "expected as many sessions as ids (2) and dates (1)",
        ),
        ({"question_date": "yesterday"}, 'expected a time like "2023/05/20 (Sat) 02:21"'),
    ):
        datasets.written(tmp_path / "longmemeval_oracle.json", [entry | change])
        with pytest.raises(Unmeasured) as told:
            longmemeval.load("oracle", tmp_path)
        assert said in str(told.value)


def test_reviews_are_checked(tmp_path: Path) -> None:
    datasets.movies(tmp_path)
    columns = ("id", "reviewId", "reviewText", "scoreSentiment", "originalScore")
    for chosen, rows, said in (
        (
            columns[:3],
            [],
            "Reviews.csv:1  no column scoreSentiment, originalScore; found id, reviewId, reviewText",
        ),
        (
            columns,
            [("a", "1", "x", "GOOD", "")],
            'Reviews.csv:2  scoreSentiment: expected POSITIVE or NEGATIVE, found "GOOD"',
        ),
        (
            columns,
            [(movies.OTHER, "1", "x", "POSITIVE", "B+/5")],
            'originalScore: expected a number, found "B+"',
        ),
    ):
        datasets.table(tmp_path / "Reviews.csv", chosen, rows)
        with pytest.raises(Unmeasured) as told:
            movies.load(tmp_path)
        assert said in str(told.value)
    datasets.table(tmp_path / "Reviews.csv", columns, [("a", "1", "x", "POSITIVE", "")])
    with pytest.raises(Unmeasured, match=r'no review of "taken_3": it is not of scale factor 2000'):
        movies.load(tmp_path).of(movies.ONE)


def test_nothing_is_measured_without_model_limit_and_data(
    given: UserInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "--model" in BENCHMARK.lacks()
    given.model = "openai:gpt-4.1-mini"
    assert BENCHMARK.lacks() == "openai:gpt-4.1-mini needs a key: export OPENAI_API_KEY=…"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    assert "costs money, so it needs a limit: --max-usd" in BENCHMARK.lacks()
    given.max_usd = 1
    said = BENCHMARK.lacks()
    assert "--data FOLDER" in said
    assert (
        "LoCoMo: locomo10.json from https://github.com/snap-research/locomo (data/locomo10.json); licence CC BY-NC 4.0"
        in said
    )
    assert "sha256 79fa87e9" in said
    given.data = tmp_path
    assert BENCHMARK.lacks() == ""
    given.model = "openai:some-model@http://127.0.0.1:9/v1"
    assert (
        "no price is known for openai:some-model@http://127.0.0.1:9/v1: --max-usd cannot be enforced"
        in BENCHMARK.lacks()
    )
    given.model, given.max_usd = "local", None
    monkeypatch.delenv("OPENAI_API_KEY")
    assert BENCHMARK.lacks() == ""


def test_a_case_with_a_missing_file_is_skipped_without_a_line(
    given: UserInputs, tmp_path: Path
) -> None:
    given.model, given.data = "local", tmp_path
    lines = Lines("public", tmp_path)
    (first, *_) = work(BENCHMARK, quick=False, full=False)
    (line,) = measure(BENCHMARK, [first], lines)
    assert line.failed.startswith(f"not measured: there is no {tmp_path / 'locomo10.json'}")
    assert line.key == {
        "set": "LoCoMo", "part": "1 conversation", "way": "turns by both", "model": "local:Qwen2.5-Coder-1.5B",
    }  # fmt: skip
    assert list(lines) == []


def test_a_line_has_the_checksum_and_the_licence(given: UserInputs, tmp_path: Path) -> None:
    given.model, given.data = "local", tmp_path
    path = datasets.written(tmp_path / "locomo10.json", [datasets.locomo_sample()])
    (case, *_) = BENCHMARK.cases()
    (told,) = case.settings["data"]
    assert told["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (told["licence"], told["checksum"]) == ("CC BY-NC 4.0", "not the published file")
    assert case.settings["provider"] == "this machine"


def test_the_page_has_a_row_for_every_model_that_was_measured(given: UserInputs) -> None:
    key = {"set": "LoCoMo", "part": "1 conversation", "way": "lean"}
    figures = {
        "f1": 0.4321,
        "version": "some-model-2026-01-02",
        "data": "locomo10.json, sha256 79fa87e90f04…",
    }
    lines = [
        Line("public", key | {"model": f"openai:{name}"}, trial, figures, {}, MADE, kind="real")
        for trial in range(2)
        for name in ("a", "b")
    ]
    text = page(BENCHMARK, lines)
    for model in ("a", "b"):
        (row,) = (
            one
            for one in text.splitlines()
            if one.startswith(f"| 1 conversation | lean | openai:{model} |")
        )
        assert "0.432" in row
        assert "some-model-2026-01-02" in row
        assert "sha256 79fa87e90f04…" in row
    assert "A real model answered" in text
    assert "Adversarial questions have no answer and are kept apart" in text
