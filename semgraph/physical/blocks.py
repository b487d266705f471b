"""Which items may share a request: blocks of rows, and blocks of pairs.

Items of two partitions, two prompts or two contexts are kept apart before anything is cut, so the blocks of one partition do
not depend on what else is in the relation.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from semgraph.logical.semantic import Semantic
from semgraph.physical.contract import Rows


def blocks(
    node: Semantic,
    rows: Rows,
    *,
    left: int | None = None,
    right: int | None = None,
    pairs: int | None = None,
    order: str | None = None,
) -> list[list[int]]:
    """Cut the items into blocks, each item in one.

    Args:
        node: Whose items they are.
        rows: The items.
        left: At most so many left rows in a block; None: all that may be together.
        right: For pairs: at most so many distinct right rows; None: each left row keeps its whole list.
        pairs: For pairs: no further left row once a block would hold more pairs than this; one left row's own list may.
        order: A column of `rows.left` by which items are sorted before they are cut (NULL last); default: their order.

    Raises:
        ValueError: The prompts name no column `order`, or a size is below 1.
    """
    for name, size in (("left", left), ("right", right), ("pairs", pairs)):
        if size is not None and size < 1:
            raise ValueError(f"{name}={size}: a block holds at least 1")
    if order is not None and order not in rows.left.column_names:
        known = ", ".join(rows.left.column_names) or "none"
        raise ValueError(f'order="{order}" is no column that the prompts name; they name {known}')
    keys = Keys(node, rows)
    values = None if order is None else rows.left.column(order).to_pylist()
    found: list[list[int]] = []
    for together in apart(keys, range(rows.items.num_rows)):
        if values is not None:
            together.sort(key=lambda item: _sortable(values[keys.left[item]]))
        if rows.right is None:
            found += _cut(by_key(together, keys.left), left, None)
        else:
            found += _pair_blocks(rows, together, left, right, pairs)
    return found


def apart(keys: Keys, items: Iterable[int]) -> list[list[int]]:
    """Items split by partition, prompt, context and group, in order of first appearance."""
    found: dict[Hashable, list[int]] = {}
    for item in items:
        found.setdefault(keys.of(item), []).append(item)
    return list(found.values())


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is None, 0 if value is None else value)


class Keys:
    """What must be equal for two items to share a request."""

    def __init__(self, node: Semantic, rows: Rows) -> None:
        self.left: list[int] = rows.items.column("left").to_pylist()  # type: ignore[assignment]
        self._rows = rows
        self._contexts = [prompt.context for prompt in node.prompt.all]
        paths = dict.fromkeys(path for context in self._contexts for path in context.fields)
        self._columns = {path: rows.left.column(path).to_pylist() for path in paths}
        own_groups = node.keyword == "sem_agg"
        self._groups: list[Any] | None = rows.items.column("group").to_pylist() if own_groups else None
        self._rendered: dict[int, str] = {}

    def of(self, item: int) -> tuple[str, int, str, int]:
        """Partition, prompt, rendered context, and for sem_agg the group."""
        left = self.left[item]
        group = self._groups[item] if self._groups is not None else 0
        return self._rows.partition[left], self._rows.prompt[left], self.context(left), group

    def context(self, left: int) -> str:
        """The rendered context of a left row."""
        found = self._rendered.get(left)
        if found is None:
            context = self._contexts[self._rows.prompt[left]]
            values = {path: self._columns[path][left] for path in context.fields}
            found = self._rendered[left] = context.render(values).strip()
        return found


def _pair_blocks(
    rows: Rows, together: Sequence[int], left: int | None, right: int | None, pairs: int | None
) -> Iterator[list[int]]:
    lefts: list[int] = rows.items.column("left").to_pylist()  # type: ignore[assignment]
    rights: list[int] = rows.items.column("right").to_pylist()  # type: ignore[assignment]
    lists = by_key(together, lefts)
    if right is None:
        yield from _cut(lists, left, pairs)
        return
    for wide in _cut(lists, left, None):
        near = list(dict.fromkeys(rights[item] for item in wide))
        for i in range(0, len(near), right):
            some = set(near[i : i + right])
            yield from _cut(by_key([item for item in wide if rights[item] in some], lefts), None, pairs)


def by_key(items: Sequence[int], keys: Sequence[int]) -> list[list[int]]:
    """Items with equal keys together, in order of first appearance."""
    found: dict[int, list[int]] = {}
    for item in items:
        found.setdefault(keys[item], []).append(item)
    return list(found.values())


def _cut(lists: Sequence[list[int]], left: int | None, pairs: int | None) -> Iterator[list[int]]:
    """Join lists of pairs, a list for each left row, until `left` rows or `pairs` pairs are together."""
    block: list[int] = []
    members = 0
    for mine in lists:
        full = left is not None and members == left
        if block and (full or (pairs is not None and len(block) + len(mine) > pairs)):
            yield block
            block, members = [], 0
        block += mine
        members += 1
    if block:
        yield block
