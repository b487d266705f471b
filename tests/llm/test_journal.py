"""What the journal keeps, for whom, for how long, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semgraph.errors import RowError, SemgraphError
from semgraph.llm.base import Message, Reply, Request, Usage
from semgraph.llm.journal import Journal, Journalled, OwnText
from tests.inside import database
from tests.llm.server import ModelServer, error
from tests.patience import HANGS

REPLY = Reply('{"keep": true}', Usage(100, 40, 7), "issued", 1.5, "call-1", "m-2025", 2, 0.25)


async def test_a_recorded_answer_is_not_requested_again(
    server: ModelServer, endpoint, journal: Journal, ask
):
    model = Journalled(endpoint, journal)
    first = await model.complete(ask())
    again = await model.complete(ask(step="other"))
    assert len(server.requests) == 1
    assert (first.origin, again.origin) == ("issued", "journal")
    assert (again.attempts, again.call_id, again.text) == (0, first.call_id, first.text)
    assert (again.usage, again.seconds, again.dollars) == (
        first.usage,
        first.seconds,
        first.dollars,
    )


@pytest.mark.parametrize(
    "other",
    [
        {"text": "other"},
        {"trial": 1},
        {"sample": 1},
        {"max_tokens": 1},
        {"params": (("temperature", 1),)},
    ],
)
async def test_everything_that_changes_the_answer_changes_the_fingerprint(
    server, endpoint, journal, ask, other: dict
):
    model = Journalled(endpoint, journal)
    await model.complete(ask())
    assert (await model.complete(ask(**other))).origin == "issued"


async def test_models_and_scopes_do_not_share_answers(journal: Journal, ask):
    await journal.record(ask(), REPLY, "openai:a", "arm 1")
    assert await journal.find(ask(), "openai:b", "arm 1") is None
    assert await journal.find(ask(), "openai:a", "arm 2") is None
    assert await journal.find(ask(), "openai:a", "arm 1") is not None


async def test_fresh_ignores_the_journal_and_records_the_new_answer(
    server, endpoint, journal: Journal, ask
):
    old = await Journalled(endpoint, journal).complete(ask())
    new = await Journalled(endpoint, journal, fresh=True).complete(ask())
    assert (new.origin, len(server.requests)) == ("issued", 2)
    assert (await Journalled(endpoint, journal).complete(ask())).call_id == new.call_id
    # `why` of the first run still finds what was said then.
    assert journal.exchange(old.call_id).reply == old


async def test_an_unusable_answer_is_not_served_again_but_stays_readable(
    server, endpoint, journal: Journal, ask
):
    model = Journalled(endpoint, journal)
    old = await model.complete(ask())
    journal.withdraw([old.call_id])
    await asyncio.sleep(0)
    assert (await model.complete(ask())).origin == "issued"
    assert len(server.requests) == 2
    assert journal.exchange(old.call_id).reply == old


async def test_errors_are_not_kept(server: ModelServer, endpoint, journal: Journal, ask):
    async def answer(body: dict):
        return error(400, "no") if len(server.requests) == 1 else "{}"

    server.answer = answer
    model = Journalled(endpoint, journal)
    with pytest.raises(RowError):
        await model.complete(ask())
    assert (await model.complete(ask())).origin == "issued"


@pytest.mark.parametrize(
    "more", [{}, {"sample": 2}, {"words": ("yes", "no")}, {"sample": 3, "words": ("yes", "no")}]
)
async def test_an_exchange_is_read_back_as_it_was(journal: Journal, more: dict[str, Any]):
    messages = (
        Message("system", "rules"),
        Message("system", "more rules"),
        Message("user", "hi"),
        Message("assistant", "[]"),
        Message("user", "not an object; broken \ud83d emoji"),
    )
    request = Request(
        "small",
        messages,
        '{"type":"object"}',
        77,
        (("seed", 1), ("temperature", 0)),
        3,
        "g1",
        "facts",
        **more,
    )
    before = time.time()
    await journal.record(request, REPLY, "openai:m", "arm 1")
    exchange = journal.exchange("call-1")
    assert exchange.request == request
    assert (exchange.request.partition, exchange.request.step) == ("g1", "facts")
    assert exchange.reply == REPLY
    assert (exchange.model, exchange.scope) == ("openai:m", "arm 1")
    assert before <= exchange.created <= time.time()
    assert journal.exchange("call-2") is None


async def test_answers_of_one_turn_are_one_transaction(tmp_path: Path, ask):
    journal = Journal(tmp_path / "j.db")
    commits: list[str] = []
    database(journal).set_trace_callback(
        lambda sql: commits.append(sql) if sql.startswith("COMMIT") else None
    )
    replies = [Reply("{}", call_id=str(i)) for i in range(64)]
    await asyncio.gather(*(journal.record(ask(reply.call_id), reply, "m") for reply in replies))
    assert len(commits) == 1
    journal.close()


async def test_rules_and_schemas_are_stored_once(journal: Journal, ask):
    rules = "A" * 50_000
    for i in range(100):
        messages = (Message("system", rules), Message("user", str(i)))
        await journal.record(Request("default", messages, "{}"), Reply("{}", call_id=str(i)), "m")
    journal.close()
    assert journal.path.stat().st_size < 500_000


async def test_an_answer_of_a_cancelled_caller_is_recorded(journal: Journal, ask):
    writing = asyncio.create_task(journal.record(ask(), REPLY, "m"))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    await asyncio.sleep(0)
    assert (await journal.find(ask(), "m")).call_id == "call-1"


async def test_closing_writes_pending_answers(tmp_path: Path, ask):
    journal = Journal(tmp_path / "j.db")
    writing = asyncio.create_task(journal.record(ask(), REPLY, "m"))
    await asyncio.sleep(0)
    journal.close()
    await writing
    journal.close()
    again = Journal(tmp_path / "j.db")
    assert await again.find(ask(), "m")
    again.close()


class TestForgetting:
    """The journal holds text of the user's."""

    async def test_forgetting_a_partition_deletes_all_its_text(self, journal: Journal):
        for i, partition in enumerate(["g1", "g2", ""]):
            messages = (Message("system", f"rules with secret{i}"), Message("user", f"secret{i}"))
            request = Request("default", messages, "{}", partition=partition)
            await journal.record(request, Reply(f"secret{i}", call_id=str(i)), "m")
            await journal.record_vectors(
                {OwnText(partition, f"secret{i}"): np.ones(4, np.float32)}, "e"
            )
        assert sum(await journal.prune(None, ["g1", "", "unknown"])) == 4
        assert [journal.exchange(str(i)) is None for i in range(3)] == [True, False, True]
        texts = [OwnText(partition, f"secret{i}") for i, partition in enumerate(["g1", "g2", ""])]
        assert list(await journal.find_vectors(texts, "e")) == texts[1:2]
        content = b"".join(path.read_bytes() for path in journal.path.parent.glob("journal.db*"))
        assert b"secret1" in content
        assert b"secret0" not in content
        assert b"secret2" not in content

    async def test_pending_answers_are_forgotten_too(self, journal: Journal, ask):
        writing = asyncio.create_task(journal.record(ask(partition="g1"), REPLY, "m"))
        await asyncio.sleep(0)
        assert sum(await journal.prune(None, ["g1"])) == 1
        await writing
        assert await journal.find(ask(partition="g1"), "m") is None

    async def test_rows_are_deleted_after_keep_days(self, tmp_path: Path, ask):
        path = tmp_path / "j.db"
        journal = Journal(path)
        await journal.record(ask("old"), Reply("{}", call_id="old"), "m")
        await journal.record(ask("new"), Reply("{}", call_id="new"), "m")
        journal.close()
        with sqlite3.connect(path) as database:
            database.execute(
                "UPDATE answers SET created = created - 31 * 86400 WHERE call_id = 'old'"
            )
        database.close()
        for keep_days, left in (
            (None, {"old", "new"}),
            (32, {"old", "new"}),
            (30, {"new"}),
            (0, set()),
        ):
            journal = Journal(path, keep_days)
            assert {name for name in ("old", "new") if journal.exchange(name)} == left
            journal.close()

    async def test_without_keep_days_answers_are_kept_for_ever(self, tmp_path: Path, ask):
        path = tmp_path / "j.db"
        journal = Journal(path)
        await journal.record(ask(), REPLY, "m")
        journal.close()
        with sqlite3.connect(path) as database:
            database.execute("UPDATE answers SET created = 0")
        database.close()
        journal = Journal(path)
        assert journal.exchange("call-1")
        assert journal.notes == []
        journal.close()
        journal = Journal(path, 30)
        assert journal.notes == [
            "1 answer and 0 vectors of the journal deleted, older than keep_days = 30"
        ]
        journal.close()

    async def test_pruning_deletes_old_answers_and_vectors_of_the_groups_that_are_named(
        self, journal: Journal, ask
    ):
        for group in ("g", "h"):
            for age in ("old", "new"):
                reply = Reply("{}", call_id=f"{group} {age}")
                await journal.record(ask(age, partition=group), reply, "m")
                await journal.record_vectors({OwnText(group, age): np.ones(4, np.float32)}, "e")
        database(journal).execute("UPDATE answers SET created = 1 WHERE call_id LIKE '% old'")
        database(journal).execute("UPDATE vectors SET created = 1 WHERE rowid % 2 = 1")
        assert await journal.prune(2, ["g"]) == (1, 1)
        assert await journal.prune(2) == (1, 1)
        assert await journal.prune(2) == (0, 0)
        names = ("g old", "g new", "h old", "h new")
        assert [journal.exchange(name) is not None for name in names] == [False, True] * 2

    def test_only_its_owner_can_read_it(self, journal: Journal):
        assert [
            oct(path.stat().st_mode)[-3:] for path in journal.path.parent.glob("journal.db*")
        ] == ["600"] * 3


class TestVectors:
    async def test_vectors_are_kept_by_model_and_text(self, journal: Journal):
        vectors = {
            OwnText("g", f"text {i} \ud83d"): np.arange(i, i + 5, dtype=np.float32)
            for i in range(1200)
        }
        await journal.record_vectors(vectors, "e1")
        found = await journal.find_vectors([*vectors, OwnText("g", "unknown")], "e1")
        assert found.keys() == vectors.keys()
        assert all(np.array_equal(found[text], vector) for text, vector in vectors.items())
        assert all(vector.dtype == np.float32 for vector in found.values())
        assert await journal.find_vectors(list(vectors), "e2") == {}

    async def test_a_new_vector_takes_the_place_of_the_old(self, journal: Journal):
        for value in (1, 2):
            await journal.record_vectors({OwnText("", "t"): np.full(3, value, np.float32)}, "e")
        assert (await journal.find_vectors([OwnText("", "t")], "e"))[OwnText("", "t")].tolist() == [
            2,
            2,
            2,
        ]

    async def test_vectors_of_equal_texts_are_kept_for_each_partition(self, journal: Journal):
        await journal.record_vectors({OwnText("g", "t"): np.ones(3, np.float32)}, "e")
        assert await journal.find_vectors([OwnText("h", "t"), OwnText("", "t")], "e") == {}
        await journal.record_vectors({OwnText("h", "t"): np.zeros(3, np.float32)}, "e")
        assert sum(await journal.prune(None, ["g"])) == 1
        assert list(await journal.find_vectors([OwnText(of, "t") for of in "gh"], "e")) == [
            OwnText("h", "t")
        ]


class TestPartitions:
    """What one partition asked is never served to another."""

    async def test_an_answer_is_served_only_to_the_partition_that_asked(
        self, server: ModelServer, endpoint, journal: Journal, ask
    ):
        model = Journalled(endpoint, journal)
        origins = [
            (await model.complete(ask(partition=group))).origin
            for group in ("g", "h", "", "g", "h", "")
        ]
        assert origins == ["issued"] * 3 + ["journal"] * 3
        assert len(server.requests) == 3
        assert sum(await journal.prune(None, ["h"])) == 1
        assert [
            await journal.find(ask(partition=group), model.name) is None for group in ("g", "h", "")
        ] == [
            False,
            True,
            False,
        ]


def test_a_journal_of_0_1_0_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    Journal(path, None).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 1")
    database.close()
    with pytest.raises(
        SemgraphError, match=r"a journal of another version of semgraph \(1; this one writes 2\)"
    ):
        Journal(path, None)


def run(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Another process, in which this code runs with what is needed to write a journal."""
    prelude = """
        import asyncio, sys
        from semgraph.llm.base import Message, Reply, Request
        from semgraph.llm.journal import Journal
        def ask(text): return Request("default", (Message("user", text),), "{}")
        def answer(i): return Reply("{}", call_id=f"{name}-{i}")
        path, name = sys.argv[1:]
        journal = Journal(path)
    """
    code = textwrap.dedent(prelude) + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True
    )


class TestOtherProcesses:
    async def test_answers_that_were_returned_survive_a_kill(self, tmp_path: Path):
        path = tmp_path / "j.db"
        process = run(
            """
            async def main():
                for i in range(1_000_000):
                    await journal.record(ask(str(i)), answer(i), "m")
                    print(i, flush=True)
            asyncio.run(main())
            """,
            str(path),
            "a",
        )
        assert process.stdout is not None
        for _ in range(200):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        returned = [*range(200), *(int(line) for line in process.stdout if line.endswith("\n"))]
        process.wait()
        process.stdout.close()
        journal = Journal(path)
        assert all(journal.exchange(f"a-{i}") for i in returned)
        journal.close()

    async def test_two_processes_write_one_journal_at_one_time(self, tmp_path: Path):
        path = tmp_path / "j.db"
        code = """
            async def main():
                for i in range(300):
                    await journal.record(ask(f"{name} {i}"), answer(i), "m")
            asyncio.run(main())
            journal.close()
        """
        processes = [run(code, str(path), name) for name in ("a", "b")]
        for process in processes:
            assert process.wait() == 0
            assert process.stdout is not None
            process.stdout.close()
        journal = Journal(path)
        assert all(journal.exchange(f"{name}-{i}") for name in ("a", "b") for i in range(300))
        journal.close()

    async def test_a_writer_waits_for_a_lock_and_the_loop_goes_on(self, journal: Journal, ask):
        other = sqlite3.connect(journal.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(journal.record(ask(), REPLY, "m"))
        for _ in range(20):  # the loop turns while the file is locked
            await asyncio.sleep(0.01)
        assert not writing.done()
        assert await journal.find(ask(), "m") is None  # readers are not barred
        other.execute("COMMIT")
        other.close()
        await writing
        assert await journal.find(ask(), "m")

    @pytest.mark.parametrize(
        "action",
        [
            lambda journal: journal.submit("token", "m", ["00"]),
            lambda journal: journal.submitted("token", "batch"),
            lambda journal: journal.open_batches(),
            lambda journal: journal.prune(None, ["g"]),
        ],
        ids=["submit", "submitted", "open_batches", "prune"],
    )
    async def test_no_other_task_waits_for_the_lock_of_another_process(
        self, journal: Journal, action
    ):
        """The other task gives the lock back: it would never run in a loop that stands still."""
        other = sqlite3.connect(journal.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(action(journal))
        await asyncio.sleep(0)
        assert not waiting.done()
        other.execute("COMMIT")
        other.close()
        await waiting

    def test_the_next_event_loop_writes_pending_answers(self, tmp_path: Path, ask):
        journal = Journal(tmp_path / "j.db")
        other = sqlite3.connect(journal.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        async def give_up() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await journal.record(ask("left"), REPLY, "m")

        asyncio.run(give_up())
        other.close()
        asyncio.run(
            asyncio.wait_for(journal.record(ask("next"), Reply("{}", call_id="next"), "m"), HANGS)
        )
        assert journal.exchange("call-1")
        assert journal.exchange("next")
        journal.close()

    async def test_a_lock_that_is_never_released_is_reported(
        self, journal: Journal, ask, monkeypatch
    ):
        monkeypatch.setattr("semgraph.llm.journal._LOCK_SECONDS", 0.1)
        other = sqlite3.connect(journal.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SemgraphError, match="another process keeps the journal locked"):
            await journal.record(ask(), REPLY, "m")
        other.close()
        await journal.record(ask("next"), Reply("{}", call_id="next"), "m")
        assert journal.exchange("call-1")
        assert journal.exchange("next")


class TestWhenItCannotWrite:
    async def test_a_record_that_cannot_be_written_costs_only_itself(self, tmp_path: Path, ask):
        journal = Journal(tmp_path / "j.db")
        bad = Reply(object(), call_id="bad")  # type: ignore[arg-type]
        replies = [Reply("{}", call_id="one"), bad, Reply("{}", call_id="two")]
        with pytest.raises(AttributeError):
            await journal.record(ask(), bad, "m")
        journal._commits.add([("INSERT INTO texts (hash, text) VALUES (x'00', ?)", (None,))])
        first, second = (journal.record(ask(r.call_id), r, "m") for r in replies[::2])
        refused = journal._commits.add([("INSERT INTO texts (hash) VALUES (?)", (object(),))])
        await asyncio.gather(first, second)
        with pytest.raises(SemgraphError, match="the journal cannot record"):
            await refused
        await journal.record(ask("later"), Reply("{}", call_id="later"), "m")
        assert all(journal.exchange(name) for name in ("one", "two", "later"))
        journal.close()

    async def test_equal_and_missing_ids_get_others(self, journal: Journal, ask):
        given = [Reply(f"{n}", call_id=call) for n, call in enumerate(["", "", "a", "a", "b"])]
        kept = await asyncio.gather(
            *(journal.record(ask(reply.text), reply, "m") for reply in given)
        )
        assert len({reply.call_id for reply in kept}) == 5
        assert (kept[2].call_id, kept[4].call_id) == ("a", "b")
        for reply in kept:
            assert journal.exchange(reply.call_id).reply.text == reply.text
            assert (await journal.find(ask(reply.text), "m")).call_id == reply.call_id

    async def test_a_full_disk_stops_the_run_and_loses_nothing(self, journal: Journal, ask):
        await journal.record(ask("before"), Reply("{}", call_id="before"), "m")
        pages = database(journal).execute("PRAGMA page_count").fetchone()[0]
        database(journal).execute(f"PRAGMA max_page_count = {pages}")
        large = [Reply("x" * 100_000, call_id=f"large {i}") for i in range(3)]
        writing = (journal.record(ask(reply.call_id), reply, "m") for reply in large)
        errors = await asyncio.gather(*writing, return_exceptions=True)
        assert all(isinstance(e, SemgraphError) for e in errors)
        assert str(errors[0]) == (
            f"{journal.path}: the disk is full, so answers cannot be recorded. Free some space, then run again: "
            "earlier answers are kept"
        )
        assert journal.exchange("before")
        # With room again, what was paid for meanwhile is written with the next answer.
        database(journal).execute("PRAGMA max_page_count = 1000000")
        await journal.record(ask("after"), Reply("{}", call_id="after"), "m")
        assert all(
            journal.exchange(name) for name in ("before", "large 0", "large 1", "large 2", "after")
        )

    def test_a_real_write_error_stops_the_run_and_loses_nothing(self, tmp_path: Path):
        """The limit on the size of files is the process's, so it is another process that meets
        it.
        """
        path = tmp_path / "j.db"
        process = run(
            """
            import resource
            from semgraph.errors import SemgraphError
            async def main():
                await journal.record(ask("before"), answer(0), "m")
                resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
                try:
                    for i in range(1, 1000):
                        await journal.record(ask("x" * 5000 + str(i)), answer(i), "m")
                except SemgraphError as error:
                    print(i, error)
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                journal.close()
            asyncio.run(main())
            """,
            str(path),
            "a",
        )
        output, _ = process.communicate()
        assert process.returncode == 0
        count, message = output.split(" ", 1)
        assert f"{path}: " in message
        assert "Free some space, then run again: earlier answers are kept" in message
        journal = Journal(path)
        assert all(journal.exchange(f"a-{i}") for i in range(int(count) + 1))
        journal.close()

    def test_a_damaged_file_is_reported_and_not_changed(self, tmp_path: Path):
        path = tmp_path / "j.db"
        path.write_bytes(b"this is not a database, but somebody's novel. " * 100)
        with pytest.raises(
            SemgraphError, match=r"j\.db is damaged or not a journal .* Move it away"
        ) as caught:
            Journal(path)
        assert "its answers are paid for again" in str(caught.value)
        assert path.read_bytes().startswith(b"this is not a database")

    async def test_damage_inside_the_file_is_told(self, tmp_path: Path, ask):
        path = tmp_path / "j.db"
        journal = Journal(path)
        for i in range(200):
            await journal.record(ask(str(i)), Reply("x" * 2000, call_id=str(i)), "m")
        journal.close()
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(8192)
            file.write(b"\xff" * (size - 8192))
        with pytest.raises(SemgraphError, match="damaged"):  # noqa: PT012  # opening may find it, or reading
            journal = Journal(path)
            try:
                await journal.find(ask("7"), "m")
            finally:
                journal.close()

    def test_another_sqlite_file_is_reported_and_not_changed(self, tmp_path: Path):
        path = tmp_path / "graph.db"
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE things (id)")
        database.close()
        before = path.read_bytes()
        with pytest.raises(
            SemgraphError,
            match="is an SQLite file, but not a semgraph journal; it was not changed",
        ):
            Journal(path)
        assert path.read_bytes() == before

    def test_a_journal_of_a_later_version_is_reported(self, tmp_path: Path):
        path = tmp_path / "j.db"
        Journal(path).close()
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA user_version = 99")
        database.close()
        with pytest.raises(
            SemgraphError, match=r"journal of another version of semgraph \(99; this one writes 2\)"
        ):
            Journal(path)

    def test_a_folder_in_place_of_the_journal_is_reported(self, tmp_path: Path):
        with pytest.raises(SemgraphError, match=r"the journal cannot be opened \(Is a directory\)"):
            Journal(tmp_path)

    def test_folders_are_made(self, tmp_path: Path):
        Journal(tmp_path / "a" / "b" / "j.db").close()
        assert (tmp_path / "a" / "b" / "j.db").exists()
