"""`python -m semgraph`: the command line."""

from __future__ import annotations

from semgraph.cli import main

if __name__ == "__main__":
    main()
