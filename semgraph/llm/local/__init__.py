"""Local models: the catalogue, downloads, and llama.cpp in this process."""
