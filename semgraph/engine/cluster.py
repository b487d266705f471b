"""Ray by name: enters its cluster, or starts one on this machine. Needs the extra `ray`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import Any

from semgraph.errors import PlanError, Problem, UnavailableError
from semgraph.extras import install
from semgraph.llm.providers import typed_options

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
_FORMS = "ray, ray?shards=8&workers=2, ray://HOST:10001?shards=256, ray://auto"
_REMOVED = {
    "local": "write ray (processes here), also to resume a run of it; or leave the engine out"
}


@dataclass(frozen=True)
class EngineSpec:
    """Ray, as settings name it.

    Args:
        address: Of a cluster, `ray://auto` for that of this machine; "" for this machine alone.
        shards: How many shards there are; None: as the rows and workers ask for.
        workers: How many run at one time; None: as many as there are processors.
    """

    address: str = ""
    shards: int | None = None
    workers: int | None = None

    @classmethod
    def parse(cls, text: str) -> EngineSpec:
        """Read an engine as options and settings write it. Raises PlanError.

        >>> EngineSpec.parse("ray://head:10001?shards=256")
        EngineSpec(address='ray://head:10001', shards=256, workers=None)
        """
        name, _, query = text.partition("?")
        if name in _REMOVED:
            what = f'there is no engine "{name}" any more'
            raise PlanError(Problem(what, hint=_REMOVED[name]))
        if name != "ray" and not re.fullmatch(r"ray://\S+", name):
            raise PlanError(Problem(f'unknown engine "{text}"', there=f"engines: {_FORMS}"))
        options = typed_options(query, {"shards": int, "workers": int}, f'engine "{text}"')
        return cls("" if name == "ray" else name, **dict(options))

    @property
    def is_remote(self) -> bool:
        """Whether it is a cluster at an address."""
        return self.address not in ("", MEMBER)

    def __str__(self) -> str:
        options = [f"{n}={v}" for n in ("shards", "workers") if (v := getattr(self, n))]
        return (self.address or "ray") + ("?" + "&".join(options) if options else "")


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
    """Enter a cluster by `ray://HOST:PORT`, the server of Ray's client, or by MEMBER; "" starts one on
    this machine. Raises UnavailableError.
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
        why = " ".join(str(error).split()).rstrip(".")[:_MOST_SAID] or type(error).__name__
        token = " (with RAY_AUTH_MODE=token, if it asks for a token)" if address else ""
        raise UnavailableError(
            f"{where}: {why}. Start one with `ray start --head`{token}, or run on this machine: --engine ray"
        ) from error


def _by_client(ray: Any, address: str) -> None:
    """Enter a cluster through the server of Ray's client, which forks a process for each client.
    Raises UnavailableError where it answers and starts none.
    """
    for left in reversed(range(_CLIENTS)):
        entering = _in_thread(lambda: ray.init(address=address, **_QUIET))
        try:
            entering.result(CONNECT_SECONDS)
        except (ConnectionAbortedError, TimeoutError) as error:
            aborted = isinstance(error, ConnectionAbortedError)
            if aborted and left:
                continue
            if not aborted and entering.done():
                raise
            last = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
            attempts = f"{_CLIENTS} attempts: {last.rstrip('.')[:_MOST_SAID]}"
            raise UnavailableError(
                f"{address} answers, but started no process for this run in "
                f"{attempts if aborted else f'{CONNECT_SECONDS:.0f} s'}. {_FORKS}"
            ) from error
        return


def _in_thread(call: Callable[[], object]) -> Future[Any]:
    """Call something that may never return, in a thread that does not keep the process from ending."""
    called: Future[Any] = Future()

    def run() -> None:
        try:
            called.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            called.set_exception(error)

    Thread(target=run, daemon=True, name="entering a cluster of Ray").start()
    return called
