"""Comparing the algorithms of a step that clusters."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.compare.record import load_comparison
from semgraph.conformance.oracle import Mind, Oracle
from semgraph.errors import InputError, PlanError

PLAN = """
plan: teams
inputs:
  people: {place: string, name: string null}
  talks: {place: string, a: string, b: string, times: double}
steps:
  teams: [{from: talks}, {cluster: {nodes: people, by: place, key: name, source: a, target: b, weight: times, algorithm: louvain}}]
  close: [{from: talks}, {cluster: {nodes: people, by: place, key: name, source: a, target: b}}]
returns: [teams, close]
"""
OWN = """
def cluster(keys, edges, vectors, seed, at: int = 1) -> list[int]:
    return [int(place >= at) for place in range(len(keys))]
"""
PEOPLE = [{"place": place, "name": name} for place in ("rome", "oslo") for name in "abcdef"]
TALKS = [
    {"place": place, "a": a, "b": b, "times": 1.0}
    for place in ("rome", "oslo")
    for group in ("abc", "def")
    for a, b in combinations(group, 2)
] + [{"place": "rome", "a": "c", "b": "d", "times": 1.0}]
INPUTS = {"people": [*PEOPLE, {"place": "rome", "name": None}], "talks": TALKS}


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "mine" / "cluster" / "halves.py"
    file.parent.mkdir(parents=True)
    file.write_text(OWN)
    (tmp_path / "teams.yaml").write_text(PLAN)
    return tmp_path / "teams.yaml"


def compared(plan: Path, variants: Any, **options: Any) -> semgraph.Comparison:
    folder = plan.parent
    with semgraph.Session(
        llm=Oracle(Mind()), store="memory", folder=folder, operators=[folder / "mine"], runs=folder
    ) as session:
        options = {"step": "teams", "inputs": INPUTS, "say": None} | options
        return session.compare(plan, variants=variants, **options)


def test_algorithms_cluster_the_same_rows_and_are_compared_with_the_plans_own(plan: Path) -> None:
    result = compared(plan, ["halves", "louvain", "leiden"])
    assert result.reference == "louvain"
    assert result.frozen["rows"] == {"talks": 13, "people": 13}
    halves, louvain, leiden = (result[name].quality for name in ("halves", "louvain", "leiden"))
    assert (louvain.pairs, louvain.b_cubed) == (None, None)
    assert (leiden.pairs, leiden.b_cubed) == (1, 1)
    assert louvain.clusters == leiden.clusters == 4
    # {a}, {b, c, d, e, f} beside {a, b, c}, {d, e, f}: 4 of 10 pairs, and of 6
    assert halves.pairs == pytest.approx(2 * 0.4 * (4 / 6) / (0.4 + 4 / 6))
    assert louvain.modularity is not None
    assert halves.modularity is not None
    # 12 of 13 edges are within; the degrees of the four are 7, 7, 6 and 6 of 26
    assert louvain.modularity == pytest.approx(12 / 13 - (49 + 49 + 36 + 36) / 26**2)
    assert halves.modularity < louvain.modularity
    assert all(arm.cold.calls == 0 for arm in result)
    text = str(result)
    assert "clusters" in text
    assert "modularity" in text
    assert "└" not in text, "no chart of costs without costs"
    assert result.record is not None
    assert load_comparison(result.id, plan.parent)["halves"].quality == halves
    different = result.disagreements("halves", "louvain").to_pylist()
    assert [(row["place"], row["name"]) for row in different] == [
        (place, name) for place in ("rome", "oslo") for name in "bcdef"
    ]


def test_algorithms_are_scored_by_a_truth_that_names_its_clusters_as_it_likes(plan: Path) -> None:
    truth = [
        {"place": "rome", "name": name, "cluster": "left" if name in "abc" else "right"}
        for name in "abcde"
    ]
    truth.append({"place": "bern", "name": "a", "cluster": "left"})
    result = compared(plan, {"one": "louvain", "two": "halves(at=2)"}, truth=truth)
    assert result["one"].quality.pairs == result["one"].quality.b_cubed == 1
    # {a, b}, {c, d, e} beside {a, b, c}, {d, e}
    assert result["two"].quality.pairs == 0.5
    assert result.notes == (
        "1 node of the truth is not among the rows: ignored",
        "the truth does not cover 7 of 12 nodes: not scored",
    )


@pytest.mark.parametrize(
    ("variants", "options", "said"),
    [
        (["louvian"], {}, 'unknown algorithm "louvian".*Did you mean "louvain"'),
        (["louvain", "components"], {}, "components is exact"),
        (["kmeans"], {}, "it needs vector"),
        (["louvain"], {"step": "close"}, "step close does not call the model"),
        (["louvain"], {"truth": [{"name": "a", "cluster": "x"}]}, 'has no column "place"'),
        (
            ["louvain"],
            {"truth": [{"place": "x", "name": "a", "cluster": "x"}]},
            "covers none of the 12 nodes",
        ),
        (["louvain"], {"inputs": {"people": [], "talks": []}}, "step teams has no nodes"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_refused(
    plan: Path, variants: list[str], options: dict[str, Any], said: str
) -> None:
    with pytest.raises((PlanError, InputError), match=said):
        compared(plan, variants, **options)


def test_a_step_that_clusters_windows_is_compared_in_whole_plans(plan: Path) -> None:
    windows = "windows: {input: talks, partition: place, order: [times], key: a}\nsteps:"
    text = (
        PLAN.replace("steps:", windows)
        .replace("nodes: people, ", "")
        .replace("key: name", "key: a")
    )
    plan.write_text(text)
    with pytest.raises(PlanError, match="each window by itself.*--variant A:teams=louvain"):
        compared(plan, ["louvain"], inputs={"talks": TALKS[:1], "people": []})
