"""Embedders: OpenAI-compatible endpoints, a model in ONNX, sentence-transformers."""
