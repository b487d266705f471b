"""`compare --dataset`: a folder with rows, what is right about them, a plan and its variants."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import semgraph as sg
from semgraph.errors import SemgraphError
from semgraph.folders import examples_folder
from tests.cli.conftest import Project
from tests.compare import test_command
from tests.compare.conftest import TEXTS, WAYS, opened
from tests.compare.test_command import model, project  # noqa: F401 - fixtures
from tests.docs.blocks import ROOT, blocks
from tests.llm.server import ModelServer

DATASETS = examples_folder() / "datasets"
PLAN = test_command.PLAN.partition("example:")[0]
TWO = PLAN.replace(
    "returns",
    """  kinds:
    - from: asked
    - sem_map: {prompt: "Which kind is “{text}”?", returns: {kind: string}}
returns""",
).replace("[asked]", "[kinds]")
ROWS = [{"id": n, "text": text} for n, text in enumerate(TEXTS, 1)]
TRUE = "id,keep\n1,true\n2,false\n3,true\n4,false\n5,true\n6,false\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data set of tickets."""
    made = tmp_path / "tickets"
    made.mkdir()
    (made / "plan.yaml").write_text(PLAN)
    (made / "tickets.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    (made / "truth.csv").write_text(TRUE)
    (made / "README.md").write_text("CC BY 4.0")
    (made / "raw").mkdir()
    (made / "._tickets.csv").write_text("a file of macOS")
    return made


def compared(server: ModelServer, folder: Path, plan: Any = None, **options: Any) -> Any:
    """Compare a data set by the name of its folder."""
    with opened(server, folder.parent) as session:
        options = {"variants": WAYS, "say": None, "dataset": folder.name} | options
        return session.compare(plan, **options)


def test_rows_truth_and_plan_are_those_of_the_folder(model: ModelServer, folder: Path) -> None:  # noqa: F811
    found = compared(model, folder)
    assert (found.plan, found.step) == ("complaints", "asked")
    assert [arm.quality.f1 for arm in found] == [1.0, 1.0]


def test_rows_are_read_in_every_form_and_under_both_names(model: ModelServer, folder: Path) -> None:  # noqa: F811
    (folder / "tickets.jsonl").unlink()
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "tickets.parquet")
    assert compared(model, folder)["per_row"].quality.f1 == 1.0
    (folder / "tickets.parquet").unlink()
    with (folder / "rows.csv").open("w", encoding="utf-8") as file:
        csv.writer(file).writerows([ROWS[0].keys(), *(row.values() for row in ROWS)])
    assert compared(model, folder)["per_row"].quality.f1 == 1.0


def test_what_a_call_gives_outranks_the_folder(
    model: ModelServer,  # noqa: F811
    folder: Path,
) -> None:
    wrong = [{"id": row["id"]} for row in ROWS]
    assert compared(model, folder, truth=wrong)["per_row"].quality.recall == 1 / 2
    assert compared(model, folder, tickets=ROWS[:2])["per_row"].quality.f1 == 1.0
    (folder / "tickets.jsonl").unlink()
    other = folder.parent / "other.yaml"
    other.write_text(PLAN.replace("complaints", "others"))
    assert compared(model, folder, other, tickets=ROWS).plan == "others"


def test_of_several_steps_the_truth_names_its_own(model: ModelServer, folder: Path) -> None:  # noqa: F811
    (folder / "plan.yaml").write_text(TWO)
    with pytest.raises(SemgraphError, match=r"this truth is of a step, and none is named.*kinds"):
        compared(model, folder)
    assert compared(model, folder, step="asked")["per_row"].quality.f1 == 1.0
    (folder / "truth.csv").rename(folder / "truth.asked.csv")
    assert compared(model, folder)["per_row"].quality.f1 == 1.0


def test_variants_of_the_folder_are_compared_if_the_call_names_none(
    model: ModelServer,  # noqa: F811
    folder: Path,
) -> None:
    (folder / "variants.yaml").write_text("one: {asked: per_row}\ntwo: {asked: packed(rows=2)}\n")
    found = compared(model, folder, variants=None)
    assert [(arm.name, arm.changes["asked"]) for arm in found] == [
        ("one", "per_row"),
        ("two", "packed(rows=2)"),
    ]
    assert [arm.name for arm in compared(model, folder)] == WAYS
    grid = compared(model, folder, variants=None, grid={"asked": ["per_row", "packed(rows=3)"]})
    assert [arm.name for arm in grid] == WAYS


def test_labels_of_returned_rows_are_read(model: ModelServer, folder: Path) -> None:  # noqa: F811
    (folder / "truth.csv").unlink()
    (folder / "plan.yaml").write_text(
        TWO.replace("    - from: asked\n", "    - from: tickets\n    - filter: id < 4\n")
    )
    (folder / "labels.csv").write_text("id,kind\n1,fault\n2,other\n3,other\n")
    found = compared(model, folder, variants={"a": {"kinds": "per_row"}, "b": {"kinds": "per_row"}})
    assert found["a"].quality.measures["exact match"].value == pytest.approx(2 / 3)
    assert compared(model, folder, step="kinds", variants=["per_row"]).step == "kinds"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("ticket.csv", "id,text\n", 'ticket.csv: plan complaints has no input ticket. Its inputs: tickets. Did you mean "tickets"?'),
        ("tickets.csv", "id,text\n", "tickets.jsonl and tickets.csv have one name. Keep one of them"),
        ("tickets.jsonl", '{"id": 1, "text": "a"}\n{"id": 2\n', "tickets.jsonl:2"),
        ("truth.csv", "ident,keep\n1,true\n", "truth.csv has no column that identifies a row of step asked"),
        ("variants.yaml", "one: per_row\n", "variants.yaml:1:1"),
        ("plan.yaml", "plan: complaints\nsteps: {}\n", "plan.yaml:"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_named_and_nothing_is_sent(
    model: ModelServer,  # noqa: F811
    folder: Path,
    name: str,
    text: str,
    said: str,
) -> None:
    (folder / name).write_text(text)
    with pytest.raises(SemgraphError) as caught:
        compared(model, folder, variants=WAYS if name != "variants.yaml" else None)
    assert said in str(caught.value)
    assert model.requests == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("plan.yaml", "there is no {}/plan.yaml. Write one, or name a plan"),
        ("tickets.jsonl", "there is no {}/tickets.csv (or .jsonl, .ndjson, .json …). Write the rows of the input tickets"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_there_is_named(
    model: ModelServer,  # noqa: F811
    folder: Path,
    name: str,
    said: str,
) -> None:
    (folder / name).unlink()
    with pytest.raises(SemgraphError) as caught:
        compared(model, folder)
    assert said.format(folder) in str(caught.value)


class TestTheCommand:
    def test_the_folder_takes_the_place_of_plan_rows_and_truth(
        self,
        project: Project,  # noqa: F811
        folder: Path,
    ) -> None:
        shutil.copytree(folder, project.folder / "tickets")
        done = project("compare", "--dataset", "tickets", "--implementations", ",".join(WAYS))
        assert (done.code, done.err.splitlines()[0]) == (
            0,
            "complaints · tickets/tickets.jsonl: 6 rows of tickets",
        )
        assert "packed(rows=3)" in done.out

    def test_an_unknown_name_lists_those_that_come_with_semgraph(self, project: Project) -> None:  # noqa: F811
        done = project("compare", "--dataset", "delivry")
        assert (done.code, done.out) == (2, "")
        assert (
            'there is no folder and no data set "delivry". Semgraph has: delivery, people. Did you mean "delivery"?'
            in done.err.replace("semgraph has", "Semgraph has")
        )


@pytest.mark.parametrize("name", [path.name for path in sorted(DATASETS.iterdir())])
def test_those_that_come_with_semgraph_are_compared_without_a_model(
    tmp_path: Path, name: str
) -> None:
    with sg.Session(llm="recorded", store="memory", folder=tmp_path) as session:
        found = session.compare(dataset=name, say=None)
    assert found.truth
    assert all(arm.quality.f1 is not None for arm in found)


def test_the_tutorial_shows_the_files_of_its_data_set() -> None:
    texts = {path.read_text("utf-8") for path in (DATASETS / "people").glob("*.*")}
    shown = [
        block.text
        for block in blocks(ROOT / "docs" / "ablation.md")
        if block.language == "yaml" or block.mark == "file"
    ]
    assert len(shown) == 9
    assert set(shown) == texts


def test_a_recorded_comparison_is_replayed_by_a_colleague(
    model: ModelServer,  # noqa: F811
    folder: Path,
    tmp_path: Path,
) -> None:
    made = compared(model, folder, record_to=folder / "recordings" / "complaints.jsonl")
    sent = len(model.requests)
    with sg.Session(llm="recorded", store="memory", folder=tmp_path / "theirs") as theirs:
        found = theirs.compare(dataset=folder, variants=WAYS, say=None)
    assert [arm.quality for arm in found] == [arm.quality for arm in made]
    assert len(model.requests) == sent
