"""What the user gives a run: a model, what it may spend, and a folder of data that he has
downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from semgraph.llm.base import Usage
from semgraph.llm.endpoints import build_embedder, build_model
from semgraph.llm.settings import Settings
from semgraph.llm.specs import ModelSpec


@dataclass
class Given:
    """What `python -m benchmarks run` was told; there is one, GIVEN.

    Args:
        model: As semgraph names models: `openai:gpt-4.1-mini`, `openai:NAME@http://host/v1`,
            `local`.
        max_usd: What all cases of the run may spend together.
        data: The folder with data sets.
        spent: What they have spent, in dollars.
    """

    model: str | None = None
    max_usd: float | None = None
    data: Path | None = None
    spent: float = 0.0

    @property
    def left(self) -> float | None:
        """What may still be spent; None: no limit."""
        return None if self.max_usd is None else max(self.max_usd - self.spent, 0.0)

    def settings(self) -> Settings:
        """What semgraph makes of the model: key and endpoint are those that it uses anywhere.
        Raises PlanError.
        """
        return Settings.load({"llm": self.model})

    def spec(self) -> ModelSpec:
        """The model. Raises PlanError."""
        return self.settings().model()

    @property
    def name(self) -> str:
        """The model's full name, as lines have it; "any" where none is given. Raises PlanError."""
        if self.model is None:
            return "any"
        settings = self.settings()
        return build_model(settings.model(), settings).name

    @property
    def provider(self) -> str:
        """Who answers: this machine, OpenAI, or the host of the endpoint."""
        settings = self.settings()
        if settings.model().provider == "local":
            return "this machine"
        url = settings.model().base_url or settings.environment.get("OPENAI_BASE_URL")
        return urlsplit(url).netloc if url else "api.openai.com"

    def judge(self) -> ModelSpec | None:
        """The model that `[models] judge = ...` of semgraph.toml names, to judge answers; None:
        nobody named one.
        """
        settings = Settings.load()
        return settings.model("judge") if "judge" in settings.roles else None

    def lacks_model(self) -> str:
        """What is to be given before a model is asked; "" if nothing is. One that costs needs a
        limit. Raises PlanError.
        """
        if self.model is None:
            return "it asks a model: --model openai:gpt-4.1-mini --max-usd 1, or --model local"
        settings = self.settings()
        own_key = settings.model().option("key_env") is not None
        if (
            self.provider == "api.openai.com"
            and not own_key
            and "OPENAI_API_KEY" not in settings.environment
        ):
            return f"{settings.model()} needs a key: export OPENAI_API_KEY=…"
        prices = [
            (one.name, one.dollars(Usage(1, 0, 1)))
            for one in (build_model(settings.model(), settings), build_embedder(settings))
        ]
        for name, price in prices:
            if price is None and self.max_usd is not None:
                return f"no price is known for {name}: --max-usd cannot be kept. Leave it out, and watch what it costs"
            if price and self.max_usd is None:
                return f"{name} costs money, so say how much it may: --max-usd 1"
        return ""


GIVEN = Given()
