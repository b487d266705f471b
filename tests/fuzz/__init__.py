"""Random plans, each evaluated with the optimizer, without it, and by an evaluator of its own in
plain Python.
"""
