"""A graph against the true one.

Counts alone pass a wrong graph: here each node, edge and ending has to be the right one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semgraph.scoring.graphs import Edge, Graph
from semgraph.scoring.nodes import align, partition
from semgraph.scoring.rows import Score, Tally, pooled, score

_MOMENTS = 50
Saying = tuple[Hashable, ...]


@dataclass(frozen=True)
class GraphScore:
    """How a graph compares with the true one. A part of which neither graph has anything has no F1.

    Args:
        alignment: The true node of each node that has one.
        pairs: Nodes as a partition of their members: pairs that are together.
        b_cubed: The same, member by member.
        edges: Edges: both ends, label and properties are the same; each counts once. Its interval is by kinds of edges.
        validity: Edges that hold, over all times that were looked at; None without times.
        at: The same for each time.
        ended: Edges that have an end: whether they should, and whether those that should do.
        tally: Hits, edges given, edges wanted for each pair of ends with label and properties, for `difference`.
    """

    alignment: Mapping[Hashable, Hashable]
    pairs: Score
    b_cubed: Score
    edges: Score
    validity: Score | None
    at: tuple[tuple[Any, Score], ...]
    ended: Score
    tally: Tally


def score_graph(graph: Graph, truth: Graph, times: Sequence[Any] | None = None) -> GraphScore:
    """Compare a graph with the true one.

    Args:
        graph: What was made.
        truth: What should have been.
        times: When to look which edges hold; None: at `moments(truth)`.
    """
    alignment = align(graph.nodes, truth.nodes)
    ours, theirs = _said(graph.edges, alignment), _said(truth.edges, None)
    tally: dict[Hashable, tuple[int, int, int]] = {
        saying: _counts(ours.get(saying, ()), theirs.get(saying, ())) for saying in {**ours, **theirs}
    }
    pairs, b_cubed = partition(graph.nodes, truth.nodes, alignment)
    at = {time: _holding(ours, theirs, time) for time in (moments(truth) if times is None else times)}
    return GraphScore(
        alignment, pairs, b_cubed, score(tally),
        score(pooled(at.values())) if at else None,
        tuple((time, score(held)) for time, held in at.items()),
        _ended(ours, theirs), tally,
    )  # fmt: skip


def moments(graph: Graph, most: int = _MOMENTS) -> list[Any]:
    """When something begins or ceases to hold, in order; evenly spread ones where there are more than `most`.

    >>> moments(Graph((), (Edge("a", "b", start=1, end=4), Edge("a", "c", start=4))))
    [1, 4]
    """
    found = sorted({time for edge in graph.edges for time in (edge.start, edge.end) if time is not None})
    if len(found) <= most:
        return found
    return [found[round(i * (len(found) - 1) / (most - 1))] for i in range(most)]


def _said(edges: Iterable[Edge], alignment: Mapping[Hashable, Hashable] | None) -> dict[Saying, list[Edge]]:
    """The edges by what they say: their ends as true nodes, label and properties."""
    found: defaultdict[Saying, list[Edge]] = defaultdict(list)
    for edge in edges:
        if alignment is None:
            ends: tuple[Hashable, ...] = (("true", edge.source), ("true", edge.target))
        else:
            ends = tuple(
                ("true", alignment[key]) if key in alignment else ("own", key) for key in (edge.source, edge.target)
            )
        found[(*ends, edge.label, tuple(sorted(edge.properties.items())))].append(edge)
    return dict(found)


def _counts(ours: Sequence[Edge], theirs: Sequence[Edge]) -> tuple[int, int, int]:
    return min(len(ours), len(theirs)), len(ours), len(theirs)


def _holding(
    ours: Mapping[Saying, Sequence[Edge]], theirs: Mapping[Saying, Sequence[Edge]], time: Any
) -> dict[Hashable, tuple[int, int, int]]:
    """The tally of the edges that hold at a time."""
    held = {
        saying: _counts(
            [edge for edge in ours.get(saying, ()) if edge.holds(time)],
            [edge for edge in theirs.get(saying, ()) if edge.holds(time)],
        )
        for saying in {**ours, **theirs}
    }
    return {saying: counts for saying, counts in held.items() if any(counts)}


def _ended(ours: Mapping[Saying, Sequence[Edge]], theirs: Mapping[Saying, Sequence[Edge]]) -> Score:
    """Whether the edges that have an end are those that should."""
    hits = Counter[str]()
    for saying in {**ours, **theirs}:
        mine, true = ours.get(saying, ()), theirs.get(saying, ())
        hits["given"] += sum(edge.end is not None for edge in mine)
        hits["wanted"] += sum(edge.end is not None for edge in true)
        hits["right"] += sum(a.end is not None and b.end is not None for a, b in _matched(mine, true))
    return Score.of(hits["right"], hits["given"], hits["wanted"])


def _matched(ours: Sequence[Edge], theirs: Sequence[Edge]) -> Iterator[tuple[Edge, Edge]]:
    """Edges that say the same, one to one: first those with the same times, then with the same beginning, then in order."""
    left, rest = list(ours), sorted(theirs, key=_when)
    for times in (("start", "end"), ("start",), ()):
        for edge in sorted(left, key=_when):
            other = next((o for o in rest if all(getattr(o, t) == getattr(edge, t) for t in times)), None)
            if other is not None:
                left.remove(edge)
                rest.remove(other)
                yield edge, other


def _when(edge: Edge) -> tuple[Any, ...]:
    """By beginning, then end; since ever is first, for ever is last."""
    begins = (0, 0) if edge.start is None else (1, edge.start)
    ends = (1, 0) if edge.end is None else (0, edge.end)
    return (*begins, *ends)
