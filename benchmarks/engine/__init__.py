"""The cost of the engine itself: CPU, memory, time to start and to plan."""
