"""HTML report over all results."""
