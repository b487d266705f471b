"""Search: seconds beside those of the bare parts, at several sizes."""
