"""Comparisons of implementations and of plans.

`request` checks what is compared, runs `trial`s over a scratch copy of the store after a `preview`
of their cost, and rates them against the `truth`; `comparison` is the result and its record.

Data and scoring only: `request.Runner` runs plans, `semgraph.render` draws. Sessions and `render`
import this package.
"""
