"""Searches for the cheapest configuration that is shown to be good enough."""
