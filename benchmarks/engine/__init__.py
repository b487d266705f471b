"""What the engine itself takes: CPU of its own, memory, time to start and to plan."""
