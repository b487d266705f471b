"""Comparisons of implementations and of plans: trials, truth, scores, and the record of a
comparison.
"""
