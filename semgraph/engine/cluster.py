"""Enters a cluster of Ray, or starts one on this machine. Needs the extra `ray`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from semgraph.errors import PlanError, Problem, UnavailableError
from semgraph.extras import install

MEMBER = "ray://auto"
"""The cluster that this machine belongs to: entered without Ray's client."""
CONNECT_SECONDS = 180.0
"""How long the server of Ray's client may take to start the process of a client."""
_CLIENTS = 3  # processes that the server may fail to start
_MOST_SAID = 300  # characters of an error of Ray
_QUIET = {"log_to_driver": False, "logging_level": "ERROR"}
_FORKS = (
    "Where gRPC's fork handlers are the cause, start the cluster with `GRPC_ENABLE_FORK_SUPPORT=0 ray start --head`, or run "
    "on a machine of the cluster: --engine ray://auto"
)


def imported() -> Any:
    """Ray, without its statistics of usage. Raises PlanError if the extra is missing."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Ray forks while gRPC runs, always to execute another program. gRPC's handlers of forks then
    # abort or hang the process once in a while.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        import ray
    except ImportError as error:
        what = f'the engine ray needs the extra "ray": {install("ray")}'
        raise PlanError(Problem(what, hint="or run in this process: without --engine")) from error
    return ray


def enter(ray: Any, address: str) -> None:
    """Enter a cluster, or start one on this machine.

    Args:
        ray: Ray.
        address: `ray://HOST:PORT` for a server of Ray's client; MEMBER; "": this machine.

    Raises:
        UnavailableError: No cluster answers there, or Ray does not start here.
    """
    try:
        if not address:
            here = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            ray.init(address="local", **here, **_QUIET)
        elif address == MEMBER:
            ray.init(address="auto", **_QUIET)
        else:
            _by_client(ray, address)
    except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
        where = f"no cluster of Ray answers at {address}" if address else "Ray does not start here"
        why = _first_words(error)
        token = " (with RAY_AUTH_MODE=token, if it asks for a token)" if address else ""
        raise UnavailableError(
            f"{where}: {why}. Start one with `ray start --head`{token}, or run on this machine: --engine ray"
        ) from error


def _by_client(ray: Any, address: str) -> None:
    """Enter a cluster through the server of Ray's client, which forks a process for each client.
    Raises UnavailableError where it answers and starts none.
    """
    for left in reversed(range(_CLIENTS)):
        try:
            _within(CONNECT_SECONDS, lambda: ray.init(address=address, **_QUIET))
        except ConnectionAbortedError as error:
            if not left:
                why = _last_line(error)
                raise UnavailableError(
                    f"{address} answers, but started no process for this run in {_CLIENTS} attempts: {why}. {_FORKS}"
                ) from error
        except _Hangs as error:
            raise UnavailableError(
                f"{address} answers, but started no process for this run in {CONNECT_SECONDS:.0f} s. {_FORKS}"
            ) from error
        else:
            return


class _Hangs(Exception):
    """A call did not return in time."""


def _within(seconds: float, call: Callable[[], object]) -> None:
    """Call something that may never return, in a thread that does not keep the process from ending.
    Raises _Hangs, and what it raises.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True, name="entering a cluster of Ray")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise _Hangs
    if raised:
        raise raised[0]


def _first_words(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:_MOST_SAID] or type(error).__name__


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1].strip().rstrip(".")[:_MOST_SAID]
