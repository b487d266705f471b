"""Prompt builders: they turn rows, pairs and groups into requests, and replies into outcomes.

`builder` is the base of `rows`, `pairs`, `groups`, `reviews` and `samples`. `records` shows rows in
prompts, `answers` describes and reads answers, `budget` keeps requests within a model's context.

`semantic.context` and implementations with prompts of their own import it.
"""
