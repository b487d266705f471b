"""Which model answers which role of a plan."""

from __future__ import annotations

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.llm.base import LLM, Reply, Request
from semgraph.llm.wrapper import Wrapper


class Roles(Wrapper):
    """A model that passes each request to the one bound to its role. Name, limits and prices are those of `default`.

    Args:
        default: Answers the role `default`.
        small: Answers the role `small`; None: `default` does. No other role falls to another.
        others: Further roles of the configuration.
    """

    def __init__(self, default: LLM, small: LLM | None = None, **others: LLM) -> None:
        super().__init__(default)
        self.models: dict[str, LLM] = {"default": default, "small": small or default, **others}

    def bound(self, role: str) -> LLM:
        """The model of a role, for its limits, its tokenizer and its prices.

        Raises:
            PlanError: No model is bound to it.
        """
        model = self.models.get(role)
        if model is None:
            known = ", ".join(self.models)
            hint = did_you_mean(role, self.models) or f"Bind it: {role} = ... under [models] in semgraph.toml"
            raise PlanError(Problem(f'no model is bound to the role "{role}"', there=f"Bound are {known}", hint=hint))
        return model

    async def complete(self, request: Request) -> Reply:
        """Answer one request with the model of its role."""
        return await self.bound(request.role).complete(request)

    async def aclose(self) -> None:
        """Close every model, each once."""
        for model in {id(model): model for model in self.models.values()}.values():
            await model.aclose()


def bound(llm: LLM, role: str) -> LLM:
    """The model that answers a role: the one bound to it where there are roles, else the model itself."""
    return llm.bound(role) if isinstance(llm, Roles) else llm
