"""The MkDocs hook (`mkdocs.yml`) that completes the site: reference pages generated from the code,
and files of the repository that pages link to.

A page in `docs/` links to any file of the repository by its relative path, as on a Git host. Files
outside of `docs/`, and the files that they link to, become a part of the site below `repository/`:
Markdown as pages, plans and code as listings, notebooks as pages with their outputs, folders as pages
with their contents. `<div data-output="NOTEBOOK#CELL"></div>` is replaced by the output of a cell, by
its number or by a tag.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
# Files that become listings, with the language of their text.
LISTED = {".yaml": "yaml", ".py": "python", ".toml": "toml"}
NOTEBOOK = ".ipynb"
# Files outside of `docs/` that the navigation names.
NAVIGATED = ("CHANGELOG.md", "benchmarks/results")

_FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(
    r"(?<=\]\()[^()\s]+(?=\))|(?<=\b(?:src)=\")[^\"]+(?=\")|(?<=\bhref=\")[^\"]+(?=\")"
)
_PICTURE = re.compile(
    r'<picture><source [^>]*dark[^>]*srcset="([^"]+)"><img alt="([^"]*)" src="([^"]+)"></picture>'
)
_HIDDEN = re.compile(r"^<!-- (?:made|/made|not-run|file)\b.*?-->\n", re.MULTILINE)
_OUTPUT = re.compile(r'(<div [^>]*data-output="([^"#]+)#(\w+)"[^>]*>)</div>')
_WRITES = re.compile(r"%%writefile \S+(\.\w+)\n")
_log = logging.getLogger("mkdocs.hooks.site")


def on_files(files: Any, config: Any) -> Any:
    """Add the reference and the linked files of the repository to the pages."""
    texts = {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    for name, made in REFERENCE.items():
        files.append(File.generated(config, name, content=made()))
        texts[f"docs/{name}"] = files.src_uris[name].content_string
    pending = [*NAVIGATED, *(link for page, text in texts.items() for link in _linked(text, page))]
    while pending:
        source = pending.pop()
        if _uri(source) not in files.src_uris:
            file = _site_file(source, config)
            files.append(file)
            if source.endswith(NOTEBOOK):  # the page offers it for download
                to = f"repository/{source}"
                files.append(File.generated(config, to, abs_src_path=str(ROOT / source)))
            if file.src_uri.endswith(".md"):
                pending += _linked(file.content_string, _source_of(file.src_uri))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links to the files' locations on the site, and let pictures follow the theme."""
    uri = page.file.src_uri
    source = _source_of(uri)
    if uri.startswith("repository/"):
        page.meta["search"] = {"exclude": True}
    text = _PICTURE.sub(r"![\2](\3#only-light)![\2](\1#only-dark)", _HIDDEN.sub("", markdown))
    return _outside_fences(
        text, lambda part: _LINK.sub(lambda m: _relinked(m[0], source, uri), part)
    )


def on_page_content(html: str, **_: Any) -> str:
    """Put outputs of notebooks in their places."""
    return _OUTPUT.sub(lambda found: f"{found[1]}{_output(ROOT / found[2], found[3])}</div>", html)


def _relinked(link: str, source: str, uri: str) -> str:
    target = _target(link, source)
    if target is None:
        return link
    path, mark, anchor = link.partition("#")
    del path
    return os.path.relpath(_uri(target), PurePosixPath(uri).parent) + mark + anchor


def _linked(text: str, source: str) -> Iterator[str]:
    """The files of the repository that a page links to, except pages in `docs/`."""
    text = _PICTURE.sub(r"![\2](\3)![\2](\1)", text)
    for link in _LINK.findall(_FENCED.sub("", text)):
        target = _target(link, source)
        if target is None or _uri(target) == target.removeprefix("docs/"):
            continue
        if (ROOT / target).exists():
            yield target
        else:
            _log.warning("%s links to %s, which does not exist", source, link)


def _target(link: str, source: str) -> str | None:
    """The file of the repository at a relative link."""
    path = link.partition("#")[0]
    if not path or "://" in path or path.startswith(("/", "mailto:")):
        return None
    return os.path.normpath(PurePosixPath(source).parent / path)


def _uri(target: str) -> str:
    """The path of a file of the repository among the sources of the site."""
    path = PurePosixPath(target)
    if (ROOT / target).is_dir():
        path /= "README.md"
    if path.parts[0] == "docs" and path.parts[1] != "examples" and path.suffix == ".md":
        return str(path.relative_to("docs"))
    listed = path.suffix in {*LISTED, NOTEBOOK}
    return f"repository/{path}" + ".md" * listed


def _source_of(uri: str) -> str:
    """The file of the repository, or the file in a folder, for a source of the site."""
    uri = uri.replace(f"{NOTEBOOK}.md", NOTEBOOK)
    return uri.removeprefix("repository/") if uri.startswith("repository/") else f"docs/{uri}"


def _site_file(source: str, config: Any) -> File:
    """A file or folder of the repository as a file of the site."""
    path = ROOT / source
    if path.is_dir() and not (path / "README.md").exists():
        return File.generated(config, _uri(source), content="\n".join(_folder(path)))
    if path.is_dir():
        path /= "README.md"
    if path.suffix in LISTED:
        return File.generated(config, _uri(source), content=f"# {source}\n\n{_listing(path)}")
    if path.suffix == NOTEBOOK:
        return File.generated(config, _uri(source), content="\n\n".join(_notebook(path)))
    return File.generated(config, _uri(source), abs_src_path=str(path))


@cache
def _cells(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells


def _notebook(path: Path) -> Iterator[str]:
    """The page of a notebook: its texts and code, and a place for each output."""
    for number, cell in enumerate(_cells(path)):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield text
            continue
        written = _WRITES.match(text)
        language = LISTED.get(written[1], "markdown") if written else "python"
        yield f"````{language}\n{text}\n````"
        if cell["outputs"]:
            yield f'<div class="output" data-output="{path.relative_to(ROOT)}#{number}"></div>'
    yield f"<a href='{path.name}' download>{path.name}</a>"  # in these quotes it is no link to a page


def _output(path: Path, which: str) -> str:
    """The outputs of a cell, as HTML."""
    cells = _cells(path)
    tagged = (cell for cell in cells if which in cell["metadata"].get("tags", ()))
    parts = []
    for output in (cells[int(which)] if which.isdigit() else next(tagged))["outputs"]:
        data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
        text = "".join(output.get("text", "")) or data.get("text/plain", "")
        picture = f'<img alt="{escape(text)}" src="data:image/png;base64,{data.get("image/png")}">'
        drawn = picture if "image/png" in data else f"<pre>{escape(text)}</pre>"
        parts.append(data.get("text/html", drawn))
    return "\n".join(parts).replace(
        "<table>", '<table class="table">'
    )  # the theme styles those without


def _folder(path: Path) -> Iterator[str]:
    """The page of a folder: links to its contents, and the plans and prompts themselves."""
    yield f"# {path.relative_to(ROOT)}\n"
    entries = sorted(path.iterdir())
    for entry in entries:
        if not (
            entry.suffix in LISTED
            or entry.name in {"prompts", "recordings"}
            or entry.name[0] in "._"
        ):
            yield f"- [{entry.name}]({entry.name})"
    prompts = sorted((path / "prompts").glob("*.md"))
    for entry in [*(one for one in entries if one.suffix in LISTED), *prompts]:
        yield f"\n## {entry.relative_to(path)}\n\n{_listing(entry)}"


def _listing(path: Path) -> str:
    text = path.read_text(encoding="utf-8").rstrip("\n")
    return f"````{LISTED.get(path.suffix, 'markdown')}\n{text}\n````\n"


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    """A text with its parts outside of code blocks changed."""
    parts, end = [], 0
    for block in _FENCED.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])


def cli() -> str:
    """The page of the commands, from the help texts."""
    import typer
    from typer.cli import get_docs_for_click

    from semgraph.cli import app

    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="semgraph")
    text = get_docs_for_click(obj=command, ctx=context, name="semgraph", title="Commands")
    return text.replace("```console", "```text")


def implementations() -> str:
    """The page of the implementations of each operator, from their files."""
    from semgraph.semantic.contract import OPERATORS
    from semgraph.semantic.library import FOLDERS, Library

    lines = [
        "# Implementations\n",
        "Every implementation that is shipped, with its parameters and their defaults. [Operators](operators.md)",
        "says when to use which; `semgraph operators list` prints this list with your own implementations.",
    ]
    library = Library()
    for operator in FOLDERS:
        lines += [f"\n## {operator}\n", "| implementation | answers | |", "|---|---|---|"]
        for each in library.list(operator):
            answers = (
                "the reference"
                if each.reference
                else "the reference's"
                if each.same
                else "may differ"
            )
            if operator not in OPERATORS:
                answers = ""
            code = f"[`{each.signature}`](../{each.file.relative_to(ROOT)})"
            lines.append(f"| {code} | {answers} | {each.doc.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def decisions() -> str:
    """The page that lists the decisions."""
    pages = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    titles = [page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for page in pages]
    links = [f"- [{title}]({page.name})" for title, page in zip(titles, pages, strict=True)]
    return "\n".join(["# Decisions\n", "Choices that the code does not explain.\n", *links]) + "\n"


# The pages generated from the code.
REFERENCE: dict[str, Callable[[], str]] = {
    "cli.md": cli,
    "decisions/README.md": decisions,
    "implementations.md": implementations,
}
