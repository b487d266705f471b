"""HTML from templates: the report of runs and comparisons (a self-contained file), and the HTML for
notebooks.

`data` makes a document from records, `page.html.j2` a page from the document. Everything is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semgraph.errors import PlanError
from semgraph.execution.record import Run, find_run
from semgraph.folders import plans_folder
from semgraph.privacy import RUNS, folders_in, redacted, write_private
from semgraph.render.html.data import clean, cut, document, script_data
from semgraph.render.html.graph import IN_NOTEBOOK, graphs
from semgraph.render.picture import Picture

if TYPE_CHECKING:
    from jinja2 import Environment

_ATTRIBUTE = 400  # characters


def save(refs: Sequence[str], to: Path, runs: Path = RUNS) -> Path:
    """Write the page of some records into a file. Returns the file.

    Args:
        refs: Runs and comparisons: ids, prefixes of ids, or `last`.
        to: The file.
        runs: The folder of records.

    Raises:
        PlanError: A record does not exist, or the file has no suffix of HTML.
        OSError: The file cannot be written.
    """
    records = list({run.folder: run for run in (find_run(ref, runs) for ref in refs)}.values())
    text = redacted(page(records))
    for folder in sorted(_folders(records), key=len, reverse=True):
        text = text.replace(folder, "")
    return write_page(to, text)


def write_page(to: Path, text: str) -> Path:
    """Write a page without secrets. Returns the file. Raises PlanError for a suffix that is not HTML's,
    OSError.
    """
    if to.suffix.lower() not in {".html", ".htm", ""}:
        raise PlanError(f"{to}: a report is a page of HTML", hint=f"write {to.stem}.html")
    write_private(to, redacted(text))
    return to


def _folders(records: Sequence[Run]) -> set[str]:
    """The folders of the author that the page would reveal, as HTML writes them."""
    from markupsafe import escape

    known = (Path.home(), Path.cwd(), plans_folder().parent)
    facts = [json.dumps(record.facts, ensure_ascii=False) for record in records]
    found = {f"{path}/" for path in known if path.name}.union(*map(folders_in, facts))
    return found | {str(escape(folder)) for folder in found}


def page(records: Sequence[Run]) -> str:
    """The page of some records."""
    return _page(document(records))


def graph_page(parts: Sequence[Picture], title: str) -> str:
    """The page of graphs that a store holds: a drawing of each partition. The title is that of a single
    one.
    """
    heads = [part.counts() for part in parts] if len(parts) == 1 else [""] * len(parts)
    sections = [
        {"anchor": each["number"], "kind": "graph", "heading": head or each["title"]}
        | {"graphs": [each | {"caption": ""}]}
        for head, each in zip(heads, graphs(parts, "graph"), strict=True)
    ]
    return _page(
        {"title": title, "alone": True, "calls": {"texts": [], "calls": []}}
        | {"articles": [{"title": title, "sections": sections}]}
    )


def graph_html(parts: Sequence[Picture], name: str) -> str:
    """The same as HTML for a notebook."""
    return rendered("notebook.html.j2", graphs=graphs(parts, name, IN_NOTEBOOK))


def _page(report: dict[str, Any]) -> str:
    from markupsafe import Markup

    script = _file("graph.js") + _file("page.js")
    return rendered(
        "page.html.j2",
        report=report,
        page_style=Markup(_file("page.css")),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        allowed=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def rendered(template: str, **data: Any) -> str:
    """Render a template of this folder. Everything is escaped."""
    return _environment().get_template(template).render(data)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup, escape

    templates = Environment(
        loader=PackageLoader("semgraph.render", "html"),
        autoescape=True,
        finalize=_short_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["attribute"] = lambda text: cut(str(text), _ATTRIBUTE)
    templates.filters["px"] = "{:.1f}".format
    templates.filters["json"] = lambda value: Markup(script_data(value))  # noqa: S704 - escaped there
    templates.filters["whole"] = lambda text: escape(clean(text))
    templates.globals["graph_script"] = Markup(_file("graph.js"))  # noqa: S704 - our own file
    for name in ("chart", "graph", "notebook", "outline"):
        templates.globals[f"{name}_style"] = Markup(_file(f"{name}.css"))  # noqa: S704 - our own files
    return templates


def _short_text(value: Any) -> Any:
    """A text of the page without characters that are invalid in HTML; a long one is shortened."""
    from markupsafe import Markup

    if value is None:
        return ""
    return clean(cut(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def _file(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
