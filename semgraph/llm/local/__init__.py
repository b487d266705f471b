"""Local models: their `catalogue`, `download` and `gguf` files; and `model`, llama.cpp in this
process on a `worker` thread.

`llm.endpoints` imports the model when one is chosen; settings, `session`, `render` and `cli` the
catalogue and downloads.
"""
