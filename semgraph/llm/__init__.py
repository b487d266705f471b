"""Language models and embedders behind one protocol, and the wrappers around them."""
