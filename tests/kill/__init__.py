"""Runs that are killed at random moments and at named points, and what is left of them."""
