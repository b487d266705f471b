"""The notebooks are executed, from their first cell to their last, with the answers that are
recorded beside them, and show what is kept in them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from nbformat import NotebookNode

from tools.notebooks import FOLDER, executed, notebooks, read, shown

Shown = dict[str, str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, NotebookNode]]:
    """Runs a notebook once: the folder it was run in, and the notebook with what it shows."""

    @cache
    def of(name: str) -> tuple[Path, NotebookNode]:
        folder = tmp_path_factory.mktemp(name)
        return folder, executed(FOLDER / f"{name}.ipynb", folder)

    return of


def _cells(book: NotebookNode) -> Shown:
    return {cell.source: shown(cell) for cell in book.cells if cell.cell_type == "code"}


@pytest.fixture
def cell(request: pytest.FixtureRequest, run: Callable[[str], tuple[Path, NotebookNode]]) -> Callable[[str, str], str]:
    """What the cell of a notebook shows whose source, or a line of it, begins so."""

    def of(name: str, begins: str) -> str:
        sources = _cells(run(name)[1])
        (output,) = [text for source, text in sources.items() if source.startswith(begins) or f"\n{begins}" in source]
        return output

    return of


Cell = Callable[[str, str], str]
BOOKS = pytest.mark.parametrize("name", [path.stem for path in notebooks()])


@BOOKS
def test_a_notebook_shows_what_is_kept_in_it(name: str, run: Callable[[str], tuple[Path, NotebookNode]]) -> None:
    kept, now = _cells(read(FOLDER / f"{name}.ipynb")), _cells(run(name)[1])
    changed = [source for source in kept if kept[source] != now[source]]
    assert changed == [], f"python -m tools.notebooks {name}, then read its texts again"


@BOOKS
def test_a_notebook_is_kept_with_what_it_shows(name: str) -> None:
    cells = [cell for cell in read(FOLDER / f"{name}.ipynb").cells if cell.cell_type == "code"]
    assert any(cell.outputs for cell in cells)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [cell for cell in cells if "execution" in cell.metadata], "times differ from run to run"
    assert not [output for cell in cells for output in cell.outputs if output.get("name") == "stderr"]


class TestSwapAnOperator:
    def test_the_session_shows_its_model_its_store_and_its_limit(self, cell: Cell) -> None:
        said = cell("swap_an_operator", "session = ")
        for part in ("recorded:data/swap_an_operator.jsonl", "0 (replayed)", "memory", "at most usd", "argument"):
            assert part in said

    def test_the_plan_is_an_outline_with_what_it_will_take(self, cell: Cell) -> None:
        said = cell("swap_an_operator", "m = sg.table")
        assert 'class="outline"' in said
        assert "nested_loop" in said
        assert "estimated:" in said

    def test_rows_open_to_the_messages_that_were_sent(self, cell: Cell) -> None:
        said = cell("swap_an_operator", "session.run(link, rows=5)")
        assert said.count("<details>") == 5
        assert "Does “Helios” in the sentence “Helios delivered the last panels on Monday.” mean Helios Energy" in said
        assert "tokens" in said.split("<details>")[1]

    def test_implementations_stand_side_by_side_with_cost_and_quality(self, cell: Cell) -> None:
        said = cell("swap_an_operator", "c = session.compare")
        assert "nested_loop" in said
        assert "block(left=6)" in said
        assert "F1 [95 %]" in said
        assert ">24<" in said.replace("<b>", "").replace("</b>", "")

    def test_rows_on_which_they_differ_lead_back_to_prompts(self, cell: Cell) -> None:
        assert "mention_id" in cell("swap_an_operator", "c.disagreements")
        why = cell("swap_an_operator", 'c["block(left=6)"].why')
        assert "Helios sang Fauré last Thursday." in why
        assert "Answer with one JSON object" in why

    def test_the_choice_is_a_plan_and_the_comparison_a_page(self, run: Callable[[str], tuple[Path, NotebookNode]]) -> None:
        folder = run("swap_an_operator")[0]
        assert "link: block(left=6)" in (folder / "link.yaml").read_text(encoding="utf-8")
        page = (folder / "swap_an_operator.html").read_text(encoding="utf-8")
        assert "link · comparison" in page
        assert "Answer with one JSON object" in page


def test_memories_are_a_table_and_a_chart(cell: Cell, run: Callable[[str], tuple[Path, NotebookNode]]) -> None:
    table = cell("three_memories", "turns, asked")
    assert all(memory in table for memory in ("40 turns by vectors", "mem0g", "lightmem, no sleep"))
    outputs = [output for each in run("three_memories")[1].cells for output in each.get("outputs", ())]
    assert len([output for output in outputs if "image/png" in output.get("data", {})]) == 1


class TestOwnMemory:
    def test_the_result_is_a_picture_of_the_graph(self, cell: Cell) -> None:
        said = cell("own_memory", "first = session.run")
        assert '<svg class="graph"' in said
        assert "Google" in said
        assert "no longer holds" in said

    def test_a_row_leads_back_to_its_prompt_and_its_message(self, cell: Cell) -> None:
        said = cell("own_memory", 'session.why("Google"')
        assert "In which city does Jonas live, and where does Jonas work?" in said
        assert "The slides for Friday are done." in said

    def test_the_prompt_with_rules_gives_the_true_graph(self, cell: Cell) -> None:
        said = cell("own_memory", "comparison = fresh.compare")
        assert "<b>1.000<" in said
        assert ".600" in said


class TestOwnOperator:
    def test_it_passes_the_check(self, cell: Cell) -> None:
        assert cell("own_operator", "for checked in check_folder").startswith("sem_filter/alike  17 passed · recall 1.00")

    def test_it_is_compared_with_shipped_ones(self, cell: Cell) -> None:
        said = cell("own_operator", "comparison = session.compare")
        for part in ("per_row", "alike", "packed(rows=10)", "F1 [95 %]"):
            assert part in said

    def test_a_row_without_a_call_of_its_own_has_the_answer_of_another(self, cell: Cell) -> None:
        assert "answer" in cell("own_operator", 'comparison["alike"].why')


class TestQuickstart:
    def test_a_map_adds_typed_answers_to_a_data_frame(self, cell: Cell) -> None:
        said = cell("quickstart", "read = reviews.sem.map")
        assert said.count("<td>negative</td>") == 7
        assert said.count("<td>positive</td>") == 5

    def test_a_filter_keeps_the_rows_that_are_right(self, cell: Cell) -> None:
        said = cell("quickstart", "broken = reviews.sem.filter")
        assert [row for row in (f"r{n:02}" for n in range(1, 13)) if row in said] == ["r01", "r04", "r06", "r09"]

    def test_implementations_are_measured_and_the_query_is_a_plan(self, cell: Cell) -> None:
        said = cell("quickstart", "comparison = session.compare")
        assert "packed(rows=6)" in said
        assert "logit" in said
        assert "sem_filter: {prompt:" in cell("quickstart", "print(question.to_yaml())")
