"""An evaluator of plans in plain Python: the plan's document in, rows out. It shares no code with
the engine.

A relation is a list of rows, each a mapping; operators are functions of them, written for plainness
alone. Where the plan cuts an input into windows, the whole plan is evaluated once for each
window, with the rows of that window: then partitions cannot mix.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cmp_to_key, partial
from itertools import pairwise
from typing import Any

from tests.fuzz import answers
from tests.fuzz.parsing import NotUnderstood, parse
from tests.fuzz.rows import FAILING
from tests.fuzz.scalar import AGGREGATES, Columns, Scope, Sight, evaluate, made_id, sort
from tests.fuzz.stored import LABEL, PROPERTIES
from tests.fuzz.values import Uncomputable, compare, ordered, same_key

Document = Mapping[str, Any]
Note = Callable[[str, str, str], None]  # operator, clause, feature
_TURN = re.compile(r"^(.*?)(?:\s+(desc|asc))?$", re.IGNORECASE | re.DOTALL)
_PATTERN = re.compile(r"\((\w+):\w+ \{(.*)\}\)")
_STORED = ("uuid", "group_id", *PROPERTIES)
Sources = frozenset[tuple[str, int]]
Store = dict[str, dict[str, Any]]  # the stored rows of a partition, by key
_PLACEHOLDER = re.compile(r"\{(\$?[A-Za-z_][A-Za-z0-9_.]*)\}")
_JSON_KINDS = {
    "string": "string",
    "int64": "integer",
    "boolean": "boolean",
    "list<string>": "array",
}


class Misplaced(Exception):
    """An aggregate stands where none can: such a plan is never run."""


class Refused(Exception):
    """The plan cannot be run; the engine refuses it as well."""


@dataclass(frozen=True)
class Row:
    """A row, the input row that it derives from, if that is one that is cut into windows, and all
    rows of inputs that it is made of: the names of the inputs, and the places of the rows.
    """

    columns: dict[str, Any]
    member: int | None = None
    sources: Sources = frozenset()


@dataclass
class Relation:
    """Rows with the names of their columns. `windowed`: they derive from the input that is cut into
    windows.
    """

    names: list[str]
    rows: list[Row]
    windowed: bool = False

    def of(self, rows: Sequence[Row]) -> Relation:
        """The same columns with other rows."""
        return Relation(self.names, list(rows), self.windowed)


@dataclass
class Evaluated:
    """The results of a plan by name, and the rows for which the model had no answer: pairs of step
    and input row.
    """

    tables: dict[str, Relation]
    failed: list[tuple[str, int | None]] = field(default_factory=list)


@dataclass(frozen=True)
class _Records:
    """The rows that answers of each row may name: as the model sees them, and as they are."""

    name: str
    unknown: str
    shown: list[list[dict[str, Any]]]
    rows: list[list[Columns]]
    sources: list[Sources]


def _led_back(
    add: Mapping[str, str], found: Mapping[str, Any], records: Sequence[_Records], place: int
) -> dict[str, Any]:
    """Answers with rows in place of numbers. Raises NoAnswer where a number is that of no row."""
    result = dict(found)
    for name, kind in add.items():
        for each in records:
            if f"ref<{each.name}>" not in kind:
                continue
            rows = dict(enumerate(each.rows[place], 1))
            numbers = found[name] if kind.startswith("list") else [found[name]]
            if (not kind.startswith("list") or each.unknown == "ask") and not set(
                numbers
            ) <= rows.keys():
                raise answers.NoAnswer
            named = [rows[n] for n in dict.fromkeys(numbers) if n in rows]
            result[name] = named if kind.startswith("list") else named[0]
    return result


def run(
    document: Document, inputs: Mapping[str, Sequence[Columns]], note: Note = lambda *_: None
) -> Evaluated:
    """Evaluate a plan over the rows of its inputs. Raises Uncomputable where an expression has no
    value.
    """
    cut = document.get("windows")
    given = {
        name: Relation(
            list(spec),
            [
                Row(_completed(spec, row), None, frozenset({(name, place)}))
                for place, row in enumerate(inputs.get(name, ()))
            ],
        )
        for name, spec in document["inputs"].items()
    }
    if cut is None:
        if "writes" in document:
            raise Refused("writes of no window")
        return _Evaluation(document, given, note).run()
    return _by_windows(document, cut, given, note)


def _completed(spec: Mapping[str, Any], row: Columns) -> dict[str, Any]:
    return {name: row.get(name) for name in spec}


def _by_windows(
    document: Document, cut: Mapping[str, Any], given: dict[str, Relation], note: Note
) -> Evaluated:
    """Each window by itself, again without the rows that fail; a result has window after window, by
    their first rows.
    """
    windows = _windows(cut, given[cut["input"]])
    total: Evaluated | None = None
    ended: dict[int, Evaluated] = {}
    stores: dict[str, Store] = {}
    for window in windows:
        rows = window
        while rows:
            relation = Relation(
                [*given[cut["input"]].names, "position", "turn"], rows, windowed=True
            )
            partition = rows[0].columns[cut["partition"]] or ""
            store = stores.setdefault(partition, {})
            own = {**given, cut["input"]: relation}
            evaluation = _Evaluation(document, own, note, partition, len(windows) > 1, store)
            found = evaluation.run()
            lost = {member for _, member in found.failed}
            if None in lost:
                raise Refused("a row that belongs to no window failed")
            total = total or Evaluated({})
            total.failed += found.failed
            rows = [row for row in rows if row.member not in lost]
            if not lost:
                evaluation.write()
                ended[min(row.member or 0 for row in window)] = found
                break
    for _, found in sorted(ended.items()):
        _gather(total or Evaluated({}), found)
    if total is None or not total.tables:
        empty = Relation([*given[cut["input"]].names, "position", "turn"], [], windowed=True)
        found = _Evaluation(document, {**given, cut["input"]: empty}, lambda *_: None).run()
        total = Evaluated(
            {name: table.of([]) for name, table in found.tables.items()},
            total.failed if total else [],
        )
    return total


def _gather(total: Evaluated, found: Evaluated) -> None:
    for name, table in found.tables.items():
        before = total.tables.get(name)
        total.tables[name] = (
            table if before is None or not table.windowed else table.of([*before.rows, *table.rows])
        )


def _keyed(cut: Mapping[str, Any], rows: Sequence[Row]) -> list[Row]:
    """The rows with a key each: one without is named by `key_of` and its ordinal among equal
    rows.
    """
    counts: dict[Any, int] = {}
    found = []
    for row in rows:
        values = [row.columns[name] for name in cut["key_of"]]
        ordinal = counts[same_key(values)] = counts.get(same_key(values), -1) + 1
        key = row.columns[cut["key"]]
        own = {cut["key"]: made_id([*values, ordinal]) if key is None else key}
        found.append(replace(row, columns={**row.columns, **own}))
    return found


def _windows(cut: Mapping[str, Any], relation: Relation) -> list[list[Row]]:
    """The windows of one partition after another, each partition's in its order; or those that
    `size` lists, by the places of their rows.
    """
    partitions: dict[str, list[tuple[int, Row]]] = {}
    for place, row in enumerate(_keyed(cut, relation.rows)):
        partitions.setdefault(row.columns[cut["partition"]] or "", []).append((place, row))
    found, at = [], {}
    listed = isinstance(cut["size"], list)
    for own in partitions.values():
        scopes = sort(
            [Scope(row.columns, place=place) for place, row in own],
            [(parse(name), False) for name in cut["order"]],
        )
        rows = [
            Row(
                {**each.row, "position": each.place, "turn": turn},
                each.place,
                frozenset({(cut["input"], each.place)}),
            )
            for turn, each in enumerate(scopes)
        ]
        at |= {row.member: row for row in rows}
        size = len(rows) if cut["size"] == "all" or listed else cut["size"]
        found += [rows[i : i + size] for i in range(0, len(rows), size)]
    return [[at[place] for place in window] for window in cut["size"]] if listed else found


def template(text: str, row: Columns, params: Mapping[str, Any]) -> str:
    """A prompt with the values of a row in place."""

    def value(match: re.Match[str]) -> str:
        path = match[1]
        if path.startswith("$"):
            return shown(params[path[1:]])
        found: Any = row
        for part in path.split("."):
            found = None if found is None else found[part]
        return shown(found)

    return _PLACEHOLDER.sub(value, text)


def shown(value: Any) -> str:
    """A value as a model reads it."""
    if value is None:
        return ""
    if isinstance(value, (str, datetime)):
        return _plain(value)
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return (
        {name: _plain(inner) for name, inner in value.items()} if isinstance(value, dict) else value
    )


class _Evaluation:
    """The steps of a plan over given inputs, each once."""

    def __init__(
        self,
        document: Document,
        given: Mapping[str, Relation],
        note: Note,
        partition: str = "",
        partitions: bool = False,
        store: Store | None = None,
    ) -> None:
        self.document, self.given, self.note = document, given, note
        self.store: Store = {} if store is None else store
        self.partition, self.partitions = partition, partitions
        self.params = {**document.get("params", {}), "now": datetime.now(UTC)}
        self.steps: dict[str, Relation] = {}
        self.rounds: dict[str, Relation] = {}
        self.failed: list[tuple[str, int | None]] = []
        self.step = ""

    def run(self) -> Evaluated:
        """The results of the plan."""
        returns = self.document["returns"]
        named = returns if isinstance(returns, dict) else {name: name for name in returns}
        named = {**named, **{f"#{i}": spec["from"] for i, spec in enumerate(self._merges())}}
        for step, operators in self.document["steps"].items():
            if self._needed(step, named) and not self._left_out(step):
                self.step = step
                self.steps[step] = self.relation(operators)
        tables = {
            name: self.relation(step)
            for name, step in named.items()
            if name[0] != "#" and not self._left_out(step)
        }
        return Evaluated(tables, self.failed)

    def _merges(self) -> list[Mapping[str, Any]]:
        return [write["merge"] for write in self.document.get("writes", [])]

    def write(self) -> None:
        """Store what the plan writes: NULL leaves what is there."""
        for spec in self._merges():
            relation = self.relation(spec["from"])
            if len({row.columns["uuid"] for row in relation.rows}) < len(relation.rows):
                raise Refused("two rows with one key")
            given = {**spec.get("set", {}), **spec.get("create", {})}
            values = {
                name: self.values("merge", "set", text, relation) for name, text in given.items()
            }
            for place, row in enumerate(relation.rows):
                key = row.columns["uuid"]
                if spec.get("only") and key not in self.store:
                    continue
                wanted = {name: value for name, value in row.columns.items() if name in _STORED}
                wanted |= {name: values[name][place] for name in given}
                if key in self.store:
                    wanted = {
                        name: value
                        for name, value in wanted.items()
                        if name not in spec.get("create", {})
                    }
                stored = self.store.setdefault(key, dict.fromkeys(_STORED))
                stored |= {name: value for name, value in wanted.items() if value is not None}

    def stored(self) -> Relation:
        """The stored rows of the partition at hand, by key."""
        member = next(
            (row.member for table in self.given.values() if table.windowed for row in table.rows),
            None,
        )
        rows = [Row(dict(self.store[key]), member) for key in sorted(self.store)]
        return Relation(list(_STORED), rows if member is not None else [], windowed=True)

    def match(self, relation: Relation, spec: Mapping[str, Any]) -> Relation:
        """Each row with the stored rows that have the values which a pattern names."""
        alias, wanted = _PATTERN.match(spec["pattern"]).groups()  # type: ignore[union-attr]
        pairs = dict(reversed(pair.split(": ")) for pair in wanted.split(", "))
        join = {
            "other": LABEL,
            "alias": alias,
            "using": pairs,
            **{k: spec[k] for k in ("where", "how") if k in spec},
        }
        return self.join(relation, join)

    def _left_out(self, source: Any) -> bool:
        """Whether something names a step whose condition does not hold."""
        step = self.document["steps"].get(source) if isinstance(source, str) else None
        return isinstance(step, dict) and not self._holds(step.get("if", True))

    def _needed(self, step: str, named: Mapping[str, str]) -> bool:
        """Whether a result or a step that is needed reads it: what nobody reads is not computed."""
        text = {
            name: json.dumps(self._chosen(operators), default=str)
            for name, operators in self.document["steps"].items()
            if not self._left_out(name)
        }
        return step in named.values() or any(
            f'"{step}"' in text[other] and self._needed(other, named)
            for other in text
            if other != step
        )

    def _chosen(self, value: Any) -> Any:
        """A part of the document with the picked form in place of each switch."""
        if isinstance(value, list):
            return [self._chosen(part) for part in value]
        if not isinstance(value, dict):
            return value
        if list(value) == ["switch"]:
            return self._chosen(self._form(value["switch"]))
        return {key: self._chosen(part) for key, part in value.items()}

    def _form(self, forms: Mapping[str, Any]) -> Any:
        """The form of a switch that its parameter picks."""
        picked = self.settled(forms["on"])
        return forms[str(picked).lower() if isinstance(picked, bool) else str(picked)]

    def relation(self, source: Any) -> Relation:
        """What a name or a list of operators stands for."""
        if self._left_out(source):
            raise Refused("a step that is left out is read")
        if isinstance(source, str):
            if source == LABEL:
                return self.stored()
            return {**self.given, **self.steps, **self.rounds}[source]
        if isinstance(source, dict):
            return self.relation(source["do"])
        first, *rest = source
        ((keyword, value),) = first.items()
        found = {
            "from": self.relation,
            "union": self.union,
            "intersect": partial(self.chosen, "intersect"),
            "except": partial(self.chosen, "except"),
            "switch": self.switch,
            "call": self.call,
        }[keyword](value)
        for operator in rest:
            ((keyword, value),) = operator.items()
            if found.windowed and self.partitions:
                self.clauses_in_partitions(keyword, value)
            found = getattr(self, keyword)(found, value)
        return found

    def _holds(self, when: Any) -> bool:
        if not isinstance(when, dict):
            return bool(self.settled(when))
        ((parameter, wanted),) = when.items()
        return self.settled(parameter) in (wanted if isinstance(wanted, list) else [wanted])

    def call(self, spec: Mapping[str, Any]) -> Relation:
        """What another plan makes of relations; a column that it declares and they lack is NULL."""
        chosen = (self.document.get("use") or {}).get(self.step)
        called = self.document["called"]
        document = called[chosen if chosen in called else spec["plan"]]
        given = {}
        for name, columns in document["inputs"].items():
            found = self.relation(spec["inputs"][name])
            lacking = [column for column in columns if column not in found.names]
            rows = [
                replace(row, columns={**row.columns, **dict.fromkeys(lacking)})
                for row in found.rows
            ]
            given[name] = Relation([*found.names, *lacking], rows, found.windowed)
        params = {**document.get("params", {}), **spec.get("params", {})}
        inner = _Evaluation(
            {**document, "params": params}, given, self.note, self.partition, self.partitions
        )
        ended = inner.run()
        self.failed += [(f"{self.step}/{step}", member) for step, member in ended.failed]
        (table,) = ended.tables.values()
        return table

    def settled(self, value: Any) -> Any:
        """A whole value that names a parameter, or that value."""
        if isinstance(value, str) and re.fullmatch(r"\$[A-Za-z_]\w*", value) and value != "$now":
            return self.params[value[1:]]
        return value

    def clauses_in_partitions(self, keyword: str, value: Any) -> None:
        """Note the clauses that are computed in several partitions or windows."""
        clauses = (
            value
            if isinstance(value, dict) and keyword not in {"add", "project"}
            else {CLAUSES.get(keyword, ""): None}
        )
        for clause in clauses:
            self.note(keyword, clause, "partitions")

    # -- expressions
    # -------------------------------------------------------------------------------------------

    def values(
        self,
        operator: str,
        clause: str,
        text: Any,
        relation: Relation,
        group: Sequence[Columns] | None = None,
    ) -> list[Any]:
        """The values of an expression over the rows of a relation."""
        tree, sight = (
            parse(str(_literal(self.settled(text)) if isinstance(text, str) else _literal(text))),
            Sight(),
        )
        if _has_aggregate(tree):
            raise Misplaced(f"{operator} {clause}: {text}")
        rows = [row.columns for row in relation.rows]
        scopes = [
            Scope(row, rows, place, group, self.params, sight) for place, row in enumerate(rows)
        ]
        found = [evaluate(tree, scope) for scope in scopes]
        self.noted(operator, clause, sight)
        return found

    def noted(self, operator: str, clause: str, sight: Sight) -> None:
        """Note what was seen while a clause was evaluated."""
        if sight.null:
            self.note(operator, clause, "NULL")
        if sight.nan:
            self.note(operator, clause, "NaN")
        if self.failed:
            self.note(operator, clause, "failures")

    def truths(self, operator: str, clause: str, condition: Any, relation: Relation) -> list[bool]:
        """Whether a condition, or each of a list of them, is true for the rows."""
        listed = condition if isinstance(condition, list) else [condition]
        columns = [self.values(operator, clause, text, relation) for text in listed]
        if not all(
            value is None or isinstance(value, bool) for column in columns for value in column
        ):
            raise NotUnderstood(f"no condition: {condition}")
        return [all(value is True for value in row) for row in zip(*columns, strict=True)] or [
            True
        ] * len(relation.rows)

    def sorted(self, operator: str, clause: str, terms: Any, relation: Relation) -> list[int]:
        """The places of rows in an order, ties as they stand."""
        listed = [] if terms is None else terms if isinstance(terms, list) else [terms]
        columns = []
        for term in listed:
            text, turn = _TURN.match(str(self.settled(term))).groups()  # type: ignore[union-attr]
            columns.append(
                (self.values(operator, clause, text, relation), (turn or "").lower() == "desc")
            )

        def way(one: int, other: int) -> int:
            pairs = (ordered(values[one], values[other], down) for values, down in columns)
            return next((found for found in pairs if found), 0)

        found = sorted(range(len(relation.rows)), key=cmp_to_key(way))
        if listed and any(way(a, b) == 0 for a, b in pairwise(found)):
            self.note(operator, clause, "ties")
        return found

    def keys(
        self, operator: str, clause: str, names: Sequence[str], relation: Relation
    ) -> list[Any]:
        """For each row what tells its group from others."""
        found = []
        for row in relation.rows:
            values = [row.columns[name] for name in names]
            self.seen(operator, clause, values)
            found.append(tuple(same_key(value) for value in values))
        if len(set(found)) < len(found):
            self.note(operator, clause, "ties")
        return found

    def seen(self, operator: str, clause: str, values: Sequence[Any]) -> None:
        """Note what the values of a clause are."""
        sight = Sight()
        for name, value in enumerate(values):
            evaluate(("path", name), Scope({name: value}, sight=sight))  # type: ignore[dict-item]
        self.noted(operator, clause, sight)

    # -- sources
    # -----------------------------------------------------------------------------------------------

    def union(self, spec: Any) -> Relation:
        """All rows, the first's first; with `fill`, what a relation lacks is NULL."""
        relations: Sequence[Any] = spec["of"] if isinstance(spec, dict) else spec
        parts = [self.relation(source) for source in relations if not self._left_out(source)]
        names = parts[0].names
        if isinstance(spec, dict) and spec.get("fill"):
            names = list(dict.fromkeys(name for part in parts for name in part.names))
        rows = [
            replace(row, columns={name: row.columns.get(name) for name in names})
            for part in parts
            for row in part.rows
        ]
        for row in rows:
            self.seen("union", "relations", list(row.columns.values()))
        if any(part.windowed for part in parts):
            if self.partitions:
                self.note("union", "relations", "partitions")
            if not all(part.windowed for part in parts):
                raise Refused("rows of no window")
        return Relation(names, rows, parts[0].windowed)

    def chosen(self, operator: str, sources: Sequence[Any]) -> Relation:
        """The first's rows, equal ones once, that are in every other, or in none."""
        first, *others = [self.relation(source) for source in sources]
        if any(other.windowed for other in others) and not first.windowed:
            raise Refused("rows of no window")
        if first.windowed and self.partitions:
            self.note(operator, "relations", "partitions")
        keys, *found = [
            self.keys(operator, "relations", first.names, each) for each in (first, *others)
        ]
        rows: dict[Any, Row] = {}
        for key, row in zip(keys, first.rows, strict=True):
            if all((key in those) == (operator == "intersect") for those in found):
                rows.setdefault(key, row)
        return first.of(list(rows.values()))

    def switch(self, forms: Mapping[str, Any]) -> Relation:
        """One of several forms, by a parameter."""
        return self.relation(self._form(forms))

    # -- relational operators
    # ------------------------------------------------------------------------------------

    def filter(self, relation: Relation, condition: Any) -> Relation:
        """The rows for which the condition is true."""
        truths = self.truths("filter", "where", condition, relation)
        return relation.of([row for row, true in zip(relation.rows, truths, strict=True) if true])

    def _computed(
        self, operator: str, relation: Relation, columns: Any, kept: Sequence[str]
    ) -> Relation:
        listed = dict.fromkeys(columns) if isinstance(columns, list) else columns
        values = {
            name: self.values(operator, "columns", f'"{name}"' if text is None else text, relation)
            for name, text in listed.items()
        }
        names = [*kept, *(name for name in listed if name not in kept)]
        rows = [
            replace(
                row,
                columns={
                    name: values[name][i] if name in values else row.columns[name] for name in names
                },
            )
            for i, row in enumerate(relation.rows)
        ]
        return Relation(names, rows, relation.windowed)

    def project(self, relation: Relation, columns: Any) -> Relation:
        """Only these columns."""
        return self._computed("project", relation, columns, ())

    def add(self, relation: Relation, columns: Any) -> Relation:
        """These columns too."""
        return self._computed("add", relation, columns, relation.names)

    def limit(self, relation: Relation, spec: Mapping[str, Any]) -> Relation:
        """The first n by an order, of each group; they stay in the order that they have."""
        keys = self.keys("limit", "by", _names(spec.get("by")), relation)
        counts: dict[Any, int] = {}
        chosen = set()
        n = self.settled(spec["n"])
        for place in self.sorted("limit", "order", spec.get("order"), relation):
            counts[keys[place]] = counts.get(keys[place], 0) + 1
            if counts[keys[place]] <= n:
                chosen.add(place)
        self.seen("limit", "n", [])
        return relation.of([row for place, row in enumerate(relation.rows) if place in chosen])

    def sort(self, relation: Relation, terms: Any) -> Relation:
        """The same rows in another order."""
        return relation.of(
            [relation.rows[place] for place in self.sorted("sort", "by", terms, relation)]
        )

    def distinct(self, relation: Relation, names: Sequence[str]) -> Relation:
        """The first row of each group."""
        keys = self.keys("distinct", "by", names or relation.names, relation)
        first = {key: place for place, key in reversed(list(enumerate(keys)))}
        return relation.of(
            [row for place, row in enumerate(relation.rows) if first[keys[place]] == place]
        )

    def aggregate(self, relation: Relation, spec: Mapping[str, Any]) -> Relation:
        """A row for each group, in the order of the groups' first rows."""
        by = spec.get("by") or {}
        by = dict.fromkeys(_names(by)) if isinstance(by, (str, list)) else by
        columns = [
            self.values("aggregate", "by", f'"{n}"' if text is None else text, relation)
            for n, text in by.items()
        ]
        groups: dict[Any, list[int]] = {} if by or relation.windowed else {(): []}
        for place in range(len(relation.rows)):
            groups.setdefault(tuple(same_key(column[place]) for column in columns), []).append(
                place
            )
        if any(len(places) > 1 for places in groups.values()):
            self.note("aggregate", "by", "ties")
        rows = []
        for places in groups.values():
            values = {name: column[places[0]] for name, column in zip(by, columns, strict=True)}
            values |= self.aggregates(
                "aggregate",
                spec.get("add") or {},
                [relation.rows[place].columns for place in places],
            )
            members = [
                m for m in (relation.rows[place].member for place in places) if m is not None
            ]
            rows.append(Row(values, min(members, default=None), _all_sources(relation, places)))
        found = Relation([*by, *(spec.get("add") or {})], rows, relation.windowed)
        if "having" in spec:
            truths = self.truths("aggregate", "having", spec["having"], found)
            found = found.of([row for row, true in zip(rows, truths, strict=True) if true])
        return found

    def aggregates(
        self,
        operator: str,
        add: Mapping[str, str],
        group: Sequence[Columns],
        clause: str = "add",
    ) -> dict[str, Any]:
        """The aggregates of a group of rows."""
        sight = Sight()
        found = {}
        for name, text in add.items():
            tree = parse(text)
            found[name] = evaluate(tree, Scope({}, group=group, params=self.params, sight=sight))
            if tree[0] == "call" and tree[4]:
                self._ties_within(operator, clause, tree, group)
        self.noted(operator, clause, sight)
        return found

    def _ties_within(self, operator: str, clause: str, tree: Any, group: Sequence[Columns]) -> None:
        keys = [
            tuple(same_key(evaluate(key, Scope(row, params=self.params))) for key, _ in tree[4])
            for row in group
        ]
        if len(set(keys)) < len(keys):
            self.note(operator, clause, "ties")

    def iterate(self, relation: Relation, spec: Mapping[str, Any]) -> Relation:
        """Rounds of operators over their own last rows, until each group has ended."""
        names, every = relation.names, spec.get("keep") == "all"
        groups = {} if spec.get("by") else {(): 0}
        for key in self.keys("iterate", "by", _names(spec.get("by")), relation):
            groups.setdefault(key, len(groups))
        open_, seen = set(groups), set[Any]()
        rows, before = self._of_groups(relation.rows, spec, open_, seen), list[Row]()
        kept: list[tuple[int, int, Row]] = []
        for number in range(spec["times"] + 1):
            ended = {group for group in open_ if self._ended(group, rows, before, spec)}
            over = ended if number < spec["times"] else open_
            kept += [(number, groups[group], row) for group, row in rows if every or group in over]
            open_ -= ended
            if not open_ or number == spec["times"]:
                break
            before = [row for group, row in rows if group in open_]
            self.rounds[spec["as"]] = relation.of(before)
            failed = len(self.failed)
            made = self.relation(spec["do"]).rows
            lost = {member for _, member in self.failed[failed:]} - {None}
            made = [row for row in made if row.member not in lost]
            if any(group not in groups for group, _ in self._grouped(made, spec)):
                raise Uncomputable("a row of another group")
            rows = self._of_groups(made, spec, open_, seen)
        if every:
            names = [*names, "round"]
            made = [replace(row, columns={**row.columns, "round": n}) for n, _, row in kept]
        else:
            made = [row for _, _, row in sorted(kept, key=lambda each: each[1])]
        made = [replace(row, columns={name: row.columns[name] for name in names}) for row in made]
        return Relation(names, made, relation.windowed)

    def _grouped(self, rows: Sequence[Row], spec: Mapping[str, Any]) -> list[tuple[Any, Row]]:
        by = _names(spec.get("by"))
        return [(tuple(same_key(row.columns[name]) for name in by), row) for row in rows]

    def _of_groups(
        self, rows: Sequence[Row], spec: Mapping[str, Any], open_: set[Any], seen: set[Any]
    ) -> list[tuple[Any, Row]]:
        """The rows of groups that go on, without those that their group has had."""
        own = [(group, row) for group, row in self._grouped(rows, spec) if group in open_]
        distinct = _names(spec.get("distinct"))
        found = []
        for group, row in own:
            values = (group, *(same_key(row.columns[name]) for name in distinct))
            if not distinct or values not in seen:
                found.append((group, row))
            seen.add(values)
        keys = _names(spec.get("key"))
        named = {tuple(same_key(row.columns[name]) for name in keys) for _, row in found}
        if keys and len(named) < len(found):
            raise Uncomputable("two rows with one key")
        return found

    def _ended(
        self, group: Any, rows: Sequence[tuple[Any, Row]], before: Sequence[Row], spec: Any
    ) -> bool:
        """Whether a group has no rows, or the condition holds of them."""
        own = [row for other, row in rows if other == group]
        if not own or "until" not in spec:
            return not own
        keys = _names(spec.get("key"))
        named = {tuple(same_key(row.columns[name]) for name in keys): row.columns for row in before}
        judged = [
            {**row.columns, "was": named.get(tuple(same_key(row.columns[name]) for name in keys))}
            if keys
            else row.columns
            for row in own
        ]
        return self.aggregates("iterate", {"u": spec["until"]}, judged, "until")["u"] is True

    def unnest(self, relation: Relation, spec: Mapping[str, Any]) -> Relation:
        """A row for each item of a list."""
        column, alias, position = spec["column"], spec["alias"], spec.get("position")
        rest = [name for name in relation.names if name != column]
        rows = []
        for row in relation.rows:
            items = row.columns[column] or []
            self.seen("unnest", "column", [row.columns[column], *items])
            if not items and spec.get("how") == "left":
                items = [None]
            for ordinal, item in enumerate(items, 1):
                values = {name: row.columns[name] for name in rest} | {alias: item}
                values |= {position: ordinal} if position else {}
                rows.append(replace(row, columns=values))
        return Relation([*rest, alias, *([position] if position else [])], rows, relation.windowed)

    def cluster(self, edges: Relation, spec: Mapping[str, Any]) -> Relation:
        """Each node with the smallest key that edges lead to, in either direction; in a forest, with
        the last one in theirs.
        """
        nodes = self.relation(spec["nodes"]) if "nodes" in spec else edges
        by = _names(spec.get("by") or [])
        scopes = self.keys("cluster", "by", by, nodes)
        own = [row.columns[spec["key"]] for row in nodes.rows]
        names = {
            (scope, key): key for scope, key in zip(scopes, own, strict=True) if key is not None
        }
        ends = [
            [(scope, row.columns[spec[end]]) for end in ("source", "target")]
            for scope, row in zip(self.keys("cluster", "by", by, edges), edges.rows, strict=True)
        ]
        inside = [place for place, pair in enumerate(ends) if all(end in names for end in pair)]
        if spec.get("algorithm") == "forest":
            names = _last(list(names), ends)
        for _ in names if spec.get("algorithm") != "forest" else ():
            for place in inside:  # as often as the longest path is long
                least = min(names[end] for end in ends[place])
                names |= dict.fromkeys(ends[place], least)
        rows = []
        for scope, key, row in zip(scopes, own, nodes.rows, strict=True):
            name = names.get((scope, key))
            within = [p for p in inside if ends[p][0][0] == scope and names[ends[p][0]] == name]
            sources = row.sources | _all_sources(edges, within if key is not None else [])
            rows.append(replace(row, columns={**row.columns, spec["alias"]: name}, sources=sources))
        return Relation([*nodes.names, spec["alias"]], rows, nodes.windowed or edges.windowed)

    def require(self, relation: Relation, spec: Mapping[str, Any]) -> Relation:
        """A row for which the condition is not true fails."""
        truths = self.truths("require", "where", spec["where"], relation)
        self.values("require", "says", spec["says"], relation)
        return self._without(relation, [place for place, true in enumerate(truths) if not true])

    def _without(self, relation: Relation, failed: Sequence[int]) -> Relation:
        """A relation without the rows that failed."""
        self.failed += [(self.step, relation.rows[place].member) for place in failed]
        return relation.of([row for place, row in enumerate(relation.rows) if place not in failed])

    # -- joins
    # -----------------------------------------------------------------------------------------------------

    def matches(
        self, operator: str, left: Relation, right: Relation, spec: Mapping[str, Any]
    ) -> list[tuple[int, int]]:
        """The pairs of rows that a join brings together, by their places."""
        alias = spec.get("alias") or "_right"
        pairs = [(i, j) for i in range(len(left.rows)) for j in range(len(right.rows))]
        for mine, theirs in _using(spec.get("using")):
            pairs = [
                (i, j)
                for i, j in pairs
                if self._equal(
                    operator, _at(left.rows[i].columns, mine), _at(right.rows[j].columns, theirs)
                )
            ]
            if len({j for _, j in pairs}) < len(pairs) or len({i for i, _ in pairs}) < len(pairs):
                self.note(operator, "using", "ties")
        if "where" in spec and pairs:
            both = Relation([], [_pair(left.rows[i], right.rows[j], alias) for i, j in pairs])
            truths = self.truths(operator, "where", spec["where"], both)
            pairs = [pair for pair, true in zip(pairs, truths, strict=True) if true]
        return pairs

    def _equal(self, operator: str, left: Any, right: Any) -> bool:
        self.seen(operator, "using", [left, right])
        return left is not None and right is not None and compare(left, right) == 0

    def join(self, left: Relation, spec: Mapping[str, Any]) -> Relation:
        """Pairs of rows, or the left rows with or without one."""
        right, how = self.relation(spec["other"]), spec.get("how", "inner")
        pairs = self.matches("join", left, right, spec)
        if how in {"semi", "anti"}:
            matched = {i for i, _ in pairs}
            return left.of(
                [row for i, row in enumerate(left.rows) if (i in matched) == (how == "semi")]
            )
        return self._paired(left, right, spec["alias"], pairs, how)

    def _paired(
        self,
        left: Relation,
        right: Relation,
        alias: str,
        pairs: Sequence[tuple[int, int]],
        how: str,
        names: Iterable[str] = (),
        answered: Mapping[tuple[int, int], Columns] | None = None,
    ) -> Relation:
        """The pairs, each with the answers about it, and for a left join the other left rows."""
        rows, answered = [], answered or {}
        for i, row in enumerate(left.rows):
            both = {j: _pair(row, right.rows[j], alias) for k, j in pairs if k == i}
            mine = [
                replace(pair, columns={**pair.columns, **answered.get((i, j), {})})
                for j, pair in both.items()
            ]
            if not mine and how == "left":
                if right.windowed and not left.windowed:
                    raise Refused("rows of no window")
                mine = [replace(row, columns={**row.columns, **dict.fromkeys((alias, *names))})]
            rows += mine
        return Relation([*left.names, alias, *names], rows, left.windowed or right.windowed)

    def group_join(self, left: Relation, spec: Mapping[str, Any]) -> Relation:
        """Each left row with aggregates of its matches."""
        right = self.relation(spec["other"])
        pairs = self.matches("group_join", left, right, spec)
        rows = []
        for i, row in enumerate(left.rows):
            both = Relation(
                [], [_pair(row, right.rows[j], spec["alias"]) for k, j in pairs if k == i]
            )
            places = self.sorted("group_join", "order", spec.get("order"), both)
            if spec.get("limit") is not None:
                places = places[: self.settled(spec["limit"])]
                self.seen("group_join", "limit", [])
            group = [both.rows[place].columns for place in places]
            found = self.aggregates("group_join", spec["add"], group)
            sources = row.sources | _all_sources(both, places)
            rows.append(Row({**row.columns, **found}, row.member, sources))
        return Relation(
            [*left.names, *(name for name in spec["add"] if name not in left.names)],
            rows,
            left.windowed,
        )

    # -- semantic operators
    # ------------------------------------------------------------------------------------------

    def questions(self, operator: str, prompt: str, relation: Relation) -> list[str]:
        """What the model is asked about each row."""
        for row in relation.rows:
            self.seen(
                operator,
                "prompt",
                [_at(row.columns, path) for path in _PLACEHOLDER.findall(prompt) if path[0] != "$"],
            )
        found = [template(prompt, row.columns, self.params) for row in relation.rows]
        if any(FAILING in text for text in found):
            self.note(operator, "prompt", "failures")
        if len(set(found)) < len(found):
            self.note(operator, "prompt", "ties")
        return found

    def _checked(
        self,
        operator: str,
        spec: Mapping[str, Any],
        row: Columns,
        ask: Callable[[Sequence[str]], Columns | None],
    ) -> Columns | None:
        """The first answer that meets the check, where there is one: `ask` gets the reasons why
        earlier answers were refused. Raises NoAnswer.
        """
        check = spec.get("check")
        reasons: list[str] = []
        while (found := ask(["; ".join(reasons)] if reasons else [])) is not None and check:
            seen = Relation([], [Row({**row, **found})])
            if self.truths(operator, "check", check["where"], seen) == [True]:
                break
            [message] = self.values(operator, "check", check["message"], seen)
            if len(reasons) == check.get("retries", 2):
                self.note(operator, "check", "failures")
                raise answers.NoAnswer
            reasons.append((message or "").strip().rstrip(".") or "it does not meet the check")
        return found

    def sem_filter(self, relation: Relation, spec: Mapping[str, Any]) -> Relation:
        """The rows for which the model says yes, with its answers; a row without `when` stays if
        `otherwise` is true.
        """
        asked, stay = (
            self.truths("sem_filter", key, spec[key], relation)
            if key in spec
            else [True] * len(relation.rows)
            for key in ("when", "otherwise")
        )
        places = [place for place, wanted in enumerate(asked) if wanted]
        some = relation.of([relation.rows[place] for place in places])
        texts = dict(zip(places, self.questions("sem_filter", spec["prompt"], some), strict=True))
        kept, returns = spec.get("on_error") == "null", spec.get("returns") or {}
        rows, failed = [], []
        for place, row in enumerate(relation.rows):
            found = {**dict.fromkeys(returns), "keep": stay[place]}
            if (text := texts.get(place)) is not None:
                try:
                    ask = partial(_filtered, returns, text)
                    found = self._checked("sem_filter", spec, row.columns, ask) or {}
                except answers.NoAnswer:
                    found["keep"] = kept
                    failed.append(place)
            if found.pop("keep"):
                rows.append(replace(row, columns={**row.columns, **found}))
        if not kept:
            self._without(relation, failed)
        return Relation([*relation.names, *returns], rows, relation.windowed)

    def sem_map(self, relation: Relation, spec: Mapping[str, Any]) -> Relation:
        """Each row with what the model answers; a row without `when` takes `otherwise`."""
        records = [
            self._records(name, part, relation) for name, part in (spec.get("refs") or {}).items()
        ]
        shown = relation.of([
            replace(row, columns={**row.columns, **{r.name: r.shown[i] for r in records}})
            for i, row in enumerate(relation.rows)
        ])  # fmt: skip
        asked = (
            self.truths("sem_map", "when", spec["when"], shown)
            if "when" in spec
            else [True] * len(relation.rows)
        )
        other = {
            name: self.values("sem_map", "otherwise", text, shown)
            for name, text in (spec.get("otherwise") or {}).items()
        }
        places = [place for place, wanted in enumerate(asked) if wanted]
        texts = dict(
            zip(
                places,
                self.questions(
                    "sem_map", spec["prompt"], shown.of([shown.rows[p] for p in places])
                ),
                strict=True,
            )
        )
        rows, failed = [], []
        for place, row in enumerate(relation.rows):
            text = texts.get(place)
            if text is None:
                found = {
                    name: other[name][place] if name in other else None for name in spec["returns"]
                }
            else:
                ask = partial(_mapped, spec["returns"], text, records, place)
                try:
                    found = self._checked("sem_map", spec, shown.rows[place].columns, ask) or {}
                except answers.NoAnswer:
                    found = dict.fromkeys(spec["returns"])
                    failed.append(place)
            sources = row.sources.union(*(r.sources[place] for r in records))
            rows.append(replace(row, columns={**row.columns, **found}, sources=sources))
        result = Relation([*relation.names, *spec["returns"]], rows, relation.windowed)
        return result if spec.get("on_error") == "null" else self._without(result, failed)

    def _records(self, name: str, spec: Mapping[str, Any], relation: Relation) -> _Records:
        """The records of each row that answers may name."""
        right = self.relation(spec["of"])
        pairs = self.matches("group_join", relation, right, {**spec, "alias": name})
        records = _Records(name, spec.get("unknown", "ask"), [], [], [])
        for i in range(len(relation.rows)):
            own = right.of([right.rows[j] for k, j in pairs if k == i])
            places = self.sorted("group_join", "order", spec.get("order"), own)
            if spec.get("limit") is not None:
                places = places[: self.settled(spec["limit"])]
            chosen = own.of([own.rows[place] for place in places])
            columns = {
                column: self.values("add", "columns", f'"{column}"' if text is None else text, own)
                for column, text in spec["shows"].items()
            }
            records.shown.append([
                {"number": n, **{column: values[place] for column, values in columns.items()}}
                for n, place in enumerate(places, 1)
            ])  # fmt: skip
            records.rows.append([row.columns for row in chosen.rows])
            records.sources.append(_all_sources(own, places))
        return records

    def sem_agg(self, relation: Relation, spec: Mapping[str, Any]) -> Relation:
        """A row for each group with what the model answers about its rows in their order."""
        by = _names(spec.get("by"))
        keys = self.keys("sem_agg", "by", by, relation)
        texts = self.questions("sem_agg", spec["prompt"], relation)
        groups: dict[Any, list[int]] = {key: [] for key in keys}
        for place in self.sorted("sem_agg", "order", spec.get("order"), relation):
            groups[keys[place]].append(place)
        rows, failed = [], []
        for places in groups.values():
            head, group = (
                relation.rows[min(places)],
                [relation.rows[place].columns for place in places],
            )
            condition = {"when": spec.get("when", "TRUE")}
            asked = self.aggregates("sem_agg", condition, group, "when")["when"]
            other = self.aggregates("sem_agg", spec.get("otherwise") or {}, group, "otherwise")
            add = self.aggregates("sem_agg", spec.get("add") or {}, group)
            own = {name: head.columns[name] for name in by}
            if asked is not True:
                found = {name: other.get(name) for name in spec["returns"]}
            else:
                mixed = len({self._owner(relation, place) for place in places}) > 1
                ask = partial(
                    _grouped, spec["returns"], [texts[place] for place in places], mixed=mixed
                )
                try:
                    found = self._checked("sem_agg", spec, {**own, **add}, ask) or {}
                except answers.NoAnswer:
                    failed.append(len(rows))
                    found = dict.fromkeys(spec["returns"])
            values = {**own, **found, **add}
            rows.append(Row(values, head.member, _all_sources(relation, places)))
        names = [*by, *spec["returns"], *(spec.get("add") or {})]
        result = Relation(names, rows, relation.windowed)
        return result if spec.get("on_error") == "null" else self._without(result, failed)

    def sem_topk(self, relation: Relation, spec: Mapping[str, Any]) -> Relation:
        """The k best rows of each group, best first."""
        keys = self.keys("sem_topk", "by", _names(spec.get("by")), relation)
        texts = self.questions("sem_topk", spec["prompt"], relation)
        self.seen("sem_topk", "k", [])
        groups: dict[Any, list[int]] = {}
        for place, key in enumerate(keys):
            groups.setdefault(key, []).append(place)
        rows, failed = [], []
        for places in groups.values():
            failed += [place for place in places if FAILING in texts[place]]
            good = sorted(
                (place for place in places if FAILING not in texts[place]),
                key=lambda p: -answers.score(texts[p]),
            )
            for rank, place in enumerate(good[: self.settled(spec["k"])]):
                row = relation.rows[place]
                ranked = {"rank": rank, "score": float(answers.score(texts[place]))}
                rows.append(replace(row, columns={**row.columns, **ranked}))
        if spec.get("on_error") != "null":
            self._without(relation, failed)
        return Relation([*relation.names, "rank", "score"], rows, relation.windowed)

    def sem_join(self, left: Relation, spec: Mapping[str, Any]) -> Relation:
        """Pairs to which the model says yes, among those that `using` and `where` allow."""
        right, how, alias = self.relation(spec["other"]), spec.get("how", "inner"), spec["alias"]
        pairs = [
            (i, j)
            for i, j in self.matches("sem_join", left, right, spec)
            if self._may_meet(self._owner(left, i), self._owner(right, j))
        ]
        both = Relation(
            [*left.names, alias], [_pair(left.rows[i], right.rows[j], alias) for i, j in pairs]
        )
        texts = self.questions("sem_join", spec["prompt"], both)
        returns, failed, matching = spec.get("returns") or {}, [], {}
        for n, (row, text) in enumerate(zip(both.rows, texts, strict=True)):
            try:
                ask = partial(_matched, returns, text)
                if (found := self._checked("sem_join", spec, row.columns, ask)) is not None:
                    matching[n] = found
            except answers.NoAnswer:
                failed.append(pairs[n][0])
        dropped = [] if spec.get("on_error") == "null" else failed
        self.failed += [(self.step, left.rows[i].member) for i in dropped]
        chosen = [n for n in matching if pairs[n][0] not in dropped]
        both = replace(
            both,
            rows=[
                replace(row, columns={**row.columns, **matching.get(n, {})})
                for n, row in enumerate(both.rows)
            ],
        )
        if spec.get("keep") == "one":
            chosen = self._first_match(both, pairs, chosen, spec)
        matched = {pairs[n][0] for n in chosen}
        rest = [i for i in range(len(left.rows)) if i not in dropped]
        if how in {"semi", "anti"}:
            return left.of([left.rows[i] for i in rest if (i in matched) == (how == "semi")])
        kept = [(rest.index(pairs[n][0]), pairs[n][1]) for n in chosen]
        found = dict(zip(kept, (matching[n] for n in chosen), strict=True))
        left = left.of([left.rows[i] for i in rest])
        return self._paired(left, right, alias, kept, how, returns, found)

    def _owner(self, relation: Relation, place: int) -> str | None:
        """The partition of a row: of its window, else what the partition's column names; None: of
        nobody.
        """
        if relation.windowed:
            return self.partition
        return (
            relation.rows[place].columns["group_id"] or "" if "group_id" in relation.names else None
        )

    @staticmethod
    def _may_meet(one: str | None, other: str | None) -> bool:
        """Whether a prompt may show rows of two owners."""
        return one is None or other is None or one == other

    def _first_match(
        self,
        both: Relation,
        pairs: Sequence[tuple[int, int]],
        chosen: Sequence[int],
        spec: Mapping[str, Any],
    ) -> list[int]:
        """The first match of each left row in the operator's order."""
        order = self.sorted(
            "sem_join", "order", spec.get("order"), both.of([both.rows[n] for n in chosen])
        )
        best: dict[int, int] = {}
        for place in order:
            best.setdefault(pairs[chosen[place]][0], chosen[place])
        return sorted(best.values())


CLAUSES = {
    "filter": "where",
    "project": "columns",
    "add": "columns",
    "sort": "by",
    "distinct": "by",
}


def _has_aggregate(tree: Any) -> bool:
    """Whether an expression holds an aggregate that is no window function."""
    if not isinstance(tree, tuple) or tree[:1] == ("over",):
        return False
    return (tree[:1] == ("call",) and tree[1] in AGGREGATES) or any(map(_has_aggregate, tree))


def _literal(value: Any) -> Any:
    """A value of YAML as SQL reads it."""
    return (
        {None: "NULL", True: "TRUE", False: "FALSE"}.get(value, value)
        if value is None or isinstance(value, bool)
        else value
    )


def _names(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def _using(value: Any) -> list[tuple[str, str]]:
    return (
        list(value.items()) if isinstance(value, dict) else [(name, name) for name in _names(value)]
    )


def _at(row: Any, path: str) -> Any:
    for part in path.split("."):
        row = None if row is None else row[part]
    return row


def _pair(left: Row, right: Row, alias: str) -> Row:
    member = right.member if left.member is None else left.member
    return Row({**left.columns, alias: right.columns}, member, left.sources | right.sources)


def _last(nodes: Sequence[Any], ends: Sequence[Sequence[Any]]) -> dict[Any, Any]:
    """The last key on the way of each node; of a cycle, the smallest. A node is (scope, key)."""
    target = {a: b for a, b in ends if a[1] is not None and b[1] is not None}
    names = {}
    for node in nodes:
        way = [node]
        while way[-1] in target and way[-1] not in way[:-1]:
            way.append(target[way[-1]])
        cycle = way[way.index(way[-1]) :]
        names[node] = min(key for _, key in cycle)
    return names


def _all_sources(relation: Relation, places: Sequence[int]) -> Sources:
    """What rows are made of together."""
    return frozenset[tuple[str, int]]().union(*(relation.rows[p].sources for p in places))


def _answers(returns: Mapping[str, str], texts: Sequence[str]) -> dict[str, Any]:
    """The answers to a question, or of a group. Raises NoAnswer."""
    if any(FAILING in text for text in texts):
        raise answers.NoAnswer
    return {name: answers.of_group(name, _json_kind(kind), texts) for name, kind in returns.items()}


def _mapped(
    returns: Mapping[str, str],
    text: str,
    records: Sequence[_Records],
    place: int,
    refusals: Sequence[str],
) -> dict[str, Any]:
    return _led_back(returns, _answers(returns, [*refusals, text]), records, place)


def _filtered(returns: Mapping[str, str], text: str, refusals: Sequence[str]) -> dict[str, Any]:
    found = _answers(returns, [*refusals, text])
    return {**found, "keep": answers.yes(*refusals, text)}


def _grouped(
    returns: Mapping[str, str], texts: Sequence[str], refusals: Sequence[str], *, mixed: bool
) -> dict[str, Any]:
    if mixed:
        raise answers.NoAnswer
    return _answers(returns, [*refusals, *texts])


def _matched(
    returns: Mapping[str, str], text: str, refusals: Sequence[str]
) -> dict[str, Any] | None:
    """The answers about a pair; None if it does not match. Raises NoAnswer."""
    found = _answers(returns, [*refusals, text])
    return found if answers.yes(*refusals, text) else None


def _json_kind(kind: str) -> str:
    """A type as JSON Schema names it."""
    if "ref<" in kind:
        return "integers" if kind.startswith("list") else "integer"
    return _JSON_KINDS[kind.removesuffix(" null")]


__all__ = ["Evaluated", "NotUnderstood", "Refused", "Relation", "Row", "replace", "run"]
