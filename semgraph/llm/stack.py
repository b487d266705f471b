"""The order in which a model is wrapped."""

from __future__ import annotations

from semgraph.llm.base import LLM
from semgraph.llm.budget import Budget, Budgeted, Drained
from semgraph.llm.coalesce import Coalesced
from semgraph.llm.journal import Journal, Journalled
from semgraph.llm.limits import Limited, Limiter
from semgraph.llm.retry import Retried, RetryPolicy


def stack(
    endpoint: LLM,
    limiter: Limiter,
    *,
    retry: RetryPolicy | None = None,
    budget: Budget | None = None,
    journal: Journal | None = None,
    scope: str = "",
    fresh: bool = False,
) -> LLM:
    """One run's view of an endpoint: `Drained(Coalesced(Journalled(Budgeted(Retried(Limited(endpoint))))))`.

    Every attempt passes the limiter; what is repeated is admitted by the budget once; what the journal knows is neither;
    equal requests reach the journal once; where the budget ends, what was sent is waited for. Closing the stack closes the
    endpoint; the journal is closed by its owner.

    Args:
        endpoint: Where attempts go.
        limiter: The endpoint's, the same for all roles and runs that use it.
        retry: When a failed attempt is repeated; None for the default policy.
        budget: The run's, the same for all its models; None for no limit.
        journal: Where answers are kept; None for nowhere.
        scope: Answers are shared within a scope only.
        fresh: Ask anew even what the journal knows.

    Raises:
        PlanError: The budget limits dollars, and the endpoint's price is not known.
    """
    model: LLM = Retried(Limited(endpoint, limiter), retry)
    if budget is not None:
        model = Budgeted(model, budget)
    if journal is not None:
        model = Journalled(model, journal, scope, fresh)
    model = Coalesced(model)
    return model if budget is None else Drained(model, budget)
