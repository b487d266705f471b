"""Entering a cluster through a server that cannot always start the process of a client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from semgraph.engine import on_ray
from semgraph.errors import UnavailableError

ADDRESS = "ray://head:10001"
DIED = "Initialization failure from server:\nTraceback\nRuntimeError: Starting Ray client server failed."


class Server:
    """In place of Ray: each connection does what the next function does."""

    def __init__(self, *connections: Callable[[], object]) -> None:
        self.connections: Iterator[Callable[[], object]] = iter(connections)
        self.asked: list[dict[str, Any]] = []

    def init(self, **options: Any) -> None:
        self.asked.append(options)
        next(self.connections)()


def died() -> None:
    raise ConnectionAbortedError(DIED)


def test_a_process_of_a_client_that_dies_as_it_starts_is_asked_for_again():
    server = Server(died, died, lambda: None)
    on_ray.enter(server, ADDRESS)
    assert [options["address"] for options in server.asked] == [ADDRESS] * 3


def test_a_server_that_cannot_start_a_process_is_told_with_what_helps():
    server = Server(died, died, died, lambda: None)
    with pytest.raises(UnavailableError) as refused:
        on_ray.enter(server, ADDRESS)
    assert str(refused.value) == (
        "ray://head:10001 answers, but started no process for this run in 3 attempts: RuntimeError: Starting Ray client "
        "server failed. Where gRPC's fork handlers are the cause, start the cluster with `GRPC_ENABLE_FORK_SUPPORT=0 ray "
        "start --head`, or run on a machine of the cluster: --engine ray://auto"
    )
    assert len(server.asked) == 3


def test_a_server_that_hangs_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(on_ray, "CONNECT_SECONDS", 0.05)
    held = threading.Event()
    try:
        with pytest.raises(UnavailableError, match="started no process for this run in 0 s. Where"):
            on_ray.enter(Server(held.wait), ADDRESS)
    finally:
        held.set()


def refused() -> None:
    raise ConnectionError("ray client connection timeout")


def test_a_server_that_does_not_answer_is_asked_once():
    server = Server(refused)
    with pytest.raises(UnavailableError, match="no cluster of Ray answers at ray://head:10001"):
        on_ray.enter(server, ADDRESS)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("address", "entered"), [("", "local"), (on_ray.MEMBER, "auto"), (ADDRESS, ADDRESS)]
)
def test_a_cluster_is_started_here_or_entered(address: str, entered: str):
    server = Server(lambda: None)
    on_ray.enter(server, address)
    assert [options["address"] for options in server.asked] == [entered]
