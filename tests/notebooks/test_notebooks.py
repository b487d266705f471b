"""The notebooks are executed, from their first cell to their last, with the answers that are
recorded beside them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from tests.patience import HANGS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def swap(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The notebook's folder after it was run, and what each cell shows, by the beginning of its
    source.
    """
    folder = tmp_path_factory.mktemp("notebooks")
    return folder, executed(folder, "swap_an_operator.ipynb")


def executed(folder: Path, name: str) -> dict[str, str]:
    """What each cell of a notebook shows, run in a copy of its folder, by its source."""
    shutil.copytree(ROOT / "notebooks", folder, dirs_exist_ok=True)
    book = nbformat.read(folder / name, as_version=4)
    with pytest.MonkeyPatch.context() as patched:
        for setting in [n for n in os.environ if n.startswith(("SEMGRAPH_", "OPENAI_", "NEO4J_"))]:
            patched.delenv(setting)
        patched.setenv("PYTHONPATH", str(ROOT))
        patched.setenv("SEMGRAPH_OFFLINE", "1")
        patched.setenv("IPYTHONDIR", str(folder / "ipython"))
        client = NotebookClient(book, timeout=int(HANGS), kernel_name="python3", resources={"metadata": {"path": str(folder)}})
        client.execute()
    return {cell.source: _shown(cell) for cell in book.cells if cell.cell_type == "code"}


def _shown(cell: nbformat.NotebookNode) -> str:
    found = [output.get("data", {}) for output in cell.outputs]
    return "\n".join(data.get("text/html") or data.get("text/plain") or "" for data in found)


def of(shown: dict[str, str], begins: str) -> str:
    (found,) = [output for source, output in shown.items() if source.startswith(begins) or f"\n{begins}" in source]
    return found


def test_the_session_shows_its_model_its_store_and_its_limit(swap: tuple[Path, dict[str, str]]) -> None:
    shown = of(swap[1], "session = ")
    for said in ("recorded:data/swap_an_operator.jsonl", "0 (replayed)", "memory", "at most usd", "option"):
        assert said in shown


def test_the_plan_is_a_tree_with_what_it_will_take(swap: tuple[Path, dict[str, str]]) -> None:
    shown = of(swap[1], "m = sg.table")
    assert shown.startswith("<pre>")
    assert "link" in shown
    assert "nested_loop" in shown
    assert "estimated:" in shown


def test_rows_open_to_the_messages_that_were_sent(swap: tuple[Path, dict[str, str]]) -> None:
    shown = of(swap[1], "session.run(link, rows=5)")
    assert shown.count("<details>") == 5
    assert "Does “Helios” in the sentence “Helios delivered the last panels on Monday.” mean Helios Energy" in shown
    assert "tokens" in shown.split("<details>")[1]


def test_the_ways_stand_side_by_side_with_cost_and_quality(swap: tuple[Path, dict[str, str]]) -> None:
    shown = of(swap[1], "c = session.compare")
    assert "nested_loop" in shown
    assert "block(left=6)" in shown
    assert "F1 [95 %]" in shown
    assert ">24<" in shown.replace("<b>", "").replace("</b>", "")


def test_rows_on_which_they_differ_lead_back_to_prompts(swap: tuple[Path, dict[str, str]]) -> None:
    assert "mention_id" in of(swap[1], "c.disagreements")
    why = of(swap[1], 'c["block(left=6)"].why')
    assert "Helios sang Fauré last Thursday." in why
    assert "Answer with one JSON object" in why


def test_the_choice_is_a_plan_and_the_comparison_a_page(swap: tuple[Path, dict[str, str]]) -> None:
    folder = swap[0]
    assert "link: block(left=6)" in (folder / "link.yaml").read_text(encoding="utf-8")
    page = (folder / "swap_an_operator.html").read_text(encoding="utf-8")
    assert "link · comparison" in page
    assert "Answer with one JSON object" in page


def test_the_notebook_of_memories_shows_what_it_measures(tmp_path: Path) -> None:
    name = "three_memories.ipynb"
    stored = {cell.source: _shown(cell) for cell in _cells(name) if cell.cell_type == "code"}
    now = executed(tmp_path, name)
    assert [source for source in stored if stored[source] != now[source]] == [], "run it anew, and read its texts"
    assert all(memory in of(now, "turns, asked") for memory in ("40 turns by vectors", "mem0g", "lightmem, no sleep"))
    (chart,) = [output for cell in _cells(name) for output in cell.get("outputs", ()) if "image/png" in output.get("data", {})]
    assert chart


def _cells(name: str) -> list[nbformat.NotebookNode]:
    cells: list[nbformat.NotebookNode] = nbformat.read(ROOT / "notebooks" / name, as_version=4).cells
    return cells


def test_the_notebook_with_recordings_is_kept_without_what_it_shows() -> None:
    cells = _cells("swap_an_operator.ipynb")
    assert not [cell for cell in cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)]
