"""Engines by name, and the shards that they run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from semgraph.errors import PlanError, Problem, SemgraphError
from semgraph.llm.specs import typed_options

_FORMS = "ray, ray?shards=8&workers=2, ray://HOST:10001?shards=256, ray://auto"
_NO_LOCAL = "leave the engine out to run in this process, or write ray: processes on this machine"


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
        if name == "local":
            raise PlanError(Problem('there is no engine "local" any more', hint=_NO_LOCAL))
        if name != "ray" and not re.fullmatch(r"ray://\S+", name):
            raise PlanError(Problem(f'unknown engine "{text}"', there=f"engines: {_FORMS}"))
        options = typed_options(query, {"shards": int, "workers": int}, f'engine "{text}"')
        return cls("" if name == "ray" else name, **dict(options))

    def __str__(self) -> str:
        options = [f"{n}={v}" for n in ("shards", "workers") if (v := getattr(self, n))]
        return (self.address or "ray") + ("?" + "&".join(options) if options else "")


class WorkerLost(SemgraphError):
    """The worker of a shard died, or cannot be reached any more."""


@dataclass(frozen=True)
class Task:
    """A shard to run, or to run again.

    Args:
        number: Of the shard, from 0.
        rows: Its rows, as the engine's `work` reads them.
        attempt: From 1.
    """

    number: int
    rows: Any
    attempt: int = 1

    @property
    def holder(self) -> str:
        """The worker, as the ledger knows it."""
        return f"shard {self.number}, attempt {self.attempt}"
