"""Random plans over all operators, with their inputs. A seed gives one case, for ever."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.fuzz.expressions import DOUBLES, NUMBERS, STRINGS, Expressions, Kind, paths, yaml_kind
from tests.fuzz.rows import COLUMNS, FAILING, INPUT, REQUIRED, rows
from tests.fuzz.stored import keep

Typed = dict[str, Kind]
Drawn = tuple[list[dict[str, Any]], Typed]  # operators, and the columns that they leave
PARAMS: dict[str, Any] = {
    "two": 2,
    "half": 0.5,
    "word": "a",
    "yes": True,
    "few": [1, 2],
    "no": False,
}
INPUTS = ("people", "others")
LEFT_OUT = "gone"  # a step whose condition does not hold
IMPLEMENTATIONS = {
    "sem_map": ("per_row", "packed(rows=2)", "packed(rows=3)"),
    "sem_filter": ("per_row", "packed(rows=2)", "packed(rows=1)"),
    "sem_join": (
        "nested_loop",
        "block(left=2, right=2)",
        "block(left=1)",
        "block(right=1)",
        "block(pairs=3)",
    ),
    "sem_agg": ("single",),
    "sem_topk": ("pointwise", "packed(rows=3)"),
}
"""Those that answer as the reference does; `lotus` needs a package of its own."""
LISTS = (STRINGS, NUMBERS, DOUBLES)
_SQL = {"int64": "BIGINT", "string": "VARCHAR", "timestamp": "TIMESTAMPTZ"}
PLAIN = ("int64", "double", "string", "boolean", "timestamp")


@dataclass(frozen=True)
class Case:
    """A plan and the rows of its inputs.

    Args:
        document: The plan.
        inputs: The rows.
        few: The number of rows up to which generated Python computes its relations.
    """

    document: dict[str, Any]
    inputs: dict[str, list[dict[str, Any]]]
    few: int = 4


def case(seed: int | str) -> Case:
    """The case of a seed."""
    drawing = _Drawing(random.Random(seed), random.Random(f"{seed}: checks"))
    drawn, more = drawing.case(), random.Random(f"{seed}: what is kept")
    drawing.rng = drawing.expressions.rng = random.Random(f"{seed}: rounds")
    if drawing.chance(0.35):
        drawing.iterate_last(drawn.document)
    if "windows" in drawn.document and more.random() < 0.35:
        keep(more, drawn.document)
    return replace(drawn, few=more.randint(0, 12))


class _Drawing:
    """One case while it is drawn."""

    def __init__(self, rng: random.Random, checks: random.Random) -> None:
        self.rng, self.checks = rng, checks
        self.inputs: dict[str, Typed] = dict.fromkeys(INPUTS, COLUMNS)
        self.expressions = Expressions(
            rng, {name: value for name, value in PARAMS.items() if name != "few"}, python=True
        )
        self.windows = rng.random() < 0.4
        self.failing = rng.random() < 0.6
        self.steps: dict[str, tuple[list[Any], Typed]] = {}
        self.of_people = {"people"}  # what derives from the input that may be cut into windows
        self.here = False  # whether the relation at hand does
        self.called: dict[str, dict[str, Any]] = {}  # plans that this one calls
        self.left_out = False  # whether something reads the step that is left out
        self.names = 0

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def fresh(self, prefix: str = "c") -> str:
        """A name that nothing has yet."""
        self.names += 1
        return f"{prefix}{self.names}"

    def case(self) -> Case:
        """Steps, each from an input or an earlier step, and results."""
        for number in range(self.rng.randint(1, 3)):
            self.steps[f"s{number}"] = self.step()
        last = list(self.steps)[-1]
        columns = {
            name: f"{yaml_kind(kind)}{'' if name in REQUIRED else ' null'}"
            for name, kind in INPUT.items()
        }
        document: dict[str, Any] = {
            "plan": "drawn",
            "inputs": {"people": {**columns, "uuid": "string null"}, "others": columns},
            "params": PARAMS,
            "steps": {
                name: self.conditional(operators) for name, (operators, _) in self.steps.items()
            },
            "returns": [name for name in self.steps if name == last or self.chance(0.3)],
        }
        if self.called:
            document["called"] = self.called
        if self.left_out or self.chance(0.05):
            document["steps"][LEFT_OUT] = {
                "if": self.pick("$no", {"$word": "b"}),
                "do": [{"from": "others"}],
            }
            document["returns"] += [LEFT_OUT] if self.chance(0.3) else []
        use = {
            name: choice
            for name, (operators, _) in self.steps.items()
            if "call" not in operators[0] and (choice := self.choice(operators))
        }
        if use := use | self.swapped():
            document["use"] = use
        if self.windows:
            document["windows"] = self.cut_people()
        many = self.chance(0.12)
        inputs = {name: rows(self.rng, many=many, failing=self.failing) for name in INPUTS}
        return Case(document, inputs)

    def conditional(self, operators: list[Any]) -> Any:
        """A step; sometimes with a condition that holds."""
        if self.chance(0.9):
            return operators
        return {
            "if": self.pick("$yes", "$two", {"$yes": True}, {"$word": ["b", "a"]}),
            "do": operators,
        }

    def cut_people(self) -> dict[str, Any]:
        """How people are cut into windows."""
        order = self.rng.sample(["moment", "k", "id", "s", "x_text"], self.rng.randint(1, 2))
        return {
            "input": "people",
            "partition": "group_id",
            "order": order,
            "key": "uuid",
            "key_of": ["id", "canary"],
            "size": self.pick(1, 2, 3, "all"),
        }

    def choice(self, operators: list[Any]) -> str | None:
        """How a step is done; sometimes in another way than by default."""
        asking = {
            keyword for operator in operators for keyword in operator if keyword in IMPLEMENTATIONS
        }
        common = (
            [
                text
                for text in IMPLEMENTATIONS[min(asking)]
                if all(text in IMPLEMENTATIONS[k] for k in asking)
            ]
            if asking
            else []
        )
        return self.rng.choice(common) if common and self.chance(0.5) else None

    # -- steps
    # -----------------------------------------------------------------------------------------------

    def source(self, *, alike: bool = False) -> tuple[list[Any], Typed]:
        """An input or a step, with its columns; `alike`: one that may stand beside the relation at
        hand.

        Rows of no window cannot stand beside rows of windows, unless these come first.
        """
        listed: list[tuple[str, Typed]] = [
            (name, dict(typed)) for name, typed in self.inputs.items()
        ]
        listed += [(name, typed) for name, (_, typed) in self.steps.items()] * 2
        if alike and self.windows and not self.here:
            listed = [pair for pair in listed if pair[0] not in self.of_people]
        name, typed = (
            self.rng.choice(listed) if self.steps or alike or self.chance(0.3) else listed[0]
        )
        if not alike:
            self.here = name in self.of_people
        if name not in INPUTS:
            return [{"from": name}], typed
        if self.chance(0.15):  # as it is given: no cast stands before what follows
            given = {column: kind for column, kind in typed.items() if column != "x"}
            return [{"from": name}, *self.plainly(given)[0]], given
        return [{"from": name}, {"add": {"x": "TRY_CAST(x_text AS DOUBLE)"}}], typed

    def step(self) -> tuple[list[Any], Typed]:
        """A source and some operators."""
        kind = self.rng.random()
        draws = ((0.12, self.united), (0.18, self.chosen), (0.28, self.call), (1.0, self.source))
        operators, typed = next(draw for share, draw in draws if kind < share)()
        if self.failing and self.chance(0.65):
            more, typed = self.pick(self.sem_filter, self.sem_map, self.require, self.refusing)(
                dict(typed)
            )
            operators = [*operators, *more]
        for _ in range(self.rng.randint(1, 4)):
            more, typed = self.operator(dict(typed))
            operators = [*operators, *more]
            if IMPLEMENTATIONS.keys() & more[-1].keys() and self.chance(0.2):
                operators += self.plainly(typed)[0]
        if self.here:
            self.of_people.add(f"{'s' if 'people' in self.inputs else 't'}{len(self.steps)}")
        return operators, typed

    def refusing(self, typed: Typed) -> Drawn:
        """What fails for the rows that the model does not answer, before they meet others."""
        texts = [name for name in ("s", "t") if typed.get(name) == "string"]
        if not texts:
            return self.require(typed)
        text = self.pick(*texts)
        marked = "{canary}" if "canary" in typed and self.here else ""
        return [
            self.pick(
                {
                    "require": {
                        "where": f"coalesce(NOT contains({text}, '{FAILING}'), TRUE)",
                        "says": "'no'",
                    }
                },
                {"sem_filter": {"prompt": f"Is it so: {{{text}}} {marked}?"}},
            )
        ], typed

    def chosen(self) -> tuple[list[Any], Typed]:
        """The rows of a relation that are also, or not, among those that a filter keeps."""
        operators, typed = self.source()
        if self.failing:
            more, _ = self.pick(self.sem_filter, self.require)(dict(typed))
            operators = [*operators, *more]
        fewer, _ = self.filter(dict(typed))
        return [{self.pick("intersect", "except"): [operators, [*operators, *fewer]]}], typed

    def alike(self) -> tuple[list[Any], Typed]:
        """The union of a relation with itself, changed in ways that keep its columns."""
        operators, typed = self.source()
        if self.chance(0.7):
            more, typed = self.project(typed)
            operators = [*operators, *more]
        parts = []
        for _ in range(self.rng.randint(1, 2)):
            kept: list[Any] = list(operators)
            for _ in range(self.rng.randint(0, 2)):
                ways = (
                    self.filter,
                    self.replaced,
                    self.replaced,
                    self.replaced,
                    self.pick(self.sort, self.limit),
                )
                more, _ = self.pick(*ways)(dict(typed))
                kept += more
            parts.append(kept)
        if self.chance(0.2) and "others" in self.inputs:
            parts.insert(self.rng.randint(0, len(parts)), LEFT_OUT)
            self.left_out = True
            return [{"union": parts}], typed
        return [{self.pick("union", "intersect", "except"): parts}], typed

    def call(self) -> tuple[list[Any], Typed]:
        """What a plan of its own makes of a relation."""
        if "people" not in self.inputs:
            return self.source()
        operators, typed = self.source()
        inner, name = _Drawing(self.rng, self.checks), f"called{len(self.called)}"
        inner.windows, inner.failing, inner.names = self.windows, self.failing, self.names
        inner.of_people = {"given"} if self.here else set()
        declared = {
            column: typed[column]
            for column in self.rng.sample(list(typed), self.rng.randint(1, len(typed)))
        }
        if self.chance(0.4):
            declared[inner.fresh("m")] = self.pick(
                *PLAIN, STRINGS
            )  # a column that the caller has not
        inner.inputs = {"given": {**typed, **declared}}
        for number in range(self.rng.randint(1, 2)):
            inner.steps[f"t{number}"] = inner.step()
        last, (_, made) = list(inner.steps.items())[-1]
        self.names, self.here = inner.names, inner.here
        self.called[name] = {
            "plan": name,
            "inputs": {
                "given": {column: f"{yaml_kind(kind)} null" for column, kind in declared.items()}
            },
            "params": PARAMS,
            "steps": {
                step: inner.conditional(operators) for step, (operators, _) in inner.steps.items()
            },
            "returns": [last],
        }
        params = {"params": {"two": 1, "word": "b"}} if self.chance(0.5) else {}
        given = operators[0]["from"] if len(operators) == 1 else operators
        return [{"call": {"plan": name, "inputs": {"given": given}, **params}}], made

    def swapped(self) -> dict[str, str]:
        """Plans in the place of called ones, by the steps that call: the calls name others of the
        same interface, with fewer rows.
        """
        use: dict[str, str] = {}
        for step, (operators, _) in self.steps.items():
            asks = any(IMPLEMENTATIONS.keys() & operator.keys() for operator in operators)
            if "call" not in operators[0] or asks or self.chance(0.2):
                continue
            call = operators[0]["call"]
            plan = self.called[call["plan"]]
            [last] = plan["returns"]
            if isinstance(plan["steps"][last], dict):
                continue
            other = f"{plan['plan']}_less"
            fewer = [*plan["steps"][last], {"limit": {"n": 1}}]
            steps = {**plan["steps"], last: fewer}
            self.called[other] = {**plan, "plan": other, "steps": steps}
            use[step], call["plan"] = plan["plan"], other
        return use

    def replaced(self, typed: Typed) -> Drawn:
        """A column in place of another of its type."""
        names = [
            name
            for name, kind in typed.items()
            if kind in PLAIN and name not in {"group_id", "canary"}
        ]
        if not names:
            return self.filter(typed)
        name = self.rng.choice(names)
        draw = (
            self.expressions.constant
            if self.chance(0.5)
            else partial(self.expressions.draw, typed, depth=1)
        )
        return [{"add": {name: draw(kind=typed[name])}}], typed

    def united(self) -> tuple[list[Any], Typed]:
        """The union of two relations, brought to the same columns."""
        if self.chance(0.5):
            return self.alike()
        parts: list[Any] = []
        common = [self.source(), self.source(alike=True)]
        if self.windows and self.here:
            common[1] = common[0]  # both of windows
        shared = {
            name: kind for name, kind in common[0][1].items() if common[1][1].get(name) == kind
        } or {"made": "int64"}
        for operators, _ in common:
            parts.append(
                [
                    *operators,
                    {"project": {name: "1" if name == "made" else name for name in shared}},
                ]
            )
        if self.chance(0.3):
            return [{"switch": {"on": "$two", "1": parts[0], "2": [{"union": parts}]}}], dict(
                shared
            )
        if self.chance(0.4):
            return self.filled(parts, common[0][1], shared)
        return [{self.pick("union", "union", "intersect", "except"): parts}], dict(shared)

    def filled(self, parts: list[Any], first: Typed, shared: Typed) -> tuple[list[Any], Typed]:
        """A union of relations of which one has a column more."""
        more = {name: kind for name, kind in first.items() if name not in shared}
        if not more:
            return [{"union": {"of": parts, "fill": self.chance(0.5)}}], dict(shared)
        name = self.pick(*more)
        parts[0][-1]["project"][name] = name
        return [{"union": {"of": self.pick(parts, parts[::-1]), "fill": True}}], {
            **shared,
            name: more[name],
        }

    def operator(self, typed: Typed) -> Drawn:
        """One operator over a relation."""
        drawn = [
            self.filter,
            self.filter,
            self.project,
            self.add,
            self.add,
            self.limit,
            self.sort,
            self.distinct,
            self.aggregate,
            self.aggregate,
        ]
        drawn += [self.unnest, self.join, self.join, self.group_join, self.group_join, self.require]
        drawn += [self.cluster]
        drawn += [
            self.sem_filter,
            self.sem_filter,
            self.sem_map,
            self.sem_map,
            self.sem_join,
            self.sem_join,
            self.sem_agg,
            self.sem_agg,
            self.sem_agg,
            self.sem_topk,
        ]
        return self.rng.choice(drawn)(typed)

    def kind(self) -> Kind:
        return self.pick(
            "int64", "int64", "double", "string", "boolean", "timestamp", STRINGS, NUMBERS, DOUBLES
        )

    def plainly(self, typed: Typed) -> Drawn:
        """What the engine may do without a database."""
        times = [name for name, kind in typed.items() if kind == "timestamp"]
        if times and self.chance(0.5):
            name = self.pick(*times)
            return [
                {"add": {name: self.expressions.plain({name: "timestamp"}, "timestamp")}}
            ], typed
        return [{"filter": self.expressions.plain(typed)}], typed

    def misplaced(self, typed: Typed) -> Drawn:
        """An aggregate where none can stand: such a plan must be refused."""
        name = self.rng.choice(list(typed))
        forms = (
            {"filter": "count(*) > 1"},
            {"add": {self.fresh(): f"max({name})"}},
            {"sort": [f"max({name})"]},
        )
        return [self.pick(*forms)], typed

    def filter(self, typed: Typed) -> Drawn:
        if self.chance(0.02):
            return self.misplaced(typed)

        def test() -> Any:
            if self.chance(0.06):
                return f"{self.expressions.window(typed, 'int64')} < 3"
            if self.chance(0.04):
                return self.pick(True, "$yes", "TRUE")
            return (
                self.expressions.plain(typed)
                if self.chance(0.15)
                else self.expressions.draw(typed, "boolean", 3)
            )

        return [{"filter": [test(), test()] if self.chance(0.2) else test()}], typed

    def computed(self, typed: Typed) -> tuple[str, Kind]:
        kind = self.kind()
        if kind in {"int64", "string"} and self.chance(0.15):
            return self.expressions.window(typed, kind), kind
        if kind in {"timestamp", "boolean"} and self.chance(0.4):
            return self.expressions.plain(typed, kind), kind
        return self.expressions.draw(typed, kind, 3), kind

    def project(self, typed: Typed) -> Drawn:
        kept = self.rng.sample(list(typed), self.rng.randint(1, len(typed)))
        kept += [
            name for name in ("group_id", "canary", "id", "s") if name in typed and name not in kept
        ]
        columns: dict[str, Any] = {name: self.pick(None, name) for name in kept}
        found = {name: typed[name] for name in kept}
        for _ in range(self.rng.randint(0, 2)):
            name = self.fresh()
            columns[name], found[name] = self.computed(typed)
        return [{"project": columns}], found

    def add(self, typed: Typed) -> Drawn:
        columns = {}
        found = dict(typed)
        for _ in range(self.rng.randint(1, 2)):
            taken = [name for name in typed if name not in {"group_id", "canary", "uuid"}]
            name = self.rng.choice(taken) if taken and self.chance(0.3) else self.fresh()
            columns[name], found[name] = self.computed(typed)
        return [{"add": columns}], found

    def terms(self, typed: Typed) -> Any:
        listed = [self.expressions.term(typed) for _ in range(self.rng.randint(1, 2))]
        return listed if len(listed) > 1 or self.chance(0.3) else listed[0]

    def some_names(self, typed: Typed) -> list[str]:
        flat = [name for name, kind in typed.items() if kind in (*PLAIN, *LISTS)]
        chosen = self.rng.sample(flat, min(len(flat), self.rng.randint(1, 2)))
        doubles = [name for name in flat if typed[name] == "double" and name not in chosen]
        return [*chosen, self.rng.choice(doubles)] if doubles and self.chance(0.4) else chosen

    def limit(self, typed: Typed) -> Drawn:
        spec: dict[str, Any] = {"n": self.pick(1, 1, 2, 3, "$two")}
        if self.chance(0.4):
            spec["by"] = self.some_names(typed)
        if self.chance(0.75):
            spec["order"] = self.terms(typed)
        return [{"limit": spec}], typed

    def sort(self, typed: Typed) -> Drawn:
        terms = self.terms(typed)
        return [{"sort": terms if isinstance(terms, list) else [terms]}], typed

    def distinct(self, typed: Typed) -> Drawn:
        return [{"distinct": [] if self.chance(0.3) else self.some_names(typed)}], typed

    def aggregate(self, typed: Typed) -> Drawn:
        by: Any = self.some_names(typed) if self.chance(0.8) else []
        found = {name: typed[name] for name in by}
        if by and self.chance(0.2):
            name = self.fresh()
            kind = self.pick("int64", "string", "double")
            by = {**dict.fromkeys(by), name: self.expressions.draw(typed, kind, 1)}
            found[name] = kind
        spec: dict[str, Any] = {"by": by, "add": {}} if by or self.chance(0.5) else {"add": {}}
        for _ in range(self.rng.randint(1, 3)):
            name = self.fresh()
            spec["add"][name], found[name] = self.expressions.aggregate(typed)
        if (doubles := self.expressions.columns(typed, "double")) and self.chance(0.2):
            name = self.fresh()
            spec["add"][name], found[name] = (
                f"{self.pick('max', 'sum', 'first')}({self.pick(*doubles)})",
                "double",
            )
        if self.chance(0.5):
            spec["having"] = self.expressions.touching(found, "boolean", 2)
        return [{"aggregate": spec}], found

    def unnest(self, typed: Typed) -> Drawn:
        lists = [
            name for name, kind in typed.items() if isinstance(kind, tuple) and kind[0] == "list"
        ]
        if not lists or self.chance(0.5):
            name, kind, doubles = (
                self.fresh(),
                self.pick(NUMBERS, DOUBLES, DOUBLES),
                self.expressions.columns(typed, "double"),
            )
            made = (
                f"[{self.pick(*doubles)}, 0.5]"
                if doubles and kind == DOUBLES
                else self.expressions.draw(typed, kind, 2)
            )
            more, typed = [{"add": {name: made}}], {**typed, name: kind}
            lists = [name]
        else:
            more = []
        column, alias = self.rng.choice(lists), self.fresh()
        spec: dict[str, Any] = {"column": column, "alias": alias}
        found = {name: kind for name, kind in typed.items() if name != column} | {
            alias: typed[column][1]
        }
        if self.chance(0.5):
            spec["position"] = self.fresh()
            found[spec["position"]] = "int64"
        if self.chance(0.5):
            spec["how"] = self.pick("inner", "left")
        return [*more, {"unnest": spec}], found

    def require(self, typed: Typed) -> Drawn:
        if self.windows and not self.failing:
            return self.filter(typed)
        where = self.expressions.draw(typed, "boolean", 2)
        return [
            {
                "require": {
                    "where": f"coalesce({where}, TRUE)" if self.chance(0.7) else where,
                    "says": "'no'",
                }
            }
        ], typed

    # -- joins
    # -------------------------------------------------------------------------------------------------

    def meeting(
        self, typed: Typed, alias: str, *, needed: bool = True
    ) -> tuple[dict[str, Any], Typed, Typed]:
        """The other relation of a join, what it is joined by, and the columns that the conditions
        of the join see.
        """
        operators, other = self.source(alike=True)
        both = {**typed, alias: ("struct", tuple(other.items()))}
        spec: dict[str, Any] = {
            "other": operators[0]["from"] if len(operators) == 1 else operators,
            "alias": alias,
        }
        left, right = list(paths(typed)), list(paths(other))
        equal = [(a, b) for a, kind in left for b, of in right if kind == of and kind in PLAIN]
        if equal and self.chance(0.65):
            chosen = dict(self.rng.sample(equal, 1 if self.chance(0.8) else min(2, len(equal))))
            doubles = [(a, b) for a, b in equal if dict(left)[a] == "double"]
            if doubles and self.chance(0.2):
                chosen = dict(self.rng.sample(doubles, 1))
            same = all(a == b for a, b in chosen.items())
            spec["using"] = list(chosen) if same else chosen
        if (needed and "using" not in spec) or self.chance(0.4 if needed else 0.85):
            spec["where"] = (
                self.expressions.touching(both, "boolean", 2) if self.chance(0.9) else "TRUE"
            )
        return spec, other, both

    def read_people(self, source: Any) -> bool:
        """Whether a relation derives from the input that may be cut into windows."""
        return (source if isinstance(source, str) else source[0]["from"]) in self.of_people

    def cluster(self, typed: Typed) -> Drawn:
        """What is connected: rows by columns of their own, or those of another relation."""
        spec: dict[str, Any] = {"alias": self.fresh()}
        found = typed
        numbers = [name for name, kind in typed.items() if kind == "int64"]
        if numbers and self.chance(0.5):  # few keys, many edges
            one, other = self.fresh(), self.fresh()
            places = {
                one: f"abs({self.pick(*numbers)}) % 9",
                other: f"abs({self.pick(*numbers)}) % 9",
            }
            spec |= {"key": one, "source": one, "target": other}
            found = {**typed, one: "int64", other: "int64", spec["alias"]: "int64"}
            if self.chance(0.4):  # each node has one target
                forest = {"cluster": {**spec, "algorithm": "forest"}}
                return [{"add": places}, {"distinct": [one]}, forest], found
            return [{"add": places}, {"cluster": spec}], found
        if not self.windows and self.chance(0.5):
            spec["nodes"], found = self.source()
        kinds = [k for k in ("int64", "string", "timestamp") if k in found.values()]
        kinds = [k for k in kinds if k in typed.values()]
        if not kinds:
            return self.filter(typed)
        kind = self.pick(*kinds)
        ends = [name for name, own in typed.items() if own == kind]
        spec |= {"source": self.pick(*ends), "target": self.pick(*ends)}
        keys = [name for name, own in found.items() if own == kind]
        spec["key"] = spec["source"] if spec["source"] in keys else self.pick(*keys)
        both = [name for name, own in found.items() if typed.get(name) == own and own != "json"]
        if both and self.chance(0.4):
            spec["by"] = self.rng.sample(both, 1)
        return [{"cluster": spec}], {**found, spec["alias"]: kind}

    def join(self, typed: Typed) -> Drawn:
        alias = self.fresh("o")
        spec, other, both = self.meeting(typed, alias)
        how = self.pick("inner", "inner", "left", "left", "semi", "anti")
        if how != "inner" or self.chance(0.3):
            spec["how"] = how
        if how in {"semi", "anti"}:
            if "where" not in spec and self.chance(0.5):
                del spec["alias"]
            return [{"join": spec}], typed
        return self.flattened([{"join": spec}], both, other, alias)

    def flattened(self, operators: list[Any], both: Typed, other: Typed, alias: str) -> Drawn:
        """What a join brings, some of it as columns, so that relations do not grow without end."""
        flat = [
            (f"{alias}.{name}", kind)
            for name, kind in other.items()
            if kind in (*PLAIN, *LISTS) and name != "canary"
        ]
        brought = {self.fresh(): pair for pair in self.rng.sample(flat, min(len(flat), 2))}
        names = [name for name in both if name != alias]
        if self.chance(0.5):
            names = [name for name in names if name in COLUMNS or self.chance(0.5)]
        keep = self.chance(0.15) and not any(
            isinstance(kind, tuple) and kind[0] == "struct" for kind in other.values()
        )
        columns: dict[str, Any] = {
            **dict.fromkeys(names),
            **{name: path for name, (path, _) in brought.items()},
        }
        found = {
            **{name: both[name] for name in names},
            **{name: kind for name, (_, kind) in brought.items()},
        }
        if keep or not found:
            return operators, both
        return [*operators, {"project": columns}], found

    def group_join(self, typed: Typed) -> Drawn:
        alias = self.fresh("o")
        spec, _, both = self.meeting(typed, alias)
        if self.chance(0.6):
            spec["order"] = self.terms(both)
        if self.chance(0.5):
            spec["limit"] = self.pick(1, 2, 3, "$two")
        spec["add"] = {}
        found = dict(typed)
        for _ in range(self.rng.randint(1, 2)):
            name = self.fresh()
            spec["add"][name], found[name] = self.expressions.aggregate(both)
        if self.chance(0.3):
            name, kind = self.fresh(), self.pick("int64", "string")
            by = self.expressions.leaf(both, self.pick("boolean", "int64", "double"))
            spec["add"][name] = (
                f"list({self.expressions.leaf(both, kind)} ORDER BY {by}{self.pick('', ' DESC')})"
            )
            found[name] = ("list", kind)
        return [{"group_join": spec}], found

    # -- loops
    # ------------------------------------------------------------------------------------------------

    def iterate_last(self, document: dict[str, Any]) -> None:
        """Let the last step go on with a loop."""
        name, (_, typed) = list(self.steps.items())[-1]
        body = document["steps"][name]
        pipeline = body["do"] if isinstance(body, dict) else body
        if {"round", "was"} & typed.keys():
            return
        self.here = name in self.of_people
        known = self.chance(0.6)  # else there may be columns that are not among the typed ones
        pipeline += [{"project": dict.fromkeys(typed)}] if known else []
        pipeline.append({"iterate": self.loop(dict(typed), known=known)})

    def loop(self, typed: Typed, *, known: bool) -> dict[str, Any]:
        """The arguments of a loop over a relation with these columns."""
        spec: dict[str, Any] = {"as": "last", "times": self.pick(0, 1, 2, 3, 5)}
        if self.chance(0.5):
            spec["keep"] = "all"
            if self.chance(0.6):
                spec["distinct"] = self.some_names(typed)
        groups = [name for name in ("group_id", "canary", "id") if name in typed]
        if groups and self.chance(0.6):
            spec["by"] = self.pick(groups[:1], [self.pick(*groups)])
        keys = [name for name in ("id", "uuid") if name in typed]
        seen = dict(typed)
        if keys and self.chance(0.4):
            spec["key"] = keys
            seen["was"] = ("struct", tuple(typed.items()))
        if self.chance(0.8):
            spec["until"] = self.pick(
                f"count(*) {self.pick('<', '>=')} {self.pick(1, 2, 3)}",
                f"bool_and({self.expressions.touching(seen, 'boolean', 1)})",
                f"bool_or({self.expressions.draw(seen, 'boolean', 1)})",
                f"max({self.expressions.leaf(seen, 'int64')}) > {self.pick(0, 2)}",
                f"max({self.expressions.leaf(seen, 'double')}) > 0.5",
                f"max({self.expressions.leaf(seen, 'double')}) > 0.5",
            )
        spec["do"] = self.body(typed, set(spec.get("by", ())) | set(spec.get("key", ())))
        if known and self.chance(0.4):  # in any order
            spec["do"].append({"project": dict.fromkeys(self.rng.sample(list(typed), len(typed)))})
        return spec

    def body(self, typed: Typed, stay: set[str]) -> list[Any]:
        """The next round: operators that keep the columns, and those that stay as they are."""
        free = {name: kind for name, kind in typed.items() if name not in stay}
        operators: list[Any] = [{"from": "last"}]
        if self.chance(0.25):
            operators = [{"union": ["last", [{"from": "last"}, *self.changed(typed, free)]]}]
        for _ in range(self.rng.randint(1, 3)):
            operators += self.changed(typed, free)
        if self.chance(0.2):
            names = [name for name in typed if typed[name] in PLAIN]
            if names:
                name = self.pick(*names)
                how = self.pick("semi", "anti")
                operators.append({"join": {"other": "last", "using": [name], "how": how}})
        return operators

    def changed(self, typed: Typed, free: Typed) -> list[Any]:
        """An operator that keeps the columns."""
        ways = [self.filter, self.sort, self.limit, self.distinct, self.require]
        if self.failing and "s" in typed and self.chance(0.3):
            question = f"Is it so: {{s}} {'{canary}' if 'canary' in typed and self.here else ''}?"
            return [{"sem_filter": {"prompt": question}}]
        if free and self.chance(0.5):
            plain = {name: kind for name, kind in free.items() if kind in PLAIN}
            if plain:
                name = self.pick(*plain)
                value = self.expressions.draw(typed, plain[name], 1)
                cast = yaml_kind(plain[name])
                return [{"add": {name: f"CAST({value} AS {_SQL.get(cast, cast)})"}}]
        return self.pick(*ways)(dict(typed))[0]

    # -- semantic operators
    # --------------------------------------------------------------------------------------

    def prompt(self, typed: Typed, start: str) -> str:
        """A question about some columns of a row, with the mark of its partition where it has
        one.
        """
        there = [
            path for path, _ in paths(typed) if not path.endswith("canary") and path != "who"
        ] or list(typed)
        texts = [path for path in self.expressions.columns(typed, "string") if "canary" not in path]
        named = self.rng.sample(there, min(len(there), self.rng.randint(1, 2)))
        if texts and self.chance(0.8):
            named[0] = self.rng.choice(texts)
        marked = "canary" in typed and (
            self.here or "group_id" in typed
        )  # of other rows nothing says whose they are
        if (doubles := self.expressions.columns(typed, "double")) and self.chance(0.25):
            named.append(self.rng.choice(doubles))
        named += ["canary"] if marked else []
        return (
            f"{start} "
            + ", ".join(f"{{{path}}}" for path in dict.fromkeys(named))
            + self.pick("?", " with {$word}?")
        )

    def on_error(self) -> dict[str, Any]:
        return {"on_error": "null"} if self.chance(0.3) else {}

    def answers(self) -> dict[str, str]:
        """Names of answers with their types."""
        kinds = ("string", "int64", "boolean", "list<string>")
        return {self.fresh("a"): self.pick(*kinds) for _ in range(self.pick(1, 1, 2))}

    @contextmanager
    def drawing_checks(self) -> Iterator[None]:
        """Draw with the generator of checks, so that plans stay as they are but for these."""
        rng = self.rng
        self.rng = self.expressions.rng = self.checks
        try:
            yield
        finally:
            self.rng = self.expressions.rng = rng

    def check(self, typed: Typed, answers: Typed, *, unless: str = "") -> dict[str, Any]:
        """Sometimes a condition of answers, which the model may meet when it is asked again.

        Args:
            typed: What the check sees beside the answers.
            answers: The answers.
            unless: A condition of answers that pass.
        """
        with self.drawing_checks():
            if not answers or self.chance(0.25):
                return {}
            name, kind = self.pick(*answers.items())
            where = {
                "string": f"{name} <> 'c{self.pick(0, 1, 2)}'",
                "int64": f"{name} {self.pick('<', '>', '<>')} {self.pick(-1, 0, 1, 2)}",
                "boolean": name,
                STRINGS: f"len({name}) {self.pick('<', '>')} 1",
            }.get(kind, f"{name} IS NOT NULL")
            if kind[0] == "list" and kind != STRINGS:
                where = f"len({name}) < 2"
            seen = {**typed, **answers}
            if self.chance(0.6):
                other = self.expressions.touching(seen, "boolean", 1)
                if self.expressions.columns(seen, "double") and self.chance(0.6):
                    other = f"{self.expressions.leaf(seen, 'double')} > {self.pick(-1, 0, 0.5)}"
                where = self.pick(
                    f"({where}) OR ({other})", f"({where}) AND ({other})", f"({where}) = ({other})"
                )
            message = self.pick("'no.'", self.expressions.touching(seen, "string", 1))
            retries = {} if self.chance(0.5) else {"retries": self.pick(0, 1, 3)}
            return {"check": {"where": f"{unless}({where})", "message": message, **retries}}

    def sem_filter(self, typed: Typed) -> Drawn:
        add = self.answers() if self.chance(0.3) else {}
        if not add and self.checks.random() < 0.35:
            add = {self.fresh("a"): "int64"}
        kinds = {name: STRINGS if kind.startswith("list") else kind for name, kind in add.items()}
        spec = {"prompt": self.prompt(typed, "Is it so:"), **self.on_error()}
        spec |= {"returns": add} if add else {}
        if self.chance(0.3):
            spec["when"] = self.expressions.draw(typed, "boolean", 2)
            spec["otherwise"] = self.pick(True, False, self.expressions.draw(typed, "boolean", 1))
        spec |= self.check(
            typed, kinds, unless="NOT keep OR " if self.checks.random() < 0.7 else ""
        )
        return [{"sem_filter": spec}], {**typed, **kinds}

    def records(self, typed: Typed) -> tuple[str, dict[str, Any], Kind]:
        """The records that an answer may name: their name, where they come from, and the kind of
        the row that is named.
        """
        name = self.fresh("r")
        meeting, other, _ = self.meeting(typed, name)
        spec = {"of": meeting.pop("other"), **meeting}
        del spec["alias"]
        if "group_id" in typed and "group_id" in other and self.chance(0.95):
            using = spec.get("using", {})
            pairs = using if isinstance(using, dict) else dict(zip(using, using, strict=True))
            spec["using"] = {**pairs, "group_id": "group_id"}
        shown = {self.fresh(): self.expressions.draw(other, self.pick("string", "int64"), 1)}
        windowed = self.here and self.read_people(spec["of"])
        if "canary" in other and (windowed or "group_id" in spec.get("using", ())):
            shown["canary"] = None
        spec |= {"shows": shown, "unknown": self.pick("ask", "drop")}
        if self.chance(0.6):
            spec["order"] = self.terms(other)
        if self.chance(0.5):
            spec["limit"] = self.pick(1, 2, 3, "$two")
        return name, spec, ("struct", tuple(other.items()))

    def naming(self, typed: Typed) -> Drawn | None:
        """A sem_map of which answers are rows of another relation. Few are such that a prompt may
        show rows of two partitions, which is refused.
        """
        name, records, row = self.records(typed)
        windowed = self.here and self.read_people(records["of"])
        apart = windowed or "group_id" in records.get("using", ()) or "group_id" not in typed
        if not apart and self.chance(0.9):
            return None
        one, several = self.fresh("a"), self.fresh("a")
        add, found = {}, dict(typed)
        if self.chance(0.6):
            add[one], found[one] = f"ref<{name}> null", row
        if not add or self.chance(0.6):
            add[several], found[several] = f"list<ref<{name}>>", ("list", row)
        spec: dict[str, Any] = {
            "prompt": f"{self.prompt(typed, 'Name some:')} Of {{{name}}}.",
            "returns": add,
            "refs": {name: records},
            **self.on_error(),
        }
        if self.chance(0.5):
            spec["when"] = f"len({name}) > {self.pick(0, 1)}"
        spec |= self.check(typed, {answer: found[answer] for answer in add})
        operators: list[dict[str, Any]] = [{"sem_map": spec}]
        if several in add and self.chance(0.7):
            alias = self.fresh()
            operators.append({"unnest": {"column": several, "alias": alias}})
            found = {**{key: kind for key, kind in found.items() if key != several}, alias: row}
        return operators, found

    def sem_map(self, typed: Typed) -> Drawn:
        if self.chance(0.25) and (drawn := self.naming(typed)):
            return drawn
        add = self.answers()
        kinds = {name: STRINGS if kind.startswith("list") else kind for name, kind in add.items()}
        spec: dict[str, Any] = {
            "prompt": self.prompt(typed, "Name it:"),
            "returns": add,
            **self.on_error(),
        }
        if self.chance(0.4):
            spec["when"] = (
                self.expressions.plain(typed)
                if self.chance(0.4)
                else self.expressions.draw(typed, "boolean", 2)
            )
            if self.chance(0.6):
                spec["otherwise"] = {
                    name: self.expressions.touching(typed, kind, 1)
                    for name, kind in kinds.items()
                    if self.chance(0.7)
                }
        spec |= self.check(typed, kinds)
        return [{"sem_map": spec}], {**typed, **kinds}

    def sem_agg(self, typed: Typed) -> Drawn:
        by, add = (self.some_names(typed) if self.chance(0.7) else []), self.answers()
        kinds = {name: STRINGS if kind.startswith("list") else kind for name, kind in add.items()}
        by += ["canary"] if "canary" in typed and "canary" not in by else []
        spec: dict[str, Any] = {
            "prompt": self.prompt(typed, "All in all:"),
            "by": by,
            "returns": add,
            **self.on_error(),
        }
        if self.chance(0.6):
            spec["order"] = self.terms(typed)
        if self.chance(0.4):
            spec["when"] = f"count(*) {self.pick('>', '<', '=')} {self.pick(1, 1, 2)}"
            spec["otherwise"] = {
                name: f"first({self.expressions.touching(typed, kind, 1)})"
                for name, kind in kinds.items()
                if self.chance(0.8)
            }
        computed: Typed = {}
        if self.chance(0.4):
            name = self.fresh("c")
            aggregate, computed[name] = self.expressions.aggregate(typed)
            spec["add"] = {name: aggregate}
        own = {name: typed[name] for name in by}
        spec |= self.check({**own, **computed, **self.more(spec, typed)}, kinds)
        return [{"sem_agg": spec}], {**own, **kinds, **computed}

    def more(self, spec: dict[str, Any], typed: Typed) -> Typed:
        """Sometimes an aggregate more beside the answers, for the check alone."""
        with self.drawing_checks():
            doubles = self.expressions.columns(typed, "double")
            if not doubles or self.chance(0.6):
                return {}
            name = self.fresh()
            spec["add"] = {**spec.get("add", {}), name: f"max({self.pick(*doubles)})"}
            return {name: "double"}

    def sem_topk(self, typed: Typed) -> Drawn:
        if {"rank", "score"} & set(typed):
            return self.limit(typed)
        spec: dict[str, Any] = {
            "prompt": self.prompt(typed, "How good is"),
            "k": self.pick(1, 2, 3, "$two"),
            **self.on_error(),
        }
        per = (self.some_names(typed) if self.chance(0.7) else []) + (
            ["canary"] if "canary" in typed else []
        )
        if per:
            spec["by"] = list(dict.fromkeys(per))
        return [{"sem_topk": spec}], {**typed, "rank": "int64", "score": "double"}

    def sem_join(self, typed: Typed) -> Drawn:
        alias = self.fresh("o")
        spec, other, both = self.meeting(typed, alias, needed=False)
        texts = self.expressions.columns(other, "string") or list(other)
        prompt = self.prompt(typed, "Do they match:") + f" And {{{alias}.{self.rng.choice(texts)}}}"
        known = "canary" in other and (self.read_people(spec["other"]) or "group_id" in other)
        spec["prompt"] = prompt + (f" {{{alias}.canary}}" if known else "")
        spec |= self.on_error()
        if "canary" in typed and "canary" in other and not self.windows:
            spec["using"] = {
                **(
                    spec.get("using")
                    if isinstance(spec.get("using"), dict)
                    else dict.fromkeys(spec.get("using", ()))
                ),
                "canary": "canary",
            }
            spec["using"] = {left: right or left for left, right in spec["using"].items()}
        if self.chance(0.45):
            spec["keep"] = "one"
            if self.chance(0.8):
                spec["order"] = self.terms(both)
        how = self.pick("inner", "inner", "left", "semi", "anti")
        if how != "inner":
            spec["how"] = how
        spec |= self.checked_answers(alias, both)
        if how in {"semi", "anti"}:
            return [{"sem_join": spec}], typed
        operators, found = self.flattened([{"sem_join": spec}], both, other, alias)
        if len(operators) > 1:
            operators[1]["project"] |= dict.fromkeys(spec.get("returns", ()))
        return operators, found

    def checked_answers(self, alias: str, both: Typed) -> dict[str, Any]:
        """Sometimes answers about the pairs of a join, with a check."""
        kinds: Typed = {f"{alias}_a": "int64", f"{alias}_b": "string"}
        check = self.check(both, kinds)
        return {"returns": kinds, **check} if check else {}


def without(document: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """A document without some keys."""
    return {key: value for key, value in document.items() if key not in keys}
