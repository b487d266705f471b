"""Implementations that need packages of their own, in an environment that has them: make
test-extras.
"""
