"""Semantic operators, answered by a language model.

For authors of implementations: `contract` (items and outcomes, and `NodeCalls`, which sends the
requests of one node and counts them), `library` (the base class, its watched calls, the algorithms
of `cluster`, and how files are found), `context`, `answers` (schemas and tables of answers),
`verdicts` (by log-odds and by votes) and `prompt` (requests).
`dispatch` runs an operator; `rows`, `pairs` and `groups` make its items and assemble its result;
`ask` holds the code that they share.

Imports `relational`, `optimizer`, `llm` and the layers below. `physical` and the layers above
import it; `operators/` imports it through `semgraph.operator`.
"""
