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
    rules = "rules"
    prompts = "prompts"


@everywhere
def explain(
    options: Options,
    plan: Plan,
    input: Inputs = None,  # noqa: A002 - the option's name
    set: Params = None,  # noqa: A002 - the option's name
    preset: Preset = None,
    use: Uses = None,
    format: Annotated[Form, typer.Option(help="How it is drawn.")] = Form.tree,  # noqa: A002 - the option's name
    rules: Annotated[bool, typer.Option("--rules", help="What each rewrite changes.")] = False,
    queries: Annotated[
        bool, typer.Option("--queries", help="The SQL, and what the store is asked.")
    ] = False,
    prompts: Annotated[
        bool, typer.Option("--prompts", help="The first messages of each step, with tokens.")
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Run N rows for real, without writing; say what all would take.",
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="RUN", help="Put what that run did beside it.")
    ] = None,
) -> None:
    """Show what a plan will do, step by step, and what it will take. Nothing is written; only
    --sample asks a model.
    """
    from semgraph.frontend.inputs import read_inputs

    with options.session() as session:
        prepared = session.prepare(
            plan, params=parameters(set), preset=preset, use=pairs("--use", use)
        )
        given = {name: each.rows for name, each in read_inputs(input or (), prepared).items()}
        forms = [Form.rules] * rules + [Form.queries] * queries + [Form.prompts] * prompts
        for form in forms or [format]:
            found = session.explain(
                prepared,
                format=form.value,
                run=run,
                sample=sample,
                width=options.out.width,
                inputs=given,
            )
            options.show(*found.splitlines())
