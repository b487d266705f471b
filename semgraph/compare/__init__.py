"""Comparisons of implementations and of plans.

`request` is what is asked, and the record. `loop` prepares the arms, implementations of a `step` or
whole `plans`, prints a `preview` of their cost, runs each `trial` over copies of the store, and
scores them against the `truth`. `comparison` is the result.

The package has data and scoring only: `request.Runner` runs plans, `semgraph.render` draws.
Sessions and `render` import it.
"""
