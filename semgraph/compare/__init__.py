"""Comparisons of implementations and of plans: trials, truth, scores and records.

Data and scoring only: `request.Runner` runs plans, `semgraph.render` draws. Sessions and `render`
import this package.
"""
