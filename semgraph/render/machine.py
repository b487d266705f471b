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
    columns = [
        Column("name", [m.name for m in CATALOGUE]),
        Column("kind", [m.kind for m in CATALOGUE]),
        Column("here", ["yes" if on_disk(m) else "no" for m in CATALOGUE]),
        Column("size", [size(m.size) for m in CATALOGUE], right=True),
        Column("licence", [m.licence for m in CATALOGUE]),
        Column("network", [m.parameters for m in CATALOGUE]),
        Column("languages", [" ".join(m.languages) for m in CATALOGUE]),
        Column("about", [m.about for m in CATALOGUE]),
    ]
    return lines(columns, width, indent=0)


def described_server(server: LocalServer) -> dict[str, Any]:
    """A Neo4j server, as `--format json` prints it."""
    return {
        "running": server.running,
        "uri": server.uri,
        "user": server.user,
        "password_file": str(server.folder / "password"),
        "version": server.version,
        "pid": server.pid,
    }


def server_line(server: LocalServer, state: str) -> str:
    """A Neo4j server on one line."""
    if not server.running:
        return state
    return f"{server.uri} · user {server.user} · password in {server.folder / 'password'} · {state}"
