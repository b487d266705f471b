"""Comparing ways of a step over one frozen input, and whole plans in scratch copies."""
