"""Choose the cheapest configuration of a plan that is shown to be good enough: `tuning` (the result),
`walk` (which candidate is tried next, and what is shown of it), `candidates`, `step` and `plans` (the
trials, with those of `compare`), `tuned` (the file of the choice).
"""
