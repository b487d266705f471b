"""EXPLAIN: estimates, the plan as a tree, as algebra or as a chart, first requests, and store
queries.
"""
