"""Which items share a block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semgraph.conformance.cases import Case


def join(pairs: Iterable[tuple[int, int]], **more: list[str]) -> Case:
    pairs = list(pairs)
    lefts, rights = max(i for i, _ in pairs) + 1, max(j for _, j in pairs) + 1
    return Case(
        "sem_join",
        [f"l{i}" for i in range(lefts)],
        others=[f"r{j}" for j in range(rights)],
        pairs=pairs,
        **more,
    )


def shown(case: Case, **options: object) -> list[str]:
    """Blocks as their pairs, `l0r1 l0r2`."""
    rows = case.rows()
    pairs = [f"l{item.left}r{item.right}" for item in rows.items]
    return [
        " ".join(pairs[item] for item in block) for block in rows.blocks(case.node(), **options)
    ]  # type: ignore[arg-type]


GRID = [(i, j) for i in range(3) for j in range(3)]


def test_rows_are_cut_in_order() -> None:
    case = Case("sem_map", list("abcdefg"))
    assert case.rows().blocks(case.node(), left=3) == [[0, 1, 2], [3, 4, 5], [6]]
    assert case.rows().blocks(case.node()) == [[0, 1, 2, 3, 4, 5, 6]]


@pytest.mark.parametrize("size", ["left", "right", "pairs"])
def test_a_block_of_nothing_is_refused(size: str) -> None:
    case = join(GRID)
    with pytest.raises(ValueError, match=f"{size}=0: a block holds at least 1"):
        case.rows().blocks(case.node(), **{size: 0})


def test_rows_are_sorted_by_a_column_before_they_are_cut_nulls_last() -> None:
    case = Case("sem_map", ["c", None, "a", "b", "a"])
    assert case.rows().blocks(case.node(), left=2, order="name") == [[2, 4], [3, 0], [1]]


def test_without_a_bound_on_the_right_each_left_row_keeps_its_whole_list() -> None:
    assert shown(join(GRID), left=2) == ["l0r0 l0r1 l0r2 l1r0 l1r1 l1r2", "l2r0 l2r1 l2r2"]
    assert shown(join(GRID), left=1) == ["l0r0 l0r1 l0r2", "l1r0 l1r1 l1r2", "l2r0 l2r1 l2r2"]


def test_with_both_bounds_pairs_are_cut_as_a_grid() -> None:
    assert shown(join(GRID), left=2, right=2) == [
        "l0r0 l0r1 l1r0 l1r1",
        "l0r2 l1r2",
        "l2r0 l2r1",
        "l2r2",
    ]


def test_with_a_bound_on_the_right_alone_all_left_rows_meet_some_right_rows() -> None:
    assert shown(join(GRID), right=2) == ["l0r0 l0r1 l1r0 l1r1 l2r0 l2r1", "l0r2 l1r2 l2r2"]


def test_only_candidate_pairs_are_in_blocks_and_no_block_is_empty() -> None:
    assert shown(join([(0, 0), (1, 2), (2, 3)]), left=2, right=2) == ["l0r0 l1r2", "l2r3"]


def test_a_cap_on_pairs_ends_a_block_but_never_cuts_a_left_row_s_list() -> None:
    pairs = [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2), (2, 3)]
    assert shown(join(pairs), pairs=3) == ["l0r0 l0r1 l1r0", "l2r0 l2r1 l2r2 l2r3"]
    assert shown(join(GRID), right=2, pairs=4) == [
        "l0r0 l0r1 l1r0 l1r1",
        "l2r0 l2r1",
        "l0r2 l1r2 l2r2",
    ]


@pytest.mark.parametrize("what", ["partition", "kind", "reference"])
def test_rows_of_two_partitions_prompts_or_contexts_are_apart_before_they_are_cut(
    what: str,
) -> None:
    case = Case("sem_map", list("abcdef"), by=True, context=True)
    setattr(case, what, [*list("abab"), "a", "b"])
    assert case.rows().blocks(case.node(), left=2) == [[0, 2], [4], [1, 3], [5]]


def test_a_context_that_no_prompt_names_keeps_nothing_apart() -> None:
    case = Case("sem_map", list("abcd"), reference=list("wxyz"))
    assert case.rows().blocks(case.node()) == [[0, 1, 2, 3]]


def test_groups_are_apart_where_they_are_aggregated_and_not_where_rows_are_scored() -> None:
    case = Case("sem_agg", list("abcd"), group=[0, 1, 0, 1])
    assert case.rows().groups() == [[0, 1], [2, 3]]
    assert case.rows().blocks(case.node()) == [[0, 1], [2, 3]]
    scored = replace(case, operator="sem_topk")
    assert scored.rows().blocks(scored.node()) == [[0, 1, 2, 3]]


bound = st.none() | st.integers(1, 4)


@settings(deadline=None)
@given(
    st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1),
    st.lists(st.sampled_from("pq"), min_size=6, max_size=6),
    bound, bound, bound,
)  # fmt: skip
def test_every_pair_is_in_one_block_within_the_bounds(
    pairs: set[tuple[int, int]],
    whose: list[str],
    left: int | None,
    right: int | None,
    most: int | None,
) -> None:
    case = join(sorted(pairs))
    case.partition = whose[: len(case.texts)]
    items = case.rows().items
    blocks = case.rows().blocks(case.node(), left=left, right=right, pairs=most)
    assert sorted(item for block in blocks for item in block) == list(range(len(items)))
    for block in blocks:
        lefts, rights = {items[i].left for i in block}, {items[i].right for i in block}
        assert len({case.partition[i] for i in lefts}) == 1
        assert left is None or len(lefts) <= left
        assert right is None or len(rights) <= right
        assert most is None or len(block) <= most or len(lefts) == 1
