"""Executors: where run batches are trained."""
