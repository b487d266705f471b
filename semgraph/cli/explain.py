"""`semgraph explain`: what a plan will do, or did."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from semgraph.cli.arguments import Inputs, Params, Plan, Preset, Uses, pairs, parameters
from semgraph.cli.common import Options, everywhere


class Form(StrEnum):
    """How a plan is drawn."""

    tree = "tree"
    algebra = "algebra"
    mermaid = "mermaid"
    json = "json"
    queries = "queries"


@everywhere
def explain(
    options: Options,
    plan: Plan,
    input: Inputs = None,  # noqa: A002 - the option's name
    set: Params = None,  # noqa: A002 - the option's name
    preset: Preset = None,
    use: Uses = None,
    format: Annotated[Form, typer.Option(help="How it is drawn.")] = Form.tree,  # noqa: A002 - the option's name
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Put what that run did beside it.")] = None,
) -> None:
    """Show what a plan will do, step by step. Nothing is asked and nothing is written."""
    from semgraph.frontend.files import read_inputs

    with options.session() as session:
        prepared = session.prepare(plan, params=parameters(set), preset=preset, use=pairs("--use", use))
        given = {name: each.rows for name, each in read_inputs(input or (), prepared).items()}
        options.show(*session.explain(prepared, format=format.value, run=run, inputs=given).splitlines())
