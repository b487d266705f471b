"""Prompt builders: they turn rows, pairs and groups into requests, and replies into outcomes.

Only `semantic.context` and implementations with their own prompts import it.
"""
