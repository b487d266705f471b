"""Fixtures of all tests. Tests on Neo4j use the server that `NEO4J_URI` names, else a local one that
all test processes share.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from benchmarks.world.canaries import CANARIES
from semgraph import privacy
from semgraph.execution.executor import Executor

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile("repeatable")  # `--hypothesis-profile random` draws new cases


def pytest_configure() -> None:
    """Cases that repeat must not depend on what was imported before: Hypothesis draws one in twenty
    from the constants of all imported modules of the project.
    """
    if settings.get_current_profile_name() == "repeatable":
        providers._get_local_constants = Constants


KEPT = ("SEMGRAPH_HOME", "SEMGRAPH_OFFLINE", "SEMGRAPH_RENEW", "SEMGRAPH_SEGMENTS")
"""Variables that tests see: where models and servers are, whether they may be downloaded, whether
expected files are written anew, and what computes relational steps.
"""

NAMED = {name: value for name, value in os.environ.items() if name.startswith("NEO4J_")}
"""The Neo4j server that the environment names. No test sees these variables."""

NIGHTLY = bool(os.environ.get("NIGHTLY"))
"""Whether tests run that are marked `nightly`: `make nightly` sets the variable."""

ON_NEO4J = {line.strip() for line in """
    test_not_given_it_has_every_partition_of_the_nodes_once[neo4j]
    test_facts_with_odd_dates_are_all_stored[neo4j]
    test_a_cancelled_run_stops_though_the_model_hangs[neo4j-2]
    test_what_a_read_compares_is_brought_to_one_type[search of neo4j]
    test_a_writer_that_comes_between_two_windows_stops_the_run_and_loses_nothing[neo4j]
    test_a_search_in_a_loop_sees_the_rows_of_its_round_and_what_is_stored[neo4j-2]
    test_round_trips_are_those_that_the_store_made[neo4j]
    test_a_rejected_text_costs_the_rows_that_embed_or_search_it[neo4j-1-STORED]
    test_a_stored_vector_of_another_program_that_cannot_be_compared_is_no_hit[neo4j-NaN]
    test_conditions_that_the_store_does_not_take_are_decided_all_the_same[neo4j]
    test_a_key_of_another_group_costs_its_row_alone[neo4j-2]
    test_an_edge_without_its_end_costs_the_rows_that_need_it[neo4j]
    test_hits_bring_stored_vectors_and_those_of_a_step[neo4j]
    test_a_merge_of_existing_rows_counts_those_that_were_there[neo4j]
    test_a_relation_that_is_over_stays_with_its_end_on_both_stores[neo4j]
    test_answers_rest_on_turns_on_both_stores[neo4j-vectors]
    test_a_window_makes_at_most_six_round_trips_to_the_store[neo4j]
    test_it_takes_as_many_round_trips_however_many_entities_there_are[neo4j]
    test_clear_data_of_a_group_leaves_the_others[neo4j]
    test_nodes_of_others_are_not_found_by_their_keys[neo4j]
    test_nodes_by_uuid_and_by_group_page_by_page[neo4j]
    test_nodes_go_with_their_edges_and_edges_alone[neo4j]
    test_the_latest_episodes_oldest_first[neo4j]
    test_a_property_of_nodes_may_be_named_source[neo4j]
    test_a_document_that_is_saved_elsewhere_is_the_same_document[neo4j]
    test_texts_are_those_of_the_group_in_the_order_of_the_episodes[neo4j]
    test_the_gate_sees_the_end_of_a_fact_at_both_its_ends[neo4j]
    test_a_recording_gives_the_same_result_on_both_stores[neo4j]
    test_facts_go_that_no_other_episode_states_and_the_others_forget_it[neo4j]
    test_what_is_found_is_merged_and_a_merge_is_undone_exactly[neo4j]
    test_every_preset_finds_its_scopes_in_two_round_trips_each[neo4j]
    test_words_name_columns_in_every_place[neo4j]
    test_announced_facts_and_deadlines_behave_as_in_english[neo4j]
    test_two_things_of_one_name_and_two_types_are_told_apart[neo4j]
    test_what_a_stranger_s_plan_does_stays_in_the_group[the graph itself-neo4j]
""".splitlines()}  # fmt: skip
"""Scenarios of runs, plans and memories that run on Neo4j every time, the others nightly: that stores
agree is what `tests/stores` checks.
"""

READS_ALL = ("search", "search_edges", "search_nodes")
"""Plans that may show rows of several partitions in one prompt: a query names the groups that it
searches, or none for all.
"""


@dataclass(frozen=True)
class Server:
    """How to reach a Neo4j server."""

    uri: str
    user: str
    password: str


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collection leaves lives until the end: the garbage collector passes over it from then on,
    which saves a tenth of the suite's time. It also runs less often, which saves 5 % more.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(50_000, 10, 10)


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Modules without examples are not imported to look for doctests."""
    collectors = yield
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text(encoding="utf-8"):
        return [one for one in collectors if not isinstance(one, DoctestModule)]
    return collectors


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--dist loadgroup`, tests on the shared Neo4j run in one process, because each has the
    database for itself; and so do those of a file, which share fixtures and loaded plans. Those that
    wait for servers and timeouts begin first, so that none of them is what the end waits for.
    """
    for item in items:
        if _is_rare(item):
            item.add_marker(pytest.mark.nightly)
    if not NIGHTLY:
        rare = [item for item in items if item.get_closest_marker("nightly")]
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
        config.hook.pytest_deselected(items=rare)
    for item in items:
        on_neo4j = "neo4j" in item.nodeid and item.path.stem != "test_neo4j_local"
        item.add_marker(pytest.mark.xdist_group("neo4j" if on_neo4j else str(item.path)))
    items.sort(key=lambda item: "neo4j" not in item.nodeid and item.path.stem != "test_accounting")


def _is_rare(item: pytest.Item) -> bool:
    """Whether a test repeats on Neo4j what another case of it tests on another store."""
    given = getattr(item, "callspec", None)
    ids = given.id if given else ""
    of_runs = item.path.parent.name in {"execution", "plans", "memories"}
    return "neo4j" in ids and of_runs and item.name not in ON_NEO4J


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to run where the groups have no effect: tests on Neo4j would wait for each other in all
    processes.
    """
    grouped = getattr(session.config.option, "loadgroup", False)
    if grouped and session.items and "@" not in session.items[0].nodeid:
        pytest.exit(
            "pytest-xdist forms no groups with this pytest: install what constraints.txt names"
        )


@pytest.fixture(scope="session", autouse=True)
def partitions_on_the_wire() -> Iterator[None]:
    """Every run of a plan tells the servers of this process which texts belong to which partition:
    see `CANARIES`.
    """
    run = Executor.run

    async def told(self: Executor, inputs: Mapping[str, Any]) -> Any:
        plan = self.plan.logical
        if plan.name in READS_ALL:
            with CANARIES.paused():
                return await run(self, inputs)
        partition = plan.windows.partition if plan.windows else plan.graph.partition
        for table in inputs.values():
            if partition in table.column_names:
                CANARIES.learn(table.slice(0, 500).to_pylist(), partition)
        return await run(self, inputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Executor, "run", told)
        yield


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of this machine's settings gets in."""
    for name in list(os.environ):
        if name.startswith(("SEMGRAPH_", "OPENAI_", "NEO4J_")) and name not in KEPT:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def knowledge_of_one_test() -> Iterator[None]:
    """Texts of partitions and secrets of a test are forgotten with it."""
    yield
    CANARIES.forget()
    privacy._known.clear()


@pytest.fixture(scope="session")
def neo4j_folder() -> Path:
    """Where the shared server of this checkout lives, and the locks of those who use it, or the
    server that is named.
    """
    which = str(Path(__file__).resolve().parents[1]) + NAMED.get("NEO4J_URI", "")
    checkout = hashlib.sha256(which.encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"semgraph-tests-{checkout}"
    (folder / "users").mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def neo4j_server(neo4j_folder: Path) -> Iterator[Server]:
    """A server that answers; the last test process that uses it stops it, or empties it if it is
    not ours to stop.
    """
    if uri := NAMED.get("NEO4J_URI"):
        user = NAMED.get("NEO4J_USERNAME") or NAMED.get("NEO4J_USER") or "neo4j"
        named = Server(uri, user, NAMED.get("NEO4J_PASSWORD", ""))
        with _among_users(
            neo4j_folder, first=lambda: _refuse_data(named), last=lambda: _empty(named)
        ):
            yield named
        return
    with _local_server(neo4j_folder) as server:
        yield server


@contextmanager
def _local_server(folder: Path) -> Iterator[Server]:
    """The server of a folder; the last test process that uses it stops it."""
    from semgraph.stores.neo4j.local.server import start, stop

    home = folder / "server"
    users = _among_users(folder, first=lambda: _settle(home), last=lambda: stop(home))
    with users, pytest.MonkeyPatch.context() as patch:
        # One compiler, the quick one: statements are many and run a few times each.
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
        found = start(home)
        patch.undo()
        yield Server(found.uri, found.user, found.password)


@contextmanager
def _among_users(
    folder: Path, last: Callable[[], object], first: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Be counted as a test process that uses the server; do something as the first, and something
    as the last of them.
    """
    from filelock import FileLock

    counted, users = FileLock(folder / "users.lock"), folder / "users"
    mine = users / str(os.getpid())
    using = FileLock(mine)
    with counted:
        if not sum(_in_use(other) for other in users.iterdir()):
            first()
        using.acquire()
    try:
        yield
    finally:
        with counted:
            using.release()
            mine.unlink(missing_ok=True)
            if not sum(_in_use(other) for other in users.iterdir()):
                last()


def _settle(home: Path) -> None:
    """Statements are planned once: for each test the database is another one, which would have all
    planned again.
    """
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "settings.conf").write_text("dbms.cypher.min_replan_interval=1d\n", encoding="utf-8")


def _refuse_data(server: Server) -> None:
    """The tests empty the database: one with somebody's data in it is not for them."""
    [[nodes]] = _cypher(server, "MATCH (n) RETURN count(n)")
    if nodes:
        pytest.exit(
            f"NEO4J_URI names {server.uri}, whose database holds {nodes:,} nodes. These tests would delete them and drop its "
            "indexes: name an empty server, or unset NEO4J_URI and a local one is started"
        )


def _empty(server: Server) -> None:
    _cypher(server, "MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 1000 ROWS")


def _cypher(server: Server, text: str) -> list[list[Any]]:
    with driver_of(server).session() as session:
        return [record.values() for record in session.run(text)]


@cache
def driver_of(server: Server) -> Any:
    """A driver for all tests of this process; closed at its end."""
    import neo4j

    driver = neo4j.GraphDatabase.driver(server.uri, auth=(server.user, server.password))
    atexit.register(driver.close)
    return driver


def _in_use(lock: Path) -> bool:
    """Whether the process that made this file still runs; the files of others are removed."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(lock, timeout=0):
            pass
    except Timeout:
        return True
    lock.unlink(missing_ok=True)
    return False


@pytest.fixture
def neo4j_database(neo4j_server: Server, neo4j_folder: Path) -> Iterator[Server]:
    """The server with an empty database, for this test alone: test processes take turns. Indexes
    stay.
    """
    from filelock import FileLock

    with FileLock(neo4j_folder / "database.lock"):
        _empty(neo4j_server)
        yield neo4j_server


def without_schema(driver: Any) -> None:
    """Drop all constraints and indexes of a database, in one transaction: each on its own waits for
    the disk.
    """
    indexes = "SHOW INDEXES YIELD name, type WHERE type <> 'LOOKUP' RETURN name"
    drops = [
        f"DROP {kind} `{record['name']}` IF EXISTS"
        for kind, names in [("CONSTRAINT", "SHOW CONSTRAINTS YIELD name"), ("INDEX", indexes)]
        for record in driver.execute_query(names).records
    ]

    def drop(transaction: Any) -> None:
        for text in drops:
            transaction.run(text).consume()

    with driver.session() as session:
        session.execute_write(drop)
