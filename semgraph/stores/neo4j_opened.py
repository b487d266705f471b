"""What a database was found to have when it was opened: where that is all that a graph needs, it is not looked for again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from semgraph.logical.schema import Graph
from semgraph.stores.cypher import schema


@dataclass(frozen=True)
class Opened:
    """Indexes and constraints that were there for a graph, and the lengths of its vectors, as far as they are known.

    Args:
        graph: What it was opened for.
        asked: The length of vectors that it was opened with; None: nobody knew.
        there: Its indexes and constraints.
        lengths: Of vectors, by label and property.
    """

    graph: Graph
    asked: int | None
    there: Sequence[schema.Index]
    lengths: Mapping[tuple[str, str], int]

    @classmethod
    def of(
        cls, graph: Graph, asked: int | None, there: Sequence[schema.Index], stored: Mapping[tuple[str, str], int]
    ) -> Opened:
        """All vectors are as long as those that are asked for; else as the `stored` ones are, where there are any."""
        names = [(label.name, name) for label in graph.labels.values() for name in label.vectors.values()]
        return cls(graph, asked, there, stored if asked is None else dict.fromkeys(names, asked))

    def serves(self, graph: Graph, dimensions: int | None) -> bool:
        """Whether this is all that is to be known to open it for a graph and vectors of a length."""
        return dimensions in {None, self.asked} and graph == self.graph and self._lacks_nothing

    @cached_property
    def _lacks_nothing(self) -> bool:
        lacking = schema.missing(self.graph, self.asked, self.there) or schema.own(self.there)
        return self.asked is not None and not lacking
