"""Every implementation of every operator over one task each, beside LOTUS by itself: calls, rounds,
seconds, CPU, quality.
"""
