"""What the engine makes of answers: `when`, `otherwise`, `how`, `keep`, `on_error`, groups and
ranks. The answers are scripted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from semgraph.expr import Type
from semgraph.expr import parse_scalar as sql
from semgraph.logical.node import Sort, Stop
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.semantic import SemAgg, Semantic, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.semantic.ask import Answered, Asking
from semgraph.semantic.context import Context
from semgraph.semantic.contract import Cost, Observed, Outcome, RowEstimate, Rows
from semgraph.semantic.dispatch import answer
from semgraph.semantic.implementation import Implementation
from tests.relational.relations import relation

Said = Mapping[str, Any] | str  # the answers of an item, or its error


@dataclass(frozen=True)
class Scripted(Implementation[Semantic]):
    """Answers by a function of the item's row (left row, right row or None; for groups: the
    rows).
    """

    say: Callable[..., Said]
    seen: list[Any]

    def estimate(self, node: Semantic, rows: RowEstimate, seen: Observed | None) -> Cost:
        return Cost(rows.items)

    async def answer(self, node: Semantic, rows: Rows, ctx: Context) -> list[Outcome]:
        left = rows.left.to_pylist()
        right = rows.right.to_pylist() if rows.right is not None else []
        asked: list[tuple[Any, ...]] = [(left[i],) for i in rows.lefts]
        if node.keyword == "sem_agg":
            asked = [([left[rows.lefts[i]] for i in items],) for items in rows.groups()]
        elif node.keyword == "sem_join":
            asked = [(left[i], right[j]) for i, j in zip(rows.lefts, rows.rights, strict=True)]
        self.seen.extend(asked)
        said = [self.say(*row) for row in asked]
        return [
            Outcome(None, s, (f"c{n}",)) if isinstance(s, str) else Outcome(s, None, (f"c{n}",))
            for n, s in enumerate(said)
        ]


def prompt(item: str, other: str = "", **returns: str) -> PromptSet:
    typed = tuple((name, Type(kind, nullable=True)) for name, kind in returns.items())
    return PromptSet(
        (("", Prompt("ask", typed, item=Template.parse(item), other=Template.parse(other))),)
    )


def ask(
    node: Semantic, say: Callable[..., Said], *tables: list[dict[str, Any]]
) -> tuple[Answered, list[Any]]:
    seen: list[Any] = []
    asking = Asking(Scripted(say, seen), None, ["p", "q"], "group", None)  # type: ignore[arg-type]
    inputs = [
        pa.Table.from_pylist(rows, schema=child.schema)
        for rows, child in zip(tables, node.inputs, strict=True)
    ]
    return asyncio.run(answer(node, inputs, asking)), seen


ROWS = [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}, {"id": 3, "text": None}]
NOTES = relation("notes", {"id": pa.int64(), "text": pa.string()})
WORDS = relation("words", {"id": pa.int64(), "word": pa.string(), "n": pa.int64()})
WORDED = [
    {"id": 1, "word": "x", "n": 2},
    {"id": 1, "word": "y", "n": 1},
    {"id": 2, "word": "x", "n": 5},
    {"id": 9, "word": "z", "n": 0},
]


def test_a_map_adds_the_answers_and_asks_only_where_it_should() -> None:
    node = SemMap(
        input=NOTES,
        prompt=prompt("{text}", mood="string"),
        when=sql("text <> 'a'"),
        otherwise=(("mood", sql("upper(text)")),),
    )
    found, seen = ask(node, lambda row: {"mood": f"<{row['text']}>"}, ROWS)
    assert [row["mood"] for row in found.table.to_pylist()] == ["A", "<b>", None]
    assert seen == [({"text": "b"},)]
    assert found.rows_in == 1


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Type("int64"), "NULL", None),
        (Type("timestamp", nullable=True), "(NULL)", None),
        (Type("list", item=Type("int64")), "[]", []),
        (Type("list", item=Type("double")), "NULL", None),
    ],
)
def test_a_null_otherwise_is_of_the_answers_type(kind: Type, text: str, value: Any) -> None:
    told = PromptSet((("", Prompt("ask", (("said", kind),), item=Template.parse("{text}"))),))
    node = SemMap(
        input=NOTES, prompt=told, when=sql("text <> 'a'"), otherwise=(("said", sql(text)),)
    )
    found, _ = ask(node, lambda _: "refused: no", ROWS[:1])
    assert found.table.to_pylist() == [{**ROWS[0], "said": value}]
    assert found.table.schema.field("said").type == kind.arrow


@pytest.mark.parametrize(("on_error", "ids"), [("raise", [1, 3]), ("null", [1, 2, 3])])
def test_a_row_without_an_answer_is_left_out_or_kept_with_null(
    on_error: Any, ids: list[int]
) -> None:
    node = SemMap(
        input=NOTES, prompt=prompt("{text}", mood="string"), on_error=on_error, step="moods"
    )
    found, _ = ask(
        node, lambda row: "refused: no" if row["text"] == "b" else {"mood": "fine"}, ROWS
    )
    assert found.table.column("id").to_pylist() == ids
    (failure,) = found.failures
    assert (failure.step, failure.error, failure.row) == (
        "moods",
        "refused: no",
        {"id": 2, "text": "b"},
    )
    assert found.kept == (on_error == "null")


def test_a_filter_keeps_the_rows_with_yes() -> None:
    found, _ = ask(
        SemFilter(input=NOTES, prompt=prompt("{text}")),
        lambda row: {"keep": row["text"] != "a"},
        ROWS,
    )
    assert found.table.column("id").to_pylist() == [2, 3]


def join(**options: Any) -> SemJoin:
    return SemJoin(
        **{
            "input": NOTES,
            "other": WORDS,
            "alias": "w",
            "prompt": prompt("{text}", "{word}", why="string"),
            "using": (("id", "id"),),
        }
        | options
    )


def yes(left: dict[str, Any], right: dict[str, Any]) -> Said:
    return {
        "match": right["word"] != "y",
        "why": f"{left['text']}{right['word']}" if right["word"] != "y" else None,
    }


def test_a_join_asks_about_candidate_pairs_only_and_brings_the_other_row_and_the_answers() -> None:
    found, seen = ask(join(), yes, ROWS, WORDED)
    assert [(r["id"], r["w"], r["why"]) for r in found.table.to_pylist()] == [
        (1, {"id": 1, "word": "x", "n": 2}, "ax"),
        (2, {"id": 2, "word": "x", "n": 5}, "bx"),
    ]
    assert [(a["text"], b["word"]) for a, b in seen] == [("a", "x"), ("a", "y"), ("b", "x")]


@pytest.mark.parametrize(
    ("how", "ids"), [("inner", [1, 2]), ("left", [1, 2, 3]), ("semi", [1, 2]), ("anti", [3])]
)
def test_how_says_which_left_rows_stay(how: Any, ids: list[int]) -> None:
    found, _ = ask(join(how=how), yes, ROWS, WORDED)
    assert found.table.column("id").to_pylist() == ids
    if how == "left":
        assert found.table.to_pylist()[-1] == {"id": 3, "text": None, "w": None, "why": None}


def test_keep_one_takes_the_first_match_by_order() -> None:
    always = lambda _left, _right: {"match": True, "why": ""}  # noqa: E731
    found, _ = ask(join(keep="one", order=(Sort(sql("w.n")),)), always, ROWS, WORDED)
    assert [row["w"]["word"] for row in found.table.to_pylist()] == ["y", "x"]
    found, _ = ask(join(keep="one"), always, ROWS, WORDED)
    assert [row["w"]["word"] for row in found.table.to_pylist()] == ["x", "x"]


def test_equal_rows_of_the_other_side_are_asked_about_once_and_all_of_them_match() -> None:
    twice = [{"id": 1, "word": "x", "n": 1}, {"id": 1, "word": "x", "n": 2}]
    found, seen = ask(join(), yes, ROWS, twice)
    assert len(seen) == 1
    assert [row["w"]["n"] for row in found.table.to_pylist()] == [1, 2]


NAMED = [{"id": i, "text": "ab"[i % 2]} for i in range(6)]


def test_pairs_that_show_the_same_are_asked_about_once_whichever_rows_they_are_of() -> None:
    words = [{"id": i, "word": "xyx"[i % 3], "n": i} for i in range(6)]
    found, seen = ask(join(using=()), yes, NAMED, words)
    assert [(a["text"], b["word"]) for a, b in seen] == [
        ("a", "x"),
        ("a", "y"),
        ("b", "x"),
        ("b", "y"),
    ]
    pairs = [(row["id"], row["w"]["n"], row["why"]) for row in found.table.to_pylist()]
    assert pairs == [(i, n, f"{'ab'[i % 2]}x") for i in range(6) for n in (0, 2, 3, 5)]
    assert found.rows_in == 12
    assert found.evidence is not None
    assert found.evidence.column("match").to_pylist() == [True, False] * 6


def test_equal_left_rows_keep_their_own_candidates_and_the_pairs_of_a_left_row_stay_together() -> (
    None
):
    lefts = [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}, {"id": 3, "text": "a"}]
    words = [
        {"id": 1, "word": "x", "n": 1},
        {"id": 2, "word": "y", "n": 2},
        {"id": 3, "word": "z", "n": 3},
    ]
    found, seen = ask(join(how="left"), yes, lefts, words)
    assert [(a["text"], b["word"]) for a, b in seen] == [("a", "x"), ("a", "z"), ("b", "y")]
    assert [(r["id"], r["w"] and r["w"]["n"]) for r in found.table.to_pylist()] == [
        (1, 1),
        (2, None),
        (3, 3),
    ]


@pytest.mark.parametrize(("on_error", "ids"), [("raise", [1, 3, 5]), ("null", list(range(6)))])
def test_a_failed_question_costs_each_left_row_that_asked_it(on_error: Any, ids: list[int]) -> None:
    one = [{"id": 0, "word": "x", "n": 0}]
    say = lambda a, _b: "refused: no" if a["text"] == "a" else {"match": True, "why": ""}  # noqa: E731
    found, seen = ask(join(using=(), how="left", on_error=on_error), say, NAMED, one)
    assert len(seen) == 2
    assert found.table.column("id").to_pylist() == ids
    assert [f.row["id"] for f in found.failures] == [0, 2, 4]


@pytest.mark.parametrize(("on_error", "ids"), [("raise", [2]), ("null", [1, 2])])
def test_a_failed_pair_costs_its_left_row_or_only_itself(on_error: Any, ids: list[int]) -> None:
    found, _ = ask(
        join(on_error=on_error),
        lambda a, b: "invalid: x" if b["word"] == "y" else yes(a, b),
        ROWS,
        WORDED,
    )
    assert found.table.column("id").to_pylist() == ids
    assert [f.row["id"] for f in found.failures] == [1]


def test_an_aggregate_sees_its_rows_in_order_and_a_group_of_one_may_answer_for_itself() -> None:
    node = SemAgg(
        input=WORDS,
        by=("id",),
        order=(Sort(sql("n")),),
        prompt=prompt("{word}", all="string"),
        when=sql("count(*) > 1"),
        otherwise=(("all", sql("upper(first(word))")),),
    )
    found, seen = ask(node, lambda rows: {"all": "+".join(row["word"] for row in rows)}, WORDED)
    assert found.table.to_pylist() == [
        {"id": 1, "all": "y+x"},
        {"id": 2, "all": "X"},
        {"id": 9, "all": "Z"},
    ]
    assert len(seen) == 1


@pytest.mark.parametrize(("otherwise", "others"), [("n = 0", [9]), ("n > 0", [])])
def test_a_filter_keeps_its_answers_and_rows_that_are_not_asked_if_otherwise_holds(
    otherwise: str, others: list[int]
) -> None:
    node = SemFilter(
        input=WORDS,
        prompt=prompt("{word}", why="string"),
        when=sql("id < 9"),
        otherwise=sql(otherwise),
    )
    found, seen = ask(node, lambda row: {"keep": row["word"] == "x", "why": "so"}, WORDED)
    kept = [(row["id"], row["word"], row["why"]) for row in found.table.to_pylist()]
    assert kept == [(1, "x", "so"), (2, "x", "so"), *((n, "z", None) for n in others)]
    assert len(seen) == 2  # x and y, each once
    assert found.rows_in == 3


def test_a_limit_above_a_filter_counts_rows_that_are_not_asked() -> None:
    rows = [{"id": i, "word": "x" if i % 2 else "y", "n": i} for i in range(1, 41)]
    node = SemFilter(
        input=WORDS,
        prompt=prompt("{word} {id}"),
        when=sql("id > 3"),
        otherwise=sql("id <> 2"),
        stop=Stop(4, (), (Sort(sql("id")),)),
    )
    found, seen = ask(node, lambda row: {"keep": row["word"] == "x"}, rows)
    assert found.table.column("id").to_pylist()[:4] == [1, 3, 5, 7]
    assert len(seen) < 37


@pytest.mark.parametrize("executor", ["duckdb", "both"])
def test_a_group_that_is_not_asked_has_its_aggregates_and_null_for_what_otherwise_leaves_out(
    executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMGRAPH_SEGMENTS", executor)
    node = SemAgg(
        input=WORDS,
        by=("id",),
        order=(Sort(sql("word"), descending=True),),
        prompt=prompt("{word}", all="string", size="double"),
        when=sql("count(*) = 1"),
        otherwise=(("size", sql("count(*)::DOUBLE")),),
        add=(("words", sql("list(word)")), ("first", sql("first(word)"))),
    )
    found, seen = ask(node, lambda rows: {"all": rows[0]["word"], "size": 0.5}, WORDED)
    assert found.table.to_pylist() == [
        {"id": 1, "all": None, "size": 2.0, "words": ["y", "x"], "first": "y"},
        {"id": 2, "all": "x", "size": 0.5, "words": ["x"], "first": "x"},
        {"id": 9, "all": "z", "size": 0.5, "words": ["z"], "first": "z"},
    ]
    assert len(seen) == 2


def test_a_failed_group_keeps_its_aggregates_where_rows_stay() -> None:
    node = SemAgg(
        input=WORDS,
        by=("id",),
        prompt=prompt("{word}", all="string"),
        add=(("n", sql("count(*)")),),
        on_error="null",
    )
    found, _ = ask(node, lambda rows: "invalid: x" if len(rows) > 1 else {"all": "one"}, WORDED)
    assert found.table.to_pylist()[0] == {"id": 1, "all": None, "n": 2}
    assert [f.row["id"] for f in found.failures] == [1]


def test_topk_ranks_within_groups_and_equal_scores_stay_in_row_order() -> None:
    node = SemTopk(input=WORDS, by=("id",), k=1, prompt=prompt("{word}"))
    found, _ = ask(node, lambda _row: {"score": 7.0}, WORDED)
    assert [(r["id"], r["word"], r["rank"], r["score"]) for r in found.table.to_pylist()] == [
        (1, "x", 0, 7.0), (2, "x", 0, 7.0), (9, "z", 0, 7.0),
    ]  # fmt: skip


def test_no_rows_ask_nothing() -> None:
    found, seen = ask(join(), yes, [], WORDED)
    assert not seen
    assert found.table.num_rows == 0
    assert found.table.schema.names == ["id", "text", "w", "why"]


def by_text(item: str = "{text}", other: str = "", **returns: str) -> PromptSet:
    one = prompt(item, other, **returns).first
    return PromptSet((("a", one), ("b", one)), on="text")


NO_PROMPT = "no_prompt: there is none for text {}, only for a, b: add otherwise to the prompt"
UNKNOWN = [*ROWS, {"id": 4, "text": "z"}, {"id": 5, "text": "a"}]


@pytest.mark.parametrize("on_error", ["raise", "null"])
def test_a_row_for_which_there_is_no_prompt_is_that_rows_error(on_error: str) -> None:
    node = SemMap(input=NOTES, prompt=by_text(said="string"), on_error=on_error)  # type: ignore[arg-type]
    found, seen = ask(node, lambda row: {"said": row["text"] * 2}, UNKNOWN)
    assert [row["text"] for (row,) in seen] == ["a", "b"]
    answers = [(row["id"], row["said"]) for row in found.table.to_pylist()]
    kept = [(3, None), (4, None)] if on_error == "null" else []
    assert answers == sorted([(1, "aa"), (2, "bb"), (5, "aa"), *kept])
    assert [(f.row["id"], f.error) for f in found.failures] == [
        (3, NO_PROMPT.format("NULL")),
        (4, NO_PROMPT.format('"z"')),
    ]


def test_pairs_groups_and_ranks_of_such_a_row_fail_and_no_others() -> None:
    joined = SemJoin(input=NOTES, other=WORDS, alias="w", prompt=by_text("{text} {w.word}"))
    found, seen = ask(joined, lambda left, right: {"match": True}, UNKNOWN, WORDED[:2])
    assert len(seen) == 4
    assert [(row["id"], row["w"]["word"]) for row in found.table.to_pylist()] == [
        (id_, word) for id_ in (1, 2, 5) for word in "xy"
    ]
    assert {f.row["id"] for f in found.failures} == {3, 4}
    told = SemAgg(input=NOTES, prompt=by_text(said="string"), by=("text",))
    found, seen = ask(told, lambda rows: {"said": f"{len(rows)} {rows[0]['text']}"}, UNKNOWN)
    assert len(seen) == 2
    assert found.table.to_pylist() == [{"text": "a", "said": "2 a"}, {"text": "b", "said": "1 b"}]
    assert [f.error for f in found.failures] == [NO_PROMPT.format("NULL"), NO_PROMPT.format('"z"')]
    ranked = SemTopk(input=NOTES, prompt=by_text(), k=1, by=("id",))
    found, seen = ask(ranked, lambda row: {"score": 1.0}, UNKNOWN)
    assert [row["id"] for row in found.table.to_pylist()] == [1, 2, 5]
    assert {f.row["id"] for f in found.failures} == {3, 4}
