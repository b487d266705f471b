"""Beyond one process and beyond one million: runs by several workers, and large graphs."""
