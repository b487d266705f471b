"""The head of a plan: parameters, presets, graph, inputs, windows, choices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from semgraph.display import command
from semgraph.errors import (
    Collected,
    Fault,
    Faults,
    PlanError,
    Position,
    Problem,
    among,
    did_you_mean,
    each,
)
from semgraph.expr.scalar import NOW, parse_scalar, reserved
from semgraph.expr.types import Type, parse_type
from semgraph.frontend import kinds
from semgraph.frontend.build import shared_node
from semgraph.frontend.document import (
    NAME_HINT,
    Document,
    KeyFault,
    Trail,
    mapping,
    require_inside,
    unknown,
    wrong,
)
from semgraph.frontend.functions import Functions
from semgraph.frontend.graph_files import graph_file, read_graph
from semgraph.frontend.kinds import (
    CHOICE,
    RELATION,
    Key,
    Keys,
    Pruned,
    at_key,
    unknown_parameter,
    whole_parameter,
)
from semgraph.logical.node import Node
from semgraph.logical.plan import ALL, POSITION, TUNED, TURN, Choice, InputSpec, Windowing
from semgraph.logical.relational import Input
from semgraph.logical.schema import NAME, Graph

T = TypeVar("T")
_UNORDERED = (pa.types.is_list, pa.types.is_struct, pa.types.is_fixed_size_list)


def _name_of_plan(value: Any) -> str:
    if not isinstance(value, str) or not NAME.match(value):
        raise Fault(f'"{value}" cannot name a plan', hint="letters, digits and _")
    return value


def read_inputs(value: Any) -> tuple[dict[str, InputSpec], Collected]:
    """The valid declared inputs, and the faults of the other inputs. Raises Fault."""
    specs: dict[str, InputSpec] = {}
    faults = Collected()
    for name, columns in mapping(value, "a mapping of inputs").items():
        with faults.at(name):
            if not NAME.match(name):
                raise KeyFault(f'"{name}" cannot name an input', hint="letters, digits and _")
            specs[name] = InputSpec(name, _columns(columns))
    return specs, faults


def read_optional(
    value: Any,
    inputs: Mapping[str, InputSpec],
    broken: Iterable[str],
    windowed: str,
    graph: Graph | None,
) -> dict[str, InputSpec]:
    """The inputs, with optional inputs marked. `optional` is a list of names, or the meaning of
    each omitted input, `none` or `all`. `broken` are inputs with problems, "" unknown ones; the graph
    is None if its file has problems. Raises Faults.
    """
    what = "names of inputs, or {NAME: all}"
    meanings = mapping(value, what) if isinstance(value, Mapping) else {}
    names: tuple[str, ...] = kinds.read_names(list(meanings) or value or [])
    faults = Collected()
    for i, name in enumerate(names):
        place, at_name = (KeyFault, name) if meanings else (Fault, i)
        if name not in inputs and name not in broken and "" not in broken:
            what = f'optional names no input: "{name}"'
            faults.append(place(what, at_name, **among(name, inputs, "inputs")))
        if name == windowed:
            what = f'"{name}" is cut into windows: without its rows there is nothing to run'
            faults.append(place(what, at_name))
    for name, meaning in meanings.items():
        faults += _meaning_faults(name, meaning, inputs.get(name), graph)
    faults.refuse()
    return {
        name: replace(spec, optional=name in names, or_all=meanings.get(name) == ALL)
        for name, spec in inputs.items()
    }


def _meaning_faults(
    name: str, meaning: Any, spec: InputSpec | None, graph: Graph | None
) -> Iterator[Fault]:
    if meaning not in ("none", ALL):
        what = f'an input that is not given has no rows or all partitions, not "{meaning}"'
        yield Fault(what, name, hint=f"write {name}: none, or {name}: all")
    elif meaning == ALL and graph is not None:
        if not graph.nodes:
            what = f"{name} stands for all partitions of the store, and this plan has no graph"
            yield Fault(what, name, hint="write graph: graph.yaml")
        elif spec is not None and [(n, k.name) for n, k in spec.columns] != [
            (graph.partition, "string")
        ]:
            there = "its columns: " + ", ".join(f"{n} ({k})" for n, k in spec.columns)
            column = f"{graph.partition} (string)"
            what = f"{name} stands for all partitions of the store: it has one column, {column}"
            hint = f"write {name}: {{{graph.partition}: string}}"
            yield Fault(what, name, there=there, hint=hint)


def _columns(value: Any) -> tuple[tuple[str, Type], ...]:
    columns, before = mapping(value, "a mapping of columns"), list[str]()

    def column(name: str, text: Any) -> Type:
        kind = _column(name, text, before)
        before.append(name)
        return kind

    if not columns:
        raise Fault("an input needs columns", hint="such as {id: string, text: string null}")
    return tuple(kinds.each_value(columns, column).items())


def _column(name: str, text: Any, others: Iterable[str]) -> Type:
    if not NAME.match(name):
        raise KeyFault(f'"{name}" cannot name a column', hint=NAME_HINT)
    if reserved(name):
        raise KeyFault(f'"{name}" is the engine\'s own name', hint="choose another name")
    if any(name.lower() == other.lower() for other in others):
        raise KeyFault(f'the column "{name}" is there already, but for case')
    if not isinstance(text, str):
        raise wrong("a type such as string", text)
    kind = parse_type(text)
    if "enum" in text and _has_enum(kind):
        what = "an enum is a model's answer; an input's column is a string"
        raise Fault(what, hint="write string")
    return kind


def _has_enum(kind: Type) -> bool:
    inner = (kind.item,) if kind.item is not None else tuple(t for _, t in kind.fields)
    return kind.name == "enum" or any(_has_enum(t) for t in inner)


def _size(value: Any) -> int | str | None:
    if value in ("all", "ready"):
        return None if value == "all" else "ready"
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise wrong('a number of rows from 1, "all", or "ready"', value)
    return value


# The keys of `windows`.
WINDOWS: Keys = {
    "input": Key(kinds.NAME_OF, "which input is cut into windows", required=True),
    "partition": Key(kinds.COLUMN, "the column that names the partition of a row"),
    "order": Key(kinds.COLUMNS, "the columns that order the rows"),
    "key": Key(kinds.COLUMN, "the column that names a row"),
    "key_of": Key(kinds.COLUMNS, "the columns that a name is made from"),
    "size": Key(
        kinds.plain(
            _size,
            kinds.either(
                {"type": "integer", "minimum": 1}, {"enum": ["all", "ready"]}, kinds.OF_PARAMETER
            ),
        ),
        "how many rows a window has; ready: those whose partition is free",
    ),
    "ahead": Key(kinds.POSITIVE, "how many windows are begun before one is written"),
    "on_error": Key(kinds.one_of("set_aside", "stop"), "what becomes of a window that fails"),
}


def read_windows(value: Any, inputs: Mapping[str, InputSpec], partition: str) -> Windowing | None:
    """The windowing of an input; the partition is the graph's by default. Raises Faults."""
    if value is None:
        return None
    values, faults = kinds.read_keys(value, "windows", WINDOWS)
    name = values.get("input", "")
    if name in inputs:
        faults += _window_faults(values, inputs[name], partition)
    elif name:
        faults.append(unknown(name, inputs, "no input", "inputs", "input", value=True))
    faults.refuse()
    order = tuple(column for column in values.get("order", ()) if column != POSITION)
    return Windowing(**{"partition": partition, **values, "order": order})


def _window_faults(values: Mapping[str, Any], spec: InputSpec, partition: str) -> Iterator[Fault]:
    types = dict(spec.columns)
    for name in (POSITION, TURN):
        if name in types:
            what = f'windows adds the column "{name}", which the input has'
            yield Fault(what, "input", hint="rename the input's column")
    if "partition" not in values:
        yield from _column_faults("partition", [partition], spec, text=True)
    for key in ("partition", "order", "key", "key_of"):
        names = values.get(key, ())
        names = [names] if isinstance(names, str) else names
        text = key in ("partition", "key")
        yield from (fault.under(key) for fault in _column_faults(key, names, spec, text=text))
    key, key_of = values.get("key", ""), values.get("key_of")
    if not key and not key_of:
        hint = "write key: id, or key_of: [text]"
        yield Fault("windows needs key, or key_of: what names a row", hint=hint)
    elif key in types and types[key].nullable and not key_of:
        hint = f'write key_of, the columns that a name is made from, or make "{key}" a column that is never NULL'
        yield Fault(f'"{key}" may be NULL, and such a row would have no name', "key", hint=hint)


def _column_faults(
    key: str, names: Iterable[str], spec: InputSpec, *, text: bool
) -> Iterator[Fault]:
    types = dict(spec.columns)
    for name in names:
        if name == POSITION and key == "order":
            continue
        if name not in types:
            kind = f"columns of {spec.name}"
            yield unknown(name, types, f"{key}: no column", kind, value=True)
        elif text and types[name].arrow != pa.string():
            yield Fault(f'{key}: "{name}" is {types[name]}, not string')
        elif key == "order" and any(test(types[name].arrow) for test in _UNORDERED):
            yield Fault(f'order: "{name}" is {types[name]}, which has no order')


def input_schema(spec: InputSpec, *, windowed: bool) -> pa.Schema:
    """The columns of an input in steps; with those that the engine adds if it is windowed."""
    if not windowed or {POSITION, TURN} & set(spec.schema.names):
        return spec.schema
    return spec.schema.append(pa.field(POSITION, pa.int64())).append(pa.field(TURN, pa.int64()))


# The keys of `calls`.
CALLS: Keys = {
    "formula": Key(kinds.TEXT, "how many calls, such as 2 * rows", required=True),
    "per": Key(kinds.TEXT, "of what"),
    "where": Key(kinds.TEXTS, "what the formula names, such as {rows: those with text}"),
}


def check_calls(value: Any) -> None:
    """Check the key `calls`. Raises Faults.

    >>> check_calls(
    ...     {
    ...         "formula": "2 * turns + told",
    ...         "where": {"turns": "those with text", "told": "1 if ..."},
    ...     }
    ... )
    """
    if value in (None, {}):
        return
    calls = kinds.all_keys(value, "calls", CALLS)
    names = calls.get("where", {})
    formula = at_key("formula", partial(parse_scalar, params=None), calls["formula"])
    faults = Collected(
        Fault(f'"{name}" is not defined in where', "formula", hint=did_you_mean(name, names))
        for name in sorted(formula.roots - set(names))
    )
    faults += [
        KeyFault(f'the formula has no "{name}"', "where", name)
        for name in names
        if name not in formula.roots
    ]
    faults.refuse()


# The keys of a preset.
PRESET: Keys = {
    "params": Key(
        kinds.mapped("a mapping of parameters", kinds.by_name({})), "values of parameters"
    ),
    "use": Key(
        kinds.mapped("a mapping of steps", kinds.by_name(CHOICE)), "the implementations of steps"
    ),
    "doc": Key(kinds.TEXT, "what it is for"),
}
_EXAMPLE_ROWS = kinds.by_name(kinds.listed({"type": "object"}))
# The keys of `example`.
EXAMPLE: Keys = {
    "inputs": Key(kinds.mapped("rows by input", _EXAMPLE_ROWS), "rows of inputs"),
    "after": Key(
        kinds.plain(kinds.read_names, kinds.either(kinds.NAMED, kinds.listed(kinds.NAMED))),
        "plans that run before",
    ),
}
# The keys of a plan.
PLAN: Keys = {
    "plan": Key(
        kinds.plain(_name_of_plan, kinds.NAMED),
        "its name; write plan: NAME as the first line",
        required=True,
    ),
    "doc": Key(kinds.TEXT, "what it does"),
    "graph": Key(kinds.kept(kinds.TEXT.schema), "the graph file beside the plan"),
    "inputs": Key(
        kinds.kept(kinds.by_name(kinds.by_name(kinds.TEXT.schema), kinds.NAMED)), "typed tables"
    ),
    "optional": Key(
        kinds.kept(kinds.either(kinds.COLUMNS.schema, kinds.by_name({"enum": ["none", "all"]}))),
        "inputs that need not be given: without rows, or all partitions of the store",
    ),
    "params": Key(
        kinds.kept({"type": "object", "propertyNames": kinds.NAMED}),
        "parameters and their defaults",
    ),
    "presets": Key(
        kinds.kept(kinds.by_name(kinds.keys_schema(PRESET))), "named sets of parameters and choices"
    ),
    "windows": Key(kinds.kept(kinds.keys_schema(WINDOWS)), "how an input is cut into windows"),
    "steps": Key(
        kinds.kept(kinds.by_name({"$ref": "#/$defs/step"}, kinds.NAMED)), "named relations"
    ),
    "writes": Key(
        kinds.kept(kinds.listed({"$ref": "#/$defs/write"})), "what is written to the graph"
    ),
    "returns": Key(
        kinds.kept(kinds.either(kinds.listed(kinds.TEXT.schema), kinds.by_name(RELATION))),
        "results: steps, or {name: step}",
    ),
    "use": Key(
        kinds.kept(kinds.by_name(CHOICE)),
        "implementations of steps: {step: implementation(parameter=value)}, or {step: plan}",
    ),
    "allow": Key(kinds.kept(kinds.listed(kinds.NAMED)), "rewrites that may change answers"),
    "calls": Key(
        kinds.kept(kinds.keys_schema(CALLS)), "how many calls of a model it takes, for people"
    ),
    "example": Key(kinds.kept(kinds.keys_schema(EXAMPLE)), "what runs when no input is given"),
}
MOST_PARAMETER_ITEMS = 100_000  # items: about four thousand a second are loaded
MOST_OPERATORS = 1_000  # including called plans: some seconds to load, and as many to run
NO_GRAPH = Graph("", "uuid", "group_id", {})


@dataclass
class LoadState:
    """The state that one load and the plans it calls share."""

    folders: tuple[Path, ...] = ()  # in which plans are searched first
    functions: Functions = field(default_factory=Functions)
    problems: list[Problem] = field(default_factory=list)
    open: tuple[Path, ...] = ()  # the plans being read, outermost first
    graphs: dict[Path, Graph | None] = field(default_factory=dict)  # None: it has problems
    operators: int = 0
    parameter_items: int = 0  # items that lists of parameters add to expressions
    prompts: Mapping[str, Path] = field(default_factory=dict)  # files in the place of prompts
    named_prompts: set[str] = field(default_factory=set)  # those that were read
    _too_many: Problem | None = None

    def count(self, origin: Position, parameter_items: int = 0) -> None:
        """Count an operator, and the items that lists of parameters add to it.

        Raises PlanError above the limit, each time with the position of the first excess.
        """
        self.operators += 1
        self.parameter_items += parameter_items
        if self._too_many is None and self.operators > MOST_OPERATORS:
            what = f"a plan has at most {MOST_OPERATORS:,} operators, with those of the plans that it calls"
            hint = "split it into several plans, each with a run of its own"
            self._too_many = Problem(what, position=origin, hint=hint)
        elif self._too_many is None and self.parameter_items > MOST_PARAMETER_ITEMS:
            what = f"parameters bring lists of more than {MOST_PARAMETER_ITEMS:,} items into the expressions of a plan"
            hint = "each use counts; give many values as an input and join it"
            self._too_many = Problem(what, position=origin, hint=hint)
        if self._too_many is not None:
            raise PlanError(self._too_many)


@dataclass
class Head:
    """The head of one plan. A part that fails adds problems, and reading continues."""

    state: LoadState
    document: Document
    folder: Path  # of its graph file, prompts and called plans
    prefix: str = ""  # of the names of its steps: the calling step's name and "/"
    confined: bool = True  # whether the files that it names must be in its folder
    data: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    # choices by step, each with its path in the plan; later ones override earlier ones
    use: list[tuple[str, Any, Trail]] = field(default_factory=list)
    graph: Graph = NO_GRAPH
    unknown_graph: bool = False  # whether the graph file has problems
    inputs: dict[str, InputSpec] = field(default_factory=dict)
    unknown_inputs: set[str] = field(default_factory=set)  # with problems; "": any unknown name
    windows: Windowing | None = None

    def __post_init__(self) -> None:
        if isinstance(self.document.data, Mapping):
            self.data = dict(self.document.data)
        self.expansion = Expansion(self.params)

    def attempt(
        self, action: Callable[[], T], *path: str | int, step: str | None = None
    ) -> T | None:
        """The value of an action; None after faults, which are reported below `path`."""
        try:
            return action()
        except Fault as fault:
            self.report(fault, *path, step=step)
        except PlanError as error:
            self.report_all(error)
        except Pruned as pruned:
            self.report(pruned.fault, *path, step=step)
        return None

    def report(self, fault: Fault, *path: str | int, step: str | None = None) -> None:
        """Report faults at their positions below `path`."""
        self.state.problems += [
            self.document.problem(part, *path, step=step) for part in each(fault)
        ]

    def report_all(self, error: PlanError) -> None:
        """Report problems that have positions, each once."""
        problems = self.state.problems
        problems += [problem for problem in error.problems if problem not in problems]

    def attempt_option(self, option: str, action: Callable[[], None]) -> None:
        """Run an action on an option of a run; its faults have no position in a file."""
        try:
            action()
        except Fault as fault:
            self.report_option(option, fault)

    def report_option(self, option: str, fault: Fault) -> None:
        """Report faults of an option of a run."""
        self.state.problems += [
            Problem(f"{option}: {part.what}", there=part.there, hint=part.hint)
            for part in each(fault)
        ]


class Expansion:
    """Replaces texts that are a whole parameter, and records the path of each part of a plan."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params = params
        self._places: dict[int, Trail] = {}
        self._expanded_parts: list[Any] = []  # kept alive, so that ids stay unique

    def expand(self, value: Any, path: Trail) -> Any:
        """The plain data at `path`, with parameters replaced. Raises Faults, with paths below it."""
        faults: list[Fault] = []
        expanded = self._expanded(value, path, len(path), faults)
        if faults:
            raise Faults(faults)
        self._expanded_parts.append(expanded)
        return expanded

    def place(self, value: Any) -> Trail:
        """The path of a mapping or list of expanded data."""
        return self._places.get(id(value), ())

    def _expanded(self, value: Any, path: Trail, base: int, faults: list[Fault]) -> Any:
        name = whole_parameter(value)
        if isinstance(value, str) and not name:
            return value
        if name:
            if name not in self.params:
                faults.append(unknown_parameter(name, self.params, *path[base:], value=True))
                return None
            value = self.params[name]
        if not isinstance(value, (dict, list, tuple, Mapping)):
            return value
        if isinstance(value, (dict, Mapping)):
            expanded: Any = {
                k: self._expanded(v, path if name else (*path, k), base, faults)
                for k, v in value.items()
            }
        else:
            expanded = [
                self._expanded(v, path if name else (*path, i), base, faults)
                for i, v in enumerate(value)
            ]
        self._places[id(expanded)] = path
        return expanded


_LARGEST = 1 << 63


def read_head(
    head: Head, preset: str | None, params: Mapping[str, Any], use: Mapping[str, Any]
) -> None:
    """Read all sections before the steps; faults are added to the problems.

    Args:
        head: The plan.
        preset: The chosen preset.
        params: Values of parameters, which override all others.
        use: Choices for steps, which override all others.
    """
    head.attempt(partial(kinds.all_keys, head.document.data, "a plan", PLAN))
    head.attempt(partial(check_calls, head.data.get("calls")), "calls")
    head.attempt(partial(_settings, head, preset, params, use))
    if head.data.get("graph") is not None:
        head.attempt(partial(_graph, head), "graph")
    head.attempt(partial(_inputs, head), "inputs")
    head.attempt(partial(_optional, head), "optional")
    head.attempt(partial(_windows, head), "windows")


def _settings(
    head: Head, preset: str | None, params: Mapping[str, Any], use: Mapping[str, Any]
) -> None:
    declared = at_key("params", mapping, head.data.get("params"), "a mapping of parameters")
    presets = at_key("presets", mapping, head.data.get("presets"), "a mapping of presets")
    own = at_key("use", mapping, head.data.get("use"), "a mapping of steps")
    head.params.update(declared)
    head.use = [(name, value, ("use", name)) for name, value in own.items()]
    faults = [fault.under("params") for fault in defaults(declared)]
    chosen: dict[str, Any] = {}
    for name, body in presets.items():
        if name == TUNED:
            what = f'"{TUNED}" is the preset that semgraph tune makes'
            faults.append(KeyFault(what, "presets", name, hint="give yours another name"))
        try:
            settings = _preset(body, declared)
        except Fault as fault:
            faults.append(fault.under("presets", name))
            continue
        if name == preset:
            chosen = settings
    of_preset = (chosen.get("use") or {}).items()
    head.use += [(step, v, ("presets", str(preset), "use", step)) for step, v in of_preset]
    head.use += [(step, value, ()) for step, value in use.items()]
    if faults:
        raise Faults(faults)
    head.params.update(chosen.get("params") or {})
    if preset is not None and preset not in presets:
        head.attempt_option("--preset", partial(_no_preset, preset, presets))
    head.attempt_option(
        command("--set", "params"), partial(_set_parameters, head, declared, params)
    )
    for place, (_, _, path) in enumerate(head.use):
        if path:
            head.attempt(partial(_settle_choice, head, place), *path)


def _settle_choice(head: Head, place: int) -> None:
    """Substitute parameters in an entry of `use`: `read_fast(shown=$shown)`. Raises Fault."""
    step, value, path = head.use[place]
    try:
        choice = Choice.parse(value)
    except Fault:
        return  # reported later, when the step is known
    named = {name: parameter for name, v in choice.params if (parameter := whole_parameter(v))}
    for name, parameter in named.items():
        if parameter not in head.params:
            where = (choice.name, name) if isinstance(value, Mapping) else ()
            raise unknown_parameter(parameter, head.params, *where, value=True)
    if named:
        settled = {name: head.params[parameter] for name, parameter in named.items()}
        name = str(replace(choice, params=()))
        head.use[place] = (step, {name: {**dict(choice.params), **settled}}, path)


def _set_parameters(head: Head, declared: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Set the parameters of `--set`. Raises Fault for unknown ones and for values of a wrong kind."""
    values = parameter_values(declared, head.params, params)
    check_kinds(head.data, params)
    head.params.update(values)


_KINDS = {bool: "true or false", int: "a number", float: "a number", list: "a list"}


def check_kinds(data: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Refuse values of a wrong kind for parameters that a plan declares, except values that one of
    its presets has. Raises Fault.
    """
    declared = data.get("params") or {}
    presets = [
        body.get("params") or {}
        for body in (data.get("presets") or {}).values()
        if isinstance(body, Mapping)
    ]
    for name, value in params.items():
        known = any(value == preset[name] for preset in presets if name in preset)  # window: all
        kind = next((k for t, k in _KINDS.items() if isinstance(declared[name], t)), "")
        fits = kind == next((k for t, k in _KINDS.items() if isinstance(value, t)), "another")
        if kind and not known and not fits and value is not None:
            hint = f"its default is {declared[name]!r}"
            raise Fault(f'parameter "{name}" takes {kind}, not {value!r}', name, hint=hint)
        if isinstance(value, (int, float)) and not -_LARGEST <= value < _LARGEST:
            raise Fault(f'parameter "{name}" takes a number of 64 bits, not {value!r}', name)


def _no_preset(preset: str, presets: Mapping[str, Any]) -> None:
    if not presets:
        raise Fault(
            f'no preset "{preset}": this plan has none',
            hint="parameters are given one by one: --set NAME=VALUE",
        )
    raise unknown(preset, presets, "no preset", "presets")


def _preset(body: Any, declared: Mapping[str, Any]) -> dict[str, Any]:
    preset = kinds.all_keys(body, "a preset", PRESET)
    at_key("params", parameter_values, declared, preset.get("params", {}))
    return preset


def _graph(head: Head) -> None:
    name = head.data["graph"]
    if not isinstance(name, str) or not name or "\0" in name:
        raise wrong("the name of a graph file", name)
    graphs = head.state.graphs
    head.unknown_graph = True
    if head.confined:
        require_inside(head.folder / name, (head.folder,), f'the graph file "{name}"')
    path = (head.folder / name).resolve()
    if path not in graphs:
        graphs[path] = None
        graphs[path] = read_graph(graph_file(name, head.folder))
    head.graph = graphs[path] or NO_GRAPH
    head.unknown_graph = graphs[path] is None


def _inputs(head: Head) -> None:
    head.unknown_inputs = {""}
    head.inputs, faults = read_inputs(head.data.get("inputs"))
    head.unknown_inputs = {str(part.path[0]) for fault in faults for part in each(fault)}
    faults.refuse()


def _optional(head: Head) -> None:
    graph = None if head.unknown_graph else head.graph
    head.inputs = read_optional(
        head.data.get("optional"), head.inputs, head.unknown_inputs, _cut_input(head), graph
    )


def _cut_input(head: Head) -> str:
    """The windowed input, even if the rest of the section has problems."""
    windows = head.data.get("windows")
    return str(windows.get("input")) if isinstance(windows, Mapping) else ""


def _windows(head: Head) -> None:
    if head.data.get("windows") is not None:
        value = head.expansion.expand(head.data["windows"], ("windows",))
        if isinstance(value, Mapping) and head.unknown_inputs & {str(value.get("input")), ""}:
            return
        head.windows = read_windows(value, head.inputs, head.graph.partition)


def own_inputs(head: Head) -> dict[str, Node]:
    """The plan's inputs as relations; the windowed input has the columns that the engine adds."""
    relations: dict[str, Node] = {}
    cut = _cut_input(head)
    for name, spec in head.inputs.items():
        windowed = name == cut
        origin = head.document.position("inputs", name, key=True)
        columns = input_schema(spec, windowed=windowed)
        values = {"name": name, "columns": columns, "windowed": windowed}
        relations[name] = shared_node(Input, name, origin, **values)
    return relations


# -- choices


def defaults(declared: Mapping[str, Any]) -> list[Fault]:
    """The faults of the names of declared parameters."""
    hint = "letters, digits and _; $now is the window's time"
    odd = (name for name in declared if not NAME.match(name) or name == NOW)
    return [KeyFault(f'"{name}" cannot name a parameter', name, hint=hint) for name in odd]


def parameter_values(declared: Mapping[str, Any], *changes: Mapping[str, Any]) -> dict[str, Any]:
    """The values of parameters: defaults, then each of the changes in turn. Raises Fault."""
    values = dict(declared)
    for change in changes:
        for name, value in change.items():
            if name not in declared:
                raise unknown_parameter(name, declared, name)
            values[name] = value
    return values
