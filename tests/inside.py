"""What tests look at inside objects, where no public face shows it: which statements SQLite runs,
which vectors a store holds in memory, what a process remembers of expressions.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import semgraph
from semgraph import pandas
from semgraph.expr import scalar
from semgraph.frontend import prompt_files
from semgraph.llm.batch import Batched
from semgraph.llm.journal import Journal
from semgraph.llm.openai import OpenAI
from semgraph.session.resources import Resources
from semgraph.stores.neo4j.bolt import Bolt
from semgraph.stores.neo4j.store import Neo4jStore
from semgraph.stores.sqlite.store import SqliteStore


def resources(session: semgraph.Session) -> Resources:
    """The connections of a session."""
    return session._resources


def connection(store: SqliteStore) -> sqlite3.Connection:
    """The connection by which a store writes."""
    return store._file._con


def database(journal: Journal) -> sqlite3.Connection:
    """The connection of a journal."""
    return journal._database


def memory(store: SqliteStore) -> Any:
    """The vectors and words that a store holds, each a cache with a limit in bytes."""
    return store._caches


def blocks_of(cache: Any) -> Mapping[Any, Any]:
    """The blocks of a cache."""
    return cache._held


def bolt(store: Neo4jStore) -> Bolt:
    """The connection of a store to its server."""
    return store._bolt


def forget_expressions() -> None:
    """As in a fresh process."""
    scalar._scalars.clear()
    prompt_files._prompts.clear()


def session_of_frames(session: semgraph.Session | None) -> semgraph.Session | None:
    """Replace the session of data frames, also by none; the one before."""
    before, pandas._session = pandas._session, session
    return before


def endpoint(model: Batched) -> OpenAI:
    """The model that a batch asks."""
    return model._model


def waits_for_room(model: Batched) -> bool:
    """Whether a batch waits for room at the endpoint."""
    return bool(model._full)
