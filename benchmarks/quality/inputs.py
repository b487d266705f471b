"""The inputs of a run from the user: a model, a limit of its cost, and a folder of downloaded data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from semgraph.errors import PlanError
from semgraph.llm.base import Usage
from semgraph.llm.dummy import Dummy
from semgraph.llm.endpoints import build
from semgraph.llm.providers import PROVIDERS
from semgraph.llm.settings import Settings


@dataclass
class UserInputs:
    """The options of `python -m benchmarks run`; the only instance is INPUTS.

    Args:
        model: A model as semgraph names it: `openai:gpt-4.1-mini`, `openai:NAME@http://host/v1`,
            `local`.
        max_usd: The limit for all cases of the run together.
        data: The folder with data sets.
        spent: The dollars spent so far.
    """

    model: str | None = None
    max_usd: float | None = None
    data: Path | None = None
    spent: float = 0.0

    @property
    def left(self) -> float | None:
        """The dollars left; None: no limit."""
        return None if self.max_usd is None else max(self.max_usd - self.spent, 0.0)

    def settings(self) -> Settings:
        """The settings of a session with this model. Raises PlanError."""
        return Settings.load({"llm": self.model})

    @property
    def name(self) -> str:
        """The model's full name, for lines; "any" without a model. Raises PlanError."""
        if self.model is None:
            return "any"
        settings = self.settings()
        return build(settings.model(), settings).name

    @property
    def local(self) -> bool:
        """Whether the model runs in this process."""
        if self.model is None:
            return False
        return PROVIDERS[self.settings().model().provider].service is None

    @property
    def provider(self) -> str:
        """The provider: this machine, OpenAI, or the host of the endpoint."""
        if self.local:
            return "this machine"
        url = self.base_url
        return urlsplit(url).netloc if url else "api.openai.com"

    @property
    def base_url(self) -> str | None:
        """The address of the endpoint; None: that of OpenAI."""
        settings = self.settings()
        return settings.model().base_url or settings.environment.get("OPENAI_BASE_URL")

    def lacks(self) -> str:
        """The missing inputs before a model can be called, or "". A model with a price needs a
        limit.
        """
        if self.model in (None, Dummy.name):
            return (
                "it calls a real model: --model openai:gpt-4.1-mini --max-usd 1, or --model local"
            )
        try:
            settings = self.settings()
            keyed = settings.model().option("key_env") or "OPENAI_API_KEY" in settings.environment
            if self.provider == "api.openai.com" and not keyed:
                return f"{settings.model()} needs a key: export OPENAI_API_KEY=…"
            priced = build(settings.model(), settings), build(settings.embedder, settings)
        except PlanError as error:
            return str(error)
        for model in priced:
            price = model.dollars(Usage(1, 0, 1))
            if price is None and self.max_usd is not None:
                why = f"no price is known for {model.name}: --max-usd cannot be enforced"
                return f"{why}. Leave it out, and watch the cost"
            if price and self.max_usd is None:
                return f"{model.name} costs money, so it needs a limit: --max-usd 1"
        return ""


INPUTS = UserInputs()
