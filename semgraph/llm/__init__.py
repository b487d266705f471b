"""Language models and embedders: endpoints, the wrappers around them, the journal, settings and
prices. Imported by `semantic` and everything above it.
"""
