"""The cost of remembering messages, apart from the model."""
