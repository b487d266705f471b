"""Scripts for developers of semgraph. They are not part of the package that users install."""
