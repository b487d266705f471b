"""Language models and embedders, and what stands between them and their callers.

`base` has the protocols; `openai`, `local` and `embed` the endpoints, with `faults`, `tokens`,
`prices` and `logprobs`; `recording` records and replays them. `stack` wraps them (retry, limits,
budget, roles), `coalesce` sends equal requests once, and `journal` keeps paid answers. `settings`,
`specs` and `endpoints` lead from the user's words to models.

Imports `errors` and the helpers below `logical`. `semantic` and everything above imports it.
"""
