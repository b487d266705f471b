"""Real models over labelled rows, synthetic worlds and public data sets."""
