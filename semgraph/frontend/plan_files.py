"""Plan files of a folder: search, list, check and copy; and their comments, which describe inputs,
parameters, presets and steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from semgraph.errors import Fault, PlanError, Problem, among
from semgraph.folders import plans_folder
from semgraph.formats import plural
from semgraph.frontend.calls import declared_inputs
from semgraph.frontend.document import (
    NAME_HINT,
    Document,
    Trail,
    find_plan,
    inside,
    is_file,
    read_file,
    read_text,
    shown,
    walk_paths,
)
from semgraph.frontend.functions import Functions
from semgraph.frontend.graph_files import read_graph
from semgraph.frontend.kinds import whole_parameter
from semgraph.frontend.load import load_document
from semgraph.frontend.prompt_files import front_of
from semgraph.logical.node import walk
from semgraph.logical.plan import Choice, LogicalPlan
from semgraph.logical.prompt import Prompt
from semgraph.logical.schema import NAME
from semgraph.logical.semantic import Semantic

_OWN = Path("plans")


@dataclass(frozen=True)
class PlanFile:
    """A plan file, loaded on first use."""

    path: Path
    shipped: bool
    functions: tuple[Path, ...] = ()  # folders

    @cached_property
    def name(self) -> str:
        """The name for commands and calls; for a plan outside of the folders of plans, its path."""
        for folder in (_OWN, plans_folder()):
            if (path := self.path.resolve()).is_relative_to(folder.resolve()):
                return path.relative_to(folder.resolve()).with_suffix("").as_posix()
        return str(self.path)

    @property
    def folder(self) -> str:
        """The outermost folder in its name: `a` of `a/b/plan`, "" of `plan`."""
        return self.name.rpartition("/")[0].partition("/")[0]

    @cached_property
    def plan(self) -> LogicalPlan:
        """The checked plan. Raises PlanError."""
        return self.load()

    def load(self, **options: Any) -> LogicalPlan:
        """The plan with other options of `load_plan`. Raises PlanError."""
        return load_document(read_file(self.path), self.path, functions=self._functions, **options)

    @cached_property
    def notes(self) -> Notes:
        """Its comments. Raises PlanError."""
        return Notes(read_text(self.path), read_file(self.path))

    @cached_property
    def _functions(self) -> Functions:
        return Functions(self.functions)

    @cached_property
    def semantic(self) -> list[Semantic]:
        """The semantic nodes, including those of called plans."""
        return [node for node in walk(*self.plan.steps.values()) if isinstance(node, Semantic)]

    @property
    def prompts(self) -> list[Prompt]:
        """All prompts, each once."""
        by_name = {prompt.name: prompt for node in self.semantic for prompt in node.prompt.all}
        return list(by_name.values())


def plan_file(ref: str, functions: tuple[Path, ...] = ()) -> PlanFile:
    """A plan by name or path, with the folders of functions that it may call. Raises PlanError."""
    return PlanFile(*find_plan(ref), functions)


def listed(functions: tuple[Path, ...] = ()) -> list[PlanFile]:
    """The plans in `./plans` and its folders, and the shipped plans that these do not hide."""
    files: dict[str, PlanFile] = {}
    for folder, is_shipped in ((_OWN, False), (plans_folder(), True)):
        shipped = is_shipped or folder.resolve() == plans_folder().resolve()
        for file in (PlanFile(path, shipped, functions) for path in _yaml_in(folder)):
            if file.name not in files and is_plan(file.path):
                files[file.name] = file
    return list(files.values())


def _yaml_in(folder: Path) -> list[Path]:
    """The YAML files of a folder, then the files of its subfolders, without hidden files."""
    paths = [path.relative_to(folder) for path in folder.rglob("*.yaml")]
    visible = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
    return [folder / path for path in sorted(visible, key=lambda path: (len(path.parts) > 1, path))]


def callers(files: Sequence[PlanFile]) -> dict[str, tuple[str, ...]]:
    """The plans that other plans of their folder call, or name in the `use` of a preset, each with
    its callers.

    Plans with their own windowed input are left out: for example add_episode is called, but is no
    part of another plan. A plan with errors calls nothing.
    """
    by_path = {file.path.resolve(): file for file in files}
    windowed: set[str] = set()
    found: dict[str, set[str]] = {}
    for file in files:
        try:
            plan = file.plan
        except PlanError:
            continue
        if plan.windows is not None:
            windowed.add(file.name)
        for ref in _named_plans(plan):
            with suppress(PlanError):  # an implementation
                called = by_path.get(find_plan(ref, (file.path.parent,))[0].resolve())
                if called is not None and called.folder == file.folder:
                    found.setdefault(called.name, set()).add(file.name)
    return {name: tuple(sorted(by)) for name, by in found.items() if name not in windowed}


def _named_plans(plan: LogicalPlan) -> Iterator[str]:
    """The plans that a plan itself calls, and the plans that its presets substitute for them."""
    own = [call for step, call in plan.called.items() if "/" not in step]
    yield from (call.plan for call in own)
    yield from (choice.name for choice in plan.replaced.values())
    for preset in (plan.document.get("presets") or {}).values():
        for value in preset.get("use", {}).values():
            yield Choice.parse(value).name


def is_plan(path: Path) -> bool:
    """Whether a file is meant to be a plan; an unreadable file counts as one."""
    try:
        data = read_file(path).data
    except PlanError:
        return True  # listed with its problems
    return isinstance(data, dict) and "plan" in data and "made_of" not in data  # a choice of tune


def copied(
    ref: str, folder: Path, functions: tuple[Path, ...] = (), only: Sequence[str] = ()
) -> list[Path]:
    """Copy a plan with all files that it needs, so that the copy can be changed; or `only` some of
    these files, such as `prompts/judge_fact`.

    Returns the written files. Existing files with the same content are unchanged, and so are schemas.
    Raises PlanError, before anything is written, also if a file exists with other content.
    """
    texts: dict[Path, bytes] = {}
    _gather(plan_file(ref, functions), texts)
    if only:
        named = {inner.with_suffix("").as_posix(): inner for inner in texts}
        names = [name.removesuffix(".md").removesuffix(".yaml") for name in only]
        for name in names:
            if name not in named:
                beside = [each for each in named if Path(each).parent == Path(name).parent]
                known = among(name, sorted(beside or named), "files")
                raise PlanError(f'{ref} has no file "{name}"', **known)
        texts = {named[name]: texts[named[name]] for name in names}
    targets = {folder / inner: text for inner, text in texts.items()}
    changed = [
        path
        for path, text in targets.items()
        if path.parent != folder / SCHEMAS and path.exists() and path.read_bytes() != text
    ]
    if changed:
        there = ", ".join(str(path) for path in changed)
        hint = "name another folder, or delete them first"
        raise PlanError("files are there already, with another content", there=there, hint=hint)
    new = [path for path in targets if not path.exists()]
    for path in new:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(targets[path])
    return new


def created(name: str) -> Path:
    """Write ./plans/NAME.yaml, a commented plan with an example. Raises PlanError for a bad name."""
    name = name.removesuffix(".yaml")
    file = _OWN / f"{name}.yaml"
    if not NAME.match(name):
        raise PlanError(f'"{name}" is no name of a plan', hint=f"use {NAME_HINT}")
    for there in (file, plans_folder() / file.name):
        if there.exists():
            raise PlanError(f"{there} exists already", hint="use a different name")
    _OWN.mkdir(exist_ok=True)
    file.write_text(_NEW.replace("NAME", name), encoding="utf-8")
    return file


_NEW = """\
plan: NAME
doc: The defects that reviews report, each with its product.  # what `plans list` shows
inputs:  # rows of your own: semgraph run NAME -i reviews=FILE.csv (or .jsonl, .parquet)
  reviews: {id: string, text: string}
params: {least: 10}  # characters of a review that is read: --set least=40
steps:  # each step reads inputs and earlier steps
  long: [{from: reviews}, {filter: length(text) >= $least}]  # SQL; no model
  complaints:
    - from: long
    - sem_filter: Does “{text}” report a defect?  # {text} is a column; the model sees no other
  read:
    - from: complaints
    - sem_map:
        prompt: Which product does “{text}” complain about, and in which tone?
        returns: {product: string null, tone: "enum<angry, calm>"}
returns: [read]
example:  # what runs when no input is given
  inputs:
    reviews:
      - {id: a, text: The Falcon kettle leaks since Monday!}
      - {id: b, text: "A lovely lamp, warm light."}
      - {id: c, text: My headphones broke after a week.}
      - {id: d, text: Nice.}
"""


def _prompt_files(document: Mapping[str, Any], home: Path) -> Iterator[Path]:
    """The prompts of all steps, including prompts that only other parameter values use."""
    for _, value in walk_paths(document):
        if isinstance(value, dict) and (prompt := value.get("prompt")):
            named = prompt if isinstance(prompt, dict) else {"": prompt}
            for name in (str(name) for key, name in named.items() if key != "on"):
                path = home / "prompts" / f"{name}.md"
                if not re.search(r"[\s{]", name) and inside(path, (home,)) and path.is_file():
                    yield path


def _example_files(plan: Mapping[str, Any], home: Path, prompts: Sequence[Path]) -> Iterator[Path]:
    params = plan.get("params") or {}
    steps = [(home, value) for _, value in walk_paths(plan) if isinstance(value, dict)]
    for folder, keys in [*steps, *((path.parent, front_of(path).data) for path in prompts)]:
        value = keys.get("examples")
        value = value.get("file") if isinstance(value, dict) else value
        path = folder / str(params.get(whole_parameter(value), value))
        if is_file(path) and inside(path, (home,)):
            yield path


def _gather(file: PlanFile, texts: dict[Path, bytes]) -> None:
    """Collect the files of a plan and of its called plans, by path relative to the plan's folder."""
    home = file.path.resolve().parent
    if Path(file.path.name) in texts:
        return
    _take(file.path, Path(file.path.name), texts)
    for recording in sorted((home / "recordings").glob(f"{file.plan.name}.jsonl*")):
        texts[Path("recordings", recording.name)] = recording.read_bytes()
    document = file.plan.document
    own = home / str(document.get("graph") or "")
    beside = [own] if own.is_file() else []  # a shipped graph by name is no file here
    prompts = [*_prompt_files(document, home)]
    beside += [*prompts, *_example_files(document, home, prompts)]
    for path in beside:
        inner = path.relative_to(home) if path.is_relative_to(home) else Path(path.name)
        _take(path, inner, texts)
    for name in _plans_named(file):
        _gather(PlanFile(find_plan(name, (home,))[0], file.shipped, file.functions), texts)


def _take(path: Path, inner: Path, texts: dict[Path, bytes]) -> None:
    """Collect a file, to be copied to `inner`, and the schema of its first line, if it is there."""
    texts[inner] = path.read_bytes()
    first, _, rest = texts[inner].partition(b"\n")
    match = SCHEMA_LINE.match(first.decode(errors="replace"))
    if match is not None and "://" not in match["schema"]:
        schema = path.resolve().parent / match["schema"]
        if inside(schema, (path.parent, plans_folder())) and schema.is_file():
            place = Path(SCHEMAS, schema.name)
            texts[inner] = f"{schema_line(place, inner)}\n".encode() + rest
            texts[place] = schema.read_bytes()
        else:
            texts[inner] = rest


def _plans_named(file: PlanFile) -> Iterator[str]:
    """The plans that a plan calls, in any form of its steps, and the plans that presets substitute."""
    document = file.plan.document
    for _, value in walk_paths(document):
        if isinstance(value, dict) and isinstance(call := value.get("call"), dict):
            yield str(call["plan"])
    for preset in (None, *(document.get("presets") or ())):
        plan = file.plan if preset is None else file.load(preset=preset)
        yield from (choice.name for choice in plan.replaced.values())


@dataclass(frozen=True)
class CalledPlan:
    """A call of a plan: its interface, and the plans that can replace the plan it names."""

    step: str
    plan: str
    inputs: tuple[str, ...]  # optional ones end with `?`
    params: tuple[str, ...]
    results: tuple[str, ...]
    fitting: tuple[str, ...]  # the plans in its folder that fit


def called_plans(file: PlanFile) -> list[CalledPlan]:
    """The calls of a plan and of its called plans. Raises PlanError."""
    home = file.path.resolve().parent
    return [_called_plan(file, home, step, call.plan) for step, call in file.plan.called.items()]


def other_ways(plan: LogicalPlan) -> Iterator[tuple[str, str]]:
    """The calls of a loaded plan, each with the plans that do the same in its place: they fit, return all
    results of the plan that the call names, and the plan calls them nowhere.
    """
    home, known = Path(plan.file).resolve().parent, cache(_interface)
    called = {Path(call.by.name if call.by else call.plan).stem for call in plan.called.values()}
    for step, call in plan.called.items():
        path = find_plan(call.plan, (home,))[0]
        files = {f.stem: f for folder in (_OWN, path.parent) for f in folder.glob("*.yaml")}
        _, inputs, results = known(path)
        for name in sorted(files.keys() - called):
            needed, _, own = known(files[name])
            if results and results <= own and needed <= inputs:
                with suppress(PlanError):
                    plan.using({step: name})
                    yield step, name


def _called_plan(file: PlanFile, home: Path, step: str, name: str) -> CalledPlan:
    path = find_plan(name, (home,))[0]
    reference = PlanFile(path, file.shipped, file.functions).plan
    inputs = tuple(f"{n}{'?' if spec.optional else ''}" for n, spec in reference.inputs.items())
    fitting = tuple(
        other.stem
        for other in sorted(path.parent.glob("*.yaml"))
        if other != path and _may_fit(other, reference) and _fits(file, step, other.stem)
    )
    params, results = tuple(reference.params), tuple(reference.returns)
    return CalledPlan(step, name, inputs, params, results, fitting)


def _may_fit(path: Path, reference: LogicalPlan) -> bool:
    """Whether a plan's text requires only inputs of the reference, and has some results of it."""
    needed, _, results = _interface(path)
    return needed <= set(reference.inputs) and bool(results & set(reference.returns))


def _interface(path: Path) -> tuple[set[str], set[str], set[str]]:
    """The required inputs, all inputs and the results that a plan's text declares; none of no plan."""
    with suppress(PlanError, Fault):
        if is_plan(path):
            inputs = declared_inputs(data := read_file(path).data)
            needed = {name for name, optional in inputs.items() if not optional}
            return needed, {*inputs}, {str(r).rpartition(".")[2] for r in data.get("returns") or ()}
    return set(), set(), set()


def _fits(file: PlanFile, step: str, name: str) -> bool:
    try:
        file.load(use={step: name})
    except PlanError:
        return False
    return True


@dataclass(frozen=True)
class PlanCheck:
    """The outcome of checking a file."""

    file: str
    ok: str
    problems: tuple[str, ...]
    kind: str = "plan"
    warnings: tuple[str, ...] = ()


def files_in(names: Sequence[str]) -> list[Path]:
    """The named plan files, and the plan files in named folders. Raises PlanError."""
    paths: list[Path] = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            paths += [p for p in sorted(path.glob("*.yaml")) if is_plan(p)]
        elif path.is_file():
            paths.append(path)
        elif "/" not in name and not name.endswith((".yaml", ".yml")):
            paths.append(find_plan(name)[0])
        else:
            what = f"{name}: there is no such file or folder"
            raise PlanError(what, hint="see semgraph plans list")
    if not paths:
        hint = "a plan is a .yaml file with the key plan"
        raise PlanError(f"{', '.join(names)}: there is no plan", hint=hint)
    return paths


def checked(
    path: Path, check_choices: Callable[[LogicalPlan], object], functions: tuple[Path, ...] = ()
) -> PlanCheck:
    """Load a graph, or a plan with each of its presets, and report all errors, also those of
    `check_choices`: of unknown and unsuitable implementations.
    """
    graph = not is_plan(path) and "nodes" in (read_file(path).data or ())
    kind = "graph" if graph else "plan"
    try:
        if kind == "graph":
            return PlanCheck(shown(path), _graph(path), (), kind)
        ok, warnings = _plan(PlanFile(path, shipped=False, functions=functions), check_choices)
        return PlanCheck(shown(path), ok, (), kind, tuple(map(str, warnings)))
    except PlanError as error:
        return PlanCheck(shown(path), "", tuple(dict.fromkeys(map(str, error.problems))), kind)


def _graph(path: Path) -> str:
    graph = read_graph(path)
    return f"a graph: {plural(len(graph.nodes), 'label')} of nodes, {len(graph.edges)} of edges"


def _plan(
    file: PlanFile, check_choices: Callable[[LogicalPlan], object]
) -> tuple[str, tuple[Problem, ...]]:
    """A summary of a plan, and the warnings about it and its presets. Raises PlanError."""
    plan = file.plan
    warnings: dict[Problem, None] = {}
    for loaded in (
        plan,
        *(file.load(preset=preset) for preset in plan.document.get("presets") or {}),
    ):
        warnings |= dict.fromkeys(loaded.warnings)
        named = [node for node in walk(*loaded.roots) if node.swappable and not node.calls_model]
        if loaded.use or named:  # references support everything
            check_choices(loaded)
    writes = len(plan.writes) + bool(plan.schema_write)
    made_of = f"{plural(len(plan.steps), 'step')}, {len(file.semantic)} semantic, {plural(writes, 'write')}"
    return made_of, tuple(warnings)


# The comment by which an editor finds the schema of a file.
SCHEMA_LINE = re.compile(r"# yaml-language-server: \$schema=(?P<schema>\S+)\Z")
SCHEMAS = "schemas"  # the folder of the schemas, beside plans


def schema_line(schema: Path, file: Path) -> str:
    """The first line of a file, naming its schema.

    >>> schema_line(Path("schemas/plan.json"), Path("memories/raptor/read.yaml"))
    '# yaml-language-server: $schema=../../schemas/plan.json'
    """
    ups = [".."] * (len(file.parts) - 1)
    return f"# yaml-language-server: $schema={'/'.join([*ups, schema.as_posix()])}"


class Notes:
    """The comments of a plan file: at its head, and of keys, on their lines or above them."""

    def __init__(self, text: str, document: Document) -> None:
        self._lines = text.splitlines()
        self._document = document
        head = [line for line in self._lines[: self._top()] if not SCHEMA_LINE.match(line)]
        self.head = [line.lstrip("# ") for line in head]

    def _top(self) -> int:
        return next((i for i, line in enumerate(self._lines) if not line.startswith("#")), 0)

    @property
    def params(self) -> dict[str, str]:
        """The description of each parameter; "" if the plan has none."""
        return {name: self.at("params", name) for name in self._document.data.get("params") or ()}

    @property
    def presets(self) -> dict[str, str]:
        """The description of each preset: its `doc`, or its comment."""
        presets = self._document.data.get("presets") or {}
        return {
            name: " ".join(body.get("doc", "").split()) or self.at("presets", name)
            for name, body in presets.items()
        }

    def at(self, *path: str | int) -> str:
        """The comment of a key; "" if it has none, or is not the first on its line."""
        key_path: Trail = path
        position = self._document.keys.get(key_path)
        if position is None:
            return ""
        row = position[0] - 1
        line = self._lines[row]
        if line[: position[1] - 1].strip(" \"'"):
            return ""
        above: list[str] = []
        while row > self._top() and (text := self._lines[row - 1].strip()).startswith("#"):
            above.insert(0, text.lstrip("# "))
            row -= 1
        return _comment(line) or " ".join(above)


def _comment(line: str) -> str:
    quote = ""
    for i, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and line[i - 1 : i].isspace():
            return line[i + 1 :].strip()
    return ""
