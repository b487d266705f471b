"""Rewrites of logical plans."""
