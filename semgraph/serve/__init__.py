"""Plans as tools for agents, by the Model Context Protocol (an extra).

`tools` makes a tool of a plan with its JSON Schemas, `server` answers the protocol, and `transports`
connects it to a client.
"""
