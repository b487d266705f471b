"""What a real model makes of the same tasks: one that is named when it is run, with a limit to what
it may cost.
"""
