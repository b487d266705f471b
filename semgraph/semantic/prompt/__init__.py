"""Prompt builders: they turn rows, pairs and groups into requests, and replies into outcomes.

`builder` holds the base classes of `items` and limits requests to the model's context.

`semantic.context` and implementations with prompts of their own import it.
"""
