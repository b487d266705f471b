"""The first lines of a run: plan, input, model, embedder and store; `-v` says where each was set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from os import sep
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from semgraph.errors import PlanError
from semgraph.folders import plans_folder
from semgraph.formats import plural, size
from semgraph.frontend.document import find_plan, read_file
from semgraph.frontend.row_files import LoadedInput
from semgraph.llm.base import ModelSpec
from semgraph.llm.providers import PROVIDERS
from semgraph.llm.recording import recording_file
from semgraph.llm.settings import Settings
from semgraph.logical.plan import LogicalPlan
from semgraph.options import RunOptions
from semgraph.stores.registry import store_spec

if TYPE_CHECKING:
    from semgraph.llm.catalogue import CatalogueModel


OWN_TEXT = "..."  # in a command: a text of the user's
_DEFAULTS = RunOptions()
_NEXT = 1


class HeaderFact(NamedTuple):
    """What a run uses: a word for it, the text, and where that was set."""

    word: str
    text: str
    origin: str = ""


def header(
    plan: LogicalPlan,
    typed: str,
    inputs: Mapping[str, LoadedInput],
    settings: Settings,
    requested: RunOptions = _DEFAULTS,
    *,
    every: bool = False,
) -> Iterator[str]:
    """Two lines for a plan, as `typed` by the user: what runs, and with what. With `every` a line for each
    fact, with its origin. Without inputs the run has those of the resumed run, or the plan's example.
    """
    rows, means = list(_inputs(plan, inputs, requested)), list(_means(plan, settings, requested))
    if every:
        first = HeaderFact("plan", f"{plan.name} ({_where(typed)})")
        for word, text, origin in (first, *rows, *means):
            yield f"{word:<6} {text}" + (f"   ({origin})" if origin else "")
        return
    name, texts, beside = plan.name, [each.text for each in rows], f"{Path(plan.file).parent}{sep}"
    if Path(beside).is_absolute() and any(text.startswith(beside) for text in texts):  # a data set
        name, texts = f"{name} in {beside}", [text.removeprefix(beside) for text in texts]
    yield " · ".join((name, *texts))
    named = (each.text if each.word == "model" else f"{each.word} {each.text}" for each in means)
    yield " · ".join(named)


def _means(plan: LogicalPlan, settings: Settings, requested: RunOptions) -> Iterator[HeaderFact]:
    """The models and the store."""
    needs = plan.needs
    for role in dict.fromkeys(map(settings.role, needs.roles)):
        model = settings.bound(role)
        name = "model" if role == "default" or model.origin == "use" else role
        yield HeaderFact(name, described(model.value, plan, settings), model.origin)
    if not needs.roles:
        yield HeaderFact("model", "no language model")
    if needs.embeds:
        origin = settings["models.embed"].origin
        yield HeaderFact("embed", described(settings.embedder, plan, settings), origin)
    if needs.stores or plan.writes:
        yield HeaderFact("store", store(settings), settings["store"].origin)
    if plan.writes and not requested.writes:
        stop = f", and stop after step {requested.until}" if requested.until else ""
        yield HeaderFact("write", f"nothing{stop}")


def _inputs(
    plan: LogicalPlan, inputs: Mapping[str, LoadedInput], requested: RunOptions
) -> Iterator[HeaderFact]:
    for each in inputs.values():
        if isinstance(each.rows, str):
            every = f"all {_partition(plan).removesuffix('_id')}s"
            yield HeaderFact("input", f"{each.source}: {every}")
            continue
        named = _partition(plan) in each.rows.column_names
        values = each.rows.column(_partition(plan)).to_pylist() if named else []
        counted = f"{plural(each.rows.num_rows, 'row')} of {each.name}{_of(plan, values)}"
        yield HeaderFact("input", f"{each.source}: {counted}{_first(plan, each.name, requested)}")
    if not inputs and requested.resume is not None:
        yield HeaderFact("input", f"that of run {requested.resume}")
    elif not inputs:
        for name, rows in ((plan.document.get("example") or {}).get("inputs") or {}).items():
            values = [row.get(_partition(plan)) for row in rows if _partition(plan) in row]
            counted = f"{plural(len(rows), 'row')} of {name}{_of(plan, values)}"
            first = _first(plan, name, requested)
            yield HeaderFact("input", f"the plan's example: {counted}{first}")


def _first(plan: LogicalPlan, name: str, requested: RunOptions) -> str:
    """A note if only the first rows are used."""
    cut = requested.rows is not None and (plan.windows is None or plan.windows.input == name)
    return f"; only the first {requested.rows} (--rows)" if cut else ""


def _where(typed: str) -> str:
    path, shipped = find_plan(typed)
    folder = Path(typed).parent
    if shipped and not Path(typed).exists():
        beside = "" if folder == Path() or folder.exists() else f"; there is no ./{folder} here"
        return f"shipped with semgraph {version('semgraph')}{beside}"
    return str(path)


def _partition(plan: LogicalPlan) -> str:
    return plan.windows.partition if plan.windows else plan.graph.partition


def _of(plan: LogicalPlan, values: Sequence[str | None]) -> str:
    """The partitions of the rows, by name if there is only one."""
    partitions = sorted({value or "" for value in values})
    called = _partition(plan).removesuffix("_id")
    if partitions in ([], [""]):
        return ""
    several = f" of {len(partitions)} {called}s"
    return f' of {called} "{partitions[0]}"' if len(partitions) == 1 else several


def following(plan: LogicalPlan, typed: str, *, own_rows: bool = False) -> dict[str, str]:
    """Plans with examples that build on this plan: the command arguments, and a description.
    After a run over the user's rows, these plans need such rows, too: their examples would write
    other ones.
    """
    folder = find_plan(typed)[0].parent
    sentences = {}
    for path in sorted(folder.glob("*.yaml"), key=lambda path: (path.stem != "search", path)):
        try:
            data = read_file(path).data
        except PlanError:
            continue  # reported when that plan is run
        if isinstance(data, dict) and plan.name in ((data.get("example") or {}).get("after") or ()):
            if data.get("writes"):
                continue  # never suggest a plan that changes the store
            name = str(Path(typed).parent / path.name) if "/" in typed else path.stem
            if own_rows:
                optional = data.get("optional") or ()
                inputs = (data.get("inputs") or {}).items()
                needed = {each: columns for each, columns in inputs if each not in optional}
                name += "".join(f" -i {each}={_own(columns)}" for each, columns in needed.items())
            sentences[name] = _sentence(str(data.get("doc") or ""))
    return dict(islice(sentences.items(), _NEXT))


def _own(columns: Mapping[str, Any]) -> str:
    """What stands for rows of an input in a command: a text, if one of its columns has to be one."""
    return OWN_TEXT if [*columns.values()].count("string") == 1 else "FILE"


def graph_words(plan: LogicalPlan) -> str:
    """The option that names the graph of a plan of a file, unless it is the default."""
    file = (Path(plan.file).parent / str(plan.document.get("graph"))).resolve()
    own, shipped = Path("plans", "graph.yaml"), plans_folder()
    if file == (own if own.exists() else shipped / "graph.yaml").resolve():
        return ""
    if file.is_relative_to(shipped.resolve()):
        return f" --graph {file.relative_to(shipped.resolve()).with_suffix('').as_posix()}"
    return f" --graph {quote(str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file))}"


def _sentence(doc: str) -> str:
    """The first sentence of a text, on one line."""
    return " ".join(re.split(r"[.:;](?:\s|$)", doc.strip(), maxsplit=1)[0].split())


def described(spec: ModelSpec, plan: LogicalPlan, settings: Settings) -> str:
    """A model in words; for a recording, the recorded model and the date."""
    recording = recording_file(spec.model, settings.cwd) if spec.model else plan.recording
    return PROVIDERS[spec.provider].describe(spec, recording)


def store(settings: Settings) -> str:
    """The store in words; for a file, whether it exists."""
    return store_spec(settings.store).describe(settings.store, settings.cwd)


def missing(plan: LogicalPlan, settings: Settings) -> list[CatalogueModel]:
    """The local models that the plan needs and that are not on disk."""
    from semgraph.llm.catalogue import on_disk

    needs = plan.needs
    specs = list(map(settings.model, needs.roles)) + [settings.embedder] * needs.embeds
    files = (PROVIDERS[spec.provider].files(spec) for spec in specs)
    models = {model.name: model for model in files if model is not None}
    return [model for model in models.values() if not on_disk(model, settings.environment)]


def announcement(
    models: list[CatalogueModel], plan: LogicalPlan, settings: Settings
) -> Iterator[str]:
    """Lines printed before models are downloaded: size, licence, folder, and the alternative."""
    from semgraph.llm.catalogue import models_dir

    total = size(sum(model.size for model in models))
    licences = ", ".join(dict.fromkeys(model.licence for model in models))
    names = " and ".join(model.name for model in models)
    folder = str(models_dir(settings.environment)).replace(str(Path.home()), "~")
    yield ""
    yield f"Not here yet: {names}, {total}, once, {licences}, to {folder}"
    yield "Ctrl-C stops the download; the next run resumes it."
    if recordings(plan):
        yield "No time? Add --llm recorded: replays answers shipped with the plan, nothing is downloaded."


def recordings(plan: LogicalPlan) -> bool:
    """Whether recorded answers to the plan's example are shipped."""
    return plan.recording.is_file()
