"""One HTML file of runs and comparisons: it needs no network, no server and no other file.
Everything in it is escaped.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from string import Template

from semgraph.compare.record import load_comparison
from semgraph.execution.record import RUNS, Run, exchanges, find_run
from semgraph.formats import UNKNOWN, count, dollars, duration
from semgraph.private import write_private
from semgraph.redaction import redacted
from semgraph.render.html import comparison as of_comparison
from semgraph.render.html import run as of_run
from semgraph.render.html.calls import Opened
from semgraph.render.html.markup import Html, data, el, join, table
from semgraph.render.html.records import RunPage, is_comparison
from semgraph.render.runs import seconds, total

Section = tuple[str, str, Html]


def save(refs: Sequence[str], to: Path, runs: Path = RUNS) -> Path:
    """Write the page of some records into a file. Returns the file.

    Args:
        refs: Runs and comparisons: ids, the beginnings of ids, or `last`.
        to: The file.
        runs: Where records are kept.

    Raises:
        PlanError: There is no such record.
        OSError: The file cannot be written.
    """
    text = page(list({run.folder: run for run in (find_run(ref, runs) for ref in refs)}.values()))
    write_private(to, redacted(text))
    return to


def page(records: Sequence[Run]) -> str:
    """The page of some records."""
    opened = Opened()
    told = [_record(record, f"r{i}", opened) for i, record in enumerate(records)]
    heading = told[0][0] if len(told) == 1 else f"{len(told)} records of semgraph"
    body = join(
        [
            *_overview(records, told),
            *(_article(title, sections, alone=len(told) == 1) for title, sections in told),
        ]
    )
    if gone := opened.texts.left_out:
        said = f"{count(gone)} texts are not in this page, for want of room: semgraph why RUN WHAT --messages"
        body = join([body, el("p", said, cls="notes")])
    style, script = (_file(name) for name in ("page.css", "page.js"))
    return Template(_file("page.html")).substitute(
        title=el("title", heading), heading=el("h1", heading), contents=_contents(told), body=body, style=style, script=script,
        data=data(opened.data), allowed=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )  # fmt: skip


def _file(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def _record(record: Run, anchor: str, opened: Opened) -> tuple[str, list[Section]]:
    with ExitStack() as closing:
        if is_comparison(record.folder):
            found = load_comparison(record.name, record.folder.parent)
            lookup = closing.enter_context(exchanges(Run(record.folder), found.journal))
            return of_comparison.title(found), list(
                of_comparison.sections(found, record, lookup, opened, anchor)
            )
        told = RunPage(record, closing.enter_context(exchanges(record)))
        return of_run.title(told), list(of_run.sections(told, opened, anchor))


def _contents(told: Sequence[tuple[str, list[Section]]]) -> Html:
    """Links to the parts of the only record, or to the beginnings of several."""
    _, sections = told[0]
    links = [(anchor, heading) for anchor, heading, _ in sections]
    if len(told) > 1:
        links = [(first[0][0], title) for title, first in told]
    return el("ul", *(el("li", el("a", heading, href=f"#{anchor}")) for anchor, heading in links))


def _article(title: str, sections: list[Section], *, alone: bool) -> Html:
    level = "h2" if alone else "h3"
    parts = [
        el("section", el(level, heading, id=anchor), content, aria_labelledby=anchor)
        for anchor, heading, content in sections
    ]
    return join(parts) if alone else el("article", el("h2", title), *parts)


def _overview(records: Sequence[Run], told: Sequence[tuple[str, list[Section]]]) -> Iterator[Html]:
    """The runs beside each other, where there are several records."""
    if len(records) < 2:
        return
    rows = []
    for record, (title, sections) in zip(records, told, strict=True):
        link = el("a", title, href=f"#{sections[0][0]}")
        whole, lasted = total(record), seconds(record)
        rows.append([
            link, str(record.facts.get("status", "unknown")), count(whole.calls_issued), count(whole.tokens_in),
            count(whole.tokens_out), dollars(whole.dollars), UNKNOWN if lasted is None else duration(lasted),
        ])  # fmt: skip
    heads = ["record", "ended", "calls issued", "tokens in", "tokens out", "$", "wall time"]
    yield el(
        "section",
        el("h2", "Side by side", id="overview"),
        table("The records of this page, and what was paid for each", heads, rows, range(2, 7)),
        aria_labelledby="overview",
    )
