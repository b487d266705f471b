"""The first lines of a run: which plan, input, model, embedder and store, and where each choice came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from semgraph.llm.config import Settings
from semgraph.llm.specs import ModelSpec
from semgraph.logical.graph import Search
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.semantic import Semantic
from semgraph.logical.sinks import Merge
from semgraph.report.formats import plural, size

if TYPE_CHECKING:
    import pyarrow as pa

    from semgraph.llm.models import Model


@dataclass(frozen=True)
class Needs:
    """What a plan asks of the world outside: models by role, an embedder, a store."""

    roles: tuple[str, ...]
    embeds: bool
    stores: bool

    @classmethod
    def of(cls, plan: LogicalPlan) -> Needs:
        """The needs of a plan, its choices of models included."""
        nodes = list(walk(*plan.roots))
        asking = [node for node in nodes if isinstance(node, Semantic)]
        roles = {prompt.role for node in asking for prompt in node.prompt.all}
        roles |= {str(value) for choice in plan.use.values() for name, value in choice.params if name == "model"}
        near = any(by.via == "nearest" for node in nodes if isinstance(node, Search) for by in node.by)
        writes = any(isinstance(sink, Merge) and sink.label.vectors for sink in plan.writes)
        stores = any(node.calls_store for node in nodes)
        return cls(tuple(sorted(roles, key=lambda role: (role != "default", role))), near or writes, stores)


@dataclass(frozen=True)
class Where:
    """Where a plan came from: what was typed, the file, whether it is a shipped one."""

    typed: str
    path: Path
    shipped: bool

    def __str__(self) -> str:
        if not self.shipped:
            return str(self.path)
        folder = Path(self.typed).parent
        beside = "" if folder == Path() or folder.exists() else f"; there is no {folder} here"
        return f"shipped with semgraph{beside}"


def header(
    plan: LogicalPlan, where: Where, given: Mapping[str, tuple[str, pa.Table]], settings: Settings
) -> Iterator[str]:
    """The lines.

    Args:
        plan: The prepared plan.
        where: Where it came from.
        given: For each input, what to call where its rows came from, and the rows.
        settings: As resolved.
    """
    needs = Needs.of(plan)
    yield f"plan   {plan.name} ({where})"
    for source, rows in given.values():
        yield f"input  {source}: {plural(rows.num_rows, 'row')}{_whose(plan, rows)}"
    if not given:
        yield "input  none: this plan has no inputs"
    for role in needs.roles:
        origin = settings.values.get(f"models.{role}", settings["models.default"]).origin
        name = "model " if role == "default" else f"{role:<6}"
        yield f"{name} {described(settings.model(role))}   ({origin})"
    if not needs.roles:
        yield "model  none: this plan asks no language model"
    if needs.embeds:
        yield f"embed  {described(settings.embedder)}   ({settings['models.embed'].origin})"
    if needs.stores:
        yield f"store  {store(settings)}   ({settings['store'].origin})"


def _whose(plan: LogicalPlan, rows: pa.Table) -> str:
    """Which partitions the rows belong to: by name if it is one."""
    name = plan.order.partition if plan.order else plan.graph.partition
    if name not in rows.column_names or not rows.num_rows:
        return ""
    found = sorted({value or "" for value in rows.column(name).to_pylist()})
    called = name.removesuffix("_id")
    return f' of {called} "{found[0]}"' if len(found) == 1 else f" of {len(found)} {called}s"


def described(spec: ModelSpec) -> str:
    """A model in words."""
    if spec.provider == "local":
        from semgraph.llm.cpu import default_threads

        model = local(spec)
        threads = spec.option("threads") or default_threads()
        return f"local {model.name}, {model.parameters}, {plural(threads, 'CPU thread')}"
    return str(spec)


def local(spec: ModelSpec) -> Model:
    """The catalogue's entry of a local model or embedder. Raises PlanError."""
    from semgraph.llm.models import DEFAULT_EMBEDDER, DEFAULT_MODEL, find

    return find(spec.model or (DEFAULT_MODEL if spec.kind == "model" else DEFAULT_EMBEDDER), spec.kind)


def store(settings: Settings) -> str:
    """The store in words: for a file whether it is there already."""
    kind, _, path = settings.store.partition(":")
    if kind != "sqlite":
        return {"memory": "memory: gone when this ends"}.get(settings.store, settings.store)
    file = Path(path)
    shown = file.relative_to(settings.cwd) if file.is_relative_to(settings.cwd) else file
    return f"{shown} ({f'SQLite, {size(file.stat().st_size)}' if file.exists() else 'new, SQLite'})"


def missing(plan: LogicalPlan, settings: Settings) -> list[Model]:
    """The local models that a run of the plan needs and that are not on this machine yet."""
    from semgraph.llm.models import on_disk

    needs = Needs.of(plan)
    specs = [settings.model(role) for role in needs.roles] + ([settings.embedder] if needs.embeds else [])
    models = {m.name: m for m in (local(spec) for spec in specs if spec.provider == "local")}
    return [model for model in models.values() if not on_disk(model, settings.environment)]


def announcement(models: list[Model], settings: Settings, *, recorded: bool) -> Iterator[str]:
    """What is said before models are fetched: how much, whose, where to, and what to do instead."""
    from semgraph.llm.models import models_dir

    total = size(sum(model.size for model in models))
    licences = ", ".join(dict.fromkeys(model.licence for model in models))
    names = " and ".join(model.name for model in models)
    folder = str(models_dir(settings.environment)).replace(str(Path.home()), "~")
    yield ""
    yield f"Not here yet: {names}, {total}, once, {licences}, to {folder}"
    yield "Ctrl-C stops, a later run goes on from there."
    if recorded:
        yield "No time? Add --llm recorded: replays answers shipped with the plan, nothing is downloaded."
