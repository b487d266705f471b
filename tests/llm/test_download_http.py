"""Fetching a model's file from a server: going on after a break, and never taking wrong bytes for
right ones.
"""

from __future__ import annotations

import hashlib
import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from semgraph.errors import ModelUnavailable, PlanError
from semgraph.llm.catalogue import (
    CATALOGUE,
    CatalogueModel,
    ModelFile,
    find,
    models_dir,
    on_disk,
    paths,
    pull,
    remove,
)
from tests.llm.file_server import FileServer
from tests.patience import HANGS

BODY = random.Random(7).randbytes(3_000_000)
DIGEST = hashlib.sha256(BODY).hexdigest()


def model_of(*urls: str, body: bytes = BODY, size: int | None = None) -> CatalogueModel:
    file = ModelFile("weights.bin", size or len(body), hashlib.sha256(body).hexdigest(), urls)
    return CatalogueModel("tiny", "model", (file,), "Apache-2.0", ("en",), "0", 1, "for tests")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"SEMGRAPH_HOME": str(tmp_path)}


@pytest.fixture
def server():
    with FileServer() as server:
        yield server


def fetched(model: CatalogueModel, env: dict[str, str]) -> bytes:
    (path,) = pull(model, env=env)
    assert sorted(p.name for p in path.parent.iterdir()) == ["weights.bin"], (
        "nothing else may be left behind"
    )
    return path.read_bytes()


def test_a_file_is_downloaded_whole_with_progress(server, env):
    told = []
    model = model_of(server.serve("/m", BODY))
    (path,) = pull(model, progress=lambda *what: told.append(what), env=env)
    assert path.read_bytes() == BODY
    assert path == models_dir(env) / "tiny" / "weights.bin"
    assert told[-1] == (len(BODY), len(BODY), f"{server.url}/m")
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert on_disk(model, env)


def test_existing_files_are_not_downloaded_again(server, env):
    model = model_of(server.serve("/m", BODY))
    pull(model, env=env)
    assert len(server.requests) == 1
    pull(model, env=env)
    assert len(server.requests) == 1


def test_a_redirect_is_followed(server, env):
    server.serve("/real", BODY)
    assert fetched(model_of(server.serve("/m", b"", redirect="/real")), env) == BODY


class TestBreaks:
    def test_a_broken_connection_is_resumed(self, server, env):
        url = server.serve("/m", BODY, break_after=[1_000_000, 700_000])
        assert fetched(model_of(url), env) == BODY
        assert [request[1] for request in server.requests] == [
            None,
            "bytes=1000000-",
            "bytes=1700000-",
        ]

    def test_a_later_process_resumes_an_interrupted_download(self, server, env):
        model = model_of(server.serve("/m", BODY))

        def interrupt(done: int, total: int, source: str) -> None:
            if done > 1_500_000:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            pull(model, progress=interrupt, env=env)
        assert not on_disk(model, env)
        part = paths(model, env)[0].with_name("weights.bin.part")
        have = part.stat().st_size
        assert 1_500_000 < have < len(BODY)
        assert fetched(model, env) == BODY
        assert server.requests[-1][1] == f"bytes={have}-"

    def test_a_server_that_ignores_ranges_sends_the_whole_file(self, server, env):
        url = server.serve("/m", BODY, break_after=[1_000_000], ranges=False)
        assert fetched(model_of(url), env) == BODY

    def test_a_file_that_changed_between_two_attempts_is_not_glued_together(self, server, env):
        old = bytes(len(BODY))
        url = server.serve("/m", old)
        model = model_of(url)
        with pytest.raises(KeyboardInterrupt):
            pull(model, progress=interrupt_at(1_000_000), env=env)
        server.serve("/m", BODY)
        assert fetched(model, env) == BODY
        assert server.requests[-1][1] is None

    def test_a_wrong_range_is_followed_by_a_request_for_the_whole_file(self, server, env):
        url = server.serve("/m", BODY, break_after=[1_000_000], lie_start=999_999)
        assert fetched(model_of(url), env) == BODY
        assert [request[1] for request in server.requests] == [None, "bytes=1000000-", None]

    def test_a_server_without_progress_is_given_up(self, server, env):
        url = server.serve("/m", BODY, break_after=[1_000, *[0] * 20])
        with pytest.raises(ModelUnavailable, match=r"broke off after 1,000 of 3,000,000 bytes"):
            pull(model_of(url), env=env)


def interrupt_at(size: int):
    def interrupt(done: int, total: int, source: str) -> None:
        if done >= size:
            raise KeyboardInterrupt

    return interrupt


class TestLies:
    def test_wrong_bytes_are_deleted_and_the_next_source_is_tried(self, server, env):
        wrong = server.serve("/wrong", bytes(len(BODY)))
        right = server.serve("/right", BODY)
        assert fetched(model_of(wrong, right), env) == BODY

    def test_wrong_bytes_everywhere_are_an_error_that_names_both_digests(self, server, env):
        model = model_of(server.serve("/m", bytes(len(BODY))))
        with pytest.raises(ModelUnavailable) as caught:
            pull(model, env=env)
        assert (
            f"SHA-256 is {hashlib.sha256(bytes(len(BODY))).hexdigest()}, not {DIGEST}: deleted"
            in str(caught.value)
        )
        assert f"{server.url}/m" in str(caught.value)
        assert "--from URL|FILE" in str(caught.value)
        assert not list((models_dir(env) / "tiny").iterdir())

    def test_a_good_source_is_not_blamed_for_the_bad_half_of_another(self, server, env):
        """The first server sends garbage and dies; the second resumes it, sees the digest,
        begins anew.
        """
        bad = server.serve("/bad", bytes(len(BODY)), break_after=[1_000_000, *[0] * 20])
        good = server.serve("/good", BODY)
        assert fetched(model_of(bad, good), env) == BODY
        assert [range_ for path, range_ in server.requests if path == "/good"] == [
            "bytes=1000000-",
            None,
        ]

    @pytest.mark.parametrize("length", [len(BODY) - 1, len(BODY) + 1])
    def test_a_file_of_another_size_is_not_downloaded(self, server, env, length):
        url = server.serve("/m", BODY[:length].ljust(length))
        with pytest.raises(
            ModelUnavailable, match=rf"serves a file of {length:,} bytes, not of 3,000,000"
        ):
            pull(model_of(url), env=env)

    def test_a_server_that_sends_too_much_is_stopped(self, server, env):
        url = server.serve("/m", BODY, too_much=b"more")
        with pytest.raises(
            ModelUnavailable, match=r"serves a file of 3,000,\d+ bytes, not of 3,000,000"
        ):
            pull(model_of(url), env=env)

    def test_a_refusing_server_is_quoted(self, server, env):
        urls = [
            server.serve("/a", BODY, status=403),
            server.serve("/b", BODY, status=503),
            server.url + "/none",
        ]
        with pytest.raises(ModelUnavailable) as caught:
            pull(model_of(*urls), env=env)
        for said in (
            "/a: HTTP 403 Forbidden",
            "/b: HTTP 503 Service Unavailable",
            "/none: HTTP 404 Not Found",
        ):
            assert said in str(caught.value)


class TestNoWay:
    def test_a_dead_address_is_skipped(self, server, env):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            dead = f"http://127.0.0.1:{closed.getsockname()[1]}/m"
            assert (
                fetched(model_of(dead, "http://name.invalid/m", server.serve("/m", BODY)), env)
                == BODY
            )

    def test_no_source_at_all(self, env):
        with pytest.raises(ModelUnavailable, match="could not be downloaded"):
            pull(model_of(), env=env)

    def test_offline_forbids_downloads_and_names_alternatives(self, server, env):
        model = model_of(server.serve("/m", BODY))
        with pytest.raises(
            ModelUnavailable,
            match=r"SEMGRAPH_OFFLINE forbids.*semgraph model pull tiny --from PATH",
        ):
            pull(model, env={**env, "SEMGRAPH_OFFLINE": "1"})
        assert not server.requests
        pull(model, env=env)
        assert pull(model, env={**env, "SEMGRAPH_OFFLINE": "1"})

    def test_a_full_disk_is_reported_before_the_first_byte(self, server, env):
        model = model_of(server.serve("/m", BODY), size=10**17)
        with pytest.raises(
            ModelUnavailable, match=r"needs 100000000\.2 GB on the disk of .* set SEMGRAPH_HOME"
        ):
            pull(model, env=env)
        assert not server.requests


class TestFrom:
    def test_a_file(self, env, tmp_path):
        (tmp_path / "copy.bin").write_bytes(BODY)
        (path,) = pull(model_of(), tmp_path / "copy.bin", env={**env, "SEMGRAPH_OFFLINE": "1"})
        assert path.read_bytes() == BODY

    def test_a_folder(self, env, tmp_path):
        (tmp_path / "weights.bin").write_bytes(BODY)
        assert pull(model_of(), str(tmp_path), env=env)[0].read_bytes() == BODY

    def test_an_address_replaces_the_catalogues(self, server, env):
        (path,) = pull(
            model_of(server.serve("/theirs", BODY)), server.serve("/mine", BODY), env=env
        )
        assert path.read_bytes() == BODY
        assert [path for path, _ in server.requests] == ["/mine"]

    def test_an_address_is_forbidden_offline(self, server, env):
        with pytest.raises(ModelUnavailable, match="SEMGRAPH_OFFLINE"):
            pull(model_of(), server.serve("/m", BODY), env={**env, "SEMGRAPH_OFFLINE": "1"})

    def test_a_wrong_file_is_refused(self, env, tmp_path):
        (tmp_path / "copy.bin").write_bytes(bytes(len(BODY)))
        with pytest.raises(ModelUnavailable, match="deleted"):
            pull(model_of(), tmp_path / "copy.bin", env=env)
        assert (tmp_path / "copy.bin").exists(), "what is the user's stays"

    def test_no_file(self, env, tmp_path):
        with pytest.raises(ModelUnavailable, match="No such file"):
            pull(model_of(), tmp_path / "none", env=env)

    def test_several_files_come_from_a_folder_or_an_address_that_is_one(
        self, server, env, tmp_path
    ):
        files = tuple(
            ModelFile(n, len(b), hashlib.sha256(b).hexdigest())
            for n, b in (("a", b"aa"), ("b", b"bbb"))
        )
        model = CatalogueModel("pair", "embedder", files, "MIT", ("en",), "0", 1, "for tests")
        (tmp_path / "a").write_bytes(b"aa")
        with pytest.raises(ModelUnavailable, match="name the folder that holds a and b"):
            pull(model, tmp_path / "x", env=env)
        server.serve("/pair/a", b"aa")
        server.serve("/pair/b", b"bbb")
        told = []
        assert [
            p.read_bytes()
            for p in pull(
                model, f"{server.url}/pair/", progress=lambda *w: told.append(w[:2]), env=env
            )
        ] == [b"aa", b"bbb"]
        assert told == [(2, 5), (5, 5)]


def test_remove_deletes_all_files(server, env):
    model = model_of(server.serve("/m", BODY))
    assert remove(model, env=env) == 0
    pull(model, env=env)
    assert remove(model, env=env) == len(BODY)
    assert not on_disk(model, env)


def test_two_processes_download_once(server, env):
    """The second waits, sees the first one's progress, and finds the file."""
    url = server.serve("/m", BODY, break_after=[1_000_000, 1_000_000])
    program = (
        "import os, sys; from tests.llm.test_download_http import model_of; from semgraph.llm.catalogue import pull; "
        "print(pull(model_of(sys.argv[1]), env=dict(os.environ))[0])"
    )
    run = [sys.executable, "-c", program, url]
    both = [
        subprocess.Popen(
            run,
            env={"PYTHONPATH": ".", **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outcomes = [process.communicate(timeout=HANGS) for process in both]
    assert [process.returncode for process in both] == [0, 0], outcomes
    assert outcomes[0][0] == outcomes[1][0]
    assert [request[1] for request in server.requests] == [None, "bytes=1000000-", "bytes=2000000-"]


class TestCatalogue:
    def test_names_match_in_any_case_and_misspelt_ones_have_suggestions(self):
        assert find("smollm2-135m").name == "SmolLM2-135M"
        with pytest.raises(
            PlanError,
            match=r'unknown local model "Qwen2.5-Coder-15B".*Did you mean "Qwen2.5-Coder-1.5B"',
        ):
            find("Qwen2.5-Coder-15B", "model")
        with pytest.raises(PlanError, match="unknown local embedder"):
            find("SmolLM2-135M", "embedder")

    @pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)
    def test_every_catalogue_entry_is_complete_and_its_pieces_add_up(self, model):
        assert model.licence
        assert model.languages
        assert model.about
        for file in model.files:
            assert len(file.sha256) == 64
            assert file.urls or file.parts
            assert not file.parts or sum(part.size for part in file.parts) == file.size
            assert all(url.startswith("https://") for url in file.urls)

    def test_the_default_place_is_the_users_cache(self):
        import platformdirs

        assert models_dir({}) == platformdirs.user_cache_path("semgraph") / "models"
