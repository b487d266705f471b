"""Comparisons of implementations and of plans.

`request` checks what is compared and runs `trial`s over a `scratch` copy of the store, after a
`preview` of their cost; `truth`, `score` and `graphs` rate them; `comparison` is the result and
`record` keeps it.

Data and scoring only: `request.Runner` runs plans, `semgraph.render` draws. Sessions and `render`
import this package.
"""
