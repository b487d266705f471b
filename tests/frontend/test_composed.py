"""Compositions under LOTUS's names: the operators that they write, and the rows that they have."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

import semgraph as sg
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError
from semgraph.frontend.frame import Frame
from semgraph.frontend.load import load_plan
from semgraph.llm.base import Embeddings, Free

WORDS = ["kettle", "leak", "water", "thank", "lamp", "broke"]
NOTES = [
    {"id": 7, "body": "kettle leak"},
    {"id": 8, "body": "kettle leak water"},
    {"id": 9, "body": "thank"},
    {"id": 10, "body": None},
    {"id": 11, "body": "lamp broke"},
    {"id": 12, "body": "kettle leak"},
]


class Words(Free):
    """Vectors that count the words of a text."""

    name = "words"

    async def dimensions(self) -> int:
        return len(WORDS)

    def count_tokens(self, text: str) -> int:
        return len(text) // 4

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:
        counts = [[text.lower().count(word) + 0.01 for word in WORDS] for text in texts]
        return Embeddings(np.array(counts, np.float32), calls=1, attempts=1)

    async def aclose(self) -> None:
        """Nothing is open."""


def answer(text: str) -> dict[str, Any]:
    """What the words of a question say."""
    if text.startswith("Which label"):
        return {"label": "bug" if re.search("leak|broke", text) else "praise"}
    if found := re.search(r"body: (\w*)", text):
        return {"product": found[1] or None, "count": len(text.split())}
    return {"kind": "bug"}


@pytest.fixture
def oracle() -> Oracle:
    return Oracle(Mind(answer=answer, score=lambda text: float(len(text))))


@pytest.fixture
def session(oracle: Oracle, tmp_path: Path) -> Iterator[sg.Session]:
    with sg.Session(
        llm=oracle, embedder=Words(), store="memory", journal=False, runs="", folder=tmp_path
    ) as opened:
        yield opened


@pytest.fixture
def notes() -> Frame:
    return sg.table(NOTES, name="notes")


@pytest.fixture
def products() -> Frame:
    return sg.table([{"name": "a lamp"}, {"name": "a kettle"}], name="products")


def tracemalloc_peak(run: Callable[[], object]) -> int:
    """The most bytes that a call holds."""
    tracemalloc.start()
    run()
    return (tracemalloc.get_traced_memory()[1], tracemalloc.stop())[0]


def ids(rows: Sequence[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def test_a_search_has_the_nearest_rows_first(session: sg.Session, notes: Frame) -> None:
    found = session.run(notes.sem_search("body", "a kettle with a leak", k=3)).rows()
    assert ids(found) == [7, 12, 8]
    assert [round(row["similarity"], 2) for row in found] == [1.0, 1.0, 0.82]
    everything = session.run(notes.sem_search("body", "thank", k=99)).rows()
    assert sorted(ids(everything)) == [7, 8, 9, 11, 12]


def test_a_search_is_ranked_by_the_model(session: sg.Session, oracle: Oracle, notes: Frame) -> None:
    query = "who's {leaking}?"
    found = session.run(notes.sem_search("body", query, rerank=2)).rows()
    assert ids(found) == [8, 7]
    assert [row["rank"] for row in found] == [0, 1]
    assert len(oracle.requests) == 4  # equal texts are one question
    assert all(query in request.messages[-1].content for request in oracle.requests)
    both = session.run(notes.sem_search("body", "kettle", k=3, rerank=1, prompt="How long: {body}"))
    assert ids(both.rows()) == [8]
    assert oracle.requests[-1].messages[-1].content.startswith("How long: kettle leak")


def test_a_similarity_join_has_the_nearest_rows_of_the_other(
    session: sg.Session, notes: Frame, products: Frame
) -> None:
    pairs = session.run(notes.sem_sim_join(products, "body", "name", 1, alias="about")).rows()
    named = {row["id"]: row["about"]["name"] for row in pairs}
    assert named[7] == named[8] == "a kettle"
    assert named[11] == "a lamp"
    assert 10 not in named
    near = notes.sem_sim_join(products, "body", "name", 2, above=0.5, how="left", step="near")
    kept = {row["id"]: row["other"] and row["similarity"] for row in session.run(near).rows()}
    assert kept[9] is kept[10] is None
    assert kept[11] == pytest.approx(0.71, abs=0.02)


def test_deduplication_keeps_the_first_of_connected_rows(session: sg.Session, notes: Frame) -> None:
    assert ids(session.run(notes.sem_dedup("body", 0.8)).rows()) == [7, 9, 10, 11]
    assert ids(session.run(notes.sem_dedup("body", 0.99)).rows()) == [7, 8, 9, 10, 11]
    empty = [*NOTES, {"id": 13, "body": None}, {"id": 14, "body": "thank"}]
    all_empty = sg.table(empty, name="notes").sem_dedup("body", 0.99)
    assert ids(session.run(all_empty).rows()) == [7, 8, 9, 10, 11, 13]
    keyed = sg.table(NOTES, key="id", name="notes").sem_dedup("body", 0.8)
    assert keyed.columns == ["id", "body"]
    assert ids(session.run(keyed).rows()) == [7, 9, 10, 11]


def test_rows_of_two_groups_are_no_duplicates(session: sg.Session) -> None:
    rows = [
        {"group_id": group, "body": text}
        for group in "ab"
        for text in ("kettle", "kettle leak", "kettle")
    ]
    found = session.run(sg.table(rows, name="groups").sem_dedup("body", 0.5)).rows()
    assert found == [rows[0], rows[3]]


def test_equal_texts_are_compared_once(session: sg.Session) -> None:
    many = sg.table([{"body": "kettle leak"}] * 4000, name="many").sem_dedup("body", 0.5)
    peak = tracemalloc_peak(lambda: session.run(many).rows())
    assert peak < 100 << 20  # 16 million pairs of rows take gigabytes


@pytest.mark.parametrize("threshold", [1, 1.5, None, "0.9", float("nan")])
def test_a_threshold_is_a_cosine_below_one(notes: Frame, threshold: Any) -> None:
    with pytest.raises(PlanError, match='a cosine below 1. Equal texts: distinct."body".'):
        notes.sem_dedup("body", threshold)


def test_clusters_are_named_by_their_first_row(session: sg.Session, notes: Frame) -> None:
    texts = notes.filter("body IS NOT NULL")
    found = {
        row["id"]: row["topic"]
        for row in session.run(texts.sem_cluster_by("body", 3, alias="topic")).rows()
    }
    assert found == {7: 1, 8: 1, 9: 3, 11: 4, 12: 1}


def test_classes_are_labels_of_a_column_or_of_a_prompt(
    session: sg.Session, oracle: Oracle, notes: Frame
) -> None:
    labels = {"bug": "something is broken", "praise": "a thank-you"}
    classes = session.run(notes.sem_classify("body", labels, when="id > 8")).rows()
    assert [row["label"] for row in classes] == [None, None, "praise", "praise", "bug", "bug"]
    assert "bug: something is broken; praise: a thank-you" in oracle.requests[0].schema
    asked = notes.sem_classify("What is {body}?", ["bug", "praise"], alias="kind")
    assert {row["kind"] for row in session.run(asked).rows()} == {"bug"}


def test_fields_have_types_or_descriptions(
    session: sg.Session, oracle: Oracle, notes: Frame
) -> None:
    read = notes.filter("id = 7").sem_extract("body", {"product": "what leaks", "count": int})
    assert str(read) == "Frame(sem_map: id int64, body string, product string, count int64)"
    (row,) = session.run(read).rows()
    assert row["product"] == "kettle"
    assert "what leaks" in oracle.requests[0].schema


def test_a_description_that_is_empty_is_not_shown(
    session: sg.Session, oracle: Oracle, notes: Frame
) -> None:
    session.run(notes.sem_classify("body", {"bug": "it broke", "praise": ""})).rows()
    assert '"bug: it broke"' in oracle.requests[0].schema


def test_fields_are_a_class_too(notes: Frame) -> None:
    class Read(BaseModel):
        product: str | None

    read = notes.sem_extract("body", Read)
    assert read.columns == ["id", "body", "product"]


COMPOSITIONS: dict[str, tuple[Callable[[Frame, Frame], Frame], list[str]]] = {
    "sem_search": (
        lambda a, _: a.sem_search("body", "it's", k=2, rerank=1),
        ["filter", "embed", "add", "limit", "sort", "project", "sem_topk"],
    ),
    "sem_sim_join": (lambda a, b: a.sem_sim_join(b, "body", "name", 1), ["search", "add"]),
    "sem_dedup": (lambda a, _: a.sem_dedup("body", 0.9), ["search", "project", "cluster", "distinct", "project"]),
    "sem_cluster_by": (lambda a, _: a.sem_cluster_by("body", 2), ["add", "embed", "cluster", "project"]),
    "sem_classify": (lambda a, _: a.sem_classify("body", ["x y", "z"]), ["sem_map"]),
    "sem_extract": (lambda a, _: a.sem_extract(["id", "body"], {"c": None}), ["sem_map"]),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_a_composition_is_written_as_its_operators(
    name: str, notes: Frame, products: Frame, tmp_path: Path
) -> None:
    compose, operators = COMPOSITIONS[name]
    frame = compose(notes, products).step("last")
    path = tmp_path / "query.yaml"
    path.write_text(frame.to_yaml(), encoding="utf-8")
    plan = load_plan(path)
    assert plan.fingerprint == frame.to_plan().fingerprint
    steps = plan.document["steps"]["last"]
    assert [next(iter(line)) for line in steps][1:] == operators


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_an_unknown_column_is_named(name: str, products: Frame) -> None:
    compose, _ = COMPOSITIONS[name]
    with pytest.raises(PlanError, match=f'{name}: no column ".*". Columns here: text'):
        compose(sg.table([{"text": "x"}], name="other"), products)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda f: f.sem_search("body", "x", K=3), 'did you mean "k"'),
        (lambda f: f.sem_search(col_name="body", query="x", k=1), 'did you mean "column"'),
        (lambda f: f.sem_search("body", "x", n_rerank=3), 'did you mean "rerank"'),
        (lambda f: f.sem_cluster_by("body", ncentroids=3), 'did you mean "n"'),
        (lambda f: f.sem_extract(input_cols=["body"], fields={}), 'did you mean "columns"'),
    ],
)
def test_arguments_of_lotus_are_refused_with_ours(
    call: Callable[[Frame], Frame], hint: str, notes: Frame
) -> None:
    with pytest.raises(TypeError, match=hint.replace("did", "Did")):
        call(notes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f.sem_search("body", "x"), "sem_search needs a text as its query, and k, rerank"),
        (lambda f: f.sem_search("body", None, k=1), "sem_search needs a text as its query"),
        (lambda f: f.sem_search("body", "x", k=2).sem_search("body", "y", k=1), 'sem_search adds "similarity", which is'),
        (lambda f: f.sem_classify("my body", ["a"]), 'sem_classify: no column "my body"'),
        (lambda f: f.sem_classify("body", "bug"), 'labels are texts. Write ."bug", "praise".'),
        (lambda f: f.sem_classify("body", []), "labels are texts"),
        (lambda f: f.sem_classify("body", [1, 2]), "labels are texts"),
        (lambda f: f.sem_extract([], {"a": "x"}), 'sem_extract: no column ""'),
        (lambda f: f.sem_sim_join([{"body": "x"}], "body", "body", 1), "other is list, no frame. Write semgraph.table"),
        (lambda f: f.sem_search(0, "x", k=1), 'sem_search: no column "0"'),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(
    call: Callable[[Frame], Frame], message: str, notes: Frame
) -> None:
    with pytest.raises(PlanError, match=message):
        call(notes)


@pytest.mark.parametrize("name", ["current_date", "if", "not", "null", "localtime", "order"])
def test_columns_are_named_by_words_of_sql(session: sg.Session, name: str) -> None:
    rows = sg.table([{name: "kettle"}, {name: "lamp"}, {name: "kettle leak"}], name="words")
    found = session.run(rows.sem_search(name, "lamp", k=1)).rows()
    assert [row[name] for row in found] == ["lamp"]
    assert len(session.run(rows.sem_dedup(name, 0.6)).rows()) == 2
    pairs = session.run(
        rows.sem_sim_join(rows.project({"text": f'"{name}"'}), name, "text", 1)
    ).rows()
    assert [row["other"]["text"] for row in pairs] == ["kettle", "lamp", "kettle leak"]
    texts = sg.table([{"text": "kettle"}], name="texts")
    (pair,) = session.run(texts.sem_sim_join(rows, "text", name, 1, alias=name)).rows()
    assert (pair[name][name], pair["similarity"]) == ("kettle", pytest.approx(1))


def test_rows_of_a_ranking_are_deduplicated(session: sg.Session, notes: Frame) -> None:
    ranked = notes.sem_search("body", "kettle", k=3, rerank=3).sem_dedup("body", 0.8)
    assert [row["rank"] for row in session.run(ranked).rows()] == [0]


def test_columns_of_the_names_that_are_used_inside_are_kept(session: sg.Session) -> None:
    rows = [{"row_number": n, "vector": "v", "text_vector": "kettle", "cluster": n} for n in (5, 6)]
    frame = sg.table(rows, name="odd")
    assert session.run(frame.sem_dedup("text_vector", 0.9)).rows() == rows[:1]
    found = session.run(frame.sem_search("text_vector", "kettle", k=1)).rows()
    assert [row["row_number"] for row in found] == [5]
