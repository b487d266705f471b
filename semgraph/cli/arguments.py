"""Options that several commands share: what is run, on which rows, with which parameters and
ways.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from semgraph.errors import PlanError, Problem

Plan = Annotated[
    str, typer.Argument(metavar="PLAN", help="A file, or a name: semgraph plans list.")
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "-i",
        "--input",
        metavar="NAME=FILE|-|TEXT|[]",
        help="Rows: .jsonl, .csv, .parquet; FILE:COLUMN=SOURCE,… renames; - is a text, -.jsonl rows; [] is none.",
    ),
]
Params = Annotated[
    list[str] | None, typer.Option("--set", metavar="PARAM=VALUE", help="A parameter of the plan.")
]
Preset = Annotated[str | None, typer.Option(metavar="NAME", help="A preset of the plan.")]
Uses = Annotated[
    list[str] | None,
    typer.Option("--use", metavar="STEP=WAY", help="How a step is answered: block(left=10)."),
]
MaxUsd = Annotated[
    float | None, typer.Option(metavar="N", help="Stop before spending more dollars.")
]
MaxCalls = Annotated[int | None, typer.Option(metavar="N", help="Stop before more calls.")]
MaxTokens = Annotated[int | None, typer.Option(metavar="N", help="Stop before more tokens.")]
MaxSeconds = Annotated[float | None, typer.Option(metavar="N", help="Stop after so many seconds.")]


class OnError(StrEnum):
    """What becomes of a row whose answer failed."""

    RAISE = "raise"
    NULL = "null"


def pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """`NAME=VALUE`s by name. Raises PlanError."""
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise PlanError(
                Problem(f'{option} "{text}" sets nothing', hint=f"Write {option} NAME=VALUE")
            )
        if name in found:
            raise PlanError(Problem(f"{option} {name}= is given twice"))
        found[name] = value
    return found


def parameters(given: list[str] | None) -> dict[str, Any]:
    """The values of `--set`: JSON where it is JSON, else text. Raises PlanError."""
    import json

    found: dict[str, Any] = {}
    for name, text in pairs("--set", given).items():
        try:
            found[name] = json.loads(text)
        except json.JSONDecodeError:
            found[name] = text
    return found
