"""What tokens cost. Prices come from the package genai-prices, which carries them with it: nothing
is fetched.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

from semgraph.llm.base import Usage

OPENAI_URL = "https://api.openai.com/v1"


class Price(Protocol):
    """Anything that says what tokens cost."""

    def dollars(self, usage: Usage) -> float:
        """The price of these tokens, in US dollars."""
        ...


@dataclass(frozen=True)
class FlatPrice:
    """Prices that do not depend on how much is asked, in dollars per million tokens.

    Args:
        prompt: Of prompt tokens that were not cached.
        completion: Of tokens in the answer.
        cached: Of prompt tokens that the provider had cached; as `prompt` if None.
    """

    prompt: float
    completion: float = 0.0
    cached: float | None = None

    def dollars(self, usage: Usage) -> float:
        """The price of these tokens, in US dollars."""
        cached = self.prompt if self.cached is None else self.cached
        total = (
            (usage.prompt - usage.cached) * self.prompt
            + usage.cached * cached
            + usage.completion * self.completion
        )
        return total / 1e6


class Prices:
    """What the tokens of one endpoint cost.

    Args:
        model: The model as the endpoint calls it.
        url: The endpoint's address.
        price: The price; None: that of the list, looked up when first needed.
    """

    def __init__(self, model: str, url: str, price: Price | None = None) -> None:
        self._model, self._url, self._given = model, url, price

    def dollars(self, usage: Usage) -> float | None:
        """What these tokens cost, or None if no price is known."""
        price = self._price
        return price.dollars(usage) if price else None

    @cached_property
    def _price(self) -> Price | None:
        base_url = None if self._url == OPENAI_URL else self._url
        return self._given or price_of(self._model, base_url)


@dataclass(frozen=True)
class _ListPrice:
    """A price that depends on the time of day, or on how long the prompt is: the list is asked
    every time.
    """

    model: str
    provider_id: str | None
    provider_url: str | None

    def dollars(self, usage: Usage) -> float:
        import genai_prices

        tokens = genai_prices.Usage(
            input_tokens=usage.prompt,
            cache_read_tokens=usage.cached,
            output_tokens=usage.completion,
        )
        if self.provider_id is not None:
            return float(
                genai_prices.calc_price(
                    tokens, self.model, provider_id=self.provider_id
                ).total_price
            )
        return float(
            genai_prices.calc_price(
                tokens, self.model, provider_api_url=self.provider_url
            ).total_price
        )


@lru_cache(maxsize=64)
def price_of(model: str, base_url: str | None = None) -> Price | None:
    """The price of a model at an endpoint; at OpenAI's own if `base_url` is None.

    Returns:
        None where no price is known: a model that the list lacks, or an endpoint that it does not
            know, whatever the
        name of the model there. Unknown is never 0.
    """
    from genai_prices.data_snapshot import get_snapshot

    provider_id, provider_url = ("openai", None) if base_url is None else (None, base_url)
    try:
        _, info = get_snapshot().find_provider_model(model, None, provider_id, provider_url)
    except LookupError:
        return None
    return _flat(info.prices) or _ListPrice(model, provider_id, provider_url)


def _flat(prices: Any) -> FlatPrice | None:
    """The list's entry as fixed prices, if it is that simple; the list itself takes 0.1 ms a
    question.
    """
    per_token = [
        getattr(prices, f"{kind}_mtok", None) for kind in ("input", "output", "cache_read")
    ]
    if any(hasattr(price, "tiers") for price in per_token) or isinstance(prices, list):
        return None
    prompt, completion, cached = (None if price is None else float(price) for price in per_token)
    return None if prompt is None else FlatPrice(prompt, completion or 0.0, cached)
