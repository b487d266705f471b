"""Language models and embedders, and what stands between them and their callers.

`base` has the protocols; `openai`, `local` and `embed` the models, with `faults`, `replies` and
`tokens`; `catalogue` fetches local ones, `recording` records and replays. `stack` wraps them (retry,
limits, budget, roles), `coalesce` sends equal requests once, `batch` many together, and `journal` keeps
paid answers. `settings`, `providers` and `endpoints` lead from the user's words to models.

Imports `stores.registry`, `errors` and the helpers below `logical`. `semantic` and everything above
imports it.
"""
