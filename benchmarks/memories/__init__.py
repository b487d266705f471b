"""Published memories and baselines over the same conversations, under one accounting."""
