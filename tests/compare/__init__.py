"""Ways and whole plans beside each other."""
