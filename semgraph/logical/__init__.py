"""What a plan computes: immutable, typed nodes."""
