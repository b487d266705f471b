"""Plans as tools for agents, over the Model Context Protocol (an extra).

`tools` turns a plan into a tool with JSON Schemas, `server` answers the protocol, and `transports`
connects it to a client.
"""
