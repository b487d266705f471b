"""Nodes against true nodes: which is which, and whether each stands for what it should."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from semgraph.scoring.graphs import Node
from semgraph.scoring.rows import Score

if TYPE_CHECKING:
    import networkx as nx

Overlaps = Mapping[tuple[Hashable, Hashable], int]
Alignment = Mapping[Hashable, Hashable]
_FINE = 1000


def align(nodes: Iterable[Node], truth: Iterable[Node]) -> dict[Hashable, Hashable]:
    """The true node of each node, one to one, among those with members in common.

    As many of the same name as can be, then as many members in common, then as few that are not.
    """
    ours, theirs = {node.key: node for node in nodes}, {node.key: node for node in truth}
    shared = _shared(ours.values(), theirs.values())
    most = sum(shared.values()) + 1
    weights = {}
    for (own, true), common in shared.items():
        one, other = ours[own], theirs[true]
        dice = 2 * common / (len(one.occurrences) + len(other.occurrences))
        named = one.name is not None and one.name == other.name
        # Whole numbers: what is added up stays exact, whatever the order.
        weights[own, true] = (named * most + common) * most * _FINE + round(dice * _FINE)
    found = dict(pair for part in _parts(weights) for pair in _best(part))
    return {key: found[key] for key in ours if key in found}


def _shared(ours: Iterable[Node], theirs: Iterable[Node]) -> dict[tuple[Hashable, Hashable], int]:
    """How many members nodes have in common with true nodes."""
    where: defaultdict[Hashable, list[Hashable]] = defaultdict(list)
    for node in theirs:
        for member in node.occurrences:
            where[member].append(node.key)
    return Counter((node.key, key) for node in ours for member in node.occurrences for key in where[member])


def _parts(weights: Overlaps) -> Iterator[nx.Graph]:
    """The weights as a graph, cut into connected parts; in an order that depends on the keys alone."""
    import networkx as nx

    graph = nx.Graph()
    for (own, true), weight in sorted(weights.items(), key=repr):
        graph.add_edge(("o", own), ("t", true), weight=weight)
    for part in nx.connected_components(graph):
        yield nx.Graph(sorted(graph.subgraph(part).edges(data=True), key=repr))


def _best(part: nx.Graph) -> Iterator[tuple[Hashable, Hashable]]:
    """The matching of the greatest weight in a connected part."""
    import networkx as nx

    pairs = part.edges if part.number_of_edges() == 1 else nx.max_weight_matching(part)
    for one, other in pairs:
        (_, own), (_, true) = (one, other) if one[0] == "o" else (other, one)
        yield own, true


def partition(nodes: Iterable[Node], truth: Iterable[Node], alignment: Alignment) -> tuple[Score, Score]:
    """Whether members are together that belong together: pairs-F1, and B-cubed.

    Pairs count pairs of members of one node; B-cubed asks for each member how much of its node belongs with it, so it also
    sees nodes of one member. A merged pair of nodes lowers precision, a split node recall. A member that is missing costs
    recall; one that is in no true node, or in more nodes than it should be, costs precision. Pairs have no F1 where no node
    has two members; B-cubed has none where there are no nodes.
    """
    ours, theirs = list(nodes), list(truth)
    common = _occurrences_in_common(ours, theirs, alignment)
    own = {node.key: len(node.occurrences) for node in ours}
    true = {node.key: len(node.occurrences) for node in theirs}
    pairs = Score.of(
        sum(n * (n - 1) // 2 for n in common.values()),
        sum(n * (n - 1) // 2 for n in own.values()),
        sum(n * (n - 1) // 2 for n in true.values()),
    )
    given, wanted = sum(own.values()), sum(true.values())
    right = sum(n * n / own[a] for (a, _), n in common.items())
    found = sum(n * n / true[b] for (_, b), n in common.items())
    precision, recall = (right / given if given else None), (found / wanted if wanted else None)
    both = (precision or 0.0) + (recall or 0.0)
    f1 = 2 * (precision or 0.0) * (recall or 0.0) / both if both else 0.0 if ours or theirs else None
    return pairs, Score(precision, recall, f1, None, (sum(common.values()), given, wanted))


def _occurrences_in_common(
    ours: Iterable[Node], theirs: Iterable[Node], alignment: Alignment
) -> Counter[tuple[Hashable, Hashable]]:
    """Members in common by node and true node; each occurrence of a member once, first where the nodes are aligned."""
    where: defaultdict[Hashable, list[Hashable]] = defaultdict(list)
    for node in sorted(theirs, key=lambda node: repr(node.key)):
        for member in node.occurrences:
            where[member].append(node.key)
    found: Counter[tuple[Hashable, Hashable]] = Counter()
    later: list[tuple[Hashable, tuple[str, Hashable]]] = []
    for node in sorted(ours, key=lambda node: repr(node.key)):
        for member in node.occurrences:
            if alignment.get(node.key) in where[member]:
                where[member].remove(alignment[node.key])
                found[node.key, alignment[node.key]] += 1
            else:
                later.append((node.key, member))
    for key, member in later:
        if where[member]:
            found[key, where[member].pop(0)] += 1
    return found
