"""`semgraph doctor`: what works here, and what to do where it does not."""

from __future__ import annotations

from typing import Annotated

import typer

from semgraph.cli.common import Options, everywhere


@everywhere
def doctor(
    options: Options,
    call: Annotated[
        bool, typer.Option("--call", help="Send one real request to each model (< 100 tokens).")
    ] = False,
) -> None:
    """Check this installation: one line for each fact, with the remedy where something is
    missing.
    """
    from dataclasses import asdict

    from semgraph.render.doctor import BAD, facts

    found = list(facts(options.session(), call=call, told=options.talk))
    if options.json:
        options.dump([asdict(fact) for fact in found])
    else:
        options.show(*(line for fact in found for line in fact.lines(options.out.width)))
    if any(fact.sign == BAD for fact in found):
        raise typer.Exit(5)
