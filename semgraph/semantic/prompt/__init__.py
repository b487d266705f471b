"""Prompts: rows, pairs and groups to requests, and replies to outcomes."""
