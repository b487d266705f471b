"""A session as HTML, for notebooks: models with their prices, embedder, store, limits, and where each choice came from.

Nothing is opened and nobody is asked. Everything is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape

from semgraph.llm.base import LLM, Embedder, Usage
from semgraph.llm.config import Settings
from semgraph.llm.prices import price_of
from semgraph.llm.specs import ModelSpec
from semgraph.report.formats import UNKNOWN, dollars

_MILLION = 1_000_000


def session_html(
    settings: Settings, llm: LLM | None = None, embedder: Embedder | None = None, store: object | None = None
) -> str:
    """The session as a table.

    Args:
        settings: As resolved.
        llm: A model that was given as an object, and stands in place of the settings'.
        embedder: Likewise.
        store: Likewise.
    """
    rows = [*_models(settings, llm, embedder), ("store", *_store(settings, store)), *_limits(settings)]
    head = "".join(f"<th>{name}</th>" for name in ("", "", "$ a million tokens in / out", "from"))
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="semgraph"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


Row = tuple[str, str, str, str]


def _models(settings: Settings, llm: LLM | None, embedder: Embedder | None) -> Iterator[Row]:
    roles = [key.removeprefix("models.") for key, _, _ in settings.rows() if key.startswith("models.")]
    if llm is not None:
        yield "model", llm.name, _prices(llm.dollars), "given"
    for role in roles:
        if role == "embed" or llm is not None:
            continue
        spec = settings.model(role)
        name = "model" if role == "default" else f"model {role}"
        yield name, str(spec), _price(spec), settings[f"models.{role}"].origin
    if embedder is not None:
        yield "embedder", embedder.name, "", "given"
    else:
        yield "embedder", str(settings.embedder), "", settings["models.embed"].origin


def _price(spec: ModelSpec) -> str:
    if spec.provider in {"local", "recorded"}:
        return "0 (runs here)" if spec.provider == "local" else "0 (replayed)"
    price = price_of(spec.model, spec.base_url)
    return UNKNOWN if price is None else _prices(price.dollars)


def _prices(of: Callable[[Usage], float | None]) -> str:
    sent, answered = of(Usage(prompt=_MILLION)), of(Usage(completion=_MILLION))
    return f"{dollars(sent)} / {dollars(answered)}"


def _store(settings: Settings, store: object | None) -> tuple[str, str, str]:
    if store is not None:
        return str(getattr(store, "name", type(store).__name__)), "", "given"
    return str(settings["store"].value), "", settings["store"].origin


def _limits(settings: Settings) -> Iterator[Row]:
    known = {key: (value, origin) for key, value, origin in settings.rows() if key.startswith("limits.max_")}
    shown = {key.removeprefix("limits.max_"): found for key, found in known.items() if found[0] != "none"}
    if not shown:
        yield "limits", "none: max_usd=, max_calls=, max_tokens=, max_seconds= set them", "", "default"
    for name, (value, origin) in shown.items():
        yield f"at most {name}", value, "", origin
