"""Where the graph lives: one protocol, two stores."""
