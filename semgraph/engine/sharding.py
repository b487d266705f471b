"""The plans that can run in shards, and the rows of each shard as files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from semgraph.errors import InputError, PlanError, Problem
from semgraph.execution.record import INPUT_ROW, write_table
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import type_of_arrow
from semgraph.formats import plural
from semgraph.logical.graph import StoreRead
from semgraph.logical.node import Node, over, rewrite, walk
from semgraph.logical.plan import ALL, InputSpec, LogicalPlan, Windowing
from semgraph.logical.prompt import plain
from semgraph.logical.relational import Input
from semgraph.logical.semantic import Semantic
from semgraph.privacy import private_folder
from semgraph.relational.batch import pick, values

# Minimum number of groups of a shard, if there are that many: a wave of many groups costs less CPU.
GROUPS = 50
_BATCH = 50_000  # rows that are divided at a time


def shard_of(group: str, shards: int) -> int:
    """The shard of a group, from 0 to `shards` - 1. It is the same in every run and version:
    records and journals depend on it.

    >>> [shard_of(group, 64) for group in ("user-1", "user-3", "Zoë", "")]
    [8, 53, 26, 52]
    """
    digest = blake2b(group.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % shards


@dataclass(frozen=True)
class Division:
    """The division of a plan into shards, by columns of an input, or fields of them: rows with
    equal values belong to one shard. Each shard runs `part`; the plan `rest`, if any, runs after
    the end of all, and reads their results.

    The steps in `through` begin in `part` and end in `rest`; `rest` reads rows of those in `ended`;
    each shard computes those in `beside` whole, from other inputs or the store.
    """

    input: str
    by: tuple[str, ...]
    windows: Windowing | None
    part: LogicalPlan
    rest: LogicalPlan | None = None
    through: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()

    @classmethod
    def of(cls, plan: LogicalPlan, sizes: Mapping[str, int]) -> Division:
        """The division of a plan: by the groups of its windows; without windows by rows, as far as
        steps take each row separately. `sizes` are the numbers of rows of the inputs. Raises
        PlanError if the plan cannot run in shards.
        """
        if plan.windows is None:
            return _by_rows(plan, sizes)
        problems = list(_problems(plan, plan.windows))
        if problems:
            raise PlanError(*problems)
        return cls(plan.windows.input, (plan.windows.partition,), plan.windows, plan)


_ALONE = "run it without --engine: in one process"


def _problems(plan: LogicalPlan, cut: Windowing) -> Iterable[Problem]:
    yield from _foreign_reads(plan, cut)
    for sink in plan.writes:
        if not sink.input.windowed:
            what = f"it writes rows that derive from no row of {cut.input}: every shard would write them"
            yield Problem(what, sink.step or None, sink.origin, hint=_ALONE)
    if not cut.key and cut.partition not in cut.key_of:
        what = f"key_of lacks {cut.partition}, so that equal rows of two shards would have one name"
        yield Problem(what, hint=f"write key_of: [{', '.join((cut.partition, *cut.key_of))}]")


def _foreign_reads(plan: LogicalPlan, cut: Windowing) -> Iterable[Problem]:
    written = frozenset[tuple[str, str]]().union(*(sink.label_writes for sink in plan.writes))
    for node in walk(*plan.roots):
        read = getattr(node, "partition", "") if isinstance(node, StoreRead) else ""
        others = read not in {"", cut.partition, plan.graph.partition}
        if read == ALL or (others and node.label_reads & written):
            what = f"partition: {read} reads groups of other shards, which are written meanwhile"
            yield Problem(what, node.step or None, node.origin, hint=_ALONE)


def _by_rows(plan: LogicalPlan, sizes: Mapping[str, int]) -> Division:
    """The division of a plan without windows, by the largest input asked about row by row."""
    divided = {name: _taken_by_row(plan, name) for name in plan.inputs}
    asking = {name for name, nodes in divided.items() if any(node.calls_model for node in nodes)}
    if not asking:
        what = f"plan {plan.name} asks about no row of an input by itself, so shards would have nothing to do"
        raise PlanError(what, hint=_ALONE)
    name = max(sorted(asking), key=lambda each: sizes.get(each, 0))
    nodes = divided[name]
    by = _read_by_prompts(nodes, plan.inputs[name])
    results = plan.returns.values()
    if not plan.writes and all(node in nodes and not isinstance(node, Input) for node in results):
        part, beside = _part(plan, plan.returns, name), _beside(results, nodes)
        return Division(name, by, None, part, beside=beside)
    others = [below for each in walk(*plan.roots) if each not in nodes for below in each.inputs]
    read = dict.fromkeys(node for node in (*others, *results) if node in nodes)
    made = {f"{node.step}#{i}": node for i, node in enumerate(read) if not isinstance(node, Input)}
    part, rest = _part(plan, made, name), _rest(plan, made)
    computed = set(walk(*made.values()))
    later = {node.step for node in walk(*plan.roots) if node not in computed}
    through = frozenset(node.step for node in nodes) & later
    ended = frozenset(node.step for node in made.values()) - through
    beside = _beside(made.values(), nodes)
    return Division(name, by, None, part, rest, through, ended, beside)


def _part(plan: LogicalPlan, returns: Mapping[str, Node], name: str) -> LogicalPlan:
    """A plan that returns the rows of some nodes; rows of an input carry their positions in it."""

    def marked(node: Node) -> Node:
        if isinstance(node, Input) and node.name == name:
            return replace(node, windowed=True)
        return node

    roots = dict(zip(returns, rewrite(tuple(returns.values()), marked), strict=True))
    return replace(plan, writes=(), schema_write=None, returns=roots)


def _taken_by_row(plan: LogicalPlan, name: str) -> set[Node]:
    """The chain of operators that take each row of an input separately. Their other inputs ask no
    model, because each shard computes them, and do not depend on this input.
    """
    nodes, dependent = set[Node](), set[Node]()
    for node in walk(*plan.roots):
        if isinstance(node, Input) and node.name == name:
            nodes.add(node)
        elif node.row_local and node.inputs[0] in nodes:
            others = set(walk(*node.inputs[1:]))
            if not others & dependent and not any(n.calls_model or n.embeds for n in others):
                nodes.add(node)
        if node in nodes or any(below in dependent for below in node.inputs):
            dependent.add(node)
    return nodes


def _beside(roots: Iterable[Node], nodes: set[Node]) -> frozenset[str]:
    """The steps below some nodes that take no row of the divided input."""
    others = {node.step for node in walk(*roots) if node not in nodes}
    return frozenset(others - {node.step for node in nodes})


def _rest(plan: LogicalPlan, made: Mapping[str, Node]) -> LogicalPlan:
    done: dict[Node, Node] = {
        node: Input(name=name, columns=node.schema, step=node.step) for name, node in made.items()
    }
    for node in walk(*plan.roots):
        if node not in done and (changed := over(node, done)) is not node:
            done[node] = changed
    writes: Any = tuple(done.get(sink, sink) for sink in plan.writes)
    returns = {name: done.get(node, node) for name, node in plan.returns.items()}
    inputs = {
        name: InputSpec(name, tuple((f.name, type_of_arrow(f.type)) for f in node.schema))
        for name, node in made.items()
    }
    return replace(plan, writes=writes, returns=returns, inputs={**plan.inputs, **inputs})


def _read_by_prompts(nodes: Collection[Node], spec: InputSpec) -> tuple[str, ...]:
    """The columns of an input, or their fields, that prompts read: the columns common to all
    prompts, so that equal requests meet in one shard; else those of the prompt with the fewest.
    They are the same in every process, because the journals of shards answer later runs.
    """
    asking = [node for node in nodes if isinstance(node, Semantic)]
    found = [_paths_behind(node.input, frozenset(node.prompt.fields)) for node in asking]
    ordered = sorted(filter(None, found), key=lambda each: (len(each), sorted(each)))
    paths = frozenset.intersection(*found) or next(iter(ordered), frozenset())
    places = dict.fromkeys(_place_of(path, spec) for path in sorted(paths))
    return tuple(places) or tuple(name for name, _ in spec.columns)


def _place_of(path: str, spec: InputSpec) -> str:
    """The column, or its field, that a path reads: `b.` and `n.x` may mean the column."""
    name, _, rest = path.partition(".")
    kind = dict(spec.columns)[name]
    for part in rest.split(".") if rest else ():
        inner = dict(kind.fields).get(part) if kind.name == "struct" else None
        if inner is None:
            break
        name, kind = f"{name}.{part}", inner
    return name


def _paths_behind(node: Node, paths: frozenset[str]) -> frozenset[str]:
    """The columns of an input, or their fields, from which columns of a node are computed."""
    if isinstance(node, Input):
        return paths
    own = node.output_columns
    made = frozenset(p for p in paths if not node.carries or p.split(".")[0] in own)
    behind = node.paths_for(made) if made else frozenset[str]()
    return _paths_behind(node.inputs[0], behind | (paths - made))


def groups_of(division: Division, rows: pa.Table) -> list[str]:
    """The values that determine the shard of each row."""
    if division.windows is not None:
        return [group or "" for group in rows.column(division.windows.partition).to_pylist()]
    columns = [pick(rows, path).to_pylist() for path in division.by]
    return [canonical_json(plain(row)) for row in zip(*columns, strict=True)]


def shard_count(division: Division, rows: pa.Table, workers: int) -> int:
    """The number of shards if none is set: up to four a worker, each with GROUPS groups or more."""
    cut = division.windows
    groups = len(rows.column(cut.partition).unique()) if cut else rows.num_rows
    return max(1, min(groups, workers), min(4 * workers, groups // GROUPS))


def described(
    plan: LogicalPlan, inputs: Mapping[str, pa.Table], count: int | None, workers: int
) -> tuple[str, float]:
    """A line on the division of rows among shards, and the share of rows that run one after the
    other: those of the group with the most windows. Raises PlanError if the plan cannot run in
    shards.
    """
    division = Division.of(plan, {name: table.num_rows for name, table in inputs.items()})
    rows, cut = inputs[division.input], division.windows
    count = count or shard_count(division, rows, workers)
    groups = Counter(groups_of(division, rows))
    sizes = Counter(shard_of(group, count) for group in groups).values() or [0]
    least, most = min(sizes), max(sizes)
    each = f"{least} to {most}" if least < most else str(most)
    shards = f"{plural(count, 'shard')}, {plural(workers, 'worker')}"
    if cut is None:
        differ = f"{plural(len(groups), 'row')} that differ in {', '.join(division.by)}"
        return f"{shards} · {differ}, {each} a shard", 0.0
    windows = {group: math.ceil(own / cut.window_size(own)) for group, own in groups.items()}
    longest = max(windows, key=lambda group: windows[group], default="")
    chain = f'longest chain: {plural(windows.get(longest, 0), "window")} of "{longest}"'
    part = groups[longest] / max(rows.num_rows, 1)
    return f"{shards} · {plural(len(groups), 'group')}, {each} a shard · {chain}", part


@dataclass
class ShardRows:
    """The file of a shard's rows; their positions in the whole input are a further column."""

    number: int
    file: Path

    def read(self) -> tuple[pa.Table, list[int]]:
        """The rows and their positions."""
        import pyarrow.parquet as pq

        table = pq.read_table(self.file)
        return table.drop_columns(INPUT_ROW), values(table.column(INPUT_ROW))


def lay_out(folder: Path, division: Division, rows: pa.Table, shards: int) -> list[ShardRows]:
    """Write the rows of each shard into a file. Returns all shards with rows, largest first, so
    that the last one to end is small. Raises InputError if two may share a key, OSError.
    """
    _check_keys(division, rows)
    private_folder(folder)
    batches = (rows.slice(start, _BATCH) for start in range(0, rows.num_rows, _BATCH))
    groups = chain.from_iterable(groups_of(division, batch) for batch in batches)
    numbers = np.fromiter((shard_of(group, shards) for group in groups), np.int64)
    rows = rows.append_column(INPUT_ROW, pa.array(np.arange(rows.num_rows)))
    laid_out = []
    for number, _ in Counter(numbers.tolist()).most_common():
        laid_out.append(ShardRows(number, folder / f"{number:05}.parquet"))
        write_table(laid_out[-1].file, rows.filter(pa.array(numbers == number)))
    return laid_out


def _check_keys(division: Division, rows: pa.Table) -> None:
    cut = division.windows
    if cut is None or not cut.key or not cut.key_of or cut.partition in cut.key_of:
        return
    if rows.column(cut.key).null_count:
        named = f"{', '.join(cut.key_of)} name rows without {cut.key}"
        what = f"input {cut.input}: {named}, and two shards may share them"
        raise InputError(what, hint=f"give each row its {cut.key}, or {_ALONE}")
