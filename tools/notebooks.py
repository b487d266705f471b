"""Run the notebooks and store their outputs.

    python -m tools.notebooks                         # all of them
    python -m tools.notebooks quickstart ...          # only these
    python -m tools.notebooks --html FOLDER [NAME ...]  # export them as HTML without running them

Answers come from the recordings in `notebooks/data` (`python -m tools.recordings notebooks`), so
all outputs except the ids of runs stay equal.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
_PATIENCE = 600  # seconds for a cell, on a busy machine
_OURS = ("SEMGRAPH_", "OPENAI_", "NEO4J_")
_ID = re.compile(
    r"\b(run |run': '|TEXT(?:\"|&#34;), (?:\"|&#34;)|comparison |comparison-|chart-|data-graph=\")([0-9a-f]{4,8})\b"
)


def notebooks(names: Sequence[str] = ()) -> list[Path]:
    """The notebooks with these names, or all of them."""
    return [path for path in sorted(FOLDER.glob("*.ipynb")) if not names or path.stem in names]


def read(path: Path) -> NotebookNode:
    """A notebook with its outputs."""
    return nbformat.read(path, as_version=4)


def executed(path: Path, folder: Path) -> NotebookNode:
    """Run a notebook in a copy of its folder, without the settings of this machine and without
    network access.

    Args:
        path: The notebook.
        folder: The folder for the copy.
    """
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))
    book = read(path)
    settings = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    settings |= {
        "PYTHONPATH": str(ROOT),
        "SEMGRAPH_OFFLINE": "1",
        "IPYTHONDIR": str(folder / ".ipython"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    client = NotebookClient(
        book,
        timeout=_PATIENCE,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env=settings)
    for cell in book.cells:
        cell.metadata.pop("execution", None)  # times
        if cell.cell_type == "code":  # without progress that was cleared
            cell.outputs = [o for o in cell.outputs if "data" not in o or any(o.data.values())]
    return book


def shown(cell: NotebookNode) -> str:
    """The output of a cell, as one text, without pictures, scripts and the ids of runs."""
    texts = []
    for output in cell.get("outputs", ()):
        data: dict[str, Any] = output.get("data", {})
        texts.append(data.get("text/html") or data.get("text/plain") or output.get("text") or "")
    return _ID.sub(r"\1ID", re.sub("<script>.*?</script>", "", "\n".join(texts), flags=re.DOTALL))


def exported(book: NotebookNode, theme: str = "light") -> str:
    """A notebook as an HTML page, with the theme `light` or `dark`."""
    from nbconvert import HTMLExporter

    text: str = HTMLExporter(theme=theme).from_notebook_node(book)[0]
    return text


def main(arguments: Sequence[str]) -> None:
    """Run or export the named notebooks, or all of them."""
    if arguments[:1] == ["--html"]:
        folder = Path(arguments[1])
        folder.mkdir(parents=True, exist_ok=True)
        for path in notebooks(arguments[2:]):
            for theme in ("light", "dark"):
                page = folder / f"{path.stem}-{theme}.html"
                page.write_text(exported(read(path), theme), encoding="utf-8")
        return
    for path in notebooks(arguments):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(path, Path(folder)), path)
        print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
