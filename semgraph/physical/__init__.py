"""From logical plans to what is run: the planner, searches, reads of the store, operators in
memory.
"""
