"""Models on this machine: catalogue, download, and llama.cpp in this process."""
