"""Adjacent filters in another order: the same rows, other calls."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import semgraph as sg
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError
from semgraph.frontend.load import load_plan
from semgraph.optimizer import ordered
from semgraph.optimizer.order_filters import adjacent_filters
from tests.optimizer.bench import answered, yes

HEAD = "plan: p\ninputs: {t: {id: int64, text: string, kind: string null}}\nsteps:\n"
THREE = """
  even: [{from: t}, {sem_filter: {prompt: "Even: {text}", on_error: 'null'}}]
  loud: [{from: even}, {sem_filter: {prompt: "Loud: {id} {text}", when: kind IS NOT NULL, otherwise: true}}]
  short: [{from: loud}, {sem_filter: {prompt: "Short: {text}"}}]
  after: [{from: short}, {add: {more: id + 1}}]
"""
STEPS = ("even", "loud", "short")
TEXT = st.text("abc", max_size=3)


def plan(folder: Path, steps: str, returns: str = "[after]") -> Any:
    path = folder / "p.yaml"
    path.write_text(f"{HEAD}{steps}\nreturns: {returns}\n")
    return load_plan(path)


class TestAnyOrder:
    @settings(
        max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.lists(st.tuples(TEXT, st.sampled_from([None, "a"])), max_size=8), st.booleans())
    def test_returns_the_same_rows(self, tmp_path, pairs, fused):
        rows = [{"id": i, "text": text, "kind": kind} for i, (text, kind) in enumerate(pairs)]
        three = plan(tmp_path, THREE + ("allow: [fuse_predicates]" if fused else ""))
        with sg.Session(
            llm=Oracle(Mind(answer=answered)), store="memory", journal=False, runs=""
        ) as session:
            before = session.run(three, t=rows, progress=None).tables["after"].to_pylist()
            for order in permutations(STEPS):
                result = session.run(ordered(three, order), t=rows, progress=None)
                assert result.tables["after"].to_pylist() == before

    def test_asks_the_first_filter_about_all_rows_and_the_next_about_those_it_keeps(self, tmp_path):
        rows = [{"id": i, "text": "abcdefgh"[i], "kind": "a"} for i in range(8)]
        questions = {"even": "Even: {text}", "loud": "Loud: {id} {text}", "short": "Short: {text}"}
        for order in permutations(STEPS):
            oracle = Oracle(Mind(answer=answered))
            with sg.Session(llm=oracle, store="memory", journal=False, runs="") as session:
                session.run(ordered(plan(tmp_path, THREE), order), t=rows, progress=None)
            left, wanted = rows, list[str]()
            for step in order:
                texts = {row["id"]: questions[step].format(**row) for row in left}
                wanted += texts.values()
                left = [row for row in left if yes(texts[row["id"]])]
            assert sorted(r.messages[-1].content for r in oracle.requests) == sorted(wanted)

    def test_sends_less_if_the_first_drops_more(self, tmp_path):
        rows = [{"id": i, "text": f"{i}", "kind": "a"} for i in range(10)]
        says = {
            "Even": lambda text: True,
            "Loud": lambda text: text.endswith("3"),
            "Short": lambda text: True,
        }
        calls = {}
        for order in (STEPS, ("loud", "short", "even")):
            oracle = Oracle(
                Mind(answer=lambda t: {"answer": "yes" if says[t.split(":")[0]](t) else "no"})
            )
            with sg.Session(llm=oracle, store="memory", journal=False, runs="") as session:
                result = session.run(ordered(plan(tmp_path, THREE), order), t=rows, progress=None)
            assert result.tables["after"].to_pylist() == [{**rows[3], "more": 4}]
            calls[order] = len(oracle.requests)
        assert list(calls.values()) == [21, 12]

    def test_holds_up_to_a_step_between_which_keeps_its_own_rows(self, tmp_path):
        rows = [{"id": i, "text": f"{i}", "kind": "a"} for i in range(10)]
        three = plan(tmp_path, THREE)
        with sg.Session(
            llm=Oracle(Mind(answer=answered)), store="memory", journal=False, runs=""
        ) as session:
            for until in (*STEPS, "after"):
                one, other = (
                    session.run(each, t=rows, until=until, progress=None).tables[until].to_pylist()
                    for each in (three, ordered(three, ("short", "loud", "even")))
                )
                assert one == other


class TestAdjacentFilters:
    @pytest.mark.parametrize(
        ("steps", "returns", "chains"),
        [
            (THREE, "[after]", [STEPS]),
            (THREE, "[after, even]", [("loud", "short")]),  # another reader
            (THREE.replace("from: short", "from: short}, {sem_filter: 'Blue: {text}'"), "[after]", [(*STEPS, "after")]),
            (THREE.replace("from: loud}", "from: loud}, {add: {more_: '1'}}"), "[after]", [("even", "loud")]),
            (THREE.replace("from: loud}", "from: loud}, {limit: {n: 2}}"), "[after]", [("even", "loud")]),
            (THREE.replace('Loud: {id} {text}"', 'Loud: {id} {text}", returns: {how: string}'), "[after]", []),
            (THREE.replace("kind IS NOT NULL", "10 // id > 1"), "[after]", []),  # may fail for more rows
            ("  one: [{from: t}, {sem_filter: 'A: {id}'}, {sem_filter: 'B: {id}'}]", "[one]", []),  # one name
            (("  a: [{from: t}, {sem_filter: 'A: {id}'}]\n  b: [{from: a}, {sem_filter: 'B: {id}'}]\n"
             "  c: [{from: t}, {sem_filter: 'C: {id}'}]\n  d: [{from: c}, {sem_filter: 'D: {id}'}]"), "[b, d]",
             [("a", "b"), ("c", "d")]),
        ],
    )  # fmt: skip
    def test_are_those_over_the_same_rows_that_nothing_else_reads(
        self, tmp_path, steps, returns, chains
    ):
        assert adjacent_filters(plan(tmp_path, steps, returns)) == chains

    @pytest.mark.parametrize(
        "order", [("short", "even"), ("short", "loud", "even", "even"), ("a", *STEPS), ("after",)]
    )
    def test_refuse_an_order_of_others(self, tmp_path, order):
        says = (
            "plan p cannot ask in the order .*. Its adjacent filters: even, loud, short. Name all"
        )
        with pytest.raises(PlanError, match=says):
            ordered(plan(tmp_path, THREE), order)

    def test_of_several_chains_are_ordered_alone_or_together(self, tmp_path):
        steps = "".join(
            f"  {name}: [{{from: {of}}}, {{sem_filter: '{name}: {{id}}'}}]\n"
            for name, of in (("a", "t"), ("b", "a"), ("c", "t"), ("d", "c"))
        )
        four = plan(tmp_path, steps, "[b, d]")
        assert ordered(four, ("b", "a")).order == ("b", "a")
        assert ordered(four, ("b", "d", "a", "c")).order == ("b", "d", "a", "c")


def test_the_order_of_a_choice_is_that_of_the_preset(session, model, folder) -> None:
    from tests.tune.conftest import ROWS, chosen

    chosen(session, folder, order="short, good", named="briefly")
    path = folder / "complaints.yaml"
    asked = {}
    for preset in (None, "tuned"):
        again = session.prepare(
            session.prepare(path, preset=preset)
        )  # loads it again for the called plan
        session.run(again, tickets=ROWS, until="short", progress=None)
        asked[preset] = [body["messages"][-1]["content"].split()[0] for body in model.requests]
        model.requests.clear()
    assert asked == {None: ["Does"] * 6 + ["Is"] * 3, "tuned": ["Is"] * 6 + ["Does"] * 3}
    shown = session.explain(session.prepare(path, preset="tuned"), tickets=ROWS)
    assert shown.index("good") < shown.index("short")
