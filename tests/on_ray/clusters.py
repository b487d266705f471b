"""A cluster of Ray on this machine, with nodes that can be added and removed, and its workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from semgraph.engine.on_ray import imported

DRIVER = """
import json, sys, semgraph
task = json.loads(sys.argv[1])
with semgraph.Session(**task["session"]) as session:
    session.run(task["plan"], episodes=task["rows"])
"""
"""A run as a process of its own: `python -c DRIVER TASK`."""


@contextmanager
def cluster_here(**head: Any) -> Iterator[Any]:
    """One node, which stays, with arguments of Ray; others can be added and removed."""
    ray = imported()
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "include_dashboard": False, "dashboard_port": 0, **head},
    )
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def workers() -> list[psutil.Process]:
    """The processes of Ray that run shards, of clusters that this process has started."""
    return [p for p in psutil.process_iter(["cmdline"]) if _runs_shards(p)]


def lives(process: psutil.Process) -> bool:
    """Whether a process of a run can still write."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE and "Agent" not in process.name()
    except psutil.NoSuchProcess:
        return False


def _runs_shards(process: psutil.Process) -> bool:
    line = process.info["cmdline"] or [""]
    try:
        return line[0].startswith("ray::run_task") and psutil.Process() in process.parents()
    except psutil.NoSuchProcess:
        return False
