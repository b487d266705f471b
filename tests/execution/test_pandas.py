"""`df.sem`: the semantic operators on data frames of pandas, which keep their index and types."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import semgraph
import semgraph.pandas
from semgraph.errors import BudgetReached, InputError, PlanError, RowError, SemgraphError
from tests.inside import session_of_frames
from tests.llm.server import Answer, ModelServer
from tests.served import served


async def answers(body: dict[str, Any]) -> str | Answer:
    """What is asked, as the prompt has it: yes where something leaks, the length of texts."""
    text = body["messages"][-1]["content"]
    if "refused" in text:
        return Answer(None, refusal="I would rather not say.")
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    return json.dumps({name: value_of(kind, text) for name, kind in fields.items()})


def value_of(kind: dict[str, Any], text: str) -> Any:
    if "enum" in kind:
        return "yes" if "leak" in text else "no"
    if "anyOf" in kind:
        return None if "Thank" in text else len(text)
    values = {"boolean": "leak" in text, "number": len(text), "array": text.split()[:2]}
    return values.get(kind["type"], text)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    server = ModelServer(answers)
    with served(server):
        yield server


@pytest.fixture(autouse=True)
def session(
    model: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> Iterator[semgraph.Session]:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    session_of_frames(None)
    name = f"openai:gpt-4.1-mini@{model.base_url}"
    with semgraph.Session(llm=name, store="memory", folder=tmp_path) as opened:
        semgraph.pandas.use(opened)
        yield opened


@pytest.fixture
def tickets() -> pd.DataFrame:
    """Columns of kinds that plans have, of one that they lack, and one that no prompt can name."""
    return pd.DataFrame(
        {
            "body": ["It leaks.", "Thank you!", "The kettle leaks."],
            "city": pd.Categorical(["Riga", "Oslo", "Riga"]),
            "open": pd.to_timedelta([1, 2, 3], unit="h"),
            "my col": [1, 2, 3],
        },
        index=pd.Index(["a", "b", "c"], name="id"),
    )


PRODUCTS = pd.DataFrame({"name": ["leaking pan", "spoon"], "city": ["Rome", "Riga"], "n": [1, 2]})


def test_filter_keeps_rows_with_their_index_and_types(tickets: pd.DataFrame) -> None:
    kept = tickets.sem.filter("Does it say so: {body}")
    pd.testing.assert_frame_equal(kept, tickets.loc[["a", "c"]])
    typed = tickets.sem.filter("Does it say so: {body}", returns={"reason": str})
    assert list(typed.columns) == [*tickets.columns, "reason"]
    assert "leak" in typed.loc["c", "reason"]


def test_map_adds_columns_of_the_types_that_are_asked_for(tickets: pd.DataFrame) -> None:
    kinds = {"size": "int64 null", "leaks": bool, "words": list[str], "again": str}
    read = tickets.sem.map("{body}", returns=kinds)
    pd.testing.assert_frame_equal(read[list(tickets.columns)], tickets)
    assert read["size"].astype(object).tolist() == [9, pd.NA, 17]
    assert (str(read["size"].dtype), str(read["leaks"].dtype)) == ("Int64", "bool")
    assert read["leaks"].tolist() == [True, False, True]
    assert read.loc["c", "words"] == ["The", "kettle"]
    assert read.loc["b", "again"] == "Thank you!"


def test_topk_gives_the_best_rows_first(tickets: pd.DataFrame) -> None:
    best = tickets.sem.topk("How long is {body}", k=2)
    assert best.index.tolist() == ["c", "b"]
    assert best["rank"].tolist() == [0, 1]
    each = tickets.sem.topk("How long is {body}", k=1, by="city")
    assert sorted(each.index) == ["b", "c"]


def test_join_pairs_rows_and_keeps_the_index_of_the_left(tickets: pd.DataFrame) -> None:
    pairs = tickets.sem.join(PRODUCTS, "{other.name}: is it what this is about? {body}")
    assert list(pairs.columns) == [*tickets.columns, "name", "city_other", "n"]
    assert list(zip(pairs.index, pairs["name"], strict=True)) == [
        ("a", "leaking pan"), ("a", "spoon"), ("b", "leaking pan"), ("c", "leaking pan"), ("c", "spoon"),
    ]  # fmt: skip
    assert (pairs["open"].dtype, pairs["n"].dtype) == (tickets["open"].dtype, PRODUCTS["n"].dtype)


def test_how_of_a_join_is_that_of_frames(tickets: pd.DataFrame) -> None:
    spoons, prompt = PRODUCTS[1:], "{other.name}: {body}"
    left = tickets.sem.join(spoons, prompt, how="left")
    assert left["name"].isna().tolist() == [False, True, False]
    pd.testing.assert_frame_equal(
        tickets.sem.join(spoons, prompt, how="semi"), tickets.loc[["a", "c"]]
    )
    pd.testing.assert_frame_equal(tickets.sem.join(spoons, prompt, how="anti"), tickets.loc[["b"]])


def test_using_pairs_equal_rows_before_the_model_is_called(
    tickets: pd.DataFrame, model: ModelServer
) -> None:
    pairs = tickets.sem.join(PRODUCTS, "{other.name}: {body}", using="city")
    assert (pairs.index.tolist(), len(model.requests)) == (["a", "c"], 2)


def test_agg_gives_a_row_for_each_group(tickets: pd.DataFrame) -> None:
    groups = tickets.sem.agg("{body}", returns={"all": str}, by="city", add={"n": "count(*)"})
    assert list(groups.columns) == ["city", "all", "n"]
    assert dict(zip(groups["city"], groups["n"], strict=True)) == {"Riga": 2, "Oslo": 1}
    assert groups.index.equals(pd.RangeIndex(2))
    assert groups["city"].dtype == tickets["city"].dtype
    (whole,) = tickets.sem.agg("{body}", returns={"all": str})["all"]
    assert "kettle" in whole


def test_empty_frames_give_empty_frames_with_the_same_columns(
    tickets: pd.DataFrame, model: ModelServer
) -> None:
    none = tickets[:0]
    pd.testing.assert_frame_equal(none.sem.filter("{body}?"), none)
    assert list(none.sem.map("{body}", returns={"x": int}).columns) == [*tickets.columns, "x"]
    assert none.sem.join(PRODUCTS, "{body} {other.name}").empty
    assert none.sem.agg("{body}", returns={"all": str}, by="city").empty
    assert model.requests == []


def test_an_index_with_equal_values_stays_as_it_is(tickets: pd.DataFrame) -> None:
    rows = tickets.set_axis(["x", "x", "x"])
    read = rows.sem.map("{body}", returns={"leaks": bool})
    assert (read.index.tolist(), read["leaks"].tolist()) == (["x"] * 3, [True, False, True])


def test_what_it_cost_is_beside_the_rows_and_in_the_session(
    tickets: pd.DataFrame, session: semgraph.Session
) -> None:
    tickets.attrs["source"] = "mail"
    first = tickets.sem.filter("Does it say so: {body}").attrs
    again = tickets.sem.filter("Does it say so: {body}").attrs
    assert first["source"] == "mail"
    assert (first["semgraph"]["calls"], first["semgraph"]["cached"]) == (3, 0)
    assert (again["semgraph"]["calls"], again["semgraph"]["cached"]) == (0, 3)
    assert first["semgraph"]["tokens_in"] > 0
    spent = semgraph.pandas.usage()
    assert (spent.calls_issued, spent.calls_journal) == (3, 3)
    assert spent.tokens_in == first["semgraph"]["tokens_in"]
    assert spent == session.usage


def test_use_names_an_implementation(tickets: pd.DataFrame, model: ModelServer) -> None:
    tickets.sem.map("{body}", returns={"n": "double"}, use="per_row")
    assert len(model.requests) == 3
    with pytest.raises(PlanError, match='(?s)packd.*Did you mean "packed"'):
        tickets.sem.map("{body}", returns={"n": "double"}, use="packd")


def test_a_failed_row_is_an_error_or_null(tickets: pd.DataFrame) -> None:
    tickets.loc["b", "body"] = "refused"
    with pytest.raises(RowError, match='1 row of 3 without an answer: .*on_error="null"'):
        tickets.sem.map("{body}", returns={"leaks": bool})
    read = tickets.sem.map("{body}", returns={"leaks": bool}, on_error="null")
    assert read["leaks"].astype(object).tolist() == [True, pd.NA, True]
    assert read.attrs["semgraph"]["failed"] == 1
    assert semgraph.pandas.usage().calls_issued >= 4, "calls of the failed run count too"


def test_a_limit_is_an_error_and_no_part_of_a_result(
    tickets: pd.DataFrame, session: semgraph.Session, model: ModelServer
) -> None:
    name = f"openai:gpt-4.1-mini@{model.base_url}"
    limited = semgraph.Session(llm=name, store="memory", max_calls=1, folder=session.folder)
    semgraph.pandas.use(limited)
    with pytest.raises(BudgetReached):
        tickets.sem.map("{body}", returns={"leaks": bool})
    limited.close()


def test_a_session_of_its_own_is_made_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, model: ModelServer, tickets: pd.DataFrame, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    session_of_frames(None)
    monkeypatch.setenv("SEMGRAPH_LLM", f"openai:other@{model.base_url}")
    monkeypatch.setenv("SEMGRAPH_STORE", "memory")
    tickets.sem.filter("Does it say so: {body}")
    assert {request["model"] for request in model.requests} == {"other"}
    assert semgraph.pandas.session() is semgraph.pandas.session()
    semgraph.pandas.session().close()


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda sem: sem.filter("{bdy}?"), 'Columns here: body, city. Did you mean "body"?'),
        (lambda sem: sem.filter("{open}?"), "type duration"),
        (lambda sem: sem.filter("{my col}?"), "Rename: df.rename(columns={'my col': 'my_col'})"),
        (lambda sem: sem.map("{body}", returns={"open": str}), 'has a column "open" already'),
        (lambda sem: sem.map("{body}", returns={"city": str}), '"city" is a column already'),
        (lambda sem: sem.agg("{body}", returns={"all": str}, by="ctiy"), 'Did you mean "city"?'),
    ],
)
def test_a_wrong_column_is_said_before_anything_is_asked(
    tickets: pd.DataFrame, model: ModelServer, ask: Any, said: str
) -> None:
    with pytest.raises(PlanError) as caught:
        ask(tickets.sem)
    assert said in str(caught.value)
    assert model.requests == []


@pytest.mark.filterwarnings("ignore:The default of observed:FutureWarning")  # pandas 2 warns itself
def test_groups_of_pandas_are_answered_with_the_argument_and_keep_their_standard_error(
    tickets: pd.DataFrame,
) -> None:
    with pytest.raises(AttributeError, match="Groups are an argument: df.sem.agg"):
        tickets.groupby("city").sem.agg("Sum up {body}")
    stars = pd.DataFrame({"city": ["Rome", "Rome", "Oslo"], "stars": [1.0, 3.0, 2.0]})
    groups = stars.groupby("city")
    for errors in (groups.sem(), groups.agg("sem"), type(groups).sem(groups)):
        assert errors.loc["Rome", "stars"] == 1.0


def test_a_side_as_lotus_writes_it_is_answered_with_the_placeholder_here(
    tickets: pd.DataFrame,
) -> None:
    for side, said in (("left", "Write {body}"), ("right", "by its alias: {other.body}")):
        with pytest.raises(PlanError) as caught:
            tickets.sem.join(PRODUCTS, f"Is {{body:{side}}} about it?")
        assert said in str(caught.value)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda sem: sem.join(PRODUCTS, "{body}", on="city"), "stand in using"),
        (lambda sem: sem.topk("{body}", K=3), 'Did you mean "k"?'),
        (lambda sem: sem.agg("{body}", groupby="city"), 'Did you mean "by"?'),
        (lambda sem: sem.filter("{body}", axis=1), "It keeps rows"),
        (lambda sem: sem.map(user_instruction="{body}"), 'Did you mean "prompt"?'),
        (lambda sem: sem.map("{body}", on_eror="null"), 'Did you mean "on_error"?'),
        (lambda sem: sem.filter("{body}", model="gpt-4"), "The model is the session's"),
    ],
)
def test_an_argument_of_other_libraries_is_answered_with_the_one_here(
    tickets: pd.DataFrame, ask: Any, said: str
) -> None:
    with pytest.raises(TypeError) as caught:
        ask(tickets.sem)
    assert said in str(caught.value)


def test_other_mistakes_are_answered_too(tickets: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="other is list, not a data frame of pandas"):
        tickets.sem.join([{"a": 1}], "{body} {other.a}")
    with pytest.raises(AttributeError, match='df.sem has no "sem_filter".*Did you mean "filter"'):
        _ = tickets.sem.sem_filter
    with pytest.raises(PlanError, match="str is no session"):
        semgraph.pandas.use("local")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("frame", "ask", "said"),
    [
        (
            pd.concat([PRODUCTS, PRODUCTS], axis=1),
            lambda sem: sem.filter("{name}?"),
            r'\Ainput df has the column "name" twice\. Rename one of them\Z',
        ),
        (
            pd.DataFrame({"name": ["a", 1]}),
            lambda sem: sem.filter("{name}?"),
            r'\Ainput df, column "name": .* Give each column values of one type\Z',
        ),
        (
            pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
            lambda sem: sem.filter("{a}?"),
            "have 2 levels. Make one of them",
        ),
        (pd.DataFrame(), lambda sem: sem.filter("{name}?"), "Columns here: none"),
        (PRODUCTS, lambda sem: sem.filter("{name}?", when=PRODUCTS.n > 3), "when is a Series"),
        (PRODUCTS, lambda sem: sem.filter("{name}?", use={"filter": "packed()"}), "use is dict"),
        (PRODUCTS, lambda sem: sem.filter("{name}?", use="packed(3"), r"missing: packed\(3\)"),
        (
            PRODUCTS,
            lambda sem: sem.filter("{name}?", use="pakced"),
            r'\Astep answers: unknown implementation "pakced"',
        ),
        (
            PRODUCTS,
            lambda sem: sem.join(PRODUCTS["name"], "{name} {other.name}?"),
            r'other is Series, not a data frame of pandas\. Give other\.to_frame\("name"\)',
        ),
    ],
)
def test_frames_and_arguments_that_are_no_question_are_answered_with_one_reason(
    frame: pd.DataFrame, ask: Any, said: str, model: ModelServer
) -> None:
    with pytest.raises(SemgraphError, match=said):
        ask(frame.sem)
    assert model.requests == []


def test_a_question_without_columns_is_a_warning_with_the_columns_of_the_frame() -> None:
    with pytest.warns(
        UserWarning, match=r'\Athe prompt "Is it good\?" names .* Columns: name, city, n\. '
    ):
        PRODUCTS.sem.filter("Is it good?")


def test_a_column_has_no_operators_and_names_the_frame_that_has_them() -> None:
    with pytest.raises(AttributeError, match=r'series.sem has no "filter".*df.sem.filter'):
        _ = PRODUCTS["name"].sem.filter
    assert PRODUCTS["n"].sem() == PRODUCTS.sem(numeric_only=True)["n"]
    assert PRODUCTS["n"].agg("sem") == PRODUCTS["n"].sem()


def test_a_script_ends_without_a_word_of_leaks(tmp_path: Path) -> None:
    script = """
import pandas as pd
import semgraph as sg, semgraph.pandas
rows = sg.table(pd.DataFrame({"a": [1, 1], "b": [2, 3]}))
semgraph.pandas.use(sg.Session(llm="openai:gpt-4.1-mini", store="memory"))
print(semgraph.pandas.session().run(rows.aggregate(by="a", add={"n": "sum(b)"})).rows())
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "'n': 5" in ended.stdout
    assert ended.stderr == ""


def test_the_standard_error_of_the_mean_is_still_there() -> None:
    numbers = pd.DataFrame({"n": [1.0, 2.0, 3.0]})
    assert numbers.sem()["n"] == pytest.approx(1 / 3**0.5)
    assert numbers.agg("sem")["n"] == numbers.sem()["n"]


def test_a_frame_in_the_place_of_a_plan_is_told_what_to_write(
    tickets: pd.DataFrame, session: semgraph.Session
) -> None:
    with pytest.raises(PlanError) as caught:
        session.run(tickets)
    assert "DataFrame holds rows" in str(caught.value)
    assert 'sg.table(rows).sem_filter("... {column} ...")' in str(caught.value)
    with pytest.raises(PlanError, match="int is no plan"):
        session.run(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s, p: s.run(p, paramz={}), 'Did you mean "params"?'),
        (lambda s, p: s.run(p, max_usd=1), "It belongs to the session: Session(max_usd=...)"),
        (lambda s, p: s.explain(p, formt="tree"), 'Did you mean "format"?'),
        (
            lambda s, p: s.compare(p, step="told", variants=["per_row"], trails=2),
            'Did you mean "trials"?',
        ),
    ],
)
def test_an_option_that_is_nearly_one_is_no_input(
    session: semgraph.Session, call: Any, said: str
) -> None:
    plan = semgraph.table([{"body": "x"}], name="tickets").sem_filter("{body}?", step="told")
    with pytest.raises(PlanError) as caught:
        call(session, plan)
    assert said in str(caught.value)


def test_columns_that_differ_in_case_alone_are_refused_only_where_they_are_named(
    tickets: pd.DataFrame,
) -> None:
    frame = tickets.assign(Key=1, key=2)
    assert list(frame.sem.filter("Does it say so: {body}").columns) == list(frame.columns)
    with pytest.raises(PlanError, match='the frame has column "key" twice, but for case'):
        frame.sem.filter("Is {key} one?")


def test_a_mixed_column_is_left_out_without_a_proposal_that_sem_does_not_take() -> None:
    frame = pd.DataFrame({"a": ["x", "y"], "m": pd.Series([1, [2]], dtype=object)})
    with pytest.raises(
        PlanError, match="int64 in row 1 and list in row 2. Give each column values"
    ):
        frame.sem.filter("{m}?")


def test_a_column_may_be_named_row(model: ModelServer) -> None:
    frame = pd.DataFrame({"_row": ["It leaks.", "Thanks."], "_other_row": ["a", "b"]})
    assert frame.sem.filter("Does it say so: {_row}").index.tolist() == [0]
    assert "It leaks." in model.requests[0]["messages"][-1]["content"]


def test_an_error_names_a_column_that_no_plan_can_have_only_if_it_is_meant(
    tickets: pd.DataFrame,
) -> None:
    with pytest.raises(PlanError) as caught:
        tickets.sem.search("body", "what is open?", k=-1)
    assert str(caught.value) == "limit, n: -1 is negative"
    with pytest.raises(PlanError, match='column "open": type duration'):
        tickets.sem.search("open", "x", k=1)
    with pytest.raises(PlanError, match="'my col' cannot name a column"):
        tickets.sem.classify("my col", ["a", "b"])


def test_composed_methods_keep_the_index_of_the_rows(tickets: pd.DataFrame) -> None:
    found = tickets.sem.search("body", "The kettle leaks.", k=2, rerank=1, use="packed")
    assert (found.index.tolist(), list(found.columns)) == (
        ["c"], [*tickets.columns, "similarity", "rank", "score"],
    )  # fmt: skip
    doubled = pd.concat([tickets, tickets.rename({"c": "d"})])
    pd.testing.assert_frame_equal(doubled.sem.dedup("body", 0.99), tickets)
    topics = tickets.sem.cluster_by("body", 3, alias="topic")
    assert (topics.index.tolist(), topics["topic"].tolist()) == (["a", "b", "c"], [0, 1, 2])
    pairs = tickets.sem.sim_join(PRODUCTS, "body", "name", 1)
    assert list(pairs.columns) == [*tickets.columns, "name", "city_other", "n", "similarity"]
    assert pairs.loc["c", "name"] == "leaking pan"
    labels = tickets.sem.classify("body", ["yes", "no"], alias="leaks")
    assert labels["leaks"].tolist() == ["yes", "no", "yes"]
    read = tickets.sem.extract(["body", "city"], {"size": "int64 null", "words": list[str]})
    assert read["words"].map(len).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f.sem.search("bdy", "x", k=1), 'no column "bdy". Columns here: body, city. Did you mean "body"'),
        (lambda f: f.sem.search("body", "x", K=1), 'Did you mean "k"'),
        (lambda f: f.sem.dedup("body", 0.9, use="packed"), "sem_dedup has no implementations for use to choose"),
        (lambda f: f.sem.sim_join(f["body"], "body", "body", 1), "sem_sim_join: other is Series, not a data frame"),
        (lambda f: f.sem.cluster_by("my col", 2), 'no column "my col"|cannot name a column'),
    ],
)  # fmt: skip
def test_wrong_arguments_of_composed_methods_are_named(
    tickets: pd.DataFrame, call: Any, message: str
) -> None:
    with pytest.raises((SemgraphError, TypeError), match=message):
        call(tickets)
