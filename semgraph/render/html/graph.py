"""A graph for its page: places and clusters of nodes for `graph.js`, which draws it, the facts of
both, and a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import ceil, sqrt
from typing import Any, NamedTuple

from semgraph.formats import count, plural, shortened
from semgraph.render.picture import Arrow, Picture
from semgraph.render.svg import SHAPES, Point
from semgraph.render.tables import Column, page_table

SHOWN, _FEW = 80, 24  # nodes and clusters that are drawn at once; on the narrowest page
_NODES, _EDGES = 10_000, 30_000
IN_NOTEBOOK = 1000  # nodes
_KINDS = 8  # number of label colours
_ROWS = 500
_SOURCES, _SOURCE = 5, 200  # sources of an edge, characters of each
_TEXT = 1000  # characters of a text
_ROUNDS = 100


class Layout(NamedTuple):
    """Places of nodes, from -1 to 1; the cluster of each (-1: none), and the cluster around each
    cluster.
    """

    places: list[Point]
    within: list[int]
    clusters: list[int]


def layout(number: int, edges: Sequence[tuple[int, int]]) -> Layout:
    """Place nodes near those that they are connected with, and put them into clusters of at most 80
    nodes and clusters. The layout of a graph is deterministic.

    Args:
        number: The number of nodes.
        edges: Pairs of nodes, from 0.
    """
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(number))
    graph.add_edges_from(edge for edge in edges if edge[0] != edge[1])
    result = Layout([(0.0, 0.0)] * number, [-1] * number, [])
    _put(graph, (0.0, 0.0), 1.0, -1, result)
    return result


def _put(graph: Any, at: Point, size: float, cluster: int, result: Layout) -> None:
    """Place the nodes of a graph in a square, clusters of them around their centres."""
    import networkx as nx

    parts = [[node] for node in graph] if len(graph) <= SHOWN else _parts(graph)
    part_of = {node: i for i, part in enumerate(parts) for node in part}
    between = nx.Graph()
    between.add_nodes_from(range(len(parts)))
    between.add_edges_from((part_of[a], part_of[b]) for a, b in graph.edges)
    for i, (x, y) in enumerate(_springs(between)):
        part, place = parts[i], (at[0] + x * size, at[1] + y * size)
        if len(part) == 1:
            result.places[part[0]], result.within[part[0]] = place, cluster
            continue
        result.clusters.append(cluster)
        inner = size * sqrt(len(part) / len(graph)) / 2
        _put(graph.subgraph(part).copy(), place, inner, len(result.clusters) - 1, result)
    if _FEW < len(graph) <= SHOWN:  # folded on a narrow page
        for part in _parts(graph):
            if len(part) > 1:
                result.clusters.append(cluster)
                for node in part:
                    result.within[node] = len(result.clusters) - 1


def _parts(graph: Any) -> list[list[int]]:
    """At most 80 parts of a large graph: communities, the isolated nodes, and a part with all that are
    too many; where everything is one community, the node with the most edges and parts of equal size.
    """
    import networkx as nx

    found = [sorted(part) for part in nx.community.louvain_communities(graph, seed=1)]
    parts = sorted((part for part in found if len(part) > 1), key=len, reverse=True)
    rest = chain(*parts[SHOWN - 1 :], *(part for part in found if len(part) == 1))
    parts = [part for part in (*parts[: SHOWN - 1], sorted(rest)) if part]
    if len(parts) > 1:
        return parts
    first, *others = sorted(graph, key=lambda node: (-graph.degree[node], node))
    step = max(SHOWN, ceil(len(others) / (SHOWN - 1)))
    return [[first], *(others[i : i + step] for i in range(0, len(others), step))]


def _springs(graph: Any) -> list[Point]:
    """Places of the nodes of a small graph by ForceAtlas2, whose gravity keeps unconnected parts near."""
    import networkx as nx

    if len(graph) < 3:
        return [(0.0, 0.0)] if len(graph) == 1 else [(-0.6, 0.0), (0.6, 0.0)]
    start = nx.circular_layout(graph)
    rounds = min(_ROUNDS, 20 + 2 * len(graph))
    found = nx.forceatlas2_layout(
        graph, pos=start, max_iter=rounds, strong_gravity=True, gravity=0.3
    )
    most = max(max(abs(x), abs(y)) for x, y in found.values()) or 1.0
    return [(float(x) / most, float(y) / most) for x, y in found.values()]


def graphs(parts: Iterable[Picture], number: str, most: int = _NODES) -> list[dict[str, Any]]:
    """Graphs as data of a page, of at most so many nodes each."""
    return [_graph(part, f"{number}-{i}", most) for i, part in enumerate(parts)]


def _graph(picture: Picture, number: str, most: int) -> dict[str, Any]:
    """A graph as data for the page's script, its legend, and a table: at most so many nodes."""
    title = f"{f'“{picture.partition}”: ' if picture.partition else ''}{picture.counts()}"
    ends = (end for edge in picture.edges.values() for end in (edge.source, edge.target))
    keys = list(dict.fromkeys([*picture.nodes, *ends]))
    drawing = _Drawing(picture, keys, most)
    return {
        "title": title,
        "caption": f"{title}. ",
        "number": number,
        "legend": drawing.legend(),
        "notes": [*_left_out(picture, drawing), *drawing.notes()],
        "facts": drawing.facts(),
        "table": _edges_table(picture, title) if picture.edges else None,
        "alone": _alone(picture),
    }


def _left_out(picture: Picture, drawing: _Drawing) -> Iterator[str]:
    """Sentences on the parts that the drawing omits."""
    if left := len(drawing.all) - len(drawing.keys) + len(picture.edges) - len(drawing.edges):
        rest = plural(left, "node or edge", "nodes and edges")
        yield f"The {plural(len(drawing.keys), 'node')} with the most edges; {rest} left out."
    if picture.loose:
        number = plural(len(picture.loose), "more edge")
        yield f"{number} without a text, with an end that this run did not write: not drawn."


class Kind(NamedTuple):
    """A label of nodes or edges, which has a colour, or in a difference what became of them; whether
    it belongs to edges, and whether it is background.
    """

    label: str
    edge: bool
    signed: bool = False
    background: bool = False


class _Drawing:
    """The nodes and edges of a picture, those with the most edges if there are very many."""

    def __init__(self, picture: Picture, keys: Sequence[str], nodes: int) -> None:
        self.picture, self.all = picture, keys
        self.degree = Counter(k for e in picture.edges.values() for k in {e.source, e.target})
        behind = {key for key, node in picture.nodes.items() if node.background}
        most = sorted(keys, key=lambda key: (key in behind, -self.degree[key]))[:nodes]
        self.keys = most if len(keys) > nodes else keys
        self.place = {key: i for i, key in enumerate(self.keys)}
        drawn = (e for e in picture.edges.values() if {e.source, e.target} <= self.place.keys())
        self.edges = list(drawn)[:_EDGES]
        self.facts_first = any(not node.background for node in picture.nodes.values())
        self.kinds = Counter([*map(self._node_kind, self.keys), *map(self._edge_kind, self.edges)])
        self.colour = {kind: i for i, kind in enumerate(k for k in self.kinds if not k.background)}

    def _label(self, key: str) -> str:
        return self.picture.nodes[key].label if key in self.picture.nodes else ""

    def _node_kind(self, key: str) -> Kind:
        node = self.picture.nodes.get(key)
        if node is None:
            return Kind("", edge=False)
        behind = node.background and self.facts_first
        return Kind(node.sign or node.label, edge=False, signed=bool(node.sign), background=behind)

    def _edge_kind(self, edge: Arrow) -> Kind:
        behind = edge.background and self.facts_first
        return Kind(edge.sign or edge.label, edge=True, signed=bool(edge.sign), background=behind)

    def legend(self) -> list[dict[str, Any]]:
        """The labels with their colours and counts, those of the background as one; each lists the
        numbers of its kinds.
        """
        front = [
            self._switch([i], kind) for i, kind in enumerate(self.kinds) if not kind.background
        ]
        behind = [i for i, kind in enumerate(self.kinds) if kind.background]
        if not behind:
            return front if any(kind.label for kind in self.kinds) else []
        return [*front, self._switch(behind, *(list(self.kinds)[i] for i in behind))]

    def _switch(self, numbers: Sequence[int], *kinds: Kind) -> dict[str, Any]:
        names = [kind.label or ("other edges" if kind.edge else "other nodes") for kind in kinds]
        return {
            "kinds": " ".join(map(str, numbers)),
            "colour": self._colour(kinds[0]),
            "shape": None if kinds[0].edge else self._shape(kinds[0]),
            "text": ", ".join(names),
            "count": count(sum(self.kinds[kind] for kind in kinds)),
            "on": not kinds[0].background,
        }

    def _colour(self, kind: Kind) -> int | str:
        if kind.signed:
            return kind.label
        one = kind.edge and sum(each.edge for each in self.colour) == 1
        plain = kind.background or one or (kind.edge and not kind.label)
        return "none" if plain else self.colour[kind] % _KINDS

    def _shape(self, kind: Kind) -> str:
        return SHAPES[0 if kind.background else self.colour[kind] % len(SHAPES)]

    def notes(self) -> Iterator[str]:
        """Explanations that the drawing lacks."""
        if any(edge.end and not edge.sign for edge in self.edges):
            yield "Faded and dashed: no longer holds."

    def facts(self) -> dict[str, Any]:
        """The data for the page's script; ends are numbers of nodes, kinds those of `kinds`."""
        numbers = {kind: i for i, kind in enumerate(self.kinds)}
        of = [numbers[self._node_kind(key)] for key in self.keys]
        kinds = list(self.kinds)
        front = {i: n for n, i in enumerate(i for i, k in enumerate(of) if not kinds[k].background)}
        ends = [(self.place[edge.source], self.place[edge.target]) for edge in self.edges]
        pairs = [(front[a], front[b]) for a, b in ends if a in front and b in front]
        placed = layout(len(front), pairs)
        nodes = [self._node(key, of[i]) for i, key in enumerate(self.keys)]
        for i, n in front.items():
            x, y = placed.places[n]
            nodes[i] |= {"x": round(x, 4), "y": round(y, 4), "in": placed.within[n]}
        edges = (
            self._edge(edge, pair, numbers[self._edge_kind(edge)])
            for edge, pair in zip(self.edges, ends, strict=True)
        )
        return {
            "kinds": [
                {"label": k.label, "colour": self._colour(k), "behind": k.background,
                 "shape": "" if k.edge else self._shape(k), "sign": k.label if k.signed else ""}
                for k in kinds
            ],
            "clusters": placed.clusters,
            "nodes": nodes,
            "edges": list(edges),
        }  # fmt: skip

    def _node(self, key: str, kind: int) -> dict[str, Any]:
        node = self.picture.nodes.get(key)
        return {
            "name": shortened(self.picture.name(key), _TEXT),
            "label": self._label(key),
            "kind": kind,
            "facts": list(node.facts.items()) if node else [],
            "known": node is not None,
        }

    def _edge(self, edge: Arrow, ends: tuple[int, int], kind: int) -> dict[str, Any]:
        start, end = edge.period
        names = [self.picture.name(key) for key in edge.sources[:_SOURCES]]
        return {
            "ends": ends,
            "kind": kind,
            "name": shortened(edge.name, _TEXT),
            "label": edge.label,
            "text": shortened(edge.text, _TEXT),
            "holds": edge.holds,
            "from": start or edge.start,
            "to": end or edge.end,
            "sources": [shortened(name, _SOURCE) for name in names],
            "more": max(0, len(edge.sources) - _SOURCES),
        }


def _edges_table(picture: Picture, title: str) -> dict[str, Any]:
    edges = [*picture.front[0].values()]
    rest = f" The first {count(_ROWS)} of {count(len(edges))} edges." if len(edges) > _ROWS else ""
    listed = edges[:_ROWS]
    ends = [
        Column("from", [picture.name(e.source) for e in listed]),
        Column("edge", [e.name or e.label for e in listed]),
        Column("to", [picture.name(e.target) for e in listed]),
    ]
    facts = [
        Column("text", [e.text for e in listed]),
        Column("valid from", [e.start for e in listed]),
        Column("until", [e.end for e in listed]),
        Column("sources", [count(len(e.sources)) if e.sources else "" for e in listed]),
    ]
    used = [*ends, *(column for column in facts if any(column.cells))]
    return page_table(used, f"Edges of {title}.{rest}")


def _alone(picture: Picture) -> str:
    """A sentence on the nodes without an edge; "" if there are none."""
    alone = [node.name for node in picture.alone.values()]
    if not alone:
        return ""
    more = f" … and {count(len(alone) - _ROWS)} more" if len(alone) > _ROWS else ""
    lead = "Nodes without an edge: " if picture.edges else "Nodes: "
    return lead + ", ".join(alone[:_ROWS]) + more
