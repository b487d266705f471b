"""Tests of what needs packages that the development environment does not have; each file names the command that runs it."""
