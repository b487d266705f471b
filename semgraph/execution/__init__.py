"""Running a physical plan: windows, waves, running ahead, records."""
