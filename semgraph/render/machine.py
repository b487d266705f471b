"""The state of a machine: facts of a diagnosis, models, a Neo4j server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from semgraph.formats import size
from semgraph.llm.catalogue import CATALOGUE, on_disk
from semgraph.render.tables import Column, hanging, lines

if TYPE_CHECKING:
    from semgraph.stores.neo4j.local.server import LocalServer

_INDENT = 14


@dataclass(frozen=True)
class Fact:
    """A fact of a diagnosis.

    Args:
        sign: `GOOD`, `NOTE` (worth knowing) or `BAD` (broken).
        about: Its subject.
        what: The fact.
        remedy: The next step; "" if none is needed.
    """

    sign: str
    about: str
    what: str
    remedy: str = ""


def fact_lines(fact: Fact, width: int) -> Iterator[str]:
    """A fact as text, on as many lines as needed."""
    text = f"{fact.sign} {fact.about:<11} {fact.what}"
    whole = f"{text}. {fact.remedy}" if fact.remedy else text
    below = [" " * _INDENT + fact.remedy] if fact.remedy else []
    for part in [whole] if len(whole) <= width else [text, *below]:
        yield from hanging(part, width, _INDENT, whole_words=True)


def described_models() -> list[dict[str, Any]]:
    """The models of the catalogue, as `--format json` prints them."""
    return [
        {
            "name": m.name, "kind": m.kind, "bytes": m.size, "licence": m.licence, "parameters": m.parameters,
            "languages": m.languages, "context": m.context, "about": m.about, "here": on_disk(m),
        }
        for m in CATALOGUE
    ]  # fmt: skip


def model_lines(width: int) -> Iterator[str]:
    """The models of the catalogue as a table."""
    heads = ("name", "kind", "here", "size", "licence", "network", "languages", "about")
    rows = (
        (m.name, m.kind, "yes" if on_disk(m) else "no", size(m.size), m.licence, m.parameters,
         " ".join(m.languages), m.about)
        for m in CATALOGUE
    )  # fmt: skip
    cells = zip(heads, zip(*rows, strict=True), strict=True)
    return lines([Column(head, own, head == "size") for head, own in cells], width, indent=0)


def described_server(server: LocalServer) -> dict[str, Any]:
    """A Neo4j server, as `--format json` prints it."""
    own = {n: getattr(server, n) for n in ("running", "uri", "user", "version", "pid")}
    return {**own, "password_file": str(server.folder / "password")}


def server_line(server: LocalServer, state: str) -> str:
    """A Neo4j server on one line."""
    if not server.running:
        return state
    return f"{server.uri} · user {server.user} · password in {server.folder / 'password'} · {state}"
