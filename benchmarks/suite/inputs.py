"""The inputs of a run from the user: a model, a limit of its cost, and a folder of downloaded data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from semgraph.llm.base import Usage
from semgraph.llm.endpoints import build_embedder, build_model
from semgraph.llm.settings import Settings
from semgraph.llm.specs import ModelSpec


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

    def spec(self) -> ModelSpec:
        """The model. Raises PlanError."""
        return self.settings().model()

    @property
    def name(self) -> str:
        """The model's full name, for lines; "any" without a model. Raises PlanError."""
        if self.model is None:
            return "any"
        settings = self.settings()
        return build_model(settings.model(), settings).name

    @property
    def provider(self) -> str:
        """The provider: this machine, OpenAI, or the host of the endpoint."""
        settings = self.settings()
        if settings.model().provider == "local":
            return "this machine"
        url = settings.model().base_url or settings.environment.get("OPENAI_BASE_URL")
        return urlsplit(url).netloc if url else "api.openai.com"

    def judge(self) -> ModelSpec | None:
        """The model of `[models] judge = ...` in semgraph.toml, which judges answers, if any."""
        settings = Settings.load()
        return settings.model("judge") if "judge" in settings.roles else None

    def lacks_model(self) -> str:
        """The missing inputs before a model can be called, or "". A model with a price needs a
        limit. Raises PlanError.
        """
        if self.model is None:
            return "it calls a model: --model openai:gpt-4.1-mini --max-usd 1, or --model local"
        settings = self.settings()
        own_key = settings.model().option("key_env") is not None
        if (
            self.provider == "api.openai.com"
            and not own_key
            and "OPENAI_API_KEY" not in settings.environment
        ):
            return f"{settings.model()} needs a key: export OPENAI_API_KEY=…"
        prices = [
            (model.name, model.dollars(Usage(1, 0, 1)))
            for model in (build_model(settings.model(), settings), build_embedder(settings))
        ]
        for name, price in prices:
            if price is None and self.max_usd is not None:
                return f"no price is known for {name}: --max-usd cannot be enforced. Leave it out, and watch the cost"
            if price and self.max_usd is None:
                return f"{name} costs money, so it needs a limit: --max-usd 1"
        return ""


INPUTS = UserInputs()
