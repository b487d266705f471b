"""Semantic operators, answered by a language model.

For authors of implementations: `contract` (with rows as text), `answers` (tables of answers),
`verdicts` (by log-odds and by votes) and `prompt` (requests); `clustering` for those of `cluster`.
`library` finds implementations, `context` calls models and embedders for them, `watch` times them.
`operators` answers a semantic operator: `rows`, `pairs` and `groups` make its items and its result,
`ask` has what they share.

Imports `relational`, `optimizer`, `llm` and what lies below. `physical` and everything above
imports it; `operators/` imports it through `semgraph.operator`.
"""
