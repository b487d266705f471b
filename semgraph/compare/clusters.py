"""Comparing the algorithms of a step that clusters, over the same nodes and edges."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa

from semgraph.compare.comparison import Quality, Spent, Trial
from semgraph.compare.trial import Frozen
from semgraph.errors import PlanError, Problem, SemgraphError
from semgraph.expr.types import type_of_arrow
from semgraph.formats import plural
from semgraph.frontend.row_files import rows_of
from semgraph.frontend.rows import check_rows, columns_of
from semgraph.logical.cluster import Cluster
from semgraph.logical.node import walk
from semgraph.logical.plan import Choice, InputSpec, LogicalPlan
from semgraph.physical.clusters import clusters, modularity
from semgraph.scores import Score, ScoredNode
from semgraph.scores.graphs import partition
from semgraph.semantic.clustering import Algorithm
from semgraph.semantic.library import Library, algorithm_of

Member = tuple[Hashable, ...]
"""A node by its values of `by` and its key."""
Partition = Mapping[Member, Hashable]
"""The cluster of each node."""


def cluster_of(plan: LogicalPlan, step: str) -> Cluster | None:
    """The operator of a step that clusters by an algorithm which `use` may replace, or None."""
    nodes = [n for n in walk(*plan.roots) if isinstance(n, Cluster) and n.swappable and n.step]
    exact = [node for node in nodes if node.step == step]
    matches = exact or [node for node in nodes if node.step.rsplit("/", 1)[-1] == step]
    if len(matches) > 1:
        paths = ", ".join(dict.fromkeys(node.step for node in matches))
        hint = "name one of them, or split the step"
        raise PlanError(
            Problem(f"step {step} clusters {len(matches)} times", there=paths, hint=hint)
        )
    return matches[0] if matches else None


def algorithms(
    plan: LogicalPlan, node: Cluster, variants: Mapping[str, str], library: Library
) -> Mapping[str, partial[Algorithm]]:
    """How to find the algorithm of each variant. Raises PlanError for a plan with windows."""
    if plan.windows is not None:
        what = f"step {node.step} clusters each window by itself"
        hint = f"compare whole plans: --variant A:{node.step}=louvain --variant B:{node.step}=..."
        raise PlanError(Problem(what, hint=hint))
    return {
        name: partial(algorithm_of, node, Choice.parse(text), library)
        for name, text in variants.items()
    }


async def try_algorithm(frozen: Frozen[Cluster], algorithm: Algorithm, number: int) -> Trial:
    """Run one trial of an algorithm."""
    _warm(algorithm)
    began = time.perf_counter()
    tables = [
        await asyncio.to_thread(clusters, frozen.node, part.tables[0], part.tables[-1], algorithm)
        for part in frozen.parts
    ]
    seconds = time.perf_counter() - began
    rows = pa.concat_tables([table.select(frozen.node.schema.names) for table in tables])
    return Trial(number + 1, Spent(), Spent(), seconds, rows=rows)


def _warm(algorithm: Algorithm) -> None:
    """Cluster two keys, so that imports are not measured."""
    vectors = np.eye(2) if "vectors" in algorithm.source.needs else None
    with suppress(SemgraphError):
        algorithm.labels(["a", "b"], [(0, 1, 1.0)], vectors)


@dataclass(frozen=True)
class TrueClusters:
    """The true clusters of nodes, with notes on how well they cover the rows.

    Args:
        rows: The rows of the truth.
        clusters: The cluster of each node.
        notes: Notes for the reader.
    """

    rows: pa.Table
    clusters: Partition
    notes: tuple[str, ...] = ()

    def about(self, nodes: Iterable[Member]) -> TrueClusters:
        """The clusters of these nodes. Raises PlanError if there are none."""
        rows = set(nodes)
        known = {member: name for member, name in self.clusters.items() if member in rows}
        if not known:
            what = f"the truth covers none of the {len(rows):,} nodes"
            raise PlanError(Problem(what, hint="its keys must be those of the rows"))
        notes = []
        if strange := len(self.clusters) - len(known):
            whose = plural(strange, "node")
            notes.append(f"{whose} of the truth {_are(strange)} not among the rows: ignored")
        if without := len(rows) - len(known):
            uncovered = f"{without:,} of {plural(len(rows), 'node')}"
            notes.append(f"the truth does not cover {uncovered}: not scored")
        return replace(self, clusters=known, notes=tuple(notes))


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def read_clusters(node: Cluster, value: Any) -> TrueClusters:
    """Read the truth: the columns of `by`, the key and the cluster.

    Raises:
        PlanError: It lacks one of these columns.
        InputError: A value has the wrong type.
    """
    source = str(value) if isinstance(value, (str, Path)) else "the truth"
    rows = rows_of(Path(value)) if isinstance(value, (str, Path)) else value
    given = columns_of(rows).values
    names = (*node.by, node.key, node.alias)
    if missing := [name for name in names if name not in given]:
        what = f'{source} has no column "{missing[0]}"'
        there = "it has: " + ", ".join(given)
        raise PlanError(Problem(what, there=there, hint=f"columns: {', '.join(names)}"))
    kinds = {name: type_of_arrow(node.schema.field(name).type) for name in names}
    spec = InputSpec("truth", tuple((n, replace(k, nullable=True)) for n, k in kinds.items()))
    table = check_rows(spec, rows, source=source)
    return TrueClusters(table, members(node, table))


def keys_of(node: Cluster, nodes: pa.Table) -> set[Member]:
    """The nodes that have a key."""
    names = (*node.by, node.key)
    rows = nodes.select(names).to_pylist()
    return {tuple(row[name] for name in names) for row in rows if row[node.key] is not None}


def members(node: Cluster, table: pa.Table) -> Partition:
    """The cluster of each node of a table that has a key."""
    names = (*node.by, node.key)
    return {
        tuple(row[name] for name in names): row[node.alias]
        for row in table.select([*names, node.alias]).to_pylist()
        if row[node.key] is not None
    }


def qualities(
    frozen: Frozen[Cluster],
    trials: Mapping[str, Sequence[Trial]],
    reference: str,
    truth: TrueClusters | None,
) -> dict[str, Quality]:
    """The quality of each algorithm: its partition beside the true one, or the reference's; how many
    clusters it has, and their modularity.
    """
    found = {
        name: [members(frozen.node, t.rows) for t in each if t.rows is not None]
        for name, each in trials.items()
    }
    result = {}
    for name, partitions in found.items():
        others = found[reference] if truth is None else [truth.clusters] * len(partitions)
        own = name == reference and truth is None
        quality = Quality() if own else _beside(list(zip(partitions, others, strict=False)))
        count, whole = _alone(frozen, trials[name])
        result[name] = replace(quality, clusters=count, modularity=whole)
    return result


def _beside(pairs: Sequence[tuple[Partition, Partition]]) -> Quality:
    """F1 of pairs of nodes in one cluster, and B-cubed; means over trials."""
    scores = [
        partition(_scored({m: ours[m] for m in ours if m in theirs}), _scored(theirs), {})
        for ours, theirs in pairs
    ]
    return Quality(
        pairs=_mean([of_pairs for of_pairs, _ in scores]),
        b_cubed=_mean([of_members for _, of_members in scores]),
    )


def _mean(scores: Sequence[Score]) -> float | None:
    known = [score.f1 for score in scores if score.f1 is not None]
    return fmean(known) if known else None


def _scored(clusters_: Partition) -> list[ScoredNode]:
    """The clusters as nodes, each with its members; those of two groups are two."""
    by_cluster: dict[Hashable, list[Member]] = {}
    for member, name in clusters_.items():
        by_cluster.setdefault((member[:-1], name), []).append(member)
    return [ScoredNode(key, frozenset(own)) for key, own in by_cluster.items()]


def _alone(frozen: Frozen[Cluster], trials: Sequence[Trial]) -> tuple[float | None, float | None]:
    """The number of clusters and their modularity, means over trials."""
    tables = [trial.rows for trial in trials if trial.rows is not None]
    if not tables:
        return None, None
    counts = [len(_scored(members(frozen.node, table))) for table in tables]
    edges = pa.concat_tables([part.tables[0] for part in frozen.parts])
    known = [modularity(frozen.node, edges, table) for table in tables]
    whole = [value for value in known if value is not None]
    return fmean(counts), fmean(whole) if whole else None
