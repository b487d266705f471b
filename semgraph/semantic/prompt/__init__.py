"""Prompts: prompt builders make requests of rows, pairs and groups, and read the replies into
outcomes.

Only `semantic.context` and implementations with prompts of their own import it.
"""
