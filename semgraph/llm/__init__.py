"""Language models and embedders, and the wrappers between them and their callers.

`base` has the protocols; `openai`, `local` and `embed` the models, with `faults`, `replies` and
`tokens`; `catalogue` fetches local ones, `recording` records and replays. `stack` wraps them (retry,
limits, budget, roles), `coalesce` merges equal requests, `batch` sends many in one file, and
`journal` stores paid answers. `settings`, `providers` and `endpoints` turn the user's configuration
into models.

Imports `stores.registry`, `errors` and the helpers below `logical`. `semantic` and everything above
imports it.
"""
