"""Prompt builders: they turn rows, pairs and groups into requests, and replies into outcomes.

`builder` is the base of `items`, and keeps requests within a model's context.

`semantic.context` and implementations with prompts of their own import it.
"""
