"""Prices of tokens, from the package genai-prices. Nothing is downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

from semgraph.llm.base import OPENAI, Service, Usage
from semgraph.llm.replies import number

OF_BATCH = 0.5
"""The price of a request in a batch, of that of a direct one."""


class Price(Protocol):
    """A price of tokens."""

    def dollars(self, usage: Usage) -> float:
        """The cost of these tokens, in US dollars."""
        ...


@dataclass(frozen=True)
class FlatPrice:
    """Fixed prices, in dollars per million tokens.

    Args:
        prompt: Price of prompt tokens that were not cached.
        completion: Price of tokens of the answer.
        cached: Price of cached prompt tokens; None: as `prompt`.
    """

    prompt: float
    completion: float = 0.0
    cached: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no price."""
        for name, value in vars(self).items():
            price = number(value)
            if (price is None or price < 0) and not (name == "cached" and value is None):
                raise ValueError(f"{name} must be dollars per million tokens, not {value!r}")

    def dollars(self, usage: Usage) -> float:
        """The cost of these tokens, in US dollars."""
        cached = self.prompt if self.cached is None else self.cached
        total = (
            (usage.prompt - usage.cached) * self.prompt
            + usage.cached * cached
            + usage.completion * self.completion
        )
        return total / 1e6


class Prices:
    """The price of one endpoint, looked up when first needed.

    Args:
        model: The model as the endpoint calls it.
        url: The endpoint's address.
        price: The price; None: that of the list.
        service: The service whose model it is.
    """

    def __init__(
        self, model: str, url: str, price: Price | None = None, service: Service = OPENAI
    ) -> None:
        self._model, self._url, self._own, self._service = model, url, price, service

    def dollars(self, usage: Usage) -> float | None:
        """The cost of these tokens, or None if no price is known."""
        dollars = number(self._price.dollars(usage)) if self._price else None
        return dollars if dollars is not None and dollars >= 0 else None

    @cached_property
    def _price(self) -> Price | None:
        base_url = None if self._url == self._service.url else self._url
        return self._own or price_of(self._model, base_url, self._service)


@dataclass(frozen=True)
class _ListPrice:
    """A price that depends on the time of day or the length of the prompt: looked up each time."""

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
def price_of(model: str, base_url: str | None = None, service: Service = OPENAI) -> Price | None:
    """The price of a model at an address; at that of the service if `base_url` is None.

    Returns:
        None if no price is known: the list lacks the model or the endpoint. Unknown is never 0.
    """
    from genai_prices.data_snapshot import get_snapshot

    provider_id = service.prices or None if base_url is None else None
    provider_url = None if provider_id else base_url or service.url
    try:
        _, info = get_snapshot().find_provider_model(model, None, provider_id, provider_url)
    except LookupError:
        return None
    return _flat(info.prices) or _ListPrice(model, provider_id, provider_url)


def _flat(prices: Any) -> FlatPrice | None:
    """The list's entry as fixed prices, if it is that simple: a look-up takes 0.1 ms."""
    per_token = [
        getattr(prices, f"{kind}_mtok", None) for kind in ("input", "output", "cache_read")
    ]
    if any(hasattr(price, "tiers") for price in per_token) or isinstance(prices, list):
        return None
    prompt, completion, cached = (None if price is None else float(price) for price in per_token)
    return None if prompt is None else FlatPrice(prompt, completion or 0.0, cached)
