"""What the nodes of a plan are given before any is computed: rows of the inputs, their partitions, and windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from semgraph.execution.runtime import Runtime
from semgraph.execution.windows import Confinement, Members, Wave, cut, prepare
from semgraph.logical.node import walk
from semgraph.logical.plan import Order
from semgraph.logical.relational import Input, Nothing
from semgraph.physical.planner import PhysicalPlan
from semgraph.physical.relational import runtime_schema


def given_rows(plan: PhysicalPlan, inputs: Mapping[str, pa.Table]) -> dict[int, pa.Table]:
    """The rows of the inputs by `id` of their nodes, as far as there are any."""
    found = [node for node in walk(*plan.roots) if isinstance(node, Input)]
    nothing = {id(node): runtime_schema(node).empty_table() for node in found if isinstance(node, Nothing)}
    return {id(node): inputs[node.name] for node in found if node.name in inputs} | nothing


async def members_of(runtime: Runtime, order: Order, inputs: Mapping[str, pa.Table]) -> Members:
    """The rows that are cut into windows; the runtime is told their partitions."""
    members = await prepare(order, inputs[order.input])
    runtime.partitions[:] = members.names
    return members


def waves_of(runtime: Runtime, order: Order, members: Members, pending: Mapping[int, Sequence[int]]) -> list[Wave]:
    """The windows of the members that are to be run; the runtime is told what confines their rows."""
    waves = cut(order, pending)
    runtime.confinement = Confinement.of(members, waves)
    return waves
