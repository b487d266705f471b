"""Embedders: `openai` (endpoints), `local` (a model in ONNX) and `sentence_transformers`.

Only `llm.endpoints` imports them, when one is chosen.
"""
