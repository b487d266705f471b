"""Palimpzest by itself, as its users call it: a filter, a labelled sample, the cheapest model at a
quality. `python -m benchmarks.tune.palimpzest_itself` reads lines of JSON and prints a line for each; it
runs in an environment without semgraph.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

_MODELS = "pz_models_information.json"


def _informed(prices: Mapping[str, list[float]]) -> Any:
    """Palimpzest, with the file of models that it ships in place of the one that it downloads, and with
    these prices of a million tokens.
    """
    import importlib.util

    import requests

    spec = importlib.util.find_spec("palimpzest")
    assert spec is not None
    assert spec.origin is not None
    file = Path(spec.origin).parent / "utils" / _MODELS
    models = json.loads(file.read_text(encoding="utf-8"))
    for name, (tokens_in, tokens_out) in prices.items():
        used = {"usd_per_input_token": tokens_in / 1e6, "usd_per_output_token": tokens_out / 1e6}
        models[name] |= used
    sys.modules.setdefault("sentence_transformers", mock.MagicMock())  # of joins; with torch, 6 GB
    answer = mock.Mock(json=mock.Mock(return_value=models))
    with mock.patch.object(requests, "get", return_value=answer):
        import palimpzest
    return palimpzest


def choose(given: Mapping[str, Any]) -> dict[str, Any]:
    """The model that Palimpzest chooses, what its search cost by its own count, and its calls.

    Args:
        given: `url`, `prices` by model, `asked`, `rows` with `text` and `keep`, the least `quality` (the
            share of right rows), `usd` for the search, `seed`.
    """
    os.environ |= {"OPENAI_API_BASE": given["url"], "OPENAI_BASE_URL": given["url"]}
    pz = _informed(given["prices"])
    keep = {row["text"]: row["keep"] for row in given["rows"]}

    class Labels(pz.Validator):  # type: ignore[misc, name-defined]
        def filter_score_fn(self, _: str, record: dict[str, Any], output: bool) -> float:
            return float(keep[record["text"]] == output)

    def data(rows: list[Any]) -> Any:
        return pz.MemoryDataset("rows", [{"text": row["text"]} for row in rows])

    config = pz.QueryProcessorConfig(
        policy=pz.MinCostAtFixedQuality(given["quality"]),
        available_models=[pz.constants.Model(name) for name in given["prices"]],
        allow_mixtures=False,
        allow_critic=False,
        allow_rag_reduction=False,
        sample_cost_budget=given["usd"],
        k=len(given["prices"]),
        seed=given["seed"],
        progress=False,
    )
    found = data(given["rows"][:1]).sem_filter(given["asked"])
    found = found.optimize_and_run(config, train_dataset=data(given["rows"]), validator=Labels())
    stats = found.execution_stats
    (plan,) = stats.plan_stats.values()
    used = [name for name in given["prices"] if name in plan.model_dump_json()]
    return {"model": ", ".join(used), "usd": stats.optimization_cost}


def main() -> None:
    """Answer each line of the standard input until its end. An error is an answer."""
    out = sys.stdout
    for line in sys.stdin:
        try:
            with contextlib.redirect_stdout(sys.stderr):
                reply = choose(json.loads(line))
        except Exception as error:  # noqa: BLE001 - reported to the caller
            reply = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(reply) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
