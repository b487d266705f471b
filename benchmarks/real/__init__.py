"""The same tasks with a real model, chosen at run time, under a limit of dollars."""
