"""Model outputs and training losses of a task."""
