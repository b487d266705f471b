"""From what people write (YAML, Python) to logical plans."""
