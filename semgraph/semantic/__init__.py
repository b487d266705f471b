"""Semantic operators: the contract of implementations, their library, and evaluation; `prompt`
makes the requests.
"""
