"""The site: it is built without warnings, all its links lead somewhere, and it needs no other host.
`make docs` builds it every time, and reports links and anchors that lead nowhere.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import FunctionType
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


NOT_FOR_USERS = {
    *(f"semgraph.session.session.Session.{n}" for n in ("prepare", "resumed", "require_store", "arequire_prices")),
    *(f"semgraph.frontend.frame.Frame.{name}" for name in ("node", "then")),
    "semgraph.execution.result.Result.merge",
}  # fmt: skip
"""Public names for the command line and other layers, which the reference leaves out."""


def paths(found: Any) -> set[str]:
    """A name, and the methods and properties of a class, as the reference names them. Of a method
    and its coroutine it has the method.
    """
    members = vars(found) if isinstance(found, type) else {}
    functions = [getattr(each, "fget", None) or getattr(each, "__func__", each) for name, each in members.items()
                 if name[0] != "_" and not (name[0] == "a" and name[1:] in members)]  # fmt: skip
    called = [found, *(each for each in functions if isinstance(each, FunctionType))]
    return {f"{each.__module__}.{each.__qualname__}" for each in called}


class Links(HTMLParser):
    """The links and the anchors of a page, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.anchors |= {named[name] for name in ("id", "name") if name in named}
        if tag == "a" and "href" in named:
            self.links.append(named["href"])
        elif tag in {"img", "script", "source", "link", "iframe"}:
            self.loaded += [named[name] for name in ("src", "srcset", "href") if name in named]


BUILT = pytest.mark.nightly  # with the site that is built: half a minute


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        build, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    """The pages, by file."""
    read = {}
    for path in site.rglob("*.html"):
        read[path] = Links()
        read[path].feed(path.read_text(encoding="utf-8"))
    return read


@BUILT
def test_every_link_leads_to_a_page_and_a_place_on_it(site: Path, pages: dict[Path, Links]) -> None:
    wrong = []
    for page, found in pages.items():
        for link in [*found.links, *found.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or page.name == "404.html":
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            known = pages.get(target)
            missing = known and parts.fragment and unquote(parts.fragment) not in known.anchors
            if not target.exists() or (missing and not parts.fragment.startswith("__")):
                wrong.append(f"{page.relative_to(site)}: {link}")
    assert wrong == []


@BUILT
def test_pages_load_nothing_from_other_hosts(pages: dict[Path, Links]) -> None:
    loaded = {link for found in pages.values() for link in found.loaded}
    assert {link for link in loaded if urlsplit(link).netloc} == set()


def test_every_page_of_the_documentation_is_in_the_navigation() -> None:
    """Pages about plans, memories and decisions have pages that list them."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r": ([\w./-]+\.md)$", text, re.MULTILINE))
    assert {path.name for path in DOCS.glob("*.md")} - named == set()
    assert yaml.safe_load(text)["nav"][0] == {"Home": "index.md"}


def test_every_notebook_is_in_the_gallery_with_an_output() -> None:
    gallery = (DOCS / "gallery.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r'data-output="(\S+)#(\w+)"', gallery))
    assert set(shown) == {f"notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    for name, tag in shown.items():
        cells = json.loads((ROOT / name).read_text(encoding="utf-8"))["cells"]
        (cell,) = (cell for cell in cells if tag in cell["metadata"].get("tags", ()))
        assert cell["outputs"]
        assert f"(../{name})" in gallery


@BUILT
def test_the_reference_names_every_command_and_every_public_name(site: Path) -> None:
    import typer

    import semgraph
    from semgraph.cli import app

    commands = (site / "cli.html").read_text(encoding="utf-8")
    for name in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert f"semgraph {name}" in commands
    pages = (site / "python").glob("*.html")
    api = {
        name
        for page in pages
        for name in re.findall(r'id="(semgraph\.[\w.]+)"', page.read_text("utf-8"))
    }
    expected = set().union(*(paths(getattr(semgraph, name)) for name in semgraph.__all__))
    assert expected - api == NOT_FOR_USERS
    assert not NOT_FOR_USERS & api


@BUILT
def test_files_outside_of_the_documentation_are_on_the_site(site: Path) -> None:
    for name in (
        "benchmarks/results/engine.html",
        "benchmarks/results/engine.jsonl",
        "plans/memories/turns/index.html",
        "notebooks/quickstart.ipynb",
        "CHANGELOG.html",
    ):
        assert (site / "repository" / name).exists(), name
    notebook = (site / "repository/notebooks/quickstart.ipynb.html").read_text(encoding="utf-8")
    assert 'class="dataframe"' in notebook
    assert "data-output" in notebook
