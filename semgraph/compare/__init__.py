"""Comparisons of implementations and of plans.

`request` checks the variants, runs `trial`s over a scratch copy of the store after a `preview` of
their cost, and scores them against the `truth`. `comparison` is the result and its record.

The package has data and scoring only: `request.Runner` runs plans, `semgraph.render` draws.
Sessions and `render` import it.
"""
