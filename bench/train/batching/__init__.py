"""Mini-batch schedules and the samples they index."""
