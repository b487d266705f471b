"""The model that answers from the text of a request; see `semgraph.checking.oracle`."""

from semgraph.checking.oracle import *  # noqa: F403
