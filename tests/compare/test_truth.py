"""What a truth says and what it does not: labelled rows, pairs, rows that stand twice, and lists by
their elements.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import semgraph as sg
from semgraph.compare.comparison import load_comparison
from semgraph.compare.truth import read_graph_truth
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import InputError, PlanError
from tests.compare.conftest import TRUE, compared, filtered
from tests.compare.test_operators import compare, joined


class TestLabels:
    async def test_rows_without_a_label_are_not_scored_and_a_note_says_so(self, session):
        """Of 1, 3 and 5, which are said to complain, 5 has no label; 6 complains and 2 does not."""
        found = await compared(
            session, filtered(), truth=[row for row in TRUE if row["id"] not in (4, 5)]
        )
        quality = found["per_row"].quality
        assert (quality.precision, quality.recall) == (1.0, 2 / 3)
        assert found.notes == ("the truth does not cover 2 of 6 rows: they are not scored",)

    async def test_a_list_of_what_stays_is_whole_and_a_note_says_so(self, session):
        found = await compared(session, filtered(), truth=[{"id": 1}, {"id": 3}, {"id": 6}])
        assert (found["per_row"].quality.precision, found["per_row"].quality.recall) == (
            2 / 3,
            2 / 3,
        )
        assert found.notes == ("3 of 6 rows are not in the truth, so no answer to them is right",)

    async def test_columns_that_the_step_lacks_are_named_in_a_note(self, session):
        truth = [{"id": number, "why": "it leaks"} for number in range(1, 7)]
        found = await compared(session, filtered(), truth=truth)
        assert found.notes == (
            "columns of the truth that step complaints does not have are ignored: why",
        )

    async def test_a_truth_of_noes_alone_is_one(self, session):
        found = await compared(
            session, filtered(), truth=[{"id": 2, "keep": False}, {"id": 5, "keep": False}]
        )
        assert (found["per_row"].quality.precision, found["per_row"].quality.recall) == (0.0, None)

    async def test_only_pairs_with_a_label_are_scored(self, tmp_path):
        """Ann and Bo are found. Bo is said to be ANN too, which no variant says; of Bo and BO nothing
        is said.
        """
        truth = [{"id": 1, "key": "a", "match": True}, {"id": 1, "key": "b", "match": False},
                 {"id": 2, "key": "a", "match": True}]  # fmt: skip
        found = await compare(tmp_path, joined(), ["nested_loop"], truth=truth)
        quality = found["nested_loop"].quality
        assert (quality.precision, quality.recall) == (1.0, 0.5)
        assert "pairs without a label are not scored" in found.notes[1]

    async def test_yes_and_no_of_one_row_is_a_mistake(self, session, server):
        with pytest.raises(PlanError, match="the truth has contradictory labels for id 1"):
            await compared(session, filtered(), truth=[*TRUE, {"id": 1, "keep": False}])
        assert server.requests == []

    async def test_a_pair_needs_both_sides(self, tmp_path):
        with pytest.raises(
            PlanError, match="has no column of the other side.*Add a column of the other side"
        ):
            await compare(tmp_path, joined(), ["nested_loop"], truth=[{"id": 1, "match": True}])

    async def test_disagreements_have_no_truth_where_nothing_is_said(self, session, reader):
        reader.noisy = True
        found = await compared(session, filtered(), truth=TRUE[:2])
        rows = found.disagreements(*[arm.name for arm in found]).to_pylist()
        assert rows
        assert {row["truth"] is None for row in rows if int(row["id"]) > 2} <= {True}
        assert {row["truth"] is None for row in rows if int(row["id"]) <= 2} <= {False}


async def test_a_variant_named_like_a_column_hides_none(session, reader):
    reader.noisy = True
    variants = {"id": "per_row", "truth": "packed(rows=3)"}
    found = await compared(session, filtered(), variants=variants, truth=TRUE)
    table = found.disagreements("id", "truth")
    assert table.column_names == ["id", "text", "id_", "truth_", "truth"]
    assert table.num_rows
    for row in table.to_pylist():
        assert row["id"] in {str(n) for n in range(1, 7)}
        assert row["id_"] != row["truth_"]


YES_NO = [{"id": row["id"], "keep": "Yes" if row["keep"] else "no"} for row in TRUE]


class TestYesAndNo:
    async def test_they_are_true_and_false(self, session, tmp_path):
        file = tmp_path / "gold.csv"
        file.write_text("id,keep\n" + "".join(f"{row['id']},{row['keep']}\n" for row in YES_NO))
        mixed = [*YES_NO[:3], *TRUE[3:]]
        for truth in (
            TRUE,
            YES_NO,
            mixed,
            pa.Table.from_pylist(YES_NO),
            pd.DataFrame(YES_NO),
            str(file),
        ):
            quality = (await compared(session, filtered(), truth=truth))["per_row"].quality
            assert (quality.precision, quality.recall) == (2 / 3, 2 / 3)

    async def test_of_an_answer_that_is_true_or_false(self, tmp_path):
        mind = Mind(answer=lambda text: {"loud": "!" in text})
        rows = [{"id": 1, "text": "Oh!"}, {"id": 2, "text": "Oh."}, {"id": 3, "text": "Ah!"}]
        plan = (
            sg.table(rows, key="id")
            .sem_map("Is {text} loud?", returns={"loud": "boolean"})
            .step("s")
        )
        truth = [{"id": 1, "loud": "yes"}, {"id": 2, "loud": "NO"}, {"id": 3, "loud": "no"}]
        async with sg.Session(
            llm=Oracle(mind), store="memory", journal=False, runs="", folder=tmp_path
        ) as session:
            found = await session.acompare(
                plan, step="s", variants=["per_row"], say=None, truth=truth
            )
        assert found["per_row"].quality.f1 == pytest.approx(2 / 3)

    async def test_words_that_are_neither(self, session, server):
        with pytest.raises(InputError, match='row 1, column keep: "perhaps"'):
            await compared(
                session, filtered(), truth=[{"id": 1, "keep": "perhaps"}, {"id": 2, "keep": "yes"}]
            )
        assert server.requests == []


class TestDoubles:
    async def test_rows_of_the_truth_count_once(self, session):
        found = await compared(session, filtered(), truth=[*TRUE, TRUE[0], TRUE[0]])
        assert found["per_row"].quality.f1 == 2 / 3
        assert found.notes == ("2 duplicate rows of the truth are ignored",)

    async def test_what_is_true_of_a_name_is_true_of_all_rows_of_that_name(self, session):
        rows = [
            {"id": 1, "text": "It leaks."},
            {"id": 1, "text": "It leaks!"},
            {"id": 2, "text": "Lovely."},
        ]
        plan = sg.table(rows).sem_filter("Does “{text}” complain?").step("complaints")
        truth = [{"id": 1, "keep": True}, {"id": 2, "keep": False}]
        found = await compared(session, plan, variants=["per_row"], truth=truth)
        assert (found["per_row"].quality.precision, found["per_row"].quality.recall) == (1.0, 1.0)
        assert found.notes == ("2 rows share their id: the truth applies to each of them",)

    async def test_a_row_has_one_answer(self, session, server):
        plan = sg.table([{"id": 1, "text": "It leaks."}], key="id").sem_map(
            "What is “{text}”?", returns={"kind": "string"}
        )
        truth = [{"id": 1, "kind": "fault"}, {"id": 1, "kind": "praise"}]
        with pytest.raises(
            PlanError, match="the truth has 2 answers to id 1. Kind 'fault' and kind 'praise'"
        ):
            await compared(
                session, plan.step("kinds"), step="kinds", variants=["per_row"], truth=truth
            )
        assert server.requests == []


PEOPLE = {
    1: [{"name": "Ann", "kind": "person"}, {"name": "Acme", "kind": "firm"}],
    2: [{"name": "Bo", "kind": "person"}],
    3: [],
}
TOLD = {
    1: [{"name": "Acme", "kind": "firm"}, {"name": "Ann", "kind": "place"}],
    2: [{"name": "Bo", "kind": "person"}, {"name": "Zoe", "kind": "person"}],
    3: [],
}
"""What the model says: Ann is a place, and there is a Zoe."""


def _said(text: str) -> dict[str, Any]:
    return {"entities": TOLD[int(text.rsplit(maxsplit=1)[-1])], "tags": ["x", "y"]}


async def mentions(folder: Path, truth: Any, variants: Any = ("per_row",)) -> Any:
    add = {"entities": "list<struct<name: string, kind: string>>", "tags": "list<string>"}
    plan = (
        sg.table([{"id": i} for i in PEOPLE], key="id")
        .sem_map("Who is in {id}", returns=add)
        .step("s")
    )
    async with sg.Session(
        llm=Oracle(Mind(answer=_said)), store="memory", journal=False, folder=folder
    ) as session:
        return await session.acompare(
            plan, step="s", variants=list(variants), say=None, truth=truth
        )


def counted(found: Any) -> tuple[float | None, float | None]:
    quality = found["per_row"].quality
    return quality.precision, quality.recall


class TestLists:
    async def test_elements_are_compared_in_any_order(self, tmp_path):
        """Acme and Bo are right; Ann is of another kind, Zoe nobody."""
        found = await mentions(
            tmp_path, [{"id": i, "entities": each} for i, each in PEOPLE.items()]
        )
        assert counted(found) == (2 / 4, 2 / 3)
        assert found.compare == ("entities[].name", "entities[].kind")

    async def test_elements_are_compared_by_the_fields_that_the_truth_has(self, tmp_path):
        truth = [
            {"id": i, "entities": [{"name": e["name"]} for e in each]} for i, each in PEOPLE.items()
        ]
        found = await mentions(tmp_path, truth)
        assert counted(found) == (3 / 4, 3 / 3)
        assert found.compare == ("entities[].name",)

    async def test_a_truth_may_have_a_row_for_each_element(self, tmp_path):
        """Of row 3 it says by an empty name that nobody is in it."""
        flat = [{"id": i, "name": e["name"]} for i, each in PEOPLE.items() for e in each]
        found = await mentions(tmp_path, [*flat, {"id": 3, "name": None}])
        assert counted(found) == (3 / 4, 3 / 3)
        assert found.notes == ()

    async def test_rows_without_a_word_in_the_truth_are_not_scored(self, tmp_path):
        found = await mentions(tmp_path, [{"id": 1, "name": "Ann"}])
        assert counted(found) == (1 / 2, 1.0)

    async def test_elements_that_are_no_structs(self, tmp_path):
        found = await mentions(
            tmp_path, [{"id": 1, "tags": ["y", "x"]}, {"id": 2, "tags": ["y", "z", "z"]}]
        )
        assert counted(found) == (3 / 4, 3 / 5)

    async def test_several_lists_are_counted_together(self, tmp_path):
        found = await mentions(tmp_path, [{"id": 2, "tags": ["x"], "entities": PEOPLE[2]}])
        assert counted(found) == (2 / 4, 2 / 2)

    async def test_a_file_may_have_json_in_a_cell(self, tmp_path):
        file = tmp_path / "gold.csv"
        file.write_text('id,entities\n1,"[{""name"": ""Ann""}]"\n2,"[]"\n')
        assert counted(await mentions(tmp_path, str(file))) == (1 / 4, 1.0)

    async def test_a_field_that_elements_do_not_have(self, tmp_path):
        with pytest.raises(
            PlanError, match='elements of entities have no field "nam".*Did you mean "name"'
        ):
            await mentions(tmp_path, [{"id": 1, "entities": [{"nam": "Ann"}]}])

    async def test_without_a_truth_ways_agree_whatever_the_order(self, tmp_path):
        found = await mentions(tmp_path, None, ["per_row", "packed(rows=3)"])
        assert found["packed(rows=3)"].quality.same == 1.0
        assert found.compare == ("entities[]", "tags[]")

    async def test_it_is_kept(self, tmp_path):
        found = await mentions(tmp_path, [{"id": 1, "name": "Ann"}], ["per_row", "packed(rows=3)"])
        kept = load_comparison(found.id, tmp_path / ".semgraph" / "runs")
        assert json.dumps(kept.to_json()) == json.dumps(found.to_json())
        assert kept.disagreements("per_row", "packed(rows=3)").num_rows == 0


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NaT])
def test_an_edge_from_a_data_frame_may_lack_its_end(missing: Any) -> None:
    edge = {"source": "a", "target": "b", "start": "2025-03-03", "end": missing}
    truth = read_graph_truth({"nodes": [{"key": "a"}, {"key": "b"}], "edges": [edge]})
    assert truth.edges[0].start is not None
    assert truth.edges[0].end is None
