"""Semantic operators, answered by a language model.

For authors of implementations: `contract` (items and outcomes), `implementation` (the base class, and
its watched calls), `context`, `answers` (tables of answers), `verdicts` (by log-odds and by votes) and
`prompt` (requests); `clustering` for those of `cluster`. `library` finds implementations, `calls`
sends the requests of one node and counts them.
`operators` answers a semantic operator: `rows`, `pairs` and `groups` make its items and its result,
`ask` has what they share.

Imports `relational`, `optimizer`, `llm` and what lies below. `physical` and everything above
imports it; `operators/` imports it through `semgraph.operator`.
"""
