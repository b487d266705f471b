"""Graphs against the true one, counted by hand: wrong graphs with the right counts are found
out.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semgraph.scores import Edge, ScoredGraph, ScoredNode, align, difference, moments, score_graph


def node(key: str, members: str, label: str = "") -> ScoredNode:
    """A node whose members are letters."""
    return ScoredNode(key, frozenset(members), label)


# Two people of three and two occurrences, a place of one.
TRUE_NODES = (node("P", "abc"), node("Q", "de"), node("R", "f"))
TRUE = ScoredGraph(
    TRUE_NODES,
    (
        Edge("P", "R", "in", start=1, end=5),
        Edge("P", "Q", "knows", start=2),
        Edge("Q", "R", "in", start=5),
    ),
)


def with_edges(*edges: Edge) -> ScoredGraph:
    return ScoredGraph(TRUE_NODES, edges)


class TestNodes:
    def test_keys_may_differ(self):
        graph = ScoredGraph(
            (node("1", "abc"), node("2", "de"), node("3", "f")),
            (Edge("1", "3", "in", start=1, end=5),),
        )
        found = score_graph(graph, TRUE)
        assert found.alignment == {"1": "P", "2": "Q", "3": "R"}
        assert (found.pairs.f1, found.b_cubed.f1, found.edges.precision, found.edges.recall) == (
            1,
            1,
            1,
            1 / 3,
        )

    def test_a_merged_pair_of_nodes(self):
        """abcde | f against abc | de | f: of 10 pairs 4 are right; B-cubed 3·3/5 + 2·2/5 + 1 of
        6.
        """
        found = score_graph(
            ScoredGraph((node("1", "abcde"), node("2", "f"))), ScoredGraph(TRUE_NODES)
        )
        assert (found.pairs.precision, found.pairs.recall) == (0.4, 1.0)
        assert found.b_cubed.precision == pytest.approx((9 / 5 + 4 / 5 + 1) / 6)
        assert found.b_cubed.recall == 1.0

    def test_a_split_node(self):
        """ab | c | de | f: 2 of 4 pairs; B-cubed recall 4/3 + 1/3 + 2 + 1 of 6."""
        split = ScoredGraph((node("1", "ab"), node("2", "c"), node("3", "de"), node("4", "f")))
        found = score_graph(split, ScoredGraph(TRUE_NODES))
        assert (found.pairs.precision, found.pairs.recall) == (1.0, 0.5)
        assert (found.b_cubed.precision, found.b_cubed.recall) == (
            1.0,
            pytest.approx((4 / 3 + 1 / 3 + 3) / 6),
        )

    def test_as_many_nodes_of_the_same_sizes_but_of_the_wrong_members(self):
        found = score_graph(
            ScoredGraph((node("1", "abd"), node("2", "ce"), node("3", "f"))),
            ScoredGraph(TRUE_NODES),
        )
        assert found.pairs.f1 == 0.25
        assert found.b_cubed.f1 < 0.7

    def test_a_missing_node_of_one_member_is_seen_by_b_cubed(self):
        found = score_graph(
            ScoredGraph((node("1", "abc"), node("2", "de"))), ScoredGraph(TRUE_NODES)
        )
        assert found.pairs.f1 == 1.0
        assert (found.b_cubed.precision, found.b_cubed.recall) == (1.0, pytest.approx(5 / 6))

    def test_a_node_written_twice_costs_precision(self):
        found = score_graph(ScoredGraph((*TRUE_NODES, node("P'", "abc"))), ScoredGraph(TRUE_NODES))
        assert (found.b_cubed.precision, found.b_cubed.recall) == (pytest.approx(6 / 9), 1.0)
        assert found.pairs.precision == 4 / 7

    def test_a_wrong_label_is_a_wrong_node(self):
        graph = ScoredGraph((node("P", "ab", "Place"), node("Q", "c", "Person")))
        found = score_graph(
            graph, ScoredGraph((node("P", "ab", "Person"), node("Q", "c", "Person")))
        )
        assert found.alignment == {"Q": "Q"}
        assert (found.b_cubed.precision, found.b_cubed.recall) == (1 / 3, 1 / 3)

    def test_an_alignment_is_the_best_of_all_and_one_to_one(self):
        """1 has as much in common with P as with Q, but 2 has something in common with P alone."""
        assert align((node("1", "abxy"), node("2", "c")), (node("P", "abc"), node("Q", "xy"))) == {
            "1": "Q",
            "2": "P",
        }

    def test_where_members_are_sources_names_say_which_is_which(self):
        """Two sources speak of two nodes each; one graph took the two nodes of the second for those
        of the first.
        """
        truth = ScoredGraph(
            (
                ScoredNode("A", frozenset("1"), name="ann"),
                ScoredNode("B", frozenset("12"), name="bo"),
                ScoredNode("C", frozenset("2"), name="cy"),
            )
        )
        assert score_graph(truth, truth).b_cubed.f1 == 1.0
        merged = ScoredGraph(
            (
                ScoredNode("x", frozenset("12"), name="ann"),
                ScoredNode("y", frozenset("12"), name="bo"),
            )
        )
        found = score_graph(merged, truth)
        assert found.alignment == {"x": "A", "y": "B"}
        assert (found.pairs.precision, found.pairs.recall) == (0.5, 1.0)
        assert (found.b_cubed.precision, found.b_cubed.recall) == (0.75, 1.0)

    def test_without_members_keys_are_compared(self):
        found = score_graph(
            ScoredGraph((ScoredNode("a"), ScoredNode("x"))),
            ScoredGraph((ScoredNode("a"), ScoredNode("b"))),
        )
        assert found.alignment == {"a": "a"}
        assert found.b_cubed.f1 == 0.5


class TestEdges:
    def test_as_many_edges_as_in_truth_but_others(self):
        found = score_graph(
            with_edges(Edge("R", "P", "in"), Edge("P", "Q", "hates"), Edge("Q", "P", "in")), TRUE
        )
        assert found.edges.counts == (0, 3, 3)

    def test_an_edge_counts_once(self):
        found = score_graph(with_edges(*[Edge("P", "Q", "knows", start=2)] * 3), TRUE)
        assert found.edges.counts == (1, 3, 3)

    def test_an_edge_of_a_node_that_is_none_is_wrong(self):
        graph = ScoredGraph((*TRUE_NODES, node("X", "z")), (Edge("X", "R", "in"),))
        assert score_graph(graph, TRUE).edges.counts == (0, 1, 3)

    def test_properties_are_part_of_what_an_edge_says(self):
        truth = with_edges(
            Edge("P", "Q", "owes", {"amount": 3}), Edge("P", "Q", "owes", {"amount": 4})
        )
        found = score_graph(
            with_edges(Edge("P", "Q", "owes", {"amount": 3}), Edge("P", "Q", "owes")), truth
        )
        assert found.edges.counts == (1, 2, 2)

    def test_tallies_of_two_graphs_can_be_compared(self):
        good, bad = score_graph(TRUE, TRUE), score_graph(with_edges(*TRUE.edges[:2]), TRUE)
        assert difference(bad.tally, good.tally).value == pytest.approx(0.8 - 1.0)


class TestNothingToJudge:
    def test_what_neither_graph_has_has_no_score(self):
        found = score_graph(ScoredGraph((node("1", "a"),)), ScoredGraph((node("P", "a"),)))
        assert (found.pairs.f1, found.edges.f1, found.ended.f1, found.validity) == (
            None,
            None,
            None,
            None,
        )
        assert found.b_cubed.f1 == 1.0

    def test_edges_on_one_side_are_judged(self):
        assert score_graph(ScoredGraph(TRUE_NODES), TRUE).edges.f1 == 0.0
        assert score_graph(TRUE, ScoredGraph(TRUE_NODES)).edges.f1 == 0.0

    def test_nodes_of_which_none_is_a_true_one_are_worth_nothing(self):
        """Also where the true one stands for nothing in the sources, and where one side has no
        nodes.
        """
        others = ScoredGraph((node("1", "x"), node("2", "y")))
        for truth in (
            ScoredGraph((node("P", "a"),)),
            ScoredGraph((node("P", ""),)),
            ScoredGraph(()),
        ):
            assert score_graph(others, truth).b_cubed.f1 == 0.0
            assert score_graph(truth, others).b_cubed.f1 == 0.0
        assert (
            score_graph(ScoredGraph((node("1", ""),)), ScoredGraph((node("P", ""),))).b_cubed.f1
            == 0.0
        )
        assert score_graph(ScoredGraph(()), ScoredGraph(())).b_cubed.f1 is None

    def test_at_a_time_at_which_nothing_holds(self):
        found = score_graph(TRUE, TRUE, times=[0, 3])
        assert [held.f1 for _, held in found.at] == [None, 1.0]
        assert found.validity.f1 == 1.0
        assert score_graph(TRUE, TRUE, times=[0]).validity.f1 is None


class TestTime:
    def test_which_edges_hold_at_each_moment(self):
        """Never ended: right at 1 and 2, one too many from 5 on."""
        graph = with_edges(
            Edge("P", "R", "in", start=1),
            Edge("P", "Q", "knows", start=2),
            Edge("Q", "R", "in", start=5),
        )
        found = score_graph(graph, TRUE)
        assert [(time, held.counts) for time, held in found.at] == [
            (1, (1, 1, 1)),
            (2, (2, 2, 2)),
            (5, (2, 3, 2)),
        ]
        assert found.validity.counts == (5, 6, 5)
        assert found.edges.f1 == 1.0
        assert (found.ended.precision, found.ended.recall) == (None, 0.0)

    def test_as_many_endings_but_of_the_wrong_edge(self):
        graph = with_edges(
            Edge("P", "R", "in", start=1),
            Edge("P", "Q", "knows", start=2, end=5),
            Edge("Q", "R", "in", start=5),
        )
        found = score_graph(graph, TRUE)
        assert found.ended.counts == (0, 1, 1)
        assert found.edges.f1 == 1.0
        assert dict(found.at)[5].counts == (1, 2, 2)

    def test_the_right_ending_at_the_wrong_time_is_right_as_an_ending_only(self):
        late = Edge("P", "R", "in", start=1, end=9)
        found = score_graph(with_edges(late, *TRUE.edges[1:]), TRUE, times=[4, 6, 10])
        assert found.ended.f1 == 1.0
        assert [held.f1 == 1.0 for _, held in found.at] == [True, False, True]

    def test_what_is_said_again_after_it_ended_is_matched_with_its_own_time(self):
        truth = with_edges(Edge("P", "R", "in", start=1, end=3), Edge("P", "R", "in", start=6))
        assert score_graph(with_edges(*reversed(truth.edges)), truth).ended.f1 == 1.0
        both = with_edges(Edge("P", "R", "in", start=1), Edge("P", "R", "in", start=6, end=8))
        assert score_graph(both, truth).ended.counts == (0, 1, 1)

    def test_times_may_be_dates(self):
        begin, end = datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 2, 1, tzinfo=UTC)
        graph = with_edges(Edge("P", "Q", "knows", start=begin, end=end))
        assert moments(graph) == [begin, end]
        assert score_graph(graph, graph).validity.f1 == 1.0

    def test_many_moments_are_thinned_out_evenly(self):
        graph = with_edges(*(Edge("P", "Q", "knows", start=i) for i in range(1000)))
        found = moments(graph, most=5)
        assert found == [0, 250, 500, 749, 999]

    def test_without_times_there_is_no_validity(self):
        assert score_graph(with_edges(Edge("P", "Q")), with_edges(Edge("P", "Q"))).validity is None


@st.composite
def graphs(draw) -> ScoredGraph:
    owners = draw(st.lists(st.integers(0, 4), min_size=1, max_size=10))
    groups = {o: frozenset(i for i, other in enumerate(owners) if other == o) for o in owners}
    nodes = tuple(ScoredNode(f"n{o}", members) for o, members in groups.items())
    key = st.sampled_from([n.key for n in nodes])
    time = st.none() | st.integers(0, 5)
    return ScoredGraph(
        nodes,
        tuple(
            draw(
                st.lists(
                    st.builds(Edge, key, key, st.sampled_from("uv"), start=time, end=time),
                    max_size=8,
                )
            )
        ),
    )


def shuffled(graph: ScoredGraph, chance: random.Random) -> ScoredGraph:
    return ScoredGraph(
        tuple(chance.sample(graph.nodes, len(graph.nodes))),
        tuple(chance.sample(graph.edges, len(graph.edges))),
    )


class TestProperties:
    @given(graphs())
    @settings(max_examples=60, deadline=None)
    def test_the_truth_scores_one_against_itself(self, truth):
        found = score_graph(truth, truth)
        scores = [
            found.pairs,
            found.b_cubed,
            found.edges,
            found.ended,
            *([found.validity] if found.validity else []),
        ]
        assert {each.f1 for each in scores if any(each.counts)} == {1.0}
        assert {each.f1 for each in scores if not any(each.counts)} <= {None}

    @given(graphs(), graphs(), st.randoms(use_true_random=False))
    @settings(max_examples=60, deadline=None)
    def test_the_order_of_nodes_and_edges_changes_nothing(self, graph, truth, chance):
        assert score_graph(graph, truth) == score_graph(
            shuffled(graph, chance), shuffled(truth, chance)
        )

    @given(graphs())
    @settings(max_examples=60, deadline=None)
    def test_merging_two_nodes_lowers_precision_and_not_recall(self, truth):
        if len(truth.nodes) < 2:
            return
        one, other, *rest = truth.nodes
        merged = ScoredNode("m", one.members | other.members)
        found = score_graph(ScoredGraph((merged, *rest)), ScoredGraph(truth.nodes))
        assert found.pairs.precision < 1
        assert found.b_cubed.precision < 1
        assert found.b_cubed.recall == pytest.approx(1)

    @given(graphs())
    @settings(max_examples=60, deadline=None)
    def test_splitting_a_node_lowers_recall_and_not_precision(self, truth):
        whole = max(truth.nodes, key=lambda n: len(n.members))
        if len(whole.members) < 2:
            return
        first, *others = sorted(whole.members)
        parts = (ScoredNode("s", frozenset({first})), ScoredNode("t", frozenset(others)))
        found = score_graph(
            ScoredGraph((*parts, *(n for n in truth.nodes if n is not whole))),
            ScoredGraph(truth.nodes),
        )
        assert found.pairs.recall < 1
        assert found.b_cubed.recall < 1
        assert found.b_cubed.precision == pytest.approx(1)
