"""The semantic operators and the sinks of the fluent API."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from semgraph.frontend.naming import makes_step

if TYPE_CHECKING:
    from semgraph.frontend.frame import Columns, Frame, Names, Order, Using

OnError = Literal["raise", "null"]
Prompt = str | Mapping[str, str]
Types = Mapping[str, Any]


class SemanticMethods:
    """Operators that a model answers, and what writes. A prompt is a question, a file's name, or `{"by": COLUMN, ...}`."""

    @abstractmethod
    def then(self, keyword: str, arguments: Any) -> Frame:
        """An operator of the language on this relation."""

    @makes_step
    def embed(self, add: Columns) -> Frame:
        """Each row with vectors, the embeddings of texts; a text is embedded once a run, NULL stays NULL.

        >>> from semgraph.frontend.sources import table
        >>> table([{"id": 1, "body": "The kettle leaks."}]).embed({"vector": "body"})
        Frame(embed: id int64, body string, vector vector)
        """
        return self.then("embed", add)

    @makes_step
    def sem_map(
        self,
        prompt: Prompt,
        add: Types | None = None,
        when: str | None = None,
        otherwise: Columns | None = None,
        on_error: OnError = "raise",
        schema: str | None = None,
    ) -> Frame:
        """Each row with typed columns that the model answers; rows without `when` are not asked and take `otherwise`.

        `schema` is a column that says, row by row, what the json answer holds: `{"field": {"type": "string"}}`.

        >>> from semgraph.frontend.sources import table
        >>> tickets = table([{"id": 1, "body": "The kettle leaks."}])
        >>> tickets.sem_map("Which product is {body} about?", add={"product": "string"}).columns
        ['id', 'body', 'product']
        """
        rest = {"when": when, "otherwise": otherwise, "on_error": on_error}
        return self.then("sem_map", {"prompt": prompt, "add": add, **rest, "schema": schema})

    @makes_step
    def sem_filter(self, prompt: Prompt, on_error: OnError = "raise") -> Frame:
        """The rows for which the model says yes."""
        return self.then("sem_filter", {"prompt": prompt, "on_error": on_error})

    @makes_step
    def sem_join(
        self,
        other: Frame | str,
        alias: str,
        prompt: Prompt,
        using: Using | None = None,
        where: str | None = None,
        keep: Literal["all", "one"] = "all",
        order: Order | None = None,
        how: Literal["inner", "left", "semi", "anti"] = "inner",
        add: Types | None = None,
        on_error: OnError = "raise",
    ) -> Frame:
        """Pairs for which the model says yes, among those that `using` and `where` allow."""
        pairs = {"other": other, "alias": alias, "using": using, "where": where}
        rest = {"keep": keep, "order": order, "how": how, "add": add, "on_error": on_error}
        return self.then("sem_join", {"prompt": prompt, **pairs, **rest})

    @makes_step
    def sem_agg(
        self,
        prompt: Prompt,
        by: Names | None = None,
        order: Order | None = None,
        alone: Columns | None = None,
        add: Types | None = None,
        on_error: OnError = "raise",
    ) -> Frame:
        """A row for each group of equal `by`, with answers made from its rows; a group of one takes `alone`."""
        rest = {"order": order, "alone": alone, "add": add, "on_error": on_error}
        return self.then("sem_agg", {"prompt": prompt, "by": by, **rest})

    @makes_step
    def sem_topk(self, prompt: Prompt, k: int, per: Names | None = None, on_error: OnError = "raise") -> Frame:
        """The `k` best rows of each group of equal `per`, best first, with `rank` and `score`."""
        return self.then("sem_topk", {"prompt": prompt, "k": k, "per": per, "on_error": on_error})

    def merge(
        self,
        node: str | None = None,
        edge: str | None = None,
        key: str | None = None,
        source: str | None = None,
        target: str | None = None,
        set: Columns | None = None,  # noqa: A002 - the word of the language
        create: Columns | None = None,
        unite: Sequence[str] | str | None = None,
        only: Literal["existing"] | None = None,
        first: bool = False,
    ) -> Frame:
        """What writes these rows as nodes or edges; give it to `plan(writes=[...])`."""
        ends = {"key": key, "source": source, "target": target}
        rest = {"set": set, "create": create, "unite": unite, "only": only, "first": first}
        return self.then("merge", {"node": node, "edge": edge, **ends, **rest})

    def delete(
        self, node: str | None = None, edge: str | None = None, key: str | None = None, detach: bool = False
    ) -> Frame:
        """What deletes the nodes or edges of these rows; give it to `plan(writes=[...])`."""
        return self.then("delete", {"node": node, "edge": edge, "key": key, "detach": detach})
