"""What runs the blocks of pages: it finds outputs that differ, commands that fail, and blocks that nobody
has said anything about.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Project
from tests.docs import blocks as module
from tests.docs.blocks import Mismatch, Reader, agrees, blocks


def read(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> list[Mismatch]:
    """The outputs that differ on a page."""
    monkeypatch.setattr(module, "ROOT", folder)
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "SEMGRAPH_HOME": str(folder)}
    return list(Reader(Project(folder, environment), {}).read(blocks(page)))


def test_times_and_ids_do_not_matter_and_all_else_does() -> None:
    shown = "2 calls · 1.2 s\nrun 2ba8"
    assert agrees(shown, "2 calls · 14 ms\nrun ffff\n")
    assert not agrees(shown, "3 calls · 1.2 s\nrun 2ba8\n")
    assert not agrees(shown, "2 calls · 1.2 s\nrun 2ba8\nand more\n")
    assert agrees("first\n…\nlast", "first\none\ntwo\nlast\n")


def test_another_output_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "```python\nprint(1 + 1)\n```\n\n```\n{}\n```\n"
    assert read(tmp_path, page.format(2), monkeypatch) == []
    (wrong,) = read(tmp_path, page.format(3), monkeypatch)
    assert wrong.printed == "2\n"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("```bash\nsemgraph plans check nothing\n```\n", "the page does not show it"),
        ("```bash\ncurl https://example.org\n```\n", "no test runs this command"),
        ("```bash\npip install 'semgraph[nothing]'\n```\n", "pip install"),
        ("A block of which nothing is said:\n\n```\ntext\n```\n", "mark it"),
    ],
)
def test_what_is_wrong_with_a_page_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, message: str
) -> None:
    module._known_extras()
    with pytest.raises((AssertionError, pytest.fail.Exception), match=message):
        read(tmp_path, page, monkeypatch)


def test_a_marked_block_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "<!-- not-run: needs a cluster -->\n```bash\nkubectl apply\n```\n"
    assert read(tmp_path, page, monkeypatch) == []


def test_a_part_of_a_plan_fits_the_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jsonschema

    assert read(tmp_path, "```yaml\n- filter: n > 1\n- limit: 3\n```\n", monkeypatch) == []
    with pytest.raises(jsonschema.ValidationError):
        read(tmp_path, "```yaml\n- filtr: n > 1\n```\n", monkeypatch)


def test_examples_at_a_prompt_share_their_names_and_show_what_they_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (
        "```python\n>>> import math\n>>> n = 2\n\n```\n\nThen:\n\n"
        "```python\n>>> n + 1\n{}\n>>> math.sqrt(-1)\nTraceback (most recent call last):\n{}\n"
        ">>> for i in range(n):\n...     print(i)\n0\n1\n\n```\n"
    )
    right = page.format(3, "ValueError: math domain error")
    assert read(tmp_path, right, monkeypatch) == []
    for wrong in (page.format(4, "ValueError: math domain error"), page.format(3, "KeyError: 1")):
        (mismatch,) = read(tmp_path, wrong, monkeypatch)
        block = mismatch.block
        text = wrong[: block.start] + mismatch.printed.strip("\n") + "\n\n" + wrong[block.end :]
        assert text == right


def test_tools_of_a_configured_server_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (
        '```json\n{{"mcpServers": {{"memory": {{"command": "semgraph", "args": ["serve", "--mcp", '
        '"--folder", "/home/ada/x", "--max-usd", "1"], "env": {{"OPENAI_API_KEY": "", "SEMGRAPH_LLM": ""}}}}}}}}\n```\n\n'
        '<!-- call: search -->\n```json\n{{"query": "Ann"}}\n```\n\n```\n{}\n```\n'
    )
    (wrong,) = read(tmp_path, page.format("one row"), monkeypatch)
    assert wrong.printed.startswith('search has no argument "query". Arguments: queries, params,')
    assert read(tmp_path, page.format(wrong.printed.strip()), monkeypatch) == []
