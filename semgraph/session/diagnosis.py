"""Diagnosis of an installation: Python, extras, models, store, disk and settings. Each fact comes
with its remedy.
"""

from __future__ import annotations

import asyncio
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from semgraph.errors import ModelUnavailable, RowError, SemgraphError
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import Type
from semgraph.extras import PURPOSES, install, missing
from semgraph.formats import BAD, GOOD, NOTE, count, duration, plural, size
from semgraph.llm.base import LLM, ROLES, Embedder, Message, ModelSpec, Request
from semgraph.llm.catalogue import CatalogueModel, models_dir
from semgraph.llm.endpoints import build, means
from semgraph.llm.openai import OpenAI
from semgraph.llm.providers import PROVIDERS
from semgraph.llm.replies import repaired
from semgraph.llm.settings import Settings
from semgraph.llm.stack import Budget, Limiter, RetryPolicy, Stack, innermost
from semgraph.render.header import store as shown
from semgraph.render.machine import Fact
from semgraph.semantic.answers import AnswerSchema, Invalid, parse
from semgraph.session.session import Session
from semgraph.stores.base import Statistics
from semgraph.stores.registry import store_spec

_LEAST_FREE = 2e9


def diagnose(session: Session, *, call: bool, report: Callable[[str], None]) -> Iterator[Fact]:
    """All facts, in the order in which they matter.

    Args:
        session: The session with the settings to examine.
        call: Send one real request to each model and the embedder.
        report: Called before each request.
    """
    settings = session.settings
    yield _python()
    yield from _extras(settings)
    yield from _models(settings, "" if call else ", not tried: semgraph doctor --call tries it")
    if call:
        for spec in dict.fromkeys([*map(settings.model, settings.roles), settings.embedder]):
            report(f"asking {spec} …")
            yield _called(spec, settings)
    yield _store(session)
    yield _disk(settings)
    path = settings.journal_path
    kept = f"{size(session.journal_bytes)} in {path}" if path else "none is kept (keep_days = 0)"
    yield Fact(GOOD, "journal", kept)
    yield from (
        Fact(GOOD, "setting", f"{key} = {value}   ({origin})")
        for key, value, origin in settings.rows()
    )


def _python() -> Fact:
    what = f"{platform.python_version()} on {platform.system()} {platform.machine()}, semgraph {version('semgraph')}"
    if (3, 11) <= sys.version_info[:2] <= (3, 14):
        return Fact(GOOD, "Python", what)
    return Fact(BAD, "Python", what, "semgraph is for Python 3.11 to 3.14")


def _extras(settings: Settings) -> Iterator[Fact]:
    specs = [*map(settings.model, settings.roles), settings.embedder]
    needed = {PROVIDERS[spec.provider].extra for spec in specs}
    needed.add(store_spec(settings.store).extra)
    lacking = {extra: packages for extra in PURPOSES if (packages := missing(extra))}
    here = [extra for extra in PURPOSES if extra not in lacking]
    yield Fact(GOOD, "extras", f"installed: {', '.join(here) or 'none'}")
    for extra in (extra for extra in lacking if extra in needed):
        what = f"{extra}: not installed ({', '.join(lacking[extra])})"
        yield Fact(BAD, "extra", what, f"For {PURPOSES[extra]}: {install(extra)}")
    if others := [extra for extra in lacking if extra not in needed]:
        what = f"not installed, and not needed here: {', '.join(others)}"
        yield Fact(GOOD, "extras", f'{what} (pip install "semgraph[NAME]")')


def _models(settings: Settings, untried: str) -> Iterator[Fact]:
    for role in settings.roles:
        yield _model(role, settings.model(role), settings, untried)
        if role not in (*ROLES, *settings.chosen_roles):
            what = f"a role of your own: only prompts with `role: {role}` use this model"
            remedy = "Rename it in [models] of semgraph.toml if you meant another role"
            yield Fact(NOTE, role, what, remedy)
    yield _model("embedder", settings.embedder, settings, untried)


def _model(role: str, spec: ModelSpec, settings: Settings, untried: str) -> Fact:
    about = "embedder" if role == "embedder" else "model" if role == "default" else role
    try:
        sign, *told = PROVIDERS[spec.provider].doctor(spec, means(settings), untried)
    except SemgraphError as error:
        return Fact(BAD, about, str(error))
    return Fact(sign, about, *told)


def _called(spec: ModelSpec, settings: Settings) -> Fact:
    try:
        return Fact(GOOD, "call", f"{spec}: {asyncio.run(_try(spec, settings))}")
    except (SemgraphError, RowError) as error:
        return Fact(BAD, "call", f"{spec}: {error}")


def _store(session: Session) -> Fact:
    settings = session.settings
    address, spec = settings.store, store_spec(settings.store)
    if not spec.holds_rows(address, settings.cwd):
        return Fact(GOOD, "store", f"{address}: not there yet; the first run that writes makes it")
    if not spec.lasts:
        return Fact(GOOD, "store", f"{address}: empty in each run")
    try:
        statistics = asyncio.run(_statistics(session))
    except SemgraphError as error:
        return Fact(BAD, "store", str(error))
    found = [f"{count(n)} {label}" for label, n in statistics.counts.items() if n]
    counts = ", ".join(found) or "empty"
    lengths = sorted(set(statistics.dimensions.values()))
    vectors = f"; vectors of {' and '.join(map(str, lengths))} dimensions" if lengths else ""
    what = f"{shown(settings)}: {counts}{vectors}"
    length = PROVIDERS[settings.embedder.provider].dimensions(settings.embedder)
    if length and lengths and length not in lengths:
        remedy = f"Name the embedder that made them, or another store: {settings.embedder} gives {length} dimensions"
        return Fact(BAD, "store", what, remedy)
    return Fact(GOOD, "store", what)


async def _statistics(session: Session) -> Statistics:
    async with session:
        return await session.astatistics()


def _disk(settings: Settings) -> Fact:
    folder = models_dir(settings.environment)
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    what = f"{size(free)} free for models in {folder}"
    if free < _LEAST_FREE:
        return Fact(NOTE, "disk", what, "Make room, or set SEMGRAPH_HOME")
    return Fact(GOOD, "disk", what)


_LONGEST = 120.0
_SENTENCE = "Ada lives in Paris."
_ANSWER = AnswerSchema((("city", Type("string")),))
# Nothing in the question suggests the other fields: only an enforced schema brings them.
_ENFORCED = AnswerSchema((*_ANSWER.fields, ("even", Type("boolean")), ("digits", Type("int64"))))
_REQUEST = Request(
    role="default",
    messages=(
        Message("system", "Name the city in the sentence, as JSON."),
        Message("user", _SENTENCE),
    ),
    schema=canonical_json(_ENFORCED.schema),
    max_tokens=2048,  # includes the thinking of a model
    sample=1,  # with a seed
)
_VERDICT = replace(_REQUEST, schema="", max_tokens=16, words=("yes", "no"))


def _read(text: str) -> tuple[str, bool]:
    """The city in an answer, and whether the answer has the whole schema. Raises Invalid."""
    answer = parse(text)
    with suppress(Invalid):
        return _ENFORCED.read(answer, lambda *_: None)["city"], True
    return _ANSWER.read(answer, lambda *_: None)["city"], False


async def _abilities(model: LLM, endpoint: OpenAI, *, whole: bool) -> list[str]:
    """What an endpoint can do: whether its answer had the whole schema, and one more request."""
    schemas = "enforced" if whole else "not enforced: semgraph checks each answer, and asks again"
    if _REQUEST.schema not in endpoint.body(_REQUEST).decode():
        schemas = "in the prompt, not enforced"
    logprobs = "no"
    if endpoint.limits.logprobs is not False:
        try:
            logprobs = "yes" if (await model.complete(_VERDICT)).logprobs else "no"
        except (RowError, ModelUnavailable) as error:
            logprobs = f"unknown ({error})"
    seed = "not sent" if "seed" in endpoint.refused else "sent"
    told = [f"schemas: {schemas}", f"log-probabilities: {logprobs}", f"seed: {seed}"]
    if endpoint.service.batches:
        told.append(f"batches: {'yes' if await endpoint.wire.serves('/batches') else 'no'}")
    return [*told, *endpoint.learned]


async def _ask(model: LLM) -> str:
    """Send a short request, read the answer as a run does, and return the outcome in words, with
    what an endpoint can do, and the parameters that it refused.

    Raises:
        ModelUnavailable: The model does not answer, or ignores the answer schema.
        RowError: The model refused, or the answer was truncated.
    """
    reply, endpoint = await model.complete(_REQUEST), innermost(model)
    text, repair = repaired(reply.text)
    try:
        city, whole = _read(text)
    except Invalid:
        refused = getattr(endpoint, "refused", ())
        forms = [f"?structured={form}" for form in ("tool", "json_object") if form not in refused]
        raise ModelUnavailable(
            f"{model.name} ignores the schema of the answer: it said {reply.text[:60]!r}. Switch structured outputs on "
            f"where it is served{', or add ' * bool(forms)}{' or '.join(forms)}"
        ) from None
    usage = f"{reply.usage.prompt} → {reply.usage.completion} tokens"
    asked = f"asked for the city in “{_SENTENCE}”, it said “{city}” ({usage}, {duration(reply.seconds)})"
    found = [f"repaired: {repair}"] * bool(repair)
    if isinstance(endpoint, OpenAI):
        found += await _abilities(model, endpoint, whole=whole)
    return "; ".join([asked, *found])


async def _embed(embedder: Embedder) -> str:
    """Embed a sentence and return the outcome in words. Raises as `Embedder.embed` does."""
    began = time.monotonic()
    embeddings = await embedder.embed([_SENTENCE])
    for error in embeddings.failed.values():
        raise error
    took = duration(time.monotonic() - began)
    return f"{plural(embeddings.vectors.shape[1], 'dimension')} ({took})"


async def _try(spec: ModelSpec, settings: Settings) -> str:
    """Call a model or an embedder once, and close it.

    The call may take `max_seconds`; without this limit, an endpoint may take two minutes.

    Raises:
        SemgraphError: It does not answer, or its answer is invalid. `BudgetReached`: it takes too
            long.
    """
    longest = None if PROVIDERS[spec.provider].service is None else _LONGEST
    budget = Budget(max_seconds=settings.limits.max_seconds or longest)
    stack = Stack(RetryPolicy(attempts=1), budget)
    wrap, ask = (stack.model, _ask) if spec.kind == "model" else (stack.embedder, _embed)
    endpoint: Any = wrap(build(spec, settings), Limiter())
    try:
        return await ask(endpoint)
    finally:
        await endpoint.aclose()


def try_local(model: CatalogueModel) -> str:
    """Load a local model and let it answer. Raises as `_try` does."""
    key = "llm" if model.kind == "model" else "embedder"
    settings = Settings.load({key: f"local:{model.name}"})
    spec = settings.model() if model.kind == "model" else settings.embedder
    return asyncio.run(_try(spec, settings))


def nothing_deleted(groups: Sequence[str], journal: Path | None, *, configured: bool) -> str:
    """The reason why a journal held no answers of the groups.

    Args:
        groups: The groups.
        journal: The journal's file; None: no journal is kept.
        configured: Whether the command named a configuration, which may name another journal.
    """
    if journal is None:
        return "nothing deleted: no journal is kept here (keep_days = 0)"
    names = ", ".join(f'"{group}"' for group in groups)
    holds = f"{journal} holds nothing of {names}"
    why = holds if journal.exists() else f"there is no journal at {journal}"
    hint = ". If your runs use another configuration, name it: --config FILE"
    return f"nothing deleted: {why}{'' if configured else hint}"
