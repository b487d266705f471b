"""Which ways of which step are compared, and with which of them the others are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from semgraph.errors import PlanError, Problem
from semgraph.llm.base import LLM
from semgraph.logical.plan import Choice, LogicalPlan
from semgraph.logical.semantic import Semantic
from semgraph.physical.contract import Implementation
from semgraph.physical.library import Library
from semgraph.session.comparing.request import ComparisonRequest, checked
from semgraph.session.comparing.step import Frozen, Input, asking_step, input_of, way_of
from semgraph.session.resources import Resources
from semgraph.stores.base import Store


@dataclass(frozen=True)
class Choices:
    """Ways of a step.

    Args:
        node: The step.
        choices: The ways as written, by name.
        ways: The ways.
        reference: The name of the one that the others are compared with.
        by_default: The operator's own reference.
        library: Where the ways are from.
    """

    node: Semantic
    choices: Mapping[str, Choice]
    ways: Mapping[str, Implementation[Any]]
    reference: str
    by_default: Implementation[Any]
    library: Library

    def input(self, plan: LogicalPlan, store: Store, llm: LLM) -> Input:
        """How the rows of the step are made, with the step done as the reference does it."""
        use = {**plan.use, self.node.step: self.choices[self.reference]}
        return input_of(replace(plan, use=use), self.node, store, self.library, llm)

    def asked(self, frozen: Frozen) -> pa.Table:
        """The frozen rows. Raises PlanError if there are none."""
        if not frozen.parts or not frozen.rows.num_rows:
            what = f"step {self.node.step} has no rows to ask about: there is nothing to compare"
            raise PlanError(Problem(what, hint="give others"))
        return frozen.rows


def choices(request: ComparisonRequest, resources: Resources, llm: LLM) -> Choices:
    """The ways that are asked for. Raises PlanError with all that is wrong with them."""
    library = Library(resources.settings.operators)
    node = asking_step(request.plan, request.step)
    found = checked({n: partial(way_of, node, text, library, llm) for n, text in request.ways.items()})
    own = library.reference(node.keyword)
    reference = next((n for n, (choice, _) in found.items() if choice == own), next(iter(found)))
    return Choices(
        node, {n: choice for n, (choice, _) in found.items()}, {n: way for n, (_, way) in found.items()}, reference,
        library.get(node.keyword, own), library,
    )  # fmt: skip
