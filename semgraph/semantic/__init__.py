"""Semantic operators, answered by a language model.

For authors of implementations: `contract` (items, outcomes and costs), `implementation` (the base
class and its watched calls), `calls` (the requests of one node, counted), `context`, `answers`
(schemas and tables of answers), `verdicts` (by log-odds, by votes and by windows) and `prompt`
(requests).
`library` finds their files and has the algorithms of `cluster`.
`dispatch` runs an operator; `rows`, `pairs` and `groups` make its items and assemble its result;
`ask` holds the code that they share.

Imports `relational`, `optimizer`, `llm` and the layers below. `physical` and the layers above
import it; `operators/` imports it through `semgraph.operator`.
"""
