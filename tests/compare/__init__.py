"""Variants and whole plans beside each other."""
