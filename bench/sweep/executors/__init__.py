"""Executors, which train run batches in this process, in worker processes or on a Ray cluster."""
