"""From searches, matches and writes to Cypher: text that depends only on their shape, and values that are always bound."""
