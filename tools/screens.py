"""The pictures of docs/screens.md: what commands print in terminals of 80 and of 120 columns, and pages
and outputs of notebooks in Chromium.

    python -m tools.screens              # all of them
    python -m tools.screens run graph    # those whose names begin so
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.text import Text

from tools.notebooks import FOLDER as NOTEBOOKS
from tools.notebooks import ROOT, exported, notebooks, read

FOLDER = ROOT / "docs" / "screens"
WIDTHS, SCALE = (80, 120), 1.5
QUESTION = """{plan: broken, inputs: {reviews: {id: string, text: string}}, returns: [broken],
steps: {broken: [{from: reviews}, {sem_filter: "Is the product in this review broken? {text}"}]}}"""
COMMANDS = {
    "run": "semgraph run add_episode --llm recorded --embedder recorded",
    "explain": "semgraph explain add_episode",
    "show": "semgraph show demo",
    "why": "semgraph why WORKS_AT",
    "compare": "semgraph compare broken.yaml -i reviews=reviews.csv --truth truth.csv --step broken "
    "--implementations 'per_row, packed(rows=6), logit' --llm recorded:reviews.jsonl",
}
PAGES = {"graph": "show demo -o graph.html", "report": "report last -o report.html"}
CELLS = {"result": ("own_memory", 1), "comparison": ("quickstart", 1)}  # a notebook, and its output
_ERASED = re.compile(r"\x1b\[\?25[lh]|\n[^\n]*?\x1b\[1A|[^\n]*?\x1b\[2K")  # progress, by itself
_FONT = re.compile(r"@font-face \{.*?\}", re.DOTALL)  # a server has it


@contextmanager
def prepared(name: str) -> Iterator[Path]:
    """A new folder, with what a picture needs."""
    with tempfile.TemporaryDirectory() as place:
        folder, data = Path(place), NOTEBOOKS / "data"
        if name == "compare":
            (folder / "broken.yaml").write_text(QUESTION)
            shutil.copy(data / "quickstart.jsonl", folder / "reviews.jsonl")
            rows = Path(shutil.copy(data / "reviews.csv", folder)).read_text()
            (folder / "truth.csv").write_text(rows.replace("id,text,broken", "id,text,keep", 1))
        elif name not in ("run", "explain"):
            printed(COMMANDS["run"], folder, 120)
        yield folder


def printed(command: str, folder: Path, columns: int) -> str:
    """What a terminal of so many columns shows after a command, with its colours."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "SEMGRAPH_OFFLINE": "1"}
    own = command.replace("semgraph", f"stty cols {columns}; {sys.executable} -m semgraph", 1)
    words = ["script", "-qec", own, "/dev/null"]
    done = subprocess.run(words, cwd=folder, env=env, check=True, capture_output=True)
    text = done.stdout.decode().replace("\r", "")
    while text != (text := _ERASED.sub("", text, count=1)):
        pass
    return text.strip("\n")


def terminal(name: str, columns: int) -> bytes:
    """The picture of a command: vectors, for the sharpest text at the smallest size."""
    with prepared(name) as folder:
        text = printed(COMMANDS[name], folder, columns)
    screen = Console(record=True, width=columns, file=StringIO(), force_terminal=True)
    screen.print(Text(f"$ {COMMANDS[name]}", "bold"), Text.from_ansi(text), sep="\n")
    svg = screen.export_svg(title=f"{columns} columns", unique_id=f"{name}-{columns}")
    return _FONT.sub("", svg).encode()


def shot(browser: Browser, name: str, theme: str) -> bytes:
    """The picture of a page, or of an output of a notebook, in a theme."""
    options: Any = {"color_scheme": theme, "device_scale_factor": SCALE}
    size: Any = {"width": 1280 if name in PAGES else 800, "height": 560 if name == "graph" else 800}
    page = browser.new_context(viewport=size, **options).new_page()
    if name in CELLS:
        book, number = CELLS[name]
        page.set_content(exported(read(*notebooks([book])), theme))
        page.wait_for_timeout(1000)
        return (
            page.locator("[class*=jp-OutputArea-output]:has(> .semgraph)").nth(number).screenshot()
        )
    with prepared(name) as folder:
        printed(f"semgraph {PAGES[name]}", folder, 120)
        page.goto((folder / f"{name}.html").as_uri())
        page.wait_for_timeout(1000)
        return page.screenshot()


def main(arguments: Sequence[str]) -> None:
    """Make the named pictures, or all of them."""
    made = {f"{n}-{width}.svg": partial(terminal, n, width) for n in COMMANDS for width in WIDTHS}
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, theme in product((*PAGES, *CELLS), ("light", "dark")):
            made[f"{name}-{theme}.png"] = partial(shot, browser, name, theme)
        for name, picture in made.items():
            if not arguments or name.startswith(tuple(arguments)):
                (FOLDER / name).write_bytes(picture())
                print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
