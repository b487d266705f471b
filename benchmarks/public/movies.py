"""SemBench's movie scenario: ten queries over reviews of films, each a plan; the truth is each
review's own label or score.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import semgraph as sg
from benchmarks.public.files import Source
from benchmarks.public.scores import of_limited, relative_error, spearman
from benchmarks.real.asking import Asking, Figures
from benchmarks.suite import Unmeasured
from semgraph.frontend.frame import Frame

_HOME = "https://github.com/SemBench/SemBench"
_LICENCE = "SemBench: Apache-2.0 or MIT; the reviews: see the data set on Kaggle that it names"
_MADE = ", made by its src/scenario/movie/preparation/generate_data.py with scale factor 2000"
_FOLDERS = ("sf_2000", "movie/data/sf_2000", "files/movie/data/sf_2000")
REVIEWS = Source("Reviews.csv", _HOME, _LICENCE, folders=_FOLDERS, needs=_MADE)
MOVIES = Source("Movies.csv", _HOME, _LICENCE, folders=_FOLDERS, needs=_MADE)
ONE, OTHER = "taken_3", "ant_man_and_the_wasp_quantumania"
"""The films that the queries are about."""
_POSITIVE = "Is this review of a film clearly positive?\n\n{reviewText}"
_LABEL = "Is this review of a film, on the whole, for it (positive) or against it (negative)?\n\n{reviewText}"
_SCORE = (
    "How much did the reviewer like the film? 5: very much. 4: on the whole. 3: neither this nor that, or it cannot be told. "
    "2: little. 1: not at all.\n\n{reviewText}"
)
_PAIR = {
    "same": "Do these two reviews of a film feel alike about it, both for it or both against it?",
    "opposite": "Do these two reviews of a film feel the opposite about it, one for it and one against it?",
}
_BOTH = "\n\nOne: {reviewText}\n\nThe other: {r.reviewText}"
Row = Mapping[str, str]


@dataclass(frozen=True)
class Data:
    """Reviews (id of the film, reviewId, reviewText, scoreSentiment, originalScore) and the
    audience's score of each film.
    """

    reviews: Sequence[Row]
    audience: Mapping[str, float]

    def of(self, film: str) -> list[Row]:
        """The reviews of a film, each once. Raises Unmeasured if it has none."""
        found = {row["reviewId"]: row for row in self.reviews if row["id"] == film}
        if not found:
            raise Unmeasured(
                f'{REVIEWS.name} has no review of "{film}": it is not of scale factor 2000, or not of SemBench'
            )
        return list(found.values())


def load(folder: Path | None) -> Data:
    """Both tables.

    Raises:
        Unmeasured: A file is missing, or lacks a column, or a value is none.
    """
    reviews = _table(
        REVIEWS, folder, ("id", "reviewId", "reviewText", "scoreSentiment", "originalScore")
    )
    for row in reviews:
        if row["scoreSentiment"] not in {"POSITIVE", "NEGATIVE"}:
            raise _wrong(REVIEWS, folder, row, "scoreSentiment", "POSITIVE or NEGATIVE")
        if row["id"] == OTHER and row["originalScore"]:
            _number(
                {**row, "originalScore": row["originalScore"].split("/")[0]},
                "originalScore",
                REVIEWS,
                folder,
            )
    audience: dict[str, float] = {}
    for row in _table(MOVIES, folder, ("id", "audienceScore")):
        if row["audienceScore"]:
            audience[row["id"]] = _number(row, "audienceScore", MOVIES, folder)
    return Data(reviews, audience)


def _table(source: Source, folder: Path | None, columns: Sequence[str]) -> list[Row]:
    path = source.within(folder)
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if lacking := [name for name in columns if name not in (reader.fieldnames or ())]:
            raise Unmeasured(
                f"{path}:1  no column {', '.join(lacking)}; found {', '.join(reader.fieldnames or ['nothing'])}. "
                f"Is it the {source.name} that SemBench makes? Make it anew"
            )
        return [{**row, "line": str(reader.line_num)} for row in reader]


def _number(row: Row, column: str, source: Source, folder: Path | None) -> float:
    try:
        return float(row[column])
    except ValueError:
        raise _wrong(source, folder, row, column, "a number") from None


def _wrong(source: Source, folder: Path | None, row: Row, column: str, expected: str) -> Unmeasured:
    where = f"{source.within(folder)}:{row['line']}  {column}"
    return Unmeasured(
        f'{where}: expected {expected}, found "{row[column]}". Make the file anew: {source.url}{source.needs}'
    )


@dataclass(frozen=True)
class Query:
    """A query with its implementations and its score.

    Args:
        says: The query in words.
        ways: The compared choices: the step's implementation, or the plan.
        rows: The reviews of the query.
        plan: Builds the plan from the reviews and a choice.
        score: Scores the result.
        count: The number of rows to return; None: all.
        whole: Whether it covers all reviews of all films, or takes many calls: measured with --full
            only.
    """

    says: str
    ways: Sequence[str]
    rows: Callable[[Data], Sequence[Row]]
    plan: Callable[[Frame, str], Frame]
    score: Callable[[list[dict[str, Any]], Data], Figures]
    count: int | None = None
    whole: bool = False


def _one(data: Data) -> Sequence[Row]:
    return data.of(ONE)


def _other(data: Data) -> Sequence[Row]:
    return data.of(OTHER)


def _all(data: Data) -> Sequence[Row]:
    return data.reviews


def _limited(count: int) -> Callable[[Frame, str], Frame]:
    return lambda reviews, _: _positive(reviews).limit(n=count)


def _positive(reviews: Frame) -> Frame:
    return reviews.sem_filter(_POSITIVE, on_error="null").step("asked")


def _counted(reviews: Frame, _: str) -> Frame:
    return _positive(reviews).aggregate(add={"n": "count(*)"})


def _pairs(kind: str, count: int | None) -> Callable[[Frame, str], Frame]:
    def plan(reviews: Frame, way: str) -> Frame:
        if way == "label":
            labelled = _labelled(reviews)
            sign = "=" if kind == "same" else "<>"
            found = labelled.join(
                labelled, alias="r", where=f"reviewId < r.reviewId AND label {sign} r.label"
            )
        else:
            found = reviews.sem_join(
                reviews, "r", _PAIR[kind] + _BOTH, where="reviewId < r.reviewId", on_error="null"
            ).step("asked")
        pairs = found.project({"a": "reviewId", "b": "r.reviewId"})
        return pairs if count is None else pairs.limit(n=count)

    return plan


def _labelled(reviews: Frame) -> Frame:
    return reviews.sem_map(
        _LABEL, returns={"label": "enum<positive, negative>"}, on_error="null"
    ).step("asked")


def _labels(reviews: Frame, _: str) -> Frame:
    return _labelled(reviews).aggregate(by=["label"], add={"n": "count(*)"})


def _scored(reviews: Frame) -> Frame:
    return reviews.sem_map(_SCORE, returns={"score": "int64"}, on_error="null").step("asked")


def _films(reviews: Frame, _: str) -> Frame:
    return _scored(reviews).aggregate(by=["id"], add={"score": "avg(score)"})


def _is_positive(row: Row) -> bool:
    return row["scoreSentiment"] == "POSITIVE"


def _of_found(
    rows: Callable[[Data], Sequence[Row]], count: int
) -> Callable[[list[dict[str, Any]], Data], Figures]:
    def score(found: list[dict[str, Any]], data: Data) -> Figures:
        truth = {row["reviewId"] for row in rows(data) if _is_positive(row)}
        return _retrieved([row["reviewId"] for row in found], truth, count)

    return score


def _of_pairs(kind: str, count: int | None) -> Callable[[list[dict[str, Any]], Data], Figures]:
    def score(found: list[dict[str, Any]], data: Data) -> Figures:
        truth = {
            frozenset((a["reviewId"], b["reviewId"]))
            for a, b in combinations(data.of(OTHER), 2)
            if (_is_positive(a) == _is_positive(b)) == (kind == "same")
        }
        return _retrieved([frozenset((row["a"], row["b"])) for row in found], truth, count)

    return score


def _retrieved(found: Sequence[object], truth: set[Any], count: int | None) -> Figures:
    precision, recall, f1 = of_limited(found, truth, count)
    return {
        "metric": "F1",
        "quality": round(f1, 4),
        "precision": round(precision, 4),
        "recall": round(recall, 4),
    }


def _erring(found: Mapping[str, float], truth: Mapping[str, float]) -> Figures:
    return {"metric": "relative error", "error": round(relative_error(found, truth), 4)}


def _of_count(found: list[dict[str, Any]], data: Data) -> Figures:
    return _erring({"n": found[0]["n"]}, {"n": sum(map(_is_positive, data.of(ONE)))})


def _of_share(found: list[dict[str, Any]], data: Data) -> Figures:
    rows = data.of(ONE)
    return _erring(
        {"share": found[0]["n"] / len(rows)}, {"share": sum(map(_is_positive, rows)) / len(rows)}
    )


def _of_labels(found: list[dict[str, Any]], data: Data) -> Figures:
    given = {str(row["label"]).upper(): row["n"] for row in found if row["label"] is not None}
    return _erring(given, Counter(row["scoreSentiment"] for row in data.of(ONE)))


def _of_scores(found: list[dict[str, Any]], data: Data) -> Figures:
    given = {row["reviewId"]: float(row["score"]) for row in found if row["score"] is not None}
    true = {
        row["reviewId"]: float(row["originalScore"].split("/")[0])
        for row in data.of(OTHER)
        if row["originalScore"]
    }
    return {"metric": "Spearman", "quality": round(spearman(given, true), 4)}


def _of_films(found: list[dict[str, Any]], data: Data) -> Figures:
    given = {row["id"]: float(row["score"]) for row in found if row["score"] is not None}
    return {"metric": "Spearman", "quality": round(spearman(given, data.audience), 4)}


_ROWS = ("per_row", "packed(rows=20)")
_JOINS = ("block", "label")
QUERIES = {
    "Q1": Query(
        "five clearly positive reviews", _ROWS, _all, _limited(5), _of_found(_all, 5), 5, whole=True
    ),
    "Q2": Query(
        "five positive reviews of one film", _ROWS, _one, _limited(5), _of_found(_one, 5), 5
    ),
    "Q3": Query("how many are positive", _ROWS, _one, _counted, _of_count),
    "Q4": Query("which share is positive", _ROWS, _one, _counted, _of_share),
    "Q5": Query(
        "ten pairs that feel alike", _JOINS, _other, _pairs("same", 10), _of_pairs("same", 10), 10
    ),
    "Q6": Query(
        "ten pairs that feel the opposite",
        _JOINS,
        _other,
        _pairs("opposite", 10),
        _of_pairs("opposite", 10),
        10,
    ),
    "Q7": Query(
        "all such pairs",
        _JOINS,
        _other,
        _pairs("opposite", None),
        _of_pairs("opposite", None),
        whole=True,
    ),
    "Q8": Query("how many for and against", _ROWS, _one, _labels, _of_labels),
    "Q9": Query(
        "scores from 1 to 5", _ROWS, _other, lambda reviews, _: _scored(reviews), _of_scores
    ),
    "Q10": Query("films by their reviews", _ROWS, _all, _films, _of_films, whole=True),
}


async def measured(asking: Asking, data: Data, name: str, way: str) -> Figures:
    """One query with one choice. `label` judges each review once and compares the labels."""
    query = QUERIES[name]
    rows = [{key: row[key] for key in ("id", "reviewId", "reviewText")} for row in query.rows(data)]
    limited = "five" in query.says or "ten" in query.says
    asking.afford(
        [row["reviewText"] for row in rows[:5] if limited] or [row["reviewText"] for row in rows],
        1,
        query.says,
    )
    use = {} if way == "label" else {"asked": way}
    result = await asking.run(query.plan(sg.table(rows, key=None, name="reviews"), way), use=use)
    (table,) = result.tables.values()
    return {"reviews": len(rows), **query.score(table.to_pylist(), data)}
