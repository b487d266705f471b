"""Graph files: the labels of `graph.yaml`, their properties, indexes and derived properties."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from semgraph.errors import Collected, Fault, PlanError, did_you_mean, each
from semgraph.expr.functions import TEXT_FUNCTIONS
from semgraph.expr.types import Type, parse_type
from semgraph.folders import graph_names, plans_folder
from semgraph.frontend import document as documents
from semgraph.frontend import kinds
from semgraph.frontend.document import mapping, parse, read_text, shown, unknown, wrong
from semgraph.frontend.kinds import Key, Keys, Schema, ValueKind
from semgraph.logical.schema import NAME, Derived, Draw, Graph, Label

_CALL = re.compile(rf"({'|'.join(TEXT_FUNCTIONS)})\((\w+)\)")
_NAMES_SCHEMA: Schema = {"type": ["array", "null"], "items": kinds.NAMED}


def _listed(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
        raise wrong("a list of names", value)
    return tuple(value)


def _open(value: Any) -> frozenset[str]:
    words = _listed(value)
    Collected(
        Fault(f'"{word}" cannot be open', i, hint=" or ".join(OPEN))
        for i, word in enumerate(words)
        if word not in OPEN
    ).refuse()
    return frozenset(words)


def _by_name(read: Any, schema: Schema, names: Schema | None = kinds.NAMED) -> ValueKind:
    def each_of(name: str, value: Any) -> Any:
        if names is not None:
            kinds.read_name(name)
        return read(value)

    def values(value: Any) -> dict[str, Any]:
        return kinds.each_value(mapping(value, "a mapping"), each_of)

    return kinds.plain(values, kinds.by_name(schema, names))


def _labels(each_label: Schema) -> ValueKind:
    return kinds.mapped("labels by name", kinds.by_name(each_label, kinds.NAMED))


def _type(value: Any) -> Type:
    return parse_type(str(value))


def _derived(value: Any) -> tuple[str, str]:
    """The derivation of a property, and its source property."""
    if isinstance(value, Mapping):
        return "embed", kinds.all_keys(value, "a derived property", _EMBEDDED)["embed"]
    call = _CALL.fullmatch(str(value))
    if call is None or not NAME.match(call[2]):
        there = "functions: " + ", ".join(TEXT_FUNCTIONS)
        raise Fault(f'cannot read "{value}"', there=there, hint="write key(name), or {embed: name}")
    return call[1], call[2]


OPEN = ("labels", "attributes")  # what rows may add to a label besides its properties
_EMBEDDED: Keys = {"embed": Key(kinds.NAME_OF, "the property that is embedded", required=True)}
_FUNCTION: Schema = {
    "type": "string",
    "pattern": rf"^({'|'.join(TEXT_FUNCTIONS)})\({kinds.of_schemas(NAME)}\)$",
}
# The keys of `draw`: what a picture shows.
DRAW: Keys = {
    "node": Key(kinds.TEXT, "what a node is called"),
    "edge": Key(kinds.TEXT, "what an edge is called, in place of its type"),
    "text": Key(kinds.TEXT, "the text of an edge"),
    "from": Key(kinds.TEXT, "from when an edge holds"),
    "to": Key(kinds.TEXT, "until when it holds"),
    "sources": Key(kinds.TEXT, "a list of keys of the nodes that an edge was learnt from"),
}
# The keys of a label's `draw`.
LABEL_DRAW: Keys = {
    **DRAW,
    "background": Key(
        kinds.plain(kinds.read_flag, {"type": "boolean"}),
        "whether a picture hides its rows until asked: messages",
    ),
}
_FIELDS = {"from": "start", "to": "end"}  # keys whose field in `Draw` has another name
_DRAW, _LABEL_DRAW = (
    Key(
        kinds.plain(partial(kinds.all_keys, what="draw", keys=keys), kinds.keys_schema(keys)),
        "the properties that a picture of the graph shows",
    )
    for keys in (DRAW, LABEL_DRAW)
)
# The keys of a node label.
LABEL: Keys = {
    "properties": Key(_by_name(_type, kinds.TEXT.schema), "properties with their types"),
    "derived": Key(
        _by_name(_derived, kinds.either(_FUNCTION, kinds.keys_schema(_EMBEDDED))),
        "properties that each write fills: key(name), or {embed: name}",
    ),
    "fulltext": Key(
        _by_name(_listed, _NAMES_SCHEMA, None), "full-text indexes, each with its properties"
    ),
    "index": Key(kinds.plain(_listed, _NAMES_SCHEMA), "properties with an index each"),
    "open": Key(
        kinds.plain(_open, {"type": ["array", "null"], "items": {"enum": list(OPEN)}}),
        "what rows may bring besides the properties",
    ),
    "ignore": Key(
        kinds.plain(_listed, _NAMES_SCHEMA),
        "properties that other programs write and semgraph leaves alone",
    ),
    "aliases": Key(
        kinds.TEXT,
        "the property or attribute that lists the keys of rows that were merged into one",
    ),
    "draw": _LABEL_DRAW,
}
# The keys of an edge type.
EDGE: Keys = {
    **LABEL,
    "source": Key(kinds.NAME_OF, "the label of the node that it starts from", required=True),
    "target": Key(kinds.NAME_OF, "the label of the node that it leads to", required=True),
}
# The keys of a graph file.
GRAPH: Keys = {
    "graph": Key(kinds.TEXT, "its name"),
    "key": Key(kinds.NAME_OF, "the property that names a node or an edge: uuid"),
    "partition": Key(kinds.NAME_OF, "the property that names its partition: group_id"),
    "common": Key(_by_name(_type, kinds.TEXT.schema), "properties of all labels"),
    "nodes": Key(_labels({**kinds.keys_schema(LABEL), "type": ["object", "null"]}), "node labels"),
    "edges": Key(_labels(kinds.keys_schema(EDGE)), "edge types"),
    "draw": _DRAW,
}


def graph_file(name: str | Path, folder: Path = Path()) -> Path:
    """The file of a graph: a path from a folder, or a shipped graph by name. Raises Fault."""
    path = folder / name
    if documents.is_file(path):
        return path
    documents.notice(path)
    shipped = graph_names()
    if isinstance(name, str) and name in shipped:
        return plans_folder() / f"{name}.yaml"
    near = did_you_mean(str(name), [*shipped, *(p.name for p in path.parent.glob("*.yaml"))])
    there = f"looked for {path}; shipped graphs: {', '.join(shipped)}"
    raise Fault(f'no graph file "{name}"', there=there, hint=near)


def read_graph(path: Path) -> Graph:
    """A graph file. Raises PlanError with all its problems, each with its position."""
    return _graph_of_file(read_text(path, "graph"), shown(path))


@lru_cache(maxsize=16)
def _graph_of_file(text: str, file: str) -> Graph:
    document = parse(text, file, "graph")
    try:
        return graph_of(document.data)
    except Fault as fault:
        raise PlanError(*map(document.problem, each(fault))) from None


def graph_of(data: Any) -> Graph:
    """The graph of the plain data of a `graph.yaml`. Raises Fault, with the path into the data."""
    return _GraphReader(data).graph()


class _GraphReader:
    """Reads a graph, and collects its faults.

    A faulty label keeps the names of its properties, so that these are not reported as missing.
    """

    def __init__(self, data: Any) -> None:
        self.values, self.faults = kinds.read_keys(data, "a graph", GRAPH)
        self.key = self.values.get("key", "uuid")
        self.partition = self.values.get("partition", "group_id")
        text = Type("string")
        self.common = {self.key: text, self.partition: text, **self.values.get("common", {})}
        self.known: dict[str, tuple[str, set[str]]] = {}  # by label: its kind, names of properties
        self.labels: dict[str, Label] = {}
        self.draws: dict[str, Draw] = {}

    def graph(self) -> Graph:
        """The graph. Raises Faults."""
        for section, kind in (("nodes", "node"), ("edges", "edge")):
            for name, body in self.values.get(section, {}).items():
                found = self._label(name, kind, body)
                self.faults += (fault.under(section, name) for fault in found)
        draw = self.values.get("draw", {})
        self.faults += (f.under("draw") for f in self._draw_faults(draw, self.known))
        self.faults.refuse()
        name = self.values.get("graph", "graph")
        return Graph(name, self.key, self.partition, self.labels, _draw(draw), self.draws)

    def _label(self, name: str, kind: str, body: Any) -> Iterator[Fault]:
        if name in self.known:
            yield Fault(f'"{name}" is a node label already')
            return
        try:
            kinds.read_name(name)
            keys, what = (EDGE, "an edge type") if kind == "edge" else (LABEL, "a node label")
            values, faults = kinds.read_keys(body, what, keys)
        except Fault as fault:
            self.known[name] = kind, set()
            yield fault
            return
        yield from faults
        names = {*_names_in(body, "properties"), *_names_in(body, "derived")}
        self.known[name] = kind, {*self.common, *names}
        draw = values.get("draw", {})
        yield from (f.under("draw") for f in self._draw_faults(draw, [name]))
        yield from self._property_faults(name, body, values.get("index", ()))
        if kind == "edge":
            yield from self._end_faults(values)
        if not faults:
            self.labels[name] = self._made(name, kind, values)
            if draw:
                self.draws[name] = _draw(draw)

    def _draw_faults(self, draw: Mapping[str, Any], labels: Iterable[str]) -> Iterator[Fault]:
        for key, prop in draw.items():
            if key == "background":
                continue
            kind = "node" if key == "node" else "edge"
            pairs = [self.known[label] for label in labels]
            known = {name for of, names in pairs if of == kind for name in names}
            if prop not in known:
                hint = did_you_mean(prop, known)
                yield Fault(f'no {kind} has a property "{prop}"', key, hint=hint)

    def _property_faults(self, label: str, body: Any, index: Iterable[str]) -> Iterator[Fault]:
        known = self.known[label][1]
        for name, (_, of) in _right_in(body, "derived", _derived):
            yield from _among(of, _names_in(body, "properties"), "derived", name)
        for name, properties in _right_in(body, "fulltext", _listed):
            if not properties:
                yield Fault("a full-text index needs a property", "fulltext", name)
            for i, prop in enumerate(properties):
                yield from _among(prop, known, "fulltext", name, i)
        for i, prop in enumerate(index):
            yield from _among(prop, known, "index", i)

    def _end_faults(self, values: Mapping[str, Any]) -> Iterator[Fault]:
        nodes = [name for name, (kind, _) in self.known.items() if kind == "node"]
        for end in ("source", "target"):
            if end in values and values[end] not in nodes:
                yield unknown(values[end], nodes, "no node label", "node labels", end, value=True)

    def _made(self, name: str, kind: str, values: Mapping[str, Any]) -> Label:
        pairs = values.get("derived", {}).items()
        derived = {prop: Derived(prop, by, of) for prop, (by, of) in pairs}
        texts = {d.name: Type("string") for d in derived.values() if d.by != "embed"}
        own = {
            "properties": {**self.common, **values.get("properties", {}), **texts},
            "derived": derived,
            "fulltext": values.get("fulltext", {}),
            "ignore": frozenset(values.get("ignore", ())),
        }
        rest = {key: part for key, part in values.items() if key != "draw"}
        return Label(name, "edge" if kind == "edge" else "node", **{**rest, **own})


def _names_in(body: Any, key: str) -> list[str]:
    """The names of a mapping, including names with faulty values."""
    named = body.get(key) if isinstance(body, Mapping) else None
    return list(named) if isinstance(named, Mapping) else []


def _right_in(body: Any, key: str, read: Callable[[Any], Any]) -> Iterator[tuple[str, Any]]:
    """The valid values of a mapping."""
    for name in _names_in(body, key):
        with suppress(Fault):
            yield name, read(body[key][name])


def _draw(values: Mapping[str, Any]) -> Draw:
    return Draw(**{_FIELDS.get(key, key): prop for key, prop in values.items()})


def _among(name: str, properties: Collection[str], *path: str | int) -> Iterator[Fault]:
    if name not in properties:
        yield Fault(f'no property "{name}"', *path, hint=did_you_mean(name, properties))
